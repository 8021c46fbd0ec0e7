/* outbox.h - blocks on their way to slabs of others                                  layer 5: stock
 * Owns:    a heap's pending blocks and batches.   Called by: stock, heap.   Calls: owned, magazine,
 *          slab, arena.
 * Threads: the heap's own.
 *
 * A block of a slab that another heap owns, or nobody, goes back by a compare-and-swap on the
 * slab's anchor. That is dear twice: the swap itself, and that it waits for every load and store
 * before it, among them those of a block that is in no cache. So such blocks are put off
 * (`pending`), chained by slab (`batch`), and published many at a time. */
#ifndef STOCK_OUTBOX_H
#define STOCK_OUTBOX_H

#include "heap.h"

enum {
  BATCH_BLOCKS = 32,             /* that many are published at once ... */
  BATCH_BYTES = 16384,           /* ... or when they are worth so many bytes */
  HELD_LEAST = 4,                /* ... or when there are more such chains: a thread may call ... */
  HELD_MORE = 92,                /* ... no more; if that happens often, up to so many more */
  HELD_PENDING = 2,              /* what a block counts of which nobody knows yet if it is one */
};

/* Puts a block of `s` back there, at once or with others if the heap does not own the slab. */
hidden void outbox_put(heap_t *h, slab_t *s, uintptr_t block);
/* Likewise a chain of blocks of a slab that the heap does not own, at once. */
hidden void outbox_push(heap_t *h, slab_t *s, uintptr_t first, uintptr_t last, unsigned count);
/* Puts a block off; the heap is marked as by a fast free. False if there is no room, which a
 * handler may have used up. `*is_enough`: something should be published soon. */
hidden bool outbox_put_off(heap_t *h, slab_t *s, uintptr_t block, bool is_looked_at,
                           bool *is_enough);
/* Publishes what is due after `block` was put off; everything. */
hidden void outbox_publish_due(heap_t *h, uintptr_t block);
hidden void outbox_flush(heap_t *h);

#endif
