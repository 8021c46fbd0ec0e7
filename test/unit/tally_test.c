/* tally_test.c - tests of slab/tally */
#include "slabs.h"

static void *count_some(void *context) {
  slab_choose_tally(*(size_t *)context);
  slab_tally_change(50, 1);
  return NULL;
}

TEST(tally, threads_with_a_tally_of_their_own_and_those_that_share_one_are_added_up, "") {
  size_t numbers[] = {3, 3, TALLIES_OWN, TALLIES_OWN + 7};
  for (unsigned i = 0; i < ARRAY_LENGTH(numbers); i++) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, count_some, &numbers[i]), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
  }
  CHECK_EQ(slab_tally_sum(TALLY_LIVE), 200u);
  CHECK_EQ(slab_tally_sum(TALLY_FREE), 4u);
}

TEST(tally, what_one_thread_has_taken_another_may_bring_back, "") {
  slab_choose_tally(1);
  slab_count_taken(5, 10);
  slab_choose_tally(2);
  slab_count_taken(5, -10);
  CHECK_EQ(slab_tally_sum(TALLY_LIVE), 0u);
  CHECK_EQ(slab_tally_sum(TALLY_FREE), 0u);
}

TEST(tally, a_thread_holds_back_no_more_than_a_step_of_a_class, "N1") {
  enum { C = 5 };
  slab_choose_tally(1);
  slab_tally_t *own = &slab_counts.tallies[1];
  int blocks = 0;
  for (int i = 0; i < 10000; i++) {
    int more = i % 100 == 0 ? -(blocks / 2) : i % 7 + 1;
    slab_count_taken(C, more);
    blocks += more;
    CHECK(tally_is_valid(own, C));
  }
  CHECK(slab_taken_peak(C, 0) != 0);
  atomic32_store_relaxed(&own->taken[C], slab_tally_step(C) + 1);
  EXPECT_ABORT(tally_is_valid(own, C), "invariant N1");
}
