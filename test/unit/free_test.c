/* free_test.c - tests of heap/free */
enum { MANY = 4000 };
#include "kept.h"

/* ---- where a block goes ---- */

TEST(free, each_kind_of_block_goes_back_to_where_it_came_from, "") {
  void *small = fast_malloc(100), *large = fast_malloc(100000), *huge = fast_malloc(HUGE_MIN_SIZE);
  uint64_t before = committed();
  hooks.foreign = &hooks;                                   /* NULL is not the layer above's */
  heap_free(NULL, "free");
  heap_free(large, "free");
  CHECK_EQ(committed(), before - 2);
  heap_free(huge, "free");
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.huge_bytes), (uint64_t)0);
  heap_free(small, "free");
  CHECK(block_is_free((uintptr_t)small));
  check_nothing_lost();
}

/* The free that the program calls, and the one that it jumps to if it cannot tell: both must do the
 * same. */
static void free_slowly(void *p) { heap_free(p, "free"); }
static void free_fast(void *p) { fast_free(p); }
static void (*const either[])(void *) = { free_fast, free_slowly };

/* From here on a free of a block near `p` is a fast one. */
static heap_t *frees_are_fast(void *p) {
  heap_t *h = heap_enter();
  atomic64_store_relaxed(&h->home, window_of((uintptr_t)p));
  heap_exit(h);
  return h;
}

TEST(free, a_block_of_an_own_slab_goes_onto_its_list_and_the_last_one_gives_the_slab_up, "I1") {
  size_t size = 64;
  allocate(&size);
  heap_t *h = frees_are_fast(kept[0]);
  unsigned c = class_of(size);
  for (size_t way = 0; way < ARRAY_LENGTH(either); way++) {
    slab_t *s = heap_first_slab(h, c)->next;                /* used up, and not the one in use */
    unsigned owned = h->own->owned[c];
    CHECK(s != NULL && s->head == 0);
    for (int i = 0; i < MANY; i++) {
      if (slab_of(kept[i]) != s) continue;
      CHECK_EQ(h->own->owned[c], owned);
      either[way](kept[i]);
      CHECK(slab_kind(slab_word(s)) == SLAB_NONE ||
            (s->head == (uintptr_t)kept[i] && slab_is_valid(s)));
      kept[i] = NULL;
    }
    CHECK_EQ(h->own->owned[c], owned - 1);
  }
  CHECK_EQ(h->has_shared, 0);
}

TEST(free, a_block_of_nobodys_slab_is_kept_for_the_next_bin_or_waits_if_there_is_no_room, "") {
  enum { SIZE = 2048 };
  unsigned c = class_of(SIZE);
  void *p[4];
  for (int i = 0; i < 4; i++) p[i] = fast_malloc(SIZE);
  heap_t *h = frees_are_fast(p[0]);
  for (size_t way = 0; way < ARRAY_LENGTH(either); way++) {
    h->room[c] = 1;
    either[way](p[2 * way]);
    CHECK_EQ(h->freed->returned[c], (uintptr_t)p[2 * way]);
    CHECK_EQ(h->room[c], 0);
    CHECK_EQ(h->freed->held, way);
    either[way](p[2 * way + 1]);                            /* each is put off */
    CHECK_EQ(h->freed->returned[c], (uintptr_t)p[2 * way]);
    CHECK_EQ(h->freed->held, 1u);                           /* one chain */
    CHECK(block_is_free((uintptr_t)p[2 * way + 1]));
  }
  CHECK_EQ(swaps_of(h), 0u);
  CHECK_EQ(atomic64_load_relaxed(&h->remote_frees), (uint64_t)2);
}

TEST(free, a_block_of_anothers_slab_waits_though_there_is_room_for_it, "") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  heap_t *h = frees_are_fast(kept[0]);
  h->room[class_of(size)] = h->allowance[class_of(size)] = 10;
  void **p = (void **)&kept[MANY - 2];
  CHECK(!atomic_ptr_is_relaxed(&slab_of(p[0])->owner, NULL) && slab_of(p[0]) == slab_of(p[1]));
  for (size_t way = 0; way < ARRAY_LENGTH(either); way++) either[way](p[way]);
  CHECK_EQ(h->freed->returned[class_of(size)], (uintptr_t)0);
  CHECK_EQ(batch_count(&h->freed->batch[arena_slice(p[0]) % BATCH_SLOTS]), 2u);
}

TEST(free, a_free_inside_a_call_waits_in_the_heap_that_stands_in, "") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  heap_t *h = heap_enter();                                 /* a signal handler begins here */
  fast_free(kept[0]);
  heap_t *nested = atomic_ptr_load_relaxed(&h->nested);
  CHECK_EQ(h->has_shared, 0);
  CHECK_EQ(nested->has_shared, 1);
  CHECK_EQ(atomic64_load_relaxed(&nested->remote_frees), (uint64_t)1);
  CHECK_EQ(nested->freed->held, 1u);
  heap_exit(h);
}

