/* patience.c - how much may stay dirty, as the program has taught it                 layer 3: arena
 * Contract: patience.h.
 *
 * A program whose demand swings by more than the budget would give the same pages back and touch
 * them again for ever. So purged slices that are claimed again are counted as regretted, however
 * long ago they were purged. When they come to PURGE_STEP within REGRET_MS, budget and delay are
 * doubled. The first look after CALM_MS without that halves them, once for each CALM_MS. The budget
 * ends at the most that was ever in use. */
#include "patience.h"

#include "../os/os.h"
#include "../support/options.h"
#include "arena.h"
#include "budget.h"

enum { DIRTY_PART = 64 }; /* this part of what is in use may be dirty */
enum { DOUBLINGS_MOST = 6, REGRET_MS = 1000, CALM_MS = 4000 };
static atomic32_t doublings, regretted, regretted_since, calm_since;

size_t patience_budget(void) {
  if (budget_is_tight()) return 0;
  uint64_t part = atomic64_load_relaxed(&arena_counts.committed) / DIRTY_PART;
  size_t budget = (size_t)option_get(OPTION_purge_budget) >> SLICE_SHIFT;
  uint64_t peak = atomic64_load_relaxed(&arena_counts.peak_committed);
  size_t doubled = min_size(budget << atomic32_load_relaxed(&doublings), peak);
  return max_size(max_size(budget, doubled), part);
}

uint32_t patience_delay(uint32_t delay) {
  return budget_is_tight() ? 0 : delay << atomic32_load_relaxed(&doublings);
}

void patience_note_reuse(size_t n) {
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
  atomic32_cas_relaxed(&doublings, &before, before + 1);
}

void patience_calm(uint32_t now) {
  uint32_t since = atomic32_load_relaxed(&calm_since), before = atomic32_load_relaxed(&doublings);
  uint32_t steps = (uint32_t)min_size((now - since) / CALM_MS, before);
  if (steps == 0 || !atomic32_cas_relaxed(&calm_since, &since, now)) return;
  atomic32_cas_relaxed(&doublings, &before, before - steps);
}
