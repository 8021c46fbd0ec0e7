/* arena_test.c - tests of arena/arena */
#include "core.h"

#include "../../src/arena/slices.h"

static size_t free_slices(void) {
  size_t n = 0;
  for (size_t i = 0; i < arena_count(); i++) {
    arena_t *a = arena_at(i);
    if (a == NULL) continue;
    CHECK(arena_is_valid(a));
    for (size_t w = 0; w < ARENA_WORDS; w++) n += bits_count(atomic64_load_relaxed(&a->free[w]));
  }
  return n;
}

/* Slices that are mapped, and neither claimed, free nor an arena's own. */
static size_t lost_slices(void) {
  return atomic64_load_relaxed(&arena_counts.mapped) - arena_count() * ARENA_FIRST_SLICE -
         atomic64_load_relaxed(&arena_counts.committed) - free_slices();
}
static size_t committed(void) { return atomic64_load_relaxed(&arena_counts.committed); }

static char *claim(size_t n) {
  bool clean;
  return arena_claim(n, 1, &clean);
}

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

TEST(arena, a_free_slice_that_is_not_mapped_or_was_written_to_is_seen, "A2 A3") {
  char *p = claim(1), *free = p + SLICE_SIZE;
  *p = 1;
  CHECK(arena_is_valid(arena_of(p)));
  EXPECT_ABORT((write_to_free(free), arena_is_valid(arena_of(p))), "invariant A3");
  EXPECT_ABORT((write_to_free(free + SLICE_SIZE - 1), arena_is_valid(arena_of(p))), "invariant A3");
  EXPECT_ABORT((free_the_head(p), arena_is_valid(arena_of(p))), "invariant A2");
  EXPECT_ABORT((free_what_is_not_mapped(p), arena_is_valid(arena_of(p))), "invariant A2");
}

TEST(arena, slices_given_back_in_any_order_are_one_range_again, "A1") {
  static const int orders[6][3] = {
    { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 }
  };
  arena_release(claim(100), 100);                      /* so that all of them lie in one piece */
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
  char *p = claim(8000);
  char *end = (char *)arena_of(p) + WINDOW_SIZE;
  CHECK(!arena_claim_at(end - SLICE_SIZE, 2, &clean));
  CHECK(!arena_claim_at(end, 1, &clean));
  CHECK_EQ(committed(), 8000u);
}

TEST(arena, a_window_that_is_full_is_followed_by_another_arena, "") {
  char *p[5];
  for (int i = 0; i < 5; i++) {
    p[i] = claim(8000);
    CHECK(p[i] != NULL);
  }
  CHECK_EQ(arena_count(), 3u);
  CHECK(arena_of(p[0]) == arena_of(p[1]) && arena_of(p[1]) != arena_of(p[2]));
  for (int i = 0; i < 5; i++) arena_release(p[i], 8000);
  CHECK_EQ(lost_slices(), 0u);
  CHECK_EQ(arena_slice(claim(1)), (size_t)ARENA_FIRST_SLICE);
}

TEST(arena, the_last_slices_of_a_window_are_used, "") {
  claim(8000);
  for (size_t i = ARENA_FIRST_SLICE + 8000; i < ARENA_END; i++)
    CHECK_EQ((void *)arena_of(claim(1)), (void *)arena_at(0));
  CHECK_EQ(free_slices(), 0u);
  CHECK_EQ((void *)arena_of(claim(1)), (void *)arena_at(1));
}

