/* runs_test.c - tests of stock/runs: runs of pages that a heap keeps */
#include "pages.h"

#include "../../src/arena/added.h"
#include "../../src/stock/paged.h"

CORE_SMALL_PAGES

TEST(runs, a_run_that_was_freed_is_handed_out_again_and_its_span_is_not_asked, "R3") {
  heap_t *h = may_keep_pages();
  char *p = of_pages(9), *wall = of_pages(5);
  uint64_t before = free_pages(p);
  for (int i = 0; i < 5; i++) {
    memset(p, 7, (size_t)9 * PAGE);
    fast_free(p);
    CHECK_EQ(free_pages(p), before);
    CHECK(runs_are_valid(h));
    CHECK_EQ(of_pages(9), (void *)p);
    CHECK(!large_is_clean(p));
  }
  fast_free(p), fast_free(wall);
  check_nothing_lost();
}

TEST(runs, so_many_are_kept_and_so_many_pages_and_all_go_on_request, "R3") {
  core_option(OPTION_magazine, KiB(192));
  heap_t *h = may_keep_pages_later();
  char *p[PAGE_RUNS_KEPT + 1];
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) p[i] = of_pages(6);
  char *longest = of_pages(SPAN_MOST), *wall = of_pages(SPAN_MOST);
  h->own->more_pages = PAGE_RUNS_KEPT * SPAN_MOST;
  for (unsigned i = 0; i < PAGE_RUNS_KEPT; i++) fast_free(p[i]);
  CHECK(h->own->kept_runs == ALL_RUNS && !is_free_page(p[0]));
  fast_free(p[PAGE_RUNS_KEPT]);
  CHECK_EQ(bits_count(h->own->kept_runs), PAGE_RUNS_KEPT * 3u / 4 + 1); /* several made room */
  CHECK(is_free_page(p[0]));
  fast_free(longest);
  CHECK(h->own->kept_pages > 192 * 3 / 4 && h->own->kept_pages <= 192 && !is_free_page(longest));
  fast_free(wall);
  CHECK(h->own->kept_pages > 192 * 3 / 4 - SPAN_MOST && h->own->kept_pages <= 192);
  check_nothing_lost();
}

/* Frees blocks of five pages and allocates them again; `pages` of their spans change with so many
 * swaps as there are runs in a row. */
enum { BURST = 200 };
static uint64_t burst(char **p) {
  uint64_t spans_changed = 0;
  for (int i = 0; i < BURST; i++) fast_free(p[i]);
  for (int i = 0; i < BURST; i++) {
    uint16_t kept = my_heap()->own->kept_pages;
    p[i] = of_pages(5);
    memset(p[i], i, (size_t)5 * PAGE);
    spans_changed += my_heap()->own->kept_pages >= kept;
  }
  return spans_changed;
}
TEST(runs, where_bursts_come_and_go_a_claim_takes_what_the_next_blocks_need, "R3 R4") {
  static char *p[BURST];
  heap_t *h = may_keep_pages_later();
  for (int i = 0; i < BURST; i++) p[i] = of_pages(5);
  CHECK_EQ(h->own->kept_pages, 0u); /* what only grows claims nothing ahead */
  burst(p);
  CHECK_LE(burst(p), (uint64_t)BURST / 5);
  for (int i = 0; i < BURST; i++) CHECK_BYTES(p[i], i, (size_t)5 * PAGE);
  CHECK(runs_are_valid(h));
  for (int i = 0; i < BURST; i++) fast_free(p[i]);
  check_nothing_lost();
}

TEST(runs, at_the_limit_nothing_is_claimed_ahead, "") {
  static char *p[BURST];
  heap_t *h = may_keep_pages_later();
  for (int i = 0; i < BURST; i++) p[i] = of_pages(5);
  burst(p);
  for (int i = 0; i < BURST; i++) fast_free(p[i]);
  while (h->keeps_pages) of_pages(5);
  core_option(OPTION_memory_limit, (long)committed() * SLICE_SIZE);
  CHECK_GE(h->own->more_pages, 10u);
  for (int i = 0; i < SPAN_PAGES / 5; i++) {
    of_pages(5);
    CHECK(!h->keeps_pages);
  }
}

