/* budget_test.c - tests of arena/budget, and of what others do under pressure */
#include "heaps.h"

#include "containers.h"

#include "../../src/arena/budget.h"

static int level(void) { return (int)atomic64_load_relaxed(&budget.level); }
static bool tick(void) {
  os_fake.now_ms += 1000;
  return budget_tick(os_fake.now_ms);
}

/* The bound shrinks to what is in use and grows again, step by step. */
TEST(budget, level_and_figures_agree_whatever_the_bound_becomes, "B1 B2") {
  bool was_over = false;
  CHECK(claim(MiB(96) >> SLICE_SHIFT) != NULL);
  for (int i = 0; i <= 160; i++) {
    core_option(OPTION_memory_soft, (int64_t)MiB(i < 80 ? 160 - i : i));
    tick();
    CHECK(budget_is_valid());
    was_over |= level() == PRESSURE_OVER;
  }
  CHECK(was_over && level() == PRESSURE_NONE);
  atomic64_store_relaxed(&budget.over, 1);
  EXPECT_ABORT(budget_is_valid(), "invariant B1");
  atomic64_store_relaxed(&budget.level, PRESSURE_OVER);
  atomic32_store_relaxed(&budget.is_close, 0);
  EXPECT_ABORT(budget_is_valid(), "invariant B2");
}

TEST(budget, a_percentage_is_of_the_container_and_bytes_are_bytes, "") {
  machine_with_pod();
  core_option(OPTION_memory_soft, -50);
  core_option(OPTION_memory_limit, 12345);
  CHECK_EQ(budget_bytes(OPTION_memory_soft), (uint64_t)(GiB(1) / 100 * 50));
  CHECK_EQ(budget_bytes(OPTION_memory_limit), (uint64_t)12345);
  core_option(OPTION_memory_soft, 0);
  CHECK_EQ(budget_bytes(OPTION_memory_soft), (uint64_t)0);
}

TEST(budget, where_the_container_is_to_be_ignored_no_file_of_its_is_opened, "") {
  machine_with_pod();
  core_option(OPTION_container, CONTAINER_IGNORE);
  core_option(OPTION_memory_soft, -50);
  CHECK(claim(MiB(80) >> SLICE_SHIFT) != NULL);
  tick();
  CHECK_EQ(budget_bytes(OPTION_memory_soft), (uint64_t)(GiB(64) / 100 * 50));
  CHECK_EQ(atomic32_load_relaxed(&container.state), (uint32_t)CONTAINER_UNREAD);
}

TEST(budget, a_hard_limit_in_percent_follows_the_container, "") {
  machine_with_pod();
  core_option(OPTION_memory_limit, -10); /* 102.4 MiB */
  char *p = claim(MiB(80) >> SLICE_SHIFT);
  CHECK(p != NULL && claim(MiB(30) >> SLICE_SHIFT) == NULL);
  machine_file("/sys/fs/cgroup/pod/box/memory.max", "2147483648\n");
  tick();
  CHECK(claim(MiB(30) >> SLICE_SHIFT) != NULL);
}

TEST(budget, a_percentage_of_what_the_system_does_not_say_is_no_limit, "") {
  core_option(OPTION_memory_limit, -50);
  core_option(OPTION_container, CONTAINER_IGNORE);
  os_fake.memory = 0;
  CHECK_EQ(budget_bytes(OPTION_memory_limit), (uint64_t)0);
  CHECK(!budget_is_spent(SLICE_SIZE) && fast_malloc(100) != NULL);
  os_fake.memory = 100 * SLICE_SIZE;
  CHECK(!budget_is_spent(49 * SLICE_SIZE)); /* one slice is in use */
  CHECK(budget_is_spent(49 * SLICE_SIZE + 1));
}

TEST(budget, without_a_bound_nothing_is_learned_and_there_is_no_pressure, "") {
  os_fake.memory = GiB(64);
  for (int i = 0; i < 20; i++) {
    CHECK(claim(MiB(16) >> SLICE_SHIFT) != NULL);
    CHECK(!tick());
  }
  CHECK_EQ(level(), PRESSURE_NONE);
  CHECK_EQ(atomic64_load_relaxed(&budget.growth), (uint64_t)0);
}

