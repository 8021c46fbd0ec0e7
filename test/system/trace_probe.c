/* trace_probe.c - a program of which it is known what it asks of malloc */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile p;
static void *volatile q;

/* 1000 mallocs of 1234 bytes, of which the last 10 live; 5 reallocs; 3 callocs; 2 aligned. */
static void known(void) {
  void *kept[10];
  for (int i = 0; i < 1000; i++) {
    p = malloc(1234);
    if (i < 990) free(p);
    else kept[i - 990] = p;
  }
  p = malloc(77777);
  for (int i = 1; i <= 5; i++) p = realloc(p, (size_t)77777 * (size_t)(i + 1));
  free(p);
  for (int i = 0; i < 3; i++) free(p = calloc(7, 1111));
  for (int i = 0; i < 2; i++) free(p = aligned_alloc(512, 4321));
  q = kept[9];
}

static void *free_all(void *blocks) {
  for (int i = 0; i < 500; i++) free(((void **)blocks)[i]);
  return NULL;
}
static void by_others(void) {
  static void *blocks[500];
  pthread_t thread;
  for (int i = 0; i < 500; i++) blocks[i] = malloc(5432);
  pthread_create(&thread, NULL, free_all, blocks);
  pthread_join(thread, NULL);
}

static void handle(int number) {
  (void)number;
  free(malloc(3333));
}
static void interrupted(void) {
  struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
  signal(SIGALRM, handle);
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < 300000; i++) free(p = malloc(2222));
  setitimer(ITIMER_REAL, &never, NULL);
}

/* Children that begin in a handler, and go on where that interrupted the parent. */
static volatile int children;
static pid_t parent;
static void fork_and_return(int number) {
  (void)number;
  if (getpid() != parent) return;
  free(malloc(3333));
  if (fork() == 0) signal(SIGALRM, SIG_IGN);
  else children++;
}
static void forked_by_handlers(void) {
  struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  parent = getpid();
  signal(SIGALRM, fork_and_return);
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; children < 100; i++) {
    free(p = malloc((size_t)i % 500));
    for (int k = 0; getpid() != parent; k++) {
      if (k == 10000) _exit(0);
      free(p = malloc((size_t)k % 300));
    }
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
  }
  setitimer(ITIMER_REAL, &never, NULL);
  while (wait(NULL) > 0) {}
}

static void *free_one(void *block) {
  free(block);
  return NULL;
}
static void *churn(void *unused) {
  for (int i = 0; i < 50; i++) free(malloc(999));
  return unused;
}
static void many_threads(void) {
  for (int round = 0; round < 100; round++) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, churn, NULL);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  }
}

/* 5,000 threads in turn, then 100 that end when all of them are there. */
static pthread_barrier_t all_there;
static void *allocate_three(void *unused) {
  void *blocks[3];
  for (int i = 0; i < 3; i++) blocks[i] = malloc(888);
  for (int i = 0; i < 3; i++) free(blocks[i]);
  return unused;
}
static void *allocate_and_wait(void *unused) {
  free(malloc(777));
  pthread_barrier_wait(&all_there);
  return unused;
}
static void threads_in_turn(void) {
  pthread_t thread, waiting[100];
  for (int i = 0; i < 5000; i++) {
    pthread_create(&thread, NULL, allocate_three, NULL);
    pthread_join(thread, NULL);
  }
  pthread_barrier_init(&all_there, NULL, 101);
  for (int i = 0; i < 100; i++) pthread_create(&waiting[i], NULL, allocate_and_wait, NULL);
  pthread_barrier_wait(&all_there);
  for (int i = 0; i < 100; i++) pthread_join(waiting[i], NULL);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "known") == 0) known();
  if (strcmp(what, "others") == 0) by_others();
  if (strcmp(what, "handlers") == 0) interrupted();
  if (strcmp(what, "threads") == 0) many_threads();
  if (strcmp(what, "turns") == 0) threads_in_turn();
  if (strcmp(what, "handler-forks") == 0) forked_by_handlers();
  if (strcmp(what, "forks") == 0) {
    known();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
      free(malloc(54321));
      _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("%d\n", (int)child);
  }
  if (strcmp(what, "killed") == 0) {
    known();
    kill(getpid(), SIGKILL);
  }
  if (strcmp(what, "closes") == 0) { /* as daemons do */
    for (int i = 3; i < 1000; i++) close(i);
    for (int i = 0; i < 100000; i++) free(p = malloc(2222));
  }
  if (strcmp(what, "twice") == 0) {
    p = malloc(100);
    pthread_t thread;
    pthread_create(&thread, NULL, free_one, p);
    pthread_join(thread, NULL);
    free(p);
  }
  return 0;
}
