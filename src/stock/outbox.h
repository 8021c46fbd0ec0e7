/* outbox.h - blocks on their way to slabs of others                                  layer 5: stock
 * Owns:    a heap's batches.   Called by: stock, heap.   Calls: owned, magazine, slab,
 *          arena.
 * Threads: the heap's own.
 *
 * A block whose slab belongs to another heap, or to nobody, goes back by a compare-and-swap on the
 * slab's anchor. That costs twice: the swap itself, and the wait for every earlier load and store,
 * some of them to a block in no cache. So such blocks are chained by slab (`batch`) and published
 * many at a time.
 *
 * A thread that frees at random all over a large heap meets more slabs than there are slots. Its
 * outbox is then wide, with a slot for each slice in use. Such a thread waits for blocks that are
 * in no cache. So the outbox fetches a block first, and chains it FETCHES frees later. Each refill
 * empties a few slots, so that nothing waits for ever. */
#pragma once

#include "heap.h"

enum {
  BATCH_BLOCKS = RUSH_BLOCKS, /* a chain of this many blocks is published */
  BATCH_BYTES = 16384,        /* a chain with this many bytes of blocks is published */
  PUT_OFF_LEAST = 4,          /* if more wait, all are published: the thread may not call again */
  PUT_OFF_MORE = 60,          /* this many more may wait where that happens often */
  CROWDED_MOST = 1024,        /* frees that found another slab's chain: the outbox gets wide */
  WIDE_LEAST = 256,           /* fewest slots of a wide one; a power of two */
  WIDE_MOST = 65536,
  WIDE_STEP = 64, /* slots of a wide one that a step looks at */
  ROUND_STEP = 8, /* that a refill looks at, or a free while it closes */
};

/* Puts a block back into its slab `s`; if the heap does not own that, at once or with others. */
hidden void outbox_put(heap_t *h, slab_t *s, uintptr_t block);
/* Afterwards, where the stack is not short: must the outbox get wide, or is a wide one ending? */
static inline bool outbox_is_due(const heap_t *h) {
  return h->aside->crowded == CROWDED_MOST || h->aside->is_closing;
}
hidden void outbox_tend(heap_t *h);
/* Puts a chain of blocks back at once, into a slab that the heap does not own. */
hidden void outbox_push(heap_t *h, slab_t *s, uintptr_t first, uintptr_t last, unsigned count);
/* False while a taker has closed it, which may happen at any moment. */
static always_inline bool outbox_is_wide(const heap_t *h) {
  return unlikely(heap_bin_has_block(plain_load_relaxed(&h->aside->wide)));
}
/* Its slots, closed or not. */
static inline batch_t *outbox_slots(const heap_t *h) {
  uintptr_t wide = h->aside->wide & ~BIN_CLOSED;
  return wide != 0 ? (batch_t *)wide : h->aside->batch;
}
static inline size_t outbox_slot_count(const heap_t *h) {
  return h->aside->wide != 0 ? (size_t)h->aside->wide_last + 1 : BATCH_SLOTS;
}
/* The slot for the chain of the block's slab. */
static inline batch_t *outbox_batch(const heap_t *h, uintptr_t block) {
  heap_aside_t *a = h->aside;
  uintptr_t wide = plain_load_relaxed(&a->wide);
  size_t slice = block >> SLICE_SHIFT;
  if (unlikely(heap_bin_has_block(wide))) return (batch_t *)wide + (slice & a->wide_last);
  return &a->batch[slice % BATCH_SLOTS];
}
/* Adds a block to its slab's chain; true if the chain is due: outbox_publish_due. Nothing but a
 * fast free may have marked the heap. */
static always_inline bool outbox_add(batch_t *b, uintptr_t block) {
  uint64_t chain = batch_word(b), first = (uint16_t)chain;
  block_link(block, block - (uint16_t)block + first);
  signal_fence();
  atomic64_store_relaxed(&b->word, chain - first + (uint16_t)block + batch_one);
  return batch_is_due(b);
}
/* Publishes the chain of the block's slab if it is due. */
hidden void outbox_publish_due(heap_t *h, uintptr_t block);
/* Is this one of the blocks that a wide outbox received last? It is free, but not marked so yet. */
static always_inline bool outbox_has_fetched(const heap_t *h, uintptr_t block) {
  bool is_fetched = false;
  for (unsigned i = 0; i < FETCHES; i++) is_fetched |= h->aside->fetched[i] == block;
  return is_fetched;
}
/* For a wide outbox: the block received FETCHES calls ago, which is due to be chained, or 0. `*s`
 * is the slab of `block`, and then that of the returned block. */
static always_inline uintptr_t outbox_fetch(heap_t *h, slab_t **s, uintptr_t block) {
  heap_aside_t *a = h->aside;
  if (unlikely(outbox_has_fetched(h, block))) fatal("double free", (void *)block, "free");
  __builtin_prefetch((void *)block, 1);
  uintptr_t *place = &a->fetched[a->fetches++ % FETCHES], other = *place;
  *place = block;
  if (likely(other != 0)) *s = slab_of((void *)other);
  return other;
}
/* `fatal` if a fetched block had been freed before: its slab may be gone. */
hidden void outbox_check_fetched(const slab_t *s, uintptr_t block);
/* Fetched blocks go to chains, or to their slabs. From then on all freed blocks are marked so. */
hidden void outbox_put_fetched(heap_t *h);
hidden void outbox_step(heap_t *h);        /* publishes everything; of a wide outbox a few slots */
hidden void outbox_go_round(heap_t *h);    /* a wide outbox publishes the next few slots */
hidden void outbox_note_refill(heap_t *h); /* the same, and a narrow one publishes everything */
hidden void outbox_flush(heap_t *h);       /* publishes everything; the outbox is not wide then */
/* The heap has come to own a slab: the blocks of the slab's chain go back to it. */
hidden void outbox_reclaim(heap_t *h, slab_t *s);
/* The next chain from slot `*slot` on, closed or not; moves `*slot` behind it. NULL: none. */
hidden batch_t *outbox_next(const heap_t *h, unsigned *slot);
/* Moves the chains of one heap to another, which has none. */
hidden void outbox_move(heap_t *to, heap_t *from);
/* Closes the chains to fast frees, or opens them. */
hidden void outbox_set_closed(heap_t *h, bool is_closed);
