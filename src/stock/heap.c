/* heap.c - a heap as it is when no call of its user is under way                     layer 5: stock
 * Contract: heap.h. */
#include "heap.h"

#include "stock.h"

enum { LANE_LOOKS = 2 * OWNED_MOST }; /* slabs of a class: a lane may own thousands */
enum { LIST_LOOKS = 16 };             /* blocks of a list */

static bool slabs_are_valid(const heap_t *h, unsigned c, size_t *idle) {
  size_t n = 0, most = heap_tag(h) == NULL ? SIZE_MAX : LANE_LOOKS;
  const slab_t *first = owned_first(h, c), *s = first, *last = NULL;
  for (; s != NULL && n < most; last = s, s = s->next, n++) { /* Bound: owned slabs */
    anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor));
    HOLDS(H1, s == first || s->prev == last);
    HOLDS(H2, slab_word(s) == c && atomic_ptr_is_relaxed(&s->owner, h) && a.state == ANCHOR_OWNED);
    HOLDS(F1, atomic_ptr_is_relaxed(&s->tag, heap_tag(h)));
    HOLDS(H3, s->idleness != SLAB_IDLE || slab_used(s) == a.count);
    *idle += s->idleness == SLAB_IDLE;
  }
  HOLDS(H1, s != NULL || first == NULL || first->prev == last);
  HOLDS(H1, s != NULL || (uint8_t)n == h->own->slab_count[c]);
  return true;
}

static bool blocks_are_valid(uintptr_t b, unsigned c) {
  for (int i = 0; b != 0 && i < LIST_LOOKS; i++, b = block_next(b)) {
    HOLDS(H7, slab_word(slab_of((void *)b)) == c && block_is_free(b));
    HOLDS(H7, class_has_block_at((uint16_t)b, class_inverse[c]));
  }
  return true;
}

static bool lists_are_valid(const heap_t *h, unsigned c) {
  bool is_used = (h->classes[c / 64] >> c % 64 & 1) != 0, has_any = h->aside->returned[c] != 0;
  size_t returned = 0;
  has_any |= h->bin[c] != 0 || h->own->slabs[c] != 0 || heap_fresh(h, c).count != 0;
  has_any |= sample_is_cut(h, c);
  HOLDS(H4, is_used || !has_any);
  HOLDS(V1, !HEAPS_CAN_BE_TAKEN ||
              ((h->bin[c] & BIN_CLOSED) == 0 && (h->returned_room[c] & ROOM_CLOSED) == 0));
  for (uintptr_t b = h->aside->returned[c]; b != 0; b = block_next(b)) /* Bound: by H5 */
    HOLDS(H5, ++returned <= UINT16_MAX);
  HOLDS(H5, returned >= returned_count(h, c));
  fresh_t f = heap_fresh(h, c);
  HOLDS(H9, f.count == 0 ||
              (~atomic64_load_relaxed(&slab_of((void *)f.first)->fresh) & fresh_bits(f, c)) == 0);
  return blocks_are_valid(h->bin[c], c) && blocks_are_valid(h->aside->returned[c], c);
}

static bool outbox_is_valid(const heap_t *h) {
  size_t chains = 0;
  unsigned slot = 0;
  for (batch_t *b; (b = outbox_next(h, &slot)) != NULL; chains++) { /* Bound: the slots */
    uintptr_t base = slab_base(b->slab), at = base + batch_first(b);
    unsigned n = 1;
    HOLDS(H6, outbox_batch(h, base) == b && batch_count(b) != 0);
    for (; n < batch_count(b) && block_is_free(at); n++) at = block_next(at); /* Bound: a slab's */
    HOLDS(H8, at == base + batch_last(b) && n == batch_count(b) && block_is_free(at));
  }
  for (unsigned i = 0; i < BATCH_SLOTS && !outbox_is_wide(h); i++)
    HOLDS(H6, h->aside->batch[i].slab == NULL || (h->aside->slots >> i & 1) != 0);
  HOLDS(H6, outbox_is_wide(h) ? h->put_off == 1 : h->put_off >= chains);
  return true;
}

bool heap_is_valid(const heap_t *h) {
  size_t idle = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    slabs_are_valid(h, c, &idle);
    lists_are_valid(h, c);
  }
  HOLDS(H3, heap_tag(h) != NULL || idle == h->idle);
  return outbox_is_valid(h) && magazine_is_valid(h) && runs_are_valid(h);
}
