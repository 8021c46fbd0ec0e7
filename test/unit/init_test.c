/* init_test.c - tests of heap/init: a thread's first call, its last, and those after */
#include "heaps.h"

TEST(init, the_first_call_may_be_any_and_starts_the_layer_above_first, "") {
  CHECK_EQ(atomic32_load_relaxed(&hooks.started), 0u);
  void *p = fast_malloc(10);
  CHECK(p != NULL);
  CHECK_GE(atomic32_load_relaxed(&hooks.started), 1u);
  fast_free(p);
  check_nothing_lost();
}

TEST(init, collecting_without_a_heap_is_no_call_at_all, "") {
  heap_collect(true);
  heap_collect(false);
  CHECK_EQ(pool_size(), 0u);
  CHECK_EQ(os_fake.mapped, 0u);
}

static void *block;
static void free_only(void *context) {
  (void)context;
  fast_free(block);
}

TEST(init, a_threads_first_call_may_be_a_free_of_anothers_block, "") {
  for (int size = 10; size < 200000; size *= 4) {
    block = fast_malloc((size_t)size);
    in_thread(free_only, NULL, true);
  }
  check_nothing_lost();
}

static void end_and_go_on(void *context) {
  (void)context;
  void *early = fast_malloc(100);
  os_fake_end_thread();  /* a destructor that runs after ours calls all this */
  uint64_t before = committed();
  for (int i = 0; i < 200; i++) {
    char *p = fast_malloc(100), *q = heap_calloc(3, 50), *r = fast_aligned(256, 70000);
    CHECK(p != NULL && q != NULL && r != NULL);
    CHECK_BYTES(q, 0, 150);
    memset(p, 1, 100);
    p = heap_realloc(p, 5000, "t");
    CHECK_BYTES(p, 1, 100);
    fast_free(p);
    fast_free(q);
    fast_free(r);
  }
  CHECK_LE(committed(), before + 1);
  fast_free(early);
  heap_collect(true);
}

TEST(init, a_thread_that_has_ended_may_still_call_anything_and_keeps_nothing, "S-pool") {
  in_thread(end_and_go_on, NULL, false);
  check_nothing_lost();
  bool is_claimed;
  size_t claimed = 0;
  for (size_t i = 0; i < pool_size(); i++) {
    pool_at(i, &is_claimed);
    claimed += is_claimed;
  }
  CHECK_EQ(claimed, 0u);
}

static void allocate(void *context) {
  (void)context;
  for (int i = 0; i < 500; i++) fast_malloc(200);
}

TEST(init, the_heap_of_an_ended_thread_is_the_next_threads, "S-pool") {
  for (int i = 0; i < 200; i++) in_thread(allocate, NULL, true);
  CHECK_EQ(pool_size(), 64u);
  CHECK_LE(committed(), (uint64_t)200 * 500 * 208 / 65000 + 3);     /* and so is its room */
}

TEST(init, where_the_end_of_a_thread_cannot_be_watched_its_blocks_can_still_be_freed, "") {
  os_fake.no_watch = true;
  block = NULL;
  in_thread(allocate, NULL, true);
  CHECK_GT(committed(), (uint64_t)0);
  os_fake.no_watch = false;
  allocate(NULL);
}

/* A signal handler that interrupts an operation and ends the thread there. */
static void end_inside(void *context) {
  (void)context;
  for (int i = 0; i < 500; i++) block = fast_malloc(200);
  heap_t *h = heap_enter();
  CHECK(h != NULL);
  fast_malloc(200);                                           /* the handler's heap */
  os_fake_end_thread();
}

TEST(init, a_heap_whose_operation_never_ended_stays_as_it_is_and_its_blocks_can_be_freed,
     "S-pool") {
  in_thread(end_inside, NULL, false);
  slab_t *s = slab_of(block);
  CHECK(anchor_unpack(atomic64_load_relaxed(&s->anchor)).state == ANCHOR_OWNED);
  fast_free(block);
  heap_flush_shared(my_heap());
  CHECK_EQ(anchor_unpack(atomic64_load_relaxed(&s->anchor)).count, 1u);
  bool is_claimed;
  pool_at(0, &is_claimed);
  CHECK(is_claimed);                                          /* the interrupted heap is retired */
}

static __thread bool rests_itself;
static unsigned rested;
static void use_and_rest(void *context) {
  void *p[500];
  (void)context;
  rests_itself = true;
  for (int i = 0; i < 500; i++) p[i] = fast_malloc(200);
  for (int i = 0; i < 500; i++) fast_free(p[i]);
  os_fake_end_thread();
}
/* While a heap that rested gives its slabs back, another thread ends and rests. */
static void rest_meanwhile(os_fake_call_t call, void *at, size_t size) {
  (void)at, (void)size;
  pthread_t thread;
  in_thread_t t = { use_and_rest, NULL, false };
  if (call != OS_FAKE_DISCARD || rests_itself || rested >= 100) return;
  rested++;
  rests_itself = true;
  CHECK_EQ(pthread_create(&thread, NULL, in_thread_run, &t), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  rests_itself = false;
}

TEST(init, collecting_ends_although_other_threads_go_on_ending, "S-pool") {
  core_option(OPTION_purge_delay_ms, 0);
  in_thread(use_and_rest, NULL, false);
  os_fake.before = rest_meanwhile;
  heap_collect(false);
  os_fake.before = NULL;
  CHECK_GT(rested, 0u);
  CHECK_LE(rested, 20u);
}

static unsigned rounds;
static void sleep_hook(uint32_t ms) {
  static const struct { int64_t delay; uint32_t nap; } times[] = {
    { 0, 20 }, { 50, 50 }, { 600000, 1000 }, { -1, 1000 }, { 50, 50 },
  };
  CHECK_GE(ms, 20u);
  rounds++;
  if (rounds == 20) CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  if (rounds < 20) return;
  if (rounds > 20) CHECK_EQ(ms, times[rounds - 21].nap);
  if (rounds == 20 + ARRAY_LENGTH(times)) _exit(0);
  core_option(OPTION_purge_delay_ms, times[rounds - 20].delay);
}

TEST(init, the_background_thread_is_started_once_if_it_is_wanted_and_gives_memory_back, "") {
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

TEST(init, the_background_thread_collects_what_rests_when_nothing_has_changed_for_a_while, "") {
  pthread_t thread;
  void *p[16];
  core_option(OPTION_background, 1);
  my_heap();
  in_thread(allocate_sixteen, p, false);
  for (int i = 1; i < 16; i++) fast_free(p[i]);
  heap_collect(false);                                      /* a slab of nobody with much room */
  slab_t *s = slab_of(p[0]);
  CHECK_EQ(atomic32_load_relaxed(&s->holes), 0u);
  os_fake.sleep = sleep_and_leave;
  CHECK_EQ(pthread_create(&thread, NULL, run_background, NULL), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_NE(atomic32_load_relaxed(&s->holes), 0u);
}
