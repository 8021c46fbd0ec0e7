/* magazine_test.c - tests of stock/magazine */
enum { MANY = 4000 };
#include "kept.h"

static size_t shares_most(void) {
  return RUN_TIMES * (size_t)(option_get(OPTION_magazine) >> SLICE_SHIFT);
}

/* As many large blocks as earn a share of `slices`. */
static void earn(heap_t *h, size_t slices) {
  for (size_t i = 0; i < slices * RUN_EARNED; i++) fast_free(large_malloc(h, MiB(2), 1));
}

/* The thread has `n` blocks of `slices` slices and frees them. */
static void free_together(size_t n, size_t slices) {
  void *p[64];
  for (size_t i = 0; i < n; i++) p[i] = in_slices(slices * SLICE_SIZE);
  for (size_t i = 0; i < n; i++) fast_free(p[i]);
}

TEST(magazine, a_thread_gets_again_what_it_freed_and_the_arena_is_not_asked, "L2") {
  heap_t *h = my_heap();
  earn(h, RUN_LEAST);
  for (size_t n = 1; n <= RUN_LEAST; n++) {
    char *p = in_slices(n * SLICE_SIZE - 1);
    uint64_t before = committed();
    for (int i = 0; i < 5; i++) {
      memset(p, 7, n * SLICE_SIZE - 1);
      fast_free(p);
      CHECK(magazine_is_valid(h));
      CHECK_EQ(committed(), before);
      CHECK_EQ(in_slices(n * SLICE_SIZE - 1), (void *)p);
    }
    fast_free(p);
    char *q = heap_clear(in_slices(n * SLICE_SIZE), n * SLICE_SIZE);
    CHECK_EQ(q, p);
    CHECK_BYTES(q, 0, n * SLICE_SIZE);
    fast_free(q);
  }
  check_nothing_lost();
}

TEST(magazine, a_large_block_of_a_thread_that_seldom_allocates_such_goes_back_at_once, "") {
  for (size_t n = 1; n <= RUN_MOST; n++) {
    my_heap();
    heap_collect(false);
    void *p = in_slices(n * SLICE_SIZE);
    CHECK_EQ(committed(), (uint64_t)n);
    fast_free(p);
    CHECK_EQ(committed(), (uint64_t)0);
  }
  check_nothing_lost();
}

TEST(magazine, a_thread_that_only_frees_keeps_no_slices_for_slabs_of_its_own, "") {
  size_t size = 4000;
  in_thread(allocate, &size, true);
  release(NULL);
  CHECK_EQ(my_heap()->singles, 0u);
  CHECK_LE(committed(), (uint64_t)16);
  allocate(&size); /* its own, now */
  release(NULL);
  CHECK_GT(my_heap()->singles, 0u);
}

TEST(magazine, slices_of_slabs_fill_the_share_however_large_that_is, "L2") {
  enum { BLOCKS = 320 * 64, SIZE = 1000 };
  static void *p[BLOCKS];
  core_option(OPTION_magazine, MiB(64));
  for (int i = 0; i < BLOCKS; i++) p[i] = in_slices(SIZE);
  for (int i = 0; i < BLOCKS; i++) fast_free(p[i]);
  CHECK_GT(my_heap()->singles, 300u);
}

TEST(magazine, runs_are_no_more_than_the_share_and_the_longest_make_room, "L2") {
  heap_t *h = my_heap();
  earn(h, 100);
  for (int round = 0; round < 3; round++)
    for (size_t n = 1; n <= RUN_MOST + 1; n++) {
      free_together(40, n);
      CHECK(magazine_is_valid(h));
      CHECK_LE((size_t)h->run_slices, shares_most());
      CHECK_LE(h->run_most, shares_most());
      CHECK_LE(h->singles, shares_most() / RUN_TIMES);
      if (n > 1 && n <= RUN_MOST) CHECK(h->magazine[n - 1] != 0);
    }
  CHECK_EQ(h->run_most, shares_most());
  free_together(1, RUN_MOST);
  free_together(10, 2);
  CHECK_EQ(h->magazine[RUN_MOST - 1], 0u);
  core_option(OPTION_magazine, 0);
  fast_free(fast_malloc(RUN_MOST * SLICE_SIZE));
  CHECK_EQ(h->run_slices, 0);
  CHECK(magazine_is_valid(h));
  check_nothing_lost();
  CHECK_EQ(h->run_most, 0);
}

static void use_many(void *heap) {
  heap_t *h = *(heap_t **)heap = my_heap();
  earn(h, 100);
  for (int i = 0; i < 20; i++) free_together(1 + i % 4, 2 + i % 3);
}

TEST(magazine, many_threads_have_shares_that_are_small_together, "") {
  enum { THREADS = 60 };
  heap_t *heaps[THREADS];
  size_t shares = 0, kept = 0;
  for (int i = 0; i < THREADS; i++) in_thread(use_many, &heaps[i], false);
  for (int i = 0; i < THREADS; i++) {
    CHECK_GE(heaps[i]->run_most, RUN_LEAST);
    shares += heaps[i]->run_most;
    kept += heaps[i]->run_slices + heaps[i]->singles;
  }
  CHECK_LE(shares, (size_t)SURPLUS_LEAST + THREADS * RUN_LEAST);
  CHECK_GE(shares, (size_t)SURPLUS_LEAST);
  CHECK_EQ(committed(), (uint64_t)kept);
}

