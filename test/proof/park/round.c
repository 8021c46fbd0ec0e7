/* round.c - a round of work: what everybody else does while the subject is stopped */
#include "park.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GIVEN_MOST = 512, LEFT = 24, GROWTH_MOST = 40, PAIRS_MOST = 2048, SMALL_MOST = 16384 };

/* ---- blocks that change hands ---------------------------------------------------------------- */

static void *given[GIVEN_MOST], *left[LEFT];
static unsigned given_count;

void give(void *p) {
  if (given_count == GIVEN_MOST) park_fail("too many blocks are given");
  given[given_count++] = p;
}

bool is_given(const void *p) {
  for (unsigned i = 0; i < given_count; i++)
    if (given[i] == p) return true;
  return false;
}

static void put_given(void) {
  while (given_count > 0) put(given[--given_count]);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static size_t next_class(size_t size) {
  size_t doubling = 512;
  if (size < 512) return size + 16;
  while (doubling * 2 <= size) doubling *= 2;
  return size + doubling / 8;
}

/* One block of the larger ones: each lies in pages of its own, and a page costs more than a
 * call. */
static void use_every_class(void) {
  for (size_t size = 16; size <= SMALL_MOST; size = next_class(size)) {
    void *p = get(size), *q = size <= PAIRS_MOST ? get(size) : NULL;
    put(p);
    if (q != NULL) put(q);
  }
}

/* Part of what it allocates outlives it. */
static void use_as_thread(void) {
  for (unsigned i = 0; i < LEFT; i++) left[i] = get(24 + i * 600);
  for (unsigned i = 0; i < LEFT; i += 2) {
    put(left[i]);
    left[i] = NULL;
  }
}

static void start_and_end_thread(void) {
  in_thread(use_as_thread);
  for (unsigned i = 0; i < LEFT; i++)
    if (left[i] != NULL) put(left[i]);
}

static bool without_big;
void round_leave_out_big(bool is_left_out) { without_big = is_left_out; }

static void use_large(void) {
  if (api.realloc == NULL) return put(get(KIB(100)));
  void *p = get(KIB(20)), *q = resize(get(3000), KIB(300));
  p = resize(p, KIB(100));
  p = resize(p, KIB(20));
  put(q);
  put(resize(p, MIB(1)));
  if (!without_big) put(get(huge_size()));
}

static void use_aligned(void) {
  if (api.aligned_alloc == NULL) return;
  for (size_t alignment = 64; alignment <= KIB(256); alignment *= 64) {
    void *p = hold(api.aligned_alloc(alignment, 2 * alignment), 2 * alignment);
    if ((uintptr_t)p % alignment != 0) park_fail("%p is not aligned to %zu", p, alignment);
    put(p);
  }
}

static void use_zeroed(size_t count) {
  if (api.calloc == NULL) return;
  char *p = api.calloc(count, 8);
  for (size_t i = 0; p != NULL && i < count * 8; i++)
    if (p[i] != 0) park_fail("calloc: byte %zu of %zu is not zero", i, count * 8);
  put(hold(p, count * 8));
}

/* Large blocks until one lies in another window: the first arena has no more room. */
static void grow(void) {
  void *blocks[GROWTH_MOST];
  unsigned n = 0;
  uintptr_t window = 0;
  for (bool grown = false; !grown && n < GROWTH_MOST; n++) {
    blocks[n] = hold_untouched(api.malloc(MIB(31)), MIB(31));
    if (n == 0) window = (uintptr_t)blocks[0] >> 30;
    grown = (uintptr_t)blocks[n] >> 30 != window;
  }
  while (n > 0) put(blocks[--n]);
}

static void look_at_statistics(void) {
  fh_stats_t stats;
  stats.struct_size = sizeof stats;
  EXPECT(api.stats_get(&stats));
  EXPECT(stats.committed <= stats.mapped);
  shadow_check_visit(SIZE_MAX);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

void round_short(void) {
  void *p = get(64), *q = get(2048);
  put(get(64));
  put(q);
  if (api.realloc != NULL) p = resize(p, 700);
  put(get(KIB(100)));
  use_zeroed(20);
  if (api.aligned_alloc != NULL) put(hold(api.aligned_alloc(64, 256), 256));
  put(p);
}

void round_whole(void) {
  put_given();
  use_every_class();
  start_and_end_thread();
  use_large();
  use_aligned();
  use_zeroed(100);
  use_zeroed(KIB(3));
  if (!library_is_freehold()) return;
  look_at_statistics();
  if (!without_big) grow();
  api.collect(true);
}

void round_in_child(void) {
  round_short();
  shadow_check();
  shadow_put_all();
  start_and_end_thread();
  if (library_is_freehold()) look_at_statistics();
}

/* ---- the same, counted ----------------------------------------------------------------------- */

static void *counted[2];
static void count_malloc(void) { counted[0] = api.malloc(64); }
static void count_free(void) { api.free(counted[0]); }
static void count_malloc_first(void) { counted[0] = api.malloc(1100); }
static void count_malloc_large(void) { counted[0] = api.malloc(KIB(100)); }
static void count_grow(void) { counted[0] = api.malloc(MIB(31)); }
static void count_huge(void) { counted[0] = api.malloc(huge_size()); }
static void count_realloc(void) { counted[0] = api.realloc(counted[0], KIB(200)); }
static void count_aligned(void) { counted[0] = api.aligned_alloc(KIB(128), KIB(128)); }
static void count_collect(void) { api.collect(true); }
static void count_free_given(void) { api.free(given[given_count]); }

/* A counted instruction takes 20 us and more. So what only the size of the heap bounds is counted
 * in some rounds only. Of the frees that are put off, which are all alike, the first is. Where
 * blocks are filled each byte is an instruction (rep stosb): the big ones are left out there. */
enum { SELDOM = 8 };
static const struct {
  const char *name;
  void (*run)(void);
  bool frees_given, is_seldom, is_big;
} counted_work[] = {
  {"malloc, first in its thread", count_malloc, false, false, false},
  {"free, first in its thread", count_free, false, false, false},
  {"malloc, small", count_malloc, false, false, false},
  {"free, small", count_free, false, false, false},
  {"malloc, first of its class", count_malloc_first, false, false, false},
  {"free, first of its class", count_free, false, false, false},
  {"malloc, large", count_malloc_large, false, false, true},
  {"realloc, large", count_realloc, false, false, true},
  {"free, large", count_free, false, false, true},
  {"aligned_alloc, large", count_aligned, false, false, true},
  {"free, aligned", count_free, false, false, true},
  {"malloc, with growth", count_grow, false, false, true},
  {"free, with purge", count_free, false, false, true},
  {"malloc, huge", count_huge, false, false, true},
  {"free, huge", count_free, false, false, true},
  {"free, of the stopped thread's block", count_free_given, true, false, false},
  {"fh_collect", count_collect, false, true, false},
};

static round_worst_t *worst;

size_t round_worst(const round_worst_t **table) {
  if (worst == NULL) {
    worst = shared_memory(sizeof *worst * COUNT_OF(counted_work));
    for (size_t i = 0; i < COUNT_OF(counted_work); i++) worst[i].name = counted_work[i].name;
  }
  *table = worst;
  return COUNT_OF(counted_work);
}

static void only_count(uintptr_t instruction) { (void)instruction; }

static void count(size_t kind) {
  step_begin(only_count);
  counted_work[kind].run();
  step_end();
  if (step_taken() > worst[kind].worst) worst[kind].worst = step_taken();
}

static void count_frees_of_given(size_t kind) {
  for (bool is_first = true; given_count > 0; is_first = false) {
    void *p = given[--given_count];
    release(p);
    if (is_first || !oracle_is_chained(p)) count(kind);
    else counted_work[kind].run();
  }
}

void round_counted(void) {
  bool is_whole = __atomic_fetch_add(&shared->counted_rounds, 1, __ATOMIC_RELAXED) % SELDOM == 0;
  for (size_t i = 0; i < COUNT_OF(counted_work); i++) {
    if (counted_work[i].is_big && without_big) continue;
    if (counted_work[i].frees_given) count_frees_of_given(i);
    else if (is_whole || !counted_work[i].is_seldom) count(i);
  }
}
