/* outside_probe.c - a program for outside_test.py to look into: outside_probe WHAT
 *   still      a known set of blocks, then waits
 *   sparse     few blocks of `pin_entry` keep many slabs, then waits
 *   gaps       1,000 blocks of ten pages of which each second one is free again, then waits
 *   storm N    N threads that allocate and free for ever
 *   hung N     likewise, until a signal's handler interrupts each and never returns
 * It writes "ready" and its own statistics, as JSON, to standard output. It ends with its input, of
 * which each "b" is a step of 8,000 blocks more, and each "p" a profile. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../include/freehold/freehold.h"

#pragma weak fh_stats_json
#pragma weak fh_profile_write

static void *volatile kept[200000];
static size_t kept_count;

static __attribute__((noinline)) void *pin_entry(size_t size) {
  void *p = malloc(size);
  memset(p, 1, size);
  return p;
}

static __attribute__((noinline)) void *use_session(size_t size) {
  void *p = malloc(size);
  memset(p, 2, size);
  return p;
}

static void make_still(void) {
  for (int i = 0; i < 5000; i++) kept[kept_count++] = pin_entry(200);
  for (int i = 0; i < 10; i++) kept[kept_count++] = pin_entry(100000);
  kept[kept_count++] = malloc((size_t)700 << 20);
}

static void make_sparse(void) {
  enum { BLOCKS = 60000, ONE_IN = 50 };
  for (int i = 0; i < BLOCKS; i++) kept[i] = i % ONE_IN == 0 ? pin_entry(1000) : use_session(1000);
  for (int i = 0; i < BLOCKS; i++)
    if (i % ONE_IN != 0) free(kept[i]);
}

static void make_gaps(void) {
  enum { BLOCKS = 1000, SIZE = 10 * 4096 };
  for (int i = 0; i < BLOCKS; i++) kept[i] = use_session(SIZE);
  for (int i = 0; i < BLOCKS; i += 2) free(kept[i]);
}

static void *storm(void *number) {
  enum { BLOCKS = 1024 };
  void *blocks[BLOCKS] = {NULL};
  unsigned random = (unsigned)(size_t)number * 7919 + 1;
  for (;;) {
    random = random * 1103515245 + 12345;
    unsigned i = random >> 16 & (BLOCKS - 1);
    free(blocks[i]);
    random = random * 1103515245 + 12345;
    blocks[i] = malloc((size_t)16 << (random >> 16) % 12);
    memset(blocks[i], 1, 1); /* a page of zeros would be none in a core file */
  }
  return NULL;
}

static atomic_int hung;
static void hang(int number) {
  (void)number;
  hung++;
  for (;;) pause();
}
static void hang_all(const pthread_t *threads, int count) {
  signal(SIGUSR1, hang);
  usleep(100000);
  for (int i = 0; i < count; i++) pthread_kill(threads[i], SIGUSR1);
  while (hung < count) usleep(1000);
}

int main(int argc, char **argv) {
  enum { THREADS_MOST = 64, STEP = 8000 };
  static char text[1 << 20];
  pthread_t threads[THREADS_MOST];
  int count = argc > 2 ? atoi(argv[2]) : 0;
  if (strcmp(argv[1], "still") == 0) make_still();
  if (strcmp(argv[1], "sparse") == 0) make_sparse();
  if (strcmp(argv[1], "gaps") == 0) make_gaps();
  for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, storm, (void *)(size_t)i);
  if (strcmp(argv[1], "hung") == 0) hang_all(threads, count);
  setvbuf(stdout, NULL, _IONBF, 0);
  if (fh_stats_json != NULL) fh_stats_json(text, sizeof text);
  for (char *c = text; (c = strchr(c, '\n')) != NULL;) *c = ' ';
  printf("ready\n%s\n", text);
  while (read(0, text, 1) == 1) {
    if (text[0] == 'b') {
      for (int i = 0; i < STEP; i++) kept[kept_count++] = malloc(48);
      printf("stepped\n");
    }
    if (fh_profile_write != NULL && text[0] == 'p') {
      fh_profile_write(3, FH_PROFILE_HEAP);
      printf("written\n");
    }
  }
  return 0;
}
