/* tally.c - what slabs and threads count                                              layer 4: slab
 * Contract: tally.h. */
#include "tally.h"

#include "../base/layout.h"

large_table slab_counts_t slab_counts;
LAYOUT_VARIABLE(slab_counts);
__thread slab_tally_t *slab_tally
  __attribute__((tls_model("initial-exec"))); /* NULL: a common one */

void slab_choose_tally(size_t number) {
  slab_tally = number < TALLIES_OWN ? &slab_counts.tallies[number] : NULL;
}

__thread slab_thread_t slab_thread __attribute__((tls_model("initial-exec")));

static slab_tally_t *common_tally(void) {
  uint32_t mixed = (uint32_t)((uintptr_t)&slab_tally >> 6) * 0x9E3779B1u; /* threads differ in it */
  return &slab_counts.tallies[TALLIES_OWN + (mixed >> 16) % (TALLIES - TALLIES_OWN)];
}

void slab_tally_add(size_t count, uint64_t more) {
  slab_tally_t *t = slab_tally;
  if (likely(t != NULL)) atomic64_add_own(&t->counts[count], more);
  else atomic64_add_relaxed(&common_tally()->counts[count], more);
}

uint64_t slab_tally_sum(size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < TALLIES; i++)
    sum += atomic64_load_relaxed(&slab_counts.tallies[i].counts[count]);
  return sum;
}

void slab_tally_change(uint64_t live, uint64_t free) {
  slab_tally_t *t = slab_tally;
  if (!COUNTED) return;
  if (likely(t != NULL)) {
    atomic64_add_own(&t->counts[TALLY_LIVE], live);
    atomic64_add_own(&t->counts[TALLY_FREE], free);
    return;
  }
  slab_tally_add(TALLY_LIVE, live);
  slab_tally_add(TALLY_FREE, free);
}

/* ---- blocks of each class, and their peaks --------------------------------------------------- */

enum {
  STEP_PART = 64,    /* of the peak so far */
  STEP_LEAST = 4096, /* bytes */
};

/* So large that threads seldom write shared words, yet small enough to know a peak closely. */
uint32_t slab_tally_step(unsigned c) {
  size_t part = atomic64_load_relaxed(&slab_counts.classes[c].peak) / STEP_PART;
  return (uint32_t)min_size(max_size(part, STEP_LEAST / max_size(class_size(c), 1)),
                            class_info[c].capacity);
}

uint64_t slab_taken_peak(unsigned c, uint64_t live) {
  return atomic64_raise_relaxed(&slab_counts.classes[c].peak, live);
}

static void add_taken(unsigned c, int64_t blocks) {
  atomic64_t *word = &slab_counts.classes[c].taken;
  uint64_t taken = atomic64_add_relaxed(word, (uint64_t)blocks) + (uint64_t)blocks;
  if (blocks > 0) slab_taken_peak(c, taken);
}

void slab_count_taken(unsigned c, int blocks) {
  if (!COUNTED) return;
  slab_tally_change((uint64_t)blocks * class_size(c), (uint64_t)-blocks);
  slab_tally_t *t = slab_tally;
  atomic32_t *word = &(t != NULL ? t : common_tally())->taken[c];
  if (t != NULL) atomic32_add_own(word, (uint32_t)blocks);
  else atomic32_add_relaxed(word, (uint32_t)blocks);
  uint32_t step = slab_tally_step(c), taken = atomic32_load_relaxed(word);
  if (unlikely(taken + step > 2 * step)) {
    int32_t due = (int32_t)atomic32_exchange_relaxed(word, 0); /* each is added once */
    add_taken(c, due);
    add_taken(0, due);
  }
  ASSERT_VALID(t == NULL || tally_is_valid(t, c));
}

bool tally_is_valid(const slab_tally_t *t, unsigned c) {
  uint32_t step = slab_tally_step(c);
  HOLDS(N1, atomic32_load_relaxed(&t->taken[c]) + step <= 2 * step);
  return true;
}
