/* span_purge_test.c - tests of slab/span_purge: free pages of spans go back to the system */
#include "pages.h"

#include <setjmp.h>

#include "../../src/slab/sparse.h"

CORE_SMALL_PAGES

static uint64_t idle_pages(void) { return atomic64_load_relaxed(&arena_counts.absent_pages); }
TEST(span_purge, free_pages_of_a_span_at_rest_go_back_and_so_do_all_on_request, "R1") {
  char *p = of_pages(30), *wall = of_pages(5);
  memset(p, 7, (size_t)30 * PAGE), memset(wall, 7, (size_t)5 * PAGE);
  arena_t *a = arena_of(p);
  size_t group = arena_slice(p) / 64;
  fast_free(p);
  keep_nothing();
  CHECK_EQ(span_purge(a, group, false), 1u);
  CHECK_EQ(os_resident(p, SPAN_SIZE), (size_t)35 * PAGE); /* a look */
  uint64_t idle = idle_pages();
  CHECK_GT(span_purge(a, group, false), 1u);
  CHECK_EQ(os_resident(p, SPAN_SIZE), (size_t)5 * PAGE);
  CHECK_EQ(idle_pages(), idle + 30);
  uint64_t before = os_fake.calls[OS_FAKE_DISCARD];
  span_purge(a, group, true);
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], before); /* nothing lies there any more */
  CHECK_EQ(of_pages(30), (void *)p);
  CHECK(large_is_clean(p) && idle_pages() == idle);
  memset(p, 7, (size_t)30 * PAGE);
  fast_free(p);
  heap_collect(true);
  CHECK_EQ(os_resident(p, SPAN_SIZE), (size_t)5 * PAGE);
  CHECK_BYTES(wall, 7, (size_t)5 * PAGE);
  fast_free(wall);
  check_nothing_lost();
}

TEST(span_purge, pages_too_few_for_a_run_go_back_on_request_too, "") {
  char *p[64 / 8];
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) memset(p[i] = of_pages(8), 7, (size_t)8 * PAGE);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++)
    CHECK_EQ(any_realloc(p[i], (size_t)5 * PAGE, "realloc"), (void *)p[i]);
  CHECK_EQ(os_resident(p[0], SPAN_SIZE), SPAN_SIZE);
  heap_collect(true);
  CHECK_EQ(os_resident(p[0], SPAN_SIZE), (size_t)5 * 8 * PAGE);
}

TEST(span_purge, what_the_system_keeps_it_is_asked_for_again_once_a_page_changes_hands, "R1") {
  char *p = of_pages(30), *wall = of_pages(5);
  arena_t *a = arena_of(p);
  size_t group = arena_slice(p) / 64;
  fast_free(p);
  keep_nothing();
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  for (int i = 0; i < 9; i++) span_purge(a, group, false);
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], 1u);
  void *other = of_pages(5);
  for (int i = 0; i < 9; i++) span_purge(a, group, false);
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], 2u);
  os_fake_fail(0, 0, false);
  fast_free(other), fast_free(wall);
  check_nothing_lost();
}

TEST(span_purge, pages_at_rest_that_are_just_those_that_were_taken_before_go_back_too, "R1") {
  char *p[2] = {of_pages(32), of_pages(32)};
  size_t group = arena_slice(p[0]) / 64;
  CHECK(span_around(p[0]) == span_around(p[1]));
  for (unsigned i = 0; i < 2; i++) {
    memset(p[0], 7, (size_t)32 * PAGE), memset(p[1], 7, (size_t)32 * PAGE);
    fast_free(p[i]);
    keep_nothing();
    for (int look = 0; look < 2; look++) span_purge(arena_of(p[i]), group, false);
    CHECK_EQ(os_resident(p[i], (size_t)32 * PAGE), 0u);
    CHECK_EQ(of_pages(32), (void *)p[i]);
  }
  fast_free(p[0]), fast_free(p[1]);
  check_nothing_lost();
}

static void *locked;
static unsigned refusals;
static void refuse_locked(os_fake_call_t call, void *at, size_t size) {
  (void)size;
  if (call != OS_FAKE_DISCARD || at != locked) return;
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, false);
  refusals++;
}

