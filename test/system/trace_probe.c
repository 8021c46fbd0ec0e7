/* trace_probe.c - a program of which it is known what it asks of malloc */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/ucontext.h>
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

/* Each the child of the one before: the pages of addresses that the first has, and the last. */
static void generations(void) {
  for (int i = 0; i <= 32; i++) {
    char pages[32] = "";
    free(p = malloc(100));
    int file = open("/proc/self/statm", O_RDONLY);
    if (read(file, pages, sizeof pages - 1) < 0) _exit(1);
    close(file);
    if (i % 32 == 0) dprintf(1, "%ld\n", atol(pages));
    pid_t child = fork();
    if (child != 0) _exit(waitpid(child, NULL, 0) != child);
  }
  _exit(0);
}

static void nothing(int number) { (void)number; }
/* It only waits, and after a signal has a child that allocates. */
static void child_after_signal(void) {
  signal(SIGUSR1, nothing);
  puts("ready");
  fflush(stdout);
  pause();
  pid_t child = fork();
  for (int i = 0; child == 0 && i < 100; i++) free(p = malloc(1 << 20));
  _exit(child != 0 && waitpid(child, NULL, 0) != child);
}

__attribute__((noinline)) static void *free_one(void *block) {
  free(block);
  return NULL;
}
static void free_in_thread(void *block) {
  pthread_t thread;
  pthread_create(&thread, NULL, free_one, block);
  pthread_join(thread, NULL);
}
/* By this thread and by another one, which never had a heap, or by a call that refuses the block
 * before it counts as a free. */
extern void free_sized(void *p, size_t size) __attribute__((weak));
static void free_twice(const char *how) {
  void *block = malloc(100);
  p = malloc(100); /* the slab stays one of this class */
  printf("%d\n", (int)getpid());
  fflush(stdout);
  if (strcmp(how, "twice-back") == 0) {
    free_one(block);
    free_in_thread(block);
  } else if (strcmp(how, "twice-gone") == 0) {
    free(p);
    free_one(block);
    malloc_trim(0);
    for (int i = 0; i < 10; i++) p = malloc(60000); /* one takes the slab's place */
    free(block);
  } else if (strcmp(how, "twice-sized") == 0) {
    free_one(block);
    free_sized(block, 100);
  } else {
    free_in_thread(block);
    free(block);
  }
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

/* Sixteen threads that work before a trace begins, and after. What happens in between is known of
 * none, but each is told of from its first large block on. */
enum { LATE = 16, LATE_BLOCKS = 300 };
static const char *late_path;
static volatile int late_is_begun;
static pthread_barrier_t late_gate;
static void check_filled(unsigned char *block, size_t size, int number) {
  for (size_t i = 0; i < size; i++)
    if (block[i] != (unsigned char)number) abort();
}
static unsigned char *filled(size_t size, int number) { return memset(malloc(size), number, size); }
static void *work_before_and_after(void *context) {
  int number = (int)(size_t)context;
  unsigned char *before[LATE_BLOCKS], *now[100] = {NULL};
  for (int i = 0; i < LATE_BLOCKS; i++) before[i] = filled(3210, number);
  for (long i = 0; !late_is_begun || i < 200000; i++) {
    unsigned char **at = &now[i * 37 % 100];
    if (*at != NULL) check_filled(*at, 100, number);
    free(*at);
    *at = filled(100, number);
    if (i == 50000) pthread_barrier_wait(&late_gate);
  }
  for (int i = 0; i < 100; i++) free(now[i]);
  free(malloc(40000));
  for (int i = 0; i < 1000; i++) free(malloc(2345));
  for (int i = 0; i < LATE_BLOCKS; i++) {
    check_filled(before[i], 3210, number);
    free(before[i]);
  }
  return NULL;
}
#pragma weak fh_trace_start
bool fh_trace_start(const char *path);
#pragma weak fh_trace_stop
bool fh_trace_stop(void);
static void begun_late(void) {
  pthread_t threads[LATE];
  struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
  pthread_barrier_init(&late_gate, NULL, LATE + 1);
  signal(SIGALRM, handle);
  for (size_t i = 0; i < LATE; i++)
    pthread_create(&threads[i], NULL, work_before_and_after, (void *)(i + 1));
  pthread_barrier_wait(&late_gate);
  setitimer(ITIMER_REAL, &often, NULL);
  bool is_begun = fh_trace_start(late_path), again = fh_trace_start("/no/such/file");
  printf("%d %d %d\n", is_begun, again, errno == EALREADY);
  late_is_begun = 1;
  for (int i = 0; i < LATE; i++) pthread_join(threads[i], NULL);
  setitimer(ITIMER_REAL, &never, NULL);
}
static void find_no_room_late(void) {
  struct rlimit limit = {300 << 10, 300 << 10};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  fh_trace_start(late_path);
  for (int i = 0; i < 1000000; i++) free(malloc(100));
}
/* Before and after, the heap keeps a run of pages. */
static void kept_late(void) {
  for (int i = 0; i < 100; i++) free(p = malloc(65430));
  fh_trace_start(late_path);
  for (int i = 0; i < 2; i++) free(p = malloc(65432));
}
static void refused_late(void) {
  bool first = fh_trace_start("/no/such/folder/t"), second = fh_trace_start("");
  printf("%d %d %d\n", first, second, errno == EINVAL);
  printf("%d\n", fh_trace_start(late_path));
  free(malloc(6543));
}

/* Works for each byte that it reads; with a `second` thread that makes slow calls all the time. */
static void *call_slowly(void *unused) {
  for (;; usleep(2000)) free(malloc(33333));
  return unused;
}
static void served(bool is_busy) {
  pthread_t second;
  char byte;
  if (is_busy) pthread_create(&second, NULL, call_slowly, NULL);
  printf("ready\n");
  for (fflush(stdout); read(0, &byte, 1) == 1; fflush(stdout)) {
    free(p = malloc(40000));
    for (int i = 0; i < 1000; i++) free(p = malloc(2345));
    free(p = malloc(40000));
    printf("done\n");
  }
}

/* A handler forks at the n-th instruction of fh_trace_start, for n = 1, 1 + step ... Both go on. */
static long step = 23;
static volatile long steps_left;
static volatile bool is_forked, dies;
#if defined(__x86_64__)
static void on_step(int number, siginfo_t *info, void *context) {
  (void)number, (void)info;
  ucontext_t *at = context;
  if (--steps_left > 0) return;
  while (dies) syscall(SYS_exit, 0);
  at->uc_mcontext.gregs[REG_EFL] &= ~0x100L; /* no more single steps, in the child neither */
  is_forked = true;
  if (fork() == -1) _exit(9);
}
static bool in_steps(bool (*work)(const char *name), const char *name) {
  struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
  sigaction(SIGTRAP, &action, NULL);
  __asm__ volatile("pushf; orl $0x100, (%%rsp); popf" ::: "memory", "cc");
  bool is_done = work(name);
  __asm__ volatile("pushf; andl $~0x100, (%%rsp); popf" ::: "memory", "cc");
  return is_done;
}
#else
static bool in_steps(bool (*work)(const char *name), const char *name) { return work(name); }
#endif
static void record_hundred(void) {
  free(p = malloc(40000));
  for (int i = 0; i < 100; i++) free(p = malloc(6543));
}
static int record_and_end(const char *name, pid_t parent) {
  int status = 0, gate[2];
  char byte = 0;
  if (pipe(gate) != 0 || !in_steps(fh_trace_start, name)) return 7;
  /* a child that had ended would leave its file's name to the parent */
  if (getppid() == parent) status = write(gate[1], &byte, 1) - 1;
  else status = (int)read(gate[0], &byte, 1) - 1;
  record_hundred();
  while (getppid() == parent && wait(&status) > 0)
    if (status != 0) return 8;
  return is_forked ? 0 : 1;
}
/* A child for each n, until one has not met the n-th instruction: it ends with 1. */
static void at_each_step(int (*work)(const char *name, pid_t parent)) {
  char name[4096];
  int status = 0;
  for (long n = 1; status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); n += step) {
    pid_t self = getpid();
    snprintf(name, sizeof name, "%s.%ld", late_path, n);
    steps_left = n;
    pid_t child = fork();
    if (child == 0) _exit(work(name, self));
    printf("%d\n", (int)child);
    fflush(stdout);
    waitpid(child, &status, 0);
  }
  exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
}