TEST(budget, the_level_rises_with_what_is_used_and_falls_when_enough_was_given_back, "") {
  char *p[64];
  core_option(OPTION_memory_soft, (int64_t)MiB(256));
  for (int i = 0; i < 64; i++) p[i] = claim(64); /* 4 MiB each; the growth is forgotten */
  core_option(OPTION_purge_delay_ms, 0);
  for (int i = 32; i < 64; i++) arena_release(p[i], 64);
  for (int i = 0; i < 60; i++) tick();
  CHECK_EQ(level(), PRESSURE_NONE); /* 128 MiB */
  for (int i = 32; i < 62; i++) p[i] = claim(64);
  CHECK(tick()); /* 248 MiB: what is left is less than was taken in a second */
  CHECK_EQ(level(), PRESSURE_NEAR);
  CHECK_EQ(atomic64_load_relaxed(&budget.over), (uint64_t)0);
  for (int i = 62; i < 64; i++) p[i] = claim(64);
  char *more = claim(16);
  CHECK(tick());
  CHECK_EQ(level(), PRESSURE_OVER);
  CHECK_EQ(atomic64_load_relaxed(&budget.over), (uint64_t)MiB(1));
  arena_release(more, 16);
  tick();
  CHECK_EQ(level(), PRESSURE_OVER); /* not yet: by a 64th, 4 MiB */
  arena_release(p[63], 64);
  arena_release(p[62], 64);
  tick();
  CHECK_EQ(level(), PRESSURE_NEAR);
  for (int i = 32; i < 62; i++) arena_release(p[i], 64);
  for (int i = 0; i < 60; i++) tick();
  CHECK_EQ(level(), PRESSURE_NONE);
  CHECK_EQ(atomic64_load_relaxed(&budget.raises), (uint64_t)2);
}

TEST(budget, a_process_that_grows_fast_comes_near_earlier_than_one_that_does_not, "") {
  core_option(OPTION_memory_soft, (int64_t)MiB(1024));
  for (int i = 0; i < 150; i++) { /* 5 MiB a second: to 750 MiB */
    CHECK(claim(80) != NULL);
    tick();
  }
  CHECK_EQ(level(), PRESSURE_NONE);
  CHECK(claim(MiB(150) >> SLICE_SHIFT) != NULL); /* 900: as much again is more than is left */
  tick();
  CHECK_EQ(level(), PRESSURE_NEAR);
}

TEST(budget, under_pressure_free_memory_goes_back_at_once, "") {
  core_option(OPTION_memory_soft, (int64_t)MiB(63));
  char *p = claim(MiB(60) >> SLICE_SHIFT), *q = claim(32);
  CHECK(q != NULL);
  arena_release(q, 32);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)32);
  arena_release(claim(48), 48);
  tick();
  tick();
  CHECK_EQ(level(), PRESSURE_NEAR);
  CHECK_EQ(patience_budget(), (size_t)0);
  q = claim(32);
  arena_release(q, 32);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  core_option(OPTION_purge_delay_ms, -1); /* but "never" means never */
  arena_release(claim(32), 32);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)32);
  (void)p;
}

static void keep_much(void *context) {
  static void *p[4000];
  (void)context;
  for (int i = 0; i < 4000; i++) p[i] = fast_malloc(1000);
  for (int i = 0; i < 4000; i++) fast_free(p[i]);
  for (int i = 0; i < 40; i++) p[i] = in_slices(100 << 10);
  for (int i = 0; i < 40; i++) fast_free(p[i]);
}

TEST(budget, all_heaps_give_up_what_they_keep_once_a_second, "") {
  heap_t *h = my_heap();
  keep_much(NULL);
  CHECK_GT(h->singles + h->run_slices, 0);
  uint32_t before = atomic32_load_relaxed(&heap_trims);
  core_option(OPTION_memory_soft, (int64_t)MiB(4));
  void *big = fast_malloc(MiB(8));
  for (int i = 0; i < TICK_MOST; i++) fast_free(fast_malloc(20 << 10));
  CHECK_EQ(atomic32_load_relaxed(&heap_trims), before + 1);
  CHECK_EQ(h->singles + h->run_slices, 0);
  os_fake.now_ms += 1000;
  for (int i = 0; i < TICK_MOST; i++) fast_free(fast_malloc(20 << 10));
  CHECK_EQ(atomic32_load_relaxed(&heap_trims), before + 2);
  fast_free(big);
}

TEST(budget, a_thread_that_ends_under_pressure_leaves_nothing_at_rest, "") {
  core_option(OPTION_memory_soft, (int64_t)MiB(4));
  char *p = claim(MiB(5) >> SLICE_SHIFT);
  tick();
  CHECK_EQ(level(), PRESSURE_OVER);
  in_thread(keep_much, NULL, true);
  CHECK_EQ(pool_resting_pages(), 0u);
  arena_release(p, MiB(5) >> SLICE_SHIFT);
}

TEST(budget, under_pressure_a_refill_takes_the_fullest_slab, "") {
  enum { EACH = 128 }; /* 500 bytes: of a slab */
  static void *p[4 * EACH];
  for (int i = 0; i < 4 * EACH; i++) p[i] = fast_malloc(500);
  heap_give_up_all(my_heap());
  slab_t *fullest = slab_of(p[3 * EACH]);
  for (int i = 0; i < 4 * EACH; i++)
    if (slab_of(p[i]) != fullest ? i % 2 == 0 : i % 6 == 0) {
      fast_free(p[i]);
      p[i] = NULL;
    }
  heap_give_up_all(my_heap());
  unsigned c = class_of(500);
  atomic64_store_relaxed(&budget.level, PRESSURE_NEAR);
  heap_t *h = heap_enter();
  slab_t *s = slab_find_partial(c, h);
  CHECK_EQ((void *)s, (void *)fullest);
  slab_let_go(s);
  atomic64_store_relaxed(&budget.level, PRESSURE_NONE);
  s = slab_find_partial(c, h);
  CHECK(s < fullest);
  slab_let_go(s);
  heap_exit(h);
}

