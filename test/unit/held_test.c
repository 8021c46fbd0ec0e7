/* held_test.c - tests of stock/held */
#include "heaps.h"

#include "../../src/stock/held.h"

static uint64_t sum_of(held_t held) { return held.ready + held.freed; }

static uint64_t taken(void) { return atomic64_load_relaxed(&slab_thread.taken); }

TEST(held, a_heap_whose_blocks_are_all_freed_holds_what_its_thread_took, "") {
  static void *p[30000];
  for (size_t size = 16; size <= 16384; size *= 2) {
    size_t blocks = 300000 / size / 7 * 7 + 41; /* 7 does not divide it: all are freed */
    for (size_t i = 0; i < blocks; i++) p[i] = fast_malloc(size + i % 3);
    CHECK_GT(taken(), sum_of(heap_held(my_heap())) + blocks * size);
    for (size_t i = 0; i < blocks; i++) fast_free(p[i * 7 % blocks]);
    CHECK_EQ(taken(), sum_of(heap_held(my_heap())));
  }
}

TEST(held, blocks_pass_from_what_is_freed_to_what_is_ready_and_back, "") {
  void *p[100];
  for (int i = 0; i < 100; i++) p[i] = fast_malloc(64);
  held_t before = heap_held(my_heap());
  for (int i = 0; i < 100; i++) fast_free(p[i]);
  held_t after = heap_held(my_heap());
  CHECK_EQ(after.freed - before.freed, (size_t)6400);
  CHECK_EQ(after.ready, before.ready);
  heap_give_up_all(my_heap());
  CHECK_EQ(sum_of(heap_held(my_heap())), 0u);
  CHECK_EQ(taken(), 0u);
}

TEST(held, a_heap_is_joined_only_by_a_thread_that_asks_for_its_bytes, "") {
  free_block_t *p = fast_malloc(64);
  uint64_t before = taken();
  held_add(my_heap());
  CHECK_EQ(taken(), before);
  slab_thread.is_asked = true;
  held_add(my_heap());
  CHECK_EQ(taken(), before + sum_of(heap_held(my_heap())));
  held_take_off(heap_held(my_heap()));
  CHECK_EQ(taken(), before);
  fast_free(p);
}

TEST(held, no_list_is_walked_for_a_thread_that_has_not_asked_for_its_bytes, "") {
  static free_block_t no_link = {1}; /* who follows it reads where nothing is */
  fast_free(fast_malloc(64));
  heap_t *h = my_heap(); /* which walks them all */
  uintptr_t before = h->bin[class_of(64)];
  h->bin[class_of(64)] = (uintptr_t)&no_link;
  held_add(h);
  held_take_off_all(h);
  h->bin[class_of(64)] = before;
}
