/* added_test.c - tests of arena/added: memory that was there before, and huge pages set aside */
#include "counts.h"

#include "../../src/arena/added.h"
#include "../../src/heap/resize.h"
#include "../../src/heap/slow.h"

enum { HEAD = ARENA_FIRST_SLICE, PAGE = 2 << 20 };

/* So much memory of the program's, at that distance from the beginning of a window. */
static char *bring(size_t from, size_t size) {
  char *at = (char *)os_space_start() + os_fake.windows / 4 * WINDOW_SIZE + from;
  os_fake_take(at, size);
  return at;
}

static uint64_t calls_to_give_back(void) {
  return os_fake.calls[OS_FAKE_DISCARD] + os_fake.calls[OS_FAKE_UNMAP];
}

static uint64_t dirty(void) { return atomic64_load_relaxed(&arena_counts.dirty); }
static uint64_t reserved(void) { return atomic64_load_relaxed(&arena_counts.reserved); }

TEST(added, memory_that_begins_a_window_is_used_before_more_is_mapped, "A2 A3") {
  char *at = bring(0, MiB(64));
  size_t n = MiB(64) / SLICE_SIZE - HEAD;
  CHECK_EQ(added_put(at, MiB(64), true, true), n * SLICE_SIZE);
  CHECK_EQ(free_slices(), n);
  uint64_t maps = os_fake.calls[OS_FAKE_MAP_AT];
  for (size_t i = 0; i < n; i++) {
    bool clean;
    char *p = arena_claim(1, 1, &clean);
    CHECK(clean && p >= at + HEAD * SLICE_SIZE && p < at + MiB(64));
  }
  CHECK_EQ(os_fake.calls[OS_FAKE_MAP_AT], maps);
  CHECK(arena_of(claim(1)) != arena_of(at));
  CHECK_EQ(lost_slices(), 0u);
}

TEST(added, the_head_of_a_window_is_mapped_where_the_memory_does_not_cover_it, "") {
  char *at = bring(MiB(100), MiB(8)), *window = at - MiB(100);
  CHECK_EQ(added_put(at, MiB(8), true, true), MiB(8));
  CHECK(os_fake_is_mapped(window, HEAD * SLICE_SIZE));
  CHECK_EQ(claim(128), at);
  CHECK(heap_owns(at) && heap_owns(at + MiB(8) - 1));
  CHECK(!heap_owns(at - 1) && !heap_owns(at + MiB(8)) && !heap_owns(window));
  CHECK_EQ(lost_slices(), 0u);
}

TEST(added, memory_that_begins_within_a_windows_head_is_a_part_of_it, "A3") {
  char *at = bring(MiB(1), MiB(8)), *window = at - MiB(1);
  memset(at, 7, MiB(8));
  CHECK_EQ(added_put(at, MiB(8), false, true), MiB(9) - HEAD * SLICE_SIZE);
  CHECK(os_fake_is_mapped(window, MiB(1)));
  CHECK_EQ(claim(1), window + HEAD * SLICE_SIZE);
}

