/* grow_test.c - tests of arena/grow: windows, what is mapped of them, and what is unmapped */
#include "counts.h"

#include "../../src/arena/budget.h"

static size_t unmapped_slices_of(const arena_t *a) {
  size_t n = 0;
  for (size_t i = 0; i < ARENA_WORDS; i++)
    n += bits_count(atomic64_load_relaxed(&arena_maps(a)->unmapped[i]));
  return n;
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

TEST(grow, whichever_mmap_fails_nothing_is_lost_and_later_claims_work, "A1 timeout=120") {
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

TEST(grow, where_memory_is_short_the_steps_shrink_down_to_single_slices, "") {
  size_t count = 0;
  claim(1);
  os_fake.most_mapped = os_fake.mapped + 77 * SLICE_SIZE;
  size_t free_at_first = free_slices();
  while (claim(1) != NULL) count++;
  CHECK_EQ(count, free_at_first + 77);
  CHECK_EQ(os_fake.mapped, os_fake.most_mapped);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(grow, a_system_with_room_for_the_descriptors_and_one_slice_is_enough, "") {
  os_fake.most_mapped = (ARENA_FIRST_SLICE + 1) * SLICE_SIZE;
  CHECK(claim(1) != NULL);
  CHECK_NULL(claim(1));
}

TEST(grow, growth_passes_over_somebody_elses_mapping_in_its_window, "") {
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

static size_t populated;
static void count_populated(os_fake_call_t call, void *at, size_t size) {
  if (call != OS_FAKE_POPULATE) return;
  CHECK_GE(arena_slice(at), (size_t)ARENA_FIRST_SLICE);
  CHECK(os_fake_is_mapped(at, size));
  populated += size;
}

TEST(grow, whole_steps_are_made_present_if_that_is_wanted_and_memory_is_not_short, "A4") {
  os_fake.before = count_populated;
  claim(1);
  CHECK_EQ(populated, 0u);
  core_option(OPTION_arena_populate, true);
  claim(1000);
  CHECK_GE(populated, 900 * SLICE_SIZE);
  for (int i = 0; i < 5; i++) claim(HALF_WINDOW); /* windows more */
  size_t mapped = (atomic64_load_relaxed(&arena_counts.mapped) - arena_count() * ARENA_FIRST_SLICE);
  CHECK_GE(populated, (mapped - 100) * SLICE_SIZE);
  CHECK_LE(populated, mapped * SLICE_SIZE);
  size_t before = populated;
  atomic64_store_relaxed(&budget.level, PRESSURE_NEAR);
  claim(HALF_WINDOW);
  CHECK_EQ(populated, before);
}

TEST(grow, memory_that_cannot_be_made_present_is_mapped_all_the_same, "") {
  core_option(OPTION_arena_populate, true);
  os_fake_fail(1u << OS_FAKE_POPULATE, 1, true);
  for (int i = 0; i < 20; i++) CHECK(claim(500) != NULL);
  CHECK_EQ(lost_slices(), 0u);
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

TEST(grow, two_threads_that_grow_at_once_both_keep_what_they_mapped, "") {
  char *mine = grow_at_once(false, false);
  CHECK(mine != NULL && other != NULL);
  CHECK(mine + 2 * SLICE_SIZE <= other || other + 50 * SLICE_SIZE <= mine);
  memset(mine, 1, 2 * SLICE_SIZE);
  memset(other, 2, 50 * SLICE_SIZE);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(grow, who_finds_no_window_gets_slices_of_the_one_that_another_thread_added_meanwhile, "") {
  os_fake.windows = 3;
  char *first = claim(HALF_WINDOW);
  claim(HALF_WINDOW);
  os_fake_take((char *)arena_of(first) + WINDOW_SIZE, 4096);
  other_size = HALF_WINDOW;
  os_fake.before = another_grows;
  char *mine = claim(HALF_WINDOW);
  CHECK(mine != NULL && other != NULL && arena_of(mine) == arena_of(other));
  CHECK_EQ(lost_slices(), 0u);
}

TEST(grow, a_range_whose_mmap_fails_behind_anothers_back_is_mapped_by_a_later_claim, "A2") {
  char *mine = grow_at_once(true, false);
  CHECK(mine != NULL && other != NULL);
  CHECK_GT(mine, other); /* the next try lies behind the other's range */
  CHECK(os_fake_is_mapped(mine, 2 * SLICE_SIZE) && os_fake_is_mapped(other, 50 * SLICE_SIZE));
  CHECK_EQ(lost_slices(), 0u);
  CHECK_GT(unmapped_slices_of(arena_of(mine)), 0u);
  bool is_below = false;
  for (int i = 0; i < 200; i++) {
    char *p = claim(1);
    CHECK(os_fake_is_mapped(p, SLICE_SIZE));
    is_below = is_below || p < other;
  }
  CHECK(is_below);
  CHECK_EQ(unmapped_slices_of(arena_of(mine)), 0u);
}

TEST(grow, no_window_is_added_where_there_is_room_and_no_memory, "") {
  core_option(OPTION_arena_step, SLICE_SIZE);
  claim(1);
  while (free_slices() > 0) claim(1);
  os_fake_fail(OS_FAKE_MAPPING, 1, false); /* a second mmap would succeed */
  CHECK_NULL(claim(1));
  CHECK_EQ(arena_count(), 1u);
  CHECK(claim(1) != NULL);
  CHECK_EQ(arena_count(), 1u);
}

TEST(grow, a_range_whose_mmap_fails_alone_is_tried_again, "") {
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

TEST(grow, growth_maps_no_more_than_what_the_free_slices_at_the_end_lack, "") {
  char *p = claim_over_the_end();
  size_t mapped = os_fake.mapped;
  CHECK_EQ(claim(1500), p);
  CHECK_EQ(os_fake.mapped, mapped + 500 * SLICE_SIZE);
  CHECK_EQ(free_slices(), 0u);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(grow, where_the_end_cannot_grow_its_free_slices_stay_free, "") {
  char *p = claim_over_the_end();
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  bool clean;
  CHECK_NULL(arena_claim(1500, 1, &clean));
  CHECK_EQ(free_slices() + unmapped_slices_of(arena_of(p)), 1000u);
  os_fake_fail(0, 0, false);
  os_fake_take(p + 1000 * SLICE_SIZE, SLICE_SIZE); /* somebody else's mapping follows */
  char *q = claim(1500);
  CHECK(q > p && arena_of(q) == arena_of(p));
  CHECK_EQ(free_slices() + unmapped_slices_of(arena_of(p)), 1000u); /* no more than those */
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

TEST(grow, threads_that_grow_at_once_do_not_each_map_a_whole_step, "") {
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
  while (os_fake.mapped == before) claim(1); /* whole steps again */
  CHECK_GT((os_fake.mapped - before) / SLICE_SIZE, step);
}

static void fork_in_the_middle(os_fake_call_t call, void *at, size_t size) {
  (void)at, (void)size;
  if (call != OS_FAKE_MAP_AT) return;
  os_fake.before = NULL;
  arena_begin_in_child();
}

TEST(grow, what_grew_when_its_parent_was_copied_grows_no_more_in_a_child, "") {
  claim(1000);
  while (free_slices() > 0) claim(1);
  growers = 60;
  os_fake.before = fork_in_the_middle; /* this thread itself is inside */
  CHECK(claim(1) != NULL);
  CHECK_NULL((void *)os_fake.before);
  while (free_slices() > 0) claim(1);
  size_t step = atomic64_load_relaxed(&arena_counts.mapped) / 2, before = os_fake.mapped;
  while (os_fake.mapped == before) claim(1); /* a whole step */
  CHECK_GE((os_fake.mapped - before) / SLICE_SIZE, step);
}

TEST(grow, the_advice_for_a_range_is_the_same_under_pressure, "") {
  claim(100);
  uint64_t advices = os_fake.calls[OS_FAKE_ADVISE_HUGE];
  atomic64_store_relaxed(&budget.level, PRESSURE_NEAR);
  claim(WINDOW_SLICES / 4);
  CHECK_EQ(os_fake.calls[OS_FAKE_ADVISE_HUGE], advices);
}

TEST(grow, of_threads_that_add_an_arena_at_once_those_that_find_room_in_anothers_drop_theirs, "") {
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

TEST(grow, a_range_that_goes_beyond_what_is_mapped_is_mapped_if_it_is_next, "A1 A2 M1") {
  bool clean;
  char *p = at_end(3);
  CHECK(!arena_claim_at(p, 10, &clean));
  CHECK(!arena_grow_at(p + 4 * SLICE_SIZE, 10, &clean)); /* it would leave a gap */
  CHECK(!arena_grow_at(p - SLICE_SIZE, 10, &clean));     /* the first one is in use */
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

TEST(grow, a_block_of_the_first_range_does_not_grow_across_its_border, "") {
  bool clean;
  char *p = claim(1);
  CHECK(!arena_grow_at(p + SLICE_SIZE, 40, &clean));
  CHECK(arena_grow_at(p + SLICE_SIZE, 27, &clean));
  CHECK(arena_is_first_end(arena_of(p), arena_slice(p) + 28));
  CHECK(!arena_is_first_end(arena_of(p), arena_slice(p) + 27));
  CHECK(!arena_grow_at(p + 28 * SLICE_SIZE, 1, &clean));
  CHECK_EQ(lost_slices(), 0u);
}

TEST(grow, others_that_claim_or_grow_where_a_range_is_being_mapped_lose_nothing_to_it, "M1") {
  bool clean;
  char *p = at_end(3);
  other_size = 1; /* the first of the three */
  other_fails = first_fails = false;
  os_fake.before = another_grows;
  CHECK(!arena_grow_at(p, 10, &clean));
  CHECK_EQ(other, p);
  CHECK_EQ(lost_slices(), 0u);
  p = at_end(3);
  other_size = 500; /* it grows as well */
  os_fake.before = another_grows;
  CHECK(arena_grow_at(p, 10, &clean));
  CHECK(other >= p + 10 * SLICE_SIZE);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(grow, another_growth_that_fails_in_between_leaves_the_first_whole, "") {
  char *mine = grow_at_once(false, true);
  CHECK(mine != NULL);
  CHECK_NULL(other);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(grow, pages_of_any_size_are_served, "") {
  for (size_t page = 4096; page <= 65536; page *= 4) {
    os_fake.page_size = page;
    run_script(true);
  }
}

/* ---- memory that is unmapped ---- */

TEST(grow, free_groups_are_unmapped_when_address_space_is_short_and_mapped_again, "A2 A3") {
  char *p = claim(2000), *wall = claim(1), *other_side = claim(2000);
  memset(p, 1, 2000 * SLICE_SIZE);
  arena_t *a = arena_of(wall);
  while (free_slices() > 0) claim(1);
  arena_release(p, 2000);
  arena_release(other_side, 2000);
  os_fake.most_mapped = os_fake.mapped;
  CHECK(claim(3000) != NULL); /* in place of what was free */
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

TEST(grow, an_unmapping_that_the_system_refuses_leaves_the_slices_free, "A2") {
  char *p = claim(500);
  while (free_slices() > 0) claim(1);
  arena_release(p, 500);
  os_fake_fail(1u << OS_FAKE_UNMAP, 1, true);
  CHECK(!arena_unmap_free());
  CHECK_EQ(free_slices(), 500u);
  CHECK_EQ(claim(500), p);
}

TEST(grow, what_the_system_would_not_give_again_is_not_unmapped, "A2 A3 A4") {
  char *p = claim(500);
  while (free_slices() > 0) claim(1);
  memset(p, 1, 500 * SLICE_SIZE);
  arena_release(p, 500);
  arena_t *a = arena_of(p);
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  for (int i = 0; i < 20; i++) CHECK_NULL(claim(600));
  CHECK_LE(unmapped_slices_of(a), 3u); /* that many were tried, once */
  CHECK(arena_is_valid(a));
  CHECK_EQ(unmapped_slices_of(a) + free_slices(), 500u);
  os_fake_fail(0, 0, false);
  CHECK(!arena_unmap_free());
  os_fake.now_ms += 2000;
  CHECK(arena_unmap_free());
  CHECK_GT(unmapped_slices_of(a), 400u);
  CHECK(arena_is_valid(a));
  CHECK_EQ(claim(500), p);
  CHECK_EQ(lost_slices(), 0u);
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

TEST(grow, unmapped_slices_and_the_free_ones_beside_them_are_claimed_as_one_range, "A2 A3") {
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

TEST(grow, slices_that_cannot_be_had_as_one_range_stay_free_or_unmapped, "A2") {
  char *group = make_unmapped_group();
  arena_release(group - 20 * SLICE_SIZE, 20);
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  CHECK_NULL(claim(84));
  os_fake_fail(0, 0, false);
  CHECK_EQ(unmapped_slices_of(arena_of(group)) + free_slices(), 84u);
  CHECK_EQ(claim(84), group - 20 * SLICE_SIZE);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(grow, what_is_free_of_a_group_is_unmapped_if_the_rest_of_it_is, "A2 A4") {
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

TEST(grow, slices_whose_pages_were_moved_away_are_mapped_again_at_once_or_later, "A2 A3 A4") {
  core_option(OPTION_thp, THP_NEVER);
  char *p = claim(100), *q = p + 40 * SLICE_SIZE;
  while (free_slices() > 0) claim(1);
  uint64_t advices = os_fake.calls[OS_FAKE_ADVISE_HUGE], before = committed();
  memset(p, 1, 100 * SLICE_SIZE);
  for (int i = 0; i < 2; i++) {
    CHECK(os_unmap(q, 10 * SLICE_SIZE));
    atomic64_add_relaxed(&arena_counts.committed, (uint64_t)-10);
    os_fake_fail(OS_FAKE_MAPPING, (uint64_t)i, false); /* the second time it fails */
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

/* A slice is tried; of the group's free runs the first is unmapped, and the next is refused. */
TEST(grow, an_unmapping_refused_in_the_middle_of_a_group_leaves_the_rest_free, "A2") {
  char *group = make_unmapped_group(), *middle = group + 10 * SLICE_SIZE;
  arena_t *a = arena_of(group);
  CHECK_EQ(claim(30), group);
  CHECK(os_unmap(middle, 10 * SLICE_SIZE));
  atomic64_add_relaxed(&arena_counts.committed, (uint64_t)-10);
  os_fake_fail(OS_FAKE_MAPPING, 1, false);
  arena_release_moved(middle, 10);
  arena_release(group, 10);
  arena_release(group + 20 * SLICE_SIZE, 10);
  os_fake_fail(1u << OS_FAKE_UNMAP, 3, false);
  CHECK(arena_unmap_free());
  CHECK_EQ(unmapped_slices_of(a), 54u);
  CHECK_EQ(free_slices(), 10u);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)10);
  purge_all();
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  CHECK_EQ(claim(64), group);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(grow, slices_where_somebody_else_has_mapped_something_are_passed_over, "A2") {
  char *group = make_unmapped_group();
  os_fake_take(group + 5 * SLICE_SIZE, 4096);
  char *p = claim(20);
  CHECK(p != NULL && (p < group || p >= group + 64 * SLICE_SIZE));
  CHECK(os_fake_is_mapped(p, 20 * SLICE_SIZE));
  CHECK_EQ(unmapped_slices_of(arena_of(group)), 44u);
}
