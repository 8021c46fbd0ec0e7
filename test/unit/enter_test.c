/* enter_test.c - tests of heap/enter: a thread's first call, its last, and those after */
#include "heaps.h"

static void *block;
static void free_only(void *context) {
  (void)context;
  fast_free(block);
}

TEST(enter, a_threads_first_call_may_be_a_free_of_anothers_block, "") {
  for (int size = 10; size < 200000; size *= 4) {
    block = fast_malloc((size_t)size);
    in_thread(free_only, NULL, true);
  }
  check_nothing_lost();
}

/* That alone is 64 KiB of libc. */
TEST(enter, a_small_program_does_not_read_the_clock, "") {
  for (int i = 0; i < 4000; i++) fast_malloc(48 + (size_t)i % 16 * 16);
  CHECK(arena_is_small());
  CHECK_EQ(atomic32_load_relaxed(&os_fake.clock_reads), 0u);
  for (int i = 0; i < 4000; i++) fast_malloc(4000);
  CHECK(!arena_is_small());
  CHECK_GE(atomic32_load_relaxed(&os_fake.clock_reads), 1u);
}

static size_t claimed_heaps(void) {
  bool is_claimed;
  size_t claimed = 0;
  for (size_t i = 0; i < pool_size(); i++) {
    pool_at(i, &is_claimed);
    claimed += is_claimed;
  }
  return claimed;
}

TEST(enter, a_fast_call_in_the_middle_of_which_the_fast_paths_closed_does_not_open_them_for_good,
     "") {
  void *p = fast_malloc(100);
  heap_here_t before = heap_here;
  atomic32_store_relaxed(&heap_closed, 1);
  heap_close_own(); /* in a handler */
  CHECK_EQ(heap_here.limit + heap_here.window, (size_t)0);
  heap_here.limit = before.limit;
  heap_here.window = before.window; /* the call ends */
  heap_exit(heap_enter());
  CHECK_EQ(heap_here.limit + heap_here.window, (size_t)0);
  fast_free(p);
  check_nothing_lost();
}

TEST(enter, fast_paths_that_were_closed_open_with_the_next_slow_call_when_all_is_seen, "") {
  void *p = fast_malloc(100);
  heap_here_t before = heap_here;
  atomic32_store_relaxed(&heap_closed, 1);
  fast_free(fast_malloc(100000));
  CHECK_EQ(heap_here.is_closed, 1u);
  fast_free(p);
  CHECK_EQ(heap_here.limit + heap_here.window, (size_t)0);
  atomic32_store_relaxed(&heap_closed, 0);
  fast_free(fast_malloc(100));
  CHECK_EQ(heap_here.is_closed, 0u);
  CHECK_EQ(heap_here.limit, before.limit);
  CHECK(heap_here.window != 0);
  check_nothing_lost();
}

static void *many_blocks[3 * LONE_MOST];
static void allocate_many(void) {
  for (size_t i = 0; i < ARRAY_LENGTH(many_blocks); i++) many_blocks[i] = fast_malloc(100);
}
static void free_some_and_more(void *context) {
  (void)context;
  for (size_t i = 0; i < ARRAY_LENGTH(many_blocks); i++) {
    CHECK_EQ(heap_of_thread() == NULL, i <= LONE_MOST);
    fast_free(many_blocks[i]);
  }
}

TEST(enter, a_thread_that_only_frees_gets_a_heap_when_it_has_freed_many_blocks, "") {
  allocate_many();
  in_thread(free_some_and_more, NULL, true);
  check_nothing_lost();
}

static void call_whatever_frees(void *context) {
  (void)context;
  size_t large = 100000;
  fast_free(NULL);
  fast_free(many_blocks[0]);
  heap_free(many_blocks[1], "free_sized");
  CHECK_NULL(any_realloc(many_blocks[2], 0, "t"));
  fast_free(many_blocks[3]); /* a large one, as is the next */
  CHECK(heap_expand(many_blocks[4], large + 1, "t"));
  CHECK(heap_usable_size(many_blocks[4], "t") > large);
  fast_free(many_blocks[4]);
  fast_free(many_blocks[5]); /* a huge one */
  heap_collect(true);
  firstclass_delete(many_blocks[6]);
  CHECK_NULL(heap_of_thread());
}

TEST(enter, no_call_that_gives_back_attaches_a_heap, "") {
  for (int i = 0; i < 5; i++) many_blocks[i] = fast_malloc(i < 3 ? 100 : 100000);
  many_blocks[5] = fast_malloc(HUGE_LEAST);
  many_blocks[6] = firstclass_new();
  CHECK(firstclass_aligned(many_blocks[6], 1, 50) != NULL);
  size_t before = claimed_heaps();
  in_thread(call_whatever_frees, NULL, false);
  CHECK_EQ(claimed_heaps(), before - 1); /* the first-class heap's lane */
}

