/* slices_test.c - tests of arena/slices, and of the hints (arena/hint.h) by which it searches */
#include "counts.h"

TEST(slices, a_long_run_begins_a_group_unless_there_is_none_such, "") {
  enum { LONG = 129 };
  char *p = claim(HALF_WINDOW);
  while (free_slices() > 0) claim(1);
  size_t group = (arena_slice(p) / 64 + 1) * 64 - arena_slice(p); /* where the next begins */
  arena_release(p + (group - 20) * SLICE_SIZE, LONG + 10);
  arena_release(p + (group + 300) * SLICE_SIZE, 64 + LONG);
  CHECK_EQ(claim(LONG), p + (group + 320) * SLICE_SIZE);
  CHECK_EQ(claim(LONG), p + (group - 20) * SLICE_SIZE);
}

TEST(slices, a_run_up_to_a_mebibyte_is_taken_where_least_is_left_a_longer_one_at_the_lowest, "") {
  char *p = claim(HALF_WINDOW);
  while (free_slices() > 0) claim(1);
  arena_release(p + 100 * SLICE_SIZE, 20);
  arena_release(p + 200 * SLICE_SIZE, 6);
  arena_release(p + 300 * SLICE_SIZE, 5);
  arena_release(p + 400 * SLICE_SIZE, 17);
  CHECK_EQ(claim(5), p + 300 * SLICE_SIZE);
  CHECK_EQ(claim(5), p + 200 * SLICE_SIZE);
  CHECK_EQ(claim(17), p + 100 * SLICE_SIZE);
  CHECK_EQ(claim(16), p + 400 * SLICE_SIZE);
}

TEST(slices, a_set_that_is_replaced_at_random_stays_dense, "") {
  enum { BLOCKS = 800, LEAST = 2, MOST = 8, ROUNDS = 40000 };
  static char *at[BLOCKS];
  static size_t n[BLOCKS];
  uint64_t state = 1;
  core_option(OPTION_purge_delay_ms, -1);
  for (int i = 0; i < BLOCKS + ROUNDS; i++) {
    size_t k = i < BLOCKS ? (size_t)i : core_next(&state) % BLOCKS;
    if (i >= BLOCKS) arena_release(at[k], n[k]);
    n[k] = LEAST + core_next(&state) % (MOST - LEAST + 1);
    at[k] = claim(n[k]);
  }
  CHECK_LE(atomic64_load_relaxed(&arena_counts.dirty), committed() / 8);
}

static uint64_t bit_of_slice(const void *p) { return (uint64_t)1 << arena_slice(p) % 64; }

TEST(slices, the_hint_of_the_lowest_free_word_never_hides_a_free_slice, "") {
  char *p[300];
  for (int i = 0; i < 300; i++) p[i] = claim(1);
  arena_t *a = arena_at(0);
  arena_release(p[5], 1);
  atomic32_store_relaxed(&a->low_word, 6); /* as a thread that was late may leave it */
  size_t more = free_slices();
  for (size_t i = 0; i < more; i++) claim(1);
  CHECK_EQ(free_slices(), 0u);
  CHECK_EQ(arena_count(), 1u);
}

TEST(slices, what_a_purge_or_a_claim_in_vain_puts_back_lowers_the_hint, "") {
  char *p[200];
  for (int i = 0; i < 200; i++) p[i] = claim(1);
  arena_t *a = arena_at(0);
  size_t low = arena_slice(p[100]) / 64;
  atomic32_store_relaxed(&a->low_word, (uint32_t)low + 2);
  CHECK(bitmap_claim_some(&a->free[low], bit_of_slice(p[100])) == 0);
  arena_put_back(a, low, bit_of_slice(p[100]));
  CHECK_EQ(atomic32_load_relaxed(&a->low_word), (uint32_t)low);
  CHECK_EQ(claim(1), p[100]);
}

/* ---- what a search did not find ---- */

static lack_t *lack(size_t number) { return &lacks_free[number].run; }

TEST(slices, a_search_in_vain_is_not_repeated_until_a_run_as_long_comes_back, "S-room") {
  char *p = claim(HALF_WINDOW), *q = p;
  while (arena_count() < 3) q = claim(HALF_WINDOW / 2);
  while (atomic32_load_relaxed(lack(0)) != 1) claim(1); /* the first window is full */
  CHECK(lack_covers(lack(0), 1));
  arena_release(p + 10 * SLICE_SIZE, 3);
  CHECK(!lack_covers(lack(0), 3));
  CHECK_NE((void *)arena_of(claim(4)), (void *)arena_of(p));
  CHECK(lack_covers(lack(0), 4) && !lack_covers(lack(0), 3));
  arena_release(p + 14 * SLICE_SIZE, 3); /* with a gap of one */
  CHECK(lack_covers(lack(0), 4));
  arena_release(p + 13 * SLICE_SIZE, 1); /* and that joins them */
  CHECK(!lack_covers(lack(0), 7));
  CHECK_EQ(claim(7), p + 10 * SLICE_SIZE);
  arena_release(q, HALF_WINDOW / 2);
}

