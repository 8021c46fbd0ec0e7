/* large_test.c - tests of stock/large */
#include "heaps.h"

static slab_t *slab(void *p) { return slab_of(p); }
static size_t slices(void *p) { return atomic16_load_relaxed(&slab(p)->slices); }

TEST(large, a_block_has_the_fewest_slices_and_ends_with_a_page, "L1") {
  for (os_fake.page_size = 4096; os_fake.page_size <= 65536; os_fake.page_size *= 4)
    for (size_t size = SMALL_MOST + 1; size < MiB(1); size += 9999) {
      char *p = large_malloc(my_heap(), size, 1);
      CHECK_EQ((uintptr_t)p % SLICE_SIZE, (uintptr_t)0);
      CHECK_EQ(slices(p), (size + SLICE_SIZE - 1) / SLICE_SIZE);
      CHECK_EQ(heap_usable_size(p, "t"), align_up(size, os_fake.page_size));
      CHECK(large_is_valid(slab(p)));
      memset(p, 1, heap_usable_size(p, "t"));
      fast_free(p);
    }
  os_fake.page_size = 4096;
  check_nothing_lost();
}

TEST(large, the_slices_behind_the_first_have_no_descriptor_of_their_own, "I5") {
  char *p = large_malloc(my_heap(), 5 * SLICE_SIZE, 1);
  for (size_t i = 1; i < 5; i++) CHECK(slab_kind(slab_word(slab(p + i * SLICE_SIZE))) == SLAB_NONE);
  CHECK(slab_kind(slab_word(slab(p))) == SLAB_LARGE);
  CHECK(resize_large(p, 9 * SLICE_SIZE));
  for (size_t i = 1; i < 9; i++) CHECK(slab_kind(slab_word(slab(p + i * SLICE_SIZE))) == SLAB_NONE);
  fast_free(p);
  CHECK(slab_kind(slab_word(slab(p))) == SLAB_NONE);
}

TEST(large, a_block_or_a_kind_that_is_not_as_it_should_be_is_seen, "L1 I5") {
  char *p = large_malloc(my_heap(), 5 * SLICE_SIZE, 1);
  CHECK(slab_kinds_are_valid(arena_of(p)));
  EXPECT_ABORT(
    (atomic32_store_relaxed(&slab(p + SLICE_SIZE)->kind, 1), slab_kinds_are_valid(arena_of(p))),
    "invariant I5");
  EXPECT_ABORT(
    (atomic32_store_relaxed(&slab(p + 5 * SLICE_SIZE)->kind, 1), slab_kinds_are_valid(arena_of(p))),
    "invariant I5");
  EXPECT_ABORT((atomic16_store_relaxed(&slab(p)->slices, 8), large_is_valid(slab(p))),
               "invariant L1");
  EXPECT_ABORT(
    (atomic64_store_relaxed(&slab(p)->size, 5 * SLICE_SIZE - 1), large_is_valid(slab(p))),
    "invariant L1");
}

TEST(large, a_block_knows_if_its_memory_still_reads_as_zero, "A3") {
  char *p = large_malloc(my_heap(), MiB(1), 1);
  CHECK(large_is_clean(p));
  CHECK_BYTES(p, 0, MiB(1));
  memset(p, 1, MiB(1));
  fast_free(p);
  CHECK_EQ(large_malloc(my_heap(), MiB(1), 1), (void *)p);
  CHECK(!large_is_clean(p));
  fast_free(p);
  purge_all();
  CHECK_EQ(large_malloc(my_heap(), MiB(1), 1), (void *)p);
  CHECK(large_is_clean(p));
  CHECK_BYTES(p, 0, MiB(1));
}

