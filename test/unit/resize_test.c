/* resize_test.c - tests of heap/resize */
#include <sys/resource.h>

#include "heaps.h"

static void fill(char *p, size_t n) {
  for (size_t i = 0; i < n; i++) p[i] = (char)(i * 31 + 7);
}
static void check_filled(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i] != (char)(i * 31 + 7)) FAIL("byte %d of %d is lost", (int)i, (int)n);
}
static void *resize(void *p, size_t size) { return any_realloc(p, size, "realloc"); }

TEST(resize, what_grows_by_little_gets_a_quarter_more_but_not_beyond_a_power_of_two, "") {
  CHECK_EQ(heap_with_headroom(1024, 1100), (size_t)1280);
  CHECK_EQ(heap_with_headroom(6656, 7000), (size_t)8192);
  CHECK_EQ(heap_with_headroom(6656, 8192), (size_t)8192);
  CHECK_EQ(heap_with_headroom(8192, 8193), (size_t)10240);
  CHECK_EQ(heap_with_headroom(15360, 16000), (size_t)SMALL_MOST);
  CHECK_EQ(heap_with_headroom(1024, 3000), (size_t)3000); /* by much */
  CHECK_EQ(heap_with_headroom(1024, 500), (size_t)500);
  CHECK_EQ(heap_with_headroom(SMALL_MOST, 20000), (size_t)20000);
}

TEST(resize, every_way_between_small_large_and_huge_keeps_the_bytes, "timeout=120") {
  static const size_t sizes[] = {/* clang-format off */
    1, 16, 17, 100, 513, 5000, SMALL_MOST, SMALL_MOST + 1, 70000, 300000, KiB(512), MiB(3),
    MiB(40), HUGE_LEAST, HUGE_LEAST + MiB(8)
  }; /* clang-format on */
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
    for (size_t k = 0; k < ARRAY_LENGTH(sizes); k++) {
      char *p = fast_malloc(sizes[i]), *wall = k % 2 ? fast_malloc(70000) : NULL;
      size_t kept = min_size(min_size(sizes[i], sizes[k]), MiB(1));
      fill(p, min_size(sizes[i], MiB(1)));
      char *q = resize(p, sizes[k]);
      CHECK(q != NULL);
      CHECK_GE(heap_usable_size(q, "t"), sizes[k]);
      check_filled(q, kept);
      q[sizes[k] - 1] = 1;
      fast_free(q);
      fast_free(wall);
    }
  check_nothing_lost();
}

TEST(resize, no_block_and_no_bytes_have_their_meanings, "") {
  char *p = resize(NULL, 100);
  CHECK(p != NULL);
  CHECK_NULL(resize(p, 0));
  p = resize(NULL, 0);
  CHECK(p != NULL);
  fast_free(p);
  check_nothing_lost();
}

TEST(resize, a_block_that_fits_stays_where_it_is_unless_that_wastes_half, "") {
  char *p = fast_malloc(1000);
  CHECK_EQ(resize(p, heap_usable_size(p, "t")), (void *)p);
  CHECK_EQ(resize(p, 600), (void *)p);
  char *q = resize(p, 100);
  CHECK_NE(q, p);
  CHECK_EQ(heap_usable_size(q, "t"), 112u);
  char *tiny = fast_malloc(64);
  CHECK_EQ(resize(tiny, 1), (void *)tiny);
}

TEST(resize, a_small_block_that_grows_a_little_gets_room_for_more_and_one_that_grows_much_does_not,
     "") {
  char *p = resize(fast_malloc(400), 401);
  CHECK_GE(heap_usable_size(p, "t"), (size_t)500);
  CHECK_EQ(resize(p, 499), (void *)p);
  CHECK_EQ(heap_usable_size(p = resize(p, 800), "t"), heap_good_size(800, 1));
  fast_free(p);
  /* a quarter more would be no small block */
  p = resize(fast_malloc(SMALL_MOST - 1000), SMALL_MOST);
  CHECK_EQ(heap_usable_size(p, "t"), (size_t)SMALL_MOST);
  fast_free(p);
  check_nothing_lost();
}