TEST(runs, a_thread_keeps_no_more_pages_than_option_magazine_allows, "R3") {
  core_option(OPTION_magazine, KiB(64));
  heap_t *h = may_keep_pages();
  char *p = of_pages(32), *q = of_pages(30), *r = of_pages(17), *last = of_pages(5);
  char *wall = of_pages(5);
  fast_free(p), fast_free(q);
  CHECK_EQ(h->own->kept_pages, 62u);
  fast_free(r);
  CHECK_EQ(h->own->kept_pages, 47u);
  core_option(OPTION_magazine, 0);
  for (int i = 0; i < TICK_MOST; i++) fast_free(of_pages(5));
  fast_free(last);
  CHECK(h->keeps_pages == 0 && is_free_page(last));
  fast_free(wall);
  check_nothing_lost();
}

TEST(runs, a_thread_earns_the_pages_that_it_keeps_and_they_count_like_its_slices, "") {
  heap_t *h = my_heap();
  fast_free(of_pages(5));
  CHECK(!h->keeps_pages);
  h = may_keep_pages();
  CHECK_EQ(magazine_pages_most(h), 384u);
  void *slices[3];
  for (int i = 0; i < 3; i++) slices[i] = in_slices(SLICE_SIZE);
  for (int i = 0; i < 3; i++) fast_free(slices[i]);
  CHECK_EQ(magazine_pages_most(h), 336u);
  check_nothing_lost();
}

TEST(runs, more_than_its_due_a_thread_keeps_only_if_it_gave_back_what_it_needs_again, "") {
  enum { RUNS = 16 };
  char *p[RUNS], *wall = of_pages(5);
  heap_t *h = may_keep_pages();
  h->own->more_pages = 0;
  for (int round = 0; round < 4; round++) {
    for (unsigned i = 0; i < RUNS; i++) p[i] = of_pages(16);
    for (unsigned i = 0; i < RUNS; i++) fast_free(p[i]);
    if (round == 0) CHECK_EQ(h->own->kept_pages, 96u);
  }
  CHECK_GT(h->own->kept_pages, 2u * 96);
  fast_free(wall);
  check_nothing_lost();
}

TEST(runs, a_thread_that_frees_much_more_than_it_needs_gives_up_other_things_too, "") {
  enum { RUNS = 256 };
  static char *p[RUNS];
  heap_t *h = may_keep_pages();
  for (int i = 0; i < RUNS; i++) p[i] = of_pages(16);
  void *small = fast_malloc(2000);
  fast_free(small);
  unsigned c = class_of(2000);
  CHECK(h->bin[c] != 0 || h->aside->returned[c] != 0);
  for (int i = 0; i < RUNS; i++) fast_free(p[i]);
  CHECK(h->bin[c] == 0 && h->aside->returned[c] == 0);
  CHECK_EQ(h->own->more_pages, 0u);
  check_nothing_lost();
}

TEST(runs, what_it_gives_up_so_it_gives_up_more_seldom_if_it_needs_the_runs_again, "") {
  enum { RUNS = 100, CYCLES = 20 };
  static char *p[RUNS];
  heap_t *h = may_keep_pages();
  void *small = fast_malloc(2000);
  unsigned c = class_of(2000), given_up = 0;
  for (int cycle = 0; cycle < CYCLES; cycle++) {
    for (int i = 0; i < RUNS; i++) p[i] = of_pages(16);
    fast_free(small);
    small = fast_malloc(2000); /* its bin is there again */
    for (int i = 0; i < RUNS; i++) fast_free(p[i]);
    given_up += h->bin[c] == 0 && h->aside->returned[c] == 0 && heap_fresh(h, c).count == 0;
  }
  CHECK(given_up > 0 && given_up < 5);
  fast_free(small);
  check_nothing_lost();
}

static void keep_and_leave(void *unused_context) {
  (void)unused_context;
  heap_t *h = may_keep_pages();
  fast_free(of_pages(5));
  heap_do_due(h);
  CHECK_GT((unsigned)h->own->pages_most, 0u);
}

TEST(runs, what_a_thread_may_keep_its_heap_s_next_thread_has_to_earn, "") {
  in_thread(keep_and_leave, NULL, true);
  heap_collect(true);
  heap_t *h = my_heap();
  CHECK_EQ((unsigned)(h->own->pages_most | h->own->more_pages | h->own->missed_pages), 0u);
  fast_free(of_pages(5));
  CHECK(!h->keeps_pages);
}

