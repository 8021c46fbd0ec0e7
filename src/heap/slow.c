/* slow.c - malloc, where the fast path could not do it                                layer 6: heap
 * Contract: slow.h. */
#include "slow.h"

#include "../base/probe.h"
#include "../slab/states.h"
#include "../stock/stock.h"
#include "enter.h"

atomic32_t heap_longer;

void heap_note_longer(void) {
  if (atomic32_load_relaxed(&heap_longer) == 0) atomic32_store_relaxed(&heap_longer, 1);
}

/* Memory is short. What the heap keeps may make room, and at the hard limit so may free pages
 * between large blocks. Both help a block with its own mapping only at the hard limit. */
static cold bool clear_room(heap_t *h, size_t size, size_t alignment) {
  bool is_huge = large_is_huge(size, alignment);
  size_t slices = align_up(max_size(size, 1), SLICE_SIZE);
  if (is_huge && !runs_may_give_room(h, slices)) return false;
  if (is_huge && !budget_is_spent(slices)) return true; /* another thread has made room */
  heap_clear_room(h);
  magazine_empty(h);
  while (budget_is_spent(slices) && heap_end_rest()) continue; /* Bound: RESTING_PAGES */
  return runs_give_room(slices) || !is_huge;
}

/* Allocates between guards, if they are due and a slot is free. */
static void *allocate_guarded(heap_t *h, unsigned c, size_t size, size_t alignment) {
  size_t counted = c != SAMPLE_LARGE ? class_size(c) : align_up(size, os_page_size());
  if (!sample_find_point(h, c, counted)) return NULL;
  void *block = guard_malloc(h, size, alignment);
  if (block != NULL) sample_begin(h, c, block, counted);
  return block;
}

/* Allocates a large block, or one that stands for a block of class `c` that must be sampled. NULL:
 * no sample is due, or there is no memory for it: one of the class will do. */
static cold void *allocate_sampled(heap_t *h, unsigned c, size_t size, size_t alignment) {
  bool is_small = c != SAMPLE_LARGE;
  if (heap_tag(h) != NULL && index_cell(h) == NULL) return NULL; /* sampling began just now */
  if (is_small && (h->bin[c] != 0 || !sample_find_point(h, c, class_size(c)))) return NULL;
  void *block = allocate_guarded(h, c, size, alignment);
  if (block != NULL) return block;
  if (is_small && !sample_is_profiling()) return NULL;
  size_t counted = is_small ? class_size(c) : align_up(size, os_page_size());
  if (!is_small && !sample_find_point(h, c, counted)) return NULL;
  block = large_malloc(h, size, alignment);
  if (block != NULL) sample_begin(h, c, block, counted);
  return block;
}

static always_inline void *allocate_once(heap_t *h, unsigned c, size_t size, size_t alignment,
                                         bool is_programs) {
  if (is_programs && unlikely(sample_was_started()) &&
      (c == SAMPLE_LARGE || !sample_is_far(sample_of(h), c, class_size(c)))) {
    void *block = allocate_sampled(h, c, size, alignment);
    if (block != NULL) return block;
  }
  if (c != 0) return heap_malloc_class(h, c);
  if (unlikely(h->put_off != 0)) outbox_go_round(h);
  void *block = paged_malloc(h, size, alignment);
  if (block == NULL) block = large_malloc(h, size, alignment);
  if (is_programs && unlikely(sample_was_started()) && block != NULL)
    sample_pass_bytes(h, SAMPLE_LARGE, align_up(size, os_page_size()));
  return block;
}

/* The hard limit is reached, but error reports and clean-up still need a little memory. A handler
 * that interrupted the allocator may have it at once, a thread once a call of its own was refused.
 * It is one slab of 64 KiB, for blocks of this size, until memory is below the limit again. */
enum { RESERVED_SIZE = 1024 };
static cold bool open_reserve(heap_t *h, size_t size, size_t alignment) {
  bool is_handler = h != heap_of_thread(), was_closed = h->reserve == RESERVE_DENIED;
  if (heap_tag(h) != NULL || heap_stands_in(h) || !budget_is_spent(SLICE_SIZE)) return false;
  if (was_closed) h->reserve = RESERVE_GRANTED;
  if ((was_closed && !is_handler) || size > RESERVED_SIZE || alignment > CLASS_STEP) return false;
  if (h->reserve == RESERVE_GRANTED && !magazine_add_reserve(h)) return false;
  h->reserve = RESERVE_USED;
  heap_note_longer(); /* longer than what was asked for */
  return true;
}

