/* tails_test.c - tests of stock/tails */
#include "heaps.h"

enum { PAGE = 4096 };

CORE_SMALL_PAGES

static size_t touched(void *p) {
  return *arena_touched_last(p, atomic16_load_relaxed(&slab_of(p)->slices));
}
static uint64_t discards(void) { return os_fake.calls[OS_FAKE_DISCARD]; }

/* As if the tails of other blocks were more than there may be, or none. */
static void set_others_tails(bool are_many) {
  atomic64_store_relaxed(&heap_counts.tails, are_many ? 1 << 20 : 0);
}

static char *filled(size_t size) {
  char *p = in_slices(size);
  memset(p, 7, heap_usable_size(p, "t"));
  return p;
}

TEST(tails, a_block_gives_back_what_lies_behind_it_once_if_tails_are_too_many, "L3") {
  char *p = filled(SLICE_SIZE);
  fast_free(p);
  set_others_tails(true);
  uint64_t before = discards();
  CHECK_EQ(filled(18000), p);
  CHECK_EQ(discards(), before + 1);
  CHECK_EQ(touched(p), 5u);
  CHECK_EQ(os_resident(p, SLICE_SIZE), (size_t)5 * PAGE);
  CHECK_BYTES(p, 7, 5 * PAGE);
  for (int i = 0; i < 3; i++) {
    fast_free(p);
    CHECK_EQ(filled(18000 + (size_t)i), p);
  }
  CHECK_EQ(discards(), before + 1); /* nothing lies there any more */
  fast_free(p);
  CHECK_EQ(filled(60000), p);
  CHECK_EQ(touched(p), 15u);
  fast_free(p);
  CHECK_EQ(filled(20 * 1024), p);
  CHECK_EQ(discards(), before + 2);
  fast_free(p);
  set_others_tails(false);
  check_nothing_lost();
}

TEST(tails, a_wrong_count_is_found, "L3") {
  slab_t *s = slab_of(filled(18000));
  CHECK(tails_are_valid(s));
  EXPECT_ABORT((s->counted++, tails_are_valid(s)), "invariant L3");
  EXPECT_ABORT((*arena_touched_last((void *)slab_base(s), 1) = 0, tails_are_valid(s)),
               "invariant L3");
}

TEST(tails, a_tail_stays_while_tails_are_few_or_if_memory_is_never_to_go_back, "L3") {
  char *p = filled(SLICE_SIZE);
  fast_free(p);
  CHECK_EQ(filled(18000), p);
  CHECK_EQ(touched(p), 16u);
  fast_free(p);
  core_option(OPTION_purge_delay_ms, -1);
  set_others_tails(true);
  uint64_t before = discards();
  CHECK_EQ(filled(18000), p);
  CHECK_EQ(touched(p), 16u);
  CHECK_EQ(discards(), before);
  CHECK(large_is_valid(slab_of(p)));
}

TEST(tails, only_the_last_slice_of_a_block_has_one_and_the_others_count_as_touched, "L3 A4") {
  char *p = fast_malloc(3 * SLICE_SIZE + 1);
  for (size_t n = 1; n <= 3; n++) CHECK_EQ(*arena_touched_last(p, n), TOUCHED_ALL);
  CHECK_EQ(touched(p), 1u);
  fast_free(p);
  set_others_tails(true);
  uint64_t before = discards();
  CHECK_EQ(filled(SMALL_MOST + 1), p);
  CHECK_EQ(discards(), before + 1);
  fast_free(p);
  CHECK_EQ(fast_malloc(4 * SLICE_SIZE), (void *)p);
  CHECK_EQ(touched(p), 16u);
  fast_free(p);
  set_others_tails(false);
  check_nothing_lost();
  for (size_t n = 1; n <= 4; n++) CHECK_EQ(*arena_touched_last(p, n), 0); /* purged */
}

TEST(tails, a_slab_counts_as_touched_as_a_whole, "A4") {
  char *q = (char *)align_down((uintptr_t)fast_malloc(100), SLICE_SIZE);
  CHECK_EQ(*arena_touched_last(q, 1), TOUCHED_ALL);
}

