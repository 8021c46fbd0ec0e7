/* counts.h - what the tests of arenas, slabs and heaps read off: slices, and a slab's anchor */
#ifndef COUNTS_H
#define COUNTS_H

#include "core.h"

#include "../../src/arena/patience.h"
#include "../../src/arena/purge.h"
#include "../../src/arena/slices.h"
#include "../../src/slab/slab.h"

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

unused static anchor_t anchor(const slab_t *s) {
  return anchor_unpack(atomic64_load_relaxed(&s->anchor));
}

unused static char *claim(size_t n) {
  bool clean;
  return arena_claim(n, 1, &clean);
}

#endif
