/* budget_probe.c - a program that the budget tests start inside containers
 *
 * budget_probe figures MIB         uses that much, waits until the container was looked at, and
 *                                  writes container_limit, pressure, pressure_raises and dirty
 * budget_probe grow MIB KEEP       takes MIB in blocks of one size and frees all but KEEP MiB of
 *                                  them, again and again with other sizes
 * budget_probe callback MIB        drops a cache of MIB when it is told to. Writes how often it was
 *                                  told that memory is near or over, by how much, and what is left
 * budget_probe sleepers N [KIB]    N threads, one after another, take 1 MiB in blocks of all sizes,
 *                                  free it and sleep; or KIB of each size, one after the other,
 *                                  three times. Writes what the library has in memory then.
 * budget_probe sleepers N KIB S    likewise, but without fh_collect: after S seconds, or once it is
 *                                  less than 32 MiB
 * budget_probe scattered MIB       takes MIB in small blocks and frees all but one of each 64 KiB;
 *                                  writes what is in memory then
 * budget_probe refused N           N threads take blocks of 5,000 bytes until they are refused,
 *                                  then of 900. Writes how many of these they got together, the
 *                                  least that one got, and the most that was claimed
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../include/freehold/freehold.h"

#define MIB ((size_t)1 << 20)
enum { MOST = 1 << 20 };
static void *block[MOST];
static size_t blocks;

static void pause_ms(long ms) {
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* Calls of the slow path, in which the library looks around. */
static void make_calls(void) {
  for (int i = 0; i < 200; i++) fh_free(fh_malloc(40000));
}

static void take(size_t bytes, size_t size) {
  for (size_t done = 0; done < bytes && blocks < MOST; done += size) {
    void *p = fh_malloc(size);
    if (p == NULL) return;
    memset(p, 1, size);
    block[blocks++] = p;
  }
}
static void drop(void) {
  while (blocks != 0) fh_free(block[--blocks]);
}

static fh_stats_t figures(void) {
  fh_stats_t s = {.struct_size = sizeof s};
  if (!fh_stats_get(&s)) exit(3);
  return s;
}

static void write_figures(void) {
  fh_stats_t s = figures();
  printf("%llu %llu %llu %llu\n", (unsigned long long)s.container_limit,
         (unsigned long long)s.pressure, (unsigned long long)s.pressure_raises,
         (unsigned long long)s.dirty);
}

static int run_figures(size_t mib) {
  take(mib * MIB, 5000);
  for (int i = 0; i < 12; i++) {
    make_calls();
    pause_ms(20);
  }
  write_figures();
  return 0;
}

/* What is kept is spread over all that was taken. */
static void free_most(size_t keep, size_t bytes) {
  size_t each = bytes / (keep * MIB + 1) + 1, kept = 0;
  for (size_t i = 0; i < blocks; i++) {
    if (i % each == 0) block[kept++] = block[i];
    else fh_free(block[i]);
  }
  while (kept != 0) fh_free(block[--kept]);
  blocks = 0;
}

static int run_grow(size_t mib, size_t keep) {
  static const size_t sizes[] = {48, 300, 2000, 9000, 70000, 700000};
  for (int round = 0; round < 24; round++) {
    take(mib * MIB, sizes[round % 6]);
    free_most(keep, mib * MIB);
    pause_ms(30);
  }
  write_figures();
  return 0;
}

static unsigned told_near, told_over;
static unsigned long long most_over;
static void on_pressure(fh_pressure_t level, uint64_t over, void *context) {
  if (context != (void *)block) exit(4);
  told_near += level == FH_PRESSURE_NEAR;
  told_over += level == FH_PRESSURE_OVER;
  if (over > most_over) most_over = over;
  fh_free(fh_malloc(100000)); /* which does not call it again */
  if (level == FH_PRESSURE_OVER) drop();
}

static int run_callback(size_t mib) {
  fh_pressure_set(on_pressure, block);
  for (int i = 0; i < 60; i++) {
    take(mib * MIB / 20, 30000);
    make_calls();
    pause_ms(5);
  }
  printf("%u %u %llu %zu\n", told_near, told_over, most_over, blocks * 30000 / MIB);
  return 0;
}

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static sem_t asleep;