TEST(span_purge, what_it_kept_is_asked_for_again_if_the_same_pages_are_free_after_others_were,
     "R1") {
  char *p = of_pages(30), *wall = of_pages(5);
  arena_t *a = arena_of(p);
  size_t group = arena_slice(p) / 64;
  memset(p, 7, (size_t)30 * PAGE);
  fast_free(p);
  keep_nothing();
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  for (int i = 0; i < 9; i++) span_purge(a, group, false);
  os_fake_fail(0, 0, false);
  CHECK_EQ(os_resident(p, (size_t)30 * PAGE), (size_t)30 * PAGE);
  CHECK_EQ(of_pages(30), (void *)p);
  span_purge(a, group, false);
  fast_free(p);
  keep_nothing();
  for (int i = 0; i < 3; i++) span_purge(a, group, false);
  CHECK_EQ(os_resident(p, (size_t)30 * PAGE), 0u);
  fast_free(wall);
  check_nothing_lost();
}

TEST(span_purge, one_of_more_runs_than_one_call_takes_it_is_not_asked_for_again, "R1") {
  enum { RUNS = 8 };
  char *p[RUNS];
  for (unsigned i = 0; i < RUNS; i++) memset(p[i] = of_pages(8), 7, (size_t)8 * PAGE);
  CHECK(span_around(p[0]) == span_around(p[RUNS - 1]));
  for (unsigned i = 0; i < RUNS; i++)
    CHECK_EQ(any_realloc(p[i], (size_t)5 * PAGE, "realloc"), (void *)p[i]);
  locked = p[1] + (size_t)5 * PAGE;
  os_fake.before = refuse_locked;
  unsigned looks = 0;
  for (; refusals == 0; looks++) span_purge(arena_of(p[0]), arena_slice(p[0]) / 64, false);
  CHECK_EQ(looks, 2u);
  unsigned before = refusals;
  for (; looks < 9; looks++) span_purge(arena_of(p[0]), arena_slice(p[0]) / 64, false);
  CHECK_EQ(refusals, before);
  os_fake.before = NULL;
  for (unsigned i = 0; i < RUNS; i++) fast_free(p[i]);
  check_nothing_lost();
}

/* In each of two spans ten pages that are free and in memory, and a block behind them. */
static void free_in_two(char **p, char **walls) {
  for (unsigned i = 0; i < 2; i++) {
    memset(p[i] = of_pages(10), 7, (size_t)10 * PAGE);
    walls[2 * i] = of_pages(32), walls[2 * i + 1] = of_pages(22);
  }
  for (unsigned i = 0; i < 2; i++) fast_free(p[i]);
  keep_nothing();
}
static void free_walls(char **walls) {
  for (unsigned i = 0; i < 4; i++) fast_free(walls[i]);
  check_nothing_lost();
}

TEST(span_purge, a_neighbour_s_pages_go_with_the_same_call_if_the_system_takes_many, "R1 R2") {
  char *p[2], *walls[4];
  for (int is_many = 0; is_many < 2; is_many++) {
    os_fake.discards_many = is_many;
    free_in_two(p, walls);
    CHECK(span_around(p[0]) != span_around(p[1]));
    CHECK(span_purge_near(span_around(p[0]), 11) == SPAN_NOT_ASKED);
    CHECK_EQ(os_resident(p[0], (size_t)10 * PAGE), (size_t)10 * PAGE);
    CHECK(span_purge_near(span_around(p[0]), 10) == SPAN_GIVEN);
    CHECK_EQ(os_resident(p[0], (size_t)10 * PAGE), 0u);
    CHECK_EQ(os_resident(p[1], (size_t)10 * PAGE), is_many ? 0u : (size_t)10 * PAGE);
    CHECK(free_pages(p[0]) == bits_run(0, 10) && free_pages(p[1]) == bits_run(0, 10));
    CHECK(span_is_valid(span_around(p[0])) && span_is_valid(span_around(p[1])));
    free_walls(walls);
  }
}

