/* refill_test.c - tests of heap/refill */
enum { MANY = 4000 };
#include "kept.h"

/* ---- allocating and freeing in one thread ---- */

TEST(refill, a_class_of_which_it_has_anything_is_noted, "") {
  uint64_t state = 3;
  for (int i = 0; i < 4000; i++) {
    void *p = fast_malloc(core_next(&state) % 3000 << (i & 1));
    if (i % 8 != 0) fast_free(p);
    heap_t *h = my_heap();
    if (i % 1000 == 500) heap_collect(false);
    for (unsigned c = 1; c < CLASS_COUNT; c++) {
      if ((h->classes[c / 64] >> c % 64 & 1) != 0) continue;
      CHECK(h->bin[c] == 0 && h->own->slabs[c] == 0 && heap_fresh(h, c).count == 0);
      CHECK(h->aside->returned[c] == 0 && heap_binned(h, c) == 0 && h->returned_most[c] == 0);
    }
  }
}

/* So that their pages are not touched: ten thousand threads that have a few blocks stay small. */
TEST(refill, one_that_has_a_few_blocks_writes_to_its_record_alone, "") {
  static const heap_aside_t nothing_aside;
  static const heap_own_t nothing_owned;
  for (size_t size = 16; size < 800; size += 100) CHECK(fast_malloc(size) != NULL);
  heap_t *h = my_heap();
  CHECK_EQ(memcmp(h->aside, &nothing_aside, sizeof nothing_aside), 0);
  CHECK_EQ(memcmp(h->own, &nothing_owned, sizeof nothing_owned), 0);
  CHECK_LE(sizeof *h, (size_t)1216);
  heap_prepare_rest(h);
  CHECK_EQ(memcmp(h->aside, &nothing_aside, sizeof nothing_aside), 0);
}

/* ---- what a heap keeps ---- */

TEST(refill, a_classs_first_blocks_come_from_slabs_that_the_heap_does_not_keep, "") {
  for (size_t size = 16; size < class_size(MEDIUM_CLASS); size *= 4) {
    unsigned c = class_of(size);
    void *p = fast_malloc(size);
    CHECK_EQ(my_heap()->own->slab_count[c], 0);
    CHECK(anchor(slab_of(p)).state == ANCHOR_PARTIAL);
    for (size_t bytes = 0; bytes <= 4 * EARN_BYTES; bytes += size) fast_malloc(size);
    CHECK_EQ(my_heap()->own->slab_count[c], 1);
  }
}

TEST(refill, blocks_of_a_kib_come_from_slabs_that_no_heap_keeps_and_wait_for_the_next_bin, "") {
  for (size_t size = class_size(MEDIUM_CLASS); size <= SMALL_MOST; size *= 2) {
    unsigned c = class_of(size);
    allocate(&size);
    CHECK_EQ(my_heap()->own->slab_count[c], 0);
    CHECK_LE(slab_used(slab_of(kept[0])), (uint32_t)class_info[c].capacity);
    void *freed = kept[0];
    fast_free(freed);
    CHECK_EQ(my_heap()->aside->returned[c], (uintptr_t)freed);
    kept[0] = NULL;
    release(NULL);
    check_nothing_lost();
  }
}

/* In slices that were never used: a first touch counts when the program writes, not in malloc. */
TEST(refill, blocks_of_a_kib_that_were_never_used_are_not_touched_before_the_program_does, "") {
  for (size_t size = class_size(MEDIUM_CLASS); size <= SMALL_MOST; size *= 2) {
    char *first = fast_malloc(size), *second = fast_malloc(size);
    CHECK_EQ(second, first + size);
    CHECK_GT(heap_fresh(my_heap(), class_of(size)).count, 0u);
    size_t before = os_resident((void *)slab_base(slab_of(first)), SLICE_SIZE);
    CHECK_EQ(fast_malloc(size), second + size);
    CHECK_EQ(os_resident((void *)slab_base(slab_of(first)), SLICE_SIZE), before);
    CHECK_LE(before, align_up(size, os_page_size()) + os_page_size());
  }
}

/* Its pages then come by one call for each 2 MiB, from 96 MiB in use on. */
TEST(refill, a_class_of_which_a_large_heap_uses_ever_more_gets_whole_huge_pages, "") {
  os_fake.page_size = 4096;
  enum { SIZE = 500, BLOCKS = MiB(128) / SIZE };
  for (int i = 0; i < BLOCKS; i++) CHECK(fast_malloc(SIZE) != NULL);
  CHECK_GE(atomic64_load_relaxed(&arena_counts.collapsed), 15u);
  CHECK_LE(atomic64_load_relaxed(&arena_counts.collapsed), 20u);
}

