/* arena_test.c - tests of arena/arena */
#include "counts.h"

#include "../../src/arena/budget.h"

TEST(arena, the_first_claim_makes_an_arena_and_gives_clean_slices_behind_its_descriptors, "A3") {
  bool clean = false;
  char *p = arena_claim(2, 1, &clean);
  CHECK(clean);
  CHECK_EQ(arena_slice(p), (size_t)ARENA_FIRST_SLICE);
  CHECK_EQ(arena_count(), 1u);
  CHECK_EQ((void *)arena_of(p), (void *)arena_at(0));
  CHECK_EQ(map_record(map_find(p)), (void *)arena_at(0));
  CHECK_BYTES(p, 0, 2 * SLICE_SIZE);
  CHECK_EQ(arena_described(arena_descriptor(p)), (void *)p);
  CHECK_EQ(committed(), 2u);
  CHECK_EQ(lost_slices(), 0u);
}

static void write_to_free(char *free) { *free = 1; }
static void free_the_head(char *p) { bitmap_release(arena_of(p)->free, ARENA_FIRST_SLICE - 1, 1); }
static void free_what_is_not_mapped(char *p) {
  bitmap_release(arena_of(p)->free, atomic64_load_relaxed(&arena_of(p)->mapped), 1);
}

/* All slices of a group that has free ones, as unmapped, or as purged and dirty. */
static void note_free(void *p, bool as_purged) {
  arena_maps_t *maps = arena_maps(arena_of(p));
  size_t word = arena_slice(p) / 64;
  atomic64_store_relaxed(as_purged ? &maps->purged[word] : &maps->unmapped[word], UINT64_MAX);
  if (as_purged) atomic64_store_relaxed(&maps->dirty[word], UINT64_MAX);
}

static void note_touched(char *free) { arena_maps(arena_of(free))->touched[arena_slice(free)] = 1; }

TEST(arena, a_free_slice_that_is_not_mapped_or_was_written_to_is_seen, "A2 A3 A4 A5 A6") {
  char *p = claim(1), *free = p + SLICE_SIZE;
  *p = 1;
  CHECK(arena_is_valid(arena_of(p)));
  EXPECT_ABORT((write_to_free(free), arena_is_valid(arena_of(p))), "invariant A3");
  EXPECT_ABORT((write_to_free(free + SLICE_SIZE - 1), arena_is_valid(arena_of(p))), "invariant A3");
  EXPECT_ABORT((note_touched(free), arena_is_valid(arena_of(p))), "invariant A4");
  EXPECT_ABORT((free_the_head(p), arena_is_valid(arena_of(p))), "invariant A2");
  EXPECT_ABORT((note_free(p, false), arena_is_valid(arena_of(p))), "invariant A5");
  EXPECT_ABORT((note_free(p, true), arena_is_valid(arena_of(p))), "invariant A6");
  EXPECT_ABORT((free_what_is_not_mapped(p), arena_is_valid(arena_of(p))), "invariant A2");
}

TEST(arena, slices_given_back_in_any_order_are_one_range_again, "A1") {
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  arena_release(claim(100), 100); /* so that all of them lie in one piece */
  for (int o = 0; o < 6; o++) {
    char *p[3], *wall;
    for (int i = 0; i < 3; i++) p[i] = claim(30);
    wall = claim(1);
    CHECK_EQ(p[2], p[0] + 60 * SLICE_SIZE);
    for (int i = 0; i < 3; i++) arena_release(p[orders[o][i]], 30);
    char *whole = claim(90);
    CHECK_EQ(whole, p[0]);
    arena_release(whole, 90);
    arena_release(wall, 1);
    CHECK_EQ(committed(), 0u);
    CHECK_EQ(lost_slices(), 0u);
  }
}

TEST(arena, what_was_written_to_is_not_clean_and_what_was_not_still_is, "A1 A3") {
  bool clean;
  char *p = arena_claim(4, 1, &clean);
  p[0] = 1;
  arena_release(p, 1);
  arena_release_clean(p + SLICE_SIZE, 3);
  CHECK_EQ(arena_claim(1, 1, &clean), (void *)p);
  CHECK(!clean);
  CHECK(arena_claim_at(p + SLICE_SIZE, 3, &clean));
  CHECK(clean);
  CHECK_BYTES(p + SLICE_SIZE, 0, 3 * SLICE_SIZE);
  arena_release(p + SLICE_SIZE, 1);
  arena_release_clean(p + 2 * SLICE_SIZE, 2);
  CHECK(arena_claim_at(p + SLICE_SIZE, 3, &clean));
  CHECK(!clean);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
}

