/* arenas.h - what the tests of the arena layer, and those above, count */
#ifndef ARENAS_H
#define ARENAS_H

#include "core.h"

#include "../../src/arena/slices.h"

unused static size_t free_slices(void) {
  size_t n = 0;
  for (size_t i = 0; i < arena_count(); i++) {
    arena_t *a = arena_at(i);
    if (a == NULL) continue;
    CHECK(arena_is_valid(a));
    for (size_t w = 0; w < ARENA_WORDS; w++) n += bits_count(atomic64_load_relaxed(&a->free[w]));
  }
  return n;
}

/* Slices that are mapped, and neither claimed, free nor an arena's own. */
unused static size_t lost_slices(void) {
  return atomic64_load_relaxed(&arena_counts.mapped) - arena_count() * ARENA_FIRST_SLICE -
         atomic64_load_relaxed(&arena_counts.committed) - free_slices();
}

unused static uint64_t committed(void) { return atomic64_load_relaxed(&arena_counts.committed); }

unused static char *claim(size_t n) {
  bool clean;
  return arena_claim(n, 1, &clean);
}

#endif
