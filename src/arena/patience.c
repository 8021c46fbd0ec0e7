/* patience.c - how much may stay dirty, as the program has taught it                 layer 3: arena
 * Contract: patience.h.
 *
 * A program whose demand swings by more than the budget would give the same pages back and touch
 * them again endlessly. So purged slices that are claimed again count as regretted, however long
 * ago they were purged. They fill a bucket that leaks. The leak stands for a hundredth of a
 * processor's time, which giving memory back is worth. Each PURGE_STEP that finds the bucket full
 * doubles the budget. Slices idle for less than the delay would have cost next to nothing to keep,
 * so they count twice. The others also fill a bucket of their own, which doubles the delay. The
 * first look after CALM_MS without that halves them, once for each CALM_MS. The budget ends at a
 * quarter more than was ever in use: a swing leaves more slices free than it used at once. */
#include "patience.h"

#include "../support/options.h"
#include "../support/pace.h"
#include "arena.h"
#include "budget.h"

enum { DIRTY_PART = 64 }; /* this part of the memory in use may be dirty */
enum { SPANS_PART = 6 };  /* at most this part of the spans' pages may be free and in memory */
enum { DOUBLINGS_MOST = 6, CALM_MS = 4000, SOON_TIMES = 2 };
enum { SPANS_DOUBLINGS = 4 }; /* more would change nothing: DIRTY_PART, SPANS_PART */
enum { LEAK_PER_MS = 2, BUCKET = 8 * PURGE_STEP }; /* slices: 128 MiB a second, 32 MiB */

typedef struct {
  atomic32_t doublings, regretted, leaked_until;
  pace_t calm;
} learned_t;
static learned_t budgets, delays, spans;

size_t patience_budget(void) {
  if (budget_is_tight()) return 0;
  uint64_t part = arena_used() / DIRTY_PART;
  size_t least = (uint64_t)option_get(OPTION_purge_budget) >> SLICE_SHIFT;
  uint64_t peak = atomic64_load_relaxed(&arena_counts.peak_committed), most = peak + peak / 4;
  size_t doubled = min_size(least << atomic32_load_relaxed(&budgets.doublings), most);
  return max_size(max_size(least, doubled), part);
}

uint32_t patience_delay(uint32_t delay) {
  return budget_is_tight() ? 0 : delay << atomic32_load_relaxed(&delays.doublings);
}

/* Fills in `n` more; returns what the bucket holds. Two threads at once may let it leak twice. */
static uint32_t fill_bucket(learned_t *l, uint32_t now, size_t n) {
  size_t leaked = (size_t)os_ms_between(atomic32_load_relaxed(&l->leaked_until), now) * LEAK_PER_MS;
  size_t before = atomic32_load_relaxed(&l->regretted);
  uint32_t after = (uint32_t)(before - min_size(before, leaked) + n);
  atomic32_store_relaxed(&l->leaked_until, now);
  atomic32_store_relaxed(&l->regretted, after);
  return after;
}

static void regret(learned_t *l, uint32_t now, size_t n) {
  uint32_t before = atomic32_load_relaxed(&l->doublings);
  if (fill_bucket(l, now, n) < BUCKET) return;
  atomic32_store_relaxed(&l->regretted, BUCKET - PURGE_STEP);
  pace_note(&l->calm, now, CALM_MS);
  if (before < (l == &spans ? SPANS_DOUBLINGS : DOUBLINGS_MOST))
    atomic32_cas_relaxed(&l->doublings, &before, before + 1);
}

void patience_note_reuse(size_t n, uint32_t age) {
  if (budget_is_tight()) return; /* whatever it costs */
  uint32_t now = os_now_ms();
  bool is_soon = age < patience_delay((uint32_t)option_get(OPTION_purge_delay_ms));
  regret(&budgets, now, is_soon ? n * SOON_TIMES : n);
  if (!is_soon) regret(&delays, now, n);
}

static void calm(learned_t *l, uint32_t now) {
  uint32_t before = atomic32_load_relaxed(&l->doublings), passed = pace_passed(&l->calm, now);
  if (before == 0 || !pace_take(&l->calm, now, CALM_MS)) return;
  atomic32_cas_relaxed(&l->doublings, &before, before - min_size(passed / CALM_MS, before));
}

uint64_t patience_free_pages(void) {
  uint64_t all = atomic64_load_relaxed(&arena_counts.spans) * ARENA_SPAN_PAGES;
  uint32_t doublings = atomic32_load_relaxed(&spans.doublings);
  if (doublings != 0) calm(&spans, os_now_ms());
  uint64_t part = (all / DIRTY_PART) << doublings, budget = patience_budget();
  return min_size(part, all / SPANS_PART) + budget * TOUCHED_ALL;
}

/* Under pressure too: else a program beyond memory_soft would pay for each block. */
void patience_note_pages(unsigned n) {
  static atomic64_t pages;
  uint64_t before = atomic64_add_relaxed(&pages, n);
  uint64_t slices = (before + n) / TOUCHED_ALL - before / TOUCHED_ALL;
  if (slices != 0) regret(&spans, os_now_ms(), slices);
}

out_of_line void patience_calm(uint32_t now) {
  calm(&budgets, now);
  calm(&delays, now);
}
