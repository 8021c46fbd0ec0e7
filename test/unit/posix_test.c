/* posix_test.c - tests of os/posix, on the kernel itself */
#include "../test.h"

#include <pthread.h>

#include "../../src/os/os.h"

static void *left;
static uint64_t number;
static void leave(void *heap) { left = heap; }

static void *watch(void *heap) {
  number = os_thread();
  CHECK(!os_thread_has_ended(number, number));
  return (void *)(uintptr_t)os_thread_watch(heap);
}

static void check_that_an_end_is_told(void) {
  pthread_t thread;
  void *is_watched;
  os_thread_set_leave(leave);
  CHECK_EQ(pthread_create(&thread, NULL, watch, &left), 0);
  CHECK_EQ(pthread_join(thread, &is_watched), 0);
  CHECK(is_watched != NULL);
  CHECK_EQ(left, (void *)&left);
}

TEST(posix, the_end_of_a_thread_is_told_and_found, "") {
  CHECK(!os_thread_watch(&left)); /* nobody wants to know yet */
  check_that_an_end_is_told();
  for (int i = 0; i < 1000 && !os_thread_has_ended(number, os_thread()); i++) os_sleep_ms(1);
  CHECK(os_thread_has_ended(number, os_thread()));
  CHECK(!os_thread_has_ended(0, os_thread()));
  CHECK(!os_thread_has_ended(number, 0));
}

TEST(posix, the_end_of_a_thread_is_told_also_where_the_program_has_many_keys, "") {
  pthread_key_t key;
  for (int i = 0; i < 40; i++) CHECK_EQ(pthread_key_create(&key, NULL), 0);
  check_that_an_end_is_told();
}

static atomic32_t has_run;
static void run(void) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  atomic32_store_release(&has_run, 1 + (uint32_t)sigismember(&blocked, SIGTERM));
}

TEST(posix, a_thread_that_it_starts_gets_no_signals, "") {
  CHECK(os_thread_start(run));
  for (int i = 0; i < 1000 && atomic32_load_acquire(&has_run) == 0; i++) os_sleep_ms(1);
  CHECK_EQ(atomic32_load_acquire(&has_run), 2u);
}

static atomic32_t was_told;
static void note(int number) { atomic32_store_release(&was_told, (uint32_t)number); }

TEST(posix, a_signal_of_which_the_program_has_said_nothing_is_told, "") {
  CHECK(os_on_signal(SIGUSR1, note));
  raise(SIGUSR1);
  CHECK_EQ(atomic32_load_acquire(&was_told), (uint32_t)SIGUSR1);
  CHECK(!os_on_signal(SIGUSR1, note)); /* now something is said */
}
