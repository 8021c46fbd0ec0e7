/* core.h - what the unit tests of the core share: the frame, the fake system, and a line
 * and an abort for each error */
#ifndef CORE_H
#define CORE_H

#include "../test.h"

/* In the program itself, so that the archive's own os is not asked for. */
#include "os_fake.c"

#include "../../src/base/check.h"
#include "../../src/support/options.h"

#define unused __attribute__((unused))

/* Slices: almost as many as one claim may take, and two such claims fit a window. */
enum { HALF_WINDOW = WINDOW_SLICES / 2 - 192 };

static void core_report(const char *what, const void *address, const char *call) {
  test_say("freehold: %s: %p in %s()\n", what, address, call);
  abort();
}

__attribute__((constructor)) static void core_start(void) { check_set_reporter(core_report); }

/* In a file of tests that are about pages of 4 KiB: of larger ones a slab has too few to give back,
 * and a huge page is no frame. */
#define CORE_SMALL_PAGES                                                                           \
  __attribute__((constructor)) static void core_small_pages(void) { os_fake.page_size = 4096; }

/* Options that count at start too. */
unused static void core_option(option_t option, int64_t value) {
  atomic64_store_relaxed(&option_values[option], (uint64_t)value);
}

/* Runs `run` in `count` threads, which begin together; each gets its number. */
typedef struct {
  void (*run)(unsigned number);
  unsigned number;
  pthread_barrier_t *start;
} core_thread_t;

static void *core_thread_run(void *context) {
  core_thread_t *t = context;
  pthread_barrier_wait(t->start);
  t->run(t->number);
  return NULL;
}

unused static void core_threads(unsigned count, void (*run)(unsigned number)) {
  pthread_t threads[16];
  core_thread_t contexts[16];
  pthread_barrier_t start;
  CHECK_LE(count, 16u);
  pthread_barrier_init(&start, NULL, count);
  for (unsigned i = 0; i < count; i++) {
    contexts[i] = (core_thread_t){run, i, &start};
    CHECK_EQ(pthread_create(&threads[i], NULL, core_thread_run, &contexts[i]), 0);
  }
  for (unsigned i = 0; i < count; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* How the child of a fork ends that does this; 0: well. */
unused static int in_child(void (*run)(void)) {
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    run();
    _exit(0);
  }
  CHECK_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

/* A generator of numbers, the same in each run. */
unused static uint64_t core_next(uint64_t *state) {
  return bits_mix(*state += 0x9E3779B97F4A7C15u);
}

#endif
