/* firstclass_test.c - tests of heap/firstclass */
enum { MANY = 2000 };
#include <sched.h>
#include <setjmp.h>

#include "kept.h"

TEST(firstclass, its_blocks_lie_in_slabs_of_its_own, "F1") {
  size_t size = 100;
  heap = firstclass_new();
  allocate(&size);
  for (int i = 0; i < 100; i++) fast_malloc(100);
  char *other = fast_malloc(100);
  fh_heap_t *second = firstclass_new();
  char *theirs = firstclass_aligned(second, 1, 100);
  for (int i = 0; i < MANY; i++) {
    CHECK_EQ(atomic_ptr_load_relaxed(&slab_of(kept[i])->tag), (void *)heap);
    CHECK(slab_of(kept[i]) != slab_of(other) && slab_of(kept[i]) != slab_of(theirs));
  }
  CHECK_NULL(atomic_ptr_load_relaxed(&slab_of(other)->tag));
}

TEST(firstclass, destroying_it_gives_back_all_its_blocks_of_every_size, "F1") {
  static const size_t sizes[] = {16, 100, 5000, 100000, HUGE_LEAST};
  for (int round = 0; round < 2; round++) {
    heap = firstclass_new();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
      for (int k = 0; k < (sizes[i] < MiB(1) ? 200 : 3); k++)
        CHECK(firstclass_aligned(heap, 1, sizes[i]) != NULL);
    CHECK_EQ(atomic64_load_relaxed(&heap_counts.huge_live), (uint64_t)3);
    firstclass_destroy(heap);
    check_nothing_lost();
  }
  firstclass_destroy(NULL);
}

TEST(firstclass, deleting_it_leaves_its_blocks_to_be_freed_one_by_one, "F1") {
  static const size_t sizes[] = {100, 5000, 100000};
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
    size_t size = sizes[i];
    heap = firstclass_new();
    allocate(&size);
    char *huge = firstclass_aligned(heap, 1, HUGE_LEAST);
    firstclass_delete(heap);
    for (int k = 0; k < MANY && size <= SMALL_MOST; k++)
      CHECK_NULL(atomic_ptr_load_relaxed(&slab_of(kept[k])->tag));
    heap_t *h = my_heap();
    CHECK_NULL(heap_tag(h));
    for (int k = 0; k < MANY; k++) CHECK_BYTES(kept[k], k, size);
    release(NULL);
    fast_free(huge);
    check_nothing_lost();
  }
  firstclass_delete(NULL);
}

TEST(firstclass, what_is_freed_is_used_again_by_the_same_heap, "F1") {
  size_t size = 1000;
  heap = firstclass_new();
  allocate(&size);
  uint64_t before = committed();
  for (int round = 0; round < 6; round++) {
    if (round % 2) in_thread(release, NULL, true);
    else release(NULL);
    allocate(&size);
  }
  CHECK_LE(committed(), before + before / 8 + 8);
  firstclass_destroy(heap);
  check_nothing_lost();
}

TEST(firstclass, a_freed_block_is_published_at_once_so_that_no_thread_holds_one_at_its_end, "F1") {
  size_t size = 64;
  heap = firstclass_new();
  allocate(&size);
  in_thread(release, NULL, false); /* a thread that does nothing more */
  firstclass_destroy(heap);
  check_nothing_lost();
}

TEST(firstclass, an_aligned_block_of_no_bytes_is_small_and_needs_no_place_in_the_index, "") {
  heap = firstclass_new();
  void *p = firstclass_aligned(heap, 64, 0);
  heap_t *lane = atomic_ptr_load_relaxed((atomic_ptr_t *)heap);
  CHECK(p != NULL && (uintptr_t)p % 64 == 0);
  CHECK_NULL(atomic_ptr_load_relaxed(&lane->index));
}

TEST(firstclass, a_big_block_is_resized_without_a_copy_and_stays_the_heaps, "F1") {
  fh_heap_t *heap = firstclass_new();
  char *p = firstclass_aligned(heap, 1, KiB(600)), *wall;
  p[5] = 6;
  CHECK_EQ(firstclass_realloc(heap, p, MiB(1), "t"), (void *)p);
  CHECK((wall = fast_malloc(KiB(100))) != NULL);
  char *q = firstclass_realloc(heap, p, MiB(3), "t");
  CHECK(map_kind(map_find(q)) == TENANT_HUGE && q[5] == 6);
  CHECK_EQ(os_fake.calls[OS_FAKE_MOVE], 1u);
  CHECK_EQ(firstclass_realloc(heap, q, MiB(20), "t"), (void *)q);
  firstclass_destroy(heap);
  CHECK(map_kind(map_find(q)) == TENANT_NONE);
  fast_free(wall);
  check_nothing_lost();
}

