/* map_test.c - tests of arena/map */
#include "core.h"

#include "../../src/arena/map.h"

static uintptr_t word(const void *window) { return map_find(window); }

TEST(map, a_window_is_nobodys_until_it_is_given_and_again_when_it_is_taken_back, "W1") {
  static int record aligned_to(8);
  char *w = map_new(1, 65536);
  CHECK_EQ((uintptr_t)w % WINDOW_SIZE, (uintptr_t)0);
  CHECK(map_kind(word(w)) == TENANT_CLAIMED);
  map_set(w, 1, &record, TENANT_HUGE);
  CHECK(map_kind(word(w + WINDOW_SIZE - 1)) == TENANT_HUGE);
  CHECK_EQ(map_record(word(w)), (void *)&record);
  CHECK(map_kind(word(w - 1)) == TENANT_NONE);
  CHECK(map_kind(word(w + WINDOW_SIZE)) == TENANT_NONE);
  os_unmap(w, 65536);
  map_free(w, 1);
  CHECK(map_kind(word(w)) == TENANT_NONE);
  CHECK_EQ(map_new(1, 65536), (void *)w);
}

static void set_and_look(char *window, void *record, tenant_t kind) {
  map_set(window, 1, record, kind);
  map_is_valid();
}

TEST(map, a_word_that_no_tenant_has_written_is_seen, "W1") {
  char *w = map_new(1, 65536);
  EXPECT_SURVIVAL(set_and_look(w, w, TENANT_ARENA));
  EXPECT_SURVIVAL(set_and_look(w, w, TENANT_HUGE));
  EXPECT_ABORT(set_and_look(w, w + WINDOW_SIZE, TENANT_ARENA), "invariant W1");
  EXPECT_ABORT(set_and_look(w, w, TENANT_CLAIMED), "invariant W1");
  EXPECT_ABORT(set_and_look(w, NULL, TENANT_HUGE), "invariant W1");
  EXPECT_ABORT(set_and_look(w, w, TENANT_MASK), "invariant W1");
}

TEST(map, addresses_beyond_the_map_are_nobodys, "") {
  CHECK(map_kind(map_find((void *)~(uintptr_t)0)) == TENANT_NONE);
  CHECK(map_kind(map_find((void *)((uintptr_t)1 << ADDRESS_BITS))) == TENANT_NONE);
  CHECK(map_kind(map_find(NULL)) == TENANT_NONE);
  CHECK(map_kind(map_find((void *)(((uintptr_t)1 << ADDRESS_BITS) - 1))) == TENANT_NONE);
}

TEST(map, several_windows_lie_side_by_side_and_have_one_tenant, "W1") {
  static int record aligned_to(8);
  char *w = map_new(3, 2 * WINDOW_SIZE + 65536);
  map_set(w, 3, &record, TENANT_HUGE);
  for (size_t i = 0; i < 3; i++) CHECK_EQ(map_record(word(w + i * WINDOW_SIZE)), (void *)&record);
  char *next = map_new(1, 65536);
  CHECK_EQ(next, w + 3 * WINDOW_SIZE);
}

TEST(map, windows_where_something_else_lies_are_passed_over_and_not_kept, "W1") {
  char *w = map_new(1, 65536);
  os_fake_take(w + WINDOW_SIZE, 4096);
  char *next = map_new(1, 65536);
  CHECK_EQ(next, w + 2 * WINDOW_SIZE);
  CHECK(map_kind(word(w + WINDOW_SIZE)) == TENANT_NONE);
}

TEST(map, a_claim_of_several_windows_that_meets_a_tenant_leaves_none_claimed, "W1") {
  char *w = map_new(1, 65536), *wall = w + 2 * WINDOW_SIZE;
  map_set(wall, 1, NULL, TENANT_HUGE);
  char *next = map_new(2, 65536);
  CHECK_EQ(next, w + 3 * WINDOW_SIZE);
  CHECK(map_kind(word(w + WINDOW_SIZE)) == TENANT_NONE);
  CHECK(map_kind(word(wall)) == TENANT_HUGE);
}

TEST(map, no_memory_leaves_every_window_free_and_later_calls_work, "W1") {
  for (uint64_t k = 1; k <= 20; k++) {
    os_fake_fail(OS_FAKE_MAPPING, 1, true);
    CHECK_NULL(map_new(2, 65536));
    os_fake_fail(0, 0, false);
    for (size_t i = 0; i < WINDOW_COUNT; i++) CHECK_NULL(atomic_ptr_load_relaxed(&window_map[i]));
  }
  CHECK_EQ(os_fake.mapped, 0u);
  CHECK(map_new(2, 65536) != NULL);
}

TEST(map, when_the_first_mmap_fails_a_place_near_the_kernels_own_is_found, "") {
  os_fake_fail(1u << OS_FAKE_MAP_AT, 1, false);
  char *w = map_new(1, 65536);
  CHECK(w != NULL);
  CHECK(os_fake_is_mapped(w, 65536));
  CHECK(map_kind(word(w)) == TENANT_CLAIMED);
  CHECK_EQ(os_fake.mapped, 65536u);                    /* the probe is gone */
}

TEST(map, more_windows_than_there_are_addresses_is_no_memory, "") {
  CHECK_NULL(map_new(WINDOW_COUNT, 65536));
  CHECK_NULL(map_new((size_t)1 << 33, 65536));
  CHECK_EQ(os_fake.mapped, 0u);
}

TEST(map, when_the_space_is_full_there_is_none_and_a_window_given_back_is_used_again, "W1") {
  char *last = NULL, *some = NULL;
  for (int i = 0; i < 300; i++) {
    char *w = map_new(1, 4096);
    if (w == NULL) break;
    some = last;
    last = w;
  }
  CHECK(some != NULL);
  CHECK_NULL(map_new(1, 4096));
  os_unmap(some, 4096);
  map_free(some, 1);
  CHECK_EQ(map_new(1, 4096), (void *)some);
}

static atomic64_t made;
static void make_and_free(unsigned number) {
  for (int i = 0; i < 300; i++) {
    size_t count = 1 + (number + (unsigned)i) % 3;
    char *w = map_new(count, 4096);
    if (w == NULL) continue;                           /* all windows are taken for a moment */
    map_set(w, count, (void *)((uintptr_t)(number + 1) << 3), TENANT_HUGE);
    for (size_t k = 0; k < count; k++)
      CHECK_EQ((uintptr_t)map_record(word(w + k * WINDOW_SIZE)), (uintptr_t)(number + 1) << 3);
    os_unmap(w, 4096);
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
