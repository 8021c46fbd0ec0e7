/* stats_test.c - tests of heap/stats */
#include "heaps.h"

static fh_stats_t stats;
static void read_stats(void) {
  stats.struct_size = sizeof stats;
  heap_stats(&stats);
  CHECK_EQ(stats.struct_size, sizeof stats);
}

TEST(stats, live_blocks_and_bytes_are_exact_in_every_class, "") {
  enum { EACH = 50 };
  void *p[CLASS_COUNT][EACH];
  uint64_t bytes = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    for (int i = 0; i < EACH; i++) {
      p[c][i] = fast_malloc(class_size(c));
      bytes += class_size(c);
    }
  heap_flush_bins(my_heap());
  read_stats();
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    CHECK_EQ(stats.classes[c - 1].block_size, class_size(c));
    CHECK_EQ(stats.classes[c - 1].live, (uint64_t)EACH);
    CHECK_GE(stats.classes[c - 1].allocated, (uint64_t)EACH);
  }
  CHECK_EQ(stats.total.live, (uint64_t)EACH * (CLASS_COUNT - 1));
  CHECK_EQ(stats.live_bytes, bytes);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    for (int i = 0; i < EACH; i++) fast_free(p[c][i]);
  heap_collect(true);
  read_stats();
  CHECK_EQ(stats.total.live, (uint64_t)0);
  CHECK_EQ(stats.live_bytes, (uint64_t)0);
  CHECK_GE(stats.total.peak, (uint64_t)EACH * (CLASS_COUNT - 1));
  CHECK_EQ(stats.total.slabs, (uint64_t)0);
}

TEST(stats, the_peak_of_all_classes_is_of_one_moment_and_not_the_sum_of_many, "") {
  enum { EACH = 1000 };
  void *p[EACH];
  for (size_t size = 100; size <= 1000; size += 100) {
    for (int i = 0; i < EACH; i++) p[i] = fast_malloc(size);
    read_stats();
    CHECK_GE(stats.classes[class_of(size) - 1].peak, (uint64_t)EACH);
    CHECK_GE(stats.total.peak, stats.total.live);
    for (int i = 0; i < EACH; i++) fast_free(p[i]);
    heap_collect(true);
  }
  CHECK_LT(stats.total.peak, (uint64_t)2 * EACH);
}

TEST(stats, blocks_freed_by_others_and_blocks_of_slabs_of_nobody_are_counted_right, "I3") {
  void *p[1000];
  for (int i = 0; i < 1000; i++) p[i] = fast_malloc(100);
  heap_let_go(my_heap());
  for (int i = 0; i < 400; i++) fast_free(p[i]);
  heap_flush_shared(my_heap());
  heap_flush_bins(my_heap());
  read_stats();
  CHECK_EQ(stats.total.live, (uint64_t)600);
  CHECK_GT(stats.remote_frees, (uint64_t)30);               /* until the heap takes a slab over */
}

static void *others[1000];
static void allocate_others(void *context) {
  (void)context;
  for (size_t i = 0; i < ARRAY_LENGTH(others); i++) others[i] = fast_malloc(100);
}

TEST(stats, frees_of_others_blocks_are_counted_beyond_32_bits, "") {
  in_thread(allocate_others, NULL, false);
  read_stats();
  uint64_t before = stats.remote_frees, swaps = stats.swaps;
  atomic64_store_relaxed(&my_heap()->remote_frees, UINT32_MAX - 10);
  atomic64_store_relaxed(&my_heap()->swaps, UINT32_MAX);
  for (size_t i = 0; i < ARRAY_LENGTH(others); i++) fast_free(others[i]);
  heap_flush_shared(my_heap());
  read_stats();
  CHECK_EQ(stats.remote_frees, before + UINT32_MAX - 10 + ARRAY_LENGTH(others));
  CHECK_GT(stats.swaps, swaps + UINT32_MAX);
}

