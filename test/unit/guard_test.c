/* guard_test.c - tests of stock/guard */
#include "faults.h"
#include "heaps.h"

#include "../../src/stock/guard.h"
#include "../../src/stock/sample.h"

enum { EACH = 1 };

/* The largest block that fits between the pages that stay protected. */
static size_t most(void) { return GUARD_STRIDE - 2 * os_page_size(); }

static void tell_it(const char *what, const guard_slot_t *s, const void *at) {
  uintptr_t block = (uintptr_t)atomic_ptr_load_relaxed(&s->block);
  test_say("%s of %lu bytes, %ld; ", what, (unsigned long)atomic64_load_relaxed(&s->size),
           (long)((intptr_t)at - (intptr_t)block));
}

/* Every block is guarded from now on. */
static void start(void) {
  CHECK(guard_start(tell_it) && guard_start(tell_it));
  sample_start_guards(EACH);
}

static bool is_guarded(const void *p) { return map_kind(map_find(p)) == TENANT_GUARDED; }
static guard_slot_t *slot_of(const void *p) { return guard_slot_of(map_record(map_find(p)), p); }

TEST(guard, nothing_is_guarded_before_it_is_started, "") {
  void *p = fast_malloc(100);
  size_t number = 0;
  CHECK(!is_guarded(p) && guard_next(&number) == NULL && guard_metadata() == 0);
  fast_free(p);
}

TEST(guard, a_block_of_any_size_up_to_the_most_stands_at_the_edge_of_its_pages, "G1") {
  const size_t sizes[] = {1, 8, 16, 100, 512, 4096, 4097, 10000, 16384, 16385, most() - 1, most()};
  bool at_start = false, at_end = false;
  start();
  for (int round = 0; round < 8; round++)
    for (unsigned i = 0; i < ARRAY_LENGTH(sizes); i++) {
      char *p = fast_malloc(sizes[i]);
      CHECK(is_guarded(p) && (uintptr_t)p % 16 == 0 && heap_owns(p) && !heap_is_foreign(p));
      CHECK_EQ(heap_usable_size(p, "t"), sizes[i]);
      memset(p, 1, sizes[i]);
      char *end = p + align_up(sizes[i], 16);
      bool ends = (uintptr_t)end % os_page_size() == 0, starts = (uintptr_t)p % os_page_size() == 0;
      CHECK(ends || starts);
      if (round == 0 && ends) CHECK(faults(end, false) && faults(end, true));
      if (round == 0 && starts) CHECK(faults(p - 1, false) && faults(p - 1, true));
      at_end |= ends && !starts, at_start |= starts && !ends;
      fast_free(p);
    }
  CHECK(at_start && at_end && guard_is_valid());
  check_nothing_lost();
}

TEST(guard, a_live_slot_that_is_ready_for_the_next_block_is_found, "G1") {
  size_t number = 0;
  start();
  char *p = fast_malloc(100);
  CHECK(is_guarded(p) && guard_next(&number) != NULL);
  guard_t *g = (guard_t *)align_down((uintptr_t)p, WINDOW_SIZE);
  EXPECT_ABORT((bitmap_release(g->ready, number - 1, 1), guard_is_valid()), "invariant G1");
  fast_free(p);
}

TEST(guard, aligned_cleared_and_resized_blocks_keep_their_promises, "") {
  start();
  for (size_t alignment = 16; alignment <= os_page_size(); alignment *= 2) {
    for (size_t size = 0; size < 20000; size = size * 3 + 1) {
      char *p = fast_aligned(alignment, size);
      CHECK((uintptr_t)p % alignment == 0 && (is_guarded(p) || size == 0));
      memset(p, 1, size);
      fast_free(p);
    }
  }
  CHECK(!is_guarded(fast_aligned(2 * os_page_size(), 10)));
  for (size_t size = 1; size * 2 <= most(); size = size * 3 + 1) {
    char *p = heap_calloc(size, 1);
    CHECK(is_guarded(p));
    CHECK_BYTES(p, 0, size);
    memset(p, 7, size);
    char *q = any_realloc(p, size * 2, "t"), *r = any_realloc(q, size, "t");
    CHECK(q != p && r != q);
    CHECK_BYTES(r, 7, size);
    CHECK_EQ(any_realloc(r, size, "t"), (void *)r);
    CHECK(heap_expand(r, size, "t") && !heap_expand(r, size + 1, "t"));
    fast_free(r);
  }
}

TEST(guard, what_is_freed_is_closed_until_so_many_more_are_freed, "G1") {
  start();
  char *first = fast_malloc(100);
  fast_free(first);
  CHECK(faults(first, false) && faults(first + 99, true));
  for (int i = 0; i < GUARD_REST; i++) {
    char *p = fast_malloc(100);
    CHECK(is_guarded(p) && slot_of(p) != slot_of(first));
    fast_free(p);
  }
  CHECK(guard_is_valid());
}