TEST(resize, a_large_block_grows_in_place_when_the_slices_behind_are_free, "") {
  char *p = in_slices(100000);
  fill(p, 100000);
  CHECK_EQ(resize(p, 400000), (void *)p);
  CHECK_EQ(resize(p, 210000), (void *)p);
  CHECK_EQ(committed(), (uint64_t)4);
  check_filled(p, 100000);
}

TEST(resize, a_large_block_that_loses_half_becomes_a_run_of_pages_if_it_is_no_longer_than_one, "") {
  char *p = fast_malloc(MiB(1));
  fill(p, MiB(1));
  char *q = resize(p, 90000);
  CHECK(span_around(q) != NULL);
  check_filled(q, 90000);
  CHECK_EQ(committed(), (uint64_t)SPAN_SLICES);
  fast_free(q);
  p = fast_malloc(MiB(1));
  CHECK_EQ(resize(p, KiB(400)), (void *)p); /* longer than a run can be */
  fast_free(p);
  check_nothing_lost();
}

TEST(resize, at_the_limit_a_large_block_that_loses_half_gives_that_back_where_it_lies, "") {
  core_option(OPTION_magazine, 0);
  char *p = fast_malloc(MiB(1));
  fill(p, MiB(1));
  uint64_t before = committed();
  core_option(OPTION_memory_limit, (int64_t)(before << SLICE_SHIFT));
  CHECK_EQ(resize(p, 90000), (void *)p);
  CHECK_EQ(committed(), before - 14);
  check_filled(p, 90000);
  core_option(OPTION_memory_limit, 0);
  fast_free(p);
  check_nothing_lost();
}

TEST(resize, at_the_limit_a_block_that_becomes_small_keeps_as_little_as_a_large_one_can, "") {
  static const size_t sizes[] = {120000, MiB(1), MiB(40)}; /* a run, slices, a mapping */
  core_option(OPTION_magazine, 0);
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
    char *p = fast_malloc(sizes[i]);
    fill(p, 10000);
    core_option(OPTION_memory_limit, (int64_t)SLICE_SIZE);
    CHECK_EQ(resize(p, 10000), (void *)p);
    core_option(OPTION_memory_limit, 0);
    CHECK_LE(heap_usable_size(p, "t"), align_up(SMALL_MOST + 1, 2 * os_page_size()));
    check_filled(p, 10000);
    heap_check_size(p, 10000, 1, "free_sized");
    fast_free(p);
  }
  check_nothing_lost();
}

TEST(resize, at_the_limit_none_that_is_to_be_shorter_grows, "") {
  char *p = heap_aligned_slow(MiB(1), 100);
  size_t usable = heap_usable_size(p, "t");
  core_option(OPTION_memory_limit, (int64_t)SLICE_SIZE);
  CHECK_EQ(resize(p, 50), (void *)p);
  CHECK_LE(heap_usable_size(p, "t"), usable);
}

TEST(resize, a_block_that_fh_expand_makes_shorter_is_not_longer_than_any, "") {
  char *p = fast_malloc(MiB(1));
  CHECK(heap_expand(p, 200000, "fh_expand"));
  CHECK_LE(heap_usable_size(p, "t"), align_up(200000, os_page_size()));
  CHECK_EQ(atomic32_load_relaxed(&heap_longer), 0u);
  fast_free(p);
}

TEST(resize, a_run_that_is_copied_to_grow_stays_one_and_has_an_eighth_more, "") {
  char *p = fast_malloc(66000), *wall = fast_malloc(17000);
  CHECK(span_around(p) != NULL);
  fill(p, 66000);
  char *q = resize(p, 75000);
  CHECK_NE(q, p);
  CHECK(span_around(q) != NULL);
  CHECK_EQ(heap_usable_size(q, "t"), (size_t)21 * SPAN_PAGE);
  CHECK_EQ(resize(q, 86000), (void *)q);
  check_filled(q, 66000);
  fast_free(q), fast_free(wall);
  p = resize(fast_malloc(SMALL_MOST), SMALL_MOST + 1000);
  CHECK(span_around(p) != NULL);
  fast_free(p);
  check_nothing_lost();
}

