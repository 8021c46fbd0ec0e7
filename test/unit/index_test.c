/* index_test.c - tests of stock/index: the large and huge blocks of heaps that the program makes */
enum { MANY = 2000 };
#include "kept.h"

#include <sys/mman.h>

#include "../../src/arena/places.h"
#include "../../src/stock/lanes.h"

/* Windows full of others' blocks, whose descriptors nobody may look at from now on. */
enum { FULL = 2 };
static void fill_windows(void) {
  char *p;
  for (size_t size = MiB(8); size >= SLICE_SIZE; size /= 2) {
    do CHECK((p = in_slices(size)) != NULL);
    while (arena_of(p)->number < FULL);
  }
}
static void hide_others(int protection) {
  for (size_t i = 0; i < FULL; i++) { /* except the page with the arena's head */
    char *head = (char *)arena_at(i);
    CHECK_EQ(mprotect(head + 4096, WINDOW_SLICES * DESCRIPTOR_SIZE - 4096, protection), 0);
  }
}

static void take_some(void) {
  for (int i = 0; i < 20; i++) kept[i] = firstclass_aligned(heap, 1, 100);
  for (int i = 20; i < 40; i++) kept[i] = firstclass_aligned(heap, 1, 100000);
  for (int i = 40; i < 42; i++) kept[i] = firstclass_aligned(heap, 1, HUGE_LEAST);
}

TEST(index, making_visiting_and_ending_it_touches_nothing_of_the_rest_of_the_process, "F2") {
  fill_windows();
  hide_others(PROT_NONE);
  for (int round = 0; round < 4; round++) {
    heap = firstclass_new();
    if (round >= 2) take_some();
    CHECK_EQ(visited(heap), round >= 2 ? 42u : 0u);
    if (round % 2 == 0) {
      firstclass_destroy(heap);
    } else {
      firstclass_delete(heap);
      for (int i = 0; i < 42; i++) fast_free(kept[i]);
    }
  }
  hide_others(PROT_READ | PROT_WRITE);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.huge_live), (uint64_t)0);
}

TEST(index, a_cell_that_has_a_block_is_found, "F2") {
  heap = firstclass_new();
  slab_t *s = slab_of(firstclass_aligned(heap, 1, 100000));
  EXPECT_ABORT(index_set(atomic_ptr_load_relaxed(&s->cell), s, false), "invariant F2");
}

static void free_odd(void *context) {
  (void)context;
  for (int i = 1; i < MANY; i += 2) fast_free(kept[i]);
}

TEST(index, what_other_threads_freed_of_its_large_blocks_is_not_freed_again, "F2 S-index") {
  size_t size = 40000;
  for (int round = 0; round < 4; round++) {
    heap = firstclass_new();
    allocate(&size);
    in_thread(free_odd, NULL, round % 2 == 0);
    CHECK_EQ(visited(heap), (unsigned)MANY / 2);
    if (round < 2) {
      firstclass_destroy(heap);
    } else {
      firstclass_delete(heap);
      for (int i = 0; i < MANY; i += 2) fast_free(kept[i]);
    }
    check_nothing_lost();
  }
}

TEST(index, the_blocks_of_a_deleted_heap_are_not_those_of_a_later_one_at_its_address, "F2") {
  heap = firstclass_new();
  fh_heap_t *before = heap;
  take_some();
  firstclass_delete(heap);
  heap_collect(false);
  for (int i = 0; i < 5000 && (heap = firstclass_new()) != before;) i++;
  CHECK_EQ(heap, before);
  char *own = firstclass_aligned(heap, 1, 100000);
  CHECK_EQ(visited(heap), 1u);
  for (int i = 0; i < 42; i += 2) fast_free(kept[i]);
  memset(own, 1, 100000);
  firstclass_destroy(heap);
  memset(kept[21], 1, 100000);
  for (int i = 1; i < 42; i += 2) fast_free(kept[i]);
  check_nothing_lost();
}

