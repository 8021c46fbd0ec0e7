/* outbox.h - blocks on their way to slabs of others                                  layer 5: stock
 * Owns:    a heap's batches.   Called by: stock, heap.   Calls: owned, magazine, slab.
 * Threads: the heap's own.
 *
 * A block of a slab that another heap owns, or nobody, goes back by a compare-and-swap on the
 * slab's anchor. That costs twice: the swap itself, and waiting for every load and store
 * before it, among them those of a block that is in no cache. So such blocks are chained by
 * slab (`batch`), and published many at a time. */
#pragma once

#include "heap.h"

enum {
  BATCH_BLOCKS = RUSH_BLOCKS, /* a chain of so many blocks is published */
  BATCH_BYTES = 16384,        /* a chain of blocks with so many bytes is published */
  PUT_OFF_LEAST = 4,          /* more chains are all published: the thread may call no more */
  PUT_OFF_MORE = 60,          /* so many more may wait where that happens often */
};

/* Puts a block of `s` back there, at once or with others if the heap does not own the slab. */
hidden void outbox_put(heap_t *h, slab_t *s, uintptr_t block);
/* Puts a chain of blocks of a slab that the heap does not own back at once. */
hidden void outbox_push(heap_t *h, slab_t *s, uintptr_t first, uintptr_t last, unsigned count);
/* The slot of the chain of the block's slab. */
static inline batch_t *outbox_batch(const heap_t *h, uintptr_t block) {
  return &h->aside->batch[arena_slice((void *)block) % BATCH_SLOTS];
}
/* Adds a block to the chain of its slab; true if it is due: outbox_publish_due. The heap may be
 * marked by no more than a fast free. */
static always_inline bool outbox_add(batch_t *b, uintptr_t block) {
  uint64_t chain = batch_word(b), first = (uint16_t)chain;
  block_link(block, block - (uint16_t)block + first);
  signal_fence();
  atomic64_store_relaxed(&b->word, chain - first + (uint16_t)block + batch_one);
  return batch_is_due(b);
}
/* Publishes the chain of the block's slab, if it is due. */
hidden void outbox_publish_due(heap_t *h, uintptr_t block);
hidden void outbox_flush(heap_t *h); /* publishes everything */