TEST(resize, a_large_block_that_cannot_grow_in_place_moves_its_pages_without_a_copy, "U1") {
  char *p = fast_malloc(MiB(1)), *wall = in_slices(100000);
  fill(p, MiB(1));
  char *q = resize(p, MiB(1) + 100000);
  CHECK(map_kind(map_find(q)) == TENANT_HUGE);
  CHECK_EQ(os_fake.calls[OS_FAKE_MOVE], (uint64_t)1);
  check_filled(q, MiB(1));
  fast_free(q);
  fast_free(wall);
  check_nothing_lost();
}

/* How often any of `count` vectors that grow alternately changes its place. */
enum { VECTORS_MOST = 40 };
static unsigned moves_of(int count, size_t top, size_t step) {
  static char *p[VECTORS_MOST];
  unsigned moves = 0;
  for (int i = 0; i < count; i++) fill(p[i] = fast_malloc(KiB(64)), 100);
  for (size_t size = KiB(64) + step; size <= top; size += step)
    for (int i = 0; i < count; i++) {
      char *q = resize(p[i], size);
      CHECK(q != NULL);
      moves += q != p[i];
      p[i] = q;
      q[size - 1] = 1;
    }
  for (int i = 0; i < count; i++) {
    check_filled(p[i], 100);
    fast_free(p[i]);
  }
  check_nothing_lost();
  return moves;
}

TEST(resize, vectors_that_grow_in_turns_seldom_move, "") {
  CHECK_LE(moves_of(8, MiB(8), KiB(64)), 8u * 8);
  CHECK_LE(os_fake.calls[OS_FAKE_MOVE], 8u);
  CHECK_LE(moves_of(8, MiB(20), KiB(40)), 8u * 9); /* those before died soon */
}

TEST(resize, vectors_that_have_to_be_copied_get_room_to_grow, "") {
  os_fake.windows = 30;
  CHECK_LE(moves_of(VECTORS_MOST, MiB(4), KiB(64)), 20u * VECTORS_MOST);
}

TEST(resize, room_to_grow_holds_no_memory_and_a_block_that_shrinks_has_none, "L1") {
  char *p = fast_malloc(KiB(448)), *wall = in_slices(KiB(100)), *dirty = fast_malloc(MiB(1));
  fill(p, KiB(448));
  memset(dirty, 1, MiB(1));
  fast_free(dirty);
  char *q = resize(p, KiB(449));
  CHECK_EQ(q, dirty);
  CHECK_EQ(heap_usable_size(q, "t"), align_up(KiB(449), os_page_size()));
  uint64_t before = committed();
  CHECK_EQ(os_resident(q + KiB(512), KiB(64)), 0u);
  CHECK_EQ(resize(q, KiB(560)), (void *)q);
  CHECK_EQ(committed(), before);
  CHECK_EQ(resize(q, KiB(559)), (void *)q);
  CHECK_EQ(committed(), before);
  CHECK_EQ(resize(q, KiB(200)), (void *)q);
  CHECK_EQ(committed(), before - 5);
  check_filled(q, KiB(200));
  fast_free(q);
  fast_free(wall);
  check_nothing_lost();
}

TEST(resize, a_huge_block_that_shrinks_a_little_stays_and_one_that_loses_half_goes_back, "U1") {
  char *p = fast_malloc(MiB(20)), *wall = fast_malloc(100000);
  p = resize(p, MiB(24));
  CHECK(map_kind(map_find(p)) == TENANT_HUGE);
  fill(p, MiB(1));
  CHECK_EQ(resize(p, MiB(15)), (void *)p);
  CHECK_EQ(resize(p, MiB(14)), (void *)p);
  CHECK_EQ(resize(p, MiB(15)), (void *)p);
  CHECK_EQ(resize(p, MiB(7)), (void *)p);
  char *q = resize(p, KiB(500));
  CHECK(map_kind(map_find(q)) == TENANT_ARENA);
  check_filled(q, KiB(500));
  fast_free(q);
  fast_free(wall);
  check_nothing_lost();
}

