/* pace_test.c - tests of support/pace */
#include "core.h"

#include "../../src/support/pace.h"

TEST(pace, it_is_due_at_first_and_then_after_the_longer_of_both_times, "") {
  static pace_t p;
  CHECK(pace_take(&p, 1000, 500));
  CHECK(!pace_take(&p, 1499, 500));
  CHECK(pace_take(&p, 1500, 500));
  pace_set_wait(&p, 800);
  CHECK(!pace_take(&p, 2299, 500));
  CHECK(pace_is_due(&p, 2300, 500));
  CHECK(pace_take(&p, 2300, 500));
  pace_note(&p, 5000, 0);
  CHECK_EQ(pace_passed(&p, 5007), 7u);
  CHECK(pace_take(&p, 5000, 0));
}

TEST(pace, of_those_that_found_it_due_one_takes_it, "") {
  static pace_t p;
  CHECK(pace_is_due(&p, 1000, 1) && pace_is_due(&p, 1001, 1));
  CHECK(pace_take(&p, 1001, 1));
  CHECK(!pace_take(&p, 1000, 1)); /* the other one has read its clock before */
  CHECK_EQ(pace_passed(&p, 1000), 0u);
}

TEST(pace, a_clock_that_wraps_and_one_that_rested_for_weeks_keep_it_due, "") {
  static pace_t p;
  pace_note(&p, UINT32_MAX - 9, 0);
  CHECK(!pace_take(&p, 4, 16));
  CHECK(pace_take(&p, 6, 16));
  CHECK(pace_is_due(&p, 6 + ((uint32_t)1 << 31), 16)); /* 25 days */
  CHECK(pace_is_due(&p, 6u - 3600000, 16));            /* an hour less than 50 */
}
