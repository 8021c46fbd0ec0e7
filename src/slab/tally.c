/* tally.c - bytes of live blocks, and free blocks, by thread                          layer 4: slab
 * Contract: slab.h. */
#include "slab.h"

#include "../base/layout.h"

large_table slab_counts_t slab_counts;
LAYOUT_VARIABLE(slab_counts);
__thread slab_tally_t *slab_tally __attribute__((tls_model("initial-exec"))); /* NULL: shared */

void slab_choose_tally(size_t number) {
  slab_tally = number < TALLIES_OWN ? &slab_counts.tallies[number] : NULL;
}

void slab_count(size_t live, size_t free) {
  slab_tally_t *t = slab_tally;
  if (likely(t != NULL)) {
    atomic64_add_own(&t->live, live);
    atomic64_add_own(&t->free, free);
    return;
  }
  uint32_t mixed = (uint32_t)((uintptr_t)&slab_tally >> 6) * 0x9E3779B1u; /* threads differ in it */
  t = &slab_counts.tallies[TALLIES_OWN + (mixed >> 16) % (TALLIES - TALLIES_OWN)];
  atomic64_add_relaxed(&t->live, live);
  atomic64_add_relaxed(&t->free, free);
}

void slab_sum(uint64_t *live, uint64_t *free) {
  *live = *free = 0;
  for (size_t i = 0; i < TALLIES; i++) {
    *live += atomic64_load_relaxed(&slab_counts.tallies[i].live);
    *free += atomic64_load_relaxed(&slab_counts.tallies[i].free);
  }
}