TEST(firstclass, a_small_block_that_grows_a_little_at_a_time_is_seldom_copied, "") {
  unsigned copies = 0;
  heap = firstclass_new();
  char *p = firstclass_aligned(heap, 1, 100), *q;
  for (size_t size = 108; size <= KiB(8); size += 8, p = q) {
    q = firstclass_realloc(heap, p, size, "t");
    copies += q != p;
  }
  CHECK_LE(copies, 22u);                         /* by a quarter each, from 112 bytes */
  p = firstclass_realloc(heap, p, KiB(15), "t"); /* that is more than a quarter */
  CHECK_EQ(heap_usable_size(p, "t"), heap_good_size(KiB(15), 1));
  firstclass_destroy(heap);
  check_nothing_lost();
}

TEST(firstclass, cleared_blocks_and_realloc_are_its_own_too, "F1 A3") {
  heap = firstclass_new();
  char *p = heap_clear(firstclass_aligned(heap, 1, 200), 200);
  CHECK_BYTES(p, 0, 200);
  memset(p, 1, 200);
  p = firstclass_realloc(heap, p, 2000, "t");
  CHECK_BYTES(p, 1, 200);
  CHECK_EQ(atomic_ptr_load_relaxed(&slab_of(p)->tag), (void *)heap);
  p = firstclass_realloc(heap, p, 150, "t");
  CHECK_BYTES(p, 1, 150);
  char *q = firstclass_aligned(heap, 1, 50);
  CHECK_EQ(atomic_ptr_load_relaxed(&slab_of(q)->tag), (void *)heap);
  heap_free(q, "t");
  CHECK_NULL(firstclass_realloc(heap, p, SIZE_MAX, "t"));
  for (size_t alignment = 32; alignment <= MiB(1); alignment *= 2)
    CHECK_EQ((uintptr_t)firstclass_aligned(heap, alignment, 50) % alignment, (uintptr_t)0);
  firstclass_destroy(heap);
  check_nothing_lost();
}

static void allocate_inside(os_fake_call_t call, void *at, size_t size) {
  (void)call, (void)at, (void)size;
  os_fake.before = NULL;
  /* a signal handler, or another thread, in the middle of a call */
  kept[1] = firstclass_aligned(heap, 1, 100);
}

TEST(firstclass, whoever_comes_while_a_lane_is_taken_gets_another_and_waits_for_nobody,
     "F1 S-lane") {
  heap = firstclass_new();
  os_fake.before = allocate_inside;
  kept[0] = firstclass_aligned(heap, 1, 300000);
  while (os_fake.before != NULL) firstclass_aligned(heap, 1, 300000);
  CHECK(kept[1] != NULL);
  memset(kept[1], 1, 100);
  CHECK_EQ(atomic_ptr_load_relaxed(&slab_of(kept[1])->tag), (void *)heap);
  firstclass_destroy(heap);
  check_nothing_lost();
}

TEST(firstclass, without_memory_it_says_so_and_works_again_later, "F1") {
  heap = firstclass_new();
  os_fake.most_mapped = os_fake.mapped;
  int count = 0;
  while (firstclass_aligned(heap, 1, 60000) != NULL) count++;
  CHECK_GT(count, 5);
  os_fake.most_mapped = GiB(10);
  CHECK(firstclass_aligned(heap, 1, 60000) != NULL);
  firstclass_destroy(heap);
  check_nothing_lost();
}

static void use(unsigned number) {
  uint64_t state = number;
  char *mine[50] = {0};
  for (int i = 0; i < 10000; i++) {
    unsigned k = core_next(&state) % 50;
    if (mine[k] != NULL) {
      CHECK_BYTES(mine[k], number + 1, 40);
      fast_free(mine[k]);
    }
    mine[k] = firstclass_aligned(heap, 1, 40 + core_next(&state) % 600);
    memset(mine[k], (int)number + 1, 40);
  }
  os_fake_end_thread();
}

TEST(firstclass, threads_share_it_without_sharing_a_block, "F1 S-lane S-lanes") {
  heap = firstclass_new();
  core_threads(4, use);
  firstclass_destroy(heap);
  check_nothing_lost();
}

