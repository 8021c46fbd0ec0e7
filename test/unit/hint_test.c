/* hint_test.c - tests of arena/hint */
#include "core.h"

#include "../../src/arena/hint.h"

TEST(hint, a_bit_is_seen_until_it_is_cleared_wherever_it_is, "S-group") {
  static atomic64_t words[3];
  for (size_t i = 0; i < 192; i++) {
    CHECK(!hint_any(words, 3));
    hint_set(words, i);
    CHECK(hint_any(words, 3));
    CHECK_EQ(atomic64_load_relaxed(&words[i / 64]), (uint64_t)1 << i % 64);
    hint_clear(words, i);
  }
}

TEST(hint, what_was_looked_for_in_vain_covers_what_is_harder_to_find, "S-room") {
  lack_t lack = {0};
  CHECK(!lack_covers(&lack, 16384));
  lack_note(&lack, lack_shape(10, 4));
  CHECK(lack_covers(&lack, lack_shape(10, 4)));
  CHECK(lack_covers(&lack, lack_shape(11, 8)));
  CHECK(!lack_covers(&lack, lack_shape(9, 8)));
  CHECK(!lack_covers(&lack, lack_shape(11, 2)));
}

TEST(hint, the_least_that_was_looked_for_is_noted_and_forgotten_when_any_comes_back, "S-room") {
  lacks_t lacks = {{0}, {0}};
  lack_note(&lacks.run, 10);
  lack_note(&lacks.run, 20);
  CHECK_EQ(atomic32_load_relaxed(&lacks.run), 10u);
  lack_note(&lacks.run, 5);
  CHECK_EQ(atomic32_load_relaxed(&lacks.run), 5u);
  lack_note(&lacks.aligned, lack_shape(3, 2));
  lacks_forget(&lacks);
  CHECK(!lack_covers(&lacks.run, 16384) && !lack_covers(&lacks.aligned, lack_shape(16384, 16384)));
}

/* Of 128 bits those from `from` on come back, `n` of them, beside others that are free already. */
static bool ends(size_t least, size_t from, size_t n, size_t free_from, size_t free_n) {
  atomic64_t words[2] = {{0}, {0}};
  lack_t lack = {0};
  lack_note(&lack, least);
  if (free_n != 0) bitmap_release(words, free_from, free_n);
  bitmap_release(words, from, n);
  lack_review(&lack, words, from, n);
  return !lack_covers(&lack, 128);
}

TEST(hint, a_run_that_was_lacking_is_looked_for_again_once_it_is_there, "S-room") {
  CHECK(ends(4, 60, 4, 0, 0));
  CHECK(!ends(5, 60, 4, 0, 0));
  CHECK(ends(5, 60, 4, 64, 1));  /* with what lies above */
  CHECK(ends(5, 60, 4, 59, 1));  /* below */
  CHECK(!ends(5, 60, 4, 58, 1)); /* but not beside it */
  CHECK(!ends(9, 60, 4, 56, 4));
}

TEST(hint, bits_of_which_a_part_was_taken_again_end_the_lack, "S-room") {
  atomic64_t words[2] = {{0}, {0}};
  lack_t lack = {0};
  lack_note(&lack, 8);
  bitmap_release(words, 10, 2);
  lack_review(&lack, words, 10, 4);
  CHECK(!lack_covers(&lack, 8));
}
