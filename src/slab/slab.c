/* slab.c - a slice of equal blocks, owned by one heap or shared by all                layer 4: slab
 * Contract: slab.h. */
#include "slab.h"

#include "../arena/purge.h"
#include "../os/os.h"
#include "holes.h"
#include "partial.h"
#include "states.h"

enum {
  THRESHOLD_SHIFT = 3, /* a FULL slab is worth having when an eighth of it is free */
};

static unsigned threshold(const slab_t *s) { return (s->capacity >> THRESHOLD_SHIFT) + 1; }

/* Tries once; on failure `*word` is the word's current value. Progress: a failed swap means that
 * another thread pushed, or took the slab. */
static bool try_cas(slab_t *s, uint64_t *word, uint64_t to) {
  if (likely(atomic64_cas_acq_rel(&s->anchor, word, to))) return true; /* S-anchor */
  if (COUNTED) slab_tally_add(TALLY_RETRIES, 1);
  return false;
}

/* ---- birth and death ------------------------------------------------------------------------- */

slab_t *slab_new(void *base, unsigned c, void *heap, void *tag) {
  slab_t *s = slab_of(base);
  uint8_t *touched = arena_touched_last(base, 1);
  if (*touched != TOUCHED_ALL) *touched = TOUCHED_ALL; /* only if needed: others' lie beside */
  s->head = 0;
  s->inverse = class_inverse[c];
  s->capacity = class_info[c].capacity;
  atomic32_store_relaxed(&s->used, 0);
  atomic32_store_relaxed(&s->carved, 0);
  s->next = s->prev = NULL;
  s->idleness = 0;
  s->is_clean = 0;
  s->sunk = 0;
  atomic32_store_relaxed(&s->holes, 0);
  atomic64_store_relaxed(&s->fresh, 0);
  atomic_ptr_store_relaxed(&s->owner, heap);
  atomic_ptr_store_relaxed(&s->tag, tag);
  atomic64_store_relaxed(&s->anchor, anchor_pack(ANCHOR_OWNED, 0, 0, 0));
  if (SECURE) states_reset(base);
  atomic32_store_relaxed(&s->kind, c);
  slab_tally_change(0, s->capacity);
  ASSERT_VALID(slab_is_valid(s) && slab_slices_are_valid(s));
  return s;
}

out_of_line slab_t *slab_retire(slab_t *s) {
  if (SECURE) states_look(s);
  size_t taken = atomic32_load_relaxed(&s->carved) - s->sunk - slab_others_freed(s);
  slab_note_taken(s, -(int)taken);
  slab_tally_change(0, (uint64_t)0 - s->capacity);
  atomic_ptr_store_relaxed(&s->owner, NULL);
  atomic_ptr_store_relaxed(&s->tag, NULL);
  s->inverse = 0;
  atomic64_store_relaxed(&s->anchor, 0);
  atomic32_store_relaxed(&s->kind, 0);
  return s;
}

void slab_release(slab_t *s) {
  slab_retire(s);
  arena_release((void *)slab_base(s), 1);
}

/* ---- the owner takes ------------------------------------------------------------------------- */

static bool chain_is_valid(const slab_t *s, anchor_t a) {
  unsigned n = 0;
  for (uintptr_t b = slab_chain(s, a); b != 0; b = block_next(b)) /* Bound: `count`, by I3 */
    HOLDS(I3, ++n <= a.count);
  HOLDS(I3, n == a.count);
  return true;
}

/* Takes the whole chain off the anchor; its blocks still count as used. */
static uintptr_t take_chain(slab_t *s, unsigned *count) {
  uint64_t word = atomic64_load_relaxed(&s->anchor); /* relaxed: the swap reads again */
  while (anchor_unpack(word).avail != 0) { /* Progress: another round: another thread pushed */
    anchor_t a = anchor_unpack(word);
    if (!try_cas(s, &word, anchor_pack(ANCHOR_OWNED, 0, 0, 0))) continue;
    ASSERT_VALID(chain_is_valid(s, a));
    *count = a.count;
    slab_note_taken(s, a.count);
    return slab_chain(s, a);
  }
  *count = 0;
  return 0;
}

unsigned slab_collect(slab_t *s) {
  unsigned count;
  ASSERT(s->head == 0);
  s->head = take_chain(s, &count);
  slab_note_used(s, slab_used(s) - count);
  return count;
}

uintptr_t slab_fresh_end(const slab_t *s, unsigned *count) {
  uint32_t carved = atomic32_load_relaxed(&s->carved);
  *count = s->capacity - carved;
  return slab_base(s) + (carved + 1) * class_size(slab_class(s));
}

void slab_take_fresh(slab_t *s, unsigned n) {
  ASSERT(atomic32_load_relaxed(&s->carved) + n <= s->capacity);
  atomic32_store_release(&s->carved, atomic32_load_relaxed(&s->carved) + n); /* S-visit */
  slab_note_used(s, slab_used(s) + n);
  slab_note_taken(s, (int)n);
}