static void *some[GUARD_SLOTS];

/* All slots but one live; that one is freed again and again. */
TEST(guard, a_slot_rests_even_if_it_is_the_last_one, "") {
  start();
  for (int i = 0; i < GUARD_SLOTS; i++) CHECK(is_guarded(some[i] = fast_malloc(100)));
  fast_free(some[0]);
  for (int i = 0; i < 10 * GUARD_SLOTS; i++) {
    void *p = fast_malloc(100);
    CHECK(!is_guarded(p));
  }
}

TEST(guard, ten_thousand_in_turn_take_no_more_memory_or_mappings, "") {
  start();
  size_t mapped = os_fake.mapped;
  char *region = (char *)slot_of(fast_malloc(1)); /* lies before it, in the same window */
  region = (char *)align_down((uintptr_t)region, WINDOW_SIZE) + GUARD_FIRST;
  for (int i = 0; i < 10000; i++) {
    char *p = fast_malloc(100);
    CHECK(is_guarded(p));
    fast_free(p);
  }
  CHECK_EQ(os_fake.mapped, mapped);
  CHECK_EQ(os_resident(region, GUARD_SLOTS * (size_t)GUARD_STRIDE), os_page_size());
}

TEST(guard, without_a_slot_a_page_or_leave_it_is_an_ordinary_block, "G1") {
  start();
  void *p = fast_malloc(most() + 1);
  CHECK(!is_guarded(p));
  fast_free(p);
  os_fake_fail(1u << OS_FAKE_PROTECT, 1, false);
  p = fast_malloc(100);
  CHECK(p != NULL && !is_guarded(p) && guard_is_valid());
  for (int i = 0; i < GUARD_SLOTS; i++) CHECK(fast_malloc(100) != NULL);
  CHECK(is_guarded(some[0] = fast_malloc(100)) || fast_malloc(100) != NULL);
  option_set(OPTION_memory_limit, 1);
  fh_heap_t *heap = firstclass_new();
  CHECK(heap == NULL || !is_guarded(heap));
}

TEST(guard, where_there_is_no_room_for_the_region_nothing_is_guarded, "") {
  os_fake_fail(1u << OS_FAKE_PROTECT, 1, false);
  CHECK(!guard_start(tell_it));
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  CHECK(!guard_start(tell_it));
  os_fake_fail(OS_FAKE_MAPPING, 0, false);
  sample_start_guards(EACH);
  void *p = fast_malloc(100), *q = fast_malloc(100000);
  CHECK(p != NULL && q != NULL && !is_guarded(p) && !is_guarded(q));
  fast_free(p), fast_free(q);
  check_nothing_lost();
}

TEST(guard, first_class_heaps_have_ordinary_blocks, "") {
  start();
  fh_heap_t *heap = firstclass_new();
  for (size_t size = 1; size < MiB(1); size *= 5)
    CHECK(!is_guarded(firstclass_aligned(heap, 1, size)));
  char *p = fast_malloc(100);
  memset(p, 3, 100);
  p = firstclass_realloc(heap, p, 200, "t");
  CHECK(!is_guarded(p));
  CHECK_BYTES(p, 3, 100);
  firstclass_destroy(heap);
}

TEST(guard, what_was_written_beside_a_block_is_noticed_when_it_is_freed, "") {
  start();
  for (int i = 0; i < 20; i++) {
    char *p = fast_malloc(100), *q = fast_malloc(4096 - 16);
    EXPECT_ABORT((p[100] = 1, fast_free(p)),
                 "^overflow noticed at free of 100 bytes, 100; freehold: overflow noticed at free");
    bool starts = (uintptr_t)q % os_page_size() == 0;
    EXPECT_ABORT((q[starts ? 4080 : -1] = 1, fast_free(q)),
                 starts ? "^overflow noticed at free of 4080 bytes, 4080; freehold"
                        : "^underflow noticed at free of 4080 bytes, -1; freehold");
    fast_free(p), fast_free(q);
  }
}

TEST(guard, misuse_of_a_guarded_block_is_known, "") {
  start();
  char *p = fast_malloc(100), *q = fast_malloc(100);
  fast_free(p);
  EXPECT_ABORT(fast_free(p), "^double free of 100 bytes, 0; freehold: double free: .* in free");
  EXPECT_ABORT(heap_usable_size(p, "t"), "^double free of .* in t");
  EXPECT_ABORT(heap_realloc(p, 50, "t"), "^double free of .* in t");
  EXPECT_ABORT(fast_free(q + 16), "^freehold: invalid pointer");
  EXPECT_ABORT(fast_free((char *)slot_of(q)), "^freehold: invalid pointer");
  EXPECT_ABORT(fast_free(q + GUARD_STRIDE * (GUARD_SLOTS / 2)), "^freehold: invalid pointer");
  CHECK(!heap_owns(slot_of(q)) && heap_owns(q + GUARD_STRIDE));
}

