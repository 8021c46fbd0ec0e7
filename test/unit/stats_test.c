/* stats_test.c - tests of heap/stats */
#include "heaps.h"

#include <sys/mman.h>

#include "../../src/stock/lanes.h"

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

/* How far the peak of a class may be from the truth: what each thread's tally holds back, and its
 * bin. */
static uint64_t near(unsigned c, uint64_t threads) { return threads * (slab_tally_step(c) + 32); }

TEST(stats, the_peak_of_each_class_is_known_though_nobody_looked_then, "") {
  enum { BLOCKS = 60000 };
  static void *p[BLOCKS];
  const size_t sizes[] = {16, 200, 1000, 5000, 16384};
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
    unsigned c = class_of(sizes[i]);
    uint64_t most = BLOCKS / (1 + sizes[i] / 1000);
    for (uint64_t k = 0; k < most; k++) p[k] = fast_malloc(sizes[i]);
    for (uint64_t k = 0; k < most; k++) fast_free(p[k * 7919 % most]);
    for (int k = 0; k < 1000; k++) p[k] = fast_malloc(sizes[i]);
    for (int k = 0; k < 1000; k++) fast_free(p[k]);
    read_stats();
    uint64_t peak = stats.classes[c - 1].peak;
    CHECK_GE(peak + near(c, 1), most);
    CHECK_LE(peak, most + near(c, 1));
    CHECK_LE(near(c, 1), most / 30);
  }
}

enum { TOGETHER = 16, TOGETHER_BLOCKS = 20000 };
static void *of_threads[TOGETHER][TOGETHER_BLOCKS];
static pthread_barrier_t all_have_them;

/* Each frees what its neighbour allocated. */
static void *hold_together(void *context) {
  size_t me = (size_t)(uintptr_t)context, other = (me + 1) % TOGETHER;
  for (int i = 0; i < TOGETHER_BLOCKS; i++) of_threads[me][i] = fast_malloc(48);
  pthread_barrier_wait(&all_have_them);
  for (int i = 0; i < TOGETHER_BLOCKS; i++) fast_free(of_threads[other][i]);
  pthread_barrier_wait(&all_have_them);
  for (int i = 0; i < TOGETHER_BLOCKS / 4; i++) of_threads[me][i] = fast_malloc(48);
  for (int i = 0; i < TOGETHER_BLOCKS / 4; i++) fast_free(of_threads[me][i]);
  return NULL;
}

TEST(stats, the_peak_of_what_sixteen_threads_hold_at_once_is_known_when_all_is_freed, "") {
  pthread_t threads[TOGETHER];
  uint64_t most = (uint64_t)TOGETHER * TOGETHER_BLOCKS;
  unsigned c = class_of(48);
  pthread_barrier_init(&all_have_them, NULL, TOGETHER);
  for (size_t i = 0; i < TOGETHER; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, hold_together, (void *)(uintptr_t)i), 0);
  for (size_t i = 0; i < TOGETHER; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
  read_stats();
  CHECK_GE(stats.classes[c - 1].peak + near(c, TOGETHER), most);
  CHECK_LE(stats.classes[c - 1].peak, most + near(c, TOGETHER));
}

TEST(stats, blocks_freed_by_others_and_blocks_of_slabs_of_nobody_are_counted_right, "I3") {
  void *p[1000];
  for (int i = 0; i < 1000; i++) p[i] = fast_malloc(100);
  heap_give_up_all(my_heap());
  for (int i = 0; i < 400; i++) fast_free(p[i]);
  outbox_flush(my_heap());
  heap_flush_bins(my_heap());
  read_stats();
  CHECK_EQ(stats.total.live, (uint64_t)600);
  CHECK_GT(stats.shared_frees, (uint64_t)30); /* until the heap takes a slab over */
  CHECK_EQ(stats.remote_frees, (uint64_t)0);
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
  outbox_flush(my_heap());
  read_stats();
  CHECK_EQ(stats.remote_frees, before + UINT32_MAX - 10 + ARRAY_LENGTH(others));
  CHECK_GT(stats.swaps, swaps + UINT32_MAX);
}

