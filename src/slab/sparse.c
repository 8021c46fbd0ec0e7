/* sparse.c - slabs that nobody owns and that have free pages                          layer 4: slab
 * Contract: sparse.h.
 *
 * A few long-lived blocks keep their slabs long after the program has stopped using blocks of that
 * size. So a walk goes round all slabs that nobody owns, and marks the sparse ones. A slab that
 * still has its mark a round later was not taken over meanwhile: its free pages go back. While
 * heaps take slabs of its class, it must rest for longer. On request and under pressure pages go
 * from any slab, at the first look. */
#include "sparse.h"

#include "../arena/budget.h"
#include "../arena/patience.h"
#include "../support/options.h"
#include "../support/pace.h"
#include "holes.h"
#include "partial.h"
#include "span.h"

enum {
  LIVE_MOST = 48,   /* blocks of a sparse slab: at random over 16 pages, they leave one free */
  TICK_GROUPS = 64, /* groups of 4 MiB that one tick looks at */
  TICK_WORK = 128,  /* slabs that one tick looks at */
  HOLED_WORK = 8,   /* a slab whose pages may go counts as so many, unless memory is short */
  TICK_TIMES = 16,  /* the pause after a tick, as a multiple of the time that it took */
  ROUND_MS = 100,   /* the longest such pause, and the least after a whole round */
  REST_ROUNDS = 3,  /* rounds that a slab must rest while others of its class are taken */
};
enum { SEEN_HOLED = 1 << 15 }; /* `seen`: so many blocks are free; other free pages went */

/* A tick begins at slice `next`, counted over all arenas. relaxed, all: hints */
static struct {
  pace_t ticks;
  atomic32_t next;
  atomic64_t used[ARRAY_LENGTH(partial_used)];
} rounds;

typedef struct {
  bool is_at_once;       /* whatever the slabs hold, rested or not */
  size_t groups, work;   /* what is left to do */
  slab_starts_t *starts; /* notes on a slab: too large for a handler's stack */
} walk_t;

/* By now the anchor may be another slab's. */
static bool holds_little(const slab_t *s) {
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor));
  return a.state == ANCHOR_PARTIAL && a.carved - a.count <= LIVE_MOST;
}

/* The slab is the caller's. */
static uint16_t count_free(const slab_t *s) {
  return (uint16_t)(atomic32_load_relaxed(&s->carved) - s->sunk - slab_used(s));
}

static slab_starts_t *starts_of(walk_t *w) {
  if (w->starts == NULL) w->starts = os_map(sizeof *w->starts);
  return w->starts;
}

/* True: the slab's free pages may go. The caller has the slab; `seen` counts the looks, and a heap
 * that takes the slab over sets it to 0. */
static bool note_look(const walk_t *w, slab_t *s) {
  unsigned c = slab_class(s);
  if (w->is_at_once) return true;
  if ((s->seen & SEEN_HOLED) != 0) return (s->seen & ~SEEN_HOLED) != count_free(s);
  uint64_t used = atomic64_load_relaxed(&rounds.used[c / 64]) >> c % 64 & 1;
  return s->seen++ >= (used ? REST_ROUNDS : 1);
}

/* The slab is the caller's. */
static void give_back_pages(walk_t *w, slab_t *s) {
  if (!note_look(w, s) || starts_of(w) == NULL) return;
  slab_make_holes(s, w->starts);
  s->seen = count_free(s) | SEEN_HOLED;
  if (!w->is_at_once) w->work -= min_size(w->work, HOLED_WORK - 1);
}

/* A slab that had its bit a moment ago. If it still has a bit for class `c`, that is its class.
 * Out of line to save stack. */
static out_of_line void look_at_slice(walk_t *w, arena_t *a, size_t slice) {
  slab_t *s = slab_of(arena_address(a, slice));
  unsigned c = slab_class(s);
  bool is_empty;
  if (c == 0 || c >= CLASS_COUNT || !slab_may_have_holes(s, c)) return;
  if (!w->is_at_once && !holds_little(s)) return;
  atomic64_t *word = &arena_maps(a)->partial[slice / 64][c];
  if (!partial_claim(word, (uint64_t)1 << slice % 64, s, &is_empty)) return;
  w->work--;
  if (!is_empty) give_back_pages(w, s);
  if (is_empty || slab_let_go(s) == SLAB_IS_EMPTY) slab_release(s);
  else slab_tally_add(TALLY_PUBLICATIONS, (uint64_t)-1); /* a look does not count */
}

/* Looks at a group's slabs from that slice on. Returns where to continue. */
static size_t look_over(walk_t *w, arena_t *a, size_t slice) {
  uint64_t bits = 0;
  /* relaxed: a bit that is missed was set just now */
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    bits |= atomic64_load_relaxed(&arena_maps(a)->partial[slice / 64][c]);
  /* Bound: the bits of a word */
  for (bits &= ~(uint64_t)0 << slice % 64; bits != 0; bits &= bits - 1) {
    if (w->work == 0) return slice / 64 * 64 + bits_lowest(bits);
    look_at_slice(w, a, slice / 64 * 64 + bits_lowest(bits));
  }
  w->work -= min_size(w->work, span_purge(a, slice / 64, w->is_at_once));
  w->groups--;
  return (slice / 64 + 1) * 64;
}

/* Walks from that slice on, counted over all arenas. Returns where to continue, 0 at the end. */
static size_t walk(walk_t *w, size_t at) {
  size_t end = arena_count() * WINDOW_SLICES;
  while (at < end && w->groups != 0 && w->work != 0) { /* Bound: `groups` */
    arena_t *a = arena_at(at / WINDOW_SLICES);
    size_t slice = at % WINDOW_SLICES;
    bool is_mapped = a != NULL && slice < atomic64_load_relaxed(&a->mapped);
    at = at - slice + (is_mapped ? look_over(w, a, slice) : WINDOW_SLICES);
  }
  if (w->starts != NULL) os_unmap(w->starts, sizeof *w->starts);
  return at < end ? at : 0;
}

void sparse_collect(void) {
  walk_t w = {.is_at_once = true, .groups = SIZE_MAX, .work = SIZE_MAX};
  walk(&w, 0);
}

uint32_t sparse_tick(void) {
  int64_t delay = option_get(OPTION_purge_delay_ms);
  uint32_t now = os_now_ms();
  walk_t w = {.is_at_once = budget_is_tight(), .groups = TICK_GROUPS, .work = TICK_WORK};
  size_t next = atomic32_load_relaxed(&rounds.next);
  size_t least = next == 0 ? patience_delay((uint32_t)delay) : 0;
  if (delay < 0 || !pace_take(&rounds.ticks, now, least)) return now;
  pace_set_wait(&rounds.ticks, ROUND_MS); /* as long as it takes */
  uint64_t began = os_now_ns();
  for (size_t i = 0; next == 0 && i < ARRAY_LENGTH(partial_used); i++)
    atomic64_store_relaxed(&rounds.used[i], atomic64_exchange_relaxed(&partial_used[i], 0));
  next = walk(&w, next);
  uint64_t wait = (os_now_ns() - began) * TICK_TIMES / 1000000 + 1;
  atomic32_store_relaxed(&rounds.next, (uint32_t)next);
  pace_set_wait(&rounds.ticks, next == 0 ? ROUND_MS : min_size(wait, ROUND_MS));
  return now;
}