TEST(large, a_block_grows_into_free_slices_behind_it_and_gives_its_tail_back, "L1 I5") {
  char *p = large_malloc(my_heap(), 3 * SLICE_SIZE, 1);
  memset(p, 7, 3 * SLICE_SIZE);
  uint64_t before = committed();
  CHECK(resize_large(p, 6 * SLICE_SIZE + 1));
  CHECK_EQ(slices(p), 7u);
  CHECK(large_is_valid(slab(p)));
  CHECK_EQ(committed(), before + 4);
  CHECK_EQ(heap_usable_size(p, "t"), 6 * SLICE_SIZE + os_page_size());
  CHECK_BYTES(p, 7, 3 * SLICE_SIZE);
  char *wall = large_malloc(my_heap(), SLICE_SIZE, 1);
  CHECK_EQ(wall, p + 7 * SLICE_SIZE);
  CHECK(resize_large(p, 7 * SLICE_SIZE));
  CHECK(!resize_large(p, 7 * SLICE_SIZE + 1));
  CHECK_EQ(slices(p), 7u);
  CHECK(resize_large(p, SMALL_MOST + 1));
  CHECK_EQ(slices(p), 1u);
  CHECK(!resize_large(p, SMALL_MOST)); /* that is for a small block */
  CHECK_EQ(committed(), before - 3 + 1 + 1);
  fast_free(p);
  fast_free(wall);
  check_nothing_lost();
}

TEST(large, its_room_to_grow_stays_when_it_grows_within_its_last_page, "L1") {
  char *p = large_with_headroom(my_heap(), 3 * SLICE_SIZE + 100, 4 * SLICE_SIZE);
  CHECK(resize_large(p, 3 * SLICE_SIZE + 200));
  CHECK_EQ(slices(p), 4u);
  fast_free(p);
  check_nothing_lost();
}

TEST(large, no_memory_is_null_and_nothing_is_lost, "") {
  void *first = fast_malloc(100);
  for (uint64_t k = 1; k < 6; k++) {
    os_fake_fail(OS_FAKE_MAPPING, k, true);
    void *p = large_malloc(my_heap(), MiB(20), 1);
    os_fake_fail(0, 0, false);
    if (p != NULL) fast_free(p);
  }
  void *p = large_malloc(my_heap(), MiB(20), 1);
  CHECK(p != NULL);
  fast_free(p);
  fast_free(first);
  check_nothing_lost();
}

TEST(large, a_block_freed_twice_or_in_the_middle_is_told, "") {
  char *p = fast_malloc(300000);
  EXPECT_ABORT((fast_free(p), fast_free(p)), "double free: .* in free");
  EXPECT_ABORT((fast_free(p), fast_malloc(10), fast_free(p)), "double free|invalid pointer");
  EXPECT_ABORT(fast_free(p + 64), "invalid pointer");
  EXPECT_ABORT(any_realloc(p + 4096, 1, "realloc"), "invalid pointer: .* in realloc");
}

TEST(large, from_half_a_window_on_alignment_included_a_block_has_a_mapping_of_its_own, "L1") {
  for (size_t alignment = SLICE_SIZE; alignment <= WINDOW_SIZE; alignment *= 2) {
    size_t most = HUGE_LEAST - min_size(alignment, HUGE_LEAST); /* of a large one */
    if (most != 0) {
      char *p = fast_aligned(alignment, most);
      CHECK(map_kind(map_find(p)) == TENANT_ARENA && (uintptr_t)p % alignment == 0);
      fast_free(p);
    }
    char *q = fast_aligned(alignment, most + 1);
    CHECK(map_kind(map_find(q)) == TENANT_HUGE && (uintptr_t)q % alignment == 0);
    fast_free(q);
  }
  check_nothing_lost();
}

TEST(large, blocks_of_up_to_half_a_window_are_handed_out_again_without_a_call_to_the_system, "L1") {
  enum { ROUNDS = 30 };
  core_option(OPTION_purge_budget, (int64_t)GiB(1));
  for (int i = 0; i < 2; i++) fast_free(fast_malloc(HUGE_LEAST - MiB(1)));
  uint64_t before = count_calls(OS_FAKE_ANY);
  for (int i = 0; i < ROUNDS; i++) {
    char *p = fast_malloc(HUGE_LEAST - MiB(1 + i));
    CHECK(map_kind(map_find(p)) == TENANT_ARENA);
    p[0] = 1;
    fast_free(p);
  }
  CHECK_EQ(count_calls(OS_FAKE_ANY), before);
  CHECK(map_kind(map_find(fast_malloc(HUGE_LEAST))) == TENANT_HUGE);
}

