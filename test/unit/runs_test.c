/* runs_test.c - tests of stock/runs: runs of pages that a heap keeps */
#include "pages.h"

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
  heap_t *h = may_keep_pages();
  char *p[PAGE_RUNS_KEPT + 1];
  for (unsigned i = 0; i < ARRAY_LENGTH(p); i++) p[i] = of_pages(6);
  char *longest = of_pages(SPAN_MOST), *wall = of_pages(SPAN_MOST);
  for (unsigned i = 0; i < PAGE_RUNS_KEPT; i++) fast_free(p[i]);
  CHECK(h->own->kept_runs == PAGE_RUNS_KEPT && !is_free_page(p[0]));
  fast_free(p[PAGE_RUNS_KEPT]);
  CHECK(h->own->kept_runs == PAGE_RUNS_KEPT && is_free_page(p[0]));
  fast_free(longest);
  CHECK(h->own->kept_pages > 96 - 6 && h->own->kept_pages <= 96 && !is_free_page(longest));
  fast_free(wall);
  CHECK(h->own->kept_pages > 96 - SPAN_MOST && h->own->kept_pages <= 96);
  check_nothing_lost();
}

TEST(runs, a_thread_keeps_no_more_pages_than_option_magazine_allows, "R3") {
  core_option(OPTION_magazine, KiB(64));
  heap_t *h = may_keep_pages();
  char *p = of_pages(12), *q = of_pages(5), *longer = of_pages(17), *wall = of_pages(5);
  fast_free(p), fast_free(q);
  CHECK_EQ(h->own->kept_pages, 5u);
  fast_free(longer);
  CHECK(h->keeps_pages == 0 && is_free_page(longer));
  fast_free(wall);
  check_nothing_lost();
}

TEST(runs, a_thread_earns_the_pages_that_it_keeps_and_they_count_like_its_slices, "") {
  heap_t *h = my_heap();
  fast_free(of_pages(5));
  CHECK(!h->keeps_pages);
  h = may_keep_pages();
  CHECK_EQ(magazine_pages_most(h), 96u);
  void *slices[3];
  for (int i = 0; i < 3; i++) slices[i] = in_slices(SLICE_SIZE);
  for (int i = 0; i < 3; i++) fast_free(slices[i]);
  CHECK_EQ(magazine_pages_most(h), 48u);
  check_nothing_lost();
}

TEST(runs, all_threads_together_keep_so_much_and_each_a_slice_s_worth, "") {
  heap_t *h = may_keep_pages();
  pretend_users(256);
  CHECK_EQ(magazine_pages_most(h), 32u);
  pretend_users(1000);
  CHECK_EQ(magazine_pages_most(h), 16u);
}

TEST(runs, one_that_is_no_claimed_run_is_seen, "R3") {
  heap_t *h = may_keep_pages();
  char *p = of_pages(6), *q = of_pages(5);
  fast_free(p);
  EXPECT_ABORT((h->own->page_runs[0] = (uintptr_t)q | 6, runs_are_valid(h)), "invariant R3");
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
