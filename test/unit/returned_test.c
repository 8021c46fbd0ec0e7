/* returned_test.c - tests of stock/returned */
#include "heaps.h"

enum { LENT = 2048, MANY = 6000 };
static void *blocks[MANY];

static void take(size_t n, size_t size) {
  for (size_t i = 0; i < n; i++) blocks[i] = fast_malloc(size);
}
static void put(size_t n) {
  for (size_t i = 0; i < n; i++) fast_free(blocks[i]);
}
/* All are taken, then all are freed, as often. */
static void swing(size_t times, size_t n, size_t size) {
  for (; times != 0; times--) {
    take(n, size);
    put(n);
  }
}

static unsigned doublings(size_t size) {
  return my_heap()->own->lengthened[class_of(size) - MEDIUM_CLASS].doublings;
}

static size_t room_bytes(const heap_t *h) {
  size_t bytes = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++) bytes += h->returned_most[c] * class_size(c);
  return bytes;
}

/* They are in the processor's caches, others are not. */
TEST(returned, what_was_freed_is_handed_out_again_as_soon_as_it_is_worth_a_bin, "") {
  enum { SIZE = 1024, FREED = CARVE_BYTES / SIZE };
  unsigned c = class_of(SIZE);
  take(4 * RETURN_MOST, SIZE);
  while (my_heap()->bin[c] != 0) fast_malloc(SIZE);
  put(FREED);
  CHECK_GT(my_heap()->returned_room[c], my_heap()->returned_most[c] / 2u);
  for (int i = FREED; i-- > 0;) CHECK_EQ(fast_malloc(SIZE), blocks[i]);
}

TEST(returned, what_waits_for_the_next_bins_is_bounded_and_given_up_by_a_heap_that_shrinks, "") {
  enum { TIMES = 2000 };
  heap_t *h = my_heap();
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    swing(1, TIMES, class_size(c));
    swing(1, TIMES / 4, class_size(c));
    for (unsigned d = 1; d < CLASS_COUNT; d++) CHECK_LE(h->returned_room[d], h->returned_most[d]);
    CHECK_LE(room_bytes(h), ((size_t)SURPLUS_LEAST << SLICE_SHIFT) + 8 * MiB(1));
  }
  h->trims_due = CLASS_COUNT;
  heap_exit(heap_enter());
  CHECK_EQ(room_bytes(h), (size_t)0);
  check_nothing_lost();
}

TEST(returned, a_list_that_was_too_short_again_and_again_comes_to_hold_all_that_is_freed, "") {
  swing(12, 600, LENT);
  CHECK_GE(doublings(LENT), 4u);
  CHECK_GE(my_heap()->returned_most[class_of(LENT)], 600);
  take(600, LENT);
  uint64_t swaps = atomic64_load_relaxed(&my_heap()->swaps);
  put(600);
  take(600, LENT);
  CHECK_EQ(atomic64_load_relaxed(&my_heap()->swaps), swaps);
  put(600);
  check_nothing_lost();
  CHECK_EQ(doublings(LENT), 0u);
}

/* The list has six blocks of a slab in which nothing else lives, and six of full slabs. */
TEST(returned, now_and_then_blocks_of_sparse_slabs_go_back_there_so_that_these_become_empty, "H5") {
  enum { SIZE = 1024, EACH = 6, ALL = 8 * RETURN_MOST };
  unsigned c = class_of(SIZE), of_sparse = 0, of_others = 0;
  heap_t *h = my_heap();
  take(ALL, SIZE);
  heap_flush_bins(h);
  slab_t *sparse = slab_of(blocks[100]);
  returned_missed(h, c);
  for (size_t i = 0; i < ALL; i++) {
    uintptr_t block = (uintptr_t)blocks[i];
    if (slab_of(blocks[i]) != sparse) {
      if (of_others < EACH) of_others += fast_keep(h, c, block, false);
    } else if (of_sparse < EACH) {
      of_sparse += fast_keep(h, c, block, false);
    } else {
      slab_free_one(sparse, block);
    }
  }
  CHECK_EQ(returned_count(h, c), (size_t)2 * EACH);
  heap_enter();
  returned_sift(h, c);
  heap_exit(h);
  size_t kept = 0;
  for (uintptr_t b = h->aside->returned[c]; b != 0; b = block_next(b), kept++)
    CHECK(slab_of((void *)b) != sparse);
  CHECK_EQ(kept, (size_t)EACH);
  CHECK_EQ(returned_count(h, c), kept);
}