TEST(firstclass, what_it_has_given_back_carries_its_tag_no_more, "F1 F2") {
  heap = firstclass_new();
  char *small = firstclass_aligned(heap, 1, 100), *large = firstclass_aligned(heap, 1, 100000);
  char *moved = firstclass_aligned(heap, 1, MiB(1));
  slab_t *slabs[] = {slab_of(small), slab_of(large), slab_of(moved)};
  for (size_t i = 0; i < ARRAY_LENGTH(slabs); i++)
    CHECK(atomic_ptr_load_relaxed(&slabs[i]->tag) != NULL);
  fast_free(large);
  CHECK(large_move_to_huge(slabs[2], moved, MiB(64)) != NULL);
  CHECK_NULL(atomic_ptr_load_relaxed(&slabs[1]->tag));
  CHECK_NULL(atomic_ptr_load_relaxed(&slabs[2]->tag));
  firstclass_destroy(heap);
  CHECK_NULL(atomic_ptr_load_relaxed(&slabs[0]->tag));
}

TEST(firstclass, a_heap_without_contents_is_ended_class_by_class_that_it_has_used, "") {
  for (size_t size = 1; size <= SMALL_MOST; size += 200) {
    heap = firstclass_new();
    firstclass_aligned(heap, 1, size);
    heap_t *lane = atomic_ptr_load_relaxed((atomic_ptr_t *)heap);
    unsigned c = heap_next_class(lane, 0);
    CHECK_EQ(c, class_of(size));
    CHECK_EQ(heap_next_class(lane, c), 0u);
    firstclass_destroy(heap);
    CHECK_EQ(heap_next_class(lane, 0), 0u);
  }
  check_nothing_lost();
}

/* ---- slabs that are not used again ----------------------------------------------------------- */

enum { LIVE = 4 << 20, PHASES = 24 };
static struct {
  char *p;
  size_t size;
} queue[LIVE / 32 + 1];

/* Blocks that live equally long, of a size that grows. How many slices there are at most in the end
 * of a phase. */
static uint64_t most_committed_of_phases(void) {
  size_t live = 0, head = 0, tail = 0;
  uint64_t most = 0;
  for (size_t phase = 0; phase < PHASES; phase++) {
    size_t size = 32 + phase * 144;
    for (size_t n = 0; n < LIVE + LIVE / 4; n += size) {
      for (; live + size > LIVE; live -= queue[tail++ % ARRAY_LENGTH(queue)].size)
        fast_free(queue[tail % ARRAY_LENGTH(queue)].p);
      char *p = firstclass_aligned(heap, 1, size);
      CHECK(p != NULL);
      queue[head % ARRAY_LENGTH(queue)].p = p;
      queue[head++ % ARRAY_LENGTH(queue)].size = size;
      live += size;
    }
    most = max_size(most, committed());
  }
  for (; tail != head; tail++) fast_free(queue[tail % ARRAY_LENGTH(queue)].p);
  return most;
}

TEST(firstclass, slabs_of_classes_that_it_does_not_use_any_more_go_back, "F1") {
  heap = firstclass_new();
  CHECK_LE(most_committed_of_phases(), (uint64_t)2 * LIVE / SLICE_SIZE);
  for (int i = 0; i < 100000; i++) fast_free(firstclass_aligned(heap, 1, 100));
  CHECK_LE(committed(), 8u); /* also while one block is enough for it */
  firstclass_destroy(heap);
  check_nothing_lost();
}

TEST(firstclass, its_slabs_go_back_while_only_large_blocks_are_allocated, "F1") {
  size_t size = 2000;
  heap = firstclass_new();
  allocate(&size);
  release(NULL);
  for (int i = 0; i < 8000; i++) fast_free(firstclass_aligned(heap, 1, 100000));
  CHECK_LE(committed(), 8u);
  firstclass_destroy(heap);
  check_nothing_lost();
}

/* While somebody is in the lane: slabs that are emptied then stay. */
static void release_unseen(void) {
  heap_t *lane = atomic_ptr_load_relaxed((atomic_ptr_t *)heap);
  atomic32_store_relaxed(&lane->lane_state, LANE_BUSY);
  in_thread(release, NULL, true);
  atomic32_store_relaxed(&lane->lane_state, LANE_FREE);
}

