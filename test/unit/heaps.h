/* heaps.h - heaps without a layer above: the hooks, threads that end, and a
 * reckoning that nothing was lost */
#ifndef HEAPS_H
#define HEAPS_H

#include "counts.h"

#include "../../src/heap/fast.h"
#include "../../src/slab/partial.h"

static struct {
  atomic32_t started, no_memory, deferred;
  void *foreign;                                   /* a pointer that the layer above knows */
  size_t foreign_size;
  unsigned foreign_freed;
} hooks;

static void hook_start(void) {
  atomic32_add_relaxed(&hooks.started, 1);
  heap_start();
}
static void hook_no_memory(void) { atomic32_add_relaxed(&hooks.no_memory, 1); }
static void hook_deferred(bool force) {
  (void)force;
  atomic32_add_relaxed(&hooks.deferred, 1);
}
static bool hook_free(void *p, const char *call) {
  (void)call;
  if (p != hooks.foreign) return false;
  hooks.foreign_freed++;
  return true;
}
static bool hook_size(const void *p, const char *call, size_t *size) {
  (void)call;
  *size = hooks.foreign_size;
  return p == hooks.foreign;
}
static bool hook_realloc(void *p, size_t size, const char *call, void **result) {
  (void)call;
  if (p != hooks.foreign) return false;
  hooks.foreign_size = size;
  *result = p;
  return true;
}

heap_hooks_t heap_hooks = {
  hook_start, hook_no_memory, hook_deferred, hook_free, hook_size, hook_realloc
};

unused static unsigned no_memory_calls(void) { return atomic32_load_relaxed(&hooks.no_memory); }

/* The calling thread's heap. */
unused static heap_t *my_heap(void) {
  heap_t *h = heap_enter();
  CHECK(h != NULL);
  heap_exit(h);
  return h;
}

/* Runs `f` in another thread, which then ends (as far as the core sees), and its heap does not
 * rest, or stays for ever without doing anything. */
typedef struct { void (*f)(void *); void *context; bool ends; } in_thread_t;
static void *in_thread_run(void *context) {
  in_thread_t *t = context;
  t->f(t->context);
  if (t->ends) os_fake_end_thread();
  return NULL;
}
unused static void in_thread(void (*f)(void *), void *context, bool ends) {
  pthread_t thread;
  in_thread_t t = { f, context, ends };
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

/* Every slice is free and every huge block gone: what the test freed and let go of has come
 * back. */
unused static void check_nothing_lost(void) {
  uint64_t live, free;
  heap_collect(true);
  CHECK_EQ(committed(), (uint64_t)0);
  slab_sum(&live, &free);
  CHECK_EQ(live, (uint64_t)0);
  CHECK_EQ(free, (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.huge_bytes), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.large_live), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.huge_live), (uint64_t)0);
  for (size_t i = 0; i < arena_count(); i++)
    CHECK(slab_kinds_are_valid(arena_at(i)) && partial_is_valid(arena_at(i)));
  CHECK(map_is_valid());
  CHECK_EQ(lost_slices(), 0u);
}

#endif
