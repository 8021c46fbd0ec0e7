/* sample.c - which blocks are sampled, and what is counted of them                   layer 5: stock
 * Contract: sample.h. */
#include "sample.h"

#include "../base/layout.h"
#include "../base/probe.h"
#include "stock.h"

atomic64_t sample_interval, sample_guard_interval;
atomic32_t sample_started;
LAYOUT_VARIABLE(sample_interval);
LAYOUT_VARIABLE(sample_started);

static atomic64_t live_bytes, peak_bytes; /* of all stacks; at the last snapshot. relaxed: sums */

bool sample_start(uint64_t interval) {
  if (interval != 0 && !callstack_start()) return false;
  atomic64_store_relaxed(&sample_interval, min_size(interval, POISSON_MEAN_MOST));
  if (interval != 0) atomic32_store_release(&sample_started, 1); /* S-stack */
  return true;
}

void sample_start_guards(uint64_t interval) {
  atomic64_store_relaxed(&sample_guard_interval, interval);
  atomic32_store_release(&sample_started, 1); /* S-stack */
}

/* ---- points ---------------------------------------------------------------------------------- */

bool sample_find_point(heap_t *h, unsigned c, size_t size) {
  uint64_t mean = sample_mean();
  heap_sampled_t *d = sample_of(h);
  ASSERT(sample_was_started());
  if (mean == 0 || sample_is_far(d, c, size)) return false;
  if (d->random == 0) d->random = (uintptr_t)h ^ (uint64_t)os_now_ms() << 32;
  if (d->mean != mean) memset(d->until, 0, sizeof d->until); /* draws the points ahead anew */
  d->mean = mean;
  if (d->until[c] == 0) d->until[c] = poisson_distance(&d->random, mean);
  return d->until[c] <= size;
}

void sample_renew_bin(heap_t *h, unsigned c) {
  heap_sampled_t *d = sample_of(h);
  ASSERT(h->bin[c] == 0 && d->behind[c] != 0);
  h->bin[c] = d->behind[c];
  d->behind[c] = 0;
  sample_new_bin(h, c, d->count[c]);
}

void sample_cut_bin(heap_t *h, unsigned c, unsigned count) {
  heap_sampled_t *d = sample_of(h);
  size_t size = class_size(c), all = count * size;
  ASSERT(h->bin[c] != 0 && count != 0 && d->behind[c] == 0);
  if (!sample_find_point(h, c, all)) return sample_pass_bytes(h, c, all);
  unsigned before = (unsigned)max_size((d->until[c] - 1) / size, 1);
  uintptr_t last = h->bin[c];
  for (unsigned i = 1; i < before && last != 0; i++) last = block_next(last);
  if (last == 0) return;
  d->behind[c] = block_next(last);
  d->count[c] = count - before;
  block_set_next(last, 0);
  sample_pass_bytes(h, c, before * size);
}

bool sample_is_cut(const heap_t *h, unsigned c) {
  return unlikely(sample_was_started()) && sample_of(h)->behind[c] != 0;
}

void sample_move_bin(heap_t *to, heap_t *from, unsigned c) {
  heap_sampled_t *d = sample_of(from), *there = sample_of(to);
  there->behind[c] = d->behind[c];
  there->count[c] = d->count[c];
  d->behind[c] = 0;
  d->until[c] = 0; /* the bin's blocks are not handed out here */
}

uintptr_t *sample_return_bin(heap_t *h, unsigned c) {
  sample_of(h)->until[c] = 0;
  return &sample_of(h)->behind[c];
}

/* ---- growth ---------------------------------------------------------------------------------- */

/* relaxed: two words, each set once and read by itself; the third decides which thread calls */
static atomic64_t call_step;
static atomic_ptr_t call_at_growth;
static atomic64_t call_from;

void sample_on_growth(uint64_t step, void (*call)(void)) {
  atomic_ptr_store_relaxed(&call_at_growth, (void *)call);
  atomic64_store_relaxed(&call_step, step);
}