TEST(firstclass, a_collection_finds_what_a_heap_keeps_and_does_not_use, "F1 S-lane") {
  size_t size = 1000;
  heap = firstclass_new();
  allocate(&size);
  char *stays = firstclass_aligned(heap, 1, 48);
  memset(stays, 5, 48);
  release_unseen();
  CHECK_GT(committed(), 20u);
  heap_collect(true);
  CHECK_LE(committed(), 2u); /* the heap's own record and the block that stays */
  CHECK_BYTES(stays, 5, 48);
  CHECK_EQ(visited(heap), 1u);
  allocate(&size);
  CHECK_EQ(visited(heap), (unsigned)MANY + 1);
  firstclass_delete(heap);
  release(NULL);
  fast_free(stays);
  check_nothing_lost();
}

static atomic32_t collecting;

static void end_or_collect(unsigned number) {
  if (number == 0) {
    while (atomic32_load_relaxed(&collecting) != 0) firstclass_collect();
  } else {
    for (int round = 0; round < 2000; round++) {
      fh_heap_t *mine = firstclass_new();
      char *small = firstclass_aligned(mine, 1, 200), *large = firstclass_aligned(mine, 1, 40000);
      memset(small, round, 200);
      if (round % 2 == 0) fast_free(small);
      for (int i = 0; i < round % 8; i++) firstclass_aligned(mine, 1, 3000);
      if (round % 2 == 1) CHECK_BYTES(small, (char)round, 200);
      if (round % 4 == 3) fast_free(large);
      firstclass_destroy(mine);
    }
    atomic32_add_relaxed(&collecting, 0u - 1);
  }
  os_fake_end_thread();
}

TEST(firstclass, one_may_end_while_a_collection_is_inside_and_neither_waits, "F1 S-lane") {
  atomic32_store_relaxed(&collecting, 2);
  core_threads(3, end_or_collect);
  check_nothing_lost();
}

TEST(firstclass, a_lane_in_which_a_thread_has_stopped_is_not_collected_and_ends_all_the_same, "") {
  size_t size = 1000;
  heap = firstclass_new();
  allocate(&size);
  release_unseen();
  heap_t *lane = atomic_ptr_load_relaxed((atomic_ptr_t *)heap);
  atomic32_store_relaxed(&lane->lane_state, LANE_BUSY);
  heap_collect(true);
  CHECK_GT(committed(), 20u);
  firstclass_destroy(heap);
  check_nothing_lost();
}

enum { HANDED = 150, HAND_ROUNDS = 300 };
static void *handed[HANDED];
static atomic32_t hand_round;

/* One makes a heap and ends it, the other frees its blocks meanwhile. */
static void end_or_free(unsigned number) {
  for (uint32_t round = 0; round < HAND_ROUNDS; round++) {
    fh_heap_t *mine = NULL;
    if (number == 0) {
      mine = firstclass_new();
      for (int i = 0; i < HANDED; i++)
        handed[i] = firstclass_aligned(mine, 1, i % 9 ? 2000 : 40000);
      atomic32_store_release(&hand_round, 2 * round + 1);
      if (round % 3 == 0) firstclass_collect();
      firstclass_delete(mine);
      while (atomic32_load_acquire(&hand_round) != 2 * round + 2) sched_yield();
      continue;
    }
    while (atomic32_load_acquire(&hand_round) != 2 * round + 1) sched_yield();
    for (int i = 0; i < HANDED; i++) fast_free(handed[i]);
    atomic32_store_release(&hand_round, 2 * round + 2);
  }
  os_fake_end_thread();
}

TEST(firstclass, blocks_may_be_freed_while_their_heap_is_deleted, "F1 F2 S-lane timeout=120") {
  core_threads(2, end_or_free);
  check_nothing_lost();
}

/* As if a thread had stopped in the middle of taking the free blocks of a slab. */
static heap_t *stop_between_two_steps(void) {
  heap = firstclass_new();
  kept[1] = firstclass_aligned(heap, 1, 40000);
  heap_t *lane = atomic_ptr_load_relaxed((atomic_ptr_t *)heap);
  do kept[0] = firstclass_aligned(heap, 1, 100);
  while (lane->bin[class_of(100)] == 0);
  heap_collect(true); /* what was in the bin is on the slab's list now */
  slab_t *s = slab_of(kept[0]);
  CHECK_GT(slab_private_count(s), 0u);
  s->head = 0;
  atomic32_store_relaxed(&lane->lane_state, LANE_BUSY);
  return lane;
}

