/* users_test.c - tests of stock/users */
#include "heaps.h"

static void have_heap(void *context) { (void)context, (void)my_heap(); }

TEST(users, a_heap_is_its_threads_from_the_first_call_to_the_end_of_the_thread, "P1") {
  heap_t *a = pool_claim(), *b = pool_claim();
  users_begin(heap_number(a));
  CHECK_EQ(users_thread(heap_number(a)),
           (uint64_t)0); /* nobody asks while there is one heap alone */
  users_begin(heap_number(b));
  CHECK_EQ(users_thread(heap_number(b)), os_thread());
  CHECK_EQ(users_count(), 1);
  users_begin(heap_number(b));
  CHECK_EQ(users_count(), 1);
  users_note(heap_number(b), 0);
  CHECK_EQ(users_thread(heap_number(b)), (uint64_t)0);
  CHECK(users_count() == 0 && users_are_valid(pool_size()));
  users_note(heap_number(b), 0);
  CHECK_EQ(users_count(), 0);
}

static uint64_t first_thread;
static bool all_others_have_ended(uint64_t thread) { return thread != first_thread; }

TEST(users, a_thread_that_has_died_counts_no_more_once_its_heap_is_found, "P1") {
  first_thread = os_thread();
  my_heap();
  for (int i = 0; i < 40; i++) in_thread(have_heap, NULL, false);
  CHECK_EQ(users_count(), 40); /* the first one had its heap before there were words */
  os_fake.has_ended = all_others_have_ended;
  for (int i = 0; i < 100; i++) in_thread(have_heap, NULL, false); /* they take over what is left */
  CHECK_LE(users_count(), 41);
  CHECK(users_are_valid(pool_size()));
  heap_collect(true);
  CHECK_EQ(users_count(), 0);
  CHECK(pool_is_valid());
}

static heap_t *interrupted;
static void die_inside(void *context) {
  (void)context;
  my_heap();
  interrupted = heap_enter();
  my_heap(); /* a handler's */
}

TEST(users, what_a_dead_threads_handlers_used_counts_until_it_is_found, "P1") {
  first_thread = os_thread();
  my_heap();
  in_thread(die_inside, NULL, false);
  CHECK_EQ(users_count(), 1);
  os_fake.has_ended = all_others_have_ended;
  heap_collect(true);
  CHECK_EQ(users_count(), 0);
  CHECK(users_are_valid(pool_size()) && interrupted->busy != 0);
}

/* As if it had earned runs; then an operation of it never ends. */
static void keep_and_stop_inside(void *context) {
  heap_t *h = my_heap();
  interrupted = heap_enter();
  h->run_most = 12;
  h->own->more_singles = 3;
  surplus_add(15);
  CHECK(context == NULL || pool_is_valid());
}

TEST(users, what_a_heap_had_of_the_surplus_goes_back_when_an_operation_in_it_never_ends, "K1") {
  first_thread = os_thread();
  my_heap();
  in_thread(keep_and_stop_inside, NULL, true); /* a handler that jumped away; then it ends */
  CHECK(pool_is_valid() && surplus_is_valid(0) && interrupted->busy != 0);
  in_thread(keep_and_stop_inside, NULL, false); /* or dies there */
  CHECK(!surplus_ask(SURPLUS_LEAST / 2));
  os_fake.has_ended = all_others_have_ended;
  heap_collect(true);
  CHECK(pool_is_valid() && surplus_is_valid(0) && interrupted->busy != 0);
}

static void keep_and_die(void *context) {
  (void)context;
  heap_t *h = my_heap();
  h->run_most = 12;
  surplus_add(12);
}
static heap_t *taken;
static void take_and_die(void *is_emptying) {
  size_t words = pool_size() * POOL_ASK_WORDS;
  taken = pool_claim_dead(&words);
  CHECK(taken != NULL && users_thread(heap_number(taken)) == os_thread());
  taken->busy = is_emptying != NULL;
}
static bool is_claimed(const heap_t *h) {
  bool is_claimed;
  return pool_at(heap_number(h), &is_claimed) == h && is_claimed;
}

TEST(users, a_dead_threads_heap_is_found_again_if_the_thread_that_took_it_dies_too, "K1 P1") {
  first_thread = os_thread();
  my_heap();
  for (int round = 0; round < 2; round++) {
    os_fake.has_ended = all_others_have_ended;
    in_thread(keep_and_die, NULL, false);
    in_thread(take_and_die, round == 0 ? NULL : &round, false);
    CHECK(is_claimed(taken) && taken->run_most == 12);
    heap_collect(true);
    CHECK_EQ(is_claimed(taken), round != 0); /* what it was in the middle of, nobody goes on with */
    CHECK(users_count() == 0 && pool_is_valid() && surplus_is_valid(0));
  }
}

TEST(users, a_wrong_count_is_found, "P1") {
  heap_t *h = pool_claim();
  users_make();
  users_note(heap_number(h), 5);
  CHECK(users_are_valid(pool_size()));
  /* in the child, which finds nobody */
  EXPECT_ABORT((users_note(heap_number(h), 5), users_are_valid(heap_number(h))), "invariant P1");
}

/* A word that is 0 and whose place a thread had is a parent's, in a child of fork. */
TEST(users, a_word_that_was_written_is_never_0_again_however_many_threads_come_and_go, "P1") {
  heap_t *a = pool_claim(), *b = pool_claim();
  users_begin(heap_number(a));
  users_begin(heap_number(b));
  for (uint32_t i = 0; i < (uint32_t)2 << (64 - OS_THREAD_BITS); i++) {
    users_note(heap_number(b), i % 2 == 0 ? 0 : 5);
    if (i % 2 != 0) continue;
    users_leave_behind(heap_number(b),
                       USERS_PARENTS); /* as between two steps of who takes it over */
    CHECK_EQ(users_take_dead(heap_number(b), os_thread()), (uint64_t)0);
  }
}