/* A thread ends at the n-th instruction of what it does to a trace. Then others record on, end
 * that, and record to the next one. Then the process is killed. */
static bool (*deadly)(const char *name);
static bool has_survived;
static bool stop(const char *name) { return (void)name, fh_trace_stop(); }
static bool record_first(const char *name) {
  free(p = malloc(40000));
  return name != NULL;
}
static long worker;
static void *work_in_steps(void *name) {
  worker = syscall(SYS_gettid);
  dies = true;
  has_survived = in_steps(deadly, name);
  return NULL;
}
static int others_go_on(const char *name, pid_t parent) {
  char next[4096];
  pthread_t thread;
  snprintf(next, sizeof next, "%s.next", name);
  if (getppid() != parent || (deadly != fh_trace_start && !fh_trace_start(name))) return 7;
  pthread_create(&thread, NULL, work_in_steps, (void *)(uintptr_t)name);
  pthread_join(thread, NULL);
  /* it is joined a little before the kernel has forgotten it, and so lives for that long */
  while (syscall(SYS_tgkill, getpid(), worker, 0) == 0) sched_yield();
  if (deadly == record_first) record_hundred();
  fh_trace_stop();
  if (!fh_trace_start(next)) return 8;
  record_hundred();
  return has_survived ? 1 : raise(SIGKILL);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  late_path = argc > 2 ? argv[2] : "";
  if (strcmp(what, "late") == 0) begun_late();
  if (strcmp(what, "kept") == 0) kept_late();
  if (strcmp(what, "served") == 0) served(false);
  if (strcmp(what, "busy") == 0) served(true);
  if (strcmp(what, "forked") == 0) at_each_step(record_and_end);
  if (strcmp(what, "dies-in-begin") == 0) deadly = fh_trace_start;
  if (strcmp(what, "dies-in-end") == 0) deadly = stop;
  if (strcmp(what, "dies-in-record") == 0) deadly = record_first;
  if (deadly == record_first) step = 131; /* it takes a heap, too */
  if (deadly == stop) step = 31;
  if (deadly != NULL) at_each_step(others_go_on);
  if (strcmp(what, "refused") == 0) refused_late();
  if (strcmp(what, "full") == 0) find_no_room_late();
  if (strcmp(what, "known") == 0) known();
  if (strcmp(what, "others") == 0) by_others();
  if (strcmp(what, "handlers") == 0) interrupted();
  if (strcmp(what, "threads") == 0) many_threads();
  if (strcmp(what, "turns") == 0) threads_in_turn();
  if (strcmp(what, "handler-forks") == 0) forked_by_handlers();
  if (strcmp(what, "generations") == 0) generations();
  if (strcmp(what, "child-after-signal") == 0) child_after_signal();
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
  if (strncmp(what, "twice", 5) == 0) free_twice(what);
  return 0;
}
