/* refill.h - where the blocks of a bin come from                                      layer 6: heap
 * Owns:    nothing.   Called by: slow.c, firstclass.c.   Calls: stock, slab, support, os.
 * Threads: the heap's own. */
#ifndef HEAP_REFILL_H
#define HEAP_REFILL_H

#include "../stock/heap.h"

enum {
  LEND_BYTES = 32768,            /* so much of a class is lent at a time, or all that were freed, */
  MUCH_LENT = 262144,            /* ... until a class was lent so much; then a slab at a time */
};

hidden void *heap_malloc_class(heap_t *h, unsigned c);     /* NULL: no memory */

#endif
