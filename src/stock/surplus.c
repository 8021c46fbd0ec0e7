/* surplus.c - how much all heaps together keep beyond what each is due               layer 5: stock
 * Contract: surplus.h. */
#include "surplus.h"

#include "../arena/arena.h"
#include "../arena/budget.h"
#include "users.h"

/* In slices. relaxed: a few heaps may pass the bound */
static struct {
  atomic32_t slices;
} aligned_to(64) surplus; /* a line of its own: all threads write to it */

static size_t all_surplus(void) { return atomic32_load_relaxed(&surplus.slices); }

/* The part for all processors that can run threads with a heap. */
static size_t processors_part(void) { return users_running() * SURPLUS_EACH; }

static size_t most_surplus(bool with_spare) {
  if (budget_is_tight()) return 0;
  return max_size(arena_used() / SURPLUS_PART, with_spare ? processors_part() : SURPLUS_LEAST);
}

/* The fences: the sum grows before a heap takes its part, and shrinks after it gives that up. Else
 * the part of a thread that stops or dies in between could be taken off twice: pool_abandon. */
void surplus_add(uint32_t slices) {
  signal_fence();
  atomic32_add_relaxed(&surplus.slices, slices);
  signal_fence();
}

bool surplus_has_room(void) { return all_surplus() < most_surplus(false); }
bool surplus_has_spare(void) {
  return !budget_is_tight() && all_surplus() + SURPLUS_LEAST < processors_part();
}
bool surplus_is_too_much(void) { return all_surplus() > 2 * most_surplus(true); }

size_t surplus_average(void) {
  size_t all = arena_used() + SURPLUS_SMALL;
  return all / max_size((size_t)users_count(), 1);
}

bool surplus_ask(size_t slices) {
  if (all_surplus() + 2 * slices > most_surplus(true)) return false;
  surplus_add((uint32_t)slices);
  return true;
}

bool surplus_is_valid(size_t kept) {
  HOLDS(K1, all_surplus() == kept);
  return true;
}
