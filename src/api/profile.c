/* profile.c - heap profiles: which call stacks hold how much                           layer 8: api
 * Owns:    nothing.   Called by: the program, profile_file.c.   Calls: pprof.c, callback.c,
 *          start.c, ext.c, heap, stock, support, os.
 * Threads: any; a profile may or may not show what others do meanwhile. */
#include "api.h"

#include <errno.h>
#if !defined(ENODATA) /* FreeBSD */
#define ENODATA ENOATTR
#endif

#include "../heap/visit.h"
#include "../stock/sample.h"
#include "../support/poisson.h"
#include "pprof.h"

FH_API bool fh_profile_start(size_t interval) {
  api_start();
  if (sample_start(interval)) return true;
  api_no_memory();
  return false;
}

FH_API void fh_profile_hooks(fh_profile_hook_t *allocated, fh_profile_hook_t *freed,
                             void *context) {
  api_start();
  api_callback_set(CALLBACK_SAMPLED, (void *)allocated, context);
  api_callback_set(CALLBACK_FREED, (void *)freed, context);
  sample_on_block(api_sampled);
}

/* ---- what is written ------------------------------------------------------------------------- */

static uint64_t rounded(uint64_t blocks) { return (blocks + POISSON_ONE / 2) / POISSON_ONE; }
static uint64_t blocks_of(const callstack_sum_t *sum) {
  return rounded(atomic64_load_relaxed(&sum->blocks));
}
static uint64_t bytes_of(const callstack_sum_t *sum) { return atomic64_load_relaxed(&sum->bytes); }

/* Calls `write` for the stacks or pairs with these numbers. */
typedef void write_stack_t(pprof_t *p, uint32_t n, const callstack_t *s, const uintptr_t *frames);
static void write_stacks(pprof_t *p, uint32_t n, uint32_t end, write_stack_t *write) {
  const uintptr_t *frames;
  for (; n < end; n++) {
    const callstack_t *s = callstack_at(n, &frames);
    if (s != NULL) write(p, n, s, frames);
  }
}

static void write_stack(pprof_t *p, uint32_t n, const callstack_t *s, const uintptr_t *frames) {
  uint64_t values[] = {blocks_of(&s->allocated), bytes_of(&s->allocated), blocks_of(&s->peak),
                       bytes_of(&s->peak),       blocks_of(&s->live),     bytes_of(&s->live)};
  (void)n;
  if (values[0] != 0) pprof_sample(p, frames, callstack_length(s), values, NULL, 0);
}

static void write_heap(pprof_t *p) {
  static const char *const types[] = {"alloc_objects", "alloc_space",   "peak_objects",
                                      "peak_space",    "inuse_objects", "inuse_space"};
  for (unsigned i = 0; i < ARRAY_LENGTH(types); i++)
    pprof_value_type(p, types[i], i % 2 == 0 ? "count" : "bytes");
  write_stacks(p, 0, callstack_count(), write_stack);
}

/* From the outermost frame of the allocation to its innermost, then those of the free. */
static void write_freed(pprof_t *p, uint32_t n, const callstack_t *s, const uintptr_t *pair) {
  uintptr_t unpaired[] = {n, CALLSTACK_UNKNOWN};
  uintptr_t frames[2 * CALLSTACK_FRAMES + 1]; /* at most PPROF_FRAMES */
  size_t count = 0;
  for (unsigned i = 2; i-- > 0;) {
    const uintptr_t *part;
    const callstack_t *of = callstack_at((uint32_t)(n < CALLSTACKS ? unpaired : pair)[i], &part);
    for (uint32_t k = 0; of != NULL && k < callstack_length(of); k++) frames[count++] = part[k];
    if (i == 1) frames[count++] = PPROF_FREED_BY;
  }
  uint64_t values[] = {atomic64_load_relaxed(&s->lifetime), blocks_of(&s->freed),
                       bytes_of(&s->freed)};
  if (values[1] != 0) pprof_sample(p, frames, count, values, NULL, 0);
}

static void write_lifetimes(pprof_t *p) {
  pprof_value_type(p, "lifetime", "milliseconds"); /* pprof shows the last type */
  pprof_value_type(p, "freed_objects", "count");
  pprof_value_type(p, "freed_space", "bytes");
  write_stacks(p, 0, callstack_count(), write_freed);
  write_stacks(p, CALLSTACKS, callstack_pairs_end(), write_freed);
}

typedef struct {
  pprof_t *out;
  uint64_t thread, heap, age; /* numbers of these strings */
  uint64_t rounding;          /* the last block's: a fraction of 2^64 */
} labels_t;

/* Rounds a weight up as often as its fraction says. Multiples of the golden ratio lie evenly, so
 * sums over a stack, a thread or a heap are off by less than with random rounding. */
static void write_block(const sampled_t *block, void *context) {
  labels_t *l = context;
  const uintptr_t *frames;
  uint64_t up = (l->rounding += bits_golden) / (UINT64_MAX / POISSON_ONE + 1);
  uint64_t blocks = (sampled_blocks(block) + up) / POISSON_ONE;
  const callstack_t *s = callstack_at(sampled_stack(block), &frames);
  if (blocks == 0 || s == NULL) return;
  uint64_t values[] = {blocks, sampled_bytes(block)};
  pprof_label_t labels[] = {
    {l->thread, atomic32_load_relaxed(&block->thread)},
    {l->age, os_ms_between(atomic32_load_relaxed(&block->since), os_now_ms())},
    {l->heap, (uintptr_t)atomic_ptr_load_relaxed(&block->heap)},
  };
  size_t label_count = labels[2].value != 0 ? 3 : 2;
  pprof_sample(l->out, frames, callstack_length(s), values, labels, label_count);
}

static void write_blocks(pprof_t *p) {
  pprof_value_type(p, "inuse_objects", "count");
  pprof_value_type(p, "inuse_space", "bytes");
  labels_t labels = {p, pprof_string(p, "thread"), pprof_string(p, "heap"),
                     pprof_string(p, "age_ms"), 0};
  heap_visit_sampled(write_block, &labels);
}

static size_t count_frames(void) {
  const uintptr_t *frames;
  size_t count = 0;
  for (uint32_t n = 0, end = callstack_count(); n < end; n++) {
    const callstack_t *s = callstack_at(n, &frames);
    count += s != NULL ? callstack_length(s) : 0;
  }
  return count;
}

bool api_profile_write(int file, fh_profile_t kind) {
  static void (*const writers[])(pprof_t * p) = {write_heap, write_blocks, write_lifetimes};
  char comment[160];
  fmt_t f;
  pprof_t *p = pprof_begin(file, count_frames() + CALLSTACK_FRAMES);
  if (p == NULL) return false;
  writers[kind](p);
  fmt_start(&f, comment, sizeof comment, NULL, NULL);
  fmt_print(&f, "freehold %s; sampled calls whose stack is not known: %lu", fh_version_string(),
            callstack_unknown());
  return pprof_end(p, atomic64_load_relaxed(&sample_interval), fmt_end(&f));
}

FH_API bool fh_profile_write(int file, fh_profile_t kind) {
  int error = (unsigned)kind > FH_PROFILE_LIFETIMES ? EINVAL : !sample_has_stacks() ? ENODATA : 0;
  if (error == 0 && api_profile_write(file, kind)) return true;
  errno = error != 0 ? error : EIO;
  return false;
}
