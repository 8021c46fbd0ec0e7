/* purge.c - gives idle dirty slices back to the system                               layer 3: arena
 * Contract: purge.h. */
#include "purge.h"

#include "../support/options.h"
#include "../support/pace.h"
#include "../support/timing.h"
#include "budget.h"
#include "frames.h"
#include "patience.h"
#include "slices.h"

/* A program may have locked some or all of its pages. After REFUSALS_MOST refusals in a row a purge
 * skips the rest of a group, and for REFUSED_MS all of it. After REFUSED_MOST in all it ends. */
enum { REFUSALS_MOST = 4, REFUSED_MS = 4000, REFUSED_MOST = 64 };
enum {
  GROUPS_ASKED = 1024, /* groups whose rest one tick checks */
  OVERDUE_MOST = 8,    /* groups for one look: one for each look that is overdue */
};

/* How many slices counted as dirty when a look at all of them found no more to purge. The system
 * has refused them, or threads held them; in a child of fork only the count is left. relaxed: while
 * it is too high, more than the budget stays until a tick takes it. */
static atomic64_t unpurgeable;

static pace_t ticks;

/* The next tick begins below this group, counted over all arenas; 0: at the highest. relaxed: ticks
 * that overlap may look twice. */
static atomic32_t tick_next;

static bool has_dirty(arena_t *a, size_t word) {
  uint64_t free = atomic64_load_seq_cst(&a->free[word]);                   /* S-group */
  return (free & atomic64_load_relaxed(&arena_maps(a)->dirty[word])) != 0; /* relaxed: set before */
}

/* What one call may do, and has done. */
typedef struct {
  uint32_t want, purged; /* slices */
  uint32_t looks, next;  /* groups; the last one looked at, counted over all arenas */
  uint32_t now, age;     /* ms; a group must have rested for `age` */
  uint32_t refused;      /* ranges; in a row: */
  uint8_t in_row;
  bool is_asked; /* by the program: tries what was refused, too */
} purge_t;

static bool is_done(const purge_t *p) {
  bool is_in_vain = p->refused >= REFUSED_MOST && !p->is_asked;
  return p->purged >= p->want || is_in_vain || p->looks == 0;
}

/* A run of claimed slices went back to the system. */
static out_of_line void note_purged(purge_t *p, arena_t *a, size_t word, unsigned at, unsigned n) {
  arena_maps_t *maps = arena_maps(a);
  uint64_t run = bits_run(at, n);
  atomic64_and_relaxed(&maps->dirty[word], ~run);
  atomic64_or_relaxed(&maps->purged[word], run);
  memset(&maps->touched[word * 64 + at], 0, n);
  frames_break(a, word * 64 + at, n);
  ASSERT_VALID(slices_are_valid(a, word * 64 + at, n, false));
  atomic64_add_relaxed(&arena_counts.dirty, (uint64_t)0 - n);
  atomic64_add_relaxed(&arena_counts.purged, (uint64_t)n << SLICE_SHIFT);
  p->purged += n;
  p->in_row = 0;
}

/* Discards the dirty slices of a word. Those that the system refuses to take stay dirty; a word
 * with refusals begins elsewhere the next time. */
static void purge_word(purge_t *p, arena_t *a, size_t word) {
  arena_maps_t *maps = arena_maps(a);
  uint64_t dirty = atomic64_load_relaxed(&maps->dirty[word]);
  uint32_t refused_at = atomic32_load_relaxed(&maps->refused_at[word]); /* relaxed: patience */
  if (refused_at != 0 && !p->is_asked && os_ms_between(refused_at, p->now) < REFUSED_MS) return;
  if (p->age != 0) dirty &= ~frames_spared(a, word);
  if ((dirty & atomic64_load_relaxed(&a->free[word])) == 0) return;
  uint64_t claimed = bitmap_claim_some(&a->free[word], dirty);
  uint64_t todo = claimed & atomic64_load_relaxed(&maps->dirty[word]); /* relaxed: ours now, A1 */
  uint64_t rest = todo & ~(uint64_t)0 << refused_at / 8 % 64;
  if (rest == 0 || p->is_asked) rest = todo;
  if (refused_at != 0) atomic32_store_relaxed(&maps->refused_at[word], 0);
  p->in_row = 0;
  while (rest != 0 && (p->in_row < REFUSALS_MOST || p->is_asked)) { /* Bound: a word's runs */
    unsigned at = bits_lowest(rest), n = bits_ones_below(rest >> at);
    rest &= ~bits_run(at, n);
    timing_mark(TIMING_PURGE);
    if (!os_discard(arena_address(a, word * 64 + at), (size_t)n << SLICE_SHIFT)) {
      atomic32_store_relaxed(&maps->refused_at[word], p->now | 1);
      p->in_row++;
      p->refused++;
      continue;
    }
    note_purged(p, a, word, at, n);
  }
  if (claimed != 0) arena_put_back(a, word, claimed);
}

