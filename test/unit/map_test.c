/* map_test.c - tests of arena/map */
#include "core.h"

#include "../../src/arena/map.h"

enum { PAGE = 65536 }; /* whole pages, whatever the system's are */

static uintptr_t word(const void *window) { return map_find(window); }

TEST(map, a_window_is_nobodys_until_it_is_given_and_again_when_it_is_taken_back, "W1") {
  static int record aligned_to(8);
  char *w = map_new(1, PAGE);
  CHECK_EQ((uintptr_t)w % WINDOW_SIZE, (uintptr_t)0);
  CHECK(map_kind(word(w)) == TENANT_CLAIMED);
  map_set(w, 1, &record, TENANT_HUGE);
  CHECK(map_kind(word(w + WINDOW_SIZE - 1)) == TENANT_HUGE);
  CHECK_EQ(map_record(word(w)), (void *)&record);
  CHECK(map_kind(word(w - 1)) == TENANT_NONE);
  CHECK(map_kind(word(w + WINDOW_SIZE)) == TENANT_NONE);
  os_unmap(w, PAGE);
  map_free(w, 1);
  CHECK(map_kind(word(w)) == TENANT_NONE);
  CHECK_EQ(map_new(1, PAGE), (void *)w);
}

/* Claimed windows count as no tenant's: it would be reported. */
static bool map_is_valid_here(void) {
  for (size_t i = 0; i < WINDOW_COUNT; i++)
    if (atomic_ptr_load_relaxed(&window_map[i]) == (void *)TENANT_CLAIMED)
      map_set((void *)(i << WINDOW_SHIFT), 1, (void *)(i << WINDOW_SHIFT), TENANT_ARENA);
  return map_is_valid();
}

static void set_and_look(char *window, void *record, tenant_t kind) {
  map_set(window, 1, record, kind);
  map_is_valid();
}

TEST(map, a_word_that_no_tenant_has_written_is_seen, "W1") {
  char *w = map_new(1, PAGE);
  EXPECT_SURVIVAL(set_and_look(w, w, TENANT_ARENA));
  EXPECT_SURVIVAL(set_and_look(w, w, TENANT_HUGE));
  EXPECT_ABORT(set_and_look(w, w + WINDOW_SIZE, TENANT_ARENA), "invariant W1");
  EXPECT_ABORT(set_and_look(w, w, TENANT_CLAIMED), "invariant W1");
  EXPECT_ABORT(set_and_look(w, NULL, TENANT_HUGE), "invariant W1");
  EXPECT_ABORT(set_and_look(w, w, TENANT_MASK), "invariant W1");
}

TEST(map, addresses_beyond_the_map_are_nobodys, "") {
  CHECK(map_kind(map_find((void *)~(uintptr_t)0)) == TENANT_NONE);
  CHECK(map_kind(map_find((void *)(uintptr_t)((uint64_t)1 << ADDRESS_BITS))) == TENANT_NONE);
  CHECK(map_kind(map_find(NULL)) == TENANT_NONE);
  CHECK(map_kind(map_find((void *)(uintptr_t)(((uint64_t)1 << ADDRESS_BITS) - 1))) == TENANT_NONE);
}

TEST(map, several_windows_lie_side_by_side_and_have_one_tenant, "W1") {
  static int record aligned_to(8);
  char *w = map_new(3, 2 * WINDOW_SIZE + PAGE);
  map_set(w, 3, &record, TENANT_HUGE);
  for (size_t i = 0; i < 3; i++) CHECK_EQ(map_record(word(w + i * WINDOW_SIZE)), (void *)&record);
  char *next = map_new(1, PAGE);
  CHECK_EQ(next, w + 3 * WINDOW_SIZE);
}

TEST(map, where_something_else_lies_windows_are_passed_over_and_cost_no_further_call, "W1 W2") {
  char *w = map_new(1, PAGE);
  os_fake_take(w + WINDOW_SIZE, PAGE);
  char *next = map_new(1, PAGE);
  CHECK_EQ(next, w + 2 * WINDOW_SIZE);
  CHECK(map_kind(word(w + WINDOW_SIZE)) == TENANT_FOREIGN);
  uint64_t calls = os_fake.calls[OS_FAKE_MAP_AT];
  CHECK_EQ(map_new(1, PAGE), (void *)(w + 3 * WINDOW_SIZE));
  CHECK_EQ(os_fake.calls[OS_FAKE_MAP_AT], calls + 1);
  CHECK(map_is_valid_here());
}