TEST(span_purge, where_all_must_go_at_once_a_neighbour_keeps_its_pages, "") {
  char *p[2], *walls[4];
  free_in_two(p, walls);
  CHECK(span_purge_near(span_around(p[0]), 1) == SPAN_GIVEN);
  CHECK_EQ(os_resident(p[0], (size_t)10 * PAGE), 0u);
  CHECK_EQ(os_resident(p[1], (size_t)10 * PAGE), (size_t)10 * PAGE);
  free_walls(walls);
}

TEST(span_purge, a_neighbour_s_pages_that_the_system_keeps_are_left_alone, "R1") {
  char *p[2], *walls[4];
  free_in_two(p, walls);
  os_fake_fail(1u << OS_FAKE_DISCARD, 2, true);
  CHECK(span_purge_near(span_around(p[0]), 8) == SPAN_GIVEN); /* its own */
  os_fake_fail(0, 0, false);
  uint64_t before = os_fake.calls[OS_FAKE_DISCARD];
  memset(p[0] = of_pages(10), 7, (size_t)10 * PAGE);
  fast_free(p[0]);
  keep_nothing();
  CHECK(span_purge_near(span_around(p[0]), 8) == SPAN_GIVEN);
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], before + 1);
  CHECK_EQ(os_resident(p[1], (size_t)10 * PAGE), (size_t)10 * PAGE);
  CHECK(span_purge_near(span_around(p[1]), 8) == SPAN_GIVEN); /* but who asks gets it tried */
  CHECK_EQ(os_resident(p[1], (size_t)10 * PAGE), 0u);
  free_walls(walls);
}

TEST(span_purge, a_run_that_the_system_keeps_beside_one_that_goes_it_is_asked_for_once, "R1") {
  char *p = of_pages(10), *wall = of_pages(5), *q = of_pages(10), *rest = of_pages(32);
  CHECK(span_around(p) == span_around(rest));
  memset(p, 7, (size_t)10 * PAGE), memset(q, 7, (size_t)10 * PAGE);
  fast_free(p), fast_free(q);
  keep_nothing();
  locked = p;
  os_fake.before = refuse_locked;
  for (int i = 0; i < 9; i++) span_purge(arena_of(p), arena_slice(p) / 64, false);
  CHECK_EQ(refusals, 1u);
  CHECK_EQ(os_resident(q, (size_t)10 * PAGE), 0u);
  os_fake.before = NULL;
  fast_free(wall), fast_free(rest);
  check_nothing_lost();
}

TEST(span_purge, neighbours_pages_go_along_only_until_there_are_as_many_ranges_as_one_call_takes,
     "") {
  enum { SPANS = 4, RUNS = 5 };
  char *p[SPANS * RUNS], *walls[SPANS * RUNS];
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) {
    memset(p[i] = of_pages(7), 7, (size_t)7 * PAGE);
    walls[i] = of_pages(i % RUNS == RUNS - 1 ? 9 : 5);
  }
  CHECK(span_around(p[0]) == span_around(walls[RUNS - 1]));
  os_fake.discards_many = true;
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) fast_free(p[i]);
  keep_nothing();
  CHECK(span_purge_near(span_around(p[0]), 8) == SPAN_GIVEN);
  unsigned gone = 0;
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) gone += os_resident(p[i], (size_t)7 * PAGE) == 0;
  CHECK_EQ(gone, 2u * RUNS); /* its own and one neighbour's */
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) fast_free(walls[i]);
  check_nothing_lost();
}

static sigjmp_buf before_purge;
static void jump_away(os_fake_call_t call, void *at, size_t size) {
  (void)at, (void)size;
  if (call == OS_FAKE_DISCARD) siglongjmp(before_purge, 1);
}

TEST(span_purge, pages_that_a_handler_jumped_away_with_count_no_longer_as_free, "R1") {
  char *p = of_pages(30), *wall = of_pages(5);
  memset(p, 7, (size_t)30 * PAGE);
  fast_free(p);
  keep_nothing();
  uint64_t before = atomic64_load_relaxed(&arena_counts.free_pages);
  os_fake.before = jump_away;
  if (sigsetjmp(before_purge, 0) == 0) span_purge(arena_of(p), arena_slice(p) / 64, true);
  os_fake.before = NULL;
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.free_pages), before - 30);
  CHECK_EQ(free_pages(p), bits_run(35, 29));
  fast_free(wall);
}