/* Cuts up to `most` blocks that were never used off the slab's fresh end. Links them in address
 * order, the last one to `rest`, which may be an empty list. */
static uintptr_t carve(slab_t *s, unsigned most, uintptr_t rest, unsigned *count) {
  size_t size = class_size(slab_class(s));
  uintptr_t first = slab_fresh_end(s, count), block = first;
  unsigned n = *count = (unsigned)min_size(most, *count);
  if (n == 0) return rest;
  for (unsigned i = 1; i < n; i++, block += size) block_link(block, block + size);
  block_link(block, rest);
  slab_take_fresh(s, n);
  return first;
}

static uintptr_t take_private(slab_t *s, unsigned *count) {
  uintptr_t list = s->head;
  *count = slab_private_count(s);
  s->head = 0;
  slab_note_used(s, atomic32_load_relaxed(&s->carved));
  return list;
}

bool slab_has(const slab_t *s, unsigned least) {
  uint32_t carved = atomic32_load_relaxed(&s->carved), free = s->capacity - slab_used(s);
  if (carved < s->capacity || free >= least || free >= threshold(s)) return true;
  unsigned others = slab_others_freed(s);
  return others >= least || others >= threshold(s);
}

/* The block that was freed last stands for the whole list. */
static always_inline uintptr_t looked_at(uintptr_t list) {
  if (list != 0) slab_next(list, "malloc");
  return list;
}

uintptr_t slab_take_freed(slab_t *s, unsigned *count) {
  return looked_at(s->head == 0 ? take_chain(s, count) : take_private(s, count));
}

uintptr_t slab_take_list(slab_t *s, unsigned most, unsigned *count) {
  unsigned fresh = 0;
  uintptr_t list = slab_take_freed(s, count);
  if (*count >= most) return list;
  if (*count != 0 && slab_others_freed(s) >= most - *count) slab_collect(s); /* for the next time */
  else list = carve(s, most - *count, list, &fresh);
  *count += fresh;
  return list;
}

uintptr_t slab_take_some(slab_t *s, unsigned most, unsigned *count) {
  ASSERT(most != 0);
  if (s->head == 0 && slab_collect(s) == 0) return carve(s, most, 0, count);
  uintptr_t first = s->head, last = first;
  unsigned n = 1;
  for (uintptr_t next; n < most && (next = slab_next(last, "malloc")) != 0; n++) last = next;
  s->head = slab_next(last, "malloc");
  block_link(last, 0);
  slab_note_used(s, slab_used(s) + n);
  *count = n;
  return first;
}

void slab_recount(slab_t *s) {
  uint32_t free = 0, carved = atomic32_load_relaxed(&s->carved);
  /* Bound: `carved` */
  for (uintptr_t b = s->head; b != 0 && free < carved; b = slab_next(b, "free")) free++;
  slab_note_used(s, carved - free);
}

/* ---- letting go ------------------------------------------------------------------------------ */

/* The last of the list's `count` blocks; that is not 0. */
static uintptr_t last_of(uintptr_t block, unsigned count) { /* Bound: `count` */
  for (uintptr_t next; (next = slab_next(block, "free")) != 0 || count != 1; block = next, count--)
    if (next == 0 || count == 1) fatal("heap corruption", (void *)block, "free");
  return block;
}

slab_outcome_t slab_let_go(slab_t *s) {
  uint32_t carved = atomic32_load_relaxed(&s->carved) - s->sunk, free = carved - slab_used(s);
  uintptr_t first = s->head, last = free != 0 ? last_of(first, free) : 0;
  void *owner = atomic_ptr_load_relaxed(&s->owner);
  bool is_holed = atomic32_load_relaxed(&s->holes) != 0;
  atomic_ptr_store_relaxed(&s->owner, is_holed ? SLAB_HOLED : NULL);
  s->head = 0;
  slab_note_used(s, carved); /* from here on the anchor counts the free ones */
  slab_note_taken(s, -(int)free);
  uint64_t word = atomic64_load_relaxed(&s->anchor); /* relaxed: the swap reads again */
  for (;;) { /* Progress: another round: another thread pushed */
    anchor_t a = anchor_unpack(word);
    unsigned count = free + a.count;
    if (count == carved) {               /* nobody holds a block, so nobody can change the word */
      atomic64_load_acquire(&s->anchor); /* S-anchor: what the threads that freed wrote */
      atomic_ptr_store_relaxed(&s->owner, owner);
      slab_note_taken(s, (int)free);
      return SLAB_IS_EMPTY;
    }
    if (free != 0) block_link(last, slab_chain(s, a));
    bool is_full = carved == s->capacity && count < threshold(s) && !is_holed;
    uint64_t to = anchor_pack(is_full ? ANCHOR_FULL : ANCHOR_PARTIAL,
                              (uint16_t)(free != 0 ? first : a.avail), count, carved);
    if (!try_cas(s, &word, to)) continue;
    if (is_full) return SLAB_SHARED;
    return partial_publish(s) ? SLAB_IS_EMPTY : SLAB_SHARED;
  }
}

