/* owned_test.c - tests of stock/owned */
enum { MANY = 4000 };
#include "kept.h"

TEST(owned, empty_slabs_stay_in_the_magazine_and_as_first_of_their_class_within_their_bounds, "") {
  size_t size = 1000;
  core_option(OPTION_magazine, (int64_t)(3 * SLICE_SIZE));
  for (int i = 0; i < 12; i++, size += 600) {
    allocate(&size);
    release(NULL);
    heap_t *h = my_heap();
    size_t owned = 0;
    for (unsigned c = 0; c < CLASS_COUNT; c++) owned += h->own->slab_count[c];
    CHECK_LE(h->singles, 3u);
    CHECK_LE((int)h->idle, IDLE_MOST);
    CHECK_LE(owned, (size_t)h->idle + i + 1);
    CHECK_LE(committed(), 3 + owned + 12);
  }
  check_nothing_lost();
  CHECK_EQ(my_heap()->singles, 0u);
  CHECK_EQ((int)my_heap()->idle, 0);
}

TEST(owned, without_a_magazine_every_empty_slab_but_the_idle_ones_goes_back, "") {
  size_t size = 900;
  core_option(OPTION_magazine, 0);
  allocate(&size);
  CHECK_GT(committed(), (uint64_t)50);
  release(NULL);
  CHECK_LE(committed(), (uint64_t)IDLE_MOST + 2);
  CHECK_EQ(my_heap()->singles, 0u);
  check_nothing_lost();
}

static void replace_by_own(unsigned blocks, size_t size) {
  for (unsigned i = 0; i < blocks; i++) {
    int k = (int)(i % (MANY / 4));
    if (kept[k] != NULL) fast_free(kept[k]);
    kept[k] = fast_malloc(size);
  }
}

TEST(owned, a_class_whose_blocks_others_free_is_borrowed_and_owned_again_after_a_while,
     "S-anchor") {
  size_t size = 512;
  unsigned c = class_of(size);
  allocate(&size);
  heap_t *h = my_heap();
  CHECK_GE(h->own->slab_count[c], 1);
  in_thread(release, NULL, true);
  allocate(&size);
  CHECK(heap_knows_remote(h, c));
  CHECK_EQ(h->own->slab_count[c], 0);
  release(NULL);
  CHECK_EQ(h->own->slab_count[c], 0); /* nor does it adopt any */
  replace_by_own(1 << 21, size);
  CHECK(!heap_knows_remote(h, c));
  release(NULL);
  allocate(&size);
  CHECK_GE(h->own->slab_count[c], 1);
  release(NULL);
  check_nothing_lost();
}

TEST(owned, a_class_whose_blocks_others_free_only_once_is_owned, "") {
  size_t size = 512;
  unsigned c = class_of(size);
  allocate(&size);
  replace_by_own(1 << 15, size);
  int from = MANY - 500;
  in_thread(release, &from, true); /* as when the blocks of a thread that ended are freed */
  allocate(&size);
  CHECK(!heap_knows_remote(my_heap(), c));
  CHECK_GE(my_heap()->own->slab_count[c], 1);
}

static void release_a_third(void *unused_argument) {
  (void)unused_argument;
  for (int i = 0; i < MANY; i += 3) {
    fast_free(kept[i]);
    kept[i] = NULL;
  }
}

TEST(owned, slabs_in_which_others_have_freed_much_and_that_are_not_used_are_handed_on, "") {
  size_t size = 512;
  unsigned c = class_of(size);
  allocate(&size);
  heap_t *h = my_heap();
  CHECK(slab_owner(slab_of(kept[MANY - 1])) == h);
  in_thread(release_a_third, NULL, true);
  CHECK_GE(h->own->slab_count[c], 2);
  for (int i = 0; i < 10000; i++) fast_free(fast_malloc(size)); /* of one slab */
  CHECK(!heap_knows_remote(h, c));
  for (slab_t *s = owned_first(h, c); s != NULL; s = s->next)
    CHECK_LT(slab_others_freed(s), (unsigned)s->capacity / 8);
}

TEST(owned, a_class_of_which_others_free_a_few_blocks_is_owned, "") {
  size_t size = 64;
  allocate(&size);
  heap_t *h = my_heap();
  int from = MANY - 20;
  in_thread(release, &from, true);
  for (int i = 0; i < MANY - 20; i += 2) {
    fast_free(kept[i]);
    kept[i] = NULL;
  }
  for (int i = 0; i < MANY; i++)
    if (kept[i] == NULL) kept[i] = fast_malloc(size);
  CHECK(!heap_knows_remote(h, class_of(size)));
  CHECK_GE(h->own->slab_count[class_of(size)], 1);
}

TEST(owned, an_owner_that_sleeps_for_ever_keeps_its_last_slabs_and_no_others, "") {
  size_t size = 1000;
  in_thread(allocate, &size, false);
  uint64_t before = committed();
  release(NULL);
  heap_collect(true);
  CHECK_GT(before, (uint64_t)60);
  CHECK_LE(committed(),
           (uint64_t)USED_UP_MOST + 1 + (uint64_t)(option_get(OPTION_magazine) >> SLICE_SHIFT));
}

TEST(owned, a_slab_of_another_heap_is_neither_put_on_a_list_nor_taken_off, "") {
  for (int i = 0; i < 300; i++) fast_malloc(100);
  slab_t *s = owned_first(my_heap(), class_of(100));
  CHECK(s != NULL);
  EXPECT_ABORT(owned_add(pool_claim(), s), "assertion atomic_ptr_is_relaxed");
  EXPECT_ABORT(owned_remove(pool_claim(), s), "assertion atomic_ptr_is_relaxed");
}
