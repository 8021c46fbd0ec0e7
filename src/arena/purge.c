/* purge.c - gives idle dirty slices back to the system                               layer 3: arena
 * Owns:    the time of the last look; the doublings; the pause.   Called by: arena.c, heap.
 *          Calls: bitmap, support, os.
 * Threads: any, at once. The slices of one word (4 MiB at most) are claimed, discarded and freed
 *          again, so a thread that stops here holds back no more than that, and nobody waits for
 *          it.
 * Sync:    S-bit (bitmap.h). */
#include "../os/os.h"
#include "../support/options.h"
#include "arena.h"

enum {
  PURGE_STEP = 64, /* slices: 4 MiB, so that few calls discard much, and none takes long */
  BUDGET_SHARE = 64, /* a large heap may keep this part of it dirty */
  /* Ranges in a row that the system would not take back, for a program may have locked some of its
   * pages, or all: then a purge ends, unless it is for all, and none begins for a while. */
  REFUSALS_MOST = 4,
  PAUSE_LEAST = 64, PAUSE_MOST = 4096, /* ms: twice as long each time */
  LOOKS_MOST = 8, /* groups for one look: as many as looks that are overdue */
};

static atomic32_t last_look; /* os_now_ms; relaxed: whoever swaps it looks */
static atomic32_t pause_ms, paused_at; /* relaxed: a bad guess costs a few calls, or a delay */

static bool is_paused(uint32_t now) {
  return now - atomic32_load_relaxed(&paused_at) < atomic32_load_relaxed(&pause_ms);
}

static void note_outcome(bool is_refused, bool has_purged, uint32_t now) {
  uint32_t pause = atomic32_load_relaxed(&pause_ms);
  if (is_refused) pause = pause == 0 ? PAUSE_LEAST : (uint32_t)min_size(2 * pause, PAUSE_MOST);
  else if (has_purged) pause = 0;
  if (is_refused) atomic32_store_relaxed(&paused_at, now);
  if (pause != atomic32_load_relaxed(&pause_ms)) atomic32_store_relaxed(&pause_ms, pause);
}

/* Patience. A program whose demand swings by more than the budget would give the same pages back
 * and touch them again for ever. So purged slices that are claimed again are counted as
 * regretted, however long ago they were purged, and when they come to PURGE_STEP within REGRET_MS,
 * the budget and the delay are doubled once more; at the first look after CALM_MS without that they
 * are halved, once for each CALM_MS. The budget ends at the most that was ever in use. All relaxed:
 * a bad guess costs time only. */
enum { DOUBLINGS_MOST = 6, REGRET_MS = 1000, CALM_MS = 4000 };
static atomic32_t doublings, regretted, regretted_since, calm_since;

static size_t budget_slices(void) {
  uint64_t share = atomic64_load_relaxed(&arena_counts.committed) / BUDGET_SHARE;
  size_t budget = (size_t)option_get(OPTION_purge_budget) >> SLICE_SHIFT;
  uint64_t peak = atomic64_load_relaxed(&arena_counts.peak_committed);
  size_t doubled = min_size(budget << atomic32_load_relaxed(&doublings), peak);
  return max_size(max_size(budget, doubled), share);
}

void purge_note_reuse(size_t n) {
  uint32_t now = os_now_ms();
  if (now - atomic32_load_relaxed(&regretted_since) > REGRET_MS) {
    atomic32_store_relaxed(&regretted_since, now);
    atomic32_store_relaxed(&regretted, 0);
  }
  uint32_t slices = (uint32_t)(atomic32_add_relaxed(&regretted, (uint32_t)n) + n);
  uint32_t before = atomic32_load_relaxed(&doublings);
  if (slices < PURGE_STEP || before >= DOUBLINGS_MOST) return;
  atomic32_store_relaxed(&regretted, 0);
  atomic32_store_relaxed(&calm_since, now);
  atomic32_swap_relaxed(&doublings, &before, before + 1);
}

