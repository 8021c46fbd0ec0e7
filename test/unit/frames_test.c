/* frames_test.c - tests of arena/frames */
#include "core.h"

#include "../../src/arena/frames.h"
#include "../../src/arena/patience.h"
#include "../../src/arena/purge.h"
#include "../../src/arena/slices.h"

enum { SLICES = FRAME_SLICES * 64 }; /* 128 MiB */

CORE_SMALL_PAGES

static uint64_t collapses(void) { return os_fake.calls[OS_FAKE_COLLAPSE]; }
static uint64_t collapsed(void) { return atomic64_load_relaxed(&arena_counts.collapsed); }

/* So many slices in use, as one block. */
static char *claim(size_t n) {
  bool clean;
  char *p = arena_claim(n, 1, &clean);
  CHECK(p != NULL);
  return p;
}
static void write_all(char *p, size_t n) { memset(p, 1, n * SLICE_SIZE); }

static void tick(uint32_t ms) {
  os_fake.now_ms += ms;
  purge_tick();
  frames_tick();
}
static void tick_often(int times) {
  while (times-- > 0) tick(2000);
}
/* The first slice of a fresh frame, all claimed, in a heap that is large enough. */
static char *claim_fresh_frame(void) {
  bool clean;
  claim(SLICES);
  char *p = arena_claim(FRAME_SLICES, FRAME_SLICES, &clean);
  CHECK(p != NULL && clean);
  return p;
}
/* The first slice of a frame of which nothing lies outside `p`. */
static size_t whole_frame(const char *p) {
  return align_up(arena_slice(p), FRAME_SLICES) + FRAME_SLICES;
}

TEST(frames, what_is_dense_and_in_memory_becomes_huge_one_frame_at_a_time, "") {
  write_all(claim(SLICES), SLICES);
  tick(100);
  CHECK_LE(collapses(), 1u);
  tick_often(200);
  CHECK_GE(collapsed(), 62u);
  CHECK_LE(collapsed(), 64u);
  uint64_t before = collapses();
  tick_often(50);
  CHECK_EQ(collapses(), before); /* none twice */
}

/* Its maker was stopped before anybody could know of it. */
TEST(frames, behind_an_arena_that_is_never_finished_frames_become_huge_too, "") {
  bool clean;
  CHECK(arena_claim(1, 1, &clean) != NULL);
  static arena_t unfinished;
  CHECK(slices_reserve_number(&unfinished));
  claim(WINDOW_SLICES / 2 - 1); /* of the first window; it has no room for as many again */
  char *p = claim(WINDOW_SLICES / 2 - 1);
  CHECK_GT(arena_of(p)->number, unfinished.number);
  write_all(p, SLICES);
  tick_often(200);
  CHECK_GT(collapsed(), 0u);
}

TEST(frames, a_fresh_frame_that_is_about_to_be_filled_becomes_huge_at_once, "A4") {
  char *p = claim_fresh_frame();
  CHECK(!frames_begins(p + SLICE_SIZE));
  CHECK(frames_begins(p));
  CHECK(frames_fill(p));
  CHECK_EQ(collapsed(), 1u);
  CHECK_EQ(*arena_touched_last(p, FRAME_SLICES), (uint8_t)TOUCHED_ALL);
  write_all(p, FRAME_SLICES);
  uint64_t before = collapses();
  tick_often(200);
  CHECK_EQ(collapses(), before); /* it is huge already */
}

TEST(frames, fresh_frames_are_left_alone_in_small_heaps_near_limits_and_where_it_is_forbidden, "") {
  bool clean;
  char *p = arena_claim(FRAME_SLICES, FRAME_SLICES, &clean);
  CHECK(!frames_begins(p));
  p = claim_fresh_frame();
  core_option(OPTION_thp, THP_NEVER);
  CHECK(!frames_begins(p));
  core_option(OPTION_thp, THP_AUTO);
  os_fake.no_huge_pages = true;
  CHECK(!frames_begins(p));
  os_fake.no_huge_pages = false;
  CHECK(frames_begins(p));
}

TEST(frames, after_one_that_was_refused_or_slow_fresh_frames_are_left_alone_for_longer_and_longer,
     "") {
  char *p = claim_fresh_frame();
  os_fake_fail(1u << OS_FAKE_COLLAPSE, 1, true);
  CHECK(!frames_fill(p));
  CHECK(!frames_begins(p));
  os_fake.now_ms += 40;
  CHECK(frames_begins(p));
  os_fake_fail(0, 0, false);
  os_fake.collapse_ms = 5;
  CHECK(frames_fill(p));
  os_fake.now_ms += 40;
  CHECK(!frames_begins(p));
  os_fake.now_ms += 40;
  CHECK(frames_begins(p));
}

TEST(frames, time_that_the_thread_waits_for_others_is_not_slow, "") {
  char *p = claim_fresh_frame();
  os_fake.collapse_waits_ms = 50;
  CHECK(frames_fill(p));
  os_fake.now_ms += 1;
  CHECK(frames_begins(p));
}

TEST(frames, a_heap_of_less_than_64_MiB_is_left_alone, "") {
  write_all(claim(SLICES / 4), SLICES / 4);
  tick_often(50);
  CHECK_EQ(collapses(), 0u);
}

TEST(frames, a_frame_that_is_not_all_in_memory_is_left_alone_so_none_takes_more, "") {
  char *p = claim(SLICES);
  for (size_t i = 0; i < SLICES * 16; i++)
    if (i % 512 != 77) p[i * 4096] = 1;
  tick_often(200);
  CHECK_EQ(collapses(), 0u);
}