TEST(returned, a_list_of_a_class_below_them_is_bounded_by_bytes_alone, "") {
  enum { SIZE = 32, MOST = RETURN_SMALL_BYTES / SIZE };
  unsigned c = class_of(SIZE);
  heap_t *h = my_heap();
  take(MANY, SIZE);
  heap_enter();
  owned_disown(h, c);
  returned_missed(h, c);
  heap_exit(h);
  CHECK_EQ(h->returned_most[c], (size_t)MOST);
  uint64_t swaps = atomic64_load_relaxed(&h->swaps);
  put(MOST);
  CHECK_EQ(returned_count(h, c), (size_t)MOST);
  CHECK_EQ(atomic64_load_relaxed(&h->swaps), swaps);
}

TEST(returned, where_many_heaps_have_little_each_lists_of_medium_classes_are_short, "") {
  enum { SIZE = 8192 };
  unsigned c = class_of(SIZE);
  size_t most = RETURN_BYTES / SIZE, least = RETURN_SMALL_BYTES / SIZE;
  swing(1, 40, SIZE);
  heap_t *h = my_heap();
  heap_flush_bins(h);
  h->own->lengthened[c - MEDIUM_CLASS].was_full = false;
  pretend_users(2);
  returned_missed(h, c);
  CHECK_EQ(h->returned_most[c], most);
  atomic64_store_relaxed(&arena_counts.committed, 0);
  pretend_users(2 * SURPLUS_SMALL / (RETURN_PART * RETURN_BYTES / SLICE_SIZE));
  returned_missed(h, c);
  CHECK_EQ(h->returned_most[c], most / 2);
  pretend_users(100);
  returned_missed(h, c);
  CHECK_EQ(h->returned_most[c], least);
}

TEST(returned, a_thread_that_frees_once_what_it_had_keeps_no_more_than_is_its_due, "") {
  swing(1, MANY, LENT);
  CHECK_EQ(doublings(LENT), 0u);
  CHECK_LE(my_heap()->returned_most[class_of(LENT)], RETURN_MOST);
  check_nothing_lost();
}

TEST(returned, a_thread_that_frees_more_than_it_allocates_gets_no_longer_lists, "") {
  swing(2, MANY, LENT); /* two misses */
  unsigned before = doublings(LENT);
  take(MANY, LENT);
  for (int i = 0; i < MANY; i++) { /* of three blocks freed, one comes back */
    fast_free(blocks[i]);
    if (i % 3 == 0) blocks[i / 3] = fast_malloc(LENT);
  }
  CHECK_LE(doublings(LENT), before + 1);
}

TEST(returned, a_long_list_that_has_few_blocks_once_stays_long, "") {
  swing(12, 600, LENT);
  unsigned before = doublings(LENT);
  for (int i = 0; i < 10; i++) {
    swing(1, 600, LENT);
    take(800, LENT); /* for good: bin and list are used up */
    swing(2000, 4, LENT);
  }
  CHECK_EQ(doublings(LENT), before);
}

TEST(returned, a_list_of_which_little_is_used_gets_short_again, "") {
  swing(12, 600, LENT);
  CHECK_GE(doublings(LENT), 4u);
  take(MANY, LENT); /* for good: bin and list are used up */
  for (int i = 0; i < 60000; i++) swing(1, 4, LENT);
  CHECK_EQ(doublings(LENT), 0u);
  CHECK_LE(my_heap()->returned_most[class_of(LENT)], RETURN_MOST);
}