TEST(arena, an_aligned_claim_keeps_its_own_slices_and_gives_the_rest_back, "A1") {
  bool clean;
  for (size_t alignment = 1; alignment <= 256; alignment *= 2)
    for (size_t n = 1; n <= 130; n += 43) {
      char *p = arena_claim(n, alignment, &clean);
      CHECK_EQ((uintptr_t)p % (alignment * SLICE_SIZE), (uintptr_t)0);
      CHECK_EQ(committed(), n);
      CHECK_EQ(lost_slices(), 0u);
      arena_release(p, n);
    }
}

TEST(arena, a_range_is_claimed_at_its_place_only_if_all_of_it_is_free, "M1") {
  bool clean;
  char *p = claim(10);
  CHECK(!arena_claim_at(p + 9 * SLICE_SIZE, 2, &clean));
  CHECK_EQ(committed(), 10u);
  CHECK(arena_claim_at(p + 10 * SLICE_SIZE, 2, &clean));
  CHECK_EQ(committed(), 12u);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, nothing_is_claimed_beyond_the_end_of_a_window_nor_at_the_start_of_the_next, "A1") {
  bool clean;
  char *p = claim(HALF_WINDOW);
  char *end = (char *)arena_of(p) + WINDOW_SIZE;
  CHECK(!arena_claim_at(end - SLICE_SIZE, 2, &clean));
  CHECK(!arena_claim_at(end, 1, &clean));
  CHECK_EQ(committed(), (uint64_t)HALF_WINDOW);
}

TEST(arena, a_window_that_is_full_is_followed_by_another_arena, "") {
  char *p[5];
  for (int i = 0; i < 5; i++) {
    p[i] = claim(HALF_WINDOW);
    CHECK(p[i] != NULL);
  }
  CHECK_EQ(arena_count(), 3u);
  CHECK(arena_of(p[0]) == arena_of(p[1]) && arena_of(p[1]) != arena_of(p[2]));
  for (int i = 0; i < 5; i++) arena_release(p[i], HALF_WINDOW);
  CHECK_EQ(lost_slices(), 0u);
  CHECK_EQ(arena_slice(claim(1)), (size_t)ARENA_FIRST_SLICE);
}

TEST(arena, the_last_slices_of_a_window_are_used, "") {
  claim(HALF_WINDOW);
  for (size_t i = ARENA_FIRST_SLICE + HALF_WINDOW; i < ARENA_END; i++)
    CHECK_EQ((void *)arena_of(claim(1)), (void *)arena_at(0));
  CHECK_EQ(free_slices(), 0u);
  CHECK_EQ((void *)arena_of(claim(1)), (void *)arena_at(1));
}

TEST(arena, behind_a_windows_last_block_nothing_is_mapped_before_the_next_arenas_head, "") {
  bool clean;
  char *p = claim(HALF_WINDOW), *next = (char *)arena_of(p) + WINDOW_SIZE;
  while (arena_count() < 2) claim(1);
  CHECK_EQ((void *)arena_at(1), (void *)next);
  CHECK(os_fake_is_mapped(next - 2 * SLICE_SIZE, SLICE_SIZE));
  for (size_t at = 0; at < SLICE_SIZE; at += 4096)
    CHECK(!os_fake_is_mapped(next - SLICE_SIZE + at, 4096));
  arena_release(next - 2 * SLICE_SIZE, 1);
  CHECK(arena_claim_at(next - 2 * SLICE_SIZE, 1, &clean));
  CHECK(!arena_claim_at(next - SLICE_SIZE, 1, &clean));
}