TEST(index, a_heap_that_ends_while_a_collection_is_inside_has_no_blocks_from_then_on, "F2 S-lane") {
  heap = firstclass_new();
  fh_heap_t *before = heap;
  slab_t *s = slab_of(firstclass_aligned(heap, 1, 100000));
  void *tag = atomic_ptr_load_relaxed(&s->tag);
  heap_t *lane = atomic_ptr_load_relaxed((atomic_ptr_t *)heap);
  CHECK(index_heap(tag) == heap);
  atomic32_store_relaxed(&lane->lane_state, LANE_COLLECTED);
  firstclass_delete(heap);
  CHECK(index_heap(tag) != before);
}

TEST(index, blocks_that_moved_are_found_where_they_are, "F2") {
  for (int round = 0; round < 2; round++) {
    heap = firstclass_new();
    char *p = firstclass_aligned(heap, 1, MiB(1)), *q = firstclass_aligned(heap, 1, MiB(1));
    p = large_move_to_huge(slab_of(p), p, MiB(64));
    CHECK(p != NULL);
    huge_t *b = map_record(map_find(p));
    p = huge_resize(b, GiB(2));
    CHECK(p != NULL && resize_large(q, KiB(300)));
    CHECK_EQ(visited(heap), 2u);
    if (round == 1) fast_free(p);
    firstclass_destroy(heap);
    check_nothing_lost();
  }
}

static unsigned chunks(void) {
  unsigned n = 0;
  heap_t *lane = atomic_ptr_load_relaxed((atomic_ptr_t *)heap);
  for (void **c = atomic_ptr_load_relaxed(&lane->index); c != NULL; c = *c) n++;
  return n;
}

static fh_heap_t *later;
static unsigned calls_until_deleted;
static void delete_between(os_fake_call_t call, void *at, size_t size) {
  (void)call, (void)at, (void)size;
  if (--calls_until_deleted != 0) return;
  os_fake.before = NULL;
  firstclass_delete(heap);
  heap_collect(false);
  for (int i = 0; i < 5000 && (later = firstclass_new()) != heap;) i++;
  CHECK_EQ(later, heap); /* at the same address */
}

TEST(index, a_block_that_moves_while_its_heap_is_deleted_is_no_later_heaps, "F2") {
  unsigned calls;
  for (calls = 1; later != NULL || calls == 1; calls++) {
    heap = firstclass_new();
    char *p = firstclass_aligned(heap, 1, KiB(600)), *wall = fast_malloc(KiB(100));
    p[5] = 6;
    later = NULL;
    calls_until_deleted = calls;
    os_fake.before = delete_between;
    char *q = any_realloc(p, MiB(70), "t");
    os_fake.before = NULL;
    if (later == NULL) firstclass_delete(heap);
    else firstclass_destroy(later);
    CHECK(map_kind(map_find(q)) == TENANT_HUGE && q[5] == 6);
    fast_free(q);
    fast_free(wall);
    check_nothing_lost();
  }
  CHECK_GT(calls, 3u);
}

TEST(index, the_index_of_its_large_blocks_is_as_large_as_their_number_and_used_again, "F2") {
  enum { ROUNDS = 40000, LEAST = MANY / 56 };
  size_t size = 20000;
  uint64_t state = 7;
  heap = firstclass_new();
  CHECK(firstclass_aligned(heap, 1, size) != NULL);
  CHECK_EQ(chunks(), 1u);
  CHECK_EQ(visited(NULL), 2u); /* the block and the heap, nothing else of ours */
  allocate(&size);
  for (int i = 0; i < ROUNDS; i++) { /* at first in the order in which they came, then in any */
    unsigned k = i < ROUNDS / 2 ? (unsigned)i % MANY : core_next(&state) % MANY;
    fast_free(kept[k]);
    kept[k] = firstclass_aligned(heap, 1, size);
  }
  CHECK_LE(chunks(), (unsigned)LEAST + LEAST / 4);
  CHECK_EQ(visited(heap), (unsigned)MANY + 1);
  firstclass_destroy(heap);
  check_nothing_lost();
}