TEST(resize, a_vector_at_the_end_of_what_is_mapped_grows_there, "") {
  char *p = fast_malloc(MiB(3));
  fill(p, MiB(3));
  for (size_t size = MiB(4); size < MiB(64); size += MiB(4)) CHECK_EQ(resize(p, size), (void *)p);
  CHECK_EQ(os_fake.calls[OS_FAKE_MOVE], (uint64_t)0);
  char *q = resize(p, MiB(400)); /* for so much it moves its pages */
  CHECK(map_kind(map_find(q)) == TENANT_HUGE);
  check_filled(q, MiB(3));
  fast_free(q);
  check_nothing_lost();
}

TEST(resize, a_vector_leaves_the_first_range_by_one_copy_and_grows_in_place_from_then_on, "") {
  char *p = in_slices(KiB(64));
  fill(p, KiB(64));
  int moves = 0;
  for (size_t size = KiB(128); size <= MiB(16); size += KiB(64)) {
    char *q = resize(p, size);
    moves += q != p;
    p = q;
  }
  CHECK_EQ(moves, 1);
  CHECK(map_kind(map_find(p)) == TENANT_ARENA);
  CHECK_EQ(os_fake.calls[OS_FAKE_MOVE], (uint64_t)0);
  check_filled(p, KiB(64));
  fast_free(p);
  check_nothing_lost();
}

TEST(resize, a_block_that_ends_the_first_range_may_become_small, "") {
  size_t size = KiB(64);
  char *p = in_slices(size);
  while (!arena_is_first_end(arena_of(p), arena_slice(p) + size / SLICE_SIZE))
    CHECK_EQ(resize(p, size += KiB(64)), (void *)p);
  fill(p, 100);
  p = resize(p, 100);
  CHECK_EQ(heap_usable_size(p, "t"), 112u);
  check_filled(p, 100);
  fast_free(p);
  check_nothing_lost();
}

static uint64_t faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)usage.ru_minflt;
}

/* A vector that doubles until it has `top` bytes, all pages of which are written. */
static char *vector_of(size_t top) {
  char *p = fast_malloc(4096);
  for (size_t size = 4096, done = 0; p != NULL; size *= 2, p = resize(p, size)) {
    for (; done < size; done += 4096) p[done] = 1;
    if (size >= top) break;
  }
  CHECK(p != NULL);
  return p;
}

/* What `rounds` rounds cost in which each of three vectors is replaced. */
static char *vector[3];
static void replace(int rounds, uint64_t *moves, uint64_t *pages) {
  uint64_t moves_before = os_fake.calls[OS_FAKE_MOVE], pages_before = faults();
  for (int i = 0; i < rounds * 3; i++) {
    fast_free(vector[i % 3]);
    vector[i % 3] = vector_of(MiB(4));
  }
  *moves = os_fake.calls[OS_FAKE_MOVE] - moves_before;
  *pages = faults() - pages_before;
}

TEST(resize, vectors_that_are_replaced_again_and_again_do_not_lose_their_pages, "") {
  uint64_t moves, pages;
  replace(2, &moves, &pages);
  replace(28, &moves, &pages);
  CHECK_EQ(moves, (uint64_t)0);
#ifdef __SANITIZE_THREAD__
  enum { PAGES_MOST = 300 }; /* of what it notes for itself, too */
#else
  enum { PAGES_MOST = 50 };
#endif
  CHECK_LE(pages, (uint64_t)28 * 3 * PAGES_MOST); /* of 1,024 */
  for (int i = 0; i < 3; i++) fast_free(vector[i]);
  check_nothing_lost();
}

TEST(resize, where_blocks_die_soon_one_that_cannot_be_copied_still_moves_its_pages, "U1") {
  uint64_t moves, pages;
  replace(3, &moves, &pages);
  char *p = fast_malloc(MiB(3)), *wall = fast_malloc(MiB(20));
  fill(p, MiB(3));
  core_option(OPTION_memory_limit, (int64_t)(committed() * SLICE_SIZE + MiB(4)));
  char *q = resize(p, MiB(6));
  CHECK(map_kind(map_find(q)) == TENANT_HUGE);
  check_filled(q, MiB(3));
  fast_free(q);
  fast_free(wall);
  for (int i = 0; i < 3; i++) fast_free(vector[i]);
  check_nothing_lost();
}

