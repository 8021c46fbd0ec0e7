/* heaps.h - heaps without a layer above: threads that end, and a
 * reckoning that nothing was lost */
#ifndef HEAPS_H
#define HEAPS_H

#include "counts.h"

#include "../../src/heap/enter.h"
#include "../../src/heap/fits.h"
#include "../../src/heap/firstclass.h"
#include "../../src/heap/resize.h"
#include "../../src/heap/stats.h"
#include "../../src/heap/upkeep.h"
#include "../../src/heap/visit.h"
#include "../../src/slab/holes.h"
#include "../../src/slab/partial.h"
#include "../../src/slab/span.h"
#include "../../src/stock/fresh.h"
#include "../../src/stock/huge.h"
#include "../../src/stock/index.h"
#include "../../src/stock/magazine.h"
#include "../../src/stock/outbox.h"
#include "../../src/stock/owned.h"
#include "../../src/stock/pool.h"
#include "../../src/stock/returned.h"
#include "../../src/stock/shrink.h"
#include "../../src/stock/surplus.h"
#include "../../src/stock/tails.h"
#include "../../src/stock/users.h"

/* The calling thread's heap. */
unused static heap_t *my_heap(void) {
  heap_t *h = heap_enter();
  CHECK(h != NULL);
  heap_exit(h);
  return h;
}

/* As if so many threads used heaps. */
unused static void pretend_users(int n) {
  if (!users_are_known()) users_make();
  for (size_t number = 1; users_count() < n; number++) users_note(number, 1);
}

/* As aligned_alloc and calloc do it. */
unused static void *fast_aligned(size_t alignment, size_t size) {
  return fast_aligned_or(alignment, size, heap_aligned_slow);
}
unused static void *heap_calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  return heap_clear(fast_malloc(bytes), bytes);
}

/* As realloc does it. */
unused static void *any_realloc(void *p, size_t size, const char *call) {
  if (p == NULL) return fast_malloc(size);
  if (size != 0) return heap_realloc(p, size, call);
  heap_free(p, call);
  return NULL;
}
unused static bool resize_large(void *p, size_t size) {
  heap_t *h = heap_enter_own();
  bool is_done = large_resize(h, slab_of(p), p, size);
  if (h != NULL) heap_exit(h);
  return is_done;
}

/* Runs `f` in another thread, which then ends (as far as the core sees), and its heap does not
 * rest, or stays for ever without doing anything. */
typedef struct {
  void (*f)(void *);
  void *context;
  bool ends;
} in_thread_t;
static void *in_thread_run(void *context) {
  in_thread_t *t = context;
  t->f(t->context);
  if (t->ends) os_fake_end_thread();
  return NULL;
}
unused static void in_thread(void (*f)(void *), void *context, bool ends) {
  pthread_t thread;
  in_thread_t t = {f, context, ends};
  CHECK_EQ(pthread_create(&thread, NULL, in_thread_run, &t), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  if (ends) heap_end_rest();
}

/* Calls to the system of these kinds so far. */
unused static uint64_t count_calls(uint32_t kinds) {
  uint64_t n = 0;
  for (int i = 0; i < OS_FAKE_CALLS; i++)
    if (kinds >> i & 1) n += os_fake.calls[i];
  return n;
}

/* A large block, also of a size of which others are runs of pages. */
unused static void *in_slices(size_t size) { return heap_aligned_slow(2 * SPAN_PAGE, size); }

/* While nobody claims or frees. */
unused static bool slab_kinds_are_valid(const arena_t *a) {
  size_t mapped = min_size(atomic64_load_relaxed(&a->mapped), WINDOW_SLICES);
  for (size_t slice = ARENA_FIRST_SLICE; slice < mapped; slice++) {
    const slab_t *s = slab_of(arena_address(a, slice));
    if (slab_kind(slab_word(s)) != SLAB_NONE) slab_slices_are_valid(s);
  }
  return true;
}

/* Every slice is free and every huge block gone: what the test freed and let go of has come
 * back. */
unused static void check_nothing_lost(void) {
  heap_collect(true);
  CHECK_EQ(committed(), (uint64_t)0);
  CHECK_EQ(slab_tally_sum(TALLY_LIVE), (uint64_t)0);
  CHECK_EQ(slab_tally_sum(TALLY_FREE), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.huge_bytes), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.absent_pages), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.spans), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.large_live), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.huge_live), (uint64_t)0);
  for (size_t i = 0; i < arena_count(); i++)
    CHECK(slab_kinds_are_valid(arena_at(i)) && partial_is_valid(arena_at(i)));
  CHECK(map_is_valid() && pool_is_valid());
  CHECK_EQ(lost_slices(), 0u);
}

#endif
