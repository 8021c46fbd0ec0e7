/* huge_test.c - tests of stock/huge */
#include "heaps.h"

static huge_t *record(void *p) {
  CHECK(map_kind(map_find(p)) == TENANT_HUGE);
  return map_record(map_find(p));
}
static size_t live_records(void) {
  size_t n = 0;
  for (size_t i = 0; i < huge_pool_size(); i++) {
    bool is_live;
    huge_at(i, &is_live);
    n += is_live;
  }
  return n;
}
/* Is the place of the first record somebody's? The next block gets the lowest free one. */
static bool first_is_claimed(void) {
  void *p = huge_malloc(NULL, HUGE_LEAST);
  bool is_claimed = record(p)->number != 0;
  huge_free(record(p), p, "free");
  return is_claimed;
}
static uint64_t huge_bytes(void) { return atomic64_load_relaxed(&arena_counts.huge_bytes); }

TEST(huge, a_block_starts_its_own_window_is_zero_and_goes_back_whole, "U1") {
  for (os_fake.page_size = 4096; os_fake.page_size <= 65536; os_fake.page_size *= 4) {
    char *p = huge_malloc(NULL, HUGE_LEAST + 5), *q = huge_malloc(NULL, HUGE_LEAST);
    CHECK(p != q && (uintptr_t)p % WINDOW_SIZE == 0 && (uintptr_t)q % WINDOW_SIZE == 0);
    CHECK_EQ(heap_usable_size(p, "t"), HUGE_LEAST + os_fake.page_size);
    CHECK_EQ(p[0] | p[HUGE_LEAST], 0);
    CHECK_EQ(huge_bytes(), 2 * HUGE_LEAST + os_fake.page_size);
    CHECK_EQ(live_records(), 2u);
    CHECK(heap_owns(p + HUGE_LEAST) && !heap_owns(p + HUGE_LEAST + os_fake.page_size));
    huge_free(record(p), p, "free");
    huge_free(record(q), q, "free");
    CHECK(map_kind(map_find(p)) == TENANT_NONE);
    CHECK_EQ(live_records(), 0u);
    check_nothing_lost();
  }
  os_fake.page_size = 4096;
  CHECK_EQ(os_fake.mapped, align_up(64 * sizeof(huge_t), 4096));
}

TEST(huge, a_block_of_several_windows_has_all_of_them, "U1 W1") {
  char *p = huge_malloc(NULL, 2 * WINDOW_SIZE + 1), *q = huge_malloc(NULL, MiB(64));
  CHECK(q < p || q >= p + 3 * WINDOW_SIZE);
  CHECK_EQ(record(p + 2 * WINDOW_SIZE), record(p));
  CHECK(huge_is_valid(record(p)) && huge_is_valid(record(q)));
  EXPECT_ABORT((map_set(p + WINDOW_SIZE, 1, record(q), TENANT_HUGE), huge_is_valid(record(p))),
               "invariant U1");
  p[2 * WINDOW_SIZE] = 1;
  huge_free(record(p), p, "free");
  for (int i = 0; i < 3; i++) CHECK(map_kind(map_find(p + i * WINDOW_SIZE)) == TENANT_NONE);
}

TEST(huge, a_block_grows_and_shrinks_in_place_within_its_windows, "U1") {
  char *p = huge_malloc(NULL, MiB(64));
  p[0] = p[MiB(64) - 1] = 9;
  CHECK_EQ(huge_resize(record(p), MiB(200)), (void *)p);
  CHECK_EQ(huge_bytes(), (uint64_t)MiB(200));
  CHECK_EQ(p[0] + p[MiB(64) - 1] + p[MiB(200) - 1], 18);
  CHECK_EQ(huge_resize(record(p), MiB(40)), (void *)p);
  CHECK_EQ(huge_bytes(), (uint64_t)MiB(40));
  CHECK(!os_fake_is_mapped(p + MiB(40), 4096));
  CHECK_EQ(huge_resize(record(p), MiB(40) - 1), (void *)p);
  CHECK_EQ(os_fake.calls[OS_FAKE_RESIZE], 2u); /* the last needed no call */
}