TEST(firstclass, a_heap_that_is_deleted_leaves_a_lane_as_a_stopped_thread_has_left_it, "") {
  heap_t *lane = stop_between_two_steps();
  firstclass_delete(heap);
  CHECK_EQ(atomic32_load_relaxed(&lane->lane_state), (uint32_t)LANE_BUSY);
  CHECK(heap_of_block(kept[0], "t") == NULL && heap_of_block(kept[1], "t") == NULL);
  fast_free(kept[0]);
  fast_free(kept[1]);
  heap_collect(true);
  CHECK_EQ(committed(), (uint64_t)1); /* the slab */
  for (int i = 0; i < 3; i++) CHECK(firstclass_new() != NULL);
  for (int i = 0; i < MANY; i++) CHECK(slab_of(fast_malloc(100)) != slab_of(kept[0]));
}

TEST(firstclass, a_heap_that_is_destroyed_frees_what_a_stopped_thread_has_left_in_a_lane, "") {
  stop_between_two_steps();
  firstclass_destroy(heap);
  check_nothing_lost();
}

static size_t count_heaps(void) {
  size_t count = 0;
  bool is_claimed;
  for (size_t i = 0; i < pool_size(); i++)
    if (pool_at(i, &is_claimed) != NULL) count += is_claimed;
  return count;
}

static jmp_buf outside;
static bool jump_out(void *block, size_t usable, void *context) {
  (void)block, (void)usable, (void)context;
  longjmp(outside, 1);
}

TEST(firstclass, a_visitor_that_jumps_out_costs_no_heap_and_no_memory_once_the_heap_has_ended, "") {
  volatile size_t before = 0;
  for (volatile int i = 0; i < 50; i++) {
    heap = firstclass_new();
    kept[0] = firstclass_aligned(heap, 1, i % 2 == 0 ? 100 : 40000);
    if (setjmp(outside) == 0) firstclass_visit(heap, &(visitor_t){.blocks = jump_out});
    else fast_free(firstclass_aligned(heap, 1, 100)); /* it can be used as before */
    fast_free(kept[0]);
    if (i % 3 == 0) firstclass_delete(heap);
    else firstclass_destroy(heap);
    if (i == 3) before = count_heaps();
  }
  CHECK_EQ(count_heaps(), before);
  check_nothing_lost();
}

TEST(firstclass, a_heap_that_ends_leaves_a_collected_lane_to_the_collection, "S-lane") {
  heap = firstclass_new();
  void *p = firstclass_aligned(heap, 1, 1000);
  heap_t *lane = atomic_ptr_load_relaxed((atomic_ptr_t *)heap);
  atomic32_store_relaxed(&lane->lane_state, LANE_COLLECTED);
  CHECK_EQ(heap_of_block(p, "t"), (void *)heap);
  firstclass_destroy(heap);
  CHECK_NULL(heap_of_block(p, "t")); /* nobody has freed it yet */
  CHECK_EQ(atomic32_load_relaxed(&lane->lane_state), (uint32_t)LANE_DESTROYED);
  CHECK(heap_tag(lane) != NULL);
}

TEST(firstclass, a_block_that_gets_smaller_stays_if_there_is_no_memory_for_another, "") {
  heap = firstclass_new();
  char *p = firstclass_aligned(heap, 1, 8000);
  os_fake.most_mapped = os_fake.mapped;
  while (firstclass_aligned(heap, 1, 100) != NULL) continue;
  CHECK_EQ(firstclass_realloc(heap, p, 100, "t"), (void *)p);
}

/* ---- realloc into a heap --------------------------------------------------------------------- */

TEST(firstclass, a_block_with_room_where_it_lies_stays_with_the_heap_from_which_it_came, "") {
  fh_heap_t *h = firstclass_new();
  char *p = fast_malloc(MiB(1));
  memset(p, 7, 100000);
  CHECK_EQ(firstclass_realloc(h, p, 100000, "t"), (void *)p);
  CHECK_NULL(heap_of_block(p, "t"));
  CHECK_LE(heap_usable_size(p, "t"), align_up(100000, 2 * os_page_size()));
  firstclass_destroy(h);
  CHECK_BYTES(p, 7, 100000);
  fast_free(p);
}

TEST(firstclass, a_realloc_that_fails_to_grow_a_block_leaves_none_longer, "") {
  fh_heap_t *h = firstclass_new_with("t", MiB(1));
  char *p = firstclass_aligned(h, 1, 1000);
  CHECK_NULL(firstclass_realloc(h, p, MiB(2), "t"));
  CHECK_EQ(atomic32_load_relaxed(&heap_longer), 0u);
  firstclass_destroy(h);
}