TEST(resize, where_blocks_die_soon_one_that_shrinks_by_half_goes_back, "U1") {
  uint64_t moves, pages;
  char *p = fast_malloc(MiB(20)), *wall = fast_malloc(100000);
  p = resize(p, MiB(70));
  CHECK(map_kind(map_find(p)) == TENANT_HUGE);
  CHECK_EQ(resize(p, MiB(12)), (void *)p);
  replace(3, &moves, &pages);
  fill(p, MiB(3));
  CHECK_EQ(resize(p, MiB(5)), (void *)p);
  char *q = resize(p, MiB(2));
  CHECK(map_kind(map_find(q)) == TENANT_ARENA);
  check_filled(q, MiB(2));
  os_fake.now_ms += 10000; /* long ago */
  char *r = resize(fast_malloc(MiB(20)), MiB(70));
  CHECK(map_kind(map_find(r)) == TENANT_HUGE);
  CHECK_EQ(resize(r, MiB(2)), (void *)r);
  fast_free(q);
  fast_free(r);
  fast_free(wall);
  for (int i = 0; i < 3; i++) fast_free(vector[i]);
  check_nothing_lost();
}

TEST(resize, a_huge_block_that_becomes_small_is_copied_and_goes_back, "U1") {
  char *p = fast_malloc(HUGE_LEAST);
  CHECK(map_kind(map_find(p)) == TENANT_HUGE);
  fill(p, 1000);
  char *q = resize(p, 1000);
  CHECK(map_kind(map_find(q)) == TENANT_ARENA);
  check_filled(q, 1000);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.huge_live), (uint64_t)0);
  fast_free(q);
  check_nothing_lost();
}

TEST(resize, without_memory_the_block_is_untouched_whatever_it_is, "") {
  static const size_t sizes[] = {100, 5000, 100000, MiB(2), MiB(40), HUGE_LEAST};
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
    char *p = fast_malloc(sizes[i]), *wall = fast_malloc(60000);
    fill(p, min_size(sizes[i], MiB(1)));
    for (size_t k = 1; k < 8; k++) {
      test_child_t c;
      if (test_fork(&c, 20)) {
        os_fake.most_mapped = os_fake.mapped;
        os_fake_fail(OS_FAKE_ANY, k, true);
        char *q = resize(p, WINDOW_SIZE + MiB(1));
        CHECK_NULL(q);
        check_filled(p, min_size(sizes[i], MiB(1)));
        os_fake_fail(0, 0, false);
        os_fake.most_mapped = GiB(64);
        p = resize(p, WINDOW_SIZE + MiB(1));
        CHECK(p != NULL);
        check_filled(p, min_size(sizes[i], MiB(1)));
        fast_free(p);
        fast_free(wall);
        check_nothing_lost();
        _exit(0);
      }
      test_reap(&c);
      if (!WIFEXITED(c.status) || WEXITSTATUS(c.status) != 0)
        FAIL("size %d, call %d: %s", (int)sizes[i], (int)k, c.text);
    }
    fast_free(p);
    fast_free(wall);
  }
}

TEST(resize, a_size_beyond_all_memory_is_refused_and_the_block_stays, "") {
  char *p = fast_malloc(100), *q = fast_malloc(HUGE_LEAST);
  fill(p, 100);
  CHECK_NULL(resize(p, SIZE_MAX));
  CHECK_NULL(resize(p, PTRDIFF_MAX));
  CHECK_NULL(resize(q, (size_t)PTRDIFF_MAX + 1));
  CHECK_NULL(resize(q, PTRDIFF_MAX - 5));
  check_filled(p, 100);
}

