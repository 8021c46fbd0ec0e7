/* sample_test.c - tests of stock/sample */
#include "heaps.h"

#include "../../src/stock/lanes.h"
#include "../../src/stock/sample.h"
#include "../../src/support/poisson.h"

enum { EACH = 1, INTERVAL = 4096 }; /* bytes: every block is sampled, or some are */

typedef struct {
  uint64_t blocks, bytes;
} sum_t;

static void add_to(sum_t *sum, const callstack_sum_t *more) {
  sum->blocks += atomic64_load_relaxed(&more->blocks);
  sum->bytes += atomic64_load_relaxed(&more->bytes);
}

/* Of all call stacks. */
static void sum_up(sum_t *allocated, sum_t *live, sum_t *peak) {
  const uintptr_t *frames;
  *allocated = *live = *peak = (sum_t){0, 0};
  for (uint32_t n = 0; n < callstack_count(); n++) {
    const callstack_t *s = callstack_at(n, &frames);
    if (s == NULL) continue;
    add_to(allocated, &s->allocated);
    add_to(live, &s->live);
    add_to(peak, &s->peak);
  }
}

/* Of all pairs, and of what found none. */
static sum_t sum_of_freed(uint64_t *lifetime) {
  const uintptr_t *frames;
  sum_t freed = {0, 0};
  *lifetime = 0;
  for (uint32_t n = 0; n < callstack_pairs_end(); n++) {
    const callstack_t *s = callstack_at(n, &frames);
    if (s == NULL) continue;
    add_to(&freed, &s->freed);
    *lifetime += atomic64_load_relaxed(&s->lifetime);
  }
  return freed;
}

static double live_blocks(void) {
  sum_t allocated, live, peak;
  sum_up(&allocated, &live, &peak);
  return (double)live.blocks / POISSON_ONE;
}
static uint64_t live_bytes(void) {
  sum_t allocated, live, peak;
  sum_up(&allocated, &live, &peak);
  return live.bytes;
}

static bool is_sampled(void *p) {
  uintptr_t tenant = map_find(p);
  if (map_kind(tenant) == TENANT_HUGE)
    return sampled_blocks(&((huge_t *)map_record(tenant))->sampled) != 0;
  return (slab_word(slab_of(p)) & SLAB_IS_SAMPLED) != 0;
}

TEST(sample, nothing_is_touched_before_it_is_started, "") {
  void *p = fast_malloc(100);
  CHECK(!is_sampled(p));
  fast_free(p);
  CHECK_EQ(sample_of(my_heap())->random, (uint64_t)0);
  CHECK_EQ(os_fake.calls[OS_FAKE_MAP], 0u);
}

TEST(sample, every_block_is_sampled_whatever_it_is_if_the_interval_is_a_byte, "") {
  static const size_t sizes[] = {1, 16, 100, 1024, 5000, 16384, 16385, 100000, MiB(5), MiB(600)};
  void *p[ARRAY_LENGTH(sizes)];
  CHECK(sample_start(EACH));
  for (unsigned i = 0; i < ARRAY_LENGTH(sizes); i++) {
    p[i] = fast_malloc(sizes[i]);
    CHECK(p[i] != NULL && is_sampled(p[i]) && heap_usable_size(p[i], "t") >= sizes[i]);
    CHECK((uint64_t)live_blocks() == i + 1);
  }
  CHECK(live_bytes() >= MiB(605) && live_bytes() < MiB(606));
  for (unsigned i = 0; i < ARRAY_LENGTH(sizes); i++) fast_free(p[i]);
  CHECK_EQ(live_bytes(), (uint64_t)0);
  CHECK(live_blocks() == 0);
  check_nothing_lost();
}

TEST(sample, a_block_that_realloc_leaves_in_its_class_stays_sampled_as_the_others_stay, "") {
  enum { BLOCKS = 4000, SIZE = 200, LESS = 195, MORE = 400 };
  char *p[BLOCKS];
  CHECK(sample_start(INTERVAL));
  for (int i = 0; i < BLOCKS; i++) p[i] = fast_malloc(SIZE);
  uint64_t before = live_bytes();
  CHECK(before != 0);
  for (int i = 0; i < BLOCKS; i++) CHECK_EQ(heap_resize(p[i], LESS, NULL, "t"), (void *)p[i]);
  CHECK_EQ(live_bytes(), before);
  for (int i = 0; i < BLOCKS; i++) CHECK(heap_resize(p[i], MORE, NULL, "t") == NULL); /* moves */
  for (int i = 0; i < BLOCKS; i++) fast_free(p[i]);
  CHECK_EQ(live_bytes(), (uint64_t)0);
}