TEST(added, a_window_in_whose_head_something_else_lies_is_passed_by_and_stays_free, "W1") {
  char *at = bring(MiB(100), WINDOW_SIZE), *window = at - MiB(100);
  os_fake_take(window + SLICE_SIZE, 4096);
  CHECK_EQ(added_put(at, WINDOW_SIZE, true, true), (size_t)MiB(100) - HEAD * SLICE_SIZE);
  CHECK_EQ(map_find(window), (uintptr_t)TENANT_NONE);
  CHECK(map_kind(map_find(window + WINDOW_SIZE)) == TENANT_ARENA);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(added, memory_in_several_windows_is_an_arena_in_each_and_their_last_slice_is_not_used, "") {
  char *at = bring(WINDOW_SIZE - MiB(10), MiB(10) + 2 * WINDOW_SIZE);
  size_t whole = (ARENA_END - HEAD) * SLICE_SIZE;
  CHECK_EQ(added_put(at, MiB(10) + 2 * WINDOW_SIZE, true, true), MiB(10) - SLICE_SIZE + 2 * whole);
  CHECK_EQ(arena_count(), 3u);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(added, only_whole_slices_are_used_and_too_little_is_nothing, "") {
  char *at = bring(MiB(100), MiB(1));
  CHECK_EQ(added_put(at + 16, 2 * SLICE_SIZE, true, true), (size_t)SLICE_SIZE);
  CHECK_EQ(claim(1), at + SLICE_SIZE);
  char *small = bring(WINDOW_SIZE, MiB(2)); /* all of it would be the head's */
  CHECK_EQ(added_put(small, MiB(2), true, true), 0u);
  CHECK_EQ(added_put(small, SLICE_SIZE - 1, true, true), 0u);
  CHECK_EQ(added_put(at + SLICE_SIZE, SLICE_SIZE, true, true), 0u); /* a second time */
  CHECK_EQ(map_find(small), (uintptr_t)TENANT_NONE);
}

TEST(added, pinned_memory_is_neither_purged_nor_unmapped_nor_dirty, "A3 A4") {
  bool clean;
  char *at = bring(MiB(100), MiB(8));
  added_put(at, MiB(8), true, true);
  CHECK_EQ(claim(128), at);
  memset(at, 7, MiB(8));
  uint64_t before = calls_to_give_back();
  arena_release(at, 128);
  CHECK_EQ(dirty(), 0u);
  purge_all();
  os_fake.now_ms += 100000;
  purge_tick();
  arena_unmap_free();
  CHECK_EQ(calls_to_give_back(), before);
  CHECK(!arena_discard(at, SLICE_SIZE));
  CHECK_EQ(arena_claim(128, 1, &clean), (void *)at);
  CHECK(!clean);
  CHECK_BYTES(at, 7, MiB(8));
  arena_release_clean(at, 128); /* as if it had been cleared */
  CHECK_EQ(dirty(), 0u);
}

TEST(added, what_may_be_purged_is_and_is_never_unmapped, "A1 A3") {
  bool clean;
  char *at = bring(MiB(100), MiB(8));
  memset(at, 7, MiB(8));
  added_put(at, MiB(8), false, false);
  CHECK_EQ(dirty(), 128u);
  CHECK_EQ(arena_claim(1, 1, &clean), (void *)at);
  CHECK(!clean);
  arena_release(at, 1);
  purge_all();
  CHECK_EQ(dirty(), 0u);
  uint64_t unmaps = os_fake.calls[OS_FAKE_UNMAP];
  arena_unmap_free();
  CHECK_EQ(os_fake.calls[OS_FAKE_UNMAP], unmaps);
  CHECK_EQ(arena_claim(128, 1, &clean), (void *)at);
  CHECK(clean);
  CHECK_BYTES(at, 0, MiB(8));
}

TEST(added, memory_that_does_not_read_as_zero_is_not_taken_for_clean, "A3") {
  char *at = bring(0, MiB(8));
  memset(at, 7, MiB(8));
  added_put(at, MiB(8), false, true);
  CHECK_EQ(dirty(), 0u);
  bool clean = true;
  CHECK_EQ(arena_claim(1, 1, &clean), (void *)(at + HEAD * SLICE_SIZE));
  CHECK(!clean);
}

TEST(added, a_block_that_grows_out_of_it_is_copied_and_its_pages_stay, "") {
  char *at = bring(0, WINDOW_SIZE);
  added_put(at, WINDOW_SIZE, true, false);
  char *p = heap_malloc_slow(MiB(40));
  CHECK_EQ((void *)arena_of(p), (void *)at);
  CHECK_EQ((void *)arena_of(heap_malloc_slow(MiB(500))), (void *)at); /* behind it */
  p[MiB(30)] = 5;
  uint64_t moves = os_fake.calls[OS_FAKE_MOVE];
  char *q = heap_realloc(p, MiB(600), "t");
  CHECK(q != NULL && arena_of(q) != arena_of(p) && q[MiB(30)] == 5);
  CHECK_EQ(os_fake.calls[OS_FAKE_MOVE], moves);
  CHECK(os_fake_is_mapped(p, MiB(40)));
}

TEST(added, two_threads_that_bring_memory_of_one_window_do_not_share_it, "W1") {
  char *at = bring(MiB(100), MiB(16));
  CHECK_EQ(added_put(at, MiB(8), true, true), MiB(8));
  CHECK_EQ(added_put(at + MiB(8), MiB(8), true, true), 0u);
  CHECK_EQ(arena_count(), 1u);
}

/* ---- huge pages ---- */

TEST(reserve, as_many_huge_pages_are_taken_as_are_wanted_and_there, "") {
  os_fake.huge_pages[0] = 100;
  CHECK_EQ(added_reserve(32 * (size_t)PAGE, -1), 32 * (size_t)PAGE);
  CHECK_EQ(reserved(), 32 * (size_t)PAGE);
  CHECK_EQ(os_fake.huge_pages[0], 68u);
  CHECK_EQ(free_slices(), 32 * PAGE / SLICE_SIZE);
  CHECK_EQ(lost_slices(), 0u);
  CHECK_EQ(os_fake.mapped, 32 * PAGE + HEAD * SLICE_SIZE);
  char *p = claim(32);
  CHECK_EQ((uintptr_t)p % PAGE, 0u);
  CHECK(arena_is_pinned(p));
}

TEST(reserve, what_is_missing_is_left_out, "") {
  os_fake.huge_pages[0] = 11;
  os_fake.huge_pages[2] = 2;
  CHECK_EQ(added_reserve(64 * (size_t)PAGE, -1), 13 * (size_t)PAGE);
  CHECK_EQ(free_slices(), 13 * PAGE / SLICE_SIZE);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(reserve, where_there_are_none_nothing_is_taken_and_the_heap_works, "") {
  CHECK_EQ(added_reserve(MiB(64), -1), 0u);
  CHECK_EQ(arena_count(), 0u);
  CHECK_EQ(os_fake.mapped, 0u);
  CHECK(claim(1) != NULL);
}

TEST(reserve, for_whole_gigabytes_the_largest_pages_come_first, "") {
  os_fake.huge_pages[0] = 2000;
  os_fake.large_pages = 1;
  size_t all = added_reserve(GiB(2) + MiB(10), -1);
  CHECK_EQ(all, GiB(2) + MiB(10));
  CHECK_EQ(os_fake.large_pages, 0u);
  CHECK_EQ(os_fake.huge_pages[0], 2000 - (GiB(1) + MiB(10)) / PAGE);
  CHECK_EQ(lost_slices(), 0u);
}

TEST(reserve, a_node_that_is_named_gives_them_and_no_other, "") {
  os_fake.huge_pages[0] = 10;
  os_fake.huge_pages[3] = 4;
  CHECK_EQ(added_reserve(8 * (size_t)PAGE, 3), 4 * (size_t)PAGE);
  CHECK_EQ(os_fake.huge_pages[0], 10u);
  CHECK_EQ(added_reserve(8 * (size_t)PAGE, 700), 0u);
}

TEST(reserve, a_system_that_takes_too_long_is_not_asked_for_the_rest, "") {
  os_fake.huge_pages[0] = 1000;
  os_fake.populate_ms = 3000;
  CHECK_EQ(added_reserve(MiB(512), -1),
           (size_t)MiB(64)); /* five seconds, and the step in which they end */
  CHECK_EQ(free_slices(), MiB(64) / SLICE_SIZE);
  CHECK_EQ(os_fake.mapped, MiB(64) + HEAD * SLICE_SIZE);
}

TEST(reserve, whichever_call_fails_nothing_is_lost_and_later_claims_work, "timeout=120") {
  for (uint64_t k = 1;; k++) {
    test_child_t c;
    if (test_fork(&c, 60)) {
      os_fake.huge_pages[0] = 100;
      os_fake.large_pages = 1;
      os_fake_fail(OS_FAKE_ANY & ~(1u << OS_FAKE_UNMAP), k, false);
      size_t got = added_reserve(GiB(1) + MiB(100), -1);
      bool was_reached = os_fake.fail_at == 0;
      os_fake_fail(0, 0, false);
      CHECK_LE(got, GiB(1) + MiB(100));
      CHECK_EQ(got % PAGE, 0u);
      CHECK_EQ(lost_slices(), 0u);
      for (int i = 0; i < 300; i++) *claim(100) = 1;
      CHECK_EQ(lost_slices(), 0u);
      _exit(was_reached ? 0 : 50);
    }
    test_reap(&c);
    if (WIFEXITED(c.status) && WEXITSTATUS(c.status) == 50) {
      CHECK_GE(k, 5u);
      break;
    }
    if (!WIFEXITED(c.status) || WEXITSTATUS(c.status) != 0)
      FAIL("call %d failed: %s", (int)k, c.text);
  }
}