TEST(runs, one_that_is_longer_than_all_that_may_be_kept_takes_no_other_s_place, "") {
  heap_t *h = may_keep_pages_later();
  char *p = of_pages(10), *longer = of_pages(32), *wall = of_pages(5);
  core_option(OPTION_magazine, KiB(64));
  heap_do_due(h);
  fast_free(p), fast_free(longer);
  CHECK_EQ(h->own->kept_pages, 10u);
  fast_free(wall);
  check_nothing_lost();
}

TEST(runs, all_threads_together_keep_so_much_and_each_a_slice_s_worth, "") {
  heap_t *h = may_keep_pages();
  pretend_users(256);
  CHECK_EQ(magazine_pages_most(h), 32u);
  pretend_users(1000);
  CHECK_EQ(magazine_pages_most(h), 16u);
}

TEST(runs, of_those_that_are_hardly_longer_the_shortest_will_do, "R4") {
  heap_t *h = may_keep_pages_later();
  char *longest = of_pages(31), *longer = of_pages(30), *short_one = of_pages(7);
  char *wall = of_pages(5);
  h->own->more_pages = PAGE_RUNS_KEPT * SPAN_MOST;
  fast_free(longest), fast_free(longer), fast_free(short_one);
  char *p = of_pages(27), *q = of_pages(28), *r = of_pages(6);
  CHECK_EQ(p, longer);
  CHECK_EQ(heap_usable_size(p, "t"), (size_t)30 * PAGE);
  heap_check_size(p, (size_t)27 * PAGE - 7, 1, "t");
  EXPECT_ABORT(heap_check_size(p, (size_t)26 * PAGE, 1, "t"), "wrong size");
  CHECK_EQ(q, longest);
  CHECK_NE(r, short_one);
  CHECK_EQ(h->own->kept_pages, 7u);
  fast_free(p), fast_free(q), fast_free(r), fast_free(wall);
  check_nothing_lost();
}

TEST(runs, one_that_is_no_claimed_run_is_seen, "R3") {
  heap_t *h = may_keep_pages();
  char *p = of_pages(6), *q = of_pages(5);
  fast_free(p);
  EXPECT_ABORT((h->own->page_runs[0] = (uintptr_t)q | 6, runs_are_valid(h)), "invariant R3");
}

TEST(runs, one_whose_length_would_not_be_looked_for_is_seen, "R4") {
  heap_t *h = may_keep_pages();
  fast_free(of_pages(6));
  EXPECT_ABORT((h->own->kept_lengths = 0, runs_are_valid(h)), "invariant R4");
}

TEST(runs, many_threads_keep_none, "") {
  my_heap();
  core_option(OPTION_caching_threads, 1);
  pretend_users(2);
  char *p = of_pages(6), *wall = of_pages(5);
  uint64_t before = bits_count(free_pages(wall));
  fast_free(p);
  CHECK_EQ(bits_count(free_pages(wall)), before + 6);
}

static void allocate_and_free(void *block) {
  may_keep_pages();
  *(char **)block = of_pages(5);
  fast_free(of_pages(8));
}

TEST(runs, what_a_thread_keeps_goes_back_when_it_ends_and_others_free_its_blocks, "") {
  char *p;
  in_thread(allocate_and_free, &p, true);
  CHECK_EQ(bits_count(free_pages(p)), 64u - 5);
  fast_free(p);
  check_nothing_lost();
}

/* Of all spans: how many are free, and of these in memory. */
static uint64_t all_free(void) {
  heap_t *h = heap_enter();
  runs_settle(h);
  heap_exit(h);
  return atomic64_load_relaxed(&arena_counts.free_pages);
}
static uint64_t free_in_memory(void) {
  return all_free() - atomic64_load_relaxed(&arena_counts.absent_pages);
}

TEST(runs, free_pages_are_counted_whoever_frees_them_and_when_a_block_changes_its_size, "") {
  char *p = of_pages(10), *q = of_pages(20), *wall = of_pages(6);
  CHECK_EQ(all_free(), 64u - 36);
  fast_free(q);
  keep_nothing();
  CHECK_EQ(all_free(), 64u - 16);
  CHECK_EQ(any_realloc(p, (size_t)12 * PAGE, "realloc"), (void *)p);
  CHECK_EQ(all_free(), 64u - 18);
  CHECK_EQ(any_realloc(p, (size_t)5 * PAGE, "realloc"), (void *)p);
  CHECK_EQ(all_free(), 64u - 11);
  paged_free(NULL, wall, "free");
  CHECK_EQ(all_free(), 64u - 5);
  fast_free(p);
  check_nothing_lost();
  CHECK_EQ(all_free(), (uint64_t)0);
}

