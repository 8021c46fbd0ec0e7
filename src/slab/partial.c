/* partial.c - the slabs that nobody owns and that have room                           layer 4: slab
 * Contract: partial.h. */
#include "partial.h"

#include "../arena/budget.h"
#include "holes.h"

/* Which of 64 arenas have a bit in `partial_groups`. */
static inline atomic64_t *arenas_with(size_t number, unsigned c) {
  return &slab_counts.partial_arenas[ARENA_MOST / 64 - 1 - number][c];
}

atomic64_t partial_used[(CLASS_COUNT + 63) / 64];

static void note_used(unsigned c) {
  uint64_t bit = (uint64_t)1 << c % 64;
  if ((atomic64_load_relaxed(&partial_used[c / 64]) & bit) == 0)
    atomic64_or_relaxed(&partial_used[c / 64], bit);
}

void slab_own(slab_t *s, void *heap, uintptr_t list, unsigned count, unsigned carved) {
  atomic_ptr_store_relaxed(&s->owner, heap);
  s->head = list;
  s->next = s->prev = NULL;
  if (heap != SLAB_HOLED) s->idleness = 0;
  slab_note_used(s, carved - count);
  slab_note_taken(s, (int)count);
}

typedef struct {
  atomic64_t *word, *groups, *arenas;
  uint64_t bit;
  size_t group, arena;
} spot_t;

static spot_t spot_of(const slab_t *s, unsigned c) {
  arena_t *a = arena_of(s);
  size_t slice = arena_slice(arena_described(s)), group = slice / 64;
  ASSERT(c != 0 && c < CLASS_COUNT);
  return (spot_t){.word = &arena_maps(a)->partial[group][c],
                  .groups = arena_maps(a)->partial_groups[c],
                  .arenas = arenas_with(a->number / 64, c),
                  .bit = (uint64_t)1 << slice % 64,
                  .group = group,
                  .arena = a->number % 64};
}

static bool clear(atomic64_t *word, uint64_t bit) {
  return (atomic64_and_acq_rel(word, ~bit) & bit) != 0; /* S-partial */
}

/* This thread cleared the bit, so it owns the slab now: takes it out of PARTIAL or EMPTY for
 * `heap`. False only if `heap` is NULL and the slab is not empty, so that nobody here wants it. */
static bool take(slab_t *s, void *heap, bool *is_empty) {
  uint64_t word = atomic64_load_relaxed(&s->anchor); /* relaxed: the swap reads again */
  for (;;) { /* Progress: a failed swap means that another thread's push succeeded */
    anchor_t a = anchor_unpack(word);
    ASSERT(a.state == ANCHOR_PARTIAL || a.state == ANCHOR_EMPTY);
    *is_empty = a.state == ANCHOR_EMPTY;
    if (!*is_empty && heap == NULL) return false;
    uint64_t owned = anchor_pack(ANCHOR_OWNED, 0, 0, 0);
    if (!atomic64_cas_acquire(&s->anchor, &word, owned)) continue; /* S-anchor */
    slab_own(s, heap, slab_chain(s, a), a.count, a.carved);
    return true;
  }
}

/* The slab has its bit, or is about to have it. */
static bool published_is_valid(const slab_t *s, unsigned c) {
  anchor_state_t state = anchor_unpack(atomic64_load_relaxed(&s->anchor)).state;
  HOLDS(I6, slab_word(s) == c && (state == ANCHOR_PARTIAL || state == ANCHOR_EMPTY));
  return true;
}

bool partial_publish(slab_t *s) {
  spot_t at = spot_of(s, slab_class(s)); /* until the bit is set nobody takes the slab away */
  bool is_empty;
  slab_tally_add(TALLY_PUBLICATIONS, 1);
  ASSERT_VALID(published_is_valid(s, slab_class(s)));
  for (;;) { /* Progress: a further round means that another thread took the slab and let it go */
    atomic64_or_seq_cst(at.word, at.bit); /* S-partial */
    hint_set(at.groups, at.group);        /* S-group */
    hint_set(at.arenas, at.arena);
    uint64_t word = atomic64_load_relaxed(&s->anchor); /* S-partial */
    if (anchor_unpack(word).state != ANCHOR_EMPTY) return false;
    if (!clear(at.word, at.bit)) return false;
    if (take(s, NULL, &is_empty)) return true;
  }
}

bool partial_unpublish(slab_t *s, unsigned c) {
  spot_t at = spot_of(s, c);
  bool is_empty;
  if (!clear(at.word, at.bit)) return false; /* S-partial */
  return take(s, NULL, &is_empty) || partial_publish(s);
}

