/* holes_test.c - tests of slab/holes */
#include "heaps.h"

#include "../../src/heap/visit.h"
#include "../../src/slab/sparse.h"

enum { MANY = 4000 };
static char *kept[MANY];
static size_t size;

static uint64_t discards(void) { return os_fake.calls[OS_FAKE_DISCARD]; }
static size_t resident(const slab_t *s) { return os_resident((void *)slab_base(s), SLICE_SIZE); }
static uint32_t holes(const slab_t *s) { return atomic32_load_relaxed(&s->holes); }

static void allocate(void *count) {
  for (int i = 0; i < *(int *)count; i++) {
    kept[i] = fast_malloc(size);
    CHECK(kept[i] != NULL);
    memset(kept[i], i + 1, size);
  }
}

/* Blocks of slabs that nobody owns. */
static void make(size_t of, int count) {
  size = of;
  in_thread(allocate, &count, true);
}
static void release(int i) {
  fast_free(kept[i]);
  kept[i] = NULL;
}
/* All but each `step`th. */
static void thin_out(int count, int step) {
  for (int i = 0; i < count; i++)
    if (i % step != 0) release(i);
}
static void check_kept(int count) {
  for (int i = 0; i < count; i++)
    if (kept[i] != NULL) CHECK_BYTES(kept[i], i + 1, size);
}

static size_t visited;
static bool note(void *p, size_t n, void *context) {
  (void)n, (void)context;
  visited++;
  for (int i = 0; i < MANY; i++)
    if (kept[i] == p) return true;
  FAIL("%p is not live", p);
}
static size_t count_live(void) {
  visited = 0;
  heap_visit(&(visitor_t){.blocks = note});
  return visited;
}

TEST(holes, pages_without_a_live_block_go_back_when_asked_and_no_other, "I7") {
  os_fake.page_size = 4096;
  make(64, 3000);
  thin_out(3000, 500);
  heap_collect(false);
  uint64_t before = discards();
  slab_t *s = slab_of(kept[500]);
  CHECK_EQ(resident(s), (size_t)SLICE_SIZE);
  heap_collect(true);
  CHECK_GT(discards(), before);
  CHECK_LE(resident(s), 4 * os_page_size());
  CHECK(anchor(s).state == ANCHOR_PARTIAL);
  CHECK_NE(holes(s), 0u);
  CHECK_EQ(anchor(s).carved + s->sunk, class_info[slab_class(s)].capacity);
  check_kept(3000);
  CHECK_EQ(count_live(), 6u);
}

TEST(holes, who_takes_the_slab_over_has_all_of_it_again, "I1 I7") {
  make(64, 3000);
  thin_out(3000, 500);
  heap_collect(true);
  slab_t *s = slab_find_partial(class_of(64), my_heap());
  CHECK(s != NULL);
  CHECK_EQ(holes(s), 0u);
  CHECK(slab_is_valid(s));
  unsigned live = 0, count = 0, free = 0;
  for (int i = 0; i < 3000; i++) live += kept[i] != NULL && slab_of(kept[i]) == s;
  CHECK_EQ(slab_used(s), live);
  for (uintptr_t list = slab_take_list(s, 1, &count); list != 0; list = block_next(list)) {
    for (int i = 0; i < 3000; i++) CHECK_NE((uintptr_t)kept[i], list);
    free++;
  }
  CHECK_EQ(free, class_info[slab_class(s)].capacity - live);
  check_kept(3000);
}

TEST(holes, the_last_free_finds_the_slab_empty_though_most_of_it_is_sunk, "S-partial") {
  make(64, 3000);
  thin_out(3000, 500);
  heap_collect(true);
  for (int i = 0; i < 3000; i += 500) release(i);
  outbox_flush(my_heap());
  CHECK_EQ(committed(), (uint64_t)0);
  check_nothing_lost();
}

