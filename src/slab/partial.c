/* partial.c - the slabs that nobody owns and that have room                           layer 4: slab
 * Contract: partial.h. */
#include "partial.h"

#include "../base/check.h"

typedef struct {
  atomic64_t *word, *hint;
  uint64_t bit, hint_bit;
} place_t;

static place_t place_of(const slab_t *s) {
  arena_t *a = arena_of(s);
  size_t slice = arena_slice(arena_described(s)), group = slice / 64;
  unsigned c = slab_class(s);
  return (place_t){ &arena_maps(a)->partial[group][c],
                    &arena_maps(a)->partial_groups[c][group / 64], (uint64_t)1 << slice % 64,
                    (uint64_t)1 << group % 64 };
}

static bool clear(atomic64_t *word, uint64_t bit) {
  return (atomic64_and_acq_rel(word, ~bit) & bit) != 0; /* S-partial */
}

/* The bit was cleared by this thread, so the slab is its own: takes it out of PARTIAL or EMPTY for
 * `heap`. False only if `heap` is NULL and the slab is not empty: nobody here wants it. */
static bool take(slab_t *s, void *heap, bool *is_empty) {
  uint64_t word = atomic64_load_relaxed(&s->anchor); /* relaxed: the swap reads again */
  for (;;) { /* Progress: a failed swap means that another thread's push succeeded */
    anchor_t a = anchor_unpack(word);
    ASSERT(a.state == ANCHOR_PARTIAL || a.state == ANCHOR_EMPTY);
    *is_empty = a.state == ANCHOR_EMPTY;
    if (!*is_empty && heap == NULL) return false;
    uint64_t owned = anchor_pack(ANCHOR_OWNED, 0, 0, 0);
    if (!atomic64_swap_acquire(&s->anchor, &word, owned)) continue; /* S-anchor */
    slab_own(s, heap, a.count != 0 ? slab_base(s) | a.avail : 0, a.count, a.carved);
    return true;
  }
}

bool partial_publish(slab_t *s) {
  place_t at = place_of(s);
  bool is_empty;
  atomic64_add_relaxed(&slab_counts.publications, 1);
  for (;;) { /* Progress: a further round means that another thread took the slab and let it go */
    atomic64_or_seq_cst(at.word, at.bit); /* S-partial */
    if ((atomic64_load_seq_cst(at.hint) & at.hint_bit) == 0)
      atomic64_or_relaxed(at.hint, at.hint_bit); /* S-group */
    uint64_t word = atomic64_load_relaxed(&s->anchor); /* S-partial */
    if (anchor_unpack(word).state != ANCHOR_EMPTY) return false;
    if (!clear(at.word, at.bit)) return false;
    if (take(s, NULL, &is_empty)) return true;
  }
}

bool partial_unpublish(slab_t *s) {
  place_t at = place_of(s);
  bool is_empty;
  if (!clear(at.word, at.bit)) return false; /* S-partial */
  return take(s, NULL, &is_empty) || partial_publish(s);
}

bool partial_claim(atomic64_t *word, uint64_t bit, slab_t *s, void *heap, bool *is_empty) {
  return clear(word, bit) && take(s, heap, is_empty); /* S-partial */
}

/* A set bit of this word, cleared: the slab is the caller's. */
static slab_t *claim_in_word(arena_t *a, size_t group, unsigned c) {
  atomic64_t *word = &arena_maps(a)->partial[group][c];
  /* Progress: a further round means that another thread cleared the bit */
  for (uint64_t w; (w = atomic64_load_relaxed(word)) != 0;) {
    uint64_t bit = w & (~w + 1);
    if ((atomic64_and_acquire(word, ~bit) & bit) != 0) /* S-partial */
      return slab_of(arena_address(a, group * 64 + bits_lowest(bit)));
  }
  return NULL;
}

static slab_t *claim_in_arena(arena_t *a, unsigned c) {
  for (size_t i = 0; i < ARENA_GROUPS / 64; i++) {
    atomic64_t *hint = &arena_maps(a)->partial_groups[c][i];
    /* Bound: the bits of a word */
    for (uint64_t groups = atomic64_load_relaxed(hint); groups != 0; groups &= groups - 1) {
      unsigned at = bits_lowest(groups);
      slab_t *s = claim_in_word(a, i * 64 + at, c);
      if (s != NULL) return s;
      atomic64_and_seq_cst(hint, ~((uint64_t)1 << at)); /* S-group */
      if (atomic64_load_seq_cst(&arena_maps(a)->partial[i * 64 + at][c]) != 0)
        atomic64_or_relaxed(hint, (uint64_t)1 << at);
    }
  }
  return NULL;
}

slab_t *slab_find_partial(unsigned c, void *heap) {
  bool is_empty;
  for (size_t i = 0, arenas = arena_count(); i < arenas; i++) {
    arena_t *a = arena_at(i);
    slab_t *s = a != NULL ? claim_in_arena(a, c) : NULL;
    if (s == NULL) continue;
    take(s, heap, &is_empty);
    slab_fill_holes(s);
    return s;
  }
  return NULL;
}