TEST(resize, expanding_never_moves, "") {
  char *p = fast_malloc(100), *large = in_slices(100000), *huge = fast_malloc(HUGE_LEAST);
  CHECK_EQ(fast_malloc(HUGE_LEAST), (void *)(huge + WINDOW_SIZE));
  CHECK(heap_expand(p, 100, "t") && heap_expand(p, 112, "t") && !heap_expand(p, 113, "t"));
  CHECK(heap_expand(large, 200000, "t"));
  CHECK_GE(heap_usable_size(large, "t"), 200000u);
  char *wall = (char *)large + 4 * SLICE_SIZE;
  bool clean;
  CHECK(arena_claim_at(wall, 1, &clean));
  CHECK(!heap_expand(large, 300000, "t"));
  CHECK(heap_expand(huge, HUGE_LEAST + MiB(80), "t"));
  CHECK(!heap_expand(huge, 2 * WINDOW_SIZE, "t"));
  CHECK(!heap_expand(huge, SIZE_MAX, "t"));
  CHECK(!heap_expand((void *)"elsewhere", 1, "t"));
}

TEST(resize, a_good_size_is_what_a_block_of_that_size_can_hold, "Z1") {
  for (size_t n = 0; n < 200000; n += n < 2000 ? 1 : 777) {
    char *p = fast_malloc(n);
    CHECK_EQ(heap_good_size(n, 1), heap_usable_size(p, "t"));
    fast_free(p);
  }
  for (size_t n = KiB(128); n > SMALL_MOST; n -= 777) { /* where longer ones were freed */
    char *p = fast_malloc(n);
    size_t usable = heap_usable_size(p, "t");
    CHECK_LE(heap_good_size(n, 1), usable);
    CHECK_LE(usable, n + n / 8 + 2 * SPAN_PAGE);
    CHECK_EQ(any_realloc(p, n, "realloc"), (void *)p);
    CHECK_EQ(heap_usable_size(p, "t"), usable);
    fast_free(p);
  }
  CHECK_EQ(heap_good_size(SIZE_MAX, 1), SIZE_MAX);
}

TEST(resize, what_is_ours_is_known_to_the_byte, "") {
  char *p = fast_malloc(100), *huge = fast_malloc(HUGE_LEAST);
  static char elsewhere[8];
  CHECK(heap_owns(p) && heap_owns(p + 50));
  CHECK(heap_owns(huge) && heap_owns(huge + HUGE_LEAST - 1));
  CHECK(!heap_owns(huge + HUGE_LEAST) && !heap_owns(elsewhere) && !heap_owns(NULL));
  CHECK(!heap_owns(arena_of(p)) && !heap_owns((void *)~(uintptr_t)0));
  CHECK_EQ(heap_usable_size(NULL, "t"), 0u);
}

TEST(resize, random_reallocs_keep_every_byte, "timeout=120") {
  enum { SLOTS = 60 };
  struct {
    char *p;
    size_t n;
  } slot[SLOTS] = {0};
  uint64_t state = 5;
  for (int i = 0; i < 6000; i++) {
    unsigned k = core_next(&state) % SLOTS;
    uint64_t kind = core_next(&state) % 200;
    size_t n = 1 + core_next(&state) % (kind < 150 ? 2000 : kind < 199 ? 200000 : MiB(5));
    size_t kept = min_size(n, slot[k].n);
    char *q = resize(slot[k].p, n);
    CHECK(q != NULL);
    check_filled(q, kept);
    fill(q, n);
    slot[k].p = q;
    slot[k].n = n;
  }
  for (unsigned k = 0; k < SLOTS; k++) fast_free(slot[k].p);
  check_nothing_lost();
}

TEST(resize, a_size_that_is_not_the_blocks_is_told, "") {
  char *p = fast_malloc(100);
  heap_check_size(p, 100, 1, "free_sized");
  heap_check_size(NULL, 100, 1, "free_sized");
  EXPECT_ABORT(heap_check_size(p, 113, 1, "free_sized"), "wrong size: .* in free_sized");
  EXPECT_ABORT(heap_check_size(p, 56, 1, "free_sized"), "wrong size: .* in free_sized");
}

