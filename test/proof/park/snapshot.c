/* snapshot.c - copies of the process at one instruction, with two of its threads
 *
 * fork copies the calling thread alone. The other thread that a copy needs, the helper, waits in
 * the original, and its memory is copied with everything else. In the copy a thread that is made
 * with its thread-local storage has the helper's heap, and libc takes it for the helper. fork's
 * handlers do not run, for to the allocator nothing has happened.
 *
 * A copy hangs if all of its threads sleep for a while, if it has used much processor time, or if
 * it goes on and on without using any. None of these depends on how busy the machine is: a thread
 * that gets no processor, or that was stopped by a signal, is not held against it. */
#include "park.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 20, LOOKS_ASLEEP = 15, LOOKS_MOST = 3000 };

typedef struct {
  volatile int *tid; /* libc's own word; the kernel clears it when the thread has ended */
  void *tls;
} thread_t;
static thread_t subject, helper;

/* ---- waiting --------------------------------------------------------------------------------- */

static void futex_wait(volatile int *word, int value) {
  syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

void wait_while(volatile int *word, int value) {
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value) futex_wait(word, value);
}

void set_and_wake(volatile int *word, int value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  syscall(SYS_futex, word, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}

/* ---- the threads ----------------------------------------------------------------------------- */

static thread_t this_thread(void) {
  int *tid = NULL;
  if (prctl(PR_GET_TID_ADDRESS, &tid) != 0)
    park_fail("the kernel does not tell the address of a tid");
  return (thread_t){tid, (void *)pthread_self()};
}

void snapshot_note_subject(void) { subject = this_thread(); }

static struct {
  void (*volatile body)(void);
  volatile int asked;
} helper_work;

static void *serve(void *unused) {
  helper = this_thread();
  for (;; set_and_wake(&helper_work.asked, 0)) {
    wait_while(&helper_work.asked, 0);
    helper_work.body();
  }
  return unused;
}

void in_helper(void (*body)(void)) {
  helper_work.body = body;
  set_and_wake(&helper_work.asked, 1);
  wait_while(&helper_work.asked, 1);
}

static void nothing(void) {}

void snapshot_start_helper(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, serve, NULL) != 0) park_fail("no thread");
  in_helper(nothing);
}

static void *run_body(void *body) {
  ((void (*)(void))body)();
  return NULL;
}

void in_thread(void (*body)(void)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_body, (void *)body) != 0) park_fail("no thread");
  pthread_join(thread, NULL);
}

/* ---- in the copy ----------------------------------------------------------------------------- */

static int live_again(void *body) {
  if (library_is_freehold()) oracle_note_own_heap();
  ((void (*)(void))body)();
  park_fail("the helper came to an end");
}

void snapshot_wake_helper(void (*body)(void)) {
  static char stack[KIB(256)] __attribute__((aligned(64)));
  int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
              CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  if (clone(live_again, stack + sizeof stack, flags, (void *)body, helper.tid, helper.tls,
            helper.tid) < 0)
    park_fail("the helper does not live again: %s", strerror(errno));
}

void snapshot_wait_for_subject(void) {
  for (int tid; (tid = __atomic_load_n(subject.tid, __ATOMIC_ACQUIRE)) != 0;)
    futex_wait(subject.tid, tid);
}

void snapshot_end(void) { _exit(0); }

void snapshot_die(void) {
  for (;;) syscall(SYS_exit, 0);
}

/* ---- in the original ------------------------------------------------------------------------- */

/* Several copies run at a time; the subject steps on meanwhile. */
static struct copy {
  int pid, pidfd;
  int looks, asleep; /* while it did not end; in a row, while all of it slept */
  int errors;        /* a file in memory: what the copy writes to standard error */
  unsigned long point;
  uintptr_t instruction;
} copies[COPIES_MOST];

static unsigned limit_ms;
void snapshot_set_limit(unsigned ms) { limit_ms = ms; }

static int copy_process(struct copy *c) {
  int flags = SIGCHLD | CLONE_PIDFD | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  int pid = (int)syscall(SYS_clone, flags, NULL, &c->pidfd, subject.tid, NULL);
  if (pid < 0) park_fail("no copy: %s", strerror(errno));
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(c->errors, 2);
  return 0;
}

/* By bare system calls, for the caller may be in the middle of malloc; "" if there is no such
 * file. */
static void read_task(int pid, const char *tid, const char *file, char *text, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task/%s/%s", pid, tid, file);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
  if (fd >= 0) close(fd);
  text[n < 0 ? 0 : n] = '\0';
}

/* A process and those that it has forked. */
typedef struct {
  bool is_awake, is_kept_waiting;
  uint64_t used_ms;
} activity_t;
static void look_at(int pid, activity_t *seen);