TEST(huge, a_block_that_has_no_room_moves_its_pages_and_keeps_its_bytes, "U1 W1") {
  char *p = huge_malloc(NULL, WINDOW_SIZE - MiB(1));
  CHECK_EQ(huge_malloc(NULL, MiB(64)), (void *)(p + WINDOW_SIZE));
  p[0] = 4;
  p[WINDOW_SIZE - MiB(2)] = 5;
  char *q = huge_resize(record(p), WINDOW_SIZE + MiB(1));
  CHECK(q != NULL && q != p);
  CHECK_EQ(q[0] + q[WINDOW_SIZE - MiB(2)], 9);
  CHECK(map_kind(map_find(p)) == TENANT_NONE);
  CHECK_EQ(record(q), record(q + WINDOW_SIZE));
  CHECK(huge_is_valid(record(q)));
  CHECK(!os_fake_is_mapped(p, 4096));
  CHECK_EQ(huge_bytes(), (uint64_t)(WINDOW_SIZE + MiB(65)));
  huge_free(record(q), q, "free");
  huge_free(record(p + WINDOW_SIZE), p + WINDOW_SIZE, "free");
  check_nothing_lost();
}

TEST(huge, a_block_grows_into_the_windows_behind_and_gives_them_back_when_it_shrinks, "U1 W1") {
  char *p = huge_malloc(NULL, MiB(600));
  CHECK_EQ(huge_resize(record(p), MiB(3000)), (void *)p);
  CHECK(huge_is_valid(record(p)) && record(p + 2 * WINDOW_SIZE) == record(p));
  char *wall = huge_malloc(NULL, MiB(600));
  CHECK_EQ(wall, p + 3 * WINDOW_SIZE);
  CHECK_EQ(huge_resize(record(p), MiB(600)), (void *)p);
  CHECK(map_kind(map_find(p + WINDOW_SIZE)) == TENANT_NONE);
  os_fake_take(p + WINDOW_SIZE + MiB(5), 4096);
  CHECK(!huge_resize_in_place(record(p), MiB(1100)));
  CHECK(map_kind(map_find(p + WINDOW_SIZE)) == TENANT_NONE && huge_is_valid(record(p)));
}

TEST(huge, what_runs_over_the_end_of_a_block_does_not_reach_the_next_window, "U1") {
  for (size_t size = WINDOW_SIZE - 2 * SLICE_SIZE; size <= WINDOW_SIZE; size += SLICE_SIZE) {
    char *p = huge_malloc(NULL, size), *q = huge_malloc(NULL, MiB(600));
    size_t end = size > WINDOW_SIZE - SLICE_SIZE ? 2 * WINDOW_SIZE : WINDOW_SIZE;
    CHECK_EQ(q, p + end);
    CHECK_EQ(huge_resize_in_place(record(p), WINDOW_SIZE), end > WINDOW_SIZE);
    CHECK(!os_fake_is_mapped(q - SLICE_SIZE, 4096));
    huge_free(record(p), p, "free");
    huge_free(record(q), q, "free");
  }
}

static size_t windows_in_use(void) {
  size_t n = 0;
  for (size_t i = 0; i < WINDOW_COUNT; i++) {
    tenant_t kind = map_kind((uintptr_t)atomic_ptr_load_relaxed(&window_map[i]));
    n += kind != TENANT_NONE && kind != TENANT_FOREIGN;
  }
  return n;
}
static void mark(char *p, size_t size) {
  for (size_t i = 0; i < size; i += MiB(1)) p[i] = (char)(i / MiB(1) + 1);
}
static bool is_marked(const char *p, size_t size) {
  for (size_t i = 0; i < size; i += MiB(1))
    if (p[i] != (char)(i / MiB(1) + 1)) return false;
  return true;
}