/* Blocks of `pages` that were written. Free pages may have a mebibyte. */
static void write_blocks(char **p, unsigned n, unsigned pages) {
  core_option(OPTION_magazine, 0);
  for (unsigned i = 0; i < n; i++) memset(p[i] = of_pages(pages), 7, (size_t)pages * PAGE);
  core_option(OPTION_purge_budget, MiB(1));
}

TEST(runs, free_pages_beyond_the_budget_go_back_to_the_system_when_one_is_freed, "") {
  char *p[64];
  write_blocks(p, ARRAY_LENGTH(p), 16);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++)
    if (i % 4 != 0) fast_free(p[i]);
  /* what the budget and a 64th of 16 spans are, and what two looks apart may add */
  CHECK_LE(free_in_memory(), 256u + 16 + 16 * 16);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i += 4) CHECK_BYTES(p[i], 7, (size_t)16 * PAGE);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i += 4) fast_free(p[i]);
  check_nothing_lost();
}

TEST(runs, what_blocks_leave_that_get_shorter_goes_back_beyond_the_budget_too, "") {
  char *p[64];
  write_blocks(p, ARRAY_LENGTH(p), 32);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++)
    CHECK_EQ(any_realloc(p[i], (size_t)5 * PAGE, "realloc"), (void *)p[i]);
  CHECK_LE(free_in_memory(), 256u + 32 + 27);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) CHECK_BYTES(p[i], 7, (size_t)5 * PAGE);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) fast_free(p[i]);
  check_nothing_lost();
}

TEST(runs, where_pages_that_went_back_are_needed_again_more_may_be_free, "") {
  core_option(OPTION_magazine, 0);
  core_option(OPTION_purge_budget, 0);
  static char *p[2000];
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) p[i] = of_pages(32);
  uint64_t before = patience_free_pages();
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i += 2) fast_free(p[i]);
  CHECK_EQ(free_in_memory(), 0u);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i += 2) p[i] = of_pages(32);
  CHECK_GT(patience_free_pages(), before);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) fast_free(p[i]);
  check_nothing_lost();
}

TEST(runs, without_a_budget_they_go_at_once_and_never_if_memory_is_to_stay, "") {
  core_option(OPTION_magazine, 0);
  core_option(OPTION_purge_budget, 0);
  for (int never = 0; never < 2; never++) {
    char *p = of_pages(10), *wall = of_pages(5), *q = of_pages(6);
    memset(p, 7, (size_t)10 * PAGE), memset(wall, 7, (size_t)5 * PAGE), memset(q, 7, PAGE);
    if (never) core_option(OPTION_purge_delay_ms, -1);
    fast_free(q), fast_free(p);
    CHECK_EQ(free_in_memory(), never ? 16u : 0u);
    CHECK_BYTES(wall, 7, (size_t)5 * PAGE);
    core_option(OPTION_purge_delay_ms, 50);
    fast_free(wall);
    check_nothing_lost();
  }
}

/* One block of ten pages in each of so many spans, and beside it one that stays. */
static void one_in_each(char **p, unsigned n) {
  core_option(OPTION_magazine, 0);
  core_option(OPTION_purge_budget, 0);
  for (unsigned i = 0; i < n; i++) {
    memset(p[i] = of_pages(10), 7, (size_t)10 * PAGE);
    (void)of_pages(SPAN_MOST);
    (void)of_pages(SPAN_PAGES - 10 - SPAN_MOST);
  }
}

TEST(runs, what_the_system_keeps_it_is_not_asked_for_with_each_free, "") {
  char *p[8];
  one_in_each(p, ARRAY_LENGTH(p));
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  uint64_t before = os_fake.calls[OS_FAKE_DISCARD];
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) fast_free(p[i]);
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], before + 4);
  CHECK_EQ(free_in_memory(), 80u);
}

TEST(runs, what_the_system_keeps_of_one_span_it_is_not_asked_for_endlessly, "") {
  core_option(OPTION_magazine, 0);
  core_option(OPTION_purge_budget, 0);
  memset(of_pages(SPAN_MOST), 7, PAGE);
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  uint64_t before = os_fake.calls[OS_FAKE_DISCARD];
  for (unsigned i = 0; i < 40; i++) {
    char *p = of_pages(10);
    memset(p, 7, (size_t)10 * PAGE);
    fast_free(p);
  }
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], before + 13);
}

