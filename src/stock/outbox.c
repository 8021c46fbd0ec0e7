/* outbox.c - blocks on their way to slabs of others                                  layer 5: stock
 * Contract: outbox.h. */
#include "outbox.h"

#include "magazine.h"
#include "owned.h"

enum {
  PENDING_KEYED = 1, /* in the low bit: the block was looked at, and marked as free */
};

/* Is a slab of this class worth having for the heap? */
static bool wants(heap_t *h, unsigned c) {
  return heap_has_earned(h, c) && (h->aside->rests >> c & 1) == 0 &&
         h->own->slab_count[c] < OWNED_MOST && !owned_is_remote(h, c);
}

void outbox_push(heap_t *h, slab_t *s, uintptr_t first, uintptr_t last, unsigned count) {
  if (COUNTED) atomic64_add_own(&h->swaps, 1);
  bool is_wanted = slab_is_worth(s, count) && wants(h, slab_class(s));
  slab_outcome_t outcome = slab_push(s, first, last, count, is_wanted ? h : NULL);
  if (outcome == SLAB_OWNED_NOW) owned_add(h, s);
  if (outcome == SLAB_IS_EMPTY) magazine_put_slab(h, s);
}

/* The slab is not the heap's own. It was not when the batch began, and a heap takes slabs only once
 * its batches are empty (refill), or while it publishes that slab's. */
static void publish(heap_t *h, batch_t *b) {
  slab_t *s = b->slab;
  uintptr_t base = slab_base(s);
  ASSERT(!atomic_ptr_is_relaxed(&s->owner, h));
  b->slab = NULL;
  h->put_off--;
  const void *owner = atomic_ptr_load_relaxed(&s->owner);
  bool is_shared = owner == NULL || owner == SLAB_HOLED;
  if (COUNTED) atomic64_add_own(is_shared ? &h->shared_frees : &h->remote_frees, batch_count(b));
  outbox_push(h, s, base | batch_first(b), base | batch_last(b), batch_count(b));
}

static always_inline bool is_due(const batch_t *b) {
  unsigned count = batch_count(b);
  return count >= BATCH_BLOCKS || count * class_size(slab_class(b->slab)) >= BATCH_BYTES ||
         slab_would_be_empty(b->slab, count);
}

static batch_t *batch_for(heap_t *h, uintptr_t block) {
  return &h->aside->batch[arena_slice((void *)block) % BATCH_SLOTS];
}

/* Adds the block to the batch, which is for its slab or for none. */
static always_inline void chain(heap_t *h, batch_t *b, slab_t *s, uintptr_t block) {
  enum { ONE_SHIFT = 32, LAST_SHIFT = 16 };
  uint64_t one = (uint64_t)1 << ONE_SHIFT | (uint16_t)block;
  if (b->slab == s) {
    block_link(block, slab_base(s) | batch_first(b));
    signal_fence();
    atomic64_store_relaxed(&b->chain, batch_chain(b) - batch_first(b) + one);
    return;
  }
  block_link(block, 0);
  h->put_off++;
  h->aside->slots |= (uint64_t)1 << (b - h->aside->batch);
  atomic64_store_relaxed(&b->chain, one | (uint64_t)(uint16_t)block << LAST_SHIFT);
  signal_fence();
  b->slab = s;
}

/* Chains the block with others of its slab, unless that is the heap's own by now. */
void outbox_put(heap_t *h, slab_t *s, uintptr_t block) {
  if (atomic_ptr_is_relaxed(&s->owner, h)) {
    if (slab_put_back(s, block)) owned_note_empty(h, s);
    return;
  }
  batch_t *b = batch_for(h, block);
  if (b->slab != NULL && b->slab != s) publish(h, b);
  chain(h, b, s, block);
  if (is_due(b)) publish(h, b);
}

static void gather_pending(heap_t *h) {
  unsigned count = h->pending_count;
  if (count == 0) return;
  h->pending_count = 0;
  h->put_off -= count * PUT_OFF_PENDING;
  for (unsigned i = 0; i < count; i++) {
    uintptr_t block = h->aside->pending[i];
    if ((block & PENDING_KEYED) == 0) block_refuse_double_free(block, "free");
    block &= ~(uintptr_t)PENDING_KEYED;
    outbox_put(h, slab_of((void *)block), block);
  }
}

void outbox_flush(heap_t *h) {
  if (h->put_off == 0) return; /* perhaps no page of `aside` was ever touched */
  gather_pending(h);
  for (uint64_t w = h->aside->slots; w != 0; w &= w - 1) { /* Bound: the bits of a word */
    batch_t *b = &h->aside->batch[bits_lowest(w)];
    if (b->slab != NULL) publish(h, b);
  }
  h->aside->slots = 0;
  h->put_off = 0;
}

/* Is so much held back that all of it is due? Each time that this happens more may wait the next
 * time. So a heap that frees many blocks of others, spread over many slabs, needs few swaps. One
 * that freed a little, and whose thread then sleeps, holds next to nothing back. */
static bool is_much(const heap_t *h) {
  return h->put_off > PUT_OFF_LEAST + h->put_off_more || (h->put_off != 0 && users_are_many());
}

/* Remembers the block, if there is room: a handler may have left none. The heap is marked. Should
 * the thread end here, `put_off` is too high rather than too low: outbox_flush goes by it. */
static bool remember(heap_t *h, uintptr_t block, bool is_looked_at) {
  if (h->pending_count == PENDING_BLOCKS) return false;
  h->put_off += PUT_OFF_PENDING;
  if (is_looked_at) block_set_free(block);
  h->aside->pending[h->pending_count] = block | (is_looked_at ? PENDING_KEYED : 0);
  signal_fence();
  h->pending_count++;
  return true;
}

/* A block that was looked at is in a cache: it is chained with others of its slab, unless another
 * slab's batch is in the way. Any other is remembered. */
bool outbox_put_off(heap_t *h, slab_t *s, uintptr_t block, bool is_looked_at, bool *is_enough) {
  batch_t *b = batch_for(h, block);
  bool is_done = true;
  bool is_own = atomic_ptr_is_relaxed(&s->owner, h); /* by what a handler has done meanwhile */
  if (is_looked_at && !is_own && (b->slab == s || b->slab == NULL)) {
    chain(h, b, s, block);
    *is_enough = is_due(b);
  } else {
    is_done = remember(h, block, is_looked_at);
    *is_enough = h->pending_count == PENDING_BLOCKS;
  }
  *is_enough |= is_much(h);
  return is_done;
}

void outbox_publish_due(heap_t *h, uintptr_t block) {
  batch_t *b = batch_for(h, block);
  if (b->slab != NULL && is_due(b)) publish(h, b);
  if (h->pending_count == PENDING_BLOCKS) gather_pending(h);
  if (!is_much(h)) return;
  if (h->put_off_more < PUT_OFF_MORE) h->put_off_more++;
  outbox_flush(h);
}