TEST(guard, both_call_stacks_are_kept, "") {
  static const uintptr_t born[] = {0x401000, 0x402000}, died[] = {0x403000};
  start();
  os_fake.frames = born, os_fake.frame_count = 2;
  char *p = fast_malloc(100);
  os_fake.frames = died, os_fake.frame_count = 1;
  const guard_slot_t *s = slot_of(p);
  fast_free(p);
  CHECK_EQ(atomic32_load_relaxed(&s->allocation.count), 2u);
  CHECK_EQ(atomic64_load_relaxed(&s->allocation.frames[1]), 0x402000u);
  CHECK_EQ(atomic32_load_relaxed(&s->release.count), 1u);
  CHECK_EQ(atomic64_load_relaxed(&s->release.frames[0]), 0x403000u);
}

typedef struct {
  size_t seen, bytes;
} shown_t;
static bool show(void *block, size_t usable, void *context) {
  shown_t *shown = context;
  CHECK(block != NULL);
  shown->seen++, shown->bytes += usable;
  return shown->bytes != 105;
}
static void show_sampled(const sampled_t *block, void *context) {
  CHECK(sampled_blocks(block) != 0);
  ++*(int *)context;
}

TEST(guard, visits_and_statistics_have_guarded_blocks, "") {
  static fh_stats_t stats;
  shown_t all = {0, 0};
  start();
  void *p = fast_malloc(100), *q = fast_malloc(5000);
  size_t page = os_page_size(), pages = page + align_up(5000, page);
  CHECK(heap_visit(&(visitor_t){.blocks = show, .context = &all}) && all.seen == 2 &&
        all.bytes == 5100);
  stats.struct_size = sizeof stats;
  heap_stats(&stats);
  CHECK(stats.huge_live == 2 && stats.live_bytes == pages && stats.resident >= 2 * KiB(4));
  fast_free(p), fast_free(q);
  void *r = fast_malloc(105);
  CHECK(!heap_visit(&(visitor_t){.blocks = show, .context = &(shown_t){0, 0}}));
  fast_free(r);
  heap_stats(&stats);
  CHECK(stats.huge_live == 0 && stats.live_bytes == 0 && stats.huge_allocated == 3);
}

TEST(guard, a_profiles_samples_are_guarded_and_counted, "") {
  int count = 0;
  start();
  CHECK(!sample_has_stacks() && sample_start(EACH) && sample_has_stacks());
  void *p = fast_malloc(100), *q = fast_malloc(50000), *far = fast_malloc(MiB(1));
  CHECK(is_guarded(p) && is_guarded(q) && !is_guarded(far));
  heap_visit_sampled(show_sampled, &count);
  CHECK_EQ(count, 3);
  p = any_realloc(p, 200, "t");
  CHECK(is_guarded(p));
  fast_free(p), fast_free(q), fast_free(far);
  count = 0;
  heap_visit_sampled(show_sampled, &count);
  CHECK_EQ(count, 0);
  CHECK(sample_start(0));
  p = fast_malloc(100);
  CHECK(is_guarded(p));
  heap_visit_sampled(show_sampled, &count);
  CHECK_EQ(count, 0);
  fast_free(p);
  check_nothing_lost();
}

TEST(guard, points_fall_as_often_as_was_asked_for, "") {
  enum { MANY = 4000, SIZE = 1024, INTERVAL = KiB(64) };
  static void *p[MANY];
  int guarded = 0;
  CHECK(guard_start(tell_it));
  sample_start_guards(INTERVAL);
  for (int i = 0; i < MANY; i++) guarded += is_guarded(p[i] = fast_malloc(SIZE));
  CHECK(guarded > 25 && guarded < 105); /* 62 on average */
  for (int i = 0; i < MANY; i++) fast_free(p[i]);
  check_nothing_lost();
}

enum { THREADS = 4, ROUNDS = 3000 };
static atomic_ptr_t handed[THREADS];
static void take_hand_on_and_free(unsigned number) {
  for (unsigned i = 0; i < ROUNDS; i++) {
    char *p = fast_malloc(i % 200 + 1);
    memset(p, (int)number, i % 200 + 1);
    char *other = atomic_ptr_exchange_acq_rel(&handed[(number + i) % THREADS], p);
    if (other != NULL) fast_free(other);
  }
  os_fake_end_thread();
}

TEST(guard, threads_hand_guarded_blocks_to_each_other, "G1") {
  start();
  core_threads(THREADS, take_hand_on_and_free);
  for (int i = 0; i < THREADS; i++) fast_free(atomic_ptr_load_relaxed(&handed[i]));
  CHECK(guard_is_valid());
  check_nothing_lost();
}