TEST(magazine, a_share_is_cut_when_all_together_have_too_much, "") {
  enum { THREADS = 40 };
  heap_t *heaps[THREADS], *h = my_heap();
  char *much = fast_malloc(MiB(400));
  earn(h, 100);
  for (int i = 0; i < 20; i++) free_together(5, 5);
  CHECK_EQ(h->run_most, shares_most());
  for (int i = 0; i < THREADS; i++) in_thread(use_many, &heaps[i], false);
  fast_free(much);
  for (int i = 0; i < 128; i++) free_together(1, 2); /* some of the calls look */
  CHECK_EQ(h->run_most, RUN_LEAST);
  CHECK_LE(h->run_slices, RUN_LEAST);
  CHECK(magazine_is_valid(h));
}

/* Allocates `bytes` of small blocks and frees them, as often as earns much. */
static void cycle_small(size_t bytes) {
  enum { SIZE = 128 };
  static __thread void *p[MiB(4) / SIZE];
  for (int round = 0; round < 12; round++) {
    for (size_t i = 0; i < bytes / SIZE; i++) p[i] = in_slices(SIZE);
    for (size_t i = 0; i < bytes / SIZE; i++) fast_free(p[i]);
  }
}

TEST(magazine, with_two_processors_single_slices_are_its_due_whatever_earned, "K1 L2") {
  pretend_users(64);
  cycle_small(MiB(4));
  CHECK_LE((size_t)my_heap()->singles, (size_t)(option_get(OPTION_magazine) >> SLICE_SHIFT));
  CHECK_EQ(my_heap()->own->more_singles, 0u);
}

TEST(magazine, with_many_processors_a_thread_keeps_the_slices_that_it_fills_again_and_again, "K1") {
  heap_t *h = my_heap();
  os_fake.processors = 16;
  pretend_users(16);
  cycle_small(MiB(4));
  CHECK_GE((size_t)h->own->more_singles, (size_t)32);
  CHECK_LE((size_t)h->own->more_singles, (size_t)SURPLUS_EACH);
  uint64_t before = committed();
  cycle_small(MiB(2));
  CHECK_EQ(committed(), before); /* the arena was not asked */
  CHECK(magazine_is_valid(h));
  surplus_add(100 * SURPLUS_LEAST);
  cycle_small(MiB(4));
  CHECK_EQ(h->own->more_singles, 0u);
  CHECK_LE((size_t)h->singles, (size_t)(option_get(OPTION_magazine) >> SLICE_SHIFT));
  surplus_add(0u - 100 * SURPLUS_LEAST);
  pretend_users(1);
  CHECK(pool_is_valid());
  cycle_small(MiB(4));
  CHECK_GT(h->own->more_singles + h->own->missed_singles, 0);
  heap_collect(true);
  CHECK_EQ(h->own->more_singles + h->own->missed_singles, 0);
  CHECK(pool_is_valid());
}

TEST(magazine, a_thread_that_ends_keeps_nothing_and_its_share_is_free_again, "") {
  heap_t *h;
  for (int i = 0; i < 60; i++) {
    in_thread(use_many, &h, true);
    CHECK_EQ(h->run_most, 0);
    CHECK_EQ(h->run_slices, 0);
  }
  check_nothing_lost();
}

TEST(magazine, a_heap_that_gets_no_memory_uses_what_it_keeps, "") {
  earn(my_heap(), 8);
  free_together(4, 2);
  CHECK_GT(committed(), (uint64_t)0);
  core_option(OPTION_memory_limit, (int64_t)MiB(1));
  void *p = fast_malloc(MiB(1));
  CHECK(p != NULL);
  CHECK_NULL(fast_malloc(MiB(1)));
  fast_free(p);
  free_together(4, 2);
  core_option(OPTION_memory_limit, (int64_t)(committed() * SLICE_SIZE));
  CHECK(fast_malloc(100) != NULL); /* a slab too */
  CHECK_EQ(my_heap()->run_slices, 0);
}

/* Else what the next block leaves unused, when it shrinks to end there, would be no tail. */
TEST(magazine, what_a_block_with_headroom_did_not_use_counts_as_touched_for_the_next, "L2 A4") {
  os_fake.page_size = 4096;
  heap_t *h = my_heap();
  for (size_t used = 4; used <= 6; used++) {
    earn(h, 100);
    free_together(20, 7); /* so that its share is large enough */
    size_t n = used + 1;
    char *p = large_with_headroom(my_heap(), used * SLICE_SIZE - 50000, n * SLICE_SIZE);
    fast_free(p);
    CHECK_GE(h->run_slices, n);
    CHECK(magazine_is_valid(h));
    char *q = in_slices(n * SLICE_SIZE);
    CHECK_EQ(q, p);
    memset(q, 1, n * SLICE_SIZE);
    heap_settle(h);
    uint64_t before = atomic64_load_relaxed(&heap_counts.tails);
    CHECK_EQ(any_realloc(q, (used + 1) * SLICE_SIZE - 50000, "t"), (void *)p);
    heap_settle(h);
    CHECK_EQ(atomic64_load_relaxed(&heap_counts.tails) - before, (uint64_t)(50000 / 4096));
    fast_free(p);
  }
  check_nothing_lost();
}

TEST(magazine, slices_that_are_somebody_elses_or_miscounted_are_seen, "L2") {
  heap_t *h = my_heap();
  earn(h, 8);
  free_together(2, 2);
  slab_t *s = slab_numbered(h->magazine[1]);
  CHECK(s != NULL && magazine_is_valid(h));
  EXPECT_ABORT((atomic32_store_relaxed(&s->kind, 1), magazine_is_valid(h)), "invariant L2");
  EXPECT_ABORT((arena_release((void *)slab_base(s), 2), magazine_is_valid(h)), "invariant L2");
  EXPECT_ABORT((h->run_slices++, magazine_is_valid(h)), "invariant L2");
  EXPECT_ABORT((h->singles++, magazine_is_valid(h)), "invariant L2");
}