TEST(holes, all_of_every_class_is_had_again_after_holes_were_made, "I1 I7 timeout=120") {
  for (unsigned c = 1; c < CLASS_COUNT; c += c < 30 ? 6 : 3) {
    int count = (int)(3 * SLICE_SIZE / class_size(c)) % MANY;
    for (int step = 2; step < 200; step = step * 3 + 1) {
      make(class_size(c), count);
      thin_out(count, step);
      heap_collect(true);
      check_kept(count);
      uint64_t before = discards();
      heap_collect(true);
      CHECK_EQ(discards(), before); /* nothing new */
      for (int i = 0; i < count; i++)
        if (kept[i] == NULL) memset(kept[i] = fast_malloc(size), i + 1, size);
      check_kept(count);
      for (int i = 0; i < count; i++) release(i);
      check_nothing_lost();
    }
  }
}

TEST(holes, a_block_is_freed_twice_and_its_page_is_gone, "") {
  os_fake.page_size = 4096;
  make(64, 3000);
  char *freed = kept[700];
  thin_out(3000, 500);
  heap_collect(true);
  CHECK(!block_is_free((uintptr_t)freed));
  EXPECT_ABORT((fast_free(freed), outbox_flush(my_heap())), "double free: .* in free");
  EXPECT_ABORT(heap_usable_size(freed, "t"), "double free: .* in t");
  EXPECT_ABORT(any_realloc(freed, 1000, "realloc"), "double free: .* in realloc");
  fast_free(fast_malloc(200)); /* from here on blocks are looked for in this window first */
  EXPECT_ABORT(any_realloc(freed, 60, "realloc"), "double free: .* in realloc");
  for (int i = 0; i < 6; i++) CHECK(fast_malloc(MiB(16)) != NULL); /* blocks are looked at late */
  EXPECT_ABORT((fast_free(freed), outbox_flush(my_heap())), "double free: .* in free");
}

TEST(holes, a_system_that_refuses_leaves_the_blocks_where_they_are, "I7") {
  make(64, 3000);
  thin_out(3000, 500);
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  heap_collect(true);
  CHECK_EQ(holes(slab_of(kept[0])), 0u);
  CHECK_EQ(anchor(slab_of(kept[0])).carved, class_info[class_of(64)].capacity);
  os_fake_fail(1u << OS_FAKE_DISCARD, 2, false); /* the second of a slab's */
  heap_collect(true);
  check_kept(3000);
  CHECK_EQ(count_live(), 6u);
  for (int i = 0; i < 3000; i += 500) release(i);
  os_fake_fail(0, 0, false);
  check_nothing_lost();
}

/* Somebody looks at all blocks, after the first discard of a slab failed half-way. */
static unsigned visits;
static void visit_meanwhile(os_fake_call_t call, void *at, size_t n) {
  (void)at, (void)n;
  if (call != OS_FAKE_DISCARD || visits++ == 0) return;
  CHECK_EQ(count_live(), 6u);
}

TEST(holes, a_system_that_refuses_half_way_leaves_blocks_that_are_free_and_usable, "I7 S-visit") {
  os_fake.page_size = 4096;
  make(64, 3000);
  thin_out(3000, 500);
  os_fake.fail_half = true;
  os_fake.before = visit_meanwhile;
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  heap_collect(true);
  CHECK_GT(visits, 1u);
  os_fake.before = NULL;
  CHECK_EQ(count_live(), 6u);
  CHECK_EQ(holes(slab_of(kept[500])), 0u);
  heap_collect(true);                           /* and may be asked again */
  os_fake_fail(1u << OS_FAKE_DISCARD, 2, true); /* some runs go, others do not */
  heap_collect(true);
  CHECK_EQ(count_live(), 6u);
  os_fake_fail(0, 0, false);
  heap_collect(true);
  CHECK_NE(holes(slab_of(kept[500])), 0u);
  check_kept(3000);
  for (int i = 0; i < 3000; i++)
    if (kept[i] == NULL) memset(kept[i] = fast_malloc(size), i + 1, size);
  check_kept(3000);
  for (int i = 0; i < 3000; i++) release(i);
  check_nothing_lost();
}

