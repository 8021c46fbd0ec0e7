/* profile_probe.c - programs of which it is known what they allocate, for profile_test.py
 *
 *   profile_probe known THREADS   each site allocates, and every second block is freed by another
 *                                 thread. Says what lives: lines "site size blocks"
 *   profile_probe grow MIB        so much, in blocks of a MiB, all at once
 *   profile_probe signal NUMBER   sends itself that signal, when 100 MiB live
 *   profile_probe fork            a child allocates 100 MiB and ends; the parent does nothing
 *   profile_probe early           allocates before main and in a handler, and keeps both
 *   profile_probe probes          allocates, frees and trims, of each kind once
 *   profile_probe kinds FILE      writes FILE.0, FILE.1 ... by fh_profile_write
 *   profile_probe weights FILE    likewise, of what lives: two sites' blocks in turn */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/freehold/freehold.h"

#pragma weak fh_profile_start
#pragma weak fh_profile_write
#pragma weak fh_heap_new
#pragma weak fh_heap_malloc

enum { TOTAL = 64 << 20, BLOCKS_MOST = 1 << 20 }; /* bytes of a site, about */

/* One function for each size, so that call stacks tell them apart. */
#define SITES(X)                                                                                   \
  X(16)                                                                                            \
  X(100)                                                                                           \
  X(500) X(1000) X(3000) X(8000) X(16384) X(20000) X(100000) X(1000000) X(20000000) X(1073741824)
#define SITE(size)                                                                                 \
  __attribute__((noinline)) static void *site_##size(void) {                                       \
    void *volatile p = malloc(size);                                                               \
    return p;                                                                                      \
  }
SITES(SITE)
#define ROW(size) {size, site_##size},
static const struct {
  size_t size;
  void *(*allocate)(void);
} sites[] = {SITES(ROW)};
enum { SITE_COUNT = sizeof sites / sizeof *sites };

typedef struct {
  unsigned threads, number;
  void **passed[SITE_COUNT]; /* every second block, for the next thread to free */
  size_t count[SITE_COUNT];
} work_t;

static void *allocate_all(void *work) {
  work_t *w = work;
  for (unsigned s = 0; s < SITE_COUNT; s++) {
    size_t n = TOTAL / sites[s].size / w->threads;
    if (n < 2) n = 2;
    if (n > BLOCKS_MOST) n = BLOCKS_MOST;
    w->count[s] = n;
    w->passed[s] = calloc(n, sizeof(void *));
    for (size_t i = 0; i < n; i++) {
      void *live = sites[s].allocate();
      w->passed[s][i] = sites[s].allocate();
      if (live == NULL || w->passed[s][i] == NULL) abort();
    }
  }
  return NULL;
}

static void *free_all(void *work) {
  work_t *w = work;
  for (unsigned s = 0; s < SITE_COUNT; s++)
    for (size_t i = 0; i < w->count[s]; i++) free(w->passed[s][i]);
  return NULL;
}

static void in_threads(void *(*run)(void *), work_t *work, unsigned threads, unsigned shift) {
  pthread_t thread[64];
  for (unsigned i = 0; i < threads; i++)
    if (pthread_create(&thread[i], NULL, run, &work[(i + shift) % threads]) != 0) abort();
  for (unsigned i = 0; i < threads; i++) pthread_join(thread[i], NULL);
}

static void known(unsigned threads) {
  static work_t work[64];
  for (unsigned i = 0; i < threads; i++) work[i].threads = threads, work[i].number = i;
  in_threads(allocate_all, work, threads, 0);
  in_threads(free_all, work, threads, 1);
  for (unsigned s = 0; s < SITE_COUNT; s++) {
    size_t n = 0;
    for (unsigned i = 0; i < threads; i++) n += work[i].count[s];
    printf("site_%zu %zu %zu\n", sites[s].size, sites[s].size, n);
  }
}

static void grow(size_t mib) {
  for (size_t i = 0; i < mib; i++)
    if (site_1000000() == NULL) abort();
}

__attribute__((noinline)) static void drop(void *p) {
  free(p);
  __asm__ volatile("");
}

static void write_each(const char *name) {
  char path[4096];
  for (fh_profile_t kind = FH_PROFILE_HEAP; kind <= FH_PROFILE_LIFETIMES; kind++) {
    snprintf(path, sizeof path, "%s.%d", name, (int)kind);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || !fh_profile_write(file, kind)) abort();
    close(file);
  }
}

/* Weights that are no whole numbers, in turn. */
__attribute__((noinline)) static void write_weights(const char *name) {
  if (fh_profile_start == NULL || !fh_profile_start(7300)) abort();
  for (int i = 0; i < 20000; i++)
    if (site_8000() == NULL || site_3000() == NULL) abort();
  write_each(name);
}

__attribute__((noinline)) static void write_kinds(const char *name) {
  if (fh_profile_start == NULL || !fh_profile_start(1)) abort();
  fh_heap_t *heap = fh_heap_new();
  for (int i = 0; i < 10; i++)
    if (site_100() == NULL || fh_heap_malloc(heap, 3000) == NULL) abort();
  for (int i = 0; i < 10; i++) {
    void *p = site_500();
    usleep(20000);
    drop(p);
  }
  write_each(name);
}

static void one_of_each(void) {
  drop(site_1000000());
  drop(site_20000000());
  drop(site_1073741824());
  malloc_trim(0);
}

/* The runtime gives constructors what main gets. */
__attribute__((constructor, noinline)) static void before_main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "early") == 0) site_3000();
  __asm__ volatile("");
}
__attribute__((noinline)) static void in_handler(int number) {
  (void)number;
  site_8000();
  __asm__ volatile("");
}
static void allocate_early(void) {
  signal(SIGUSR1, in_handler);
  raise(SIGUSR1);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "", *with = argc > 2 ? argv[2] : "";
  if (strcmp(what, "known") == 0) known((unsigned)atoi(with));
  else if (strcmp(what, "grow") == 0) grow((size_t)atoi(with));
  else if (strcmp(what, "kinds") == 0) write_kinds(with);
  else if (strcmp(what, "weights") == 0) write_weights(with);
  else if (strcmp(what, "early") == 0) allocate_early();
  else if (strcmp(what, "probes") == 0) one_of_each();
  else if (strcmp(what, "signal") == 0) grow(100), raise(atoi(with));
  else if (strcmp(what, "fork") == 0) {
    pid_t child = fork();
    if (child == 0) grow(100);
    else waitpid(child, NULL, 0);
  } else return 2;
  return 0;
}
