/* returned.h - what a heap has freed of slabs that nobody owns, for its bins         layer 5: stock
 * Owns:    `returned`, `room`, `allowance` and `growth` of a heap.   Called by: stock, heap.
 *          Calls: surplus.
 * Threads: the heap's own. */
#ifndef STOCK_RETURNED_H
#define STOCK_RETURNED_H

#include "heap.h"

enum {
  RETURN_FIRST = 8,              /* so many blocks of a class are kept at first, ... */
  RETURN_MOST = 64,              /* ... and at most; ... */
  RETURN_SMALL_BYTES = 16384,    /* they are worth no more than this, ... */
  RETURN_BYTES = 131072,         /* ... of classes from SHARED_CLASS on than this, ... */
  GROWTH_MOST = 7,               /* ... and of lent classes up to 128 times as much */
};

/* How many blocks the list of the class has; whether that is half of what it may hold,
 * or worth a bin; the list, which is empty afterwards. */
hidden size_t returned_count(const heap_t *h, unsigned c);
hidden bool returned_has(const heap_t *h, unsigned c);
hidden uintptr_t returned_take(heap_t *h, unsigned c, unsigned *count);
/* Settles how many blocks it may hold from now on, while it is empty; none until then; all that was
 * learned of all classes is forgotten. */
hidden void returned_renew(heap_t *h, unsigned c);
hidden void returned_give_up(heap_t *h, unsigned c);
hidden void returned_forget(heap_t *h);

/* Keeps a block of a slab that nobody owns for the next bin of its class, which has room; false if
 * the block is free already: its link is spoilt then. The heap is marked. */
static always_inline bool returned_put(heap_t *h, unsigned c, uintptr_t block) {
  uintptr_t *list = &h->freed->returned[c];
  block_set_next(block, *list);
  if (unlikely(block_is_free(block))) return false;
  block_set_free(block);
  *list = block;
  h->room[c]--;
  return true;
}

#endif
