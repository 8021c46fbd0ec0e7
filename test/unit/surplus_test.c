/* surplus_test.c - tests of stock/surplus */
#include "heaps.h"

TEST(surplus, as_much_may_be_kept_as_there_is_room_for_and_not_a_slice_more, "") {
  CHECK(surplus_has_room());
  for (int i = 0; i < SURPLUS_LEAST - 1; i++) CHECK(surplus_ask(1) == (i + 2 <= SURPLUS_LEAST));
  CHECK(surplus_has_room());
  CHECK(!surplus_ask(1)); /* the next one would be as long again */
  surplus_add(1);
  CHECK(!surplus_has_room() && !surplus_is_too_much());
}

TEST(surplus, who_gives_back_makes_room, "") {
  surplus_add(2 * SURPLUS_LEAST + 1);
  CHECK(surplus_is_too_much());
  surplus_add(0u - 1);
  CHECK(!surplus_is_too_much() && !surplus_has_room());
  surplus_add(0u - 2 * SURPLUS_LEAST);
  CHECK(surplus_ask(SURPLUS_LEAST / 2));
}

TEST(surplus, a_large_process_may_keep_a_part_of_what_it_uses, "") {
  atomic64_store_relaxed(&arena_counts.committed, (uint64_t)SURPLUS_PART * 10 * SURPLUS_LEAST);
  CHECK(surplus_ask(5 * SURPLUS_LEAST));
  CHECK(!surplus_ask(5 * SURPLUS_LEAST));
}
