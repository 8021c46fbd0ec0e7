/* many_test.c - tests of heap/many */
#include "heaps.h"

enum { MOST = 400 };
static void *blocks[MOST];

/* So that its bin has blocks: how many. */
static size_t fill_bin(size_t size) {
  for (int i = 0; i < MOST; i++) blocks[i] = fast_malloc(size);
  for (int i = 0; i < MOST; i++) fast_free(blocks[i]);
  fast_free(fast_malloc(size));
  size_t n = 0;
  for (uintptr_t b = my_heap()->bin[class_of(size)]; b != 0; b = block_next(b)) n++;
  return n;
}

TEST(many, it_takes_what_the_bin_has_in_its_order_and_no_more, "") {
  for (size_t size = 16; size < 16384; size *= 3) {
    size_t n = fill_bin(size);
    uintptr_t first = my_heap()->bin[class_of(size)];
    if (n > 2) {
      CHECK_EQ(heap_take_many(size, 2, blocks), 2u);
      CHECK_EQ((uintptr_t)blocks[0], first);
      CHECK_EQ(heap_take_many(size, MOST, blocks + 2), n - 2);
    } else {
      CHECK_EQ(heap_take_many(size, MOST, blocks), n);
    }
    CHECK_EQ(my_heap()->bin[class_of(size)], 0u);
    CHECK_EQ(heap_take_many(size, MOST, blocks + n), 0u);
    for (size_t i = 0; i < n; i++) CHECK(!block_is_free((uintptr_t)blocks[i]));
    for (size_t i = 0; i < n; i++) fast_free(blocks[i]);
  }
}

TEST(many, no_bytes_and_large_blocks_are_not_for_it, "") {
  fill_bin(16);
  static const size_t others[] = {0, SMALL_MOST + 1, PTRDIFF_MAX, SIZE_MAX};
  for (int i = 0; i < 4; i++) CHECK_EQ(heap_take_many(others[i], 1, blocks), 0u);
}

TEST(many, a_heap_that_is_marked_is_left_alone, "") {
  fill_bin(64);
  void *p = fast_malloc(64);
  heap_t *h = heap_enter();
  uintptr_t bin = h->bin[class_of(64)];
  CHECK_EQ(heap_take_many(64, MOST, blocks), 0u);
  CHECK_EQ(heap_free_many(&p, 1), 0u);
  CHECK_EQ(h->bin[class_of(64)], bin);
  heap_exit(h);
  fast_free(p);
}

TEST(many, it_frees_up_to_what_a_fast_free_cannot, "") {
  size_t n = fill_bin(64);
  CHECK_GE(n, 8u);
  CHECK_EQ(heap_take_many(64, 8, blocks), 8u);
  void *fifth = blocks[4];
  blocks[4] = (char *)fifth + 8;
  CHECK_EQ(heap_free_many(blocks, 8), 4u);
  blocks[4] = blocks[0]; /* free by now */
  CHECK_EQ(heap_free_many(blocks + 4, 4), 0u);
  blocks[4] = NULL;
  CHECK_EQ(heap_free_many(blocks + 4, 4), 0u);
  blocks[4] = fifth;
  CHECK_EQ(heap_free_many(blocks + 4, 4), 4u);
  CHECK_EQ(heap_here.window, atomic64_load_relaxed(&my_heap()->home));
}

TEST(many, a_slab_that_it_leaves_empty_is_noted, "") {
  size_t size = 512, n = 0;
  static void *many[4000];
  for (; n < 4000; n++) many[n] = fast_malloc(size);
  for (size_t i = 0; i < n;) {
    i += heap_free_many(many + i, n - i);
    if (i < n) fast_free(many[i++]);
  }
  CHECK_LE((unsigned)my_heap()->idle, (unsigned)IDLE_MOST);
  CHECK(heap_is_valid(my_heap()));
  CHECK_LE(my_heap()->own->slab_count[class_of(size)], IDLE_MOST + 1);
}
