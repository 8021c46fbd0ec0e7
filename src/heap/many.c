/* many.c - many blocks of one size at once                                           layer 6: heap
 * Owns:    nothing.   Called by: variants.c.   Calls: inline functions.
 * Threads: any: each block is taken and freed as by a fast call. */
#include "fast.h"

size_t heap_take_many(size_t size, size_t most, void **blocks) {
  size_t n = 0;
  for (void *p; n < most && (p = fast_malloc_or_null(size)) != NULL;) blocks[n++] = p;
  return n;
}

/* Marks the heap once for all blocks; each step leaves it as a fast free does. */
size_t heap_free_many(void *const *blocks, size_t count) {
  uintptr_t window = heap_here.window;
  heap_t *h = heap_of_thread();
  slab_t *s = NULL;
  fast_freed_t freed = FAST_FREED;
  size_t n = 0;
  if (window == 0) return 0;
  /* from here on no handler takes the slabs away */
  here_mark_free();
  while (n < count && freed == FAST_FREED) { /* Bound: the caller's blocks */
    uintptr_t block = (uintptr_t)blocks[n];
    if (unlikely(window_of(block) != window)) break;
    s = fast_descriptor(block, window);
    freed = fast_put_back(h, s, block, false);
    n += freed <= FAST_EMPTIED;
  }
  here_unmark_free(window);
  if (unlikely(freed == FAST_EMPTIED)) heap_slab_emptied(s);
  return n;
}