bool partial_claim(atomic64_t *word, uint64_t bit, slab_t *s, bool *is_empty) {
  return clear(word, bit) && take(s, SLAB_HOLED, is_empty); /* S-partial */
}

/* The bit of the slab with the most live blocks, so that others become empty. relaxed: a slab may
 * go meanwhile, and become another's or none; reading it then is useless but harmless. */
static cold uint64_t fullest(const arena_t *a, size_t group, uint64_t w) {
  uint64_t best = bits_lowest_one(w);
  uint32_t most = 0;
  for (; w != 0; w &= w - 1) { /* Bound: the bits of a word */
    const slab_t *s = slab_of(arena_address(a, group * 64 + bits_lowest(w)));
    anchor_t at = anchor_unpack(atomic64_load_relaxed(&s->anchor));
    uint32_t live = at.carved > at.count ? (uint32_t)(at.carved - at.count) : 0;
    if (live <= most) continue;
    most = live;
    best = bits_lowest_one(w);
  }
  return best;
}

/* Clears a set bit of this word: the slab is the caller's. */
static slab_t *claim_in_word(arena_t *a, size_t group, unsigned c) {
  atomic64_t *word = &arena_maps(a)->partial[group][c];
  /* Progress: a further round means that another thread cleared the bit */
  for (uint64_t w; (w = atomic64_load_relaxed(word)) != 0;) {
    uint64_t bit = budget_is_tight() ? fullest(a, group, w) : bits_lowest_one(w);
    if ((atomic64_and_acquire(word, ~bit) & bit) != 0) /* S-partial */
      return slab_of(arena_address(a, group * 64 + bits_lowest(bit)));
  }
  return NULL;
}

/* Clears hints that led to nothing, from the group's up. */
static slab_t *claim_in_arena(arena_t *a, unsigned c) {
  atomic64_t *groups = arena_maps(a)->partial_groups[c];
  atomic64_t *arenas = arenas_with(a->number / 64, c); /* the word with the arena's bit */
  for (size_t i = 0; i < ARENA_GROUPS / 64; i++) {
    /* relaxed: a bit that is missed was set just now. Bound: the bits of a word */
    for (uint64_t w = atomic64_load_relaxed(&groups[i]); w != 0; w &= w - 1) {
      size_t group = i * 64 + bits_lowest(w);
      slab_t *s = claim_in_word(a, group, c);
      if (s != NULL) return s;
      hint_clear(groups, group);                                                   /* S-group */
      if (atomic64_load_seq_cst(&arena_maps(a)->partial[group][c]) == 0) continue; /* S-group */
      hint_set(groups, group);
      hint_set(arenas, a->number % 64);
    }
  }
  if (hint_any(groups, ARENA_GROUPS / 64)) return NULL; /* others' slabs, published meanwhile */
  hint_clear(arenas, a->number % 64);                   /* S-group */
  if (hint_any(groups, ARENA_GROUPS / 64)) hint_set(arenas, a->number % 64);
  return NULL;
}

slab_t *slab_find_partial(unsigned c, void *heap) {
  bool is_empty;
  for (size_t i = 0, words = (arena_count() + 63) / 64; i < words; i++) {
    /* relaxed and Bound: as in claim_in_arena */
    for (uint64_t w = atomic64_load_relaxed(arenas_with(i, c)); w != 0; w &= w - 1) {
      arena_t *a = arena_at(i * 64 + bits_lowest(w));
      slab_t *s = a != NULL ? claim_in_arena(a, c) : NULL;
      if (s == NULL) continue;
      take(s, heap, &is_empty);
      note_used(c);
      if (unlikely(atomic32_load_relaxed(&s->holes) != 0)) slab_fill_holes(s); /* relaxed: ours */
      return s;
    }
  }
  return NULL;
}

bool partial_is_valid(const arena_t *a) {
  for (size_t i = 0; i < (size_t)ARENA_GROUPS * CLASS_COUNT; i++) {
    size_t group = i / CLASS_COUNT, c = i % CLASS_COUNT;
    uint64_t bits = atomic64_load_relaxed(&arena_maps(a)->partial[group][c]);
    for (; bits != 0; bits &= bits - 1) { /* Bound: the bits of a word */
      published_is_valid(slab_of(arena_address(a, group * 64 + bits_lowest(bits))), (unsigned)c);
    }
  }
  return true;
}