static void end_and_free(void *context) {
  (void)context;
  fast_free(fast_malloc(10));
  os_fake_end_thread();
  for (size_t i = 0; i < ARRAY_LENGTH(many_blocks); i++) fast_free(many_blocks[i]);
  CHECK_NULL(heap_of_thread());
}

TEST(enter, a_thread_that_has_ended_gets_no_heap_for_whatever_it_frees, "") {
  allocate_many();
  size_t before = claimed_heaps();
  in_thread(end_and_free, NULL, false);
  CHECK_EQ(claimed_heaps(), before);
  check_nothing_lost();
}

static void end_and_go_on(void *context) {
  (void)context;
  void *early = fast_malloc(100);
  os_fake_end_thread(); /* a destructor that runs after ours calls all this */
  uint64_t before = committed();
  for (int i = 0; i < 200; i++) {
    char *p = fast_malloc(100), *q = heap_calloc(3, 50), *r = fast_aligned(256, 70000);
    CHECK(p != NULL && q != NULL && r != NULL);
    CHECK_BYTES(q, 0, 150);
    memset(p, 1, 100);
    p = any_realloc(p, 5000, "t");
    CHECK_BYTES(p, 1, 100);
    fast_free(p);
    fast_free(q);
    fast_free(r);
  }
  fast_free(early);
  os_fake_end_thread(); /* for it has a heap again */
  heap_collect(true);
  CHECK_LE(committed(), before);
}

TEST(enter, a_thread_that_has_ended_may_still_call_anything_and_keeps_nothing, "S-pool") {
  in_thread(end_and_go_on, NULL, false);
  check_nothing_lost();
  CHECK_EQ(claimed_heaps(), 0u);
}

static void allocate(void *context) {
  (void)context;
  for (int i = 0; i < 500; i++) fast_malloc(200);
}

TEST(enter, the_heap_of_an_ended_thread_is_the_next_threads, "S-pool") {
  for (int i = 0; i < 200; i++) in_thread(allocate, NULL, true);
  CHECK_EQ(pool_size(), 64u);
  CHECK_LE(committed(), (uint64_t)200 * 500 * 208 / 65000 + 3); /* and so is its room */
}

TEST(enter, where_the_end_of_a_thread_cannot_be_watched_its_blocks_can_still_be_freed, "") {
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
  fast_malloc(200); /* the handler's heap */
  os_fake_end_thread();
}

TEST(enter, a_heap_whose_operation_never_ended_stays_as_it_is_and_its_blocks_can_be_freed,
     "S-pool") {
  in_thread(end_inside, NULL, false);
  slab_t *s = slab_of(block);
  CHECK(anchor(s).state == ANCHOR_OWNED);
  fast_free(block);
  outbox_flush(my_heap());
  CHECK_EQ(anchor(s).count, 1u);
  bool is_claimed;
  pool_at(0, &is_claimed);
  CHECK(is_claimed); /* the interrupted heap is retired */
}

/* ---- heaps that nobody gave back ------------------------------------------------------------- */

static heap_t *left_behind;
static uint64_t dead_thread;
static bool is_dead(uint64_t thread) { return thread == dead_thread; }
static bool everybody_else_is_dead(uint64_t thread) { return thread != os_thread(); }

static void die(void *context) {
  allocate(context);
  left_behind = heap_of_thread();
  dead_thread = os_thread();
}
static void attach_and_compare(void *found) {
  fast_malloc(10);
  *(bool *)found |= heap_of_thread() == left_behind;
}
/* Does one of the next threads get it? They look at a few others each, one after another. */
static bool is_used_again(void) {
  bool found = false;
  for (int i = 0; i < 20 && !found; i++) in_thread(attach_and_compare, &found, false);
  return found;
}

TEST(enter, a_heap_that_a_dead_thread_has_left_is_the_next_ones_and_no_other_is_touched, "S-pool") {
  allocate(NULL);
  for (int i = 0; i < 5; i++) in_thread(allocate, NULL, false); /* these live on */
  in_thread(die, NULL, false);
  CHECK(!is_used_again()); /* it counts as alive */
  os_fake.has_ended = is_dead;
  CHECK(is_used_again());
  CHECK(!is_used_again()); /* it is in use again */
}

TEST(enter, a_fast_free_that_was_cut_short_by_the_end_of_its_thread_is_counted, "I1") {
  allocate(NULL);
  in_thread(die, NULL, false);
  slab_t *s = owned_first(left_behind, class_of(200));
  atomic32_store_relaxed(&s->used, slab_used(s) - 1);
  os_fake.has_ended = is_dead;
  CHECK(is_used_again());
  CHECK(slab_is_valid(s));
}

