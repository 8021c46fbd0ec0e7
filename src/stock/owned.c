/* owned.c - the slabs that a heap owns                                               layer 5: stock
 * Contract: owned.h. */
#include "owned.h"

#include "magazine.h"

/* The lead of others: the blocks that they freed, times OTHERS_WEIGHT, less those that the heap's
 * own thread freed. The weight of an eighth of a slab, 128 blocks at most, makes the class remote.
 * The lead has a floor that 300 blocks make up: a thread that ends leaves its blocks to others. */
enum { OTHERS_WEIGHT = 96, LEAD_LEAST = -300 * OTHERS_WEIGHT, MUCH_MOST = 128 };

slab_t *owned_first(const heap_t *h, unsigned c) { return slab_numbered(h->own->slabs[c]); }

/* relaxed: only its user writes it */
static void count_slab_of(heap_t *h, int more) {
  atomic32_t *slabs = &h->own->lane_slabs;
  if (heap_tag(h) != NULL)
    atomic32_store_relaxed(slabs, atomic32_load_relaxed(slabs) + (uint32_t)more);
}

/* A class's list: the first slab's `prev` is the last one, the last one's `next` is NULL. */
static void link_slab(heap_t *h, slab_t *s, bool as_first) {
  unsigned c = slab_class(s);
  slab_t *first = owned_first(h, c);
  ASSERT(atomic_ptr_is_relaxed(&s->owner, h));
  h->own->slab_count[c]++;
  count_slab_of(h, 1);
  s->next = NULL;
  s->prev = s;
  if (first == NULL || as_first) h->own->slabs[c] = slab_number(s);
  if (first == NULL) return;
  s->prev = first->prev;
  first->prev = s;
  if (as_first) s->next = first;
  else s->prev->next = s;
}

void owned_end_idleness(heap_t *h, slab_t *s) {
  h->idle -= s->idleness == SLAB_IDLE;
  s->idleness = 0;
}

void owned_remove(heap_t *h, slab_t *s) {
  unsigned c = slab_class(s);
  slab_t *first = owned_first(h, c);
  ASSERT(atomic_ptr_is_relaxed(&s->owner, h) && first != NULL);
  owned_end_idleness(h, s);
  h->own->slab_count[c]--;
  count_slab_of(h, -1);
  if (s == first) h->own->slabs[c] = slab_number(s->next);
  else s->prev->next = s->next;
  if (s->next != NULL) s->next->prev = s->prev;
  else if (s != first) first->prev = s->prev;
  s->next = s->prev = NULL;
}

void owned_add(heap_t *h, slab_t *s) { link_slab(h, s, true); }

void owned_move(heap_t *h, slab_t *s, bool as_first) {
  if (as_first && s == owned_first(h, slab_class(s))) return owned_end_idleness(h, s);
  owned_remove(h, s);
  link_slab(h, s, as_first);
}

void owned_note_empty(heap_t *h, slab_t *s) {
  ASSERT(slab_used(s) == slab_others_freed(s));
  if (s->idleness == SLAB_IDLE) return;
  if (s == owned_first(h, slab_class(s)) && h->idle < IDLE_MOST) {
    s->idleness = SLAB_IDLE;
    h->idle++;
    return;
  }
  owned_remove(h, s);
  magazine_put_slab(h, s);
}

void owned_let_go(heap_t *h, slab_t *s) {
  owned_remove(h, s);
  if (slab_let_go(s) == SLAB_IS_EMPTY) magazine_put_slab(h, s);
}

out_of_line void owned_note_freed(heap_t *h, unsigned c, const slab_t *s, unsigned most) {
  unsigned own = slab_private_count(s), others = slab_others_freed(s);
  int lead = h->own->others_lead[c] - (int)own;
  ASSERT(heap_tag(h) == NULL && c < MEDIUM_CLASS);
  if (lead < LEAD_LEAST) lead = LEAD_LEAST;
  if (own < most && (own == 0 || own + others >= most)) lead += OTHERS_WEIGHT * (int)others;
  int much = OTHERS_WEIGHT * (int)min_size(s->capacity / MUCH_PART, MUCH_MOST);
  if (unlikely(lead > 0) && lead >= much) {
    h->aside->remote |= (uint64_t)1 << c;
    lead = much - much / 4; /* the next trial may be short */
  }
  h->own->others_lead[c] = (int16_t)lead;
}

void owned_disown(heap_t *h, unsigned c) {
  for (slab_t *s; (s = owned_first(h, c)) != NULL;) owned_let_go(h, s); /* Bound: owned slabs */
}

void owned_recount(heap_t *h) {
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;)
    for (slab_t *s = owned_first(h, c); s != NULL; s = s->next) /* Bound: owned slabs */
      slab_recount(s);
}

/* Goes through the classes in turn. A slab goes if it is empty, was empty at the last look, and was
 * not used in between. The slab noted as next may have left the lane since. */
void owned_sweep(heap_t *lane, unsigned looks) {
  heap_own_t *o = lane->own;
  slab_t *s = slab_numbered(o->sweep_at), *next;
  if (s != NULL && !atomic_ptr_is_relaxed(&s->owner, lane)) s = NULL;
  for (; looks > 0; looks--, s = next) { /* Bound: `looks` */
    if (s == NULL) {
      o->sweep_class = heap_next_class(lane, o->sweep_class);
      next = owned_first(lane, o->sweep_class);
      continue;
    }
    next = s->next;
    if (!slab_is_all_free(s)) continue;
    if (s->idleness == 0) s->idleness = SLAB_SEEN_EMPTY;
    else owned_note_empty(lane, s);
  }
  o->sweep_at = slab_number(s);
}