/* A block's first word leads to the one before. */
static void use_all_sizes(void) {
  void **last = NULL;
  for (size_t done = 0, size = 16; done < MIB; done += size, size += size < 512 ? 16 : size / 8) {
    if (size > 16384) size = 16;
    void **p = fh_malloc(size);
    memset(p, 1, size);
    *p = last;
    last = p;
  }
  for (void **next; last != NULL; last = next) {
    next = *last;
    fh_free(last);
  }
}

static void use_each_size(size_t bytes) {
  for (size_t round = 0; round < 3; round++)
    for (size_t size = 16; size <= 16384; size = fh_good_size(size + 1)) take(bytes, size), drop();
}

static void *run_and_sleep(void *context) {
  size_t kib = *(const size_t *)context;
  pthread_mutex_lock(&turn);
  if (kib == 0) use_all_sizes();
  else use_each_size(kib << 10);
  pthread_mutex_unlock(&turn);
  sem_post(&asleep);
  for (;;) pause();
  return NULL;
}

static int run_sleepers(size_t count, size_t kib, unsigned seconds) {
  enum { ENOUGH = 32 << 20 };
  pthread_attr_t small;
  sem_init(&asleep, 0, 0);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  for (size_t i = 0; i < count; i++) {
    pthread_t thread;
    if (pthread_create(&thread, &small, run_and_sleep, &kib) != 0) return 3;
  }
  for (size_t i = 0; i < count; i++) sem_wait(&asleep);
  make_calls(); /* somebody's slow calls */
  if (seconds == 0) fh_collect(true);
  for (unsigned waited = 0; waited < seconds && figures().resident >= ENOUGH; waited++) sleep(1);
  fh_stats_t s = figures();
  printf("%llu %llu\n", (unsigned long long)s.resident, (unsigned long long)s.threads);
  return 0;
}

static int run_scattered(size_t mib) {
  enum { SIZE = 96, KEPT = 65536 / SIZE, LOOKS = 30 };
  take(mib * MIB, SIZE);
  for (size_t i = 0; i < blocks; i++)
    if (i % KEPT != 0) fh_free(block[i]);
  for (int i = 0; i < LOOKS; i++) {
    pause_ms(50);
    make_calls();
  }
  printf("%llu\n", (unsigned long long)figures().resident);
  return 0;
}

static pthread_barrier_t all;

/* Nobody ends, and gives something back, before all have counted. */
static void *be_refused(void *context) {
  enum { ENOUGH = 1000 };
  size_t *count = context;
  while (fh_malloc(5000) != NULL) {}
  if (errno != ENOMEM) exit(5);
  pthread_barrier_wait(&all);
  while (*count < ENOUGH && fh_malloc(900) != NULL) ++*count;
  pthread_barrier_wait(&all);
  return NULL;
}

static int run_refused(size_t count) {
  enum { THREADS = 64 };
  static pthread_t threads[THREADS];
  static size_t counts[THREADS];
  size_t sum = 0, least = SIZE_MAX;
  if (count > THREADS || pthread_barrier_init(&all, NULL, (unsigned)count) != 0) return 3;
  for (size_t i = 0; i < count; i++)
    if (pthread_create(&threads[i], NULL, be_refused, &counts[i]) != 0) return 3;
  for (size_t i = 0; i < count; i++) {
    pthread_join(threads[i], NULL);
    sum += counts[i];
    if (counts[i] < least) least = counts[i];
  }
  printf("%zu %zu %llu\n", sum, least, (unsigned long long)figures().peak_committed);
  return 0;
}

int main(int argc, char **argv) {
  size_t mib = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "figures") == 0) return run_figures(mib);
  if (strcmp(what, "grow") == 0 && argc > 3) return run_grow(mib, strtoull(argv[3], NULL, 10));
  if (strcmp(what, "callback") == 0) return run_callback(mib);
  if (strcmp(what, "sleepers") == 0)
    return run_sleepers(mib, argc > 3 ? strtoull(argv[3], NULL, 10) : 0,
                        argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 0);
  if (strcmp(what, "scattered") == 0) return run_scattered(mib);
  if (strcmp(what, "refused") == 0) return run_refused(mib);
  fprintf(stderr,
          "budget_probe: figures MIB | grow MIB KEEP | callback MIB | sleepers N [KIB [S]] | "
          "scattered MIB | refused N\n");
  return 2;
}