TEST(stats, large_and_huge_blocks_are_counted, "") {
  void *a = fast_malloc(100000), *b = fast_malloc(HUGE_LEAST);
  read_stats();
  CHECK_EQ(stats.large_live, (uint64_t)1);
  CHECK_EQ(stats.huge_live, (uint64_t)1);
  CHECK_EQ(stats.live_bytes, heap_usable_size(a, "t") + HUGE_LEAST);
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

TEST(stats, blocks_of_no_bytes_are_counted, "") {
  void *p[100];
  for (int i = 0; i < 100; i++) p[i] = fast_malloc(0);
  for (int i = 0; i < 40; i++) fast_free(p[i]);
  read_stats();
  CHECK_EQ(stats.empty_live, (uint64_t)60);
  CHECK_EQ(stats.total.live + stats.large_live + stats.huge_live + stats.live_bytes, (uint64_t)0);
  for (int i = 40; i < 100; i++) fast_free(p[i]);
  read_stats();
  CHECK_EQ(stats.empty_live, (uint64_t)0);
}

static void free_it(void *p) { fast_free(p); }

TEST(stats, a_large_block_that_another_thread_frees_is_counted_once, "") {
  void *p = fast_malloc(100000), *q = fast_malloc(100000);
  in_thread(free_it, p, false);
  read_stats();
  CHECK_EQ(stats.large_live, (uint64_t)1);
  fast_free(q);
  atomic64_add_own(&my_heap()->large_live, (uint64_t)-1); /* seen before its other half */
  read_stats();
  CHECK_EQ(stats.large_live, (uint64_t)0);
  CHECK_EQ(stats.large_allocated, (uint64_t)2);
}

TEST(stats, what_the_system_was_asked_is_what_it_counted, "") {
  for (int i = 0; i < 300; i++) fast_free(fast_malloc((size_t)i * 5000));
  os_fake_fail(OS_FAKE_MAPPING, 1, false);
  fast_free(fast_malloc(HUGE_LEAST));
  heap_collect(true);
  read_stats();
  CHECK_EQ(stats.mmaps, os_fake.calls[OS_FAKE_MAP] + os_fake.calls[OS_FAKE_MAP_AT]);
  CHECK_EQ(stats.munmaps, os_fake.calls[OS_FAKE_UNMAP]);
  CHECK_EQ(stats.mremaps, os_fake.calls[OS_FAKE_MOVE] + os_fake.calls[OS_FAKE_RESIZE]);
  CHECK_EQ(stats.madvises, os_fake.calls[OS_FAKE_DISCARD] + os_fake.calls[OS_FAKE_POPULATE] +
                             os_fake.calls[OS_FAKE_ADVISE_HUGE] + os_fake.calls[OS_FAKE_PROTECT]);
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

TEST(stats, figures_of_the_process_are_the_systems_once_however_many_heaps_there_are, "") {
  os_fake.usage = (os_usage_t){1, 2, 3, 4, 5, 6};
  use_a_little(NULL);
  in_thread(use_a_little, NULL, false);
  read_stats();
  CHECK_EQ(stats.heaps, (uint64_t)2);
  CHECK_EQ(stats.elapsed_ms, (uint64_t)1);
  CHECK_EQ(stats.user_ms, (uint64_t)2);
  CHECK_EQ(stats.system_ms, (uint64_t)3);
  CHECK_EQ(stats.minor_faults, (uint64_t)4);
  CHECK_EQ(stats.major_faults, (uint64_t)5);
  CHECK_EQ(stats.peak_resident, (uint64_t)6);
}

TEST(stats, with_detail_the_bytes_asked_for_are_counted_too, "") {
  core_option(OPTION_stats_detail, 1);
  atomic32_store_relaxed(&heap_closed, 1);
  for (int i = 0; i < 100; i++) fast_malloc(100);
  read_stats();
  CHECK_EQ(stats.classes[class_of(100) - 1].requested, (uint64_t)10000);
  CHECK_EQ(stats.total.requested, (uint64_t)10000);
}

TEST(stats, detail_counts_a_request_once_also_if_memory_is_short_and_none_for_aligned_blocks, "") {
  core_option(OPTION_stats_detail, 1);
  atomic32_store_relaxed(&heap_closed, 1);
  CHECK(fast_malloc(100) != NULL && fast_aligned(64, 128) != NULL);
  CHECK(fast_aligned(16, 100) != NULL && fast_malloc(70000) != NULL);
  read_stats();
  CHECK_EQ(stats.total.requested, (uint64_t)200);
  core_option(OPTION_memory_limit, 1);
  CHECK_NULL(fast_malloc(5000));
  read_stats();
  CHECK_EQ(stats.total.requested, (uint64_t)5200);
}

/* ---- heap by heap ---------------------------------------------------------------------------- */

enum { IN_MY_HEAP = 300, IN_ANOTHER = 500, OF_SIZE = 64 };
static heap_stats_t rows[8];
static size_t row_count;
static void keep_row(const heap_stats_t *row, void *context) {
  (void)context;
  CHECK_LT(row_count, ARRAY_LENGTH(rows));
  rows[row_count++] = *row;
}
static void allocate_in_another(void *context) {
  for (int i = 0; i < IN_ANOTHER; i++) CHECK(fast_malloc(OF_SIZE) != NULL);
  heap_stats_each(keep_row, context);
}

TEST(stats, each_heap_has_what_its_thread_took_and_the_slabs_that_it_owns, "") {
  void *first[IN_MY_HEAP];
  os_fake.thread = 4711;
  for (int i = 0; i < IN_MY_HEAP; i++) first[i] = fast_malloc(OF_SIZE);
  in_thread(allocate_in_another, NULL, false);
  CHECK_EQ(row_count, (size_t)2);
  for (size_t i = 0; i < row_count; i++) {
    int64_t least = OF_SIZE * (i == 0 ? IN_MY_HEAP : IN_ANOTHER);
    CHECK_EQ(rows[i].slabs, (int64_t)1);
    CHECK_EQ(rows[i].live_bytes + rows[i].free_bytes,
             (int64_t)(class_info[class_of(OF_SIZE)].capacity * OF_SIZE));
    CHECK_GE(rows[i].net_bytes, least);
    CHECK_LE(rows[i].live_bytes, rows[i].net_bytes); /* the first blocks are borrowed */
    CHECK_EQ(rows[i].heap, (int64_t)0);
  }
  CHECK_EQ(rows[1].thread, (int64_t)4711);
  for (int i = 0; i < IN_MY_HEAP; i++) fast_free(first[i]);
}

static void free_all_of(void *blocks) {
  fast_free(fast_malloc(100000)); /* else it has no heap */
  for (int i = 0; i < 100; i++) fast_free(((void **)blocks)[i]);
  row_count = 0;
  heap_stats_each(keep_row, NULL);
}

TEST(stats, a_thread_that_frees_what_others_took_has_less_than_nothing, "") {
  void *blocks[100];
  for (int i = 0; i < 100; i++) blocks[i] = fast_malloc(100000);
  in_thread(free_all_of, blocks, false);
  CHECK_EQ(row_count, (size_t)2);
  CHECK_LE(rows[1].net_bytes, (int64_t)-100 * 100000);
  CHECK_EQ(rows[0].net_bytes, 0 - rows[1].net_bytes);
}

TEST(stats, a_lane_names_its_first_class_heap, "") {
  void *heap = firstclass_new();
  for (int i = 0; i < 100; i++) CHECK(firstclass_aligned(heap, 1, 1000) != NULL);
  row_count = 0;
  heap_stats_each(keep_row, NULL);
  size_t found = 0;
  for (size_t i = 0; i < row_count; i++) {
    if (rows[i].heap != (int64_t)(uintptr_t)heap) continue;
    found++;
    CHECK_GE(rows[i].live_bytes, (int64_t)100 * 1000);
  }
  CHECK_EQ(found, (size_t)1);
  firstclass_destroy(heap);
}

TEST(stats, reading_them_before_anything_else_is_allowed_and_says_nothing_is_there, "") {
  read_stats();
  CHECK_EQ(stats.mapped + stats.committed + stats.live_bytes + stats.heaps + stats.arenas,
           (uint64_t)0);
}

/* ---- the sums that are kept ------------------------------------------------------------------ */

/* As a visit of every slab has it. */
static void visited(uint64_t *live, uint64_t *free) {
  read_stats();
  *live = stats.live_bytes;
  *free = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    *free += stats.classes[c - 1].slabs * class_info[c].capacity - stats.classes[c - 1].live;
}

static void check_sums(void) {
  uint64_t live, free, live_kept, free_kept;
  visited(&live, &free);
  heap_sums(&live_kept, &free_kept);
  CHECK_EQ(live_kept, live);
  CHECK_EQ(free_kept, free);
}

enum { HELD = 3000 };
static void *held[HELD];

static size_t size_of_any_kind(uint64_t *state) {
  uint64_t n = core_next(state);
  switch (n % 16) {
    case 0: return n % MiB(3);
    case 1: return n % 300 == 1 ? HUGE_LEAST + n % MiB(1) : SMALL_MOST + n % MiB(1);
    case 2:
    case 3: return n / 16 % SMALL_MOST;
    default: return n / 16 % 600;
  }
}

static void change_some(void *state) {
  for (int i = 0; i < 5000; i++) {
    void **p = &held[core_next(state) % HELD];
    if (core_next(state) % 4 == 0) {
      *p = any_realloc(*p, size_of_any_kind(state), "realloc");
    } else {
      fast_free(*p);
      *p = core_next(state) % 2 != 0 ? fast_malloc(size_of_any_kind(state)) : NULL;
    }
  }
}

static void change_some_and_collect(void *state) {
  change_some(state);
  heap_collect(false);
}

TEST(stats, the_sums_are_what_a_visit_finds_to_the_block_if_no_other_thread_owns_slabs, "I1 I3") {
  uint64_t state = 5;
  for (int round = 0; round < 30; round++) {
    change_some(&state);
    check_sums();
    in_thread(change_some_and_collect, &state, round % 2 == 0);
    check_sums();
    if (round % 5 == 0) heap_collect(true);
    check_sums();
  }
  for (int i = 0; i < HELD; i++) fast_free(held[i]);
  check_sums();
  check_nothing_lost();
}

/* Bytes on the private lists of the heap's slabs, which the sums have as live. */
static uint64_t private_of(const fh_heap_t *heap) {
  uint64_t bytes = 0;
  heap_t *lane = atomic_ptr_load_relaxed(&heap->lanes);
  for (; lane != NULL; lane = lanes_next(lane))
    for (unsigned c = 1; c < CLASS_COUNT; c++)
      for (const slab_t *s = owned_first(lane, c); s != NULL; s = s->next)
        bytes += slab_private_count(s) * class_size(c);
  return bytes;
}

TEST(stats, the_sums_follow_heaps_of_the_program, "F1") {
  fh_heap_t *heaps[] = {firstclass_new(), firstclass_new()};
  uint64_t live, free, live_kept, free_kept;
  uint64_t state = 6;
  for (int i = 0; i < 20000; i++) {
    void **p = &held[core_next(&state) % HELD];
    fast_free(*p);
    *p = firstclass_aligned(heaps[i % 2], 1, size_of_any_kind(&state) % MiB(1));
  }
  for (int i = 0; i < HELD / 2; i++) {
    fast_free(held[i]);
    held[i] = NULL;
  }
  visited(&live, &free);
  heap_sums(&live_kept, &free_kept);
  CHECK_EQ(live_kept, live + private_of(heaps[0]) + private_of(heaps[1]));
  firstclass_delete(heaps[0]);
  visited(&live, &free);
  heap_sums(&live_kept, &free_kept);
  CHECK_EQ(live_kept, live + private_of(heaps[1]));
  firstclass_destroy(heaps[1]);
  check_sums();
}

static void free_all_but_few(void *context) {
  char **p = context;
  for (int i = 0; i < HELD; i++) p[i] = fast_malloc(200);
  for (int i = 0; i < HELD; i++)
    if (i % 64 != 0) fast_free(p[i]);
}

TEST(stats, the_sums_are_too_high_by_no_more_than_other_threads_have_freed_in_their_own_slabs,
     "I1") {
  uint64_t live, free, live_kept, free_kept;
  in_thread(free_all_but_few, held, false); /* it sleeps from now on */
  visited(&live, &free);
  heap_sums(&live_kept, &free_kept);
  CHECK_GE(live_kept, live);
  CHECK_LE(live_kept - live, (uint64_t)OWNED_MOST * SLICE_SIZE);
  CHECK_EQ((live_kept - live) / class_size(class_of(200)), free - free_kept);
}

static void allocate_one(void *p) { *(void **)p = fast_malloc(1000); }

TEST(stats, threads_that_share_a_tally_are_counted_too, "") {
  for (int i = 0; i < TALLIES_OWN + 50; i++) in_thread(allocate_one, &held[i], false);
  CHECK_GE(pool_size(), (size_t)TALLIES_OWN + 50);
  check_sums();
  for (int i = 0; i < TALLIES_OWN + 50; i++) fast_free(held[i]);
  heap_collect(true);
  check_sums();
}

/* Its memory may not even be read. */
static void forbid(arena_t *a, int protection) {
  CHECK_EQ(mprotect(a, WINDOW_SIZE / 2, protection), 0);
}

TEST(stats, reading_the_sums_looks_at_no_slab_but_those_that_the_thread_owns, "") {
  enum { BLOCK = 100 << 20, BLOCKS = 40 };
  uint64_t live, free;
  char *small = fast_malloc(100);
  for (int i = 0; i < BLOCKS; i++) held[i] = fast_malloc(BLOCK);
  CHECK_GE(arena_count(), 4u);
  for (size_t i = 0; i < arena_count(); i++)
    if (arena_at(i) != arena_of(small)) forbid(arena_at(i), PROT_NONE);
  heap_sums(&live, &free);
  for (size_t i = 0; i < arena_count(); i++)
    if (arena_at(i) != arena_of(small)) forbid(arena_at(i), PROT_READ | PROT_WRITE);
  CHECK_GE(live, (uint64_t)BLOCKS * BLOCK);
}
