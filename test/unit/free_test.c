/* free_test.c - tests of heap/free */
enum { MANY = 4000 };
#include "kept.h"

TEST(free, what_another_thread_frees_comes_back_to_the_owner_and_nothing_is_lost, "S-anchor") {
  for (size_t size = 16; size <= SMALL_MAX_SIZE; size = size * 3 + 16) {
    allocate(&size);
    in_thread(release, NULL, true);
    check_nothing_lost();
  }
}

/* ---- blocks of slabs that the heap does not own ---- */

TEST(free, frees_of_one_foreign_slab_are_gathered_and_published_with_one_swap, "I3 S-anchor") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (int i = 0; i < BATCH_BLOCKS - 1; i++) fast_free(kept[i]);
  CHECK_EQ(swaps_of(h), 0u);
  CHECK_EQ(h->has_shared, 1);
  heap_flush_shared(h);
  CHECK_EQ(swaps_of(h), 1u);
  slab_t *s = slab_of(kept[0]);
  CHECK_EQ(anchor_unpack(atomic64_load_relaxed(&s->anchor)).count, BATCH_BLOCKS - 1);
}

TEST(free, a_gathered_chain_is_published_when_its_bytes_are_worth_it, "") {
  size_t size = 2048;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (size_t i = 0; i < BATCH_BYTES / size - 1; i++) fast_free(kept[i]);
  CHECK_EQ(swaps_of(h), 0u);
  fast_free(kept[BATCH_BYTES / size - 1]);
  CHECK_EQ(swaps_of(h), 1u);
}

TEST(free, the_last_blocks_of_a_slab_do_not_wait_for_others, "S-anchor") {
  size_t size = 1024;
  core_option(OPTION_magazine, 0);
  in_thread(allocate, &size, true);                         /* slabs of nobody */
  uint64_t before = committed();
  for (int i = 0; i < MANY / 4; i++) fast_free(kept[i]);    /* 15 slabs: each has its own batch */
  CHECK_LE(committed(), before - 12);                       /* the others: `pending`, `returned` */
}

TEST(free, what_waits_to_be_published_is_on_the_next_slow_path, "") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (int i = 0; i < 5; i++) fast_free(kept[i]);
  CHECK_EQ(swaps_of(h), 0u);
  fast_malloc(3000);                                        /* an empty bin */
  CHECK_EQ(swaps_of(h), 1u);
  CHECK_EQ(h->has_shared, 0);
  CHECK_EQ(anchor_unpack(atomic64_load_relaxed(&slab_of(kept[0])->anchor)).count, 5u);
}

/* So much in use that a freed block waits for its cache line. */
static void make_large(void) {
  for (int i = 0; i <= LARGE_HEAP_SLICES / 256; i++) CHECK(fast_malloc(MiB(16)) != NULL);
}

/* Blocks that were freed and wait in the heap. */
static unsigned count_waiting(const heap_t *h) {
  unsigned count = h->pending_count;
  for (int i = 0; i < BATCH_SLOTS; i++)
    if (h->freed->batch[i].slab != NULL) count += batch_count(&h->freed->batch[i]);
  return count;
}

static void check_that_little_waits(size_t size) {
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (int i = 0; i < 48; i++) {
    fast_free(kept[(i * 173) % MANY]);                      /* each of another slab */
    CHECK_LE(count_waiting(h) * max_size(size, 4096), 98304u);
  }
}

TEST(free, a_thread_that_has_freed_little_holds_little_of_it_back, "") {
  check_that_little_waits(4000);
}
TEST(free, a_thread_that_has_freed_little_holds_little_back_in_a_large_process, "") {
  make_large();
  check_that_little_waits(4000);
}
TEST(free, a_thread_that_has_freed_little_of_the_largest_class_holds_little_back, "") {
  check_that_little_waits(16000);
}

TEST(free, in_a_large_heap_freed_blocks_wait_for_their_lines_and_all_arrive, "") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  make_large();
  heap_t *h = my_heap();
  fast_free(kept[0]);
  fast_free(kept[1]);
  CHECK_EQ(h->has_shared, 1);
  CHECK_EQ(swaps_of(h), 0u);
  CHECK_EQ(h->pending_count, 2);
  EXPECT_ABORT((fast_free(kept[0]), heap_flush_shared(h)), "double free");
  for (int i = 2; i < 1000; i++) fast_free(kept[i]);
  heap_flush_shared(h);
  CHECK_EQ(h->pending_count, 0);
  for (int i = 0; i < BATCH_SLOTS; i++) CHECK_NULL(h->freed->batch[i].slab);
  CHECK_EQ(atomic64_load_relaxed(&h->remote_frees), (uint64_t)1000);
}