/* The heap looks how many pages are free. */
static void free_and_look(void *p) {
  my_heap()->own->looks_left = 0;
  fast_free(p);
}

TEST(runs, a_free_that_asks_for_nothing_ends_no_row_of_refusals, "") {
  char *p[8], *few[8];
  os_fake.discards_many = false;
  core_option(OPTION_magazine, 0);
  core_option(OPTION_purge_budget, 8 * PAGE);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) {
    memset(few[i] = of_pages(5), 7, (size_t)5 * PAGE);
    memset(p[i] = of_pages(10), 7, (size_t)10 * PAGE);
    (void)of_pages(SPAN_MOST);
    (void)of_pages(SPAN_PAGES - 15 - SPAN_MOST);
  }
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  uint64_t before = os_fake.calls[OS_FAKE_DISCARD];
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) {
    free_and_look(few[i]); /* fewer than are worth a call */
    free_and_look(p[i]);
  }
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], before + 4);
}

TEST(runs, what_the_system_keeps_counts_for_no_budget, "") {
  char *p[40];
  one_in_each(p, ARRAY_LENGTH(p));
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  for (unsigned i = 0; i < 20; i++) free_and_look(p[i]);
  CHECK_EQ(free_in_memory(), 200u);
  os_fake_fail(0, 0, false);
  core_option(OPTION_purge_budget, 335 * PAGE); /* and a 64th: passed with the 30 that it kept */
  os_fake.now_ms += 5000;                       /* it would be asked again */
  uint64_t before = os_fake.calls[OS_FAKE_DISCARD];
  for (unsigned i = 20; i < ARRAY_LENGTH(p); i++) free_and_look(p[i]);
  CHECK_EQ(free_in_memory(), 400u);
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], before);
}

TEST(runs, free_pages_of_pinned_spans_are_no_burden_and_nobody_is_asked_for_them, "A3") {
  core_option(OPTION_magazine, 0);
  core_option(OPTION_purge_budget, 0);
  char *at = (char *)os_space_start() + os_fake.windows / 4 * WINDOW_SIZE + MiB(100);
  os_fake_take(at, MiB(8));
  added_put(at, MiB(8), true, true);
  char *p = fast_malloc(40000), *wall = fast_malloc(20000);
  CHECK(arena_is_pinned(p) && span_around(p) != NULL);
  for (int i = 0; i < 3; i++) {
    uint64_t before = os_fake.calls[OS_FAKE_DISCARD];
    memset(p, 7, 40000);
    fast_free(p);
    heap_collect(true);
    CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], before);
    CHECK_EQ(atomic64_load_relaxed(&arena_counts.absent_pages), SPAN_PAGES - 5u);
    CHECK_EQ(p, fast_malloc(40000));
    CHECK(!large_is_clean(p));
  }
  fast_free(p), fast_free(wall);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.absent_pages), 0u);
}

TEST(runs, what_the_system_keeps_of_one_span_keeps_no_other_s_pages, "") {
  char *p[8];
  one_in_each(p, ARRAY_LENGTH(p));
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, false);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) fast_free(p[i]);
  CHECK_EQ(free_in_memory(), 10u);
}

TEST(runs, the_more_threads_there_are_the_fewer_pages_each_counts_alone, "") {
  (void)of_pages(5);
  uint64_t before = all_free();
  (void)of_pages(10);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.free_pages), before);
  pretend_users(128);
  (void)of_pages(5);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.free_pages), before - 15);
  pretend_users(10000);
  (void)of_pages(5);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.free_pages), before - 20);
}

TEST(runs, at_the_limit_small_blocks_have_the_memory_that_free_pages_had, "") {
  static char *p[64];
  core_option(OPTION_memory_limit, (int64_t)MiB(4) + MiB(1));
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) memset(p[i] = of_pages(16), 7, (size_t)16 * PAGE);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++)
    if (i % 4 != 0) fast_free(p[i]);
  size_t small = 0;
  while (fast_malloc(1000) != NULL) small++;
  CHECK_GE(small * 1000, MiB(3));
}