TEST(sample, an_aligned_block_has_room_for_what_realloc_promises, "") {
  CHECK(sample_start(EACH));
  for (size_t alignment = 32; alignment <= 16384; alignment *= 2)
    for (size_t size = 1; size <= 16384; size += size / 2 + 1) {
      char *p = heap_aligned_slow(alignment, 100), *same = heap_resize(p, size, NULL, "t");
      if (same != NULL) CHECK_GE(heap_usable_size(same, "t"), size);
      fast_free(same != NULL ? same : p);
    }
}

TEST(sample, a_block_that_cannot_grow_stays_sampled, "") {
  static const size_t sizes[] = {MiB(2), MiB(600)};
  CHECK(sample_start(EACH));
  for (unsigned i = 0; i < ARRAY_LENGTH(sizes); i++) {
    char *p = fast_malloc(sizes[i]);
    uint64_t before = live_bytes();
    os_fake.most_mapped = os_fake.mapped;
    CHECK(heap_resize(p, MiB(1500), NULL, "t") == NULL);
    os_fake.most_mapped = SIZE_MAX;
    CHECK(is_sampled(p));
    CHECK_EQ(live_bytes(), before);
  }
}

TEST(sample, a_heaps_block_that_is_first_sampled_by_realloc_is_its_heaps, "") {
  fh_heap_t *heap = firstclass_new();
  char *p = firstclass_aligned(heap, 1, 20000);
  CHECK(sample_start(EACH));
  CHECK_EQ(heap_resize(p, 30000, heap, "t"), (void *)p);
  CHECK_EQ(atomic_ptr_load_relaxed(&slab_of(p)->sampled.heap), (void *)heap);
}

TEST(sample, a_block_has_the_call_stack_of_its_malloc_and_its_pair_that_of_its_free, "S-stack") {
  static const uintptr_t born[] = {0x401000, 0x402000}, died[] = {0x403000};
  const uintptr_t *frames;
  CHECK(sample_start(EACH));
  os_fake.frames = born, os_fake.frame_count = 2;
  char *p = fast_malloc(100);
  const sampled_t *block = &slab_of(p)->sampled;
  uint32_t number = sampled_stack(block);
  CHECK(callstack_length(callstack_at(number, &frames)) == 2 && frames[1] == 0x402000);
  os_fake.frames = died, os_fake.frame_count = 1;
  fast_free(p);
  CHECK(callstack_at(callstack_pairs_end() - 1, &frames) != NULL && frames[0] == number);
  CHECK(callstack_length(callstack_at((uint32_t)frames[1], &frames)) == 1);
  CHECK_EQ(frames[0], (uintptr_t)0x403000);
}

TEST(sample, aligned_and_cleared_blocks_are_sampled_and_aligned_and_clear, "") {
  CHECK(sample_start(EACH));
  for (size_t alignment = 16; alignment <= 16384; alignment *= 2) {
    void *p = fast_aligned(alignment, 100);
    CHECK(is_sampled(p) && (uintptr_t)p % alignment == 0);
    memset(p, 7, 100);
    fast_free(p);
    char *q = heap_calloc(10, 10);
    CHECK(is_sampled(q));
    CHECK_BYTES(q, 0, 100);
    fast_free(q);
  }
  check_nothing_lost();
}

/* One thread allocates `blocks` blocks of `size` bytes, of which each `keep`th stays. */
static void check_estimate(size_t size, int blocks, int keep) {
  static void *kept[1 << 17];
  int n = 0;
  double chance = 1 - __builtin_exp(-(double)class_size(class_of(size)) / INTERVAL);
  for (int i = 0; i < blocks; i++) {
    void *p = fast_malloc(size);
    if (i % keep == 0) kept[n++] = p;
    else fast_free(p);
  }
  double deviation = __builtin_sqrt(n * (1 - chance) / chance), found = live_blocks();
  printf("%zu bytes: %d live, %.0f found, deviation %.0f\n", size, n, found, deviation);
  CHECK(found > n - 5 * deviation - 1 && found < n + 5 * deviation + 1);
  while (n > 0) fast_free(kept[--n]);
  CHECK(live_blocks() == 0);
}