TEST(arena, an_aligned_claim_maps_no_more_than_it_needs, "") {
  enum { ALIGNMENT = 32, BLOCKS = 200 }; /* 2 MiB */
  bool clean;
  core_option(OPTION_arena_step, SLICE_SIZE);
  char *first = arena_claim(ALIGNMENT, ALIGNMENT, &clean), *last = first;
  for (int i = 1; i < BLOCKS; i++) {
    char *p = arena_claim(ALIGNMENT, ALIGNMENT, &clean);
    CHECK_EQ(p, last + ALIGNMENT * SLICE_SIZE);
    last = p;
  }
  arena_release(first + 3 * ALIGNMENT * SLICE_SIZE, ALIGNMENT);
  CHECK_EQ(arena_claim(ALIGNMENT, ALIGNMENT, &clean), (void *)(first + 3 * ALIGNMENT * SLICE_SIZE));
}

/* ---- limits and pages ---- */

TEST(arena, the_memory_limit_holds_for_claims_of_every_kind_and_is_no_end, "") {
  bool clean;
  core_option(OPTION_memory_limit, (int64_t)(10 * SLICE_SIZE));
  char *p = claim(8);
  CHECK(p != NULL);
  CHECK_NULL(claim(3));
  CHECK(!arena_claim_at(p + 8 * SLICE_SIZE, 3, &clean));
  CHECK(budget_is_spent(2 * SLICE_SIZE + 1) && !budget_is_spent(2 * SLICE_SIZE));
  atomic64_add_relaxed(&arena_counts.huge_bytes, SLICE_SIZE);
  CHECK_NULL(claim(2));
  CHECK(arena_claim_at(p + 8 * SLICE_SIZE, 1, &clean));
  arena_release(p, 9);
  CHECK(claim(9) != NULL);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, the_peak_is_the_most_that_was_claimed_at_a_time, "") {
  char *p = claim(100);
  arena_release(p, 100);
  claim(40);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.peak_committed), (uint64_t)100);
}

/* ---- threads ---- */

static atomic32_t owner[WINDOW_SLICES];

static void claim_and_release(unsigned number) {
  uint64_t state = number;
  struct {
    char *at;
    size_t n;
  } mine[12];
  size_t count = 0;
  for (int i = 0; i < 4000 || count > 0; i++) {
    if (i < 4000 && count < 12 && core_next(&state) % 2) {
      size_t n = 1 + core_next(&state) % (i % 16 == 0 ? 100 : 6);
      bool clean;
      char *p = arena_claim(n, (size_t)1 << core_next(&state) % 3, &clean);
      if (p == NULL) continue;
      CHECK_EQ((void *)arena_of(p), (void *)arena_at(0));
      for (size_t k = 0; k < n; k++)
        CHECK_EQ(atomic32_exchange_acq_rel(&owner[arena_slice(p) + k], number + 1), 0u);
      if (clean) CHECK_BYTES(p, 0, 4096);
      p[0] = p[4095] = 1;
      mine[count].at = p;
      mine[count++].n = n;
    } else if (count > 0) {
      size_t k = core_next(&state) % count, first = arena_slice(mine[k].at);
      for (size_t j = 0; j < mine[k].n; j++)
        CHECK_EQ(atomic32_exchange_acq_rel(&owner[first + j], 0), number + 1);
      arena_release(mine[k].at, mine[k].n);
      mine[k] = mine[--count];
    }
  }
}

TEST(arena, threads_never_share_a_slice_and_lose_none_also_while_memory_is_purged, "M1 A1 A3") {
  char *p = claim(1); /* one arena for all of them */
  arena_release(p, 1);
  core_option(OPTION_purge_budget, (int64_t)MiB(4));
  core_threads(4, claim_and_release);
  CHECK_EQ(committed(), 0u);
  CHECK_EQ(lost_slices(), 0u);
  purge_all();
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
}

TEST(arena, no_slices_are_neither_claimed_nor_given_back, "") {
  bool clean;
  EXPECT_ABORT(arena_claim(0, 1, &clean), "assertion n != 0");
  EXPECT_ABORT(arena_claim(1, 3, &clean), "assertion n != 0");
  EXPECT_ABORT(arena_release_clean(claim(1), 0), "assertion n != 0");
}

TEST(arena, slices_that_are_free_are_not_given_back, "A1") {
  char *p = claim(2);
  arena_release(p, 1);
  EXPECT_ABORT(arena_release(p, 2), "invariant A1");
}