/* ---- anyone frees ---------------------------------------------------------------------------- */

/* For a FULL slab that `count` free blocks make worth having, or empty. `heap` takes it; if that is
 * NULL it becomes PARTIAL. False if another thread was quicker. */
static bool leave_full(slab_t *s, uint64_t *word, uintptr_t first, unsigned count, void *heap,
                       slab_outcome_t *outcome) {
  unsigned carved = anchor_unpack(*word).carved;
  bool is_empty = count == carved, is_taken = is_empty || heap != NULL;
  if (!try_cas(s, word,
               is_taken ? anchor_pack(ANCHOR_OWNED, 0, 0, 0)
                        : anchor_pack(ANCHOR_PARTIAL, (uint16_t)first, count, carved)))
    return false;
  if (is_taken) {
    slab_own(s, heap, first, count, carved);
    ASSERT_VALID(slab_is_valid(s));
    if (COUNTED) slab_tally_add(TALLY_ADOPTIONS, !is_empty);
    *outcome = is_empty ? SLAB_IS_EMPTY : SLAB_OWNED_NOW;
  } else {
    *outcome = partial_publish(s) ? SLAB_IS_EMPTY : SLAB_SHARED;
  }
  return true;
}

bool slab_is_worth(const slab_t *s, unsigned n) {
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor)); /* relaxed: a push reads again */
  return a.state == ANCHOR_FULL && (a.count + n >= threshold(s) || n >= RUSH_BLOCKS);
}

slab_outcome_t slab_push(slab_t *s, uintptr_t first, uintptr_t last, unsigned n, void *heap) {
  ASSERT(n != 0 && (heap == NULL || !atomic_ptr_is_relaxed(&s->owner, heap)));
  unsigned c = slab_class(s); /* after the swap the slab may be anybody's, and anything */
  if (unlikely(c >= CLASS_COUNT)) fatal("double free", (void *)first, "free"); /* now a large one */
  slab_count_taken(c, -(int)n);
  slab_thread_count(0 - (uint64_t)n * class_size(c), 0);
  uint64_t word = atomic64_load_relaxed(&s->anchor); /* relaxed: the swap reads again */
  for (;;) { /* Progress: another round means that another thread changed the word */
    anchor_t a = anchor_unpack(word);
    unsigned count = a.count + n;
    block_link(last, slab_chain(s, a));
    bool is_rush = n >= RUSH_BLOCKS && heap != NULL;
    slab_outcome_t outcome;
    if (a.state == ANCHOR_FULL && (count >= threshold(s) || count == a.carved || is_rush)) {
      if (leave_full(s, &word, first, count, heap, &outcome)) return outcome;
    } else if (a.state == ANCHOR_PARTIAL && count == a.carved) {
      uint64_t empty = anchor_pack(ANCHOR_EMPTY, (uint16_t)first, count, a.carved);
      if (try_cas(s, &word, empty)) return partial_unpublish(s, c) ? SLAB_IS_EMPTY : SLAB_SHARED;
    } else {
      unsigned most = a.state == ANCHOR_OWNED ? s->capacity : a.carved;
      if (a.state == ANCHOR_NONE || a.state == ANCHOR_EMPTY || count > most)
        fatal("double free", (void *)first, "free");
      if (try_cas(s, &word, anchor_pack(a.state, (uint16_t)first, count, a.carved)))
        return SLAB_SHARED;
    }
  }
}

void slab_free_one(slab_t *s, uintptr_t block) {
  if (slab_push(s, block, block, 1, NULL) == SLAB_IS_EMPTY) slab_release(s);
}

bool slab_is_valid(const slab_t *s) {
  uint32_t carved = atomic32_load_relaxed(&s->carved), free = 0;
  for (uintptr_t b = s->head; b != 0; b = block_next(b)) { /* Bound: `carved`, by I1 */
    HOLDS(I4, class_has_block_at((uint16_t)b, s->inverse));
    HOLDS(I1, ++free <= carved);
    HOLDS(I7,
          (slab_pages_of(b, class_size(slab_class(s))) & atomic32_load_relaxed(&s->holes)) == 0);
  }
  HOLDS(I1, slab_used(s) + free + s->sunk == carved);
  HOLDS(I2, carved <= s->capacity);
  HOLDS(I3, anchor_unpack(atomic64_load_relaxed(&s->anchor)).count <= slab_used(s));
  return true;
}

bool slab_slices_are_valid(const slab_t *s) {
  const arena_t *a = arena_of(s);
  size_t first = arena_slice(arena_described(s));
  size_t n = slab_kind(slab_word(s)) == SLAB_LARGE ? atomic16_load_relaxed(&s->slices) : 1;
  for (size_t i = first; i < first + n; i++) {
    HOLDS(I5, !bitmap_has(a->free, i));
    HOLDS(I5, i == first || slab_kind(slab_word(s + (i - first))) == SLAB_NONE);
  }
  return true;
}
