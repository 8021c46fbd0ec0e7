/* span_test.c - tests of slab/span and stock/paged: blocks of a few pages */
#include "heaps.h"

#include "../../src/slab/sparse.h"
#include "../../src/stock/paged.h"

enum { PAGE = SPAN_PAGE };

CORE_SMALL_PAGES

static void *of_pages(unsigned n) { return fast_malloc((size_t)n * PAGE - 7); }
static bool is_paged(const void *p) { return map_find(p) != 0 && span_around(p) != NULL; }
static uint64_t free_pages(const void *p) {
  arena_t *a = arena_of(p);
  return atomic64_load_relaxed(&arena_maps(a)->spans[arena_slice(p) / SPAN_SLICES].free);
}
/* What the heap keeps goes back, but no slices do to the system. */
static void keep_nothing(void) {
  heap_t *h = heap_enter();
  paged_empty(h);
  heap_exit(h);
}

TEST(span, sizes_and_alignments_that_are_a_few_pages_are_runs_and_others_are_not, "") {
  void *least = fast_malloc(SMALL_MOST + 1), *most = fast_malloc(SPAN_MOST * PAGE);
  CHECK(is_paged(least) && is_paged(most));
  CHECK_EQ(heap_usable_size(least, "t"), (size_t)SPAN_LEAST * PAGE);
  CHECK_EQ(heap_usable_size(most, "t"), (size_t)SPAN_MOST * PAGE);
  CHECK(is_paged(fast_aligned(PAGE, 20000)));
  CHECK(!is_paged(fast_malloc(SMALL_MOST)));
  CHECK(!is_paged(fast_malloc(SPAN_MOST * PAGE + 1)));
  CHECK(!is_paged(fast_aligned(2 * PAGE, 20000)));
}

TEST(span, a_run_is_split_where_least_is_left_over_and_joined_with_what_lies_beside_it, "P1 P2") {
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

TEST(span, the_span_whose_longest_run_is_least_is_taken, "P2") {
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

TEST(span, what_is_no_live_block_is_refused, "P1") {
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

TEST(span, a_cleared_block_is_written_only_if_its_pages_may_be_in_memory, "") {
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

TEST(span, a_block_grows_and_shrinks_where_it_is_while_the_pages_behind_are_free, "P1") {
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

TEST(span, free_pages_of_a_span_at_rest_go_back_and_so_do_all_on_request, "P1") {
  char *p = of_pages(30), *wall = of_pages(5);
  memset(p, 7, (size_t)30 * PAGE), memset(wall, 7, (size_t)5 * PAGE);
  arena_t *a = arena_of(p);
  size_t group = arena_slice(p) / 64;
  fast_free(p);
  keep_nothing();
  CHECK_EQ(span_rest(a, group, false), 1u);
  CHECK_EQ(os_resident(p, SPAN_SIZE), (size_t)35 * PAGE); /* a look */
  CHECK_EQ(span_rest(a, group, false), 1u);
  CHECK_EQ(os_resident(p, SPAN_SIZE), (size_t)5 * PAGE);
  uint64_t before = os_fake.calls[OS_FAKE_DISCARD];
  span_rest(a, group, true);
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], before); /* nothing lies there any more */
  CHECK_EQ(of_pages(30), (void *)p);
  CHECK(large_is_clean(p));
  memset(p, 7, (size_t)30 * PAGE);
  fast_free(p);
  heap_collect(true);
  CHECK_EQ(os_resident(p, SPAN_SIZE), (size_t)5 * PAGE);
  CHECK_BYTES(wall, 7, (size_t)5 * PAGE);
  fast_free(wall);
  check_nothing_lost();
}

static void allocate_and_free(void *block) {
  *(char **)block = of_pages(5);
  fast_free(of_pages(8));
}

TEST(span, what_a_thread_keeps_goes_back_when_it_ends_and_others_free_its_blocks, "") {
  char *p;
  in_thread(allocate_and_free, &p, true);
  CHECK_EQ(bits_count(free_pages(p)), 64u - 5);
  fast_free(p);
  check_nothing_lost();
}

TEST(span, near_the_limit_a_block_has_a_slice_of_its_own, "") {
  core_option(OPTION_memory_soft, 1);
  void *big = fast_malloc(MiB(1));
  uint64_t before = committed();
  void *p = fast_malloc(20000);
  CHECK(!is_paged(p));
  CHECK_EQ(committed(), before + 1);
  fast_free(p), fast_free(big);
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

TEST(span, threads_that_split_and_join_at_once_never_share_a_page, "P1 P2 S-run") {
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