TEST(map, of_several_windows_only_the_one_is_given_up_in_which_something_else_lies, "W1 W2") {
  char *w = map_new(1, PAGE);
  os_fake_take(w + 4 * WINDOW_SIZE + 2 * PAGE, PAGE);
  CHECK_EQ(map_new(6, 6 * WINDOW_SIZE - PAGE), (void *)(w + 5 * WINDOW_SIZE));
  for (size_t i = 1; i < 5; i++)
    CHECK(map_kind(word(w + i * WINDOW_SIZE)) == (i == 4 ? TENANT_FOREIGN : TENANT_NONE));
  CHECK_EQ(map_new(3, 3 * WINDOW_SIZE), (void *)(w + WINDOW_SIZE));
  CHECK_EQ(os_fake.mapped, 9 * WINDOW_SIZE + PAGE); /* what was tried is gone again */
}

TEST(map, what_else_lies_in_many_windows_is_found_by_few_calls, "W1") {
  char *w = map_new(1, PAGE);
  os_fake_take(w + 5 * WINDOW_SIZE + 2 * PAGE, PAGE);
  uint64_t calls = os_fake.calls[OS_FAKE_MAP_AT];
  CHECK_EQ(map_new(100, 100 * WINDOW_SIZE - PAGE), (void *)(w + 6 * WINDOW_SIZE));
  CHECK(map_kind(word(w + 5 * WINDOW_SIZE)) == TENANT_FOREIGN);
  CHECK_LE(os_fake.calls[OS_FAKE_MAP_AT] - calls, 10u);
}

TEST(map, a_window_is_not_given_up_because_memory_is_short_when_it_is_looked_at, "W1") {
  char *w = map_new(1, PAGE);
  os_fake_take(w + WINDOW_SIZE, PAGE);
  os_fake_fail(1u << OS_FAKE_MAP_AT, 2, false); /* the first look for what lies there */
  map_new(3, 3 * WINDOW_SIZE);
  CHECK_EQ(os_fake.fail_at, (uint64_t)0);
  for (size_t i = 1; i < 10; i++)
    CHECK(i == 1 || map_kind(word(w + i * WINDOW_SIZE)) != TENANT_FOREIGN);
}

TEST(map, the_lowest_windows_that_are_free_are_taken, "W2") {
  char *w[6];
  for (int i = 0; i < 6; i++) w[i] = map_new(1, PAGE);
  for (int i = 5; i > 0; i -= 2) {
    os_unmap(w[i], PAGE);
    map_free(w[i], 1);
    CHECK(map_is_valid_here());
  }
  CHECK_EQ(map_new(2, PAGE), (void *)w[5]);
  CHECK_EQ(map_new(1, PAGE), (void *)w[1]);
  CHECK_EQ(map_new(1, PAGE), (void *)w[3]);
}

TEST(map, the_space_in_use_does_not_drift, "W2") {
  enum { LIVE = 10, MOST = 8 };
  static struct {
    char *at;
    size_t count;
  } live[LIVE];
  char *base = map_new(1, PAGE), *end = base;
  uint64_t state = 1;
  for (int i = 0; i < 20000; i++) {
    size_t k = core_next(&state) % LIVE;
    if (live[k].at != NULL) {
      os_unmap(live[k].at, PAGE);
      map_free(live[k].at, live[k].count);
    }
    live[k].count = 1 + core_next(&state) % MOST;
    CHECK((live[k].at = map_new(live[k].count, PAGE)) != NULL);
    end = (char *)max_size((uintptr_t)end, (uintptr_t)live[k].at + live[k].count * WINDOW_SIZE);
  }
  CHECK_LE((size_t)(end - base), 2 * LIVE * MOST * WINDOW_SIZE);
}

TEST(map, every_window_of_a_space_is_found_and_tried_again_when_nothing_else_is_left, "W1") {
  enum { TAKEN = 100 };
  char *w = map_new(1, PAGE);
  for (size_t i = 1; i <= TAKEN; i++) os_fake_take(w + i * WINDOW_SIZE, PAGE);
  for (size_t i = TAKEN + 1; i < os_fake.windows; i++) CHECK(map_new(1, MiB(700)) != NULL);
  CHECK_NULL(map_new(1, PAGE));
  os_unmap(w + 50 * WINDOW_SIZE, PAGE); /* the other one's mapping goes */
  CHECK_EQ(map_new(1, PAGE), (void *)(w + 50 * WINDOW_SIZE));
  CHECK(map_is_valid_here());
}

TEST(map, a_small_space_is_used_to_its_end, "W1") {
  os_fake.windows = 7;
  for (size_t i = 0; i < 7; i++) CHECK(map_new(1, MiB(600)) != NULL);
  CHECK_NULL(map_new(1, PAGE));
}