TEST(sample, what_lives_is_estimated_without_bias_whatever_its_size, "") {
  CHECK(sample_start(INTERVAL));
  check_estimate(16, 100000, 1);
  check_estimate(100, 100000, 1);
  check_estimate(100, 100000, 7);
  check_estimate(1000, 50000, 3);
  check_estimate(4000, 20000, 2);
  check_estimate(16384, 5000, 5);
  check_nothing_lost();
}

TEST(sample, what_is_cut_off_a_bin_is_the_next_bin_and_goes_back_with_it, "") {
  enum { MANY = 5000 };
  static void *p[MANY];
  CHECK(sample_start(INTERVAL));
  for (int i = 0; i < MANY; i++) p[i] = fast_malloc(64);
  heap_t *h = my_heap();
  unsigned c = class_of(64);
  for (int i = 0; sample_of(h)->behind[c] == 0 && i < MANY; i++) {
    fast_free(p[i]);
    p[i] = fast_malloc(64);
  }
  for (int i = 0; i < MANY; i++) fast_free(p[i]);
  heap_flush_bins(h);
  CHECK_EQ(sample_of(h)->behind[c], (uintptr_t)0);
  check_nothing_lost();
}

TEST(sample, a_block_that_grows_or_shrinks_in_place_counts_with_its_new_size, "") {
  CHECK(sample_start(EACH));
  void *p = any_realloc(NULL, 100000, "t");
  for (size_t size = 100000; size < GiB(1); size = size * 5 / 4) {
    p = any_realloc(p, size, "t");
    CHECK(is_sampled(p));
    CHECK_EQ(live_bytes(), heap_usable_size(p, "t"));
  }
  for (size_t size = GiB(1); size > 20000; size = size * 2 / 3) {
    p = any_realloc(p, size, "t");
    CHECK_EQ(live_bytes(), heap_usable_size(p, "t"));
  }
  fast_free(p);
  CHECK_EQ(live_bytes(), (uint64_t)0);
  check_nothing_lost();
}

TEST(sample, the_peak_is_kept_to_a_part_in_32, "") {
  enum { MANY = 1000 };
  static void *p[MANY];
  sum_t allocated, live, peak;
  CHECK(sample_start(EACH));
  for (int i = 0; i < MANY; i++) p[i] = fast_malloc(20000);
  uint64_t most = live_bytes();
  for (int i = 0; i < MANY; i++) fast_free(p[i]);
  fast_free(fast_malloc(20000));
  sum_up(&allocated, &live, &peak);
  CHECK_EQ(live.bytes, (uint64_t)0);
  CHECK(peak.bytes <= most && peak.bytes >= most - most / 32 - 20480);
}

static void free_it(void *p) { fast_free(p); }

TEST(sample, a_free_by_another_thread_ends_the_sample_and_leaves_its_lifetime, "") {
  uint64_t lifetime;
  CHECK(sample_start(EACH));
  void *p = fast_malloc(50);
  os_fake.now_ms += 40;
  in_thread(free_it, p, true);
  CHECK(live_blocks() == 0);
  CHECK_EQ(sum_of_freed(&lifetime).blocks, (uint64_t)POISSON_ONE);
  CHECK_EQ(lifetime, (uint64_t)40);
  check_nothing_lost();
}

TEST(sample, a_lifetime_counts_with_the_fraction_of_the_weight_however_short_it_is, "") {
  enum { BLOCKS = 3000, SIZE = 4096 };
  void *p[BLOCKS];
  CHECK(sample_start(SIZE)); /* a weight of 1.58 */
  for (uint32_t ms = 1; ms < 100000; ms *= 10) {
    uint64_t lifetime, before;
    sum_t first = sum_of_freed(&before);
    for (int i = 0; i < BLOCKS; i++) p[i] = fast_malloc(SIZE);
    os_fake.now_ms += ms;
    for (int i = 0; i < BLOCKS; i++) fast_free(p[i]);
    double freed = (double)(sum_of_freed(&lifetime).blocks - first.blocks) / POISSON_ONE;
    double mean = (double)(lifetime - before) / freed;
    CHECK(mean > 0.999 * ms && mean < 1.001 * ms);
  }
}

TEST(sample, all_that_is_freed_is_counted_from_however_many_stacks_it_is, "") {
  enum { MANY = CALLSTACKS + 3000 };
  uint64_t lifetime;
  uintptr_t frames[1];
  CHECK(sample_start(EACH));
  os_fake.frames = frames, os_fake.frame_count = 1;
  for (uintptr_t i = 0; i < MANY; i++) {
    frames[0] = 0x400000 + i % 100;
    void *p = fast_malloc(100);
    frames[0] = 0x400000 + i / 100;
    os_fake.now_ms += 2;
    fast_free(p);
  }
  CHECK_EQ(sum_of_freed(&lifetime).blocks, (uint64_t)MANY * POISSON_ONE);
  CHECK_EQ(lifetime, (uint64_t)MANY * 2);
  CHECK_EQ(callstack_unknown(), (uint64_t)0);
  check_nothing_lost();
}