TEST(returned, classes_that_a_heap_may_own_slabs_of_are_never_kept_in_longer_lists, "") {
  size_t size = class_size(MEDIUM_CLASS - 1);
  swing(12, MANY, size);
  CHECK_LE(my_heap()->returned_most[class_of(size)], RETURN_MOST);
  check_nothing_lost();
}

static void swing_much(void *heap) {
  *(heap_t **)heap = my_heap();
  for (size_t size = 1024; size <= SMALL_MOST; size *= 2) swing(9, 3000, size);
}

static size_t shares_of(const heap_t *h) {
  size_t slices = 0;
  for (unsigned c = MEDIUM_CLASS; c < CLASS_COUNT; c++) {
    size_t due = min_size(RETURN_MOST, RETURN_BYTES / class_size(c)) * class_size(c);
    slices +=
      (due / SLICE_SIZE << h->own->lengthened[c - MEDIUM_CLASS].doublings) - due / SLICE_SIZE;
  }
  return slices;
}

TEST(returned, all_threads_together_keep_no_more_than_is_left_to_them, "") {
  enum { THREADS = 12 };
  heap_t *heaps[THREADS];
  size_t shares = 0;
  for (int i = 0; i < THREADS; i++) in_thread(swing_much, &heaps[i], false);
  for (int i = 0; i < THREADS; i++) shares += shares_of(heaps[i]);
  CHECK_GT(shares_of(heaps[1]), (size_t)0); /* the first has not taken all */
  CHECK_LE(shares, (size_t)SURPLUS_LEAST);
  CHECK_GE(shares, (size_t)SURPLUS_LEAST / 2);
}

TEST(returned, what_a_thread_had_learned_goes_with_it, "") {
  heap_t *h;
  for (int i = 0; i < 30; i++) {
    in_thread(swing_much, &h, true);
    CHECK_EQ(shares_of(h), (size_t)0);
    for (size_t c = 0; c < ARRAY_LENGTH(h->own->lengthened); c++)
      CHECK(!h->own->lengthened[c].was_full);
  }
  swing(12, 600, LENT);
  CHECK_GE(doublings(LENT), 4u);
}

TEST(returned, lists_get_shorter_when_all_together_keep_too_much, "") {
  swing(12, 2000, LENT);
  unsigned before = doublings(LENT);
  CHECK_GE(before, 4u);
  char *much = fast_malloc(MiB(400));
  while (surplus_ask(SURPLUS_LEAST / 2)) continue;
  fast_free(much);
  CHECK(!surplus_ask(1));
  CHECK(surplus_is_too_much());
  swing(before + 1, 2000, LENT);
  CHECK_LT(doublings(LENT), before);
}

TEST(returned, when_memory_is_short_what_is_kept_of_other_sizes_is_used, "") {
  swing(12, 600, LENT);
  CHECK_GT(committed() * SLICE_SIZE, (uint64_t)MiB(1));
  core_option(OPTION_memory_limit, (int64_t)(committed() * SLICE_SIZE));
  void *small = fast_malloc(3000), *large = fast_malloc(MiB(1));
  CHECK(small != NULL && large != NULL);
}

/* The few that wait are too few for a bin, but no less are there. */
TEST(returned, when_memory_is_short_the_last_few_of_the_same_size_are_used, "") {
  swing(1, 40, 1024);
  unsigned c = class_of(1024);
  while (my_heap()->bin[c] != 0) fast_malloc(1024);
  core_option(OPTION_memory_limit, (int64_t)(committed() * SLICE_SIZE));
  my_heap()->reserve = RESERVE_USED;
  size_t n = 0;
  for (; n < MANY && fast_malloc(1024) != NULL; n++) continue;
  CHECK_LT(n, (size_t)MANY);
  CHECK_EQ(committed() * SLICE_SIZE, (uint64_t)option_get(OPTION_memory_limit));
  CHECK_EQ(my_heap()->aside->returned[c], (uintptr_t)0);
  void *p = fast_malloc(1024);
  CHECK_NULL(p);
}
