/* lanes_test.c - tests of stock/lanes, and of what a first-class heap is told of itself */
enum { MANY = 20000 };
#include "kept.h"

#include "../../src/stock/lanes.h"

static fh_heap_stats_t figures(void) {
  fh_heap_stats_t stats = {.struct_size = sizeof stats};
  firstclass_stats(heap, &stats);
  return stats;
}
static void allocate_number(size_t size, size_t count) {
  for (size_t i = 0; i < count; i++) CHECK((kept[i] = firstclass_aligned(heap, 1, size)) != NULL);
}
static void free_number(size_t count) {
  for (size_t i = 0; i < count; i++) fast_free(kept[i]);
}

TEST(lanes, slabs_that_were_emptied_go_back_at_once_but_one_or_two, "F1 H3") {
  heap = firstclass_new();
  allocate_number(1000, MANY);
  CHECK_GT(figures().slab_bytes, (uint64_t)MANY * 1000);
  free_number(MANY / 2);
  CHECK_LT(figures().slab_bytes, (uint64_t)MANY * 1000 / 2 + MiB(1));
  for (size_t i = MANY / 2; i < MANY; i++) fast_free(kept[i]);
  CHECK_LE(figures().slab_bytes, (uint64_t)3 * SLICE_SIZE);
  CHECK_LE(committed(), (uint64_t)8);
  firstclass_collect_one(heap);
  CHECK_EQ(figures().slab_bytes, (uint64_t)0);
  firstclass_delete(heap);
  check_nothing_lost();
}

TEST(lanes, a_slab_that_is_used_and_emptied_again_and_again_stays, "") {
  heap = firstclass_new();
  fast_free(firstclass_aligned(heap, 1, 500));
  uint64_t before = os_fake.calls[OS_FAKE_DISCARD],
           made = atomic64_load_relaxed(&arena_counts.dirty);
  for (int i = 0; i < 1000; i++) fast_free(firstclass_aligned(heap, 1, 500));
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], before);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), made);
}

static void free_all(void *context) {
  (void)context;
  free_number(MANY);
}

TEST(lanes, slabs_that_another_thread_has_emptied_go_back_too, "F1 S-lane") {
  heap = firstclass_new();
  allocate_number(1000, MANY);
  in_thread(free_all, NULL, true);
  CHECK_LE(figures().slab_bytes, (uint64_t)3 * SLICE_SIZE);
}

TEST(lanes, a_free_while_somebody_is_in_the_lane_leaves_the_slab_to_him, "S-lane") {
  heap = firstclass_new();
  allocate_number(1000, 600);
  heap_t *lane = atomic_ptr_load_relaxed(&heap->lanes);
  uint64_t before = figures().slab_bytes;
  atomic32_store_relaxed(&lane->lane_state, LANE_BUSY);
  free_number(600);
  CHECK_EQ(figures().slab_bytes, before);
  atomic32_store_relaxed(&lane->lane_state, LANE_FREE);
  firstclass_collect_one(heap);
  CHECK_EQ(figures().slab_bytes, (uint64_t)0);
}

TEST(lanes, a_heap_that_ends_while_a_slab_is_given_back_is_ended_by_that, "S-lane") {
  heap = firstclass_new();
  allocate_number(1000, 1);
  heap_t *lane = atomic_ptr_load_relaxed(&heap->lanes);
  atomic32_store_relaxed(&lane->lane_state, LANE_COLLECTED);
  firstclass_delete(heap);
  fast_free(kept[0]); /* the lane is not free: nothing is touched */
  CHECK_EQ(atomic32_load_relaxed(&lane->lane_state), (uint32_t)LANE_DELETED);
}

TEST(lanes, large_and_huge_blocks_are_counted_through_growth_moves_and_frees, "F2") {
  heap = firstclass_new();
  char *p = firstclass_aligned(heap, 1, 100000);
  CHECK_EQ(figures().large_bytes, (uint64_t)heap_usable_size(p, "t"));
  static const size_t sizes[] = {300000, 120000, MiB(3), MiB(700), MiB(900), MiB(1), 50000};
  for (unsigned i = 0; i < ARRAY_LENGTH(sizes); i++) {
    p = firstclass_realloc(heap, p, sizes[i], "t");
    CHECK(p != NULL);
    CHECK_EQ(figures().large_bytes, (uint64_t)heap_usable_size(p, "t"));
  }
  char *other = fast_malloc(100000); /* no heap's */
  CHECK_EQ(figures().large_bytes, (uint64_t)heap_usable_size(p, "t"));
  fast_free(other);
  fast_free(p);
  CHECK_EQ(figures().large_bytes, (uint64_t)0);
}