TEST(tails, a_block_that_shrinks_or_grows_where_it_is_gives_its_tail_back, "L3") {
  char *p = filled(3 * SLICE_SIZE);
  set_others_tails(true);
  CHECK(resize_large(p, SLICE_SIZE + 3 * PAGE));
  CHECK_EQ(touched(p), 3u);
  CHECK_EQ(os_resident(p, 2 * SLICE_SIZE), SLICE_SIZE + 3 * PAGE);
  CHECK(resize_large(p, SLICE_SIZE + 9 * PAGE));
  CHECK_EQ(touched(p), 9u);
  CHECK(resize_large(p, 2 * SLICE_SIZE + 1));
  CHECK_EQ(*arena_touched_last(p, 2), TOUCHED_ALL);
  CHECK_EQ(touched(p), 1u);
  CHECK_EQ(os_resident(p + 2 * SLICE_SIZE, SLICE_SIZE), (size_t)PAGE);
  CHECK_BYTES(p, 7, SLICE_SIZE + 3 * PAGE);
  CHECK(large_is_valid(slab_of(p)));
  fast_free(p);
  set_others_tails(false);
  check_nothing_lost();
}

TEST(tails, what_the_system_refuses_stays_counted_and_is_not_asked_for_without_end, "L3") {
  enum { BLOCKS = 5000 };
  static char *p[BLOCKS];
  core_option(OPTION_purge_budget, (int64_t)GiB(1));
  core_option(OPTION_magazine, 0);
  for (int i = 0; i < BLOCKS; i++) p[i] = in_slices(SLICE_SIZE);
  for (int i = 0; i < BLOCKS; i++) fast_free(p[i]);
  set_others_tails(true);
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  uint64_t before = discards();
  for (int i = 0; i < BLOCKS; i++) {
    p[i] = in_slices(18000);
    CHECK(large_is_valid(slab_of(p[i])));
  }
  CHECK_EQ(touched(p[0]), 16u);
  CHECK_LE(discards() - before, (uint64_t)1024);
  before = discards();
  os_fake.now_ms++;
  for (int i = 0; i < BLOCKS; i++) fast_free(p[i]);
  for (int i = 0; i < BLOCKS; i++) p[i] = in_slices(18000);
  CHECK_LE(discards() - before, (uint64_t)128);
}

static void allocate_18_KB(void *block) { *(void **)block = in_slices(18000); }
static void *nested;
static void allocate_in_another_thread(os_fake_call_t call, void *at, size_t size) {
  (void)at, (void)size;
  if (call == OS_FAKE_DISCARD && nested == NULL) in_thread(allocate_18_KB, &nested, false);
}

/* The system would make all processors forget their page tables in each such call. */
TEST(tails, with_many_processors_one_thread_at_a_time_gives_back_and_others_go_on, "L3") {
  char *p[3];
  os_fake.processors = 16;
  pretend_users(16);
  core_option(OPTION_magazine, 0);
  for (int i = 0; i < 3; i++) p[i] = filled(SLICE_SIZE);
  for (int i = 0; i < 3; i++) fast_free(p[i]);
  set_others_tails(true);
  os_fake.before = allocate_in_another_thread;
  uint64_t before = discards();
  CHECK_EQ(touched(in_slices(18000)), 5u);
  os_fake.before = NULL;
  CHECK_EQ(touched(nested), 16u);
  CHECK_EQ(discards(), before + 1);
  CHECK_EQ(touched(in_slices(18000)), 5u);
}

static void stop_here(os_fake_call_t call, void *at, size_t size) {
  (void)at, (void)size;
  if (call == OS_FAKE_DISCARD) pthread_exit(NULL);
}

TEST(tails, a_thread_that_stops_in_a_discard_keeps_others_from_it_until_the_clock_moves, "L3") {
  char *p[3];
  os_fake.processors = 16;
  pretend_users(16);
  void *lost;
  core_option(OPTION_magazine, 0);
  for (int i = 0; i < 3; i++) p[i] = filled(SLICE_SIZE);
  for (int i = 0; i < 3; i++) fast_free(p[i]);
  set_others_tails(true);
  os_fake.before = stop_here;
  in_thread(allocate_18_KB, &lost, false);
  os_fake.before = NULL;
  CHECK_EQ(touched(in_slices(18000)), 16u);
  os_fake.now_ms++;
  CHECK_EQ(touched(in_slices(18000)), 5u);
}

