/* sparse.c - slabs of nobody of which pages are free                                 layer 4: slab
 * Contract: sparse.h.
 *
 * A few blocks that live long keep each slab in which they lie, long after the size that they have
 * has gone out of use. So a look goes round all slabs that nobody owns. It notes how many blocks of
 * a sparse one are free. If that is the same a round later, the slab is at rest. */
#include "sparse.h"

#include "../arena/patience.h"
#include "../os/os.h"
#include "../support/options.h"
#include "holes.h"
#include "partial.h"

enum {
  LIVE_MOST = 16,    /* blocks of a sparse slab: as many as a slice has pages of 4 KiB */
  GROUPS_LOOKED = 4, /* that one tick looks at, */
  HOLED_MOST = 8,    /* and slabs of which it gives pages back */
  ROUND_WAIT = 1000, /* ms between two rounds */
};
/* `seen` of a slab: how many blocks were free, */
enum {
  SEEN = 1 << 14,       /* and nothing was done, */
  SEEN_HOLED = 1 << 15, /* or free pages went. */
};

/* Whoever swaps `last` (ms) looks at the groups from `next` on, counted over all arenas. relaxed,
 * both: hints */
static struct { atomic32_t last, next; } looks;

/* For what is noted of a slab: too much for a handler's stack. NULL: none can be had. */
static slab_starts_t *starts_map(void) {
  return os_map(align_up(sizeof(slab_starts_t), os_page_size()));
}
static void starts_unmap(slab_starts_t *starts) {
  if (starts != NULL) os_unmap(starts, align_up(sizeof(slab_starts_t), os_page_size()));
}

/* False: it was empty, and has gone. */
static bool hand_back(slab_t *s, bool is_empty) {
  if (!is_empty && slab_let_go(s) != SLAB_IS_EMPTY) return true;
  slab_release(s);
  return false;
}

/* ---- on request ------------------------------------------------------------------------------ */

static void collect_word(arena_t *a, size_t group, unsigned c, slab_starts_t *starts) {
  atomic64_t *word = &arena_maps(a)->partial[group][c];
  /* Bound: the bits of a word */
  for (uint64_t w = atomic64_load_relaxed(word); w != 0; w &= w - 1) {
    slab_t *s = slab_of(arena_address(a, group * 64 + bits_lowest(w)));
    bool is_empty;
    if (!slab_may_have_holes(s, c)) continue;
    if (!partial_claim(word, w & (~w + 1), s, SLAB_HOLED, &is_empty)) continue;
    if (!is_empty) slab_make_holes(s, starts);
    hand_back(s, is_empty);
  }
}

void sparse_collect(void) {
  slab_starts_t *starts = starts_map();
  if (starts == NULL) return;
  for (size_t i = 0; i < arena_count(); i++) {
    arena_t *a = arena_at(i);
    size_t groups = a == NULL ? 0 : (atomic64_load_relaxed(&a->mapped) + 63) / 64;
    for (size_t group = 0; group < min_size(groups, ARENA_GROUPS); group++)
      for (unsigned c = 1; c < CLASS_COUNT; c++) collect_word(a, group, c, starts);
  }
  starts_unmap(starts);
}

/* ---- at rest --------------------------------------------------------------------------------- */

/* What the anchor says may be another slab's by now. */
static bool holds_little(const slab_t *s, unsigned c) {
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor));
  unsigned live = a.carved - a.count;
  return a.state == ANCHOR_PARTIAL && live <= LIVE_MOST && live * class_size(c) <= SLICE_SIZE / 2 &&
         slab_may_have_holes(s, c);
}

/* The slab is the caller's. */
static uint16_t count_free(const slab_t *s) {
  return (uint16_t)(atomic32_load_relaxed(&s->carved) - s->sunk - slab_used(s));
}

/* The slab is the caller's. True: its free pages went. */
static bool look_once_more(slab_t *s, slab_starts_t **starts) {
  uint16_t free = count_free(s), before = s->seen;
  if (before == (free | SEEN_HOLED)) return false;
  s->seen = free | SEEN;
  if (before != s->seen || (*starts == NULL && (*starts = starts_map()) == NULL)) return false;
  slab_make_holes(s, *starts);
  s->seen = count_free(s) | SEEN_HOLED;
  return true;
}

/* How many slabs of the group gave pages back. */
static unsigned look_over(arena_t *a, size_t group, slab_starts_t **starts) {
  unsigned holed = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    atomic64_t *word = &arena_maps(a)->partial[group][c];
    /* relaxed: a bit that is missed was set just now. Bound: the bits of a word */
    for (uint64_t w = atomic64_load_relaxed(word); w != 0 && holed < HOLED_MOST; w &= w - 1) {
      slab_t *s = slab_of(arena_address(a, group * 64 + bits_lowest(w)));
      bool is_empty;
      if (!holds_little(s, c)) continue;
      if (!partial_claim(word, w & (~w + 1), s, SLAB_HOLED, &is_empty)) continue;
      if (!is_empty && look_once_more(s, starts)) holed++;
      if (hand_back(s, is_empty)) /* a look is no publication */
        atomic64_add_relaxed(&slab_counts.publications, (uint64_t)-1);
    }
  }
  return holed;
}

void sparse_tick(void) {
  int64_t delay = option_get(OPTION_purge_delay_ms);
  uint32_t now = os_now_ms(), last = atomic32_load_relaxed(&looks.last);
  size_t next = atomic32_load_relaxed(&looks.next);
  uint32_t wait = next == 0 ? ROUND_WAIT : patience_delay((uint32_t)delay) / 4 + 1;
  if (delay < 0 || now - last < wait) return;
  if (!atomic32_cas_relaxed(&looks.last, &last, now)) return;
  slab_starts_t *starts = NULL;
  unsigned holed = 0;
  for (int i = 0; i < GROUPS_LOOKED && holed < HOLED_MOST; i++) {
    size_t number = next / ARENA_GROUPS, group = next % ARENA_GROUPS;
    arena_t *a = number < arena_count() ? arena_at(number) : NULL;
    if (a != NULL && group * 64 < atomic64_load_relaxed(&a->mapped)) {
      holed += look_over(a, group, &starts);
      if (holed < HOLED_MOST) next++;
    } else {
      next = number + 1 < arena_count() ? (number + 1) * ARENA_GROUPS : 0;
      if (next == 0) break;
    }
  }
  atomic32_store_relaxed(&looks.next, (uint32_t)next);
  starts_unmap(starts);
}