TEST(stats, large_and_huge_blocks_are_counted, "") {
  void *a = fast_malloc(100000), *b = fast_malloc(HUGE_MIN_SIZE);
  read_stats();
  CHECK_EQ(stats.large_live, (uint64_t)1);
  CHECK_EQ(stats.huge_live, (uint64_t)1);
  CHECK_EQ(stats.live_bytes, align_up(100000, 4096) + HUGE_MIN_SIZE);
  CHECK_GE(stats.committed, stats.live_bytes);
  CHECK_GE(stats.peak_committed, stats.committed);
  CHECK_GE(stats.mapped, stats.committed);
  fast_free(a);
  fast_free(b);
  read_stats();
  CHECK_EQ(stats.large_live + stats.huge_live, (uint64_t)0);
  CHECK_EQ(stats.large_allocated, (uint64_t)1);
  CHECK_EQ(stats.huge_allocated, (uint64_t)1);
}

static void free_it(void *p) { fast_free(p); }

TEST(stats, a_large_block_that_another_thread_frees_is_counted_once, "") {
  void *p = fast_malloc(100000), *q = fast_malloc(100000);
  in_thread(free_it, p, false);
  read_stats();
  CHECK_EQ(stats.large_live, (uint64_t)1);
  fast_free(q);
  atomic64_bump(&my_heap()->large_live, (uint64_t)-1); /* seen before its other half */
  read_stats();
  CHECK_EQ(stats.large_live, (uint64_t)0);
  CHECK_EQ(stats.large_allocated, (uint64_t)2);
}

TEST(stats, what_the_system_was_asked_is_what_it_counted, "") {
  for (int i = 0; i < 300; i++) fast_free(fast_malloc((size_t)i * 5000));
  os_fake_fail(OS_FAKE_MAPPING, 1, false);
  fast_free(fast_malloc(HUGE_MIN_SIZE));
  heap_collect(true);
  read_stats();
  CHECK_EQ(stats.mmaps, os_fake.calls[OS_FAKE_MAP] + os_fake.calls[OS_FAKE_MAP_AT]);
  CHECK_EQ(stats.munmaps, os_fake.calls[OS_FAKE_UNMAP]);
  CHECK_EQ(stats.mremaps, os_fake.calls[OS_FAKE_MOVE] + os_fake.calls[OS_FAKE_RESIZE]);
  CHECK_EQ(stats.madvises, os_fake.calls[OS_FAKE_DISCARD] + os_fake.calls[OS_FAKE_POPULATE] +
                           os_fake.calls[OS_FAKE_ADVISE_HUGE]);
  CHECK_EQ(stats.failed_calls, (uint64_t)1);
  CHECK_GT(stats.purged, (uint64_t)0);
  CHECK_EQ(stats.dirty, (uint64_t)0);
}

TEST(stats, resident_memory_follows_what_is_touched_and_given_back, "") {
  char *p = fast_malloc(MiB(8));
  read_stats();
  uint64_t before = stats.resident;
  memset(p, 1, MiB(8));
  read_stats();
  CHECK_GE(stats.resident, before + MiB(8));
  CHECK_LE(stats.resident, stats.mapped);
  fast_free(p);
  heap_collect(true);
  read_stats();
  CHECK_LE(stats.resident, before + KiB(64));
}

static void use_a_little(void *context) {
  (void)context;
  for (int i = 0; i < 500; i++) fast_free(fast_malloc(300));
}

TEST(stats, a_thread_that_ended_leaves_its_counts, "S-pool") {
  use_a_little(NULL);
  in_thread(use_a_little, NULL, true);
  in_thread(use_a_little, NULL, false);
  read_stats();
  CHECK_EQ(stats.threads, (uint64_t)2);
  CHECK_GE(stats.heaps, (uint64_t)2);
  uint64_t once = stats.classes[class_of(300) - 1].allocated;
  in_thread(use_a_little, NULL, true);
  read_stats();
  CHECK_GT(stats.classes[class_of(300) - 1].allocated, once);
}

TEST(stats, with_detail_the_bytes_asked_for_are_counted_too, "") {
  core_option(OPTION_stats_detail, 1);
  for (int i = 0; i < 100; i++) fast_malloc(100);
  read_stats();
  CHECK_EQ(stats.classes[class_of(100) - 1].requested, (uint64_t)10000);
  CHECK_EQ(stats.total.requested, (uint64_t)10000);
}

TEST(stats, reading_them_before_anything_else_is_allowed_and_says_nothing_is_there, "") {
  read_stats();
  CHECK_EQ(stats.mapped + stats.committed + stats.live_bytes + stats.heaps + stats.arenas,
           (uint64_t)0);
}