TEST(runs, without_a_slice_for_a_slab_small_blocks_have_free_pages_instead, "") {
  static char *p[200];
  size_t n = 0, small = 0;
  fast_free(fast_malloc(100));
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  while (n < ARRAY_LENGTH(p) && (p[n] = of_pages(20)) != NULL) n++;
  while (fast_malloc(1000) != NULL) continue;
  for (size_t i = 0; i < n; i += 2) fast_free(p[i]);
  void *last = NULL;
  for (void *q; (q = fast_malloc(1000)) != NULL; last = q) small++;
  CHECK_GE(small, n / 2);
  CHECK(is_paged(last) && heap_usable_size(last, "t") >= 1000);
  fast_free(last);
  CHECK_EQ(heap_malloc_own(1000), NULL); /* what is freehold's own counts as a slab's block */
  CHECK_NE(last = fast_malloc(1000), NULL);
  heap_check_class(last, 1000, 1, "t");
  CHECK_EQ(atomic32_load_relaxed(&heap_longer), 1u);
  fast_free(last);
}

/* What counts for the hard limit. */
static uint64_t in_use(void) {
  return atomic64_load_relaxed(&arena_counts.committed) * SLICE_SIZE -
         atomic64_load_relaxed(&arena_counts.absent_pages) * PAGE;
}

TEST(runs, at_the_limit_pages_that_went_back_are_no_way_around_it, "") {
  core_option(OPTION_magazine, 0);
  core_option(OPTION_purge_budget, 0);
  char *p = of_pages(30), *wall = of_pages(5);
  memset(p, 7, (size_t)30 * PAGE), memset(wall, 7, (size_t)5 * PAGE);
  fast_free(p);
  core_option(OPTION_memory_limit, (int64_t)in_use() + 10 * PAGE);
  CHECK_EQ(of_pages(12), NULL);
  CHECK_NE(p = of_pages(10), NULL);
  CHECK_EQ(of_pages(5), NULL);
  core_option(OPTION_memory_limit, 0);
  fast_free(p), fast_free(wall);
  check_nothing_lost();
}

TEST(runs, when_a_span_ends_whose_pages_are_in_no_memory_nothing_more_is_in_use, "") {
  may_keep_pages();
  pretend_users(1000);
  of_pages(32), of_pages(32); /* of slices that were in use before */
  char *p = of_pages(30);
  CHECK_GE(atomic64_load_relaxed(&arena_counts.absent_pages), 34u);
  memset(p, 7, (size_t)30 * PAGE);
  uint64_t before = in_use();
  fast_free(p);
  CHECK_LE(in_use(), before);
}

TEST(runs, at_the_limit_a_block_grows_into_free_pages_that_are_in_memory, "") {
  core_option(OPTION_magazine, 0);
  char *p = of_pages(5), *behind = of_pages(20), *wall = of_pages(5);
  memset(p, 7, (size_t)5 * PAGE), memset(behind, 7, (size_t)20 * PAGE), memset(wall, 7, PAGE);
  fast_free(behind);
  uint64_t before = in_use();
  core_option(OPTION_memory_limit, (int64_t)before);
  CHECK_EQ(any_realloc(p, (size_t)25 * PAGE, "realloc"), (void *)p);
  CHECK_EQ(in_use(), before);
  CHECK_BYTES(behind, 7, (size_t)20 * PAGE); /* they did not go back first */
  core_option(OPTION_memory_limit, 0);
  fast_free(p), fast_free(wall);
  check_nothing_lost();
}

TEST(runs, at_the_limit_no_block_grows_into_pages_that_went_back, "") {
  core_option(OPTION_magazine, 0);
  core_option(OPTION_purge_budget, 0);
  char *p = of_pages(5), *behind = of_pages(20), *wall = of_pages(5);
  memset(p, 7, (size_t)5 * PAGE), memset(behind, 7, (size_t)20 * PAGE), memset(wall, 7, PAGE);
  fast_free(behind);
  core_option(OPTION_memory_limit, (int64_t)in_use() + 3 * PAGE);
  CHECK(!paged_resize(p, heap_usable_size(p, "t"), (size_t)10 * PAGE));
  CHECK(paged_resize(p, heap_usable_size(p, "t"), (size_t)8 * PAGE));
  CHECK(paged_resize(p, heap_usable_size(p, "t"), (size_t)5 * PAGE));
  core_option(OPTION_memory_limit, 0);
  fast_free(p), fast_free(wall);
  check_nothing_lost();
}

