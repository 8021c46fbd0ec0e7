/* leave_test.c - tests of heap/leave: a heap that shrinks, and one that ends */
enum { MANY = 4000 };
#include "kept.h"

TEST(leave, blocks_that_were_never_used_go_back_with_the_others, "") {
  for (size_t size = class_size(SHARED_CLASS); size <= SMALL_MAX_SIZE; size *= 2) {
    for (int i = 0; i < 2; i++) kept[i] = fast_malloc(size);
    CHECK_GT(heap_fresh(my_heap(), class_of(size)).count, 0u);
    for (int i = 0; i < 2; i++) fast_free(kept[i]);
    check_nothing_lost();
    CHECK_EQ(heap_fresh(my_heap(), class_of(size)).count, 0u);
  }
}

static void collect_all(void *unused_context) {
  (void)unused_context;
  heap_collect(true);
}

TEST(leave, what_it_keeps_goes_with_its_next_slow_calls_if_another_thread_has_asked_for_all, "L2") {
  enum { BLOCKS = 200, CALLS = 2 * TICK_MOST };
  static void *large[BLOCKS], *lent[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    large[i] = fast_malloc(100000);
    lent[i] = fast_malloc(2000);
  }
  for (int i = 0; i < BLOCKS; i++) {
    fast_free(large[i]);
    fast_free(lent[i]);
  }
  heap_t *h = my_heap();
  unsigned c = class_of(2000);
  CHECK(h->singles + h->run_slices > 0 && h->freed->returned[c] != 0);
  for (int i = 0; i < CALLS; i++) fast_free(fast_malloc(WINDOW_SIZE / 2)); /* huge ones */
  CHECK(h->singles + h->run_slices > 0 && h->freed->returned[c] != 0);
  in_thread(collect_all, NULL, true);
  for (int i = 0; i < CALLS; i++) fast_free(fast_malloc(WINDOW_SIZE / 2));
  CHECK_EQ(h->run_slices, 0);
  CHECK(h->bin[c] == 0 && h->freed->returned[c] == 0);
}

static void learn_of_others(void *size) {
  allocate(size);
  in_thread(release, NULL, true);
  allocate(size);
  CHECK(heap_knows_remote(my_heap(), class_of(*(size_t *)size)));
  release(NULL);
}

TEST(leave, the_next_user_of_a_heap_does_not_take_it_that_others_free_its_blocks, "") {
  size_t size = 512;
  in_thread(learn_of_others, &size, true);
  for (size_t i = 0; i < pool_size(); i++) {
    bool is_claimed;
    heap_t *h = pool_at(i, &is_claimed);
    CHECK(h == NULL || h->freed == NULL || !heap_knows_remote(h, class_of(size)));
  }
}

TEST(leave, a_thread_that_ends_leaves_its_blocks_to_be_freed_and_its_free_memory_to_all,
     "S-anchor S-pool") {
  for (size_t size = 16; size <= SMALL_MAX_SIZE; size = size * 3 + 16) {
    in_thread(allocate, &size, true);
    for (int i = 0; i < MANY; i++) CHECK_BYTES(kept[i], i, size);
    release(NULL);
    check_nothing_lost();
  }
}

static void *end_with_slabs(void *context) {
  size_t size = *(size_t *)context;
  for (int i = 0; i < 100; i++) kept[i] = fast_malloc(size);
  os_fake_end_thread();
  return NULL;
}

TEST(leave, the_heap_of_a_thread_that_ends_with_little_is_the_next_threads_until_somebody_collects,
     "S-pool") {
  size_t size = 64;
  heap_t *first = NULL;
  for (int round = 0; round < 3; round++) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, end_with_slabs, &size), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    slab_t *s = slab_of(kept[99]);
    if (round == 0) first = atomic_ptr_load_relaxed(&s->owner);
    CHECK(first != NULL);
    CHECK_EQ(atomic_ptr_load_relaxed(&s->owner), first);
  }
  CHECK(heap_end_rest());
  CHECK_NULL(atomic_ptr_load_relaxed(&slab_of(kept[99])->owner));
  CHECK(!heap_end_rest());
}

TEST(leave, what_a_resting_heap_would_keep_of_others_slabs_counts_too, "") {
  heap_t *h = my_heap();
  unsigned c = class_of(512);
  uint32_t pages = heap_prepare_rest(h);
  heap_note_class(h, c);
  heap_note_class(h, class_of(4096));
  h->allowance[c] = 64;
  h->room[c] = 0;
  CHECK_EQ(heap_prepare_rest(h), pages + 8);
  h->allowance[c] = 0;
  heap_set_fresh(h, class_of(4096), (fresh_t){ SLICE_SIZE, 5 });
  CHECK_EQ(heap_prepare_rest(h), pages + 5);
  heap_set_fresh(h, class_of(4096), (fresh_t){ 0 });
}