/* If two threads see the same growth, only one calls. */
static void note_growth(uint64_t live) {
  void (*call)(void) = (void (*)(void))atomic_ptr_load_relaxed(&call_at_growth);
  uint64_t step = atomic64_load_relaxed(&call_step), from = atomic64_load_relaxed(&call_from);
  if (call == NULL || step == 0 || live < from + step) return;
  if (atomic64_cas_relaxed(&call_from, &from, live)) call();
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void add_weight(callstack_sum_t *sum, uint64_t blocks, uint64_t bytes) {
  atomic64_add_relaxed(&sum->blocks, blocks);
  atomic64_add_relaxed(&sum->bytes, bytes);
}

enum { PEAK_PARTS = 32 }; /* a new peak must pass the last one by such a part */

/* Makes the present state the state at the peak. Takes time in proportion to the call stacks, each
 * time live bytes have grown by a part of PEAK_PARTS. If threads see the same growth, one does it.
 * If that one ends meanwhile, some sums stay those of the last peak until the next. */
static cold void note_peak(uint64_t last, uint64_t live) {
  if (!atomic64_cas_relaxed(&peak_bytes, &last, live)) return;
  for (uint32_t n = 0; n < callstack_count(); n++) {
    callstack_t *s = callstack_at(n, NULL);
    if (s == NULL) continue;
    atomic64_store_relaxed(&s->peak.blocks, atomic64_load_relaxed(&s->live.blocks));
    atomic64_store_relaxed(&s->peak.bytes, atomic64_load_relaxed(&s->live.bytes));
  }
}

/* For a large, huge or guarded block. `slab`: NULL unless it is large; `cell`: NULL if guarded. */
typedef struct {
  slab_t *slab;
  sampled_t *sampled;
  atomic64_t *size;
  atomic_ptr_t *cell;
} record_t;
static record_t record_of(void *p) {
  uintptr_t tenant = map_find(p);
  huge_t *b = map_record(tenant);
  if (map_kind(tenant) == TENANT_GUARDED) {
    guard_slot_t *guarded = guard_slot_of(map_record(tenant), p);
    return (record_t){NULL, &guarded->sampled, &guarded->size, NULL};
  }
  if (map_kind(tenant) == TENANT_HUGE) return (record_t){NULL, &b->sampled, &b->size, &b->cell};
  slab_t *s = slab_of(p);
  return (record_t){s, &s->sampled, &s->size, &s->cell};
}

static atomic_ptr_t block_call; /* sample_visitor_t; relaxed: code, set once */

void sample_on_block(sample_visitor_t *call) {
  atomic_ptr_store_relaxed(&block_call, (void *)call);
}

static void call_for(void *p, size_t size, uint64_t bytes, bool is_freed) {
  sample_visitor_t *call = (sample_visitor_t *)atomic_ptr_load_relaxed(&block_call);
  if (is_freed) probe_sampled_free(p, size, bytes);
  else probe_sampled_malloc(p, size, bytes);
  if (call != NULL) call(p, size, bytes, is_freed);
}

static uint32_t stack_here(void) {
  uintptr_t frames[CALLSTACK_FRAMES];
  bool by_tables = option_get(OPTION_profile_stack) == STACK_TABLES;
  return callstack_intern(frames, os_backtrace(frames, CALLSTACK_FRAMES, by_tables));
}

void sample_begin(heap_t *h, unsigned c, void *p, size_t size) {
  record_t of = record_of(p);
  sampled_t *block = of.sampled;
  sample_of(h)->until[c] = 0;
  if (!sample_is_profiling()) return;
  ASSERT(of.slab == NULL || slab_kind(slab_word(of.slab)) == SLAB_LARGE);
  uint64_t blocks = poisson_weight(size, sample_of(h)->mean);
  uint32_t stack = stack_here();
  callstack_t *s = callstack_at(stack, NULL);
  const void *cell = of.cell == NULL ? NULL : atomic_ptr_load_relaxed(of.cell);
  atomic_ptr_store_relaxed(&block->heap, index_heap(cell));
  atomic32_store_relaxed(&block->since, os_now_ms());
  atomic32_store_relaxed(&block->thread, os_thread_number());
  atomic64_store_relaxed(&block->size, size);
  sampled_set(block, blocks, stack);
  uint64_t bytes = sampled_bytes(block);
  if (of.slab != NULL) atomic32_store_relaxed(&of.slab->kind, slab_word(of.slab) | SLAB_IS_SAMPLED);
  add_weight(&s->allocated, blocks, bytes);
  add_weight(&s->live, blocks, bytes);
  uint64_t live = atomic64_add_relaxed(&live_bytes, bytes) + bytes,
           peak = atomic64_load_relaxed(&peak_bytes);
  if ((int64_t)live > (int64_t)(peak + peak / PEAK_PARTS)) note_peak(peak, live);
  note_growth(live);
  call_for(p, size, bytes, false);
}

void sample_note_large(heap_t *h, void *p) {
  size_t size = atomic64_load_relaxed(record_of(p).size);
  if (sample_find_point(h, SAMPLE_LARGE, size)) sample_begin(h, SAMPLE_LARGE, p, size);
  else sample_pass_bytes(h, SAMPLE_LARGE, size);
}

/* The block that is freed here was allocated at `stack`. */
static void note_lifetime(uint32_t stack, uint64_t blocks, uint64_t bytes, uint32_t ms) {
  callstack_t *s = callstack_at(callstack_pair(stack, stack_here()), NULL);
  uint64_t part = blocks % POISSON_ONE * ms; /* no product has more than 64 bits */
  uint32_t before = atomic32_add_relaxed(&s->lifetime_part, (uint32_t)part) % POISSON_ONE;
  add_weight(&s->freed, blocks, bytes);
  atomic64_add_relaxed(&s->lifetime, blocks / POISSON_ONE * ms + (before + part) / POISSON_ONE);
}

cold void sample_end(void *p) {
  record_t of = record_of(p);
  sampled_t *block = of.sampled;
  uint64_t blocks = sampled_blocks(block), bytes = sampled_bytes(block);
  uint32_t stack = sampled_stack(block);
  if (blocks == 0) return;
  callstack_t *s = callstack_at(stack, NULL);
  note_lifetime(stack, blocks, bytes,
                os_ms_between(atomic32_load_relaxed(&block->since), os_now_ms()));
  sampled_set(block, 0, CALLSTACK_UNKNOWN);
  add_weight(&s->live, 0 - blocks, 0 - bytes);
  atomic64_add_relaxed(&live_bytes, 0 - bytes);
  call_for(p, atomic64_load_relaxed(&block->size), bytes, true);
}

void sample_note_resized(heap_t *h, void *p) {
  record_t of = record_of(p);
  bool was_sampled = of.slab == NULL || (slab_word(of.slab) & SLAB_IS_SAMPLED) != 0;
  if (was_sampled) sample_end(p);
  if (of.slab != NULL)
    atomic32_store_relaxed(&of.slab->kind, slab_word(of.slab) & ~SLAB_IS_SAMPLED);
  sample_note_large(h, p);
}