TEST(budget, a_small_process_looks_for_no_container_and_a_large_one_every_few_seconds, "") {
  machine_with_pod();
  for (int i = 0; i < 10; i++) tick();
  CHECK_EQ(atomic32_load_relaxed(&container.state), (uint32_t)CONTAINER_UNREAD);
  CHECK(claim(MiB(9) >> SLICE_SHIFT) != NULL);
  tick();
  CHECK_EQ(found_limit(), (uint64_t)GiB(1));
  machine_file("/sys/fs/cgroup/pod/box/memory.max", "536870912\n");
  tick();
  CHECK_EQ(found_limit(), (uint64_t)GiB(1));
  for (int i = 0; i < 4; i++) tick();
  CHECK_EQ(found_limit(), (uint64_t)MiB(512));
}

/* The clock comes round after 49 days; half of that is as far away as it gets. */
TEST(budget, a_process_that_slept_for_a_month_looks_at_its_container_again, "") {
  enum { DAY_MS = 24 * 3600 * 1000 };
  machine_with_pod();
  CHECK(claim(MiB(80) >> SLICE_SHIFT) != NULL);
  tick();
  CHECK_EQ(atomic64_load_relaxed(&container.limit), (uint64_t)GiB(1));
  machine_file("/sys/fs/cgroup/pod/box/memory.max", "536870912\n");
  os_fake.now_ms += 30u * DAY_MS;
  tick();
  CHECK_EQ(atomic64_load_relaxed(&container.limit), (uint64_t)MiB(512));
}

TEST(budget, near_the_containers_limit_there_is_pressure_without_any_option, "") {
  machine_with_pod();
  char *p = claim(MiB(16) >> SLICE_SHIFT);
  CHECK(p != NULL);
  tick();
  CHECK_EQ(level(), PRESSURE_NONE);
  machine_file("/sys/fs/cgroup/pod/box/memory.current", "1063256064\n"); /* 10 MiB are left */
  for (int i = 0; i < 5; i++) tick();
  CHECK_EQ(level(), PRESSURE_NEAR);
  static char events[6][32];
  for (int i = 0; i < 6; i++) { /* the kernel has to reclaim each time that we look */
    sprintf(events[i], "high 0\nmax %d\n", i);
    machine_file("/sys/fs/cgroup/pod/box/memory.events", events[i]);
    tick();
  }
  CHECK_EQ(level(), PRESSURE_OVER);
  CHECK_EQ(atomic64_load_relaxed(&budget.over), (uint64_t)0);
  machine_file("/sys/fs/cgroup/pod/box/memory.current", "314572800\n");
  for (int i = 0; i < 40; i++) tick();
  CHECK_EQ(level(), PRESSURE_NONE);
}

TEST(budget, what_the_process_has_taken_since_the_look_counts, "") {
  machine_with_pod();
  CHECK(claim(MiB(16) >> SLICE_SHIFT) != NULL);
  tick();
  for (int i = 0; i < 2; i++) CHECK(claim(MiB(355) >> SLICE_SHIFT) != NULL);
  os_fake.now_ms += 300;
  budget_tick(os_fake.now_ms); /* the files still say 724 MiB are left */
  CHECK_EQ(level(), PRESSURE_NEAR);
}

TEST(budget, when_memory_is_asked_for_it_goes_back_as_near_a_limit_and_then_all_is_as_before,
     "B2") {
  void *p = claim(16);
  memset(p, 7, 16 * SLICE_SIZE);
  arena_release(p, 16);
  CHECK_GT(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  os_fake.now_ms += 1000;
  uint64_t raises = atomic64_load_relaxed(&budget.raises);
  budget_ask();
  CHECK_EQ(atomic64_load_relaxed(&budget.raises), raises + 1);
  CHECK_EQ(atomic32_load_relaxed(&budget.news), 1u); /* the program's callback hears of it */
  CHECK(level() == PRESSURE_NEAR && budget_is_valid() && budget_is_tight());
  CHECK(budget_tick(os_fake.now_ms));
  purge_tick();
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.dirty), (uint64_t)0);
  for (int i = 0; i < 3; i++) {
    tick();
    CHECK(level() == PRESSURE_NEAR && budget_is_valid());
  }
  tick();
  CHECK(level() == PRESSURE_NONE && budget_is_valid());
}

TEST(budget, when_memory_is_asked_for_beyond_the_soft_bound_it_stays_beyond, "B1") {
  core_option(OPTION_memory_soft, (int64_t)MiB(1));
  CHECK(claim(32) != NULL);
  tick();
  CHECK_EQ(level(), (int)PRESSURE_OVER);
  budget_ask();
  CHECK(level() == PRESSURE_OVER && budget_is_valid());
}
