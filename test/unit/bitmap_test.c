/* bitmap_test.c - tests of arena/bitmap */
#include "core.h"

#include "../../src/arena/bitmap.h"

enum { WORDS = 8, BITS = WORDS * 64 };
static atomic64_t words[WORDS];

static void set_all(uint64_t value) {
  for (int i = 0; i < WORDS; i++) atomic64_store_relaxed(&words[i], value);
}
static bool is_set(size_t bit) { return atomic64_load_relaxed(&words[bit / 64]) >> bit % 64 & 1; }
static size_t count_set(void) {
  size_t n = 0;
  for (int i = 0; i < WORDS; i++) n += bits_count(atomic64_load_relaxed(&words[i]));
  return n;
}

TEST(bitmap, one_bit_after_the_other_is_claimed_from_the_lowest_up_and_none_twice, "M1") {
  set_all(~(uint64_t)0);
  for (size_t i = 64; i < BITS; i++) CHECK_EQ(bitmap_claim_one(words, WORDS, 1), i);
  CHECK_EQ(bitmap_claim_one(words, WORDS, 1), BITMAP_NONE);
  CHECK_EQ(bitmap_claim_one(words, WORDS, 0), (size_t)0);
  bitmap_release(words, 300, 1);
  CHECK_EQ(bitmap_claim_one(words, WORDS, 0), (size_t)1);
  CHECK_EQ(bitmap_claim_one(words, WORDS, 4), (size_t)300);
  CHECK_EQ(bitmap_claim_one(words, 0, 0), BITMAP_NONE);
}

/* What the arena does with a run that it has found. */
static size_t claim_run(size_t from, size_t n, size_t alignment) {
  for (int tries = 0; tries < 16; tries++) {
    size_t first = bitmap_find_run(words, WORDS, from, n, alignment);
    if (first == BITMAP_NONE || bitmap_claim_at(words, first, n)) return first;
  }
  return BITMAP_NONE;
}

TEST(bitmap, a_run_of_any_length_at_any_place_is_found_claimed_and_given_back, "M1") {
  for (size_t n = 1; n <= 200; n += n < 5 ? 1 : 13)
    for (size_t first = 0; first + n <= BITS; first += first < 70 ? 1 : 17) {
      set_all(0);
      bitmap_release(words, first, n);
      CHECK_EQ(count_set(), n);
      if (n > 1) CHECK_EQ(claim_run(0, n + 1, 1), BITMAP_NONE);
      CHECK_EQ(claim_run(first / 64 + 1, n, 1), BITMAP_NONE);
      CHECK_EQ(claim_run(first / 64, n, 1), first);
      CHECK_EQ(count_set(), 0u);
    }
}

TEST(bitmap, the_lowest_run_that_is_long_enough_is_taken_also_across_words, "") {
  set_all(0);
  bitmap_release(words, 10, 3);
  bitmap_release(words, 61, 5);
  bitmap_release(words, 130, 190);
  CHECK_EQ(claim_run(0, 4, 1), (size_t)61);
  CHECK_EQ(claim_run(0, 4, 1), (size_t)130);
  CHECK_EQ(claim_run(0, 3, 1), (size_t)10);
  CHECK_EQ(claim_run(0, 120, 1), (size_t)134);
  CHECK_EQ(count_set(), (size_t)1 + 190 - 4 - 120);
}

TEST(bitmap, an_aligned_run_is_the_lowest_that_begins_at_a_multiple, "") {
  enum { ALIGNMENTS = 10 };
  uint64_t state = 5;
  for (int round = 0; round < 300; round++) {
    for (size_t i = 0; i < WORDS; i++)
      words[i].value = core_next(&state) | core_next(&state) | (round % 3 == 0 ? ~0ull : 0);
    size_t n = 1 + core_next(&state) % (round % 5 == 0 ? 200 : 40);
    size_t alignment = (size_t)1 << core_next(&state) % ALIGNMENTS, lowest = BITMAP_NONE;
    for (size_t at = 0; at + n <= BITS && lowest == BITMAP_NONE; at += alignment)
      if (bitmap_run_above(words, at, n) == n) lowest = at;
    CHECK_EQ(bitmap_find_run(words, WORDS, 0, n, alignment), lowest);
  }
}

/* Of the runs that are long enough the shortest, and of such the lowest, bit by bit. */
static size_t find_tight_slowly(size_t n) {
  size_t best = BITMAP_NONE, least = BITMAP_NONE;
  for (size_t at = 0; at < BITS; at++) {
    if (!is_set(at)) continue;
    size_t length = bitmap_run_above(words, at, BITS - at);
    if (length >= n && length < least) best = at, least = length;
    at += length;
  }
  return best;
}

TEST(bitmap, a_tight_run_is_the_shortest_that_is_long_enough_also_across_words, "") {
  uint64_t state = 7;
  for (int round = 0; round < 3000; round++) {
    for (size_t i = 0; i < WORDS; i++) {
      uint64_t w = core_next(&state), thick = w | core_next(&state);
      words[i].value = round % 4 == 0 ? w : round % 4 == 1 ? thick : thick | core_next(&state);
      if (core_next(&state) % 4 == 0) words[i].value = round % 2 == 0 ? 0 : ~0ull;
    }
    size_t n = 1 + core_next(&state) % (round % 5 == 0 ? 200 : 20);
    CHECK_EQ(bitmap_find_tight(words, WORDS, 0, n), find_tight_slowly(n));
  }
}