/* Bursts of blocks that come and go, beside many that stay. */
TEST(index, bursts_do_not_make_the_index_grow, "F2") {
  enum { STAY = 4000, BURST = 200, BURSTS = 3000 };
  void *burst[BURST];
  heap = firstclass_new();
  for (int i = 0; i < STAY; i++) CHECK(firstclass_aligned(heap, 1, 20000) != NULL);
  for (int round = 0; round < BURSTS; round++) {
    for (int i = 0; i < BURST; i++) burst[i] = firstclass_aligned(heap, 1, 20000);
    for (int i = 0; i < BURST; i++) fast_free(burst[i]);
  }
  CHECK_LE(chunks(), (unsigned)(STAY + BURST) / 56 + 8);
}

TEST(index, a_large_block_for_which_the_index_has_no_room_is_refused, "F2") {
  heap = firstclass_new();
  CHECK(firstclass_aligned(heap, 1, 100) != NULL); /* the lane is there, its index is not */
  os_fake.most_mapped = os_fake.mapped;
  while (fast_malloc(100000) != NULL) continue;
  while (fast_malloc(512) != NULL) continue;
  CHECK_NULL(firstclass_aligned(heap, 1, 100000));
  CHECK_EQ(visited(heap), 1u);
}

/* As while one is freed whose size its holder has not counted yet. */
TEST(index, blocks_that_are_counted_out_before_they_are_counted_in_are_no_use_of_a_quota, "F2") {
  heap = firstclass_new();
  void *p = firstclass_aligned(heap, 1, 100000);
  const void *cell = atomic_ptr_load_relaxed(&slab_of(p)->cell);
  uint64_t bytes = lanes_use(heap).bytes;
  index_count(cell, 0 - 2 * bytes);
  CHECK_EQ(lanes_use(heap).bytes, (uint64_t)0);
  index_count(cell, 2 * bytes);
  CHECK_EQ(lanes_use(heap).bytes, bytes);
}

/* Marks are counted modulo 2^16. */
TEST(index, a_block_that_outlives_its_heap_by_very_many_others_counts_for_none_of_them, "F2") {
  heap = firstclass_new();
  void *p = firstclass_aligned(heap, 1, 100000);
  const void *cell = atomic_ptr_load_relaxed(&slab_of(p)->cell);
  uint64_t bytes = lanes_use(heap).bytes;
  firstclass_delete(heap);
  for (int i = 0; i < 1 << 16; i++) {
    heap = firstclass_new();
    CHECK(firstclass_aligned(heap, 1, 100000) != NULL);
    index_count(cell, 0 - bytes);
    CHECK_EQ(lanes_use(heap).bytes, bytes);
    firstclass_destroy(heap);
  }
}

/* The free of a block may be overtaken by the end of its heap, whose lane is then given back. */
TEST(index, who_frees_a_large_block_reads_nothing_of_the_lane, "F2") {
  enum { HEAPS_SIZE = PLACES_IN_CHUNK * sizeof(heap_t) };
  static const size_t sizes[] = {100000, HUGE_LEAST};
  my_heap();
  for (int i = 1; i < PLACES_IN_CHUNK; i++) CHECK(pool_claim() != NULL);
  heap = firstclass_new();
  for (unsigned i = 0; i < ARRAY_LENGTH(sizes); i++)
    kept[i] = firstclass_aligned(heap, 1, sizes[i]);
  heap_t *lane = atomic_ptr_load_relaxed(&heap->lanes);
  CHECK_EQ(heap_number(lane), (uint32_t)PLACES_IN_CHUNK);
  CHECK_EQ(mprotect(lane, HEAPS_SIZE, PROT_NONE), 0);
  for (unsigned i = 0; i < ARRAY_LENGTH(sizes); i++) fast_free(kept[i]);
  CHECK_EQ(mprotect(lane, HEAPS_SIZE, PROT_READ | PROT_WRITE), 0);
  CHECK_EQ(lanes_use(heap).bytes, (uint64_t)0);
}