TEST(arena, behind_a_windows_last_block_nothing_is_mapped_before_the_next_arenas_head, "") {
  bool clean;
  char *p = claim(8000), *next = (char *)arena_of(p) + WINDOW_SIZE;
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
  enum { ALIGNMENT = 32, BLOCKS = 200 };                     /* 2 MiB */
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

TEST(arena, a_long_run_begins_a_group_unless_there_is_none_such, "") {
  enum { LONG = 129 };
  char *p = claim(8000);
  while (free_slices() > 0) claim(1);
  size_t group = (arena_slice(p) / 64 + 1) * 64 - arena_slice(p);  /* where the next begins */
  arena_release(p + (group - 20) * SLICE_SIZE, LONG + 10);
  arena_release(p + (group + 300) * SLICE_SIZE, 64 + LONG);
  CHECK_EQ(claim(LONG), p + (group + 320) * SLICE_SIZE);
  CHECK_EQ(claim(LONG), p + (group - 20) * SLICE_SIZE);
}

TEST(arena, a_run_up_to_a_mebibyte_is_taken_where_least_is_left_a_longer_one_at_the_lowest, "") {
  char *p = claim(8000);
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

TEST(arena, a_set_that_is_replaced_at_random_stays_dense, "") {
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

/* ---- what a search did not find ---- */

static lack_t *lack(size_t number) { return &lacks_free[number]; }

TEST(arena, a_search_in_vain_is_not_repeated_until_a_run_as_long_comes_back, "S-room") {
  char *p = claim(8000), *q = p;
  while (arena_count() < 3) q = claim(4000);
  while (atomic32_load_relaxed(lack(0)) != 1) claim(1);      /* the first window is full */
  CHECK(lack_covers(lack(0), 1));
  arena_release(p + 10 * SLICE_SIZE, 3);
  CHECK(!lack_covers(lack(0), 3));
  CHECK_NE((void *)arena_of(claim(4)), (void *)arena_of(p));
  CHECK(lack_covers(lack(0), 4) && !lack_covers(lack(0), 3));
  arena_release(p + 14 * SLICE_SIZE, 3);                     /* with a gap of one */
  CHECK(lack_covers(lack(0), 4));
  arena_release(p + 13 * SLICE_SIZE, 1);                     /* and that joins them */
  CHECK(!lack_covers(lack(0), 7));
  CHECK_EQ(claim(7), p + 10 * SLICE_SIZE);
  arena_release(q, 4000);
}

TEST(arena, what_a_purge_held_for_a_moment_is_looked_for_again, "S-room") {
  char *p = claim(8000);
  while (arena_count() < 2) claim(4000);
  while (atomic32_load_relaxed(lack(0)) != 1) claim(1);
  arena_release(p, 2);
  lack_note(lack(0), 1);                                     /* another searched meanwhile */
  purge_all();
  CHECK_EQ(claim(2), p);
}

TEST(arena, before_a_window_is_added_all_are_searched_whatever_the_hints_say, "S-room") {
  char *p = claim(8000);
  while (free_slices() > 0) claim(1);
  while (atomic64_load_relaxed(&arena_at(0)->mapped) < ARENA_END || free_slices() > 0) claim(1);
  arena_release(p, 5);
  lack_note(lack(0), 1);                                     /* who noted it has stopped */
  CHECK_EQ(claim(5), p);
  CHECK_EQ(arena_count(), 1u);
}

TEST(arena, a_lack_ends_when_a_run_comes_back_of_which_another_has_taken_a_part, "S-room") {
  static atomic64_t words[2];
  lack_t lack = { 0 };
  for (size_t taken = 60; taken < 68; taken++) {
    lack_note(&lack, 5);
    bitmap_release(words, 60, 8);
    CHECK(bitmap_claim_at(words, taken, 1));                 /* before the lack is looked at */
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

TEST(arena, room_that_comes_back_because_an_mmap_failed_is_looked_for_again, "S-room") {
  arena_t *a = arena_of(claim(8000));
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

/* ---- memory that is unmapped ---- */

static size_t unmapped_slices_of(const arena_t *a) {
  size_t n = 0;
  for (size_t i = 0; i < ARENA_WORDS; i++)
    n += bits_count(atomic64_load_relaxed(&arena_maps(a)->unmapped[i]));
  return n;
}

TEST(arena, free_groups_are_unmapped_when_address_space_is_short_and_mapped_again, "A2 A3") {
  char *p = claim(2000), *wall = claim(1), *other_side = claim(2000);
  memset(p, 1, 2000 * SLICE_SIZE);
  arena_t *a = arena_of(wall);
  while (free_slices() > 0) claim(1);
  arena_release(p, 2000);
  arena_release(other_side, 2000);
  os_fake.most_mapped = os_fake.mapped;
  CHECK(claim(3000) != NULL);                                /* in place of what was free */
  CHECK_EQ(unmapped_slices_of(a) % 64, 0u);
  CHECK_GE(unmapped_slices_of(a), 3000u);
  CHECK_LE(os_fake.mapped, os_fake.most_mapped);
  CHECK(arena_is_valid(a));
  os_fake.most_mapped = SIZE_MAX;
  char *again = claim(1800);
  CHECK(again >= p && again + 1800 * SLICE_SIZE <= p + 2000 * SLICE_SIZE);
  CHECK(os_fake_is_mapped(again, 1800 * SLICE_SIZE));
  CHECK_BYTES(again, 0, 1800 * SLICE_SIZE);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, an_unmapping_that_the_system_refuses_leaves_the_slices_free, "A2") {
  char *p = claim(500);
  while (free_slices() > 0) claim(1);
  arena_release(p, 500);
  os_fake_fail(1u << OS_FAKE_UNMAP, 1, true);
  CHECK(!arena_unmap_free());
  CHECK_EQ(free_slices(), 500u);
  CHECK_EQ(claim(500), p);
}

/* A group that is unmapped, in the middle of slices that are in use. */
static char *make_unmapped_group(void) {
  char *p = claim(2000), *group = arena_address(arena_of(p), (arena_slice(p) / 64 + 2) * 64);
  while (free_slices() > 0) claim(1);
  arena_release(group, 64);
  CHECK(arena_unmap_free());
  CHECK_EQ(unmapped_slices_of(arena_of(p)), 64u);
  return group;
}

TEST(arena, unmapped_slices_and_the_free_ones_beside_them_are_claimed_as_one_range, "A2 A3") {
  char *group = make_unmapped_group(), *first = group - 20 * SLICE_SIZE;
  memset(first, 1, 20 * SLICE_SIZE);
  arena_release(first, 20);
  arena_release(group + 64 * SLICE_SIZE, 30);
  bool clean;
  CHECK_EQ(arena_claim(110, 2, &clean), (void *)first);
  CHECK(!clean);
  CHECK(os_fake_is_mapped(first, 110 * SLICE_SIZE));
  CHECK_EQ(unmapped_slices_of(arena_of(group)), 0u);
  CHECK_EQ(free_slices(), 4u);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, slices_that_cannot_be_had_as_one_range_stay_free_or_unmapped, "A2") {
  char *group = make_unmapped_group();
  arena_release(group - 20 * SLICE_SIZE, 20);
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  CHECK_NULL(claim(84));
  os_fake_fail(0, 0, false);
  CHECK_EQ(unmapped_slices_of(arena_of(group)) + free_slices(), 84u);
  CHECK_EQ(claim(84), group - 20 * SLICE_SIZE);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, what_is_free_of_a_group_is_unmapped_if_the_rest_of_it_is, "A2 A4") {
  char *group = make_unmapped_group();
  arena_t *a = arena_of(group);
  CHECK_EQ(claim(10), group);
  memset(group, 1, 10 * SLICE_SIZE);
  arena_release(group, 10);
  CHECK(arena_unmap_free());
  CHECK_EQ(unmapped_slices_of(a), 64u);
  CHECK(!os_fake_is_mapped(group, SLICE_SIZE));
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  CHECK(arena_is_valid(a));
  CHECK_EQ(claim(64), group);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, slices_whose_pages_were_moved_away_are_mapped_again_at_once_or_later, "A2 A3 A4") {
  core_option(OPTION_thp, THP_NEVER);
  char *p = claim(100), *q = p + 40 * SLICE_SIZE;
  while (free_slices() > 0) claim(1);
  uint64_t advices = os_fake.calls[OS_FAKE_ADVISE_HUGE], before = committed();
  memset(p, 1, 100 * SLICE_SIZE);
  for (int i = 0; i < 2; i++) {
    CHECK(os_unmap(q, 10 * SLICE_SIZE));
    atomic64_add_relaxed(&arena_counts.committed, (uint64_t)-10);
    os_fake_fail(OS_FAKE_MAPPING, (uint64_t)i, false);       /* the second time it fails */
    arena_release_moved(q, 10);
    CHECK_EQ(committed(), before - 10);
    CHECK(arena_is_valid(arena_of(p)));
    CHECK_EQ(unmapped_slices_of(arena_of(p)), i * 10u);
    bool clean;
    CHECK_EQ(arena_claim(10, 1, &clean), (void *)q);
    CHECK(clean);
    CHECK_BYTES(q, 0, 10 * SLICE_SIZE);
    CHECK_EQ(os_fake.calls[OS_FAKE_ADVISE_HUGE], advices + (uint64_t)i + 1);
    CHECK_EQ(lost_slices(), 0u);
  }
}

/* Of a group's free runs the first is unmapped, and the next is refused. */
TEST(arena, an_unmapping_refused_in_the_middle_of_a_group_leaves_the_rest_free, "A2") {
  char *group = make_unmapped_group(), *middle = group + 10 * SLICE_SIZE;
  arena_t *a = arena_of(group);
  CHECK_EQ(claim(30), group);
  CHECK(os_unmap(middle, 10 * SLICE_SIZE));
  atomic64_add_relaxed(&arena_counts.committed, (uint64_t)-10);
  os_fake_fail(OS_FAKE_MAPPING, 1, false);
  arena_release_moved(middle, 10);
  arena_release(group, 10);
  arena_release(group + 20 * SLICE_SIZE, 10);
  os_fake_fail(1u << OS_FAKE_UNMAP, 2, false);
  CHECK(arena_unmap_free());
  CHECK_EQ(unmapped_slices_of(a), 54u);
  CHECK_EQ(free_slices(), 10u);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)10);
  purge_all();
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  CHECK_EQ(claim(64), group);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, slices_where_somebody_else_has_mapped_something_are_passed_over, "A2") {
  char *group = make_unmapped_group();
  os_fake_take(group + 5 * SLICE_SIZE, 4096);
  char *p = claim(20);
  CHECK(p != NULL && (p < group || p >= group + 64 * SLICE_SIZE));
  CHECK(os_fake_is_mapped(p, 20 * SLICE_SIZE));
  CHECK_EQ(unmapped_slices_of(arena_of(group)), 44u);
}

/* ---- growth ---- */

enum { SCRIPT = 40 };
static char *held[SCRIPT];
static size_t held_slices[SCRIPT];

static void run_script(bool must_succeed) {
  for (size_t i = 0; i < SCRIPT; i++) {
    bool clean = false;
    held_slices[i] = 1 + i * i % 90;
    held[i] = arena_claim(held_slices[i], i % 5 == 0 ? 16 : 1, &clean);
    if (must_succeed) CHECK(held[i] != NULL);
    if (held[i] == NULL) continue;
    CHECK(os_fake_is_mapped(held[i], held_slices[i] * SLICE_SIZE));
    if (clean) CHECK_BYTES(held[i], 0, held_slices[i] * SLICE_SIZE);
    memset(held[i], (int)i + 1, held_slices[i] * SLICE_SIZE);
  }
  for (size_t i = 0; i < SCRIPT; i++) {
    if (held[i] == NULL) continue;
    CHECK_BYTES(held[i], i + 1, held_slices[i] * SLICE_SIZE);
    arena_release(held[i], held_slices[i]);
  }
  CHECK_EQ(committed(), 0u);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, whichever_mmap_fails_nothing_is_lost_and_later_claims_work, "A1 timeout=120") {
  for (int after = 0; after < 2; after++)
    for (uint64_t k = 1;; k++) {
      test_child_t c;
      core_option(OPTION_arena_step, (int64_t)MiB(2));
      if (test_fork(&c, 60)) {
        os_fake_fail(OS_FAKE_MAPPING, k, after);
        run_script(false);
        bool was_reached = after ? os_fake.fail_at == 1 : os_fake.fail_at == 0;
        os_fake_fail(0, 0, false);
        run_script(true);
        _exit(was_reached ? 0 : 50);
      }
      test_reap(&c);
      if (WIFEXITED(c.status) && WEXITSTATUS(c.status) == 50) {
        CHECK_GE(k, 5u);
        break;
      }
      if (!WIFEXITED(c.status) || WEXITSTATUS(c.status) != 0)
        FAIL("mmap %d failed: %s", (int)k, c.text);
    }
}

TEST(arena, where_memory_is_short_the_steps_shrink_down_to_single_slices, "") {
  size_t count = 0;
  claim(1);
  os_fake.most_mapped = os_fake.mapped + 77 * SLICE_SIZE;
  size_t free_at_first = free_slices();
  while (claim(1) != NULL) count++;
  CHECK_EQ(count, free_at_first + 77);
  CHECK_EQ(os_fake.mapped, os_fake.most_mapped);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, a_system_with_room_for_the_descriptors_and_one_slice_is_enough, "") {
  os_fake.most_mapped = (ARENA_FIRST_SLICE + 1) * SLICE_SIZE;
  CHECK(claim(1) != NULL);
  CHECK_NULL(claim(1));
}

TEST(arena, growth_passes_over_somebody_elses_mapping_in_its_window, "") {
  char *p = claim(1);
  arena_t *a = arena_of(p);
  char *end = (char *)arena_address(a, atomic64_load_relaxed(&a->mapped));
  os_fake_take(end + SLICE_SIZE, 4096);
  size_t mapped = os_fake.mapped;
  for (int i = 0; i < 300; i++) {
    char *q = claim(1);
    CHECK(q != NULL);
    CHECK(q < end || q > end + SLICE_SIZE + 4095);
    CHECK(os_fake_is_mapped(q, SLICE_SIZE));
  }
  CHECK_EQ(lost_slices(), 0u);
  CHECK_GT(os_fake.mapped, mapped);
}

/* Another thread in the middle of the first mmap of a growth: it claims `other_size` slices
 * itself. */
static char *other;
static size_t other_size;
static bool other_fails, first_fails;
static void another_grows(os_fake_call_t call, void *at, size_t size) {
  (void)at, (void)size;
  if (call != OS_FAKE_MAP_AT) return;
  os_fake.before = NULL;
  if (other_fails) os_fake_fail(OS_FAKE_MAPPING, 1, true);
  other = claim(other_size);
  os_fake_fail(OS_FAKE_MAPPING, first_fails, false);
}

static char *grow_at_once(bool first, bool second) {
  char *some = claim(1);
  while (free_slices() > 0) claim(1);
  CHECK_EQ(arena_of(some), arena_at(0));
  other_size = 50;
  first_fails = first;
  other_fails = second;
  os_fake.before = another_grows;
  char *mine = claim(2);
  CHECK(mine == NULL || arena_of(mine) == arena_at(0));
  return mine;
}

TEST(arena, two_threads_that_grow_at_once_both_keep_what_they_mapped, "") {
  char *mine = grow_at_once(false, false);
  CHECK(mine != NULL && other != NULL);
  CHECK(mine + 2 * SLICE_SIZE <= other || other + 50 * SLICE_SIZE <= mine);
  memset(mine, 1, 2 * SLICE_SIZE);
  memset(other, 2, 50 * SLICE_SIZE);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, a_range_whose_mmap_fails_behind_anothers_back_is_given_up_and_nobody_gets_it, "") {
  char *mine = grow_at_once(true, false);
  CHECK(mine != NULL && other != NULL);
  CHECK_GT(mine, other);  /* the next try lies behind the other's range */
  CHECK(os_fake_is_mapped(mine, 2 * SLICE_SIZE) && os_fake_is_mapped(other, 50 * SLICE_SIZE));
  CHECK_EQ(lost_slices(), 0u);
  for (int i = 0; i < 200; i++) {
    char *p = claim(1);
    CHECK(os_fake_is_mapped(p, SLICE_SIZE));
  }
}

TEST(arena, a_range_whose_mmap_fails_alone_is_tried_again, "") {
  char *some = claim(1);
  arena_t *a = arena_of(some);
  while (free_slices() > 0) claim(1);
  uint64_t mapped = atomic64_load_relaxed(&a->mapped);
  os_fake_fail(OS_FAKE_MAPPING, 1, false);
  char *p = claim(1);
  CHECK_EQ(arena_slice(p), (size_t)mapped);
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  while (free_slices() > 0) claim(1);
  mapped = atomic64_load_relaxed(&a->mapped);
  CHECK_NULL(claim(1));
  CHECK_EQ(atomic64_load_relaxed(&a->mapped), mapped);
}

/* The last slices of what is mapped are free, and growth maps no more than it must. */
static char *claim_over_the_end(void) {
  core_option(OPTION_arena_step, SLICE_SIZE);
  char *p = claim(1000);
  while (free_slices() > 0) claim(1);
  arena_release(p, 1000);
  return p;
}

TEST(arena, growth_maps_no_more_than_what_the_free_slices_at_the_end_lack, "") {
  char *p = claim_over_the_end();
  size_t mapped = os_fake.mapped;
  CHECK_EQ(claim(1500), p);
  CHECK_EQ(os_fake.mapped, mapped + 500 * SLICE_SIZE);
  CHECK_EQ(free_slices(), 0u);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, where_the_end_cannot_grow_its_free_slices_stay_free, "") {
  char *p = claim_over_the_end();
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  bool clean;
  CHECK_NULL(arena_claim(1500, 1, &clean));
  CHECK_EQ(free_slices() + unmapped_slices_of(arena_of(p)), 1000u);
  os_fake_fail(0, 0, false);
  os_fake_take(p + 1000 * SLICE_SIZE, SLICE_SIZE);         /* somebody else's mapping follows */
  char *q = claim(1500);
  CHECK(q > p && arena_of(q) == arena_of(p));
  CHECK_EQ(free_slices() + unmapped_slices_of(arena_of(p)), 1000u);  /* no more than those */
  char *again = claim(800);
  CHECK(again >= p && again < p + 200 * SLICE_SIZE);
}

/* So many more threads in the middle of each other's mmaps: each wants a slice and finds none. */
static int growers;
static void all_grow(os_fake_call_t call, void *at, size_t size) {
  (void)at, (void)size;
  if (call != OS_FAKE_MAP_AT || growers == 0) return;
  growers--;
  CHECK(claim(1) != NULL);
}

TEST(arena, threads_that_grow_at_once_do_not_each_map_a_whole_step, "") {
  claim(1000);
  while (free_slices() > 0) claim(1);
  size_t step = atomic64_load_relaxed(&arena_counts.mapped) / 2, mapped = os_fake.mapped;
  growers = 60;
  os_fake.before = all_grow;
  CHECK(claim(1) != NULL);
  CHECK_EQ(growers, 0);
  CHECK_EQ(arena_count(), 1u);
  CHECK_LE((os_fake.mapped - mapped) / SLICE_SIZE, 2 * step + 60 * 64);
  os_fake.before = NULL;
  size_t before = os_fake.mapped;
  while (os_fake.mapped == before) claim(1);          /* whole steps again */
  CHECK_GT((os_fake.mapped - before) / SLICE_SIZE, step);
}

TEST(arena, of_threads_that_add_an_arena_at_once_those_that_find_room_in_anothers_drop_theirs, "") {
  arena_t *a = arena_of(claim(1));
  while (atomic64_load_relaxed(&a->mapped) < ARENA_END || free_slices() > 0) claim(1);
  growers = 20;
  os_fake.before = all_grow;
  CHECK(claim(1) != NULL);
  CHECK_EQ(growers, 0);
  CHECK_EQ(arena_count(), 2u);
  CHECK_EQ(lost_slices(), 0u);
}

/* `n` slices from `p` on: the last one is the last that is mapped. */
static char *at_end(size_t n) {
  char *p = claim(100);
  while (free_slices() > 0) claim(1);
  p = arena_address(arena_of(p), atomic64_load_relaxed(&arena_of(p)->mapped) - n);
  arena_release(p, n);
  return p;
}

TEST(arena, a_range_that_goes_beyond_what_is_mapped_is_mapped_if_it_is_next, "A1 A2 M1") {
  bool clean;
  char *p = at_end(3);
  CHECK(!arena_claim_at(p, 10, &clean));
  CHECK(!arena_grow_at(p + 4 * SLICE_SIZE, 10, &clean));     /* it would leave a gap */
  CHECK(!arena_grow_at(p - SLICE_SIZE, 10, &clean));         /* the first one is in use */
  CHECK(!arena_grow_at(p, WINDOW_SLICES, &clean));
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  CHECK(!arena_grow_at(p, 10, &clean));
  os_fake_fail(0, 0, false);
  CHECK_EQ(free_slices(), 3u);
  uint64_t before = committed();
  CHECK(arena_grow_at(p, 10, &clean) && !clean);
  CHECK_EQ(committed(), before + 10);
  p = at_end(1) + SLICE_SIZE;
  CHECK(arena_grow_at(p, 10, &clean) && clean);
  CHECK(os_fake_is_mapped(p, 10 * SLICE_SIZE));
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, a_block_of_the_first_range_does_not_grow_across_its_border, "") {
  bool clean;
  char *p = claim(1);
  CHECK(!arena_grow_at(p + SLICE_SIZE, 40, &clean));
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, others_that_claim_or_grow_where_a_range_is_being_mapped_lose_nothing_to_it, "M1") {
  bool clean;
  char *p = at_end(3);
  other_size = 1;                                            /* the first of the three */
  other_fails = first_fails = false;
  os_fake.before = another_grows;
  CHECK(!arena_grow_at(p, 10, &clean));
  CHECK_EQ(other, p);
  CHECK_EQ(lost_slices(), 0u);
  p = at_end(3);
  other_size = 500;                                          /* it grows as well */
  os_fake.before = another_grows;
  CHECK(arena_grow_at(p, 10, &clean));
  CHECK(other >= p + 10 * SLICE_SIZE);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(arena, another_growth_that_fails_in_between_leaves_the_first_whole, "") {
  char *mine = grow_at_once(false, true);
  CHECK(mine != NULL);
  CHECK_NULL(other);
  CHECK_EQ(lost_slices(), 0u);
}

/* ---- limits and pages ---- */

TEST(arena, the_memory_limit_holds_for_claims_of_every_kind_and_is_no_end, "") {
  bool clean;
  core_option(OPTION_memory_limit, (int64_t)(10 * SLICE_SIZE));
  char *p = claim(8);
  CHECK(p != NULL);
  CHECK_NULL(claim(3));
  CHECK(!arena_claim_at(p + 8 * SLICE_SIZE, 3, &clean));
  CHECK(arena_is_over_limit(2 * SLICE_SIZE + 1) && !arena_is_over_limit(2 * SLICE_SIZE));
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

TEST(arena, pages_of_any_size_are_served, "") {
  for (size_t page = 4096; page <= 65536; page *= 4) {
    os_fake.page_size = page;
    run_script(true);
  }
}

TEST(arena, the_hint_of_the_lowest_free_word_never_hides_a_free_slice, "") {
  char *p[300];
  for (int i = 0; i < 300; i++) p[i] = claim(1);
  arena_t *a = arena_at(0);
  arena_release(p[5], 1);
  atomic32_store_relaxed(&a->low_word, 6);            /* as a thread that was late may leave it */
  size_t more = free_slices();
  for (size_t i = 0; i < more; i++) claim(1);
  CHECK_EQ(free_slices(), 0u);
  CHECK_EQ(arena_count(), 1u);
}

/* ---- threads ---- */

static atomic32_t owner[WINDOW_SLICES];

static void claim_and_release(unsigned number) {
  uint64_t state = number;
  struct { char *at; size_t n; } mine[12];
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
  char *p = claim(1);                                  /* one arena for all of them */
  arena_release(p, 1);
  core_option(OPTION_purge_budget, (int64_t)MiB(4));
  core_threads(4, claim_and_release);
  CHECK_EQ(committed(), 0u);
  CHECK_EQ(lost_slices(), 0u);
  purge_all();
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
}