TEST(free, blocks_of_a_heap_of_the_program_never_wait_whichever_way_they_are_freed, "") {
  size_t size = 64;
  heap = firstclass_new();
  allocate(&size);
  heap_t *h = frees_are_fast(kept[0]);
  unsigned before = anchor(slab_of(kept[0])).count;
  fast_free(kept[0]);
  heap_free(kept[1], "free");
  h = heap_enter();
  heap_free(kept[2], "free");
  heap_exit(h);
  CHECK_EQ(anchor(slab_of(kept[0])).count, before + 3);
  CHECK_EQ(h->has_shared, 0);
}

TEST(free, fast_frees_follow_the_program_into_the_window_of_the_last_slow_one, "") {
  char *p = fast_malloc(100), *q = p;
  while (arena_of(q) == arena_of(p)) {
    while (claim(4000) != NULL && arena_count() < 2) continue;
    while (arena_count() < 3) claim(1);
    q = fast_malloc(5000);
  }
  fast_free(p);
  CHECK_EQ(heap_here.window, window_of((uintptr_t)p));
  fast_free(q);
  CHECK_EQ(heap_here.window, window_of((uintptr_t)q));
  heap_exit(heap_enter());
  CHECK_EQ(heap_here.window, window_of((uintptr_t)q));
}

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
  CHECK_EQ(h->freed->slots, 0u);
  CHECK_EQ(anchor(slab_of(kept[0])).count, BATCH_BLOCKS - 1);
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