static void halve_when_calm(uint32_t now) {
  uint32_t since = atomic32_load_relaxed(&calm_since), before = atomic32_load_relaxed(&doublings);
  uint32_t steps = (uint32_t)min_size((now - since) / CALM_MS, before);
  if (steps == 0 || !atomic32_swap_relaxed(&calm_since, &since, now)) return;
  atomic32_swap_relaxed(&doublings, &before, before - steps);
}

/* Discards the dirty ones of the slices that a word stands for; how many they were. Those that the
 * system refuses to take stay dirty, and are counted. */
static size_t purge_word(arena_t *a, size_t word, unsigned *refusals, unsigned most) {
  arena_maps_t *maps = arena_maps(a);
  uint64_t dirty = atomic64_load_relaxed(&maps->dirty[word]);
  if ((dirty & atomic64_load_relaxed(&a->free[word])) == 0) return 0;
  uint64_t claimed = bitmap_claim_some(&a->free[word], dirty);
  uint64_t todo = claimed & atomic64_load_relaxed(&maps->dirty[word]); /* relaxed: ours now, A1 */
  size_t purged = 0;
  for (uint64_t rest = todo; rest != 0 && *refusals < most;) { /* Bound: a word's runs */
    unsigned at = bits_lowest(rest), n = bits_ones_below(rest >> at);
    uint64_t run = bits_run(at, n);
    rest &= ~run;
    bool is_refused = !os_discard(arena_address(a, word * 64 + at), (size_t)n << SLICE_SHIFT);
    *refusals = is_refused ? *refusals + 1 : 0;
    if (is_refused) continue;
    atomic64_and_relaxed(&maps->dirty[word], ~run);
    atomic64_or_relaxed(&maps->purged[word], run);
    purged += n;
  }
  atomic64_add_relaxed(&arena_counts.dirty, (uint64_t)0 - purged);
  atomic64_add_relaxed(&arena_counts.purged, purged << SLICE_SHIFT);
  if (claimed != 0) atomic64_or_release(&a->free[word], claimed); /* S-bit */
  return purged;
}

/* Purges words that have rested for `age` ms, from the highest address down, until `want` slices
 * are gone, or the system has refused `most` in a row. */
static void purge(size_t want, uint32_t age, unsigned most) {
  uint32_t now = os_now_ms();
  size_t purged = 0;
  unsigned refusals = 0;
  if (most == REFUSALS_MOST && is_paused(now)) return;
  for (size_t i = arena_count(); i-- > 0 && purged < want && refusals < most;) {
    arena_t *a = arena_at(i);
    if (a == NULL) continue;
    for (size_t word = (atomic64_load_relaxed(&a->mapped) + 63) / 64;
         word-- > 0 && purged < want && refusals < most;) {
      if (age != 0 && now - atomic32_load_relaxed(&arena_maps(a)->dirty_since[word]) < age)
        continue;
      purged += purge_word(a, word, &refusals, most);
    }
  }
  note_outcome(refusals >= (purged != 0 ? REFUSALS_MOST : 1), purged != 0, now);
}

void purge_over_budget(size_t released) {
  if (likely(atomic64_load_relaxed(&arena_counts.dirty) <= budget_slices())) return;
  if (option_get(OPTION_purge_delay_ms) >= 0)
    purge(max_size(PURGE_STEP, 2 * released), 0, REFUSALS_MOST);
}

void purge_tick(void) {
  int64_t delay = option_get(OPTION_purge_delay_ms);
  if (delay < 0 || atomic64_load_relaxed(&arena_counts.dirty) == 0) return;
  uint32_t now = os_now_ms(), last = atomic32_load_relaxed(&last_look);
  if (delay != 0 && now - last < (uint32_t)delay / 4) return;
  if (!atomic32_swap_relaxed(&last_look, &last, now)) return;
  halve_when_calm(now);
  size_t looks = WINDOW_SLICES / PURGE_STEP;
  if (delay != 0)
    looks = max_size(1, min_size(4 * (uint64_t)(now - last) / (uint64_t)delay, LOOKS_MOST));
  purge(looks * PURGE_STEP, (uint32_t)delay << atomic32_load_relaxed(&doublings), REFUSALS_MOST);
}

void purge_all(void) { purge((size_t)-1, 0, ~0u); }
