/* outbox.c - blocks on their way to slabs of others                                  layer 5: stock
 * Contract: outbox.h. */
#include "outbox.h"

#include "magazine.h"
#include "owned.h"

/* Is a slab of this class worth having for the heap? */
static bool wants(const heap_t *h, unsigned c) {
  return heap_has_earned(h, c) && (h->aside->given_up >> c & 1) == 0 &&
         h->own->slab_count[c] < OWNED_MOST;
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
  bool is_owned = slab_owner(s) != NULL;
  if (COUNTED) atomic64_add_own(is_owned ? &h->remote_frees : &h->shared_frees, batch_count(b));
  outbox_push(h, s, base | batch_first(b), base | batch_last(b), batch_count(b));
}

/* How many blocks make a chain due: also as many as the slab lacks to be empty, by what is known of
 * it when the chain begins. */
static unsigned due_after(const slab_t *s) {
  size_t size = class_size(slab_class(s)), most = (BATCH_BYTES + size - 1) / size;
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor));      /* relaxed: a hint */
  size_t lacking = a.carved != 0 ? a.carved - a.count : BATCH_BLOCKS; /* 0: it is owned */
  return (unsigned)min_size(min_size(most, BATCH_BLOCKS), lacking);
}

/* A block of a slab that has no chain. */
static void begin_chain(heap_t *h, batch_t *b, slab_t *s, uintptr_t block) {
  uint64_t chain = (uint64_t)due_after(s) << 48 | (uint64_t)(uint16_t)block << 16;
  block_link(block, 0);
  h->put_off++;
  h->aside->slots |= (uint64_t)1 << (b - h->aside->batch);
  atomic64_store_relaxed(&b->word, chain + (uint16_t)block + batch_one);
  signal_fence();
  b->slab = s;
}

/* True: so much is held back that all of it is due. Each time that this happens more may wait the
 * next time. So a heap that frees many blocks of others, spread over many slabs, needs few swaps.
 * One that freed a little, and whose thread then sleeps, holds next to nothing back. */
static bool note_much(heap_t *h) {
  if (h->put_off <= PUT_OFF_LEAST + h->put_off_more) return users_are_many();
  if (h->put_off_more < PUT_OFF_MORE) h->put_off_more++;
  return true;
}

/* Chains the block with others of its slab, unless that is the heap's own by now. */
void outbox_put(heap_t *h, slab_t *s, uintptr_t block) {
  if (atomic_ptr_is_relaxed(&s->owner, h)) {
    if (slab_put_back(s, block)) owned_note_empty(h, s);
    return;
  }
  batch_t *b = outbox_batch(h, block);
  bool is_first = b->slab != s;
  if (is_first && b->slab != NULL) publish(h, b);
  if (is_first) begin_chain(h, b, s, block);
  else outbox_add(b, block);
  if (batch_is_due(b)) publish(h, b);
  if (is_first && note_much(h)) outbox_flush(h);
}

void outbox_publish_due(heap_t *h, uintptr_t block) {
  batch_t *b = outbox_batch(h, block);
  if (b->slab != NULL && batch_is_due(b)) publish(h, b);
}

void outbox_flush(heap_t *h) {
  if (h->put_off == 0) return; /* perhaps no page of `aside` was ever touched */
  for (uint64_t w = h->aside->slots; w != 0; w &= w - 1) { /* Bound: the bits of a word */
    batch_t *b = &h->aside->batch[bits_lowest(w)];
    if (b->slab != NULL) publish(h, b);
  }
  h->aside->slots = 0;
  h->put_off = 0;
}
