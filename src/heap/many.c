/* many.c - many blocks of one size at once                                           layer 6: heap
 * Contract: slow.h. The heap is marked once for all blocks, and each step leaves it as a fast
 * malloc or free does. A call that is cut short has lost at most what it took out of the bin. */
#include "fast.h"

size_t heap_take_many(size_t size, size_t most, void **blocks) {
  size_t steps = class_steps(size), n = 0;
  if (steps >= heap_here.limit) return 0;
  unsigned c = class_table[steps];
  here_mark_malloc();
  heap_t *h = heap_of_thread();
  uintptr_t block = h->bin[c];
  while (n < most && block != 0) { /* Bound: a bin */
    uintptr_t next = block_pop(block);
    h->bin[c] = next;
    signal_fence();
    block_set_live(block);
    __builtin_prefetch((void *)next, 1);
    blocks[n++] = (void *)block;
    block = next;
  }
  here_unmark_malloc();
  return n;
}

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