static void purge_group(purge_t *p, arena_t *a, size_t word) {
  p->looks--;
  p->next = a->number * ARENA_GROUPS + (uint32_t)word;
  uint32_t since = atomic32_load_relaxed(&arena_maps(a)->dirty_since[word]);
  if (p->age != 0 && os_ms_between(since, p->now) < p->age) return;
  purge_word(p, a, word);
  if (has_dirty(a, word)) return;
  hint_clear(arena_maps(a)->dirty_groups, word); /* S-group */
  if (has_dirty(a, word)) slices_note_dirty(a, word, 1);
}

/* The bits of a word of hints from the highest down, without those from `end` on. */
static uint64_t below(uint64_t bits, size_t first, size_t end) {
  if (end <= first) return 0;
  return end - first >= 64 ? bits : bits & bits_run(0, (unsigned)(end - first));
}

static void purge_arena(purge_t *p, arena_t *a, size_t end) {
  atomic64_t *groups = arena_maps(a)->dirty_groups;
  for (size_t i = ARENA_GROUPS / 64; i-- > 0;) {
    /* relaxed: a bit that is missed was set just now. Bound: the bits of a word */
    for (uint64_t w = below(atomic64_load_relaxed(&groups[i]), i * 64, end); w != 0;) {
      unsigned at = bits_highest(w);
      w ^= (uint64_t)1 << at;
      if (is_done(p)) return;
      purge_group(p, a, i * 64 + at);
    }
  }
  if (hint_any(groups, ARENA_GROUPS / 64)) return;
  hint_clear(dirty_arenas, a->number); /* S-group */
  if (hint_any(groups, ARENA_GROUPS / 64)) hint_set(dirty_arenas, a->number);
}

/* Purges groups, from the highest address down, beginning below group number `end`. Out of line to
 * save stack, but not `cold`: a program with large blocks comes here with each free. */
static out_of_line void purge(purge_t *p, size_t end) {
  size_t arenas = min_size(arena_count(), (end + ARENA_GROUPS - 1) / ARENA_GROUPS);
  for (size_t i = (arenas + 63) / 64; i-- > 0;) {
    /* relaxed and Bound: as in purge_arena */
    uint64_t w = below(atomic64_load_relaxed(&dirty_arenas[i]), i * 64, arenas);
    for (; w != 0 && !is_done(p); w ^= (uint64_t)1 << bits_highest(w)) {
      size_t number = i * 64 + bits_highest(w);
      arena_t *a = arena_at(number);
      if (a != NULL) purge_arena(p, a, end - number * ARENA_GROUPS);
    }
  }
  uint64_t dirty = atomic64_load_relaxed(&arena_counts.dirty);
  bool is_all = p->age == 0 && p->purged < p->want;
  if (is_all || dirty < atomic64_load_relaxed(&unpurgeable))
    atomic64_store_relaxed(&unpurgeable, dirty);
}

enum { ALL_GROUPS = ARENA_MOST * ARENA_GROUPS };

void purge_over_budget(size_t released) {
  uint64_t dirty = atomic64_load_relaxed(&arena_counts.dirty);
  uint64_t in_vain = atomic64_load_relaxed(&unpurgeable);
  if (unlikely(dirty < in_vain)) atomic64_store_relaxed(&unpurgeable, in_vain = dirty);
  if (likely(dirty <= in_vain + patience_budget()) || option_get(OPTION_purge_delay_ms) < 0) return;
  purge_t p = {
    .want = (uint32_t)max_size(PURGE_STEP, 2 * released), .looks = ALL_GROUPS, .now = os_now_ms()};
  purge(&p, ALL_GROUPS);
}

/* How many times a tick looks for PURGE_STEP slices: once for each look that is overdue. */
static out_of_line uint32_t looks_due(uint32_t passed, uint32_t delay) {
  if (delay == 0) return WINDOW_SLICES / PURGE_STEP;
  return (uint32_t)max_size(1, min_size(4 * (uint64_t)passed / delay, OVERDUE_MOST));
}

uint32_t purge_tick(void) {
  int64_t asked = option_get(OPTION_purge_delay_ms);
  if (asked < 0 || atomic64_load_relaxed(&arena_counts.dirty) == 0) return 0;
  uint32_t delay = budget_is_tight() ? 0 : (uint32_t)asked, now = os_now_ms();
  uint32_t passed = pace_passed(&ticks, now);
  if (!pace_take(&ticks, now, delay / 4)) return now;
  purge_t p = {.want = PURGE_STEP * looks_due(passed, delay),
               .looks = GROUPS_ASKED,
               .now = now,
               .age = patience_delay(delay)};
  patience_calm(now);
  size_t next = atomic32_load_relaxed(&tick_next);
  purge(&p, next != 0 ? next : ALL_GROUPS);
  /* The next tick continues where this one stopped, or begins anew. */
  atomic32_store_relaxed(&tick_next, is_done(&p) ? p.next : 0);
  return p.now;
}

void purge_all(void) {
  purge_t p = {.want = UINT32_MAX, .looks = ALL_GROUPS, .now = os_now_ms(), .is_asked = true};
  purge(&p, ALL_GROUPS);
}

void arena_release(void *at, size_t n) {
  arena_release_dirty(at, n);
  purge_over_budget(n);
  purge_tick();
}