TEST(huge, a_block_moves_by_pieces_when_there_is_memory_only_for_what_is_missing, "U1 W1") {
  char *p = huge_malloc(NULL, MiB(61)), *wall = huge_malloc(NULL, MiB(64));
  mark(p, MiB(61));
  size_t mappings = os_fake.mappings;
  os_fake_take(p + MiB(61), 4096);
  os_fake.most_mapped = os_fake.mapped + MiB(39) + MiB(4);
  char *q = huge_resize(record(p), MiB(100));
  CHECK(q != NULL && q != p && wall != NULL);
  CHECK(is_marked(q, MiB(61)) && huge_is_valid(record(q)));
  q[MiB(100) - 1] = 1;
  CHECK_EQ(os_fake.mappings, mappings + 1);
  CHECK(!os_fake_is_mapped(p, 4096));
  CHECK_EQ(windows_in_use(), 2u);
  os_fake.most_mapped -= 4096;
  CHECK_NULL(huge_resize(record(q), MiB(150)));
}

TEST(huge, whatever_call_fails_a_block_that_moves_by_pieces_keeps_its_bytes, "U1 W1") {
  for (uint64_t k = 1; k < 60; k++) {
    test_child_t c;
    if (test_fork(&c, 20)) {
      char *p = huge_malloc(NULL, MiB(61));
      mark(p, MiB(61));
      os_fake_take(p + MiB(61), 4096);
      os_fake.most_mapped = os_fake.mapped + MiB(39) + MiB(4);
      size_t mapped = os_fake.mapped;
      os_fake_fail(OS_FAKE_ANY & ~(1u << OS_FAKE_UNMAP), k, false);
      char *q = huge_resize(record(p), MiB(100));
      if (q == NULL) CHECK_EQ(os_fake.mapped, mapped);
      if (q == NULL) q = p;
      CHECK(is_marked(q, MiB(61)) && huge_is_valid(record(q)));
      CHECK_EQ(windows_in_use(), 1u);
      _exit(0);
    }
    test_reap(&c);
    if (!WIFEXITED(c.status) || WEXITSTATUS(c.status) != 0) FAIL("call %d: %s", (int)k, c.text);
  }
}

TEST(huge, a_block_of_several_mappings_grows_in_place, "U1") {
  char *p = huge_malloc(NULL, MiB(64));
  mark(p, MiB(64));
  os_fake.divided_at = p + MiB(20);
  core_option(OPTION_thp, THP_NEVER);
  CHECK_EQ(huge_resize(record(p), MiB(1500)), (void *)p);
  CHECK(is_marked(p, MiB(64)) && huge_is_valid(record(p)));
  p[MiB(1500) - 1] = 1;
  CHECK_EQ(os_fake.calls[OS_FAKE_MOVE], 0u);
  CHECK_EQ(os_fake.calls[OS_FAKE_ADVISE_HUGE], 1u); /* what is new is what the option says */
  CHECK_EQ(huge_resize(record(p), MiB(64)), (void *)p);
  CHECK(is_marked(p, MiB(64)));
}

TEST(huge, a_block_of_several_mappings_that_has_no_room_is_copied, "U1 W1") {
  char *p = huge_malloc(NULL, MiB(64));
  mark(p, MiB(64));
  os_fake.divided_at = p + MiB(20);
  os_fake_take(p + MiB(64), 4096);
  size_t most = os_fake.most_mapped;
  os_fake.most_mapped = os_fake.mapped + MiB(99);
  CHECK_NULL(huge_resize(record(p), MiB(100)));
  CHECK(is_marked(p, MiB(64)) && huge_is_valid(record(p)));
  CHECK_EQ(windows_in_use(), 1u);
  os_fake.most_mapped = most;
  char *q = huge_resize(record(p), MiB(100));
  CHECK(q != NULL && q != p && is_marked(q, MiB(64)) && huge_is_valid(record(q)));
  CHECK_EQ(os_fake.calls[OS_FAKE_MOVE], 0u);
  CHECK(!os_fake_is_mapped(p, 4096));
  CHECK_EQ(windows_in_use(), 1u);
  huge_free(record(q), q, "free");
  check_nothing_lost();
}

