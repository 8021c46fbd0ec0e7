/* outbox.h - blocks on their way to slabs of others                                  layer 5: stock
 * Owns:    a heap's batches.   Called by: stock, heap.   Calls: owned, magazine, slab,
 *          arena.
 * Threads: the heap's own.
 *
 * A block of a slab that another heap owns, or nobody, goes back by a compare-and-swap on the
 * slab's anchor. That costs twice: the swap itself, and waiting for every load and store
 * before it, among them those of a block that is in no cache. So such blocks are chained by
 * slab (`batch`), and published many at a time.
 *
 * A thread that frees much and allocates nothing meets more slabs than there are slots. As long as
 * it does so its outbox is wide: it has a slot for each slice in use. What such a thread waits for
 * then is blocks that are in no cache. So a block is first fetched, and chained FETCHES frees
 * later. Once the thread allocates again, each refill empties a few slots. */
#pragma once

#include "heap.h"

enum {
  BATCH_BLOCKS = RUSH_BLOCKS, /* a chain of so many blocks is published */
  BATCH_BYTES = 16384,        /* a chain of blocks with so many bytes is published */
  PUT_OFF_LEAST = 4,          /* more chains are all published: the thread may call no more */
  PUT_OFF_MORE = 60,          /* so many more may wait where that happens often */
  CROWDED_MOST = 1024,        /* frees that found another slab's chain: the outbox gets wide */
  WIDE_LEAST = 4096,          /* slots that it has then; a power of two */
  WIDE_MOST = 65536,
  WIDE_STEP = 64, /* slots of it that a step looks at */
};

/* Puts a block of `s` back there, at once or with others if the heap does not own the slab. */
hidden void outbox_put(heap_t *h, slab_t *s, uintptr_t block);
/* Then, where the stack is not short: is the outbox to get wide, or does a wide one end? */
static inline bool outbox_is_due(const heap_t *h) {
  return h->aside->crowded == CROWDED_MOST || h->aside->is_closing;
}
hidden void outbox_tend(heap_t *h);
/* Puts a chain of blocks of a slab that the heap does not own back at once. */
hidden void outbox_push(heap_t *h, slab_t *s, uintptr_t first, uintptr_t last, unsigned count);
/* Not while a taker has closed it, which may happen at any moment. */
static always_inline bool outbox_is_wide(const heap_t *h) {
  return unlikely(heap_bin_has_block(plain_load_relaxed(&h->aside->wide)));
}
/* Its slots; closed or not. */
static inline batch_t *outbox_slots(const heap_t *h) {
  uintptr_t wide = h->aside->wide & ~BIN_CLOSED;
  return wide != 0 ? (batch_t *)wide : h->aside->batch;
}
static inline size_t outbox_slot_count(const heap_t *h) {
  return h->aside->wide != 0 ? (size_t)h->aside->wide_last + 1 : BATCH_SLOTS;
}
/* The slot of the chain of the block's slab. */
static inline batch_t *outbox_batch(const heap_t *h, uintptr_t block) {
  heap_aside_t *a = h->aside;
  uintptr_t wide = plain_load_relaxed(&a->wide);
  size_t slice = block >> SLICE_SHIFT;
  if (unlikely(heap_bin_has_block(wide))) return (batch_t *)wide + (slice & a->wide_last);
  return &a->batch[slice % BATCH_SLOTS];
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
/* Is it a block that a wide outbox was given last? It is free, and does not say so yet. */
static always_inline bool outbox_has_fetched(const heap_t *h, uintptr_t block) {
  bool is_fetched = false;
  for (unsigned i = 0; i < FETCHES; i++) is_fetched |= h->aside->fetched[i] == block;
  return is_fetched;
}
/* For a wide outbox: the block that was given FETCHES calls ago, which is to be chained now, or 0.
 * `*s` is the slab of `block`, and then of that one. */
static always_inline uintptr_t outbox_fetch(heap_t *h, slab_t **s, uintptr_t block) {
  heap_aside_t *a = h->aside;
  if (unlikely(outbox_has_fetched(h, block))) fatal("double free", (void *)block, "free");
  __builtin_prefetch((void *)block, 1);
  uintptr_t *place = &a->fetched[a->fetches++ % FETCHES], other = *place;
  *place = block;
  if (likely(other != 0)) *s = slab_of((void *)other);
  return other;
}
/* `fatal` if the block that was fetched had been freed before: its slab may be gone. */
hidden void outbox_check_fetched(const slab_t *s, uintptr_t block);
/* What was fetched goes to chains, or where it belongs. From then on all that was freed says so. */
hidden void outbox_put_fetched(heap_t *h);
/* Publishes everything, or of a wide outbox what is in the next few slots. */
hidden void outbox_step(heap_t *h);
/* The same for a heap that allocates: a wide outbox takes no new chains, and ends by and by. */
hidden void outbox_close(heap_t *h);
hidden void outbox_flush(heap_t *h); /* publishes everything; the outbox is not wide then */
/* The heap has come to own a slab. The blocks of its chain go back there. */
hidden void outbox_reclaim(heap_t *h, slab_t *s);
/* The next chain from slot `*slot` on, closed or not; `*slot` is then behind it. NULL: none. */
hidden batch_t *outbox_next(const heap_t *h, unsigned *slot);
/* One thread's chains become another heap's, which has none. */
hidden void outbox_move(heap_t *to, heap_t *from);
/* Closes the chains to fast frees, or opens them. */
hidden void outbox_set_closed(heap_t *h, bool is_closed);