TEST(tails, the_sums_are_those_of_the_live_blocks, "L3") {
  enum { SLOTS = 100 };
  char *p[SLOTS] = {NULL};
  uint64_t state = 5;
  heap_t *h = my_heap();
  for (int i = 0; i < 5000; i++) {
    size_t k = core_next(&state) % SLOTS, size = SMALL_MOST + 1 + core_next(&state) % 300000;
    if (i % 3 == 0) p[k] = any_realloc(p[k], size + KiB(128), "t");
    else {
      fast_free(p[k]);
      p[k] = in_slices(size);
    }
    if (i % 500 == 250) purge_all();
  }
  int64_t pages = 0, tails = 0;
  for (int k = 0; k < SLOTS; k++) {
    if (p[k] == NULL) continue;
    size_t n = heap_usable_size(p[k], "t") / PAGE;
    CHECK(large_is_valid(slab_of(p[k])));
    pages += (int64_t)n;
    tails += (int64_t)(touched(p[k]) - ((n - 1) % 16 + 1));
  }
  tails_settle(h);
  CHECK_EQ((int64_t)atomic64_load_relaxed(&heap_counts.large_pages), pages);
  CHECK_EQ((int64_t)atomic64_load_relaxed(&heap_counts.tails), tails);
  for (int k = 0; k < SLOTS; k++) fast_free(p[k]);
  tails_settle(h);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.large_pages), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.tails), (uint64_t)0);
  check_nothing_lost();
}

TEST(tails, of_the_slices_that_a_heap_keeps_the_one_that_suits_is_used_if_tails_are_many, "L2 L3") {
  enum { KEPT = 5 };
  static const size_t sizes[KEPT] = {60000, 20000, 40000, 30000, 50000};
  char *p[KEPT];
  heap_t *h = my_heap();
  for (int i = 0; i < 100; i++) fast_free(large_malloc(h, MiB(2), 1)); /* so it may keep some */
  heap_collect(true);
  for (int i = 0; i < KEPT; i++) p[i] = in_slices(sizes[i]);
  for (int i = 0; i < KEPT; i++) fast_free(p[i]);
  set_others_tails(true);
  uint64_t before = discards();
  for (int i = 0; i < KEPT; i++) {
    CHECK_EQ(in_slices(sizes[i]), (void *)p[i]);
    CHECK(magazine_is_valid(h));
  }
  CHECK_EQ(discards(), before);
}

/* Blocks of a mixture of sizes are replaced at random; what is in memory beside what is live. */
static void drift(size_t small_part, size_t low, size_t high) {
  enum { SLOTS = 800, OPERATIONS = 20000 };
  static char *p[SLOTS];
  uint64_t state = 1;
  size_t resident = 0, live = 0;
  for (int i = 0; i < OPERATIONS; i++) {
    size_t k = core_next(&state) % SLOTS, size = low + core_next(&state) % (high - low);
    if (core_next(&state) % 100 < small_part) size = 16500 + size % 3000;
    fast_free(p[k]);
    p[k] = filled(size);
    if (i % 8 == 0) os_fake.now_ms++;
  }
  for (int k = 0; k < SLOTS; k++) live += heap_usable_size(p[k], "t");
  for (size_t i = 0; i < arena_count(); i++)
    resident += os_resident(arena_address(arena_at(i), ARENA_FIRST_SLICE),
                            (size_t)atomic64_load_relaxed(&arena_at(i)->mapped) * SLICE_SIZE -
                              ARENA_FIRST_SLICE * SLICE_SIZE);
  CHECK_LE(100 * resident, 120 * live);
  for (int k = 0; k < SLOTS; k++) {
    fast_free(p[k]);
    p[k] = NULL;
  }
}

TEST(tails, what_is_in_memory_does_not_drift_away_from_what_is_live, "L3") {
  core_option(OPTION_purge_budget, (int64_t)KiB(256));
  drift(95, 60000, 65000);
  drift(0, 66000, 130000);
  drift(50, 33000, 64000);
}