/* There is no slice for a slab, but perhaps free pages between large blocks. */
static cold void *take_run_instead(heap_t *h, size_t alignment) {
  void *block = paged_malloc(h, SMALL_MOST + 1, alignment);
  if (block != NULL) heap_note_longer();
  return block;
}

static cold void note_requested(unsigned c, size_t size) {
  atomic64_add_relaxed(&heap_counts.requested[c], size);
}

static always_inline void *allocate_or_clear_room(heap_t *h, size_t size, size_t alignment,
                                                  bool is_programs) {
  unsigned c = class_of_request(size, alignment);
  if (unlikely(option_get(OPTION_stats_detail) != 0) && c != 0 && alignment <= CLASS_STEP)
    note_requested(c, size);
  void *block = allocate_once(h, c, size, alignment, is_programs);
  if (likely(block != NULL) || !clear_room(h, size, alignment)) return block;
  block = allocate_once(h, c, size, alignment, is_programs);
  /* What freehold allocates for itself must be in a slab: heap_malloc_own counts it as such. */
  if (block == NULL && c != 0 && is_programs) block = take_run_instead(h, alignment);
  if (likely(block != NULL) || !open_reserve(h, size, alignment)) return block;
  return heap_malloc_class(h, class_of(RESERVED_SIZE));
}

void *heap_malloc_own(size_t size) {
  heap_t *h = heap_enter();
  if (h == NULL) return NULL;
  void *block = allocate_or_clear_room(h, size, 1, false);
  heap_exit(h);
  if (block == NULL) return NULL;
  if (SECURE) states_forget(block);
  uint64_t bytes = class_size(slab_class(slab_of(block))); /* of the reserve it may be more */
  slab_thread_count(0 - bytes, 0 - bytes);
  return block;
}

void *heap_malloc_in(heap_t *h, size_t size, size_t alignment) {
  ASSERT(h->busy != 0 || atomic32_load_relaxed(&h->lane_state) == LANE_BUSY);
  return allocate_or_clear_room(h, size, alignment, true);
}

void *heap_malloc_empty(size_t alignment) {
  if (unlikely(heap_of_thread() == NULL)) {
    heap_t *h = heap_enter();
    if (h != NULL) heap_exit(h);
  }
  heap_t *h = heap_of_thread();
  return h != NULL && alignment <= EMPTY_ALIGNED ? empty_malloc(h, alignment) : NULL;
}

static always_inline void *enter_and_allocate(size_t alignment, size_t size) {
  if (unlikely(size == 0)) {
    void *empty = heap_malloc_empty(alignment);
    if (likely(empty != NULL)) return empty;
  }
  if (unlikely(size > PTRDIFF_MAX)) return NULL;
  void *block;
  bool is_second = false, may_be_in_own;
  do { /* Bound: two rounds, the second if the stand-in had no memory, at a limit */
    heap_t *h = heap_enter();
    if (h == NULL) return NULL;
    block = allocate_or_clear_room(h, size, alignment, true);
    may_be_in_own = unlikely(block == NULL) && !is_second && heap_stands_in(h);
    is_second = true;
    heap_exit(h);
  } while (unlikely(may_be_in_own)); /* Bound: two */
  return block;
}

void *heap_malloc_kept(size_t alignment, size_t size) {
  if (!paged_fits(size, alignment) || unlikely(sample_was_started())) return NULL;
  heap_t *h = heap_enter_quickly();
  if (unlikely(h == NULL)) return NULL;
  if (unlikely(h->put_off != 0)) outbox_go_round(h);
  void *block = paged_malloc_kept(h, size);
  heap_exit_quickly(h);
  return block;
}

cold void *heap_malloc_slow(size_t size) {
  probe_slow(size);
  return enter_and_allocate(1, size);
}
cold void *heap_aligned_slow(size_t alignment, size_t size) {
  return enter_and_allocate(alignment, size);
}