TEST(resize, whatever_size_realloc_has_left_a_block_with_is_not_told_as_a_wrong_one, "") {
  static const size_t sizes[] = {1, 30, 64, 100, 1000, 9000, 16384, 16385, 90000, MiB(1), MiB(30)};
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
    for (size_t from = 1; from < MiB(40); from += from / 3 + 1) {
      char *p = resize(fast_malloc(from), sizes[i]);
      heap_check_size(p, sizes[i], 1, "free_sized");
      p = resize(p, from);
      heap_check_size(p, from, 1, "free_sized");
      fast_free(p);
    }
}

TEST(resize, nor_is_it_where_the_heap_keeps_runs_that_are_a_little_longer, "") {
  char *kept[SPAN_MOST - SPAN_LEAST + 1], *wall;
  for (int i = 0; i < 100; i++) fast_free(fast_malloc(20000)); /* it may keep some */
  for (size_t n = SPAN_LEAST; n < SPAN_MOST; n++)
    for (size_t more = 1; more <= 2; more++) {
      size_t size = n * SPAN_PAGE, had = size - size / 8;
      if (had <= SMALL_MOST) continue;
      for (size_t i = 0; i < ARRAY_LENGTH(kept); i++)
        kept[i] = fast_malloc((i + SPAN_LEAST) * SPAN_PAGE);
      char *p = fast_malloc(had);
      wall = fast_malloc(had);
      for (size_t i = n - SPAN_LEAST + more; i < ARRAY_LENGTH(kept); i++) fast_free(kept[i]);
      p = resize(p, size);
      heap_check_size(p, size, 1, "free_sized");
      heap_check_class(p, size, 1, "delete");
      fast_free(p), fast_free(wall);
      for (size_t i = 0; i < n - SPAN_LEAST + more && i < ARRAY_LENGTH(kept); i++)
        fast_free(kept[i]);
    }
  check_nothing_lost();
}

TEST(resize, a_block_that_fh_expand_leaves_longer_may_be_freed_with_the_size_that_it_was_given,
     "") {
  char *p = fast_malloc(1000);
  EXPECT_ABORT(heap_check_size(p, 100, 1, "free_sized"), "wrong size");
  CHECK(heap_expand(p, 100, "fh_expand"));
  heap_check_size(p, 100, 1, "free_sized");
  fast_free(p);
}

TEST(resize, a_block_that_was_never_resized_has_the_class_or_the_pages_of_its_size, "") {
  static const size_t sizes[] = {1, 100, 4096, 16384, 16385, 65536, 1000000, MiB(3)};
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
    for (size_t alignment = 1; alignment <= 8192; alignment *= 8) {
      size_t size = sizes[i], least = align_up(alignment, 2 * os_page_size()); /* of a large one */
      size_t half = size / 2 > (size > SMALL_MOST ? least : alignment) ? size / 2 : 0;
      size_t other = half != 0 ? half : size + least + 16;
      char *p = fast_aligned_or(alignment, size, heap_aligned_slow);
      heap_check_class(p, size, alignment, "delete");
      EXPECT_ABORT(heap_check_class(p, other, alignment, "delete"), "wrong size: .* in delete");
      bool is_small = slab_kind(slab_word(slab_of(p))) == SLAB_SMALL;
      bool is_fast = is_small && window_of((uintptr_t)p) == heap_here.window;
      CHECK_EQ(fast_has_class_aligned(p, size, alignment), is_fast);
      bool is_right = fast_fits(heap_usable_size(p, "test"), size);
      CHECK_EQ(fast_has_bytes(p, size), is_fast && is_right);
      heap_check_size(p, size, alignment, "free_aligned_sized");
      CHECK(!fast_has_class_aligned(p, other, alignment));
      CHECK(!fast_has_bytes(p, heap_usable_size(p, "test") + 1));
      fast_free(p);
    }
}

TEST(resize, a_block_that_gets_smaller_stays_if_there_is_no_memory_for_another, "") {
  char *p = fast_malloc(8000);
  memset(p, 7, 8000);
  os_fake.most_mapped = os_fake.mapped;
  while (fast_malloc(100) != NULL) continue;
  CHECK_EQ(heap_realloc(p, 100, "t"), (void *)p);
  CHECK_BYTES(p, 7, 8000);
}
