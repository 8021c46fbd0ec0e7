/* patience_test.c - tests of arena/patience */
#include "counts.h"

#include "../../src/arena/patience.h"

static void regret(int times) {
  for (int i = 0; i < times; i++) patience_note_reuse(PURGE_STEP);
}

TEST(patience, what_is_purged_and_needed_again_doubles_the_delay_as_far_as_six_times, "") {
  CHECK_EQ(patience_delay(100), 100u);
  patience_note_reuse(PURGE_STEP - 1);
  CHECK_EQ(patience_delay(100), 100u);
  patience_note_reuse(1);
  CHECK_EQ(patience_delay(100), 200u);
  regret(20);
  CHECK_EQ(patience_delay(100), 6400u);
}

TEST(patience, reuse_that_is_spread_over_seconds_is_none, "") {
  for (int i = 0; i < 10; i++) {
    patience_note_reuse(PURGE_STEP / 2);
    os_fake.now_ms += 1100;
  }
  CHECK_EQ(patience_delay(100), 100u);
}

TEST(patience, each_quiet_while_halves_it_again, "") {
  regret(3);
  patience_calm(os_fake.now_ms + 3900);
  CHECK_EQ(patience_delay(100), 800u);
  patience_calm(os_fake.now_ms + 4000);
  CHECK_EQ(patience_delay(100), 400u);
  patience_calm(os_fake.now_ms + 12000);
  CHECK_EQ(patience_delay(100), 100u);
}

TEST(patience, the_budget_is_doubled_with_it_but_not_beyond_what_was_ever_in_use, "") {
  core_option(OPTION_purge_budget, 16 * SLICE_SIZE);
  CHECK_EQ(patience_budget(), 16u);
  regret(2);
  CHECK_EQ(patience_budget(), 16u);
  atomic64_store_relaxed(&arena_counts.peak_committed, 50);
  CHECK_EQ(patience_budget(), 50u);
  atomic64_store_relaxed(&arena_counts.peak_committed, 5000);
  CHECK_EQ(patience_budget(), 64u);
}
