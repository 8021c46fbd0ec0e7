/* surplus_test.c - tests of stock/surplus */
#include "containers.h"
#include "heaps.h"

#include "../../src/heap/upkeep.h"

TEST(surplus, as_much_may_be_kept_as_there_is_room_for_and_not_a_slice_more, "") {
  CHECK(surplus_has_room());
  for (int i = 0; i < SURPLUS_LEAST - 1; i++) CHECK(surplus_ask(1) == (i + 2 <= SURPLUS_LEAST));
  CHECK(surplus_has_room());
  CHECK(!surplus_ask(1)); /* the next one would be as long again */
  surplus_add(1);
  CHECK(!surplus_has_room() && !surplus_is_too_much());
}

static void *replace_medium_blocks(void *context) {
  static __thread void *p[400];
  (void)context;
  for (int round = 0; round < 40; round++)
    for (int i = 0; i < 400; i++) {
      if (p[i] != NULL) fast_free(p[i]);
      p[i] = fast_malloc(2048 << i % 4);
    }
  for (int i = 0; i < 400; i++) fast_free(p[i]);
  return NULL;
}

TEST(surplus, it_is_what_the_heaps_have_of_it_while_they_work_and_when_they_have_ended, "K1") {
  replace_medium_blocks(NULL);
  CHECK(pool_is_valid());
  heap_collect(true);
  CHECK(pool_is_valid() && surplus_ask(SURPLUS_LEAST / 2)); /* all of it is there again */
  EXPECT_ABORT(pool_is_valid(), "invariant K1");
}

TEST(surplus, who_gives_back_makes_room, "") {
  surplus_add(2 * SURPLUS_LEAST + 1);
  CHECK(surplus_is_too_much());
  surplus_add(0u - 1);
  CHECK(!surplus_is_too_much() && !surplus_has_room());
  surplus_add(0u - 2 * SURPLUS_LEAST);
  CHECK(surplus_ask(SURPLUS_LEAST / 2));
}

TEST(surplus, a_large_process_may_keep_a_part_of_what_it_uses, "") {
  atomic64_store_relaxed(&arena_counts.committed, (uint64_t)SURPLUS_PART * 10 * SURPLUS_LEAST);
  CHECK(surplus_ask(5 * SURPLUS_LEAST));
  CHECK(!surplus_ask(5 * SURPLUS_LEAST));
}

TEST(surplus, it_has_a_spare_part_for_more_than_two_processors_that_can_run_a_thread, "") {
  os_fake.processors = 16;
  pretend_users(2);
  CHECK(!surplus_has_spare());
  pretend_users(5);
  CHECK(surplus_has_spare());
  CHECK(surplus_ask(2 * SURPLUS_EACH) && !surplus_ask(2 * SURPLUS_EACH));
  surplus_add(SURPLUS_EACH);
  CHECK(!surplus_has_spare() && !surplus_has_room() && !surplus_is_too_much());
  pretend_users(64);
  CHECK(surplus_has_spare() && !surplus_has_room());
  surplus_add(13 * SURPLUS_EACH);
  CHECK(!surplus_has_spare() && !surplus_ask(1));
}

TEST(surplus, a_quota_bounds_the_processors_that_its_spare_part_is_for, "") {
  os_fake.processors = 64;
  pretend_users(64);
  CHECK(surplus_ask(30 * SURPLUS_EACH));
  surplus_add(0u - 30 * SURPLUS_EACH);
  machine_with_pod();
  machine_file("/sys/fs/cgroup/pod/box/cpu.max", "400000 100000\n");
  look_once();
  CHECK(surplus_ask(SURPLUS_EACH) && !surplus_ask(2 * SURPLUS_EACH));
  core_option(OPTION_container, CONTAINER_IGNORE);
  CHECK(surplus_ask(2 * SURPLUS_EACH));
}

TEST(surplus, what_a_heap_has_on_average_is_the_less_the_more_heaps_there_are, "") {
  atomic64_store_relaxed(&arena_counts.committed, 3 * SURPLUS_SMALL);
  CHECK_EQ(surplus_average(), (size_t)4 * SURPLUS_SMALL);
  pretend_users(2);
  CHECK_EQ(surplus_average(), (size_t)2 * SURPLUS_SMALL);
}

enum { SLEEPERS = 24, EACH = 1500 };
static pthread_barrier_t all_sleep;
static void *run_and_sleep(void *context) {
  static __thread void *p[EACH];
  (void)context;
  for (int round = 0; round < 3; round++) {
    size_t n = 0;
    for (size_t size = 16; size <= SMALL_MOST && n < EACH; size += 16 + size / 8)
      for (int i = 0; i < 12 && n < EACH; i++) p[n++] = fast_malloc(size);
    while (n-- > 0) fast_free(p[n]);
  }
  pthread_barrier_wait(&all_sleep);
  for (;;) pause();
  return NULL;
}

/* Slices in use while they sleep. */
static uint64_t kept_by_sleepers(int64_t caching) {
  pthread_t threads[SLEEPERS];
  core_option(OPTION_caching_threads, caching);
  pthread_barrier_init(&all_sleep, NULL, 2);
  my_heap();
  uint64_t before = committed();
  for (int i = 0; i < SLEEPERS; i++) {
    CHECK_EQ(pthread_create(&threads[i], NULL, run_and_sleep, NULL), 0);
    pthread_barrier_wait(&all_sleep); /* one runs at a time, and sleeps; it is left to sleep */
  }
  return committed() - before;
}

TEST(surplus, of_more_threads_than_may_cache_those_that_sleep_keep_next_to_nothing, "") {
  uint64_t kept = kept_by_sleepers(4);
  CHECK_LT(kept, (uint64_t)(4 + 2) * 64 + SLEEPERS * 8);
}

TEST(surplus, as_many_threads_as_may_cache_keep_what_they_have_earned, "") {
  CHECK_GT(kept_by_sleepers(1000), (uint64_t)SLEEPERS * 20);
}

static void have_heap(void *context) { (void)context, (void)my_heap(); }

TEST(surplus, threads_that_end_make_room_for_others_that_cache, "") {
  core_option(OPTION_caching_threads, 2);
  my_heap();
  for (int i = 0; i < 10; i++) in_thread(have_heap, NULL, true);
  CHECK(!users_are_many());
  for (int i = 0; i < 3; i++) in_thread(have_heap, NULL, false);
  CHECK(users_are_many());
}
