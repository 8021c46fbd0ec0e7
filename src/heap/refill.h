/* refill.h - where the blocks of a bin come from                                      layer 6: heap
 * Owns:    nothing.   Called by: slow.c.   Calls: stock, slab, arena, support, os.
 * Threads: the heap's own. */
#pragma once

#include "../stock/heap.h"

enum {
  BORROW_BYTES = 32768,   /* of a medium class that are borrowed at a time, if fresh */
  MUCH_BORROWED = 262144, /* once it was so much of a class: a slab at a time */
};

hidden void *heap_malloc_class(heap_t *h, unsigned c); /* NULL: no memory */