TEST(frames, what_a_fork_shares_is_left_alone_until_it_is_not_shared_any_more, "") {
  write_all(claim(SLICES), SLICES);
  os_fake.is_shared = true;
  tick_often(200);
  CHECK_EQ(collapses(), 0u);
  os_fake.is_shared = false;
  tick_often(200);
  CHECK_GT(collapses(), 0u);
}

TEST(frames, options_and_whoever_runs_the_system_can_forbid_it, "") {
  write_all(claim(SLICES), SLICES);
  core_option(OPTION_thp, THP_NEVER);
  tick_often(20);
  core_option(OPTION_thp, THP_ALWAYS);
  tick_often(20);
  core_option(OPTION_thp, THP_AUTO);
  os_fake.no_huge_pages = true;
  tick_often(20);
  CHECK_EQ(collapses(), 0u);
  os_fake.no_huge_pages = false;
  tick_often(20);
  CHECK_GT(collapses(), 0u);
}

TEST(frames, a_hundredth_of_the_time_may_go_into_it, "") {
  write_all(claim(SLICES), SLICES);
  os_fake.collapse_ms = 5;
  uint32_t began = os_fake.now_ms;
  while (os_fake.now_ms - began < 10000) tick(1);
  CHECK_GE(collapses(), 15u);
  CHECK_LE(collapses(), 21u);
}

TEST(frames, a_system_that_refuses_or_is_slow_is_asked_less_and_less, "") {
  write_all(claim(SLICES), SLICES);
  os_fake_fail(1u << OS_FAKE_COLLAPSE, 1, true);
  uint32_t began = os_fake.now_ms;
  while (os_fake.now_ms - began < 30000) tick(1);
  CHECK_LE(collapses(), 12u);
  CHECK_EQ(collapsed(), 0u);
  os_fake_fail(0, 0, false);
  os_fake.collapse_ms = 50;
  while (os_fake.now_ms - began < 300000) tick(10);
  CHECK_LE(collapses(), 30u);
  CHECK_GT(collapsed(), 0u);
}

TEST(frames, idle_slices_of_a_huge_frame_stay_until_half_of_it_is_idle, "A1 A3") {
  char *p = claim(SLICES);
  write_all(p, SLICES);
  tick_often(200);
  size_t first = whole_frame(p);
  char *frame = arena_address(arena_of(p), first);
  arena_release_dirty(frame, 8);
  tick_often(10);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)8);
  arena_release_dirty(frame + 8 * SLICE_SIZE, 8);
  tick_often(10);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  uint64_t slices = bits_run(first % 64, FRAME_SLICES);
  CHECK_EQ(frames_spared(arena_of(p), first / 64) & slices, (uint64_t)0); /* huge no more */
}

TEST(frames, one_of_which_a_page_went_or_was_moved_away_is_huge_no_more, "A4") {
  char *p = claim(SLICES);
  write_all(p, SLICES);
  tick_often(200);
  arena_t *a = arena_of(p);
  size_t first = whole_frame(p), second = first + 2 * FRAME_SLICES;
  CHECK(frames_spared(a, first / 64) != 0 && frames_spared(a, second / 64) != 0);
  CHECK(arena_discard((char *)arena_address(a, first + 8) - 4096, 4096));
  CHECK_EQ(frames_spared(a, first / 64) & bits_run(first % 64, FRAME_SLICES), (uint64_t)0);
  CHECK(os_unmap(arena_address(a, second + 8), 2 * SLICE_SIZE));
  atomic64_add_relaxed(&arena_counts.committed, (uint64_t)-2);
  arena_release_moved(arena_address(a, second + 8), 2);
  CHECK_EQ(frames_spared(a, second / 64) & bits_run(second % 64, FRAME_SLICES), (uint64_t)0);
}

TEST(frames, the_budget_and_a_request_take_what_a_delay_would_spare, "") {
  char *p = claim(SLICES);
  write_all(p, SLICES);
  tick_often(200);
  char *frame = arena_address(arena_of(p), whole_frame(p));
  arena_release_dirty(frame, 8);
  purge_all();
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  arena_release_dirty(frame + 2 * FRAME_SLICES * SLICE_SIZE, 8);
  core_option(OPTION_purge_budget, 0);
  core_option(OPTION_purge_delay_ms, 0);
  purge_over_budget(8);
  CHECK_LE(atomic64_load_relaxed(&arena_counts.dirty), patience_budget());
}

static void discard_a_page(void *at) {
  os_fake.collapsed = NULL;
  CHECK(arena_discard((char *)at + 4096, 4096));
}

TEST(frames, of_a_frame_whose_page_goes_at_that_moment_nobody_says_that_it_is_huge, "") {
  char *p = claim_fresh_frame();
  size_t frame = arena_slice(p) / FRAME_SLICES;
  os_fake.collapsed = discard_a_page;
  CHECK(frames_fill(p));
  CHECK_EQ(atomic64_load_relaxed(&arena_maps(arena_of(p))->huge[frame / 64]) >> frame % 64 & 1, 0u);
}

TEST(frames, nor_of_one_that_the_system_refused, "") {
  char *p = claim_fresh_frame();
  size_t frame = arena_slice(p) / FRAME_SLICES;
  os_fake_fail(1u << OS_FAKE_COLLAPSE, 1, true);
  CHECK(!frames_fill(p));
  CHECK_EQ(atomic64_load_relaxed(&arena_maps(arena_of(p))->huge[frame / 64]) >> frame % 64 & 1, 0u);
}