TEST(runs, at_the_limit_free_pages_make_room_for_blocks_of_any_size, "") {
  static char *p[64];
  core_option(OPTION_memory_limit, (int64_t)MiB(4) + MiB(1));
  for (size_t size = MiB(1); size <= MiB(2); size *= 2) {
    for (unsigned i = 0; i < ARRAY_LENGTH(p); i++)
      memset(p[i] = of_pages(16), 7, (size_t)16 * PAGE);
    for (unsigned i = 0; i < ARRAY_LENGTH(p); i++)
      if (i % 4 != 0) fast_free(p[i]);
    void *large = fast_malloc(size), *other = fast_malloc(size / 2);
    CHECK(large != NULL && other != NULL);
    fast_free(large), fast_free(other);
    for (unsigned i = 0; i < ARRAY_LENGTH(p); i += 4) fast_free(p[i]);
  }
  check_nothing_lost();
}

/* 4 MiB of blocks of 16 pages, three quarters of which are free again. */
static void free_most(char *p[64]) {
  for (unsigned i = 0; i < 64; i++) memset(p[i] = of_pages(16), 7, (size_t)16 * PAGE);
  for (unsigned i = 0; i < 64; i++)
    if (i % 4 != 0) fast_free(p[i]);
}

TEST(runs, at_the_limit_what_was_freed_after_a_refusal_is_there_at_once, "") {
  static char *p[600];
  unsigned n = 0;
  pretend_users(2); /* so much may be free that is not counted */
  core_option(OPTION_memory_limit, (int64_t)MiB(8)), core_option(OPTION_purge_delay_ms, -1);
  while (n < ARRAY_LENGTH(p) && (p[n] = of_pages(5)) != NULL) memset(p[n++], 7, (size_t)5 * PAGE);
  CHECK(n > 300 && fast_malloc(MiB(1)) == NULL); /* a walk in vain; the clock stands still */
  for (unsigned i = 0; i < n; i++)
    if (i % 8 != 0) fast_free(p[i]);
  size_t small = 0;
  while (fast_malloc(1000) != NULL) small++;
  CHECK_GE(small * 1000, MiB(5));
  for (unsigned i = 0; i < n; i += 8) CHECK_BYTES(p[i], 7, (size_t)5 * PAGE);
}

TEST(runs, at_the_limit_no_more_pages_go_than_are_needed_and_the_next_search_goes_on_there, "") {
  static char *p[600];
  core_option(OPTION_magazine, 0);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) memset(p[i] = of_pages(20), 7, (size_t)20 * PAGE);
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++)
    if (i % 3 != 0) fast_free(p[i]);
  uint64_t free = free_in_memory();
  uint64_t absent = atomic64_load_relaxed(&arena_counts.absent_pages) * PAGE;
  core_option(OPTION_memory_limit, (int64_t)((committed() << SLICE_SHIFT) - absent));
  CHECK(in_slices(KiB(200)) != NULL);
  uint64_t left = free_in_memory();
  CHECK(left < free && left > free / 2);
  CHECK(in_slices(KiB(200)) != NULL);
  CHECK_LE(free_in_memory(), left);
}

TEST(runs, at_the_limit_a_request_that_cannot_be_met_costs_others_nothing, "") {
  static char *p[64];
  core_option(OPTION_memory_limit, (int64_t)MiB(5));
  free_most(p);
  uint64_t before = atomic64_load_relaxed(&arena_counts.absent_pages);
  CHECK_EQ(fast_malloc(PTRDIFF_MAX), NULL);
  CHECK_EQ(fast_malloc(MiB(64)), NULL);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.absent_pages), before);
  CHECK(runs_give_room(KiB(64)) && !runs_give_room(MiB(64)));
}

TEST(runs, what_is_free_makes_room_also_where_the_limit_was_lowered_below_what_is_in_use, "") {
  static char *p[64];
  free_most(p);
  core_option(OPTION_memory_limit, (int64_t)(in_use() - MiB(2)));
  CHECK(fast_malloc(1000) != NULL);
}

TEST(runs, at_the_limit_a_block_grows_where_there_is_no_room_for_a_copy, "") {
  static char *p[64];
  char *block = fast_malloc(MiB(6)), *other = fast_malloc(MiB(2));
  memset(block, 7, MiB(6)), memset(other, 7, MiB(2));
  free_most(p);
  core_option(OPTION_memory_limit,
              (int64_t)(in_use() + atomic64_load_relaxed(&arena_counts.huge_bytes)));
  block = any_realloc(block, MiB(8), "realloc");
  CHECK(block != NULL);
  CHECK_BYTES(block, 7, MiB(6));
}
