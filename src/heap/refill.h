/* refill.h - where the blocks of a bin come from                                      layer 6: heap
 * Owns:    nothing.   Called by: slow.c.   Calls: stock, slab, support, os.
 * Threads: the heap's own. */
#ifndef HEAP_REFILL_H
#define HEAP_REFILL_H

#include "../stock/heap.h"

enum {
  LEND_BYTES = 32768,            /* of a class that are lent at a time; more only if freed */
  MUCH_LENT = 262144,            /* a class that was lent so much is lent a slab at a time */
};

hidden void *heap_malloc_class(heap_t *h, unsigned c);     /* NULL: no memory */

#endif
