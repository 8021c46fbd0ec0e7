/* sparse_test.c - tests of slab/sparse */
#include "heaps.h"

#include "../../src/arena/budget.h"
#include "../../src/arena/patience.h"
#include "../../src/slab/sparse.h"

enum { BLOCKS = 1920, SIZE = 1000, STEP = 24 };

CORE_SMALL_PAGES
static char *kept[BLOCKS];

static void allocate(void *nothing) {
  (void)nothing;
  for (int i = 0; i < BLOCKS; i++) memset(kept[i] = fast_malloc(SIZE), i, SIZE);
}
static void release(int i) {
  fast_free(kept[i]);
  kept[i] = NULL;
}
/* Slabs that nobody owns, and in each a few blocks. */
static void make_sparse(void) {
  sparse_tick(); /* a round over nothing: the next is not due before time passes */
  in_thread(allocate, NULL, true);
  for (int i = 0; i < BLOCKS; i++)
    if (i % STEP != 0) release(i);
  heap_collect(false);
}
static slab_t *sparse_slab(void) { return slab_of(kept[0]); }

static size_t resident(void) { return os_resident((void *)slab_base(sparse_slab()), SLICE_SIZE); }
static uint64_t discards(void) { return os_fake.calls[OS_FAKE_DISCARD]; }

/* Some rounds, tick by tick. */
static void go_rounds(void) {
  for (int i = 0; i < 100; i++) {
    os_fake.now_ms += 50;
    sparse_tick();
  }
}
static void check_kept(void) {
  for (int i = 0; i < BLOCKS; i += STEP)
    if (kept[i] != NULL) CHECK_BYTES(kept[i], i, SIZE);
}

TEST(sparse, free_pages_of_a_slab_at_rest_go_back, "I7") {
  make_sparse();
  CHECK_EQ(resident(), (size_t)SLICE_SIZE);
  go_rounds();
  CHECK_LE(resident(), (size_t)SLICE_SIZE / 2);
  CHECK(anchor(sparse_slab()).state == ANCHOR_PARTIAL);
  check_kept();
}

TEST(sparse, a_slab_that_was_taken_since_the_last_look_keeps_its_pages, "") {
  make_sparse();
  for (int i = 0; i < 5; i++) {
    slab_t *s = slab_find_partial(class_of(SIZE), my_heap());
    CHECK(s == sparse_slab());
    CHECK(slab_let_go(s) == SLAB_SHARED);
    sparse_tick();
    os_fake.now_ms += 1001;
  }
  CHECK_EQ(resident(), (size_t)SLICE_SIZE);
}

static unsigned count_holed(void) {
  unsigned n = 0;
  for (int i = 0; i < BLOCKS; i += STEP) {
    bool is_first = i == 0 || slab_of(kept[i]) != slab_of(kept[i - STEP]);
    n += is_first && atomic32_load_relaxed(&slab_of(kept[i])->holes) != 0;
  }
  return n;
}

TEST(sparse, of_a_class_of_which_slabs_are_taken_the_others_keep_their_pages_for_some_rounds, "") {
  make_sparse();
  for (int i = 0; i < 20; i++) {
    slab_t *s = slab_find_partial(class_of(SIZE), my_heap());
    CHECK(slab_let_go(s) == SLAB_SHARED);
    os_fake.now_ms += 101;
    for (int ticks = 0; ticks < 9; ticks++, os_fake.now_ms++) sparse_tick();
    if (i < 3) CHECK_EQ(count_holed(), 0u);
  }
  CHECK_GT(count_holed(), 10u);
}

TEST(sparse, what_went_is_not_looked_for_again_and_a_look_is_no_publication, "") {
  make_sparse();
  uint64_t publications = slab_tally_sum(TALLY_PUBLICATIONS);
  go_rounds();
  uint64_t before = discards();
  CHECK_GT(before, (uint64_t)0);
  for (int i = 0; i < 5; i++) go_rounds();
  CHECK_EQ(discards(), before);
  CHECK_EQ(slab_tally_sum(TALLY_PUBLICATIONS), publications);
}

TEST(sparse, what_is_freed_to_it_afterwards_goes_back_too, "I7") {
  make_sparse();
  go_rounds();
  size_t before = resident();
  slab_t *s = sparse_slab();
  for (int i = STEP; i < BLOCKS && slab_of(kept[i]) == s; i += STEP) release(i);
  heap_collect(false);
  CHECK_EQ(atomic64_load_relaxed(&my_heap()->remote_frees), (uint64_t)0); /* nobody owns it */
  go_rounds();
  CHECK_LT(resident(), before);
  check_kept();
}

TEST(sparse, pages_stay_where_none_is_to_go_back, "") {
  core_option(OPTION_purge_delay_ms, -1);
  make_sparse();
  go_rounds();
  CHECK_EQ(resident(), (size_t)SLICE_SIZE);
}

TEST(sparse, one_tick_gives_back_pages_of_a_few_slabs_and_the_next_goes_on, "") {
  make_sparse();
  os_fake.now_ms += 1001;
  sparse_tick();
  unsigned last = 0, now = 0;
  for (int i = 0; i < 200; i++, last = now) {
    os_fake.now_ms += 50;
    sparse_tick();
    now = count_holed();
    CHECK_LE(now, last + 16);
  }
  CHECK_GT(now, 20u);
  check_kept();
}

/* Of most slabs five blocks of six live: too many for one at rest. */
TEST(sparse, under_pressure_pages_of_any_slab_go_at_the_first_look, "I7") {
  in_thread(allocate, NULL, true);
  for (int i = 0; i < BLOCKS; i++)
    if (i % (2 * STEP) >= STEP / 3 * 5) release(i);
  heap_collect(false);
  go_rounds();
  unsigned at_rest = count_holed();
  CHECK_LT(at_rest, 10u);
  atomic64_store_relaxed(&budget.level, PRESSURE_NEAR);
  os_fake.now_ms += 1001;
  sparse_tick();
  CHECK_GT(count_holed(), at_rest + 16); /* more than a tick does at rest */
  atomic64_store_relaxed(&budget.level, PRESSURE_NONE);
  check_kept();
}

TEST(sparse, patience_puts_the_next_round_off_and_pressure_does_not_wait_for_that, "") {
  make_sparse();
  for (int i = 0; i < 100; i++) patience_note_reuse(PURGE_STEP, UINT32_MAX);
  for (int i = 0; i < 20; i++) sparse_tick(), os_fake.now_ms++;
  go_rounds();
  CHECK_EQ(count_holed(), 0u);
  atomic64_store_relaxed(&budget.level, PRESSURE_NEAR);
  sparse_tick();
  CHECK_GT(count_holed(), 0u);
  atomic64_store_relaxed(&budget.level, PRESSURE_NONE);
}