TEST(lanes, a_quota_holds_for_slabs_and_large_blocks_together_and_what_is_freed_counts_again, "") {
  heap = firstclass_new_with("cache of pictures, whose name is long", MiB(4));
  CHECK_SAME_TEXT(figures().name, "cache of pictures, whose name i");
  CHECK_EQ(figures().quota, (uint64_t)MiB(4));
  char *large = firstclass_aligned(heap, 1, MiB(2));
  CHECK(large != NULL && firstclass_aligned(heap, 1, MiB(2) + 1) == NULL);
  size_t n = 0;
  while ((kept[n] = firstclass_aligned(heap, 1, 3000)) != NULL) n++;
  CHECK(n > 500 && n < 700);
  CHECK_EQ(figures().slab_bytes + figures().large_bytes, (uint64_t)MiB(4));
  CHECK(fast_malloc(MiB(8)) != NULL); /* the process has no limit */
  fast_free(large);
  CHECK((kept[n] = firstclass_aligned(heap, 1, 3000)) != NULL);
  free_number(n + 1);
  atomic64_store_relaxed(&heap->quota, 0);
  CHECK(firstclass_aligned(heap, 1, MiB(16)) != NULL);
  firstclass_destroy(heap);
}

TEST(lanes, at_the_quota_the_empty_slabs_of_all_lanes_make_room, "H3 S-lane") {
  heap = firstclass_new_with("t", 3 * SLICE_SIZE);
  for (size_t size = 100; size <= 1000; size += 100) {
    void *p = firstclass_aligned(heap, 1, size);
    CHECK(p != NULL);
    fast_free(p);
  }
  heap_t *first = atomic_ptr_load_relaxed(&heap->lanes);
  CHECK_EQ((unsigned)first->idle, 2u);
  atomic32_store_relaxed(&first->lane_state, LANE_BUSY); /* so that there is a second lane */
  CHECK(firstclass_aligned(heap, 1, 100) != NULL);
  atomic32_store_relaxed(&first->lane_state, LANE_FREE);
  CHECK(firstclass_aligned(heap, 1, 2000) != NULL && firstclass_aligned(heap, 1, 3000) != NULL);
  CHECK_NULL(firstclass_aligned(heap, 1, 4000));
  firstclass_destroy(heap);
  check_nothing_lost();
}

TEST(lanes, at_the_quota_a_block_grows_by_what_is_asked_for_without_headroom, "") {
  heap = firstclass_new_with("t", 2 * SLICE_SIZE);
  char *p = firstclass_aligned(heap, 1, 96);
  CHECK(p != NULL && firstclass_aligned(heap, 1, 112) != NULL);
  CHECK_GT(heap_with_headroom(96, 100), (size_t)112);
  p = firstclass_realloc(heap, p, 100, "t");
  CHECK(p != NULL && heap_usable_size(p, "t") == 112);
  firstclass_destroy(heap);
}

TEST(lanes, a_lane_that_had_another_heap_begins_at_nothing, "") {
  heap = firstclass_new();
  CHECK(firstclass_aligned(heap, 1, MiB(1)) != NULL && firstclass_aligned(heap, 1, 100) != NULL);
  firstclass_delete(heap); /* its blocks live on */
  heap = firstclass_new();
  CHECK(firstclass_aligned(heap, 1, 100) != NULL);
  CHECK_EQ(figures().slab_bytes, (uint64_t)SLICE_SIZE);
  CHECK_EQ(figures().large_bytes, (uint64_t)0);
}

TEST(lanes, a_block_tells_from_which_heap_it_comes_until_that_ends, "F1 F2") {
  static const size_t sizes[] = {1, 100, 5000, 100000, HUGE_LEAST};
  for (unsigned i = 0; i < ARRAY_LENGTH(sizes); i++) {
    heap = firstclass_new();
    void *p = firstclass_aligned(heap, 1, sizes[i]), *other = fast_malloc(sizes[i]);
    CHECK_EQ(heap_of_block(p, "t"), (void *)heap);
    CHECK_NULL(heap_of_block(other, "t"));
    firstclass_delete(heap);
    CHECK_NULL(heap_of_block(p, "t"));
    fast_free(p);
    fast_free(other);
  }
  CHECK_NULL(heap_of_block(fast_malloc(0), "t"));
}