TEST(large, pages_move_to_a_mapping_of_their_own_and_what_they_leave_is_clean, "A3 U1") {
  char *p = large_malloc(my_heap(), MiB(4), 1);
  for (size_t i = 0; i < MiB(4); i += 4096) p[i] = (char)(i >> 12);
  char *q = large_move_to_huge(slab(p), p, MiB(40));
  CHECK(q != NULL);
  CHECK_EQ((uintptr_t)q % WINDOW_SIZE, (uintptr_t)0);
  for (size_t i = 0; i < MiB(4); i += 4096) CHECK_EQ(q[i], (char)(i >> 12));
  CHECK_EQ(heap_usable_size(q, "t"), MiB(40));
  CHECK_EQ(committed(), (uint64_t)0);
  char *again = large_malloc(my_heap(), MiB(4), 1);
  CHECK_EQ(again, p);
  CHECK(large_is_clean(again));
  CHECK_BYTES(again, 0, MiB(4));
  fast_free(again);
  fast_free(q);
  check_nothing_lost();
}

TEST(large, pages_that_move_count_once, "") {
  char *p = large_malloc(my_heap(), MiB(100), 1);
  CHECK(large_move_to_huge(slab(p), p, MiB(101)) != NULL);
  CHECK_LE(atomic64_load_relaxed(&arena_counts.peak_committed), (uint64_t)MiB(101) / SLICE_SIZE);
}

TEST(large, when_pages_cannot_be_moved_the_block_stays_as_it_was, "") {
  char *p = large_malloc(my_heap(), MiB(4), 1);
  memset(p, 3, MiB(4));
  size_t mapped = os_fake.mapped;
  os_fake_fail(OS_FAKE_MAPPING, 2, true); /* the record's place is there, the window is not */
  CHECK_NULL(large_move_to_huge(slab(p), p, MiB(40)));
  os_fake_fail(OS_FAKE_CHANGING, 1, true);
  CHECK_NULL(large_move_to_huge(slab(p), p, MiB(40)));
  os_fake_fail(0, 0, false);
  CHECK_BYTES(p, 3, MiB(4));
  CHECK_LE(os_fake.mapped, mapped + 65536); /* the chunk of records stays */
  fast_free(p);
  check_nothing_lost();
}

TEST(large, a_place_that_pages_left_and_that_could_not_be_mapped_again_is_mapped_when_needed, "") {
  char *p = large_malloc(my_heap(), MiB(4), 1);
  memset(p, 3, MiB(4));
  fast_free(fast_malloc(HUGE_LEAST)); /* the records have their place */
  os_fake_fail(1u << OS_FAKE_MAP_AT, 2, false);
  char *q = large_move_to_huge(slab(p), p, MiB(40));
  CHECK_EQ(os_fake.fail_at, (uint64_t)0);
  CHECK_BYTES(q, 3, MiB(4));
  CHECK(!os_fake_is_mapped(p, SLICE_SIZE));
  size_t there = 0;
  for (int i = 0; i < 300; i++) {
    char *r = in_slices(60000);
    there += r >= p && r < p + MiB(4);
    memset(r, 1, 60000);
  }
  CHECK_EQ(there, (size_t)MiB(4) / SLICE_SIZE);
  CHECK_EQ(committed(), (uint64_t)300);
}

/* A block of 8 MiB is freed of which this part was touched; the next one comes from calloc. */
static size_t in_memory_after_calloc(size_t touched, size_t size) {
  char *p = fast_malloc(size);
  memset(p, 0xFF, touched);
  memset(p + size - 4096, 0xFF, 4096);
  fast_free(p);
  CHECK_EQ(heap_calloc(1, size), (void *)p);
  size_t in_memory = os_resident(p, size);
  CHECK_BYTES(p, 0, touched);
  CHECK_BYTES(p + size - 4096, 0, 4096);
  fast_free(p);
  return in_memory;
}

TEST(large, calloc_makes_no_page_of_a_block_whose_last_user_needed_few, "A3") {
  size_t size = MiB(8);
  CHECK_EQ(in_memory_after_calloc(MiB(1), size), (size_t)0);
  CHECK_EQ(in_memory_after_calloc(size, size), size); /* all are there: they are written */
  os_fake_fail(OS_FAKE_ADVISING, 1, true);            /* likewise if none can be given back */
  purge_all();
  CHECK_GE(in_memory_after_calloc(MiB(1), size), MiB(1));
}
