/* span_test.c - tests of slab/span: runs of pages in four slices */
#include "pages.h"

#include "../../src/slab/sparse.h"

CORE_SMALL_PAGES

TEST(span, a_run_is_split_where_least_is_left_over_and_joined_with_what_lies_beside_it, "R1 R2") {
  char *a = of_pages(20), *b = of_pages(5), *c = of_pages(8), *d = of_pages(5), *e = of_pages(26);
  slab_t *s = span_around(a);
  CHECK(span_around(e) == s && free_pages(a) == 0 && span_is_valid(s));
  fast_free(c), fast_free(a);
  keep_nothing();
  CHECK_EQ(of_pages(7), (void *)c); /* not of the 20 */
  CHECK(span_is_valid(s));
  fast_free(c), fast_free(b);
  keep_nothing();
  CHECK_EQ(of_pages(32), (void *)a); /* 20, 5 and 8 */
  CHECK(span_is_valid(s));
  fast_free(a), fast_free(d), fast_free(e);
  check_nothing_lost();
}

TEST(span, the_span_whose_longest_run_is_least_is_taken, "R2") {
  char *p[12];
  for (int i = 0; i < 12; i++) p[i] = of_pages(16); /* three spans */
  fast_free(p[0]), fast_free(p[1]);
  fast_free(p[5]);
  keep_nothing();
  CHECK_EQ(of_pages(10), (void *)p[5]);
  CHECK_EQ(of_pages(10), (void *)p[0]);
  fast_free(p[5]), fast_free(p[0]);
  for (int i = 2; i < 12; i++)
    if (i != 5) fast_free(p[i]);
  check_nothing_lost();
}

TEST(span, runs_behind_one_are_claimed_as_far_as_the_span_goes, "R1 R2") {
  char *a = of_pages(20), *b = of_pages(6), *c = of_pages(7), *d = of_pages(31);
  size_t run = (size_t)6 * PAGE;
  slab_t *s = span_around(a);
  CHECK(free_pages(a) == 0 && span_claim_behind(b, 6, 9) == 0 && span_claim_behind(d, 31, 1) == 0);
  fast_free(c);
  keep_nothing();
  CHECK_EQ(span_claim_behind(b, 6, 9), 1u); /* one page is left over */
  CHECK(span_was_freed(b + run) && span_is_valid(s));
  CHECK_NULL(span_free(span_part(b + run, 6)));
  fast_free(d);
  keep_nothing();
  CHECK_EQ(span_claim_behind(b, 6, 2), 2u);
  CHECK(span_was_freed(b + 2 * run) && !span_was_freed(b + 3 * run) && span_is_valid(s));
  CHECK_NULL(span_free(span_part(b + run, 12)));
  CHECK_EQ(span_claim_behind(b, 6, 9), 6u); /* to the last page but two */
  CHECK(span_is_valid(s));
  EXPECT_ABORT(fast_free(b + run), "double free");
  CHECK_NULL(span_free(span_part(b + run, 36)));
  fast_free(a), fast_free(b);
  check_nothing_lost();
}

TEST(span, what_is_no_live_block_is_refused, "R1") {
  char *p = of_pages(9), *wall = of_pages(5);
  EXPECT_ABORT(fast_free(p + 1), "invalid pointer");
  EXPECT_ABORT(fast_free(p + PAGE), "invalid pointer");
  EXPECT_ABORT(heap_usable_size(p + 2 * PAGE, "t"), "invalid pointer");
  fast_free(p);
  EXPECT_ABORT(fast_free(p), "double free");
  EXPECT_ABORT(any_realloc(p, 50000, "realloc"), "double free");
  keep_nothing();
  EXPECT_ABORT(fast_free(p), "double free");
  fast_free(wall);
  keep_nothing();
  EXPECT_ABORT(fast_free(p), "double free"); /* the span is gone */
  check_nothing_lost();
}

TEST(span, a_pointer_into_a_block_is_no_double_free_though_a_run_once_began_there, "") {
  char *p = of_pages(5), *q = of_pages(5), *wall = of_pages(54);
  fast_free(p), fast_free(q);
  keep_nothing();
  CHECK_EQ(of_pages(10), (void *)p);
  EXPECT_ABORT(fast_free(q), "invalid pointer");
  fast_free(p), fast_free(wall);
  check_nothing_lost();
}

/* ---- many threads ---- */

enum { THREADS = 6, SHARED = 64, ROUNDS = 20000 };
static atomic_ptr_t shared[SHARED];

static void fill_ends(char *p, size_t size) {
  *(size_t *)p = size;
  for (size_t at = PAGE; at + sizeof size <= size; at += PAGE) *(size_t *)(p + at) = (uintptr_t)p;
}
static void check_ends(const char *p) {
  size_t size = *(const size_t *)p;
  CHECK_GT(size, (size_t)SMALL_MOST);
  for (size_t at = PAGE; at + sizeof size <= size; at += PAGE)
    CHECK_EQ(*(const size_t *)(p + at), (uintptr_t)p);
}

static void *exchange(void *seed) {
  uint64_t random = (uintptr_t)seed;
  for (int i = 0; i < ROUNDS; i++) {
    random = bits_mix(random + bits_golden);
    size_t size = SMALL_MOST + 1 + random % (SPAN_MOST * PAGE - SMALL_MOST);
    char *p = fast_malloc(size);
    fill_ends(p, size);
    p = atomic_ptr_exchange_acq_rel(&shared[random >> 32 & (SHARED - 1)], p);
    if (p == NULL) continue;
    check_ends(p);
    fast_free(p);
    if (i % 512 == 0) sparse_collect();
  }
  os_fake_end_thread();
  return NULL;
}

TEST(span, threads_that_split_and_join_at_once_never_share_a_page, "R1 R2 S-run") {
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, exchange, (void *)(i + 1)), 0);
  for (size_t i = 0; i < THREADS; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
  for (size_t i = 0; i < SHARED; i++) {
    char *p = atomic_ptr_load_relaxed(&shared[i]);
    if (p == NULL) continue;
    if (span_around(p) != NULL) CHECK(span_is_valid(span_around(p)));
    check_ends(p);
    fast_free(p);
  }
  check_nothing_lost();
}