/* A thread that was preempted on its way to sleep is in state S too, but it waits nowhere. */
static void look_at_thread(int pid, const char *tid, activity_t *seen) {
  char text[512];
  read_task(pid, tid, "wchan", text, sizeof text);
  bool waits = strcmp(text, "0") != 0;
  read_task(pid, tid, "stat", text, sizeof text);
  const char *end = strrchr(text, ')');
  seen->is_awake |= end != NULL && end[2] != 'Z' && (end[2] != 'S' || !waits);
  seen->is_kept_waiting |= end != NULL && strchr("RTt", end[2]) != NULL;
  read_task(pid, tid, "children", text, sizeof text);
  for (char *at = text, *next;; at = next) {
    long child = strtol(at, &next, 10);
    if (next == at) return;
    look_at((int)child, seen);
  }
}

static uint64_t processor_ms(int pid) {
  clockid_t clock;
  struct timespec used = {0, 0};
  if (clock_getcpuclockid(pid, &clock) == 0) clock_gettime(clock, &used);
  return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}

static void look_at(int pid, activity_t *seen) {
  struct entry {
    uint64_t inode, offset;
    uint16_t length;
    uint8_t type;
    char name[];
  };
  char path[32], entries[2048];
  seen->used_ms += processor_ms(pid);
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (long n; (n = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;)
    for (long at = 0; at < n;) {
      const struct entry *entry = (const void *)(entries + at);
      at += entry->length;
      if (entry->name[0] != '.') look_at_thread(pid, entry->name, seen);
    }
  close(folder);
}

/* How it hangs; NULL: it does not. */
static const char *how_it_hangs(struct copy *c) {
  activity_t seen = {false, false, 0};
  look_at(c->pid, &seen);
  c->asleep = seen.is_awake ? 0 : c->asleep + 1;
  c->looks += !seen.is_kept_waiting;
  if (c->looks > LOOKS_MOST) return "hangs: it takes a minute";
  if (seen.used_ms > limit_ms) return "hangs: it spins";
  return c->asleep >= LOOKS_ASLEEP ? "hangs: it sleeps" : NULL;
}

/* What it wrote, or else how it ended. */
static void explain(const struct copy *c, int status, char *why, size_t size) {
  ssize_t n = pread(c->errors, why, size - 1, 0);
  why[n < 0 ? 0 : n] = '\0';
  if (n <= 0 && WIFSIGNALED(status)) snprintf(why, size, "signal %d", WTERMSIG(status));
  if (n <= 0 && WIFEXITED(status)) snprintf(why, size, "exit code %d", WEXITSTATUS(status));
}

static void reap(struct copy *c, const char *hang) {
  static char why[WHY_SIZE];
  int status = 0;
  if (hang != NULL) kill(c->pid, SIGKILL);
  while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {}
  close(c->pidfd);
  c->pid = 0;
  if (hang != NULL) snprintf(why, sizeof why, "%s", hang);
  else explain(c, status, why, sizeof why);
  if (ftruncate(c->errors, 0) != 0 || lseek(c->errors, 0, SEEK_SET) != 0) park_fail("memfd");
  bool passed = hang == NULL && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  copy_end_t end = passed ? COPY_PASSED : hang != NULL ? COPY_HUNG : COPY_FAILED;
  at_copy_end(c->point, c->instruction, end, why);
}

/* Until one of the copies has ended or hangs; false if there is none. */
static bool wait_for_any(void) {
  struct pollfd ends[COPIES_MOST];
  struct copy *of[COPIES_MOST];
  nfds_t n = 0;
  for (struct copy *c = copies; c < copies + COPIES_MOST; c++) {
    if (c->pid == 0) continue;
    of[n] = c;
    ends[n++] = (struct pollfd){c->pidfd, POLLIN, 0};
  }
  if (n == 0) return false;
  bool is_quiet = poll(ends, n, LOOK_MS) == 0;
  for (nfds_t i = 0; i < n; i++) {
    const char *hang = is_quiet ? how_it_hangs(of[i]) : NULL;
    if (ends[i].revents != 0 || hang != NULL) reap(of[i], hang);
  }
  return true;
}

static struct copy *find_free(unsigned most) {
  for (struct copy *c = copies; c < copies + most; c++)
    if (c->pid == 0) return c;
  return NULL;
}

bool snapshot_take(unsigned long point, uintptr_t instruction, unsigned most) {
  struct copy *c;
  while ((c = find_free(most)) == NULL) wait_for_any();
  if (c->errors == 0) c->errors = memfd_create("errors", MFD_CLOEXEC);
  c->point = point;
  c->instruction = instruction;
  c->asleep = c->looks = 0;
  traced_keep();
  c->pid = copy_process(c);
  if (c->pid != 0) {
    traced_kept();
    return false;
  }
  memset(copies, 0, sizeof copies);
  return true;
}

void snapshot_finish(void) {
  while (wait_for_any()) {}
}