TEST(huge, a_block_of_an_arena_with_several_mappings_is_copied_to_one_of_its_own, "U1") {
  char *p = fast_malloc(MiB(100)), *wall = fast_malloc(SLICE_SIZE);
  mark(p, MiB(100));
  os_fake.divided_at = p + MiB(20);
  char *q = any_realloc(p, MiB(200), "t");
  CHECK(q != NULL && is_marked(q, MiB(100)) && huge_is_valid(record(q)));
  CHECK_EQ(os_fake.calls[OS_FAKE_MOVE], 0u);
  CHECK_EQ(any_realloc(q, MiB(300), "t"), (void *)q);
  fast_free(q);
  fast_free(wall);
  check_nothing_lost();
}

static void divide(os_fake_call_t call, void *at, size_t size) {
  if (call == OS_FAKE_MOVE && size == MiB(4)) os_fake.divided_at = (char *)at + MiB(1);
}

TEST(huge, pages_that_are_lost_because_a_block_is_divided_while_it_moves_are_told, "U1") {
  char *p = huge_malloc(NULL, MiB(61));
  os_fake_take(p + MiB(61), 4096);
  os_fake.most_mapped = os_fake.mapped + MiB(39) + MiB(4);
  os_fake.before = divide;
  EXPECT_ABORT(huge_resize(record(p), MiB(100)), "lost pages");
}

TEST(huge, somebody_elses_mapping_behind_a_block_makes_it_move, "U1") {
  char *p = huge_malloc(NULL, MiB(64));
  os_fake_take(p + MiB(64), 4096);
  p[5] = 6;
  char *q = huge_resize(record(p), MiB(65));
  CHECK(q != NULL && q != p);
  CHECK_EQ(q[5], 6);
}

TEST(huge, a_resize_that_fails_leaves_the_block_as_it_was, "U1") {
  char *p = huge_malloc(NULL, MiB(64));
  memset(p, 8, 100);
  size_t mapped = os_fake.mapped;
  os_fake_fail(OS_FAKE_CHANGING, 1, true);
  CHECK_NULL(huge_resize(record(p), MiB(128)));
  CHECK_NULL(huge_resize(record(p), 2 * WINDOW_SIZE));
  CHECK_NULL(huge_resize(record(p), MiB(32)));
  os_fake_fail(OS_FAKE_ANY & ~(1u << OS_FAKE_UNMAP), 1, true);
  CHECK_NULL(huge_resize(record(p), 2 * WINDOW_SIZE));
  os_fake_fail(0, 0, false);
  CHECK_EQ(os_fake.mapped, mapped);
  CHECK_EQ(heap_usable_size(p, "t"), MiB(64));
  CHECK_BYTES(p, 8, 100);
  size_t windows = 0;
  for (size_t i = 0; i < WINDOW_COUNT; i++)
    windows += atomic_ptr_load_relaxed(&window_map[i]) != NULL;
  CHECK_EQ(windows, 1u);
}

TEST(huge, without_memory_there_is_no_block_and_nothing_is_lost, "U1") {
  for (uint64_t k = 2; k < 8; k++) { /* the first without a chunk of records, then with one */
    os_fake_fail(OS_FAKE_MAPPING, k / 2, true);
    void *p = huge_malloc(NULL, MiB(64));
    os_fake_fail(0, 0, false);
    if (p != NULL) huge_free(record(p), p, "free");
    CHECK_EQ(live_records(), 0u);
    CHECK_EQ(huge_bytes(), (uint64_t)0);
    CHECK(!first_is_claimed());
  }
  CHECK(huge_malloc(NULL, MiB(64)) != NULL);
  CHECK_NULL(huge_malloc(NULL, (size_t)1 << 46));
  CHECK_NULL(huge_malloc(NULL, PTRDIFF_MAX));
}

/* Address space is full, and much of it in free slices. */
static void fill_space(void) {
  char *p = fast_malloc(MiB(300));
  fast_free(p);
  os_fake.most_mapped = os_fake.mapped;
}

TEST(huge, when_address_space_is_short_its_record_too_finds_room_by_unmapping_free_slices, "") {
  fill_space();
  CHECK(huge_malloc(NULL, MiB(128)) != NULL);
}

