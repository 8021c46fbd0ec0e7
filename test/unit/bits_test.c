/* bits_test.c - tests of base/bits and base/base */
#include <sys/mman.h>

#include "core.h"

#include "../../src/base/bits.h"

TEST(bits, a_run_has_its_length_and_place_at_every_place_of_a_word, "") {
  for (unsigned first = 0; first < 64; first++)
    for (unsigned n = 1; first + n <= 64; n++) {
      uint64_t want = 0;
      for (unsigned i = 0; i < n; i++) want |= (uint64_t)1 << (first + i);
      CHECK_EQ(bits_run(first, n), want);
      CHECK_EQ(bits_count(want), n);
      CHECK_EQ(bits_lowest(want), first);
      CHECK_EQ(bits_highest(want), first + n - 1);
    }
}

TEST(bits, the_longest_run_is_as_long_as_counting_finds_it, "") {
  CHECK_EQ(bits_longest_run(0), 0u);
  CHECK_EQ(bits_longest_run(~(uint64_t)0), 32u);
  for (uint64_t i = 0; i < 100000; i++) {
    uint64_t w =
      bits_mix(i) | (i % 3 != 0 ? bits_mix(i + 1) : 0) | (i % 5 == 0 ? bits_mix(i) << 7 : 0);
    unsigned longest = 0, n = 0;
    for (unsigned bit = 0; bit < 64; bit++)
      if ((n = (w >> bit & 1) != 0 ? n + 1 : 0) > longest) longest = n;
    CHECK_EQ(bits_longest_run(w), longest < 32 ? longest : 32);
  }
  for (unsigned n = 1; n <= 64; n++)
    CHECK_EQ(bits_longest_run(bits_run(64 - n, n)), n < 32 ? n : 32);
}

TEST(bits, runs_are_found_just_where_they_begin, "") {
  uint64_t state = 1;
  for (int round = 0; round < 300; round++) {
    uint64_t w = core_next(&state) | core_next(&state) | (round % 3 ? core_next(&state) : 0);
    if (round == 0) w = 0;
    if (round == 1) w = ~(uint64_t)0;
    for (unsigned n = 1; n <= 64; n++) {
      uint64_t want = 0;
      for (unsigned i = 0; i + n <= 64; i++)
        if ((w & bits_run(i, n)) == bits_run(i, n)) want |= (uint64_t)1 << i;
      CHECK_EQ(bits_runs_of(w, n), want);
    }
  }
}

TEST(bits, ones_at_both_ends_are_counted_up_to_a_whole_word, "") {
  CHECK_EQ(bits_ones_below(0), 0u);
  CHECK_EQ(bits_ones_above(0), 0u);
  CHECK_EQ(bits_ones_below(~(uint64_t)0), 64u);
  CHECK_EQ(bits_ones_above(~(uint64_t)0), 64u);
  for (unsigned n = 1; n < 64; n++) {
    CHECK_EQ(bits_ones_below(bits_run(0, n)), n);
    CHECK_EQ(bits_ones_above(bits_run(64 - n, n)), n);
    CHECK_EQ(bits_ones_above(bits_run(0, n)), 0u);
    CHECK_EQ(bits_ones_below(bits_run(64 - n, n)), 0u);
  }
}

TEST(bits, alignment_and_powers_of_two_are_exact, "") {
  CHECK_EQ(align_up(0, 16), 0u);
  CHECK_EQ(align_up(1, 16), 16u);
  CHECK_EQ(align_up(16, 16), 16u);
  CHECK_EQ(align_down(31, 16), 16u);
  CHECK(!is_power_of_two(0) && is_power_of_two(1) && !is_power_of_two(3) &&
        is_power_of_two(SIZE_MAX / 2 + 1));
}

TEST(bits, what_has_no_answer_is_not_asked, "") {
  EXPECT_ABORT(bits_lowest(0), "assertion w != 0");
  EXPECT_ABORT(bits_highest(0), "assertion w != 0");
  EXPECT_ABORT(bits_run(60, 5), "assertion n >= 1");
  EXPECT_ABORT(bits_runs_of(1, 0), "assertion n >= 1");
  EXPECT_ABORT(align_up(1, 3), "assertion is_power_of_two");
  EXPECT_ABORT(align_down(1, 0), "assertion is_power_of_two");
}

TEST(bits, one_bit_anywhere_is_not_zero, "") {
  static uint64_t words[42] __attribute__((aligned(16)));
  for (size_t n = 16; n <= sizeof words; n += 16) {
    CHECK(bits_are_zero(words, n));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
      words[i] = 1;
      CHECK_EQ(bits_are_zero(words, n), i >= n / sizeof *words);
      words[i] = 0;
    }
  }
  for (size_t bit = 0; bit < 8 * sizeof words; bit++) {
    words[bit / 64] = (uint64_t)1 << bit % 64;
    CHECK(!bits_are_zero(words, sizeof words));
    words[bit / 64] = 0;
  }
}

TEST(bits, all_that_is_cleared_reads_as_zero_and_nothing_beside_it_changes, "") {
  enum { WORDS = 80 };
  static uint64_t words[WORDS] __attribute__((aligned(16)));
  for (size_t n = BITS_FEW + 16; n <= sizeof words - 32; n += 16) {
    memset(words, 0xA7, sizeof words);
    bits_clear_all(&words[2], n);
    CHECK_BYTES((char *)&words[2], 0, n);
    CHECK(words[1] != 0 && words[2 + n / sizeof *words] != 0);
  }
  for (size_t i = 0; i < WORDS; i++) {
    words[i] = 1;
    bits_clear_all(words, sizeof words);
    CHECK_EQ(words[i], (uint64_t)0);
  }
}

/* A write would fault. */
TEST(bits, what_is_zero_is_not_written_to, "") {
  size_t size = (size_t)64 << 10;
  void *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(at != MAP_FAILED);
  bits_clear_all(at, size);
  CHECK_EQ(munmap(at, size), 0);
}