static void take_one(void *p) {
  *(void **)p = fast_malloc(48);
  CHECK(*(void **)p != NULL);
}

/* A write to word `word` of blocks that are free, and then a new bin of them. */
static void write_after_free(size_t word, uint64_t value) {
  uint64_t *p[64];
  for (size_t i = 0; i < ARRAY_LENGTH(p); i++) p[i] = fast_malloc(64);
  for (size_t i = 0; i < ARRAY_LENGTH(p); i++) fast_free(p[i]);
  for (size_t i = 0; i < ARRAY_LENGTH(p); i++) p[i][word] = value;
  my_heap()->bin[class_of(64)] = 0;
  fast_malloc(64);
}
/* Blocks of 512 bytes that come and go one by one, from one new bin to the next. */
static unsigned bin_of_hot_class(void) {
  unsigned c = class_of(512), count = 0;
  for (int i = 0; i < 10000; i++) fast_free(fast_malloc(512));
  while (my_heap()->bin[c] != 0) fast_free(fast_malloc(512));
  do fast_free(fast_malloc(512)), count++;
  while (my_heap()->bin[c] != 0);
  return count;
}

TEST(refill, a_hot_class_has_long_bins_while_few_of_its_only_slabs_blocks_are_in_use, "") {
  CHECK_EQ(bin_of_hot_class(), 32u);
  for (int i = 0; i < 20; i++) fast_malloc(512);
  CHECK_EQ(my_heap()->own->slab_count[class_of(512)], 1u);
  fast_malloc(512);
  CHECK_LT(bin_of_hot_class(), 16u);
}

TEST(refill, a_new_bins_first_block_has_its_key_and_what_may_be_a_link, "") {
  EXPECT_ABORT(write_after_free(0, 0x4141414141414141), "heap corruption: .* in (malloc|free)");
  EXPECT_ABORT(write_after_free(0, 0x41), "heap corruption: .* in (malloc|free)");
  EXPECT_ABORT(write_after_free(1, 0x41), "heap corruption: .* in (malloc|free)");
  uint64_t live = (uint64_t)fast_malloc(64);
  EXPECT_ABORT(write_after_free(0, live), "heap corruption: .* in (malloc|free)");
}

TEST(refill, threads_that_allocate_a_little_share_a_slab, "") {
  void *p[40];
  for (int i = 0; i < 40; i++) in_thread(take_one, &p[i], false);
  for (int i = 1; i < 40; i++) CHECK_EQ(slab_of(p[i]), slab_of(p[0]));
  CHECK_EQ(committed(), (uint64_t)1);
}

/* Is what was freed gone once the program has made so few slow calls, and time has passed? */
static void check_that_little_calls_suffice(void (*call)(void), int most) {
  void *p[32];
  for (int i = 0; i < 13; i++) patience_note_reuse(64, UINT32_MAX); /* all patience that there is */
  for (int i = 0; i < 32; i++) p[i] = fast_malloc(MiB(8));
  for (int i = 0; i < 32; i++) fast_free(p[i]);
  CHECK_GT(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)1000);
  os_fake.now_ms += 4000;
  for (int i = 0; i < most; i++, os_fake.now_ms += 100) call();
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
}

static void use_up_a_bin(void) {
  for (int i = 0; i < 100; i++) fast_free(fast_malloc(64));
}
static void keep_a_large_block(void) { fast_free(fast_malloc(100000)); }
static fh_heap_t *own_heap;
static void use_own_heap(void) { heap_free(firstclass_aligned(own_heap, 1, 64), "free"); }