static void die_inside(void *context) {
  (void)context;
  fast_malloc(10);
  left_behind = heap_enter();
  dead_thread = os_thread();
  fast_malloc(10); /* the handler's heap */
}

TEST(enter, a_heap_whose_thread_died_inside_an_operation_stays_but_not_its_handlers, "") {
  allocate(NULL);
  in_thread(die_inside, NULL, false);
  heap_t *handlers = atomic_ptr_load_relaxed(&left_behind->nested);
  os_fake.has_ended = is_dead;
  heap_t *interrupted = left_behind;
  left_behind = handlers;
  CHECK(is_used_again());
  left_behind = interrupted;
  CHECK(!is_used_again());
}

TEST(enter, collecting_with_force_ends_all_that_was_left_behind, "") {
  allocate(NULL);
  for (int i = 0; i < 200; i++) in_thread(allocate, NULL, false);
  CHECK_EQ(claimed_heaps(), 201u);
  os_fake.has_ended = everybody_else_is_dead;
  heap_collect(false);
  CHECK_EQ(claimed_heaps(), 201u);
  heap_collect(true);
  CHECK_EQ(claimed_heaps(), 1u);
}

TEST(enter, a_new_heap_costs_a_few_looks_however_many_threads_there_are, "") {
  enum { THREADS = 1000, LOOKS = 8 };
  for (int i = 0; i < THREADS; i++) {
    unsigned before = atomic32_load_relaxed(&os_fake.looks);
    in_thread(allocate, NULL, false);
    CHECK_LE(atomic32_load_relaxed(&os_fake.looks), before + LOOKS);
  }
  for (int i = 0; i < 100; i++) in_thread(allocate, NULL, i % 2 == 0);
}

TEST(enter, a_process_with_one_heap_asks_for_no_thread_and_maps_nothing_for_that, "") {
  uint64_t before = count_calls(OS_FAKE_ANY);
  heap_t *h = pool_claim();
  users_begin(heap_number(h));
  CHECK_EQ(count_calls(OS_FAKE_ANY), before);
  CHECK_EQ(atomic32_load_relaxed(&os_fake.looks), 0u);
}

TEST(enter, where_a_child_of_fork_would_see_its_parents_threads_no_heap_is_found, "") {
  os_fake.no_unshared = true;
  os_fake.has_ended = everybody_else_is_dead;
  for (int i = 0; i < 10; i++) {
    in_thread(die, NULL, false);
    CHECK(!is_used_again());
  }
}

/* ---- in a child of fork ---------------------------------------------------------------------- */

/* It has not made a slow call yet, so nobody knows which heap it uses. */
static void look_around_in_child(void) {
  size_t before = claimed_heaps();
  heap_t *mine = heap_of_thread();
  in_thread(allocate, NULL, false);
  CHECK_EQ(claimed_heaps(), before + 1);
  left_behind = mine;
  for (int i = 0; i < 40; i++) CHECK_EQ((void *)my_heap(), (void *)mine);
  CHECK(!is_used_again()); /* my own; what the others found were five of my parent's threads' */
  CHECK_EQ(claimed_heaps(), before + 1 + 20 - 5);
  CHECK(users_are_valid(pool_size()) && users_count() == 22);
  CHECK(pool_is_valid());
}

TEST(enter, a_child_of_fork_uses_the_heaps_of_threads_that_are_not_there_but_not_its_own, "P1") {
  allocate(NULL);
  for (int i = 0; i < 5; i++) in_thread(allocate, NULL, false);
  EXPECT_SURVIVAL(look_around_in_child());
}

/* With another thread, so that nobody knows whose they will be. */
static void end_them_in_child(void) {
  in_thread(allocate, NULL, false);
  for (int i = 0; i < 1000; i++) my_heap();
  size_t left = claimed_heaps();
  CHECK(left < 200 && left > 160);
  for (int i = 0; i < 1000; i++) os_fake.now_ms += 20, my_heap();
  CHECK_EQ(claimed_heaps(), 2u);
}

TEST(enter, a_child_of_fork_ends_some_heaps_of_threads_that_are_not_there_and_then_one_by_one,
     "P1") {
  allocate(NULL);
  for (int i = 0; i < 200; i++) in_thread(allocate, NULL, false);
  EXPECT_SURVIVAL(end_them_in_child());
}

static void look_for_handlers_heap(void) {
  heap_t *interrupted = left_behind;
  left_behind = atomic_ptr_load_relaxed(&interrupted->nested);
  for (int i = 0; i < 40; i++) my_heap();
  CHECK(is_used_again());
  left_behind = interrupted;
  CHECK(!is_used_again());
  CHECK(interrupted->busy != 0);
}