TEST(free, who_frees_all_that_is_out_of_a_slab_of_nobody_gives_it_back_at_once, "S-anchor") {
  size_t size = 1024;
  in_thread(allocate, &size, true);
  slab_t *s = slab_of(kept[MANY / 2]);
  CHECK_NE(class_info[class_of(size)].capacity % (BATCH_BYTES / size), (size_t)0);
  CHECK(anchor(s).state == ANCHOR_FULL);
  for (int i = 0; i < MANY; i++)
    if (slab_of(kept[i]) == s) fast_free(kept[i]);
  CHECK(slab_kind(slab_word(s)) == SLAB_NONE);
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
  CHECK_EQ(anchor(slab_of(kept[0])).count, 5u);
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

/* `held` is exact between calls. */
static void check_held(const heap_t *h) {
  unsigned chains = 0;
  for (int i = 0; i < BATCH_SLOTS; i++) chains += h->freed->batch[i].slab != NULL;
  CHECK_EQ(h->freed->held, chains + HELD_PENDING * h->pending_count);
}

static unsigned free_spread(size_t size) {
  unsigned most = 0;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (int i = 0; i < MANY; i++) {
    fast_free(kept[(i * 173) % MANY]);                      /* each of another slab */
    check_held(h);
    CHECK_LT(h->pending_count, PENDING_BLOCKS);
    CHECK_LE(h->freed->held_more, (uint32_t)HELD_MORE);
    most = (unsigned)max_size(most, count_waiting(h));
  }
  return most;
}

static void check_that_more_and_more_waits(void) {
  CHECK_GT(free_spread(4000), 8u * HELD_LEAST);
  CHECK_GT(my_heap()->freed->held_more, 4u * HELD_LEAST);
  my_heap()->freed->held_more = HELD_MORE;
  CHECK_GT(free_spread(4000), 8u * HELD_LEAST);
}

TEST(free, a_heap_that_frees_much_that_is_spread_holds_more_and_more_of_it_back, "") {
  check_that_more_and_more_waits();
}
TEST(free, in_a_large_process_too_a_heap_that_frees_much_holds_more_back, "") {
  make_large();
  check_that_more_and_more_waits();
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

TEST(free, a_block_whose_slot_another_slab_has_waits_by_itself_and_is_known_to_be_free, "") {
  size_t size = 4000;
  int i = 1;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  while (slab_of(kept[i]) == slab_of(kept[0]) ||
         (arena_slice(kept[i]) - arena_slice(kept[0])) % BATCH_SLOTS != 0)
    i++;
  fast_free(kept[0]);
  fast_free(kept[i]);
  CHECK_EQ(h->pending_count, 1);
  CHECK_EQ(h->freed->held, 1u + HELD_PENDING);
  EXPECT_ABORT(fast_free(kept[i]), "double free: .* in free");
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

/* As after a handler that came between the last place and the call that empties them. */
TEST(free, a_block_for_which_there_is_no_place_to_wait_goes_another_way, "") {
  size_t size = 64;
  char **p = &kept[MANY - PENDING_BLOCKS - 1];
  in_thread(allocate, &size, false);
  make_large();
  heap_t *h = my_heap();
  h->freed->held_more = HELD_MORE;
  for (int i = 0; i < PENDING_BLOCKS - 1; i++) fast_free(p[i]);
  CHECK_EQ(h->pending_count, PENDING_BLOCKS - 1);
  h->freed->pending[h->pending_count++] = (uintptr_t)p[PENDING_BLOCKS - 1];
  h->freed->held += HELD_PENDING;
  fast_free(p[PENDING_BLOCKS]);
  CHECK_LE(h->pending_count, PENDING_BLOCKS);
  heap_flush_shared(h);
  CHECK_EQ(anchor(slab_of(p[0])).count, PENDING_BLOCKS + 1u);
  CHECK_EQ(h->freed->remote, 0u);
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
  CHECK_GE(anchor(slab_of(kept[0])).count, 900u - BATCH_BLOCKS);
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

TEST(free, a_heap_adopts_no_slab_of_a_class_whose_blocks_others_free, "S-anchor") {
  size_t size = 512;
  unsigned c = class_of(size);
  allocate(&size);
  heap_t *h = my_heap();
  in_thread(release, NULL, true);
  in_thread(allocate, &size, true);                         /* slabs of nobody */
  CHECK(h->own->owned[c] != 0 && !heap_knows_remote(h, c));
  for (int i = 0; i < MANY; i += 2) fast_free(kept[i]);
  heap_flush_shared(h);
  CHECK(heap_knows_remote(h, c));
  CHECK_EQ(atomic64_load_relaxed(&slab_counts.adoptions), (uint64_t)0);
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

static void free_twice(void *p) {
  fast_free(p);
  fast_free(p);
}
static void double_free_elsewhere(void *p) { in_thread(free_twice, p, false); }
static void double_free_of_anothers(size_t size) {
  in_thread(allocate, &size, false);
  free_twice(kept[0]);
}

TEST(free, a_double_free_is_reported_by_the_owner_and_by_others, "") {
  for (size_t size = 16; size < 20000; size = size * 3 + 8) {
    char *p = fast_malloc(size), *q = fast_malloc(size);
    EXPECT_ABORT((fast_free(p), fast_free(p)), "double free: .* in free");
    EXPECT_ABORT((fast_free(p), fast_free(q), fast_free(p)), "double free: .* in free");
    EXPECT_ABORT(double_free_elsewhere(p), "double free: .* in free");
    EXPECT_ABORT(double_free_of_anothers(size), "double free: .* in free");
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
TEST(free, a_double_free_of_what_waits_for_the_next_bin_is_reported_at_once, "") {
  enum { SIZE = 2048 };
  void *before[20];
  for (int i = 0; i < 20; i++) before[i] = fast_malloc(SIZE);
  for (int i = 0; i < 20; i++) fast_free(before[i]);
  for (int i = 0; i < 20; i++) fast_malloc(SIZE);
  EXPECT_ABORT(free_twice_what_is_on_the_next_list(SIZE), "double free: .* in free");
  make_large();
  EXPECT_ABORT(free_twice_what_is_on_the_next_list(SIZE), "double free: .* in free");
}

TEST(free, a_block_freed_twice_is_reported_also_when_its_memory_was_unmapped_meanwhile, "") {
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

TEST(free, a_double_free_of_a_block_of_an_own_slab_is_reported, "I1") {
  size_t size = 64;
  allocate(&size);
  CHECK(atomic_ptr_is_relaxed(&slab_of(kept[MANY - 1])->owner, my_heap()));
  EXPECT_ABORT(free_twice(kept[MANY - 1]), "double free: .* in free");
}

TEST(free, a_pointer_that_is_no_block_is_reported, "") {
  char *p = fast_malloc(100), *large = fast_malloc(200000), *freed = fast_malloc(200000);
  for (int i = 0; i < 20; i++) fast_malloc(100);
  fast_free(freed);
  EXPECT_ABORT(fast_free(freed), "double free");
  size_t last = atomic64_load_relaxed(&arena_of(p)->mapped) - 1;         /* never used */
  EXPECT_ABORT(fast_free(arena_address(arena_of(p), last)), "invalid pointer");
  EXPECT_ABORT(fast_free(p + 8), "invalid pointer");
  EXPECT_ABORT(fast_free(p + 16), "invalid pointer");
  EXPECT_ABORT(fast_free((void *)slab_base(slab_of(p))), "invalid pointer|double free");
  EXPECT_ABORT(fast_free(large + 16), "invalid pointer");
  EXPECT_ABORT(fast_free(large + SLICE_SIZE), "invalid pointer|double free");
  EXPECT_ABORT(fast_free(arena_of(p)), "invalid pointer");
  EXPECT_ABORT(fast_free((char *)arena_of(p) + WINDOW_SIZE - 16), "invalid pointer");
  EXPECT_ABORT(heap_free_sized_slow(p + 8), "in free_sized");
  EXPECT_ABORT(heap_free_aligned_sized_slow(p + 8), "in free_aligned_sized");
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
