/* timing_test.c - tests of support/timing */
#include "core.h"

#include "../../src/support/timing.h"

/* The clock of the fake system stands still meanwhile. */
static void note(timing_kind_t kind, uint64_t ns) { timing_end(kind, os_now_ns() - ns); }

TEST(timing, quantiles_are_never_too_low_and_less_than_twice_the_truth, "") {
  enum { ALL = 100000 };
  for (uint64_t ns = 1; ns <= ALL; ns++) note(TIMING_GROW, ns);
  timing_t t = timing_of(TIMING_GROW);
  CHECK_EQ(t.count, (uint64_t)ALL);
  CHECK(t.p50 >= ALL / 2 && t.p50 < ALL);
  CHECK(t.p90 >= ALL / 10 * 9 && t.p90 <= ALL);
  CHECK(t.p99 >= ALL / 100 * 99 && t.p99 <= ALL);
  CHECK_EQ(t.most, (uint64_t)ALL);
}

TEST(timing, the_rare_and_the_longest_are_seen_beside_the_many, "") {
  for (int i = 0; i < 989; i++) note(TIMING_FREE, 100);
  for (int i = 0; i < 10; i++) note(TIMING_FREE, 5000);
  note(TIMING_FREE, (uint64_t)1 << 40);
  timing_t t = timing_of(TIMING_FREE);
  CHECK_EQ(t.p50, 128u);
  CHECK_EQ(t.p90, 128u);
  CHECK_EQ(t.p99, 8192u);
  CHECK_EQ(t.most, (uint64_t)1 << 40);
}

TEST(timing, what_took_no_time_or_for_ever_has_a_bucket, "") {
  note(TIMING_PURGE, 0);
  note(TIMING_PURGE, UINT64_MAX);
  timing_t t = timing_of(TIMING_PURGE);
  CHECK_EQ(t.count, 2u);
  CHECK_EQ(t.p50, 1u);
  CHECK_EQ(t.most, UINT64_MAX);
}

static void note_many(unsigned number) {
  for (unsigned i = 0; i < 10000; i++) note(TIMING_REFILL, number * 10000 + i);
}

TEST(timing, threads_that_note_at_once_lose_nothing, "") {
  core_threads(8, note_many);
  CHECK_EQ(timing_of(TIMING_REFILL).count, 80000u);
  CHECK_EQ(timing_of(TIMING_REFILL).most, 79999u);
}

TEST(timing, without_the_option_nothing_begins_and_nothing_is_noted, "") {
  CHECK_EQ(timing_begin(), 0u);
  timing_end(TIMING_LARGE, timing_begin());
  timing_mark(TIMING_GROW);
  timing_end_marked(0);
  CHECK_EQ(timing_of(TIMING_LARGE).count + timing_of(TIMING_GROW).count, 0u);
}

TEST(timing, a_call_counts_as_what_was_marked_since_it_began_too, "") {
  core_option(OPTION_stats_detail, 1);
  os_fake.now_ms = 12345;
  timing_mark(TIMING_PURGE);
  uint64_t began = timing_begin();
  timing_mark(TIMING_GROW);
  timing_end(TIMING_LARGE, began);
  timing_end_marked(began);
  CHECK_EQ(timing_of(TIMING_LARGE).count, 1u);
  CHECK_EQ(timing_of(TIMING_GROW).count, 1u);
  CHECK_EQ(timing_of(TIMING_PURGE).count, 0u);
}
