/* free_test.c - tests of heap/free */
enum { MANY = 4000 };
#include "kept.h"

/* ---- where a block goes ---- */

TEST(free, the_place_behind_the_last_block_of_a_slab_is_none, "Z1") {
  static const size_t sizes[] = {48, 112, 3072, 14336}; /* of which 64 KiB are no multiple */
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
    const slab_t *s = slab_of(fast_malloc(sizes[i]));
    uintptr_t behind = slab_base(s) + (s->capacity + (size_t)1) * sizes[i];
    CHECK_EQ((void *)slab_of((void *)behind), (void *)s);
    EXPECT_ABORT(fast_free((void *)behind), "invalid pointer: .* in free");
    EXPECT_ABORT(heap_realloc((void *)behind, 100, "realloc"), "invalid pointer: .* in realloc");
  }
}

TEST(free, each_kind_of_block_goes_back_to_where_it_came_from, "") {
  void *small = fast_malloc(100), *large = in_slices(100000), *huge = fast_malloc(HUGE_LEAST);
  uint64_t before = committed();
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
static void (*const either[])(void *) = {free_fast, free_slowly};

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
    slab_t *s = owned_first(h, c)->next; /* used up, and not the one in use */
    unsigned owned = h->own->slab_count[c];
    CHECK(s != NULL && s->head == 0);
    for (int i = 0; i < MANY; i++) {
      if (slab_of(kept[i]) != s) continue;
      CHECK_EQ(h->own->slab_count[c], owned);
      either[way](kept[i]);
      CHECK(slab_kind(slab_word(s)) == SLAB_NONE ||
            (s->head == (uintptr_t)kept[i] && slab_is_valid(s)));
      kept[i] = NULL;
    }
    CHECK_EQ(h->own->slab_count[c], owned - 1);
  }
  CHECK_EQ(h->put_off, 0u);
}

TEST(free, a_block_of_nobodys_slab_is_kept_for_the_next_bin_or_waits_if_there_is_no_room, "") {
  enum { SIZE = 2048 };
  unsigned c = class_of(SIZE);
  void *p[4];
  for (int i = 0; i < 4; i++) p[i] = fast_malloc(SIZE);
  heap_t *h = frees_are_fast(p[0]);
  for (size_t way = 0; way < ARRAY_LENGTH(either); way++) {
    h->returned_most[c] = h->returned_room[c] = 1;
    either[way](p[2 * way]);
    CHECK_EQ(h->aside->returned[c], (uintptr_t)p[2 * way]);
    CHECK_EQ(h->returned_room[c], 0);
    CHECK_EQ(h->put_off, way);
    either[way](p[2 * way + 1]); /* each is put off */
    CHECK_EQ(h->aside->returned[c], (uintptr_t)p[2 * way]);
    CHECK_EQ(h->put_off, 1u); /* one chain */
    CHECK(block_is_free((uintptr_t)p[2 * way + 1]));
  }
  CHECK_EQ(swaps_of(h), 0u);
  outbox_flush(h);
  CHECK_EQ(atomic64_load_relaxed(&h->shared_frees), (uint64_t)2);
  CHECK_EQ(atomic64_load_relaxed(&h->remote_frees), (uint64_t)0);
}

TEST(free, a_block_of_anothers_slab_waits_though_there_is_room_for_it, "") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  heap_t *h = frees_are_fast(kept[0]);
  h->returned_room[class_of(size)] = h->returned_most[class_of(size)] = 10;
  void **p = (void **)&kept[MANY - 2];
  CHECK(!atomic_ptr_is_relaxed(&slab_of(p[0])->owner, NULL) && slab_of(p[0]) == slab_of(p[1]));
  for (size_t way = 0; way < ARRAY_LENGTH(either); way++) either[way](p[way]);
  CHECK_EQ(h->aside->returned[class_of(size)], (uintptr_t)0);
  CHECK_EQ(batch_count(&h->aside->batch[arena_slice(p[0]) % BATCH_SLOTS]), 2u);
}

