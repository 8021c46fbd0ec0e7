/* outbox.h - blocks on their way to slabs of others                                  layer 5: stock
 * Owns:    a heap's pending blocks and batches.   Called by: stock, heap.   Calls: owned, magazine,
 *          slab, arena.
 * Threads: the heap's own.
 *
 * A block of a slab that another heap owns, or nobody, goes back by a compare-and-swap on the
 * slab's anchor. That costs twice: the swap itself, and waiting for every load and store
 * before it, among them those of a block that is in no cache. So such blocks are put off
 * (`pending`), chained by slab (`batch`), and published many at a time. */
#pragma once

#include "heap.h"

enum {
  BATCH_BLOCKS = 32,   /* a chain of so many blocks is published */
  BATCH_BYTES = 16384, /* a chain of blocks with so many bytes is published */
  PUT_OFF_LEAST = 4,   /* more chains are all published: the thread may call no more */
  PUT_OFF_MORE = 92,   /* so many more may wait where that happens often */
  PUT_OFF_PENDING = 2, /* a pending block counts as so many chains */
};

/* Puts a block of `s` back there, at once or with others if the heap does not own the slab. */
hidden void outbox_put(heap_t *h, slab_t *s, uintptr_t block);
/* Puts a chain of blocks of a slab that the heap does not own back at once. */
hidden void outbox_push(heap_t *h, slab_t *s, uintptr_t first, uintptr_t last, unsigned count);
/* Puts a block off; the heap is marked as by a fast free. `is_looked_at`: it is known not to be
 * free already. False if there is no room, which a handler may have used up. `*is_enough`:
 * outbox_publish_due has something to do. */
hidden bool outbox_put_off(heap_t *h, slab_t *s, uintptr_t block, bool is_looked_at,
                           bool *is_enough);
/* Publishes what is due after `block` was put off. */
hidden void outbox_publish_due(heap_t *h, uintptr_t block);
hidden void outbox_flush(heap_t *h); /* publishes everything */