TEST(enter, a_child_of_fork_uses_no_heap_in_which_a_thread_was_inside_an_operation, "P1") {
  allocate(NULL);
  in_thread(die_inside, NULL, false);
  EXPECT_SURVIVAL(look_for_handlers_heap());
}

static void collect_in_child(void) {
  for (int i = 0; i < 40; i++) my_heap();
  heap_collect(true);
  CHECK_EQ(claimed_heaps(), 1u);
}
static void fork_again(void) {
  in_thread(allocate, NULL, false);
  EXPECT_SURVIVAL(collect_in_child());
}

TEST(enter, a_childs_child_ends_what_threads_of_both_have_left, "P1") {
  allocate(NULL);
  for (int i = 0; i < 5; i++) in_thread(allocate, NULL, false);
  EXPECT_SURVIVAL(fork_again());
}

static void note_the_first_heap(void) {
  left_behind = my_heap();
  in_thread(allocate, NULL, false);
  CHECK_EQ(users_thread(heap_number(left_behind)), (uint64_t)0);
  for (int i = 0; i < 40; i++) my_heap();
}
TEST(enter, the_first_heap_has_a_thread_too_once_another_came_and_it_made_a_few_slow_calls, "P1") {
  note_the_first_heap();
  CHECK_EQ(users_thread(heap_number(left_behind)), os_thread());
  CHECK(users_count() == 2 && users_are_valid(pool_size()) && !users_have_strays());
}

static void look_for_the_first_heap(void) {
  for (int i = 0; i < 40; i++) my_heap();
  CHECK(is_used_again());
}
static void fork_as_another_thread(void *context) {
  allocate(context);
  EXPECT_SURVIVAL(look_for_the_first_heap());
}
TEST(enter, a_child_of_fork_uses_the_first_heap_too_if_another_thread_forked, "P1") {
  note_the_first_heap();
  in_thread(fork_as_another_thread, NULL, false);
}

/* ---- collecting, the background thread ------------------------------------------------------- */

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
  in_thread_t t = {use_and_rest, NULL, false};
  if (call != OS_FAKE_DISCARD || rests_itself || rested >= 100) return;
  rested++;
  rests_itself = true;
  CHECK_EQ(pthread_create(&thread, NULL, in_thread_run, &t), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  rests_itself = false;
}

TEST(enter, collecting_ends_although_other_threads_go_on_ending, "S-pool") {
  core_option(OPTION_purge_delay_ms, 0);
  in_thread(use_and_rest, NULL, false);
  os_fake.before = rest_meanwhile;
  heap_collect(false);
  os_fake.before = NULL;
  CHECK_GT(rested, 0u);
  CHECK_LE(rested, 20u);
}

TEST(enter, a_quick_call_leaves_a_heap_alone_that_another_thread_is_taking, "V2") {
  heap_t *h = my_heap();
  unsigned c = class_of(100);
  void *blocks[2] = {fast_malloc(100), fast_malloc(100)};
  CHECK(h->bin[c] != 0);
  fast_free(fast_malloc(20 << 10));
  atomic8_store_relaxed(&h->is_taken, TAKEN_CHOSEN);
  h->bin[c] |= BIN_CLOSED;
  CHECK(heap_enter_quickly() == NULL && h->busy == 0 && heap_here.limit != 0);
  h->bin[c] &= ~BIN_CLOSED;
  atomic8_store_relaxed(&h->is_taken, TAKEN_NOT);
  fast_free(blocks[0]), fast_free(blocks[1]);
  check_nothing_lost();
}

TEST(enter, calls_that_a_handler_counted_during_a_quick_call_are_not_counted_below_none, "") {
  heap_t *h = my_heap();
  h->calls = 1;
  CHECK(heap_enter_quickly() == h);
  h->calls = 0;
  heap_exit_quickly(h);
  CHECK_EQ(h->calls, 0u);
  CHECK(heap_enter_quickly() == NULL);
}

TEST(enter, a_call_inside_a_call_uses_another_heap_and_both_stay_whole, "") {
  void *outer = fast_malloc(100);
  for (int i = 0; i < 30; i++) fast_malloc(100);
  heap_t *h = heap_enter(); /* a signal handler begins here */
  uint64_t before = atomic64_load_relaxed(&heap_counts.nested);
  void *inner = fast_malloc(100);
  CHECK(inner != NULL);
  CHECK_GT(atomic64_load_relaxed(&heap_counts.nested), before);
  heap_t *nested = heap_enter();
  CHECK(nested != NULL && nested != h);
  heap_t *third = heap_enter(); /* and another inside that */
  CHECK(third != NULL && third != nested && third != h);
  heap_exit(third);
  heap_exit(nested);
  fast_free(outer);
  fast_free(inner);
  heap_exit(h); /* and ends here */
  CHECK_EQ(heap_enter(), h);
  heap_exit(h);
}