TEST(map, windows_behind_ones_own_are_claimed_if_they_are_free, "W1") {
  char *w = map_new(1, PAGE), *wall;
  CHECK(map_claim_behind(w, 1, 0) && map_claim_behind(w, 1, 2));
  CHECK(map_kind(word(w + 2 * WINDOW_SIZE)) == TENANT_CLAIMED);
  CHECK_EQ(wall = map_new(1, PAGE), w + 3 * WINDOW_SIZE);
  map_free(w + WINDOW_SIZE, 2);
  CHECK(!map_claim_behind(w, 1, 3));
  CHECK(map_kind(word(w + WINDOW_SIZE)) == TENANT_NONE);
  CHECK(!map_claim_behind(wall, 1, WINDOW_COUNT));
}

static void forget(char *window) {
  atomic_ptr_store_relaxed(&window_map[(uintptr_t)window >> WINDOW_SHIFT], NULL);
  map_is_valid();
}

TEST(map, a_free_window_that_no_search_would_find_is_seen, "W2") {
  char *w = map_new(1, PAGE);
  map_set(w, 1, w, TENANT_ARENA);
  map_new(1, PAGE);
  EXPECT_ABORT(forget(w), "invariant W2");
}

TEST(map, a_claim_of_several_windows_that_meets_a_tenant_leaves_none_claimed, "W1") {
  char *w = map_new(1, PAGE), *wall = w + 2 * WINDOW_SIZE;
  map_set(wall, 1, w, TENANT_HUGE);
  char *next = map_new(2, PAGE);
  CHECK_EQ(next, w + 3 * WINDOW_SIZE);
  CHECK(map_kind(word(w + WINDOW_SIZE)) == TENANT_NONE);
  CHECK(map_kind(word(wall)) == TENANT_HUGE);
}

TEST(map, no_memory_leaves_every_window_free_and_later_calls_work, "W1") {
  for (uint64_t k = 1; k <= 20; k++) {
    os_fake_fail(OS_FAKE_MAPPING, 1, true);
    CHECK_NULL(map_new(2, PAGE));
    os_fake_fail(0, 0, false);
    for (size_t i = 0; i < WINDOW_COUNT; i++) CHECK_NULL(atomic_ptr_load_relaxed(&window_map[i]));
  }
  CHECK_EQ(os_fake.mapped, 0u);
  CHECK(map_new(2, PAGE) != NULL);
}

TEST(map, when_the_first_mmap_fails_a_place_near_the_kernels_own_is_found, "") {
  os_fake_fail(1u << OS_FAKE_MAP_AT, 1, false);
  char *w = map_new(1, PAGE);
  CHECK(w != NULL);
  CHECK(os_fake_is_mapped(w, PAGE));
  CHECK(map_kind(word(w)) == TENANT_CLAIMED);
  CHECK_EQ(os_fake.mapped, 65536u); /* the probe is gone */
}

TEST(map, more_windows_than_there_are_addresses_is_no_memory, "") {
  CHECK_NULL(map_new(WINDOW_COUNT, PAGE));
  CHECK_NULL(map_new((size_t)1 << 33, PAGE));
  CHECK_EQ(os_fake.mapped, 0u);
}

TEST(map, when_the_space_is_full_there_is_none_and_a_window_given_back_is_used_again, "W1") {
  char *last = NULL, *some = NULL;
  for (int i = 0; i < 300; i++) {
    char *w = map_new(1, PAGE);
    if (w == NULL) break;
    some = last;
    last = w;
  }
  CHECK(some != NULL);
  CHECK_NULL(map_new(1, PAGE));
  os_unmap(some, PAGE);
  map_free(some, 1);
  CHECK_EQ(map_new(1, PAGE), (void *)some);
}

static atomic64_t made;
static void make_and_free(unsigned number) {
  for (int i = 0; i < 300; i++) {
    size_t count = 1 + (number + (unsigned)i) % 3;
    char *w = map_new(count, PAGE);
    if (w == NULL) continue; /* all windows are taken for a moment */
    map_set(w, count, (void *)((uintptr_t)(number + 1) << 3), TENANT_HUGE);
    for (size_t k = 0; k < count; k++)
      CHECK_EQ((uintptr_t)map_record(word(w + k * WINDOW_SIZE)), (uintptr_t)(number + 1) << 3);
    os_unmap(w, PAGE);
    map_free(w, count);
    atomic64_add_relaxed(&made, 1);
  }
}

TEST(map, threads_never_get_the_same_window, "W1 S-window") {
  core_threads(4, make_and_free);
  CHECK_GT(atomic64_load_relaxed(&made), (uint64_t)100);
  for (size_t i = 0; i < WINDOW_COUNT; i++) CHECK_NULL(atomic_ptr_load_relaxed(&window_map[i]));
  CHECK_EQ(os_fake.mapped, 0u);
}