TEST(free, a_free_inside_a_call_waits_in_the_heap_that_stands_in, "") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  heap_t *h = heap_enter(); /* a signal handler begins here */
  fast_free(kept[0]);
  heap_t *nested = atomic_ptr_load_relaxed(&h->nested);
  CHECK_EQ(h->put_off, 0u);
  CHECK_GT(nested->put_off, 0u);
  CHECK_EQ(nested->put_off, 1u);
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
  CHECK_EQ(h->put_off, 0u);
}

TEST(free, fast_frees_follow_the_program_into_the_window_of_the_last_slow_one, "") {
  char *p = fast_malloc(100), *q = p;
  while (arena_of(q) == arena_of(p)) {
    while (claim(HALF_WINDOW / 2) != NULL && arena_count() < 2) continue;
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
  for (size_t size = 16; size <= SMALL_MOST; size = size * 3 + 16) {
    allocate(&size);
    in_thread(release, NULL, true);
    check_nothing_lost();
  }
}

/* ---- blocks of slabs that the heap does not own ---- */

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

TEST(free, a_block_whose_slot_another_slab_has_makes_that_slabs_chain_go, "") {
  size_t size = 4000;
  int i = 1;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  while (slab_of(kept[i]) == slab_of(kept[0]) ||
         (arena_slice(kept[i]) - arena_slice(kept[0])) % BATCH_SLOTS != 0)
    i++;
  fast_free(kept[0]);
  CHECK_EQ(swaps_of(h), 0u);
  fast_free(kept[i]);
  CHECK_EQ(swaps_of(h), 1u);
  CHECK_EQ(h->put_off, 1u);
  CHECK(h->aside->batch[arena_slice(kept[i]) % BATCH_SLOTS].slab == slab_of(kept[i]));
  EXPECT_ABORT(fast_free(kept[i]), "double free: .* in free");
}

TEST(free, a_block_that_waits_is_known_to_be_free_however_much_is_in_use, "") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  for (int i = 0; i < 8; i++) CHECK(fast_malloc(MiB(16)) != NULL);
  fast_free(kept[0]); /* begins the chain */
  EXPECT_ABORT(fast_free(kept[0]), "double free: .* in free");
  fast_free(kept[1]); /* goes on in it */
  EXPECT_ABORT(fast_free(kept[1]), "double free: .* in free");
  EXPECT_ABORT(fast_free(kept[0]), "double free: .* in free");
}

/* As after a handler that kept the heap from publishing what was due. */
TEST(free, a_chain_that_was_not_published_when_it_was_due_goes_with_the_next_free, "") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (int i = 0; i < BATCH_BLOCKS - 1; i++) fast_free(kept[i]);
  batch_t *b = outbox_batch(h, (uintptr_t)kept[0]);
  CHECK(outbox_add(b, (uintptr_t)kept[BATCH_BLOCKS - 1]));
  CHECK_EQ(swaps_of(h), 0u);
  fast_free(kept[BATCH_BLOCKS]);
  CHECK_EQ(swaps_of(h), 1u);
  CHECK_EQ(anchor(slab_of(kept[0])).count, BATCH_BLOCKS + 1u);
}

/* As in a handler that has interrupted a fast malloc: the heap that it finds is another. */
TEST(free, frees_that_interrupt_a_fast_malloc_wait_no_longer_than_others, "") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  uint64_t limit = heap_here.limit;
  heap_here.limit = 0;
  for (int i = 0; i < 900; i++) fast_free(kept[i]); /* of one slab */
  for (int i = 0; i < BATCH_SLOTS; i++)
    CHECK_LE(batch_count(&h->aside->batch[i]), (unsigned)BATCH_BLOCKS);
  heap_here.limit = limit;
  CHECK_GE(anchor(slab_of(kept[0])).count, 900u - BATCH_BLOCKS);
}

/* ---- slabs that are worth having ---- */

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
  heap_give_up_all(my_heap());
  while (os_fake_fail(OS_FAKE_MAPPING, 1, true), pool_claim() != NULL) {}
  in_thread(release, NULL, false); /* a thread that can have no heap */
  CHECK_EQ(committed(), (uint64_t)0);
  in_thread(take_none, NULL, false);
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
    EXPECT_ABORT((fast_free(p), any_realloc(p, 10, "realloc")), "double free: .* in realloc");
  }
}

