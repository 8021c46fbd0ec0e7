/* surplus.c - how much all heaps together keep beyond what each is due               layer 5: stock
 * Contract: surplus.h. */
#include "surplus.h"

#include "../arena/arena.h"
#include "../arena/budget.h"
#include "../support/options.h"

enum { HEAPS_PART = 16 }; /* what is small beside all that is in use */

/* In slices. relaxed: a few heaps may pass the bound; and what heaps keep that were left behind for
 * ever is never taken off. */
static atomic32_t surplus;
atomic32_t surplus_sharers;

static size_t all_surplus(void) { return atomic32_load_relaxed(&surplus); }

static size_t most_surplus(void) {
  if (budget_is_tight()) return 0;
  return max_size(atomic64_load_relaxed(&arena_counts.committed) / SURPLUS_PART, SURPLUS_LEAST);
}

bool surplus_is_shared_by_many(void) {
  int64_t most = option_get(OPTION_caching_threads);
  return unlikely((int32_t)atomic32_load_relaxed(&surplus_sharers) > most);
}

void surplus_add(uint32_t slices) { atomic32_add_relaxed(&surplus, slices); }
bool surplus_has_room(void) { return all_surplus() < most_surplus(); }
bool surplus_is_too_much(void) { return all_surplus() > 2 * most_surplus(); }

bool surplus_is_part(size_t slices) {
  int32_t sharers = (int32_t)atomic32_load_relaxed(&surplus_sharers);
  size_t all = slices * (sharers > 0 ? (size_t)sharers : 1);
  return all * HEAPS_PART <= atomic64_load_relaxed(&arena_counts.committed);
}

bool surplus_ask(size_t slices) {
  if (all_surplus() + 2 * slices > most_surplus()) return false;
  surplus_add((uint32_t)slices);
  return true;
}