/* As in a handler that has interrupted a fast malloc: the heap that it finds is another. */
TEST(free, frees_that_interrupt_a_fast_malloc_wait_no_longer_than_others, "") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  uint64_t limit = heap_here.limit;
  heap_here.limit = 0;
  for (int i = 0; i < 900; i++) fast_free(kept[i]);         /* of one slab */
  for (int i = 0; i < BATCH_SLOTS; i++)
    CHECK_LE(batch_count(&h->freed->batch[i]), (unsigned)BATCH_BLOCKS);
  heap_here.limit = limit;
  CHECK_GE(anchor_unpack(atomic64_load_relaxed(&slab_of(kept[0])->anchor)).count,
           900u - BATCH_BLOCKS);
}

/* ---- slabs that are worth having ---- */

TEST(free, a_heap_takes_over_the_full_slabs_whose_blocks_it_frees_but_not_too_many, "I1 S-anchor") {
  size_t size = 512, own = 512;
  in_thread(allocate, &size, true);
  for (size_t i = 0; i < 40; i++) fast_malloc(own);         /* it has earned slabs of this class */
  unsigned c = class_of(size);
  CHECK_GE(my_heap()->own->owned[c], 1);
  for (int i = 0; i < MANY; i += 2) fast_free(kept[i]);
  heap_flush_shared(my_heap());
  CHECK_GE(my_heap()->own->owned[c], 3);
  CHECK_LE(my_heap()->own->owned[c], OWNED_MAX);
  CHECK_GT(atomic64_load_relaxed(&slab_counts.adoptions), (uint64_t)0);
  CHECK_GT(atomic64_load_relaxed(&slab_counts.publications), (uint64_t)0);
  for (int i = 1; i < MANY; i += 2) CHECK_BYTES(kept[i], i, size);
  uint64_t before = committed();
  for (int i = 0; i < MANY / 2; i++) fast_malloc(size);      /* the freed half is used again */
  CHECK_LE(committed(), before + 1);
}

TEST(free, a_heap_that_has_not_earned_the_class_publishes_what_it_frees, "") {
  size_t size = 512;
  in_thread(allocate, &size, true);
  for (int i = 0; i < MANY; i += 2) fast_free(kept[i]);
  heap_flush_shared(my_heap());
  CHECK_EQ(my_heap()->own->owned[class_of(size)], 0);
  CHECK_EQ(atomic64_load_relaxed(&slab_counts.adoptions), (uint64_t)0);
  CHECK_GT(atomic64_load_relaxed(&slab_counts.publications), (uint64_t)0);
}

TEST(free, blocks_gathered_for_a_slab_that_the_heap_adopts_meanwhile_go_to_its_own_list, "I1") {
  size_t size = 64;
  in_thread(allocate, &size, true);                         /* FULL slabs of nobody */
  slab_t *s = slab_of(kept[MANY / 2]);
  CHECK_NULL(atomic_ptr_load_relaxed(&s->owner));
  for (int i = 0; i < 200; i++) fast_malloc(size);
  int freed = 0;
  for (int i = 0; i < MANY; i++)
    if (slab_of(kept[i]) == s) {
      fast_free(kept[i]);
      kept[i] = NULL;
      freed++;
    }
  CHECK_GT(freed, 500);
  CHECK(slab_kind(slab_word(s)) != SLAB_SMALL || atomic_ptr_load_relaxed(&s->owner) != my_heap() ||
        slab_is_valid(s));
  release(NULL);
}

/* ---- threads ---- */

static atomic_ptr_t exchange[256];

static void churn(unsigned number) {
  uint64_t state = number;
  for (int i = 0; i < 40000; i++) {
    size_t size = 16 + core_next(&state) % (i % 64 == 0 ? 40000 : 700);
    size_t *p = fast_malloc(size);
    CHECK(p != NULL);
    p[0] = size;
    ((unsigned char *)p)[size - 1] = (unsigned char)size;
    size_t *old = atomic_ptr_exchange_acq_rel(&exchange[core_next(&state) % 256], p);
    if (old == NULL) continue;
    CHECK_LE(old[0], 40016u);
    CHECK_EQ(((unsigned char *)old)[old[0] - 1], (unsigned char)old[0]);
    fast_free(old);
  }
  os_fake_end_thread();
}

TEST(free, threads_that_free_each_others_blocks_lose_none, "I1 I3 S-anchor S-partial timeout=120") {
  core_threads(4, churn);
  for (int i = 0; i < 256; i++) fast_free(atomic_ptr_load_relaxed(&exchange[i]));
  check_nothing_lost();
}

static void take_none(void *context) {
  (void)context;
  CHECK_NULL(fast_malloc(48));
}

TEST(free, without_memory_for_a_heap_a_free_still_reaches_its_slab, "") {
  size_t size = 1000;
  allocate(&size);
  heap_let_go(my_heap());
  while (os_fake_fail(OS_FAKE_MAPPING, 1, true), pool_claim() != NULL) {}
  in_thread(release, NULL, false);                          /* a thread that can have no heap */
  CHECK_EQ(committed(), (uint64_t)0);
  in_thread(take_none, NULL, false);
  CHECK_EQ(no_memory_calls(), 1u);
}

