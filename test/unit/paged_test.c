/* paged_test.c - tests of stock/paged: blocks of a few pages */
#include "pages.h"

CORE_SMALL_PAGES

TEST(paged, sizes_and_alignments_that_are_a_few_pages_are_runs_and_others_are_not, "") {
  void *least = fast_malloc(SMALL_MOST + 1), *most = fast_malloc(SPAN_MOST * PAGE);
  CHECK(is_paged(least) && is_paged(most));
  CHECK_EQ(heap_usable_size(least, "t"), (size_t)SPAN_LEAST * PAGE);
  CHECK_EQ(heap_usable_size(most, "t"), (size_t)SPAN_MOST * PAGE);
  CHECK(is_paged(fast_aligned(PAGE, 20000)));
  CHECK(!is_paged(fast_malloc(SMALL_MOST)));
  CHECK(!is_paged(fast_malloc(SPAN_MOST * PAGE + 1)));
  CHECK(!is_paged(fast_aligned(2 * PAGE, 20000)));
}

TEST(paged, a_cleared_block_is_written_only_if_its_pages_may_be_in_memory, "") {
  char *p = of_pages(10);
  CHECK(large_is_clean(p));
  memset(p, 7, (size_t)10 * PAGE);
  char *wall = of_pages(5);
  fast_free(p);
  keep_nothing();
  char *q = heap_calloc(9, PAGE);
  CHECK_EQ(q, p);
  CHECK_BYTES(q, 0, (size_t)9 * PAGE);
  fast_free(q), fast_free(wall);
  check_nothing_lost();
}

TEST(paged, a_block_grows_and_shrinks_where_it_is_while_the_pages_behind_are_free, "R1") {
  char *p = of_pages(6), *wall = of_pages(5);
  memset(p, 7, (size_t)6 * PAGE);
  CHECK_NE(any_realloc(of_pages(6), (size_t)9 * PAGE, "realloc"), NULL);
  fast_free(wall);
  keep_nothing();
  CHECK_EQ(any_realloc(p, (size_t)11 * PAGE, "realloc"), (void *)p);
  CHECK_EQ(heap_usable_size(p, "t"), (size_t)11 * PAGE);
  CHECK(!large_is_clean(p));
  CHECK_EQ(any_realloc(p, (size_t)5 * PAGE, "realloc"), (void *)p);
  CHECK_EQ(heap_usable_size(p, "t"), (size_t)5 * PAGE);
  CHECK_BYTES(p, 7, (size_t)5 * PAGE);
  CHECK(span_is_valid(span_around(p)));
  CHECK(heap_expand(p, (size_t)6 * PAGE, "t"));
  CHECK(!heap_expand(p, (size_t)60 * PAGE, "t"));
}

TEST(paged, without_memory_for_a_span_a_block_has_a_slice_and_the_next_ones_do_not_ask, "") {
  static void *slices[WINDOW_SLICES];
  size_t n = 0;
  fast_free(fast_malloc(100));
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  while ((slices[n] = in_slices(30000)) != NULL) n++;
  for (size_t i = 0; i < n; i += 2) fast_free(slices[i]);
  void *p = fast_malloc(20000), *q;
  CHECK_NE(p, NULL);
  CHECK(!is_paged(p));
  uint64_t before = count_calls(OS_FAKE_MAPPING);
  CHECK((q = fast_malloc(20000)) != NULL && !is_paged(q));
  CHECK_EQ(count_calls(OS_FAKE_MAPPING), before);
  for (size_t i = 1; i < n; i += 2) fast_free(slices[i]);
  fast_free(p), fast_free(q);
  check_nothing_lost();
}

TEST(paged, beyond_a_soft_limit_blocks_share_spans_as_ever, "") {
  core_option(OPTION_memory_soft, 1);
  void *big = fast_malloc(MiB(1)), *p = fast_malloc(20000), *q = fast_malloc(20000);
  CHECK(is_paged(p) && span_around(p) == span_around(q));
  fast_free(p), fast_free(q), fast_free(big);
}

TEST(paged, near_the_limit_a_block_has_a_slice_of_its_own, "") {
  core_option(OPTION_memory_limit, (int64_t)MiB(1) + 3 * SLICE_SIZE);
  void *big = fast_malloc(MiB(1));
  uint64_t before = committed();
  void *p = fast_malloc(20000);
  CHECK(!is_paged(p));
  CHECK_EQ(committed(), before + 1);
  fast_free(p), fast_free(big);
}