TEST(slices, nor_is_one_for_an_aligned_run, "S-room") {
  enum { N = 3, ALIGNMENT = 64 };
  lack_t *aligned = &lacks_free[0].aligned;
  size_t shape = lack_shape(N, ALIGNMENT);
  bool clean;
  char *p = claim(HALF_WINDOW), *start = (char *)align_up((uintptr_t)p, ALIGNMENT * SLICE_SIZE);
  while (free_slices() > 0 || atomic64_load_relaxed(&arena_at(0)->mapped) < ARENA_END) claim(1);
  arena_release(start + SLICE_SIZE, ALIGNMENT - 1); /* long enough, and begins nowhere */
  CHECK_NE((void *)arena_of(arena_claim(N, ALIGNMENT, &clean)), (void *)arena_of(p));
  CHECK(lack_covers(aligned, shape) && lack_covers(aligned, lack_shape(N + 1, 2 * ALIGNMENT)));
  CHECK(!lack_covers(aligned, lack_shape(N - 1, ALIGNMENT)));
  CHECK(!lack_covers(aligned, lack_shape(N, ALIGNMENT / 2)) && !lack_covers(lack(0), N));
  bitmap_release(arena_at(0)->free, arena_slice(start), 1); /* which nobody has looked at */
  CHECK_NE((void *)arena_of(arena_claim(N, ALIGNMENT, &clean)), (void *)arena_of(p));
  arena_release(start + ALIGNMENT * SLICE_SIZE, N);
  CHECK(!lack_covers(aligned, shape));
  CHECK_EQ(arena_claim(N, ALIGNMENT, &clean), (void *)start);
}

TEST(slices, what_a_purge_held_for_a_moment_is_looked_for_again, "S-room") {
  char *p = claim(HALF_WINDOW);
  while (arena_count() < 2) claim(HALF_WINDOW / 2);
  while (atomic32_load_relaxed(lack(0)) != 1) claim(1);
  arena_release(p, 2);
  lack_note(lack(0), 1); /* another searched meanwhile */
  purge_all();
  CHECK_EQ(claim(2), p);
}

TEST(slices, what_was_looked_for_in_vain_stays_so_when_a_block_cannot_grow, "S-room") {
  bool clean;
  char *p = claim(HALF_WINDOW);
  while (arena_count() < 2) claim(HALF_WINDOW / 2);
  while (atomic32_load_relaxed(lack(0)) != 1) claim(1);
  CHECK(!arena_claim_at(p + 60 * SLICE_SIZE, 10, &clean));
  CHECK(lack_covers(lack(0), 1));
}

TEST(slices, before_a_window_is_added_all_are_searched_whatever_the_hints_say, "S-room") {
  char *p = claim(HALF_WINDOW);
  while (free_slices() > 0) claim(1);
  while (atomic64_load_relaxed(&arena_at(0)->mapped) < ARENA_END || free_slices() > 0) claim(1);
  arena_release(p, 5);
  lack_note(lack(0), 1); /* who noted it has stopped */
  CHECK_EQ(claim(5), p);
  CHECK_EQ(arena_count(), 1u);
}

TEST(slices, a_lack_ends_when_a_run_comes_back_of_which_another_has_taken_a_part, "S-room") {
  static atomic64_t words[2];
  lack_t lack = {0};
  for (size_t taken = 60; taken < 68; taken++) {
    lack_note(&lack, 5);
    bitmap_release(words, 60, 8);
    CHECK(bitmap_claim_at(words, taken, 1)); /* before the lack is looked at */
    lack_review(&lack, words, 60, 8);
    CHECK(!lack_covers(&lack, 5));
    for (size_t i = 60; i < 68; i++) CHECK(i == taken || bitmap_claim_at(words, i, 1));
  }
  lack_note(&lack, 5);
  bitmap_release(words, 60, 4);
  lack_review(&lack, words, 60, 4);
  CHECK(lack_covers(&lack, 5));
}

/* Another thread looks for room while a range of the window is being mapped. */
enum { WANTED = 90 };
static void another_looks_for_room(os_fake_call_t call, void *at, size_t size) {
  (void)size;
  if (call != OS_FAKE_MAP_AT || (uintptr_t)at % WINDOW_SIZE == 0) return;
  os_fake.before = NULL;
  CHECK_NULL(claim(WANTED));
}

TEST(slices, room_that_comes_back_because_an_mmap_failed_is_looked_for_again, "S-room") {
  arena_t *a = arena_of(claim(HALF_WINDOW));
  while (ARENA_END - atomic64_load_relaxed(&a->mapped) > 3000) claim(1000);
  claim(ARENA_END - atomic64_load_relaxed(&a->mapped) - WANTED - 10);
  while (slices_claim(a, 1, 1) != NO_SLICES) continue;
  CHECK_GE(ARENA_END - atomic64_load_relaxed(&a->mapped), (uint64_t)WANTED);
  os_fake.most_mapped = os_fake.mapped;
  os_fake.before = another_looks_for_room;
  CHECK_NULL(claim(WANTED));
  CHECK(os_fake.before == NULL);
  os_fake.most_mapped = SIZE_MAX;
  CHECK_EQ((void *)arena_of(claim(WANTED)), (void *)a);
}