TEST(refill, slow_calls_ask_for_the_time_less_often_only_while_it_stands_still, "") {
  void *p = fast_malloc(MiB(8));
  heap_t *h = my_heap();
  core_option(OPTION_purge_delay_ms, 100000); /* there is always something */
  fast_free(p);
  CHECK_GT(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  os_fake.now_ms++;
  for (int i = 0; i < 500; i++) keep_a_large_block();
  CHECK_EQ(h->wait, TICK_MOST);
  os_fake.now_ms++;
  for (int i = 0; h->wait != TICK_CALLS; i++) {
    CHECK_LT(i, TICK_MOST / 2);
    keep_a_large_block(); /* two slow calls */
  }
  for (int i = 0; i < 100; i++, os_fake.now_ms++) {
    keep_a_large_block();
    keep_a_large_block();
    CHECK_LE(h->wait, 3 * TICK_CALLS);
  }
  CHECK_EQ(h->wait, TICK_CALLS);
}

TEST(refill, memory_goes_back_while_a_program_allocates_and_frees_a_little, "") {
  check_that_little_calls_suffice(use_up_a_bin, 40);
}
TEST(refill, memory_goes_back_while_a_program_uses_large_blocks_that_it_keeps, "") {
  for (int i = 0; i < 100; i++) keep_a_large_block(); /* earns a place for them */
  check_that_little_calls_suffice(keep_a_large_block, 40);
}
TEST(refill, memory_goes_back_while_a_program_uses_a_heap_of_its_own, "") {
  own_heap = firstclass_new();
  check_that_little_calls_suffice(use_own_heap, 40);
}

TEST(refill, a_class_that_grows_fast_takes_its_slices_in_bursts_that_one_call_makes_present, "") {
  enum { SIZE = 256, BURST = 448 << 10, BYTES = 16 << 20 };
  uint64_t calls = os_fake.calls[OS_FAKE_POPULATE];
  for (size_t i = 0; i < BYTES / SIZE; i++) CHECK(fast_malloc(SIZE) != NULL);
  uint64_t bursts = os_fake.calls[OS_FAKE_POPULATE] - calls;
  CHECK_GT(bursts, (uint64_t)0);
  CHECK_LE(bursts, (uint64_t)(2 * BYTES / BURST)); /* fewer slices where a mapped range ends */
  CHECK_LT(my_heap()->singles, (uint32_t)(BURST / SLICE_SIZE));
  for (size_t size = 8192, i = 0; i < BYTES / size; i++) CHECK(fast_malloc(size) != NULL);
  CHECK_EQ(os_fake.calls[OS_FAKE_POPULATE] - calls, bursts); /* whose pages may never be touched */
}

TEST(refill, what_was_freed_is_used_again_before_anything_fresh, "") {
  size_t size = 200;
  allocate(&size);
  uint64_t before = committed();
  for (int round = 0; round < 5; round++) {
    release(NULL);
    allocate(&size);
  }
  CHECK_LE(committed(), before + 1);
  release(NULL);
  check_nothing_lost();
}

/* ---- blocks of other threads ---- */

static uint64_t fresh_of(void *p) { return atomic64_load_relaxed(&slab_of(p)->fresh); }

TEST(refill, a_slab_has_a_bit_for_each_borrowed_block_that_was_not_handed_out_yet, "") {
  enum { SIZE = 2048 };
  char *block = fast_malloc(SIZE), *second = fast_malloc(SIZE);
  unsigned borrowed = heap_fresh(my_heap(), class_of(SIZE)).count;
  CHECK_EQ(second, block + SIZE);
  CHECK_EQ(bits_count(fresh_of(block)), borrowed);
  CHECK_EQ(fresh_of(block) & (fresh_bit((uintptr_t)block) | fresh_bit((uintptr_t)second)), 0u);
  for (unsigned i = 1; i <= borrowed; i++)
    CHECK((fresh_of(block) & fresh_bit((uintptr_t)second + i * SIZE)) != 0);
  fast_malloc(SIZE);
  CHECK_EQ(bits_count(fresh_of(block)), borrowed - 1);
  heap_t *h = heap_enter();
  heap_flush_bins(h); /* they go back, with keys */
  heap_exit(h);
  CHECK_EQ(fresh_of(block), UINT64_C(0));
  int live = 0;
  for (unsigned i = 0; i <= borrowed + 1; i++) live += !block_is_free((uintptr_t)block + i * SIZE);
  CHECK_EQ(live, 3);
}

TEST(refill, borrowed_blocks_are_linked_where_pages_were_in_use_and_all_of_a_slab_if_much_is_used,
     "") {
  enum { SIZE = 4096, IN_SLAB = SLICE_SIZE / SIZE - 1 };
  unsigned c = class_of(SIZE);
  fast_malloc(SIZE);
  fast_malloc(SIZE);
  CHECK_EQ(heap_fresh(my_heap(), c).count, BORROW_BYTES / SIZE - 1u);
  bool clean;
  arena_release(arena_claim(20, 1, &clean), 20); /* the next slices are dirty */
  for (int taken = 0; taken < 2 * MUCH_BORROWED / SIZE; taken++) fast_malloc(SIZE);
  while (my_heap()->bin[c] != 0) fast_malloc(SIZE);
  fast_malloc(SIZE);
  CHECK_EQ(heap_fresh(my_heap(), c).count, 0u);
  size_t linked = 0;
  for (uintptr_t b = my_heap()->bin[c]; b != 0; b = block_next(b)) linked++;
  CHECK_EQ(linked, IN_SLAB - 1u);
}

/* ---- nesting ---- */
