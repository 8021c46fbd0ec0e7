/* upkeep_test.c - tests of heap/upkeep */
#include "heaps.h"

#include "../../src/arena/budget.h"

TEST(upkeep, collecting_without_a_heap_is_no_call_at_all, "") {
  heap_collect(true);
  heap_collect(false);
  CHECK_EQ(pool_size(), 0u);
  CHECK_EQ(os_fake.mapped, 0u);
}

TEST(upkeep, a_collection_unmaps_what_is_free_where_a_limit_counts_what_is_mapped, "") {
  fast_free(fast_malloc(MiB(40)));
  size_t before = os_fake.mapped;
  heap_collect(true);
  CHECK_EQ(os_fake.mapped, before);
  os_fake.most_mapped = MiB(100);
  heap_collect(false);
  CHECK_EQ(os_fake.mapped, before);
  heap_collect(true);
  CHECK_LE(os_fake.mapped, before - MiB(32)); /* whole groups */
}

static unsigned rounds;
static void sleep_hook(uint32_t ms) {
  static const struct {
    int64_t delay;
    uint32_t nap;
  } times[] = {
    {0, 20}, {50, 50}, {600000, 1000}, {-1, 1000}, {50, 50},
  };
  CHECK_GE(ms, 20u);
  rounds++;
  if (rounds == 20) CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  if (rounds < 20) return;
  if (rounds > 20) CHECK_EQ(ms, times[rounds - 21].nap);
  if (rounds == 20 + ARRAY_LENGTH(times)) _exit(0);
  core_option(OPTION_purge_delay_ms, times[rounds - 20].delay);
}

TEST(upkeep, the_background_thread_is_started_once_if_it_is_wanted_and_gives_memory_back, "") {
  heap_start();
  CHECK(os_fake.started == NULL);
  core_option(OPTION_background, 1);
  heap_start();
  CHECK(os_fake.started != NULL);
  void (*run)(void) = os_fake.started;
  os_fake.started = NULL;
  heap_start();
  CHECK(os_fake.started == NULL);
  fast_free(fast_malloc(MiB(3)));
  CHECK_GT(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  os_fake.sleep = sleep_hook;
  run();
  FAIL("the background thread returned");
}

/* Twelve seconds in which nobody does anything; then the thread is left, from within its sleep. */
static unsigned naps;
static void sleep_and_leave(uint32_t ms) {
  if ((naps += ms) > 12000) pthread_exit(NULL);
}
static void *run_background(void *context) {
  (void)context;
  os_fake.started();
  return NULL;
}
static void allocate_sixteen(void *p) {
  for (int i = 0; i < 16; i++) ((void **)p)[i] = fast_malloc(3000);
}

TEST(upkeep, the_background_thread_collects_what_rests_when_nothing_has_changed_for_a_while, "") {
  os_fake.page_size = 4096;
  pthread_t thread;
  void *p[16];
  core_option(OPTION_background, 1);
  heap_start();
  in_thread(allocate_sixteen, p, false);
  for (int i = 1; i < 16; i++) fast_free(p[i]);
  heap_collect(false); /* a slab without an owner, with room */
  slab_t *s = slab_of(p[0]);
  CHECK_EQ(atomic32_load_relaxed(&s->holes), 0u);
  os_fake.sleep = sleep_and_leave;
  CHECK_EQ(pthread_create(&thread, NULL, run_background, NULL), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_NE(atomic32_load_relaxed(&s->holes), 0u);
}

static unsigned wakes;
static void sleep_and_count(uint32_t ms) {
  if ((naps += ms) > 11000) wakes++;
  if (naps > 31000) pthread_exit(NULL);
}

TEST(upkeep, the_background_thread_wakes_once_a_second_when_nothing_is_left_to_do, "") {
  pthread_t thread;
  core_option(OPTION_background, 1);
  my_heap();
  fast_free(fast_malloc(MiB(3)));
  heap_start();
  naps = wakes = 0;
  os_fake.sleep = sleep_and_count;
  CHECK_EQ(pthread_create(&thread, NULL, run_background, NULL), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  CHECK_LE(wakes, 21u);
}

TEST(upkeep, the_background_thread_gives_nothing_back_under_pressure_where_nothing_is_to_go, "") {
  pthread_t thread;
  core_option(OPTION_background, 1);
  core_option(OPTION_purge_delay_ms, -1);
  core_option(OPTION_memory_soft, MiB(1));
  my_heap();
  fast_free(fast_malloc(MiB(3)));
  uint64_t dirty = atomic64_load_relaxed(&arena_counts.dirty);
  heap_start();
  naps = wakes = 0;
  os_fake.sleep = sleep_and_count;
  CHECK_EQ(pthread_create(&thread, NULL, run_background, NULL), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK(budget_is_tight());
  CHECK_GE(atomic64_load_relaxed(&arena_counts.dirty), dirty);
}

/* Frees blocks of a class, of which one is then written to: does the look at exit find it? */
static void write_and_look(size_t size, size_t at, uint64_t value) {
  enum { BLOCKS = 40 };
  uint64_t *p[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) p[i] = fast_malloc(size);
  for (int i = 0; i < BLOCKS; i++) fast_free(p[i]);
  heap_check_last();
  uint64_t before = p[7][at];
  p[7][at] = value;
  EXPECT_ABORT(heap_check_last(), "heap corruption: .* in exit");
  p[7][at] = before;
  heap_check_last();
}

TEST(upkeep, a_write_to_a_freed_block_s_link_or_key_is_found_at_exit, "") {
  static const size_t sizes[] = {16, 100, 1000, 5000};
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
    write_and_look(sizes[i], 0, 0x4141414141414141);
    write_and_look(sizes[i], 0, 0x7FFFFFFFF000); /* nothing of ours lies there */
    write_and_look(sizes[i], 1, 0);
  }
}

TEST(upkeep, a_thread_without_a_heap_has_nothing_to_look_at_at_exit, "") { heap_check_last(); }