TEST(huge, what_cannot_fit_even_then_is_refused_and_leaves_free_slices_mapped, "") {
  char *p = huge_malloc(NULL, MiB(64));
  os_fake_take(p + MiB(64), 4096);
  fill_space();
  size_t mapped = os_fake.mapped, most = os_fake.most_mapped;
  CHECK_NULL(huge_malloc(NULL, (size_t)1 << 62));
  for (unsigned i = 0; i < 2; i++) { /* 300 MiB are free, and the second time 190 besides */
    CHECK_NULL(huge_malloc(NULL, MiB(500)));
    CHECK_EQ(os_fake.calls[OS_FAKE_UNMAP], 0u);
    CHECK_NULL(huge_resize(record(p), MiB(564)));
    CHECK_EQ(os_fake.calls[OS_FAKE_UNMAP], i); /* a page at the place where pieces would go */
    CHECK_EQ(os_fake.mapped, mapped);
    os_fake.most_mapped = most + MiB(190);
  }
  os_fake.most_mapped = most + MiB(210);
  CHECK(huge_malloc(NULL, MiB(500)) != NULL);
}

TEST(huge, one_that_grows_has_free_slices_unmapped_if_what_is_missing_fits_then, "") {
  char *p = huge_malloc(NULL, MiB(64));
  p[MiB(64) - 1] = 7;
  os_fake_take(p + MiB(64), 4096); /* in the way of growth in place */
  fill_space();                    /* 300 MiB are free: too few for all of it, not for the rest */
  p = huge_resize(record(p), MiB(350));
  CHECK(p != NULL && p[MiB(64) - 1] == 7);
}

TEST(huge, slices_whose_pages_moved_and_that_cannot_be_mapped_again_are_used_later, "A2") {
  char *p = fast_malloc(MiB(100)), *wall = fast_malloc(SLICE_SIZE);
  uint64_t mapped = atomic64_load_relaxed(&arena_counts.mapped);
  p[MiB(99)] = 9;
  os_fake_fail(1u << OS_FAKE_MAP_AT, 2, false); /* the first reserves the new place */
  char *q = any_realloc(p, MiB(200), "t");
  CHECK(q != NULL && q[MiB(99)] == 9 && !os_fake_is_mapped(p, 4096));
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.mapped), mapped - 1600);
  CHECK_EQ(fast_malloc(MiB(60)), (void *)p);
  CHECK_EQ(p[0] | p[MiB(60) - 1], 0);
  fast_free(p);
  fast_free(q);
  fast_free(wall);
  check_nothing_lost();
}

TEST(huge, the_memory_limit_counts_huge_blocks_and_their_growth, "") {
  core_option(OPTION_memory_limit, (int64_t)MiB(100));
  char *p = huge_malloc(NULL, MiB(64));
  CHECK_NULL(huge_malloc(NULL, MiB(40)));
  CHECK(!huge_resize_in_place(record(p), MiB(101)));
  CHECK_NULL(huge_resize(record(p), MiB(101)));
  CHECK(huge_resize_in_place(record(p), MiB(100)));
  CHECK_NULL(fast_malloc(100));
  huge_free(record(p), p, "free");
  CHECK(fast_malloc(100) != NULL);
}

TEST(huge, a_block_freed_twice_or_in_the_middle_is_told, "U1") {
  char *p = fast_malloc(HUGE_LEAST);
  EXPECT_ABORT(fast_free(p + 4096), "invalid pointer: .* in free");
  EXPECT_ABORT(huge_free(record(p), p + 16, "free"), "invalid pointer");
  huge_t *b = record(p);
  fast_free(p);
  EXPECT_ABORT(huge_free(b, p, "free"), "double free");
  EXPECT_ABORT(fast_free(p), "invalid pointer");
}

TEST(huge, many_blocks_that_grow_leave_most_of_a_small_space_to_others, "") {
  enum { COUNT = 300, MOVED_ANYWAY = 16 };
  static void *p[COUNT];
  for (int i = 0; i < COUNT; i++) CHECK((p[i] = fast_malloc(MiB(1))) != NULL);
  for (int i = 0; i < COUNT; i++) CHECK((p[i] = any_realloc(p[i], MiB(2), "t")) != NULL);
  CHECK_EQ(live_records(), (size_t)MOVED_ANYWAY);
  CHECK_LT(os_fake.mappings, 200u);
  for (int i = 0; i < COUNT; i++) fast_free(p[i]);
  check_nothing_lost();
}