static void free_twice_what_is_on_the_next_list(size_t size) {
  void *p = fast_malloc(size), *q = fast_malloc(size);
  CHECK_GT(my_heap()->returned_room[class_of(size)], 2);
  fast_free(p);
  fast_free(q);
  CHECK_EQ(my_heap()->aside->returned[class_of(size)], (uintptr_t)q);
  fast_free(p);
}

TEST(free, a_double_free_of_what_waits_for_the_next_bin_is_reported_at_once, "") {
  enum { SIZE = 2048 };
  void *before[20];
  for (int i = 0; i < 20; i++) before[i] = fast_malloc(SIZE);
  for (int i = 0; i < 20; i++) fast_free(before[i]);
  for (int i = 0; i < 20; i++) fast_malloc(SIZE);
  EXPECT_ABORT(free_twice_what_is_on_the_next_list(SIZE), "double free: .* in free");
}

TEST(free, a_block_freed_twice_is_reported_also_when_its_memory_was_unmapped_meanwhile, "") {
  enum { BLOCKS = 3 * 64 * (SLICE_SIZE / SMALL_MOST - 1) };
  static char *p[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) p[i] = fast_malloc(SMALL_MOST);
  for (int i = 0; i < BLOCKS; i++) fast_free(p[i]);
  heap_collect(true);
  CHECK(arena_unmap_free());
  int gone = 0;
  while (os_fake_is_mapped((void *)align_down((uintptr_t)p[gone], SLICE_SIZE), SLICE_SIZE)) gone++;
  EXPECT_ABORT(fast_free(p[gone]), "double free: .* in free");
  EXPECT_ABORT(any_realloc(p[gone], 5, "realloc"), "double free: .* in realloc");
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
  size_t last = atomic64_load_relaxed(&arena_of(p)->mapped) - 1; /* never used */
  EXPECT_ABORT(fast_free(arena_address(arena_of(p), last)), "invalid pointer");
  EXPECT_ABORT(fast_free(p + 8), "invalid pointer");
  EXPECT_ABORT(fast_free(p + 16), "invalid pointer");
  EXPECT_ABORT(fast_free((void *)slab_base(slab_of(p))), "invalid pointer|double free");
  EXPECT_ABORT(fast_free(large + 16), "invalid pointer");
  EXPECT_ABORT(fast_free(large + SLICE_SIZE), "invalid pointer|double free");
  EXPECT_ABORT(fast_free(arena_of(p)), "invalid pointer");
  EXPECT_ABORT(fast_free((char *)arena_of(p) + WINDOW_SIZE - 16), "invalid pointer");
  EXPECT_ABORT(heap_free(p + 8, "free_sized"), "in free_sized");
  EXPECT_ABORT(heap_free(p + 8, "free_aligned_sized"), "in free_aligned_sized");
  EXPECT_ABORT(heap_usable_size(p + 16, "malloc_usable_size"),
               "invalid pointer: .* in malloc_usable_size");
  EXPECT_ABORT(any_realloc(p + 16, 5, "realloc"), "invalid pointer: .* in realloc");
}

TEST(free, a_pointer_from_elsewhere_is_foreign_and_an_error_here, "") {
  static char somewhere[64];
  CHECK(heap_is_foreign(somewhere) && !heap_owns(somewhere));
  EXPECT_ABORT(fast_free(somewhere + 16), "invalid pointer: .* in free");
  EXPECT_ABORT(heap_usable_size(somewhere + 16, "x"), "invalid pointer: .* in x");
  EXPECT_ABORT(any_realloc(somewhere + 16, 5, "y"), "invalid pointer: .* in y");
}

TEST(free, what_lies_in_a_window_that_we_tried_and_do_not_have_is_foreign, "W1") {
  char *at = (char *)map_new(1, SLICE_SIZE);
  CHECK(at != NULL && heap_is_foreign(at)); /* the kind of a window while a thread tries it */
  map_set(at, 1, NULL, TENANT_FOREIGN);
  CHECK(heap_is_foreign(at) && heap_is_foreign(at + WINDOW_SIZE - 16) && !heap_owns(at));
}
