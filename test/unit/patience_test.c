/* patience_test.c - tests of arena/patience */
#include "counts.h"

#include "../../src/arena/patience.h"

static void regret(int times) {
  for (int i = 0; i < times; i++) patience_note_reuse(PURGE_STEP, UINT32_MAX);
}

/* As many as fill the bucket (patience.c): the next ones double the delay. */
static void fill_the_bucket(void) {
  for (int i = 0; i < 8; i++) {
    CHECK_EQ(patience_delay(100), 100u);
    regret(1);
  }
}

TEST(patience, what_is_purged_and_needed_again_at_once_doubles_the_delay_as_far_as_six_times, "") {
  fill_the_bucket();
  CHECK_EQ(patience_delay(100), 200u);
  patience_note_reuse(PURGE_STEP - 1, UINT32_MAX);
  CHECK_EQ(patience_delay(100), 200u);
  patience_note_reuse(1, UINT32_MAX);
  CHECK_EQ(patience_delay(100), 400u);
  regret(20);
  CHECK_EQ(patience_delay(100), 6400u);
}

TEST(patience, reuse_that_costs_a_hundredth_of_the_time_is_none, "") {
  for (int i = 0; i < 100; i++) {
    regret(4);
    os_fake.now_ms += 128;
  }
  CHECK_EQ(patience_delay(100), 100u);
  for (int i = 0; i < 100; i++) {
    regret(4);
    os_fake.now_ms += 100;
  }
  CHECK_EQ(patience_delay(100), 6400u);
}

TEST(patience, what_is_needed_again_within_the_delay_counts_twice_and_doubles_the_budget, "") {
  core_option(OPTION_purge_budget, 16 * SLICE_SIZE);
  core_option(OPTION_purge_delay_ms, 50);
  atomic64_store_relaxed(&arena_counts.peak_committed, 5000);
  for (int i = 0; i < 4; i++) {
    CHECK_EQ(patience_budget(), 16u);
    patience_note_reuse(PURGE_STEP, 49);
  }
  CHECK_EQ(patience_budget(), 32u);
  CHECK_EQ(patience_delay(100), 100u);
  patience_calm(os_fake.now_ms + 4000);
  CHECK_EQ(patience_budget(), 16u);
}

TEST(patience, a_time_that_another_thread_has_overtaken_is_no_long_while, "") {
  for (int i = 0; i < 7; i++) regret(1);
  os_fake.now_ms -= 4;
  regret(2);
  CHECK_EQ(patience_delay(100), 400u);
  patience_calm(os_fake.now_ms - 4);
  CHECK_EQ(patience_delay(100), 400u);
}

/* Of 1,000 spans, besides the budget. */
static size_t free_pages_more(void) { return patience_free_pages() - 16 * 16; }

TEST(patience, free_pages_of_spans_are_a_64th_and_up_to_a_sixth_where_they_are_missed, "") {
  core_option(OPTION_purge_budget, 16 * SLICE_SIZE);
  atomic64_store_relaxed(&arena_counts.spans, 1000);
  CHECK_EQ(free_pages_more(), 1000u);
  for (int i = 0; i < 8; i++) patience_note_pages(16 * PURGE_STEP);
  CHECK_EQ(free_pages_more(), 2000u);
  CHECK_EQ(patience_budget(), 16u);
  for (int i = 0; i < 4; i++) patience_note_pages(16 * PURGE_STEP);
  CHECK_EQ(free_pages_more(), 64000u / 6);
  os_fake.now_ms += 8000;
  (void)patience_free_pages();
  CHECK_EQ(free_pages_more(), 4000u);
  os_fake.now_ms += 40000;
  (void)patience_free_pages();
  CHECK_EQ(free_pages_more(), 1000u);
}

TEST(patience, each_quiet_while_halves_it_again, "") {
  fill_the_bucket();
  regret(2);
  patience_calm(os_fake.now_ms + 3900);
  CHECK_EQ(patience_delay(100), 800u);
  patience_calm(os_fake.now_ms + 4000);
  CHECK_EQ(patience_delay(100), 400u);
  patience_calm(os_fake.now_ms + 12000);
  CHECK_EQ(patience_delay(100), 100u);
}

TEST(patience, the_budget_is_doubled_with_it_up_to_a_quarter_more_than_was_ever_in_use, "") {
  core_option(OPTION_purge_budget, 16 * SLICE_SIZE);
  CHECK_EQ(patience_budget(), 16u);
  fill_the_bucket();
  regret(1);
  CHECK_EQ(patience_budget(), 16u);
  atomic64_store_relaxed(&arena_counts.peak_committed, 50);
  CHECK_EQ(patience_budget(), 62u);
  atomic64_store_relaxed(&arena_counts.peak_committed, 5000);
  CHECK_EQ(patience_budget(), 64u);
}