TEST(bitmap, a_tight_run_is_looked_for_a_while_and_not_through_all_words, "") {
  enum { MANY = 256 };
  static atomic64_t many[MANY];
  bitmap_release(many, 5 * 64, 10);
  bitmap_release(many, 40 * 64, 9);
  bitmap_release(many, 200 * 64, 8);
  CHECK_EQ(bitmap_find_tight(many, MANY, 0, 8), (size_t)40 * 64);
  CHECK_EQ(bitmap_find_tight(many, MANY, 0, 10), (size_t)5 * 64);
  CHECK_EQ(bitmap_find_tight(many, MANY, 41, 8), (size_t)200 * 64);
  CHECK_EQ(bitmap_find_tight(many, MANY, 0, 11), BITMAP_NONE);
}

TEST(bitmap, a_claim_over_a_word_border_that_fails_gives_back_all_that_it_took, "M1") {
  for (size_t hole = 64; hole < 320; hole += 5) {
    set_all(~(uint64_t)0);
    CHECK(bitmap_claim_at(words, hole, 1));
    CHECK(!bitmap_claim_at(words, 60, 270));
    CHECK_EQ(count_set(), (size_t)BITS - 1);
    CHECK(!is_set(hole));
    CHECK(!bitmap_claim_at(words, hole, 1));
    CHECK(bitmap_claim_at(words, hole + 1, 100));
    CHECK_EQ(count_set(), (size_t)BITS - 101);
  }
}

TEST(bitmap, the_free_bits_right_below_a_number_are_counted_across_words, "") {
  for (size_t end = 1; end <= BITS; end += end < 70 ? 1 : 17)
    for (size_t n = 0; n <= end; n += n < 70 ? 1 : 17) {
      set_all(0);
      bitmap_release(words, end - n, n);
      for (size_t i = end; i < BITS; i += 64) bitmap_release(words, i, 1);
      CHECK_EQ(bitmap_run_below(words, end, BITS), n);
      CHECK_EQ(bitmap_run_below(words, end, n / 2), n / 2);
      CHECK_EQ(bitmap_run_above(words, end - n, n), n);
    }
}

TEST(bitmap, those_of_some_bits_that_are_free_are_claimed_and_no_others, "M1") {
  set_all(0xF0F0);
  CHECK_EQ(bitmap_claim_some(&words[0], 0xFF00), (uint64_t)0xF000);
  CHECK_EQ(atomic64_load_relaxed(&words[0]), (uint64_t)0x00F0);
  CHECK_EQ(bitmap_claim_some(&words[0], 0xFF00), (uint64_t)0);
}

static size_t parts, parts_bits;
static void note_part(atomic64_t *word, uint64_t bits, void *context) {
  CHECK_EQ(context, (void *)&parts);
  CHECK(word >= words && word < words + WORDS && bits != 0);
  CHECK_EQ(bits_count(bits), bits_highest(bits) - bits_lowest(bits) + 1);
  parts++;
  parts_bits += bits_count(bits);
}

TEST(bitmap, the_parts_of_a_run_are_its_words_and_cover_it, "") {
  bitmap_each_part(words, 5, 0, note_part, &parts);
  CHECK_EQ(parts, 0u);
  bitmap_each_part(words, 63, 130, note_part, &parts);
  CHECK_EQ(parts, 4u);
  CHECK_EQ(parts_bits, 130u);
}

/* ---- threads ---- */

static atomic32_t owner[BITS];
static atomic64_t claims;

static void hold(size_t first, size_t n, uint32_t me) {
  for (size_t i = 0; i < n; i++) CHECK_EQ(atomic32_exchange_acq_rel(&owner[first + i], me), 0u);
}
static void leave(size_t first, size_t n, uint32_t me) {
  for (size_t i = 0; i < n; i++) CHECK_EQ(atomic32_exchange_acq_rel(&owner[first + i], 0), me);
  bitmap_release(words, first, n);
}

static void claim_and_leave(unsigned number) {
  uint64_t state = number;
  for (int i = 0; i < 20000; i++) {
    size_t n = 1 + core_next(&state) % (i % 8 == 0 ? 150 : 6), from = core_next(&state) % WORDS;
    size_t first = claim_run(from, n, 1);
    if (first == BITMAP_NONE) continue;
    atomic64_add_relaxed(&claims, 1);
    hold(first, n, number + 1);
    uint64_t some = bitmap_claim_some(&words[number % WORDS], core_next(&state));
    leave(first, n, number + 1);
    if (some != 0) atomic64_or_release(&words[number % WORDS], some);
  }
}

TEST(bitmap, threads_never_hold_a_bit_together_and_lose_none, "M1 S-bit") {
  set_all(~(uint64_t)0);
  core_threads(4, claim_and_leave);
  CHECK_EQ(count_set(), (size_t)BITS);
  CHECK_GT(atomic64_load_relaxed(&claims), (uint64_t)1000);
}

TEST(bitmap, bits_that_nobody_has_are_not_given_back, "M1") {
  static atomic64_t words[2];
  bitmap_release(words, 60, 8);
  EXPECT_ABORT(bitmap_release(words, 63, 1), "invariant M1");
}