TEST(holes, slabs_with_no_page_to_spare_are_left_alone, "") {
  make(64, 2046);                                /* two slabs */
  for (int i = 0; i < 2046; i += 17) release(i); /* each page has live blocks */
  heap_collect(false);
  uint64_t before = discards();
  heap_collect(true);
  CHECK_EQ(discards(), before);
  check_kept(2046);
}

TEST(holes, the_grain_is_the_page_of_the_system, "") {
  os_fake.page_size = KiB(16);
  make(64, 3000);
  thin_out(3000, 500);
  slab_t *s = slab_of(kept[0]);
  heap_collect(true);
  CHECK_EQ(holes(s) >> 4, 0u);
  check_kept(3000);
  for (int i = 0; i < 3000; i += 500) release(i);
  check_nothing_lost();
}

/* What others do while a thread is giving pages back. */
static int to_free;
static void *found;
static void free_and_find(void *context) {
  (void)context;
  release(to_free);
  found = fast_malloc(size);
}
static void others_meanwhile(os_fake_call_t call, void *at, size_t n) {
  (void)n;
  if (call != OS_FAKE_DISCARD || slab_of(at) != slab_of(kept[to_free])) return;
  os_fake.before = NULL;
  in_thread(free_and_find, NULL, true);
}

TEST(holes, a_block_that_comes_back_meanwhile_is_free_and_nobody_else_finds_the_slab, "S-anchor") {
  make(64, 3000);
  thin_out(3000, 500);
  heap_collect(false);
  to_free = 500;
  slab_t *s = slab_of(kept[to_free]);
  os_fake.before = others_meanwhile;
  heap_collect(true);
  CHECK_NE((void *)slab_of(found), (void *)s);
  check_kept(3000);
  fast_free(found);
  for (int i = 0; i < 3000; i += 500)
    if (kept[i] != NULL) release(i);
  check_nothing_lost();
}

static void stop(os_fake_call_t call, void *at, size_t n) {
  (void)at, (void)n;
  if (call == OS_FAKE_DISCARD) pthread_exit(NULL);
}
static void *collect(void *context) {
  (void)context;
  os_fake.before = stop;
  heap_collect(true);
  return NULL;
}

TEST(holes, a_thread_that_stops_in_the_middle_takes_one_slab_with_it, "") {
  os_fake.page_size = 4096;
  pthread_t thread;
  make(1000, 600); /* ten slabs */
  thin_out(600, 60);
  heap_collect(false);
  CHECK_EQ(pthread_create(&thread, NULL, collect, NULL), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  os_fake.before = NULL;
  heap_collect(true);
  check_kept(600);
  for (int i = 0; i < 600; i += 60) release(i);
  heap_collect(true);
  CHECK_EQ(committed(), (uint64_t)1);
}

static void churn(unsigned number) {
  uint64_t state = number;
  char *p[200] = {0};
  for (int i = 0; i < 20000; i++) {
    unsigned k = core_next(&state) % 200;
    if (p[k] != NULL) {
      CHECK_BYTES(p[k], (int)(number + k), 16);
      fast_free(p[k]);
      p[k] = NULL;
    } else {
      memset(p[k] = fast_malloc(16 + core_next(&state) % 3000), (int)(number + k), 16);
    }
    if (i % 500 == 0) heap_collect(core_next(&state) % 4 != 0);
  }
  for (int k = 0; k < 200; k++) fast_free(p[k]);
  os_fake_end_thread();
}

TEST(holes, threads_that_give_pages_back_do_not_disturb_those_that_allocate,
     "threads I1 I7 timeout=120") {
  core_threads(4, churn);
  check_nothing_lost();
}