TEST(sample, blocks_of_a_first_class_heap_are_sampled_and_end_with_it, "") {
  CHECK(sample_start(EACH));
  fh_heap_t *heap = firstclass_new();
  for (size_t size = 10; size < MiB(1); size *= 3) {
    void *p = firstclass_aligned(heap, 1, size);
    CHECK(is_sampled(p));
    CHECK_EQ(atomic_ptr_load_relaxed(&slab_of(p)->sampled.heap), (void *)heap);
  }
  CHECK(live_blocks() > 10);
  firstclass_destroy(heap);
  CHECK(live_blocks() == 0);
  check_nothing_lost();
}

TEST(sample, one_that_begins_while_a_thread_is_in_a_heap_spoils_no_place_of_a_block, "F2") {
  fh_heap_t *heap = firstclass_new();
  void *large = firstclass_aligned(heap, 1, 20000); /* in the place that was at hand */
  heap_t *lane = atomic_ptr_load_relaxed(&heap->lanes);
  atomic32_store_relaxed(&lane->lane_state, LANE_BUSY); /* and no place is needed, as it seems */
  CHECK(sample_start(EACH));
  void *small = heap_malloc_in(lane, 100, 1);
  CHECK(small != NULL && !is_sampled(small));
  atomic32_store_relaxed(&lane->lane_state, LANE_FREE);
  fast_free(large);
  fast_free(small);
  CHECK(is_sampled(firstclass_aligned(heap, 1, 100)));
  firstclass_destroy(heap);
  check_nothing_lost();
}

static int samples_seen;
static void count_sample(const sampled_t *block, void *context) {
  CHECK(sampled_blocks(block) != 0 && context == &samples_seen);
  samples_seen++;
}

TEST(sample, a_visit_sees_each_sampled_block_once, "") {
  CHECK(sample_start(EACH));
  void *small = fast_malloc(10), *large = fast_malloc(100000), *huge = fast_malloc(MiB(700));
  heap_visit_sampled(count_sample, &samples_seen);
  CHECK_EQ(samples_seen, 3);
  fast_free(small), fast_free(large), fast_free(huge);
}

TEST(sample, without_memory_for_a_sampled_block_a_plain_one_will_do, "") {
  CHECK(sample_start(EACH));
  void *first = fast_malloc(64);
  sample_start(0);
  void *second = fast_malloc(64); /* and a bin of its class */
  CHECK(sample_start(EACH) && !is_sampled(second));
  heap_t *h = my_heap();
  unsigned c = class_of(64);
  while (h->bin[c] != 0) CHECK(fast_malloc(64) != NULL); /* not charged for, and left */
  option_set(OPTION_memory_limit, 1);
  void *p = fast_malloc(64);
  CHECK(p != NULL && !is_sampled(p));
  fast_free(p), fast_free(first), fast_free(second);
}

static int calls;
static void count_call(void) { calls++; }

TEST(sample, growth_calls_each_time_that_a_step_more_lives, "") {
  CHECK(sample_start(EACH));
  sample_on_growth(MiB(10), count_call);
  for (int i = 0; i < 55; i++) CHECK(fast_malloc(MiB(1)) != NULL);
  CHECK_EQ(calls, 5);
}

TEST(sample, that_is_stopped_samples_no_more_and_forgets_none, "") {
  CHECK(sample_start(EACH));
  void *p = fast_malloc(100);
  CHECK(sample_start(0));
  void *q = fast_malloc(100);
  CHECK(is_sampled(p) && !is_sampled(q));
  fast_free(q);
  CHECK(live_blocks() == 1);
  fast_free(p);
  CHECK(live_blocks() == 0);
  check_nothing_lost();
}

TEST(sample, another_interval_counts_from_the_next_bin_on, "") {
  enum { MANY = 20000 };
  CHECK(sample_start(POISSON_MEAN_MOST));
  fast_free(fast_malloc(100));
  CHECK(sample_start(INTERVAL));
  for (int i = 0; i < MANY; i++) CHECK(fast_malloc(100) != NULL);
  CHECK(live_blocks() > MANY * 0.7 && live_blocks() < MANY * 1.3);
}