/* ---- misuse ---- */

static void free_twice_in_another(void *p) {
  fast_free(p);
  fast_free(p);
}
static void double_free_elsewhere(void *p) { in_thread(free_twice_in_another, p, false); }

TEST(free, a_double_free_is_told_by_the_owner_and_by_others, "") {
  for (size_t size = 16; size < 20000; size = size * 3 + 8) {
    char *p = fast_malloc(size), *q = fast_malloc(size);
    EXPECT_ABORT((fast_free(p), fast_free(p)), "double free: .* in free");
    EXPECT_ABORT((fast_free(p), fast_free(q), fast_free(p)), "double free: .* in free");
    EXPECT_ABORT(double_free_elsewhere(p), "double free: .* in free");
    EXPECT_ABORT((fast_free(p), heap_realloc(p, 10, "realloc")), "double free: .* in realloc");
  }
}

static void free_twice_what_is_on_the_next_list(size_t size) {
  void *p = fast_malloc(size), *q = fast_malloc(size);
  CHECK_GT(my_heap()->room[class_of(size)], 2);
  fast_free(p);
  fast_free(q);
  CHECK_EQ(my_heap()->freed->returned[class_of(size)], (uintptr_t)q);
  fast_free(p);
}

/* In a large heap, too, where the second free could wait, and hide what the first has linked. */
TEST(free, a_double_free_of_what_waits_for_the_next_bin_is_told_at_once, "") {
  enum { SIZE = 2048 };
  void *before[20];
  for (int i = 0; i < 20; i++) before[i] = fast_malloc(SIZE);
  for (int i = 0; i < 20; i++) fast_free(before[i]);
  for (int i = 0; i < 20; i++) fast_malloc(SIZE);
  EXPECT_ABORT(free_twice_what_is_on_the_next_list(SIZE), "double free: .* in free");
  make_large();
  EXPECT_ABORT(free_twice_what_is_on_the_next_list(SIZE), "double free: .* in free");
}

TEST(free, a_block_freed_twice_is_told_also_when_its_memory_was_unmapped_meanwhile, "") {
  enum { BLOCKS = 3 * 64 * (SLICE_SIZE / SMALL_MAX_SIZE - 1) };
  static char *p[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) p[i] = fast_malloc(SMALL_MAX_SIZE);
  for (int i = 0; i < BLOCKS; i++) fast_free(p[i]);
  heap_collect(true);
  CHECK(arena_unmap_free());
  int gone = 0;
  while (os_fake_is_mapped((void *)align_down((uintptr_t)p[gone], SLICE_SIZE), SLICE_SIZE)) gone++;
  EXPECT_ABORT(fast_free(p[gone]), "double free: .* in free");
  EXPECT_ABORT(heap_realloc(p[gone], 5, "realloc"), "double free: .* in realloc");
}

TEST(free, a_pointer_that_is_no_block_is_told, "") {
  char *p = fast_malloc(100), *large = fast_malloc(200000);
  for (int i = 0; i < 20; i++) fast_malloc(100);
  EXPECT_ABORT(fast_free(p + 8), "invalid pointer");
  EXPECT_ABORT(fast_free(p + 16), "invalid pointer");
  EXPECT_ABORT(fast_free((void *)slab_base(slab_of(p))), "invalid pointer|double free");
  EXPECT_ABORT(fast_free(large + 16), "invalid pointer");
  EXPECT_ABORT(fast_free(large + SLICE_SIZE), "invalid pointer|double free");
  EXPECT_ABORT(fast_free(arena_of(p)), "invalid pointer");
  EXPECT_ABORT(fast_free((char *)arena_of(p) + WINDOW_SIZE - 16), "invalid pointer");
  EXPECT_ABORT(heap_usable_size(p + 16, "malloc_usable_size"),
               "invalid pointer: .* in malloc_usable_size");
  EXPECT_ABORT(heap_realloc(p + 16, 5, "realloc"), "invalid pointer: .* in realloc");
}

TEST(free, a_pointer_from_elsewhere_is_the_layer_aboves_or_an_error, "") {
  static char somewhere[64];
  hooks.foreign = somewhere;
  hooks.foreign_size = 17;
  fast_free(somewhere);
  CHECK_EQ(hooks.foreign_freed, 1u);
  CHECK_EQ(heap_usable_size(somewhere, "t"), 17u);
  CHECK_EQ(heap_realloc(somewhere, 20, "t"), (void *)somewhere);
  CHECK_EQ(hooks.foreign_size, 20u);
  EXPECT_ABORT(fast_free(somewhere + 16), "invalid pointer: .* in free");
  EXPECT_ABORT(heap_usable_size(somewhere + 16, "x"), "invalid pointer: .* in x");
  EXPECT_ABORT(heap_realloc(somewhere + 16, 5, "y"), "invalid pointer: .* in y");
  CHECK(!heap_owns(somewhere));
}