static size_t windows_taken(void) {
  size_t n = 0;
  for (size_t i = 0; i < WINDOW_COUNT; i++) n += atomic_ptr_load_relaxed(&window_map[i]) != NULL;
  return n;
}

static size_t most_windows_taken;
static void note_windows(os_fake_call_t call, void *at, size_t size) {
  (void)call, (void)at, (void)size;
  most_windows_taken = max_size(most_windows_taken, windows_taken());
}

TEST(huge, what_no_address_space_holds_is_refused_before_any_window_is_claimed, "W1") {
  static const size_t sizes[] = {PTRDIFF_MAX,
                                 PTRDIFF_MAX - WINDOW_SIZE,
                                 (size_t)PTRDIFF_MAX + 1,
                                 SIZE_MAX,
                                 SIZE_MAX - SLICE_SIZE,
                                 (size_t)1 << ADDRESS_BITS,
                                 ((size_t)1 << ADDRESS_BITS) + 1,
                                 (size_t)1 << 62};
  char *p = fast_malloc(HUGE_LEAST);
  size_t before = windows_taken();
  os_fake.before = note_windows;
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
    CHECK_NULL(fast_malloc(sizes[i]));
    CHECK_NULL(fast_aligned(WINDOW_SIZE, sizes[i]));
    CHECK_NULL(heap_calloc(1, sizes[i]));
    CHECK_NULL(any_realloc(p, sizes[i], "realloc"));
    CHECK(!heap_expand(p, sizes[i], "expand"));
  }
  os_fake.before = NULL;
  CHECK_LE(most_windows_taken, before);
  CHECK_EQ(windows_taken(), before);
  CHECK_EQ(live_records(), 1u);
  CHECK_EQ(*p, 0);
  fast_free(p);
  check_nothing_lost();
}

TEST(huge, what_fits_nowhere_between_the_mappings_of_others_claims_few_windows_on_the_way, "W1") {
  char *p = fast_malloc(HUGE_LEAST);
  os_fake_take(p + 100 * WINDOW_SIZE, 4096);
  os_fake.before = note_windows;
  CHECK_NULL(fast_malloc(GiB(150)));
  CHECK_LE(most_windows_taken, 16u);
  CHECK(!heap_expand(p, GiB(150), "expand"));
  CHECK_LE(most_windows_taken, 16u);
  CHECK_NULL(any_realloc(p, GiB(150), "realloc"));
  CHECK_LE(most_windows_taken, 16u);
  CHECK_NULL(fast_aligned(WINDOW_SIZE, GiB(150)));
  CHECK_LE(most_windows_taken, 16u);
  os_fake.before = NULL;
  CHECK(fast_malloc(GiB(80)) != NULL);
}

static atomic_ptr_t exchange[8];
static void churn(unsigned number) {
  uint64_t state = number;
  for (int i = 0; i < 1000; i++) {
    size_t size = HUGE_LEAST + core_next(&state) % MiB(32);
    uint64_t *p = fast_malloc(size);
    if (p == NULL) continue;
    *p = size;
    if (i % 3 == 0) p = any_realloc(p, *p = size * 2, "t");
    CHECK(p != NULL);
    uint64_t *old = atomic_ptr_exchange_acq_rel(&exchange[core_next(&state) % 8], p);
    if (old == NULL) continue;
    CHECK_GE(heap_usable_size(old, "t"), (size_t)*old);
    fast_free(old);
  }
}

TEST(huge, threads_never_share_a_window_and_lose_none, "U1 W1 timeout=60") {
  core_threads(4, churn);
  for (int i = 0; i < 8; i++) fast_free(atomic_ptr_load_relaxed(&exchange[i]));
  CHECK_EQ(live_records(), 0u);
  CHECK_EQ(huge_bytes(), (uint64_t)0);
  for (size_t i = 0; i < WINDOW_COUNT; i++) {
    uintptr_t word = (uintptr_t)atomic_ptr_load_relaxed(&window_map[i]);
    CHECK(map_kind(word) == TENANT_NONE || map_kind(word) == TENANT_ARENA);
  }
}
