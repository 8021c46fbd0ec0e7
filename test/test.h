/* test.h - the frame that all C and C++ tests of freehold stand in
 *
 *   TEST(group, a_sentence_that_says_what_it_guards, "tags") { CHECK(...); }
 *
 * Every test runs in a child process of its own: a crash or a hang is that test's, and it starts
 * from the same state whichever tests ran before it. The first CHECK that does not hold prints what
 * it saw and ends the child.
 *
 *   prog                    runs all tests; the last line is "N passed, N failed"
 *   prog --list             their names
 *   prog --filter X         those whose "group.name" contains X (several X: any of them)
 *   prog --except X         all but those (several X: none of them)
 *   prog --run group.name   that one in this process, for a debugger
 *
 * Tags are words: "timeout=120" (seconds, else 60). "program": run only through `test_program`,
 * which starts the executable anew: for what must happen before main, at exit or at first use.
 * Other words (names of invariants) are for readers and for --filter, which looks at them too.
 *
 * A program with a main of its own defines TEST_WITHOUT_MAIN first; a CHECK that
 * does not hold then aborts.
 *
 * Nothing here calls malloc before a test begins: the allocator under test may be
 * the one that is broken. */
#ifndef TEST_H
#define TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#if !defined(_WIN32)
#include <regex.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#endif

/* ---- registration ---------------------------------------------------------------------------- */

typedef struct test_case {
  const char *group, *name, *tags;
  void (*run)(void);
  struct test_case *next;
} test_case_t;

static test_case_t *test_first, **test_end = &test_first;
static const char *test_self; /* argv[0] */

/* Under a sanitizer or an emulator everything may take longer. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || defined(TEST_EMULATOR)
enum { TEST_PATIENCE = 10 };
#else
enum { TEST_PATIENCE = 1 };
#endif
enum { TEST_FAILED = 1, TEST_SURVIVED = 42, TEST_SKIPPED = 77, TEST_DEFAULT_SECONDS = 60 };

__attribute__((__unused__)) static void test_register(test_case_t *t) {
  *test_end = t;
  test_end = &t->next;
}

#define TEST(group, name, tags)                                                                    \
  static void test_##group##_##name(void);                                                         \
  static test_case_t case_##group##_##name = {#group, #name, tags, test_##group##_##name, NULL};   \
  __attribute__((constructor)) static void register_##group##_##name(void) {                       \
    test_register(&case_##group##_##name);                                                         \
  }                                                                                                \
  static void test_##group##_##name(void)

/* ---- saying and judging ---------------------------------------------------------------------- */

/* One write to standard error, from a buffer on the stack. */
__attribute__((format(printf, 1, 2), __unused__)) static void test_say(const char *format, ...) {
  char line[1024];
  va_list list;
  va_start(list, format);
  int n = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  if (n > (int)sizeof line - 1) n = (int)sizeof line - 1;
  if (n > 0) (void)!write(2, line, (size_t)n); /* nowhere left to complain */
}

#ifdef TEST_WITHOUT_MAIN
#define TEST_LEAVE() abort()
#else
#define TEST_LEAVE() _exit(TEST_FAILED)
#endif

#define FAIL(...)                                                                                  \
  do {                                                                                             \
    test_say("%s:%d: ", __FILE__, __LINE__);                                                       \
    test_say(__VA_ARGS__);                                                                         \
    test_say("\n");                                                                                \
    TEST_LEAVE();                                                                                  \
  } while (0)

/* Leaves the test; the run reports it as skipped, with the reason. */
#define SKIP(...)                                                                                  \
  do {                                                                                             \
    test_say("skipped: ");                                                                         \
    test_say(__VA_ARGS__);                                                                         \
    test_say("\n");                                                                                \
    _exit(TEST_SKIPPED);                                                                           \
  } while (0)

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) FAIL("CHECK(%s) does not hold (errno %d)", #condition, errno);               \
  } while (0)

#ifdef __cplusplus
#define TEST_AUTO auto
#else
#define TEST_AUTO __auto_type
#endif
/* Integers and pointers; each argument is evaluated once. */
#define TEST_COMPARE(a, op, b)                                                                     \
  do {                                                                                             \
    TEST_AUTO left_ = (a);                                                                         \
    TEST_AUTO right_ = (b);                                                                        \
    if (!(left_ op right_))                                                                        \
      FAIL("%s %s %s does not hold: %lld (0x%llx) against %lld (0x%llx)", #a, #op, #b,             \
           (long long)(left_), (unsigned long long)(left_), (long long)(right_),                   \
           (unsigned long long)(right_));                                                          \
  } while (0)
#define CHECK_EQ(a, b) TEST_COMPARE(a, ==, b)
#define CHECK_NE(a, b) TEST_COMPARE(a, !=, b)
#define CHECK_LT(a, b) TEST_COMPARE(a, <, b)
#define CHECK_LE(a, b) TEST_COMPARE(a, <=, b)
#define CHECK_GT(a, b) TEST_COMPARE(a, >, b)
#define CHECK_GE(a, b) TEST_COMPARE(a, >=, b)
#define CHECK_NULL(p) CHECK_EQ((const void *)(p), (const void *)NULL)
#define CHECK_SAME_TEXT(a, b)                                                                      \
  do {                                                                                             \
    const char *left_ = (a), *right_ = (b);                                                        \
    if (strcmp(left_, right_) != 0) FAIL("%s is \"%s\", not \"%s\"", #a, left_, right_);           \
  } while (0)

/* All `n` bytes at `p` have the value `byte`. */
#define CHECK_BYTES(p, byte, n)                                                                    \
  do {                                                                                             \
    const unsigned char *at_ = (const unsigned char *)(p);                                         \
    size_t n_ = (n), i_ = test_first_other(at_, (unsigned char)(byte), n_);                        \
    if (i_ < n_)                                                                                   \
      FAIL("%s: byte %zu of %zu is 0x%02x, not 0x%02x", #p, i_, n_, at_[i_],                       \
           (unsigned char)(byte));                                                                 \
  } while (0)

/* Index of the first byte that is not `byte`; `n` if all are. */
__attribute__((__unused__)) static size_t test_first_other(const unsigned char *p,
                                                           unsigned char byte, size_t n) {
  if (n == 0 || (p[0] == byte && memcmp(p, p + 1, n - 1) == 0)) return n;
  size_t i = 0;
  while (i < n && p[i] == byte) i++;
  return i;
}

/* What a line about a block that is known says behind the call. */
#define TEST_BLOCK "(; its block has [0-9]+ bytes at 0x[0-9a-f]+)?"

#if defined(_WIN32) /* there is no fork: processes of the runner take its place */
#include "windows/port.h"
#else
__attribute__((__unused__)) static bool test_matches(const char *pattern, const char *text) {
  regex_t regex;
  if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB | REG_NEWLINE) != 0)
    FAIL("bad pattern %s", pattern);
  bool found = regexec(&regex, text, 0, NULL, 0) == 0;
  regfree(&regex);
  return found;
}

/* ---- children -------------------------------------------------------------------------------- */

/* What a child process did: its wait status and what it wrote to standard output and
 * error together. */
typedef struct test_child {
  pid_t pid;
  int status, pipe;
  size_t length; /* of text; more than fits is read and dropped */
  char text[16384];
} test_child_t;

/* fork whose child writes into `c->pipe`; true in the child. */
__attribute__((__unused__)) static bool test_fork(test_child_t *c, unsigned seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) FAIL("pipe: errno %d", errno);
  c->pid = fork();
  if (c->pid < 0) FAIL("fork: errno %d", errno);
  if (c->pid == 0) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(seconds * TEST_PATIENCE);
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    return true;
  }
  close(ends[1]);
  c->pipe = ends[0];
  return false;
}

/* What an emulator adds about a death is none of the program's lines. */
__attribute__((__unused__)) static void test_drop_emulators(test_child_t *c) {
  char *line = strstr(c->text, "qemu: uncaught target signal");
  char *end = line != NULL ? strchr(line, '\n') : NULL;
  if (end == NULL) return;
  memmove(line, end + 1, strlen(end));
  c->length = strlen(c->text);
}

/* Reads until every writer is gone, then reaps. */
__attribute__((__unused__)) static void test_reap(test_child_t *c) {
  char more[4096];
  c->length = 0;
  for (;;) {
    size_t room = sizeof c->text - 1 - c->length;
    ssize_t n =
      room > 0 ? read(c->pipe, c->text + c->length, room) : read(c->pipe, more, sizeof more);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    if (room > 0) c->length += (size_t)n;
  }
  c->text[c->length] = '\0';
  test_drop_emulators(c);
  close(c->pipe);
  while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR) {}
}

/* Text for a wait status, such as "signal 11 (Segmentation fault)". */
__attribute__((__unused__)) static const char *test_status_text(int status, char *buffer,
                                                                size_t size) {
  if (WIFSIGNALED(status)) {
    snprintf(buffer, size, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  } else {
    snprintf(buffer, size, "exit code %d", WEXITSTATUS(status));
  }
  return buffer;
}

/* Judges a death test: aborted, with exactly one line, which matches. */
__attribute__((__unused__)) static void test_judge_abort(
  const test_child_t *c, const char *expression, const char *pattern, const char *file, int line) {
  char how[96];
  size_t lines = 0;
  for (size_t i = 0; i < c->length; i++) lines += c->text[i] == '\n';
  const char *wrong = NULL;
  if (WIFEXITED(c->status) && WEXITSTATUS(c->status) == TEST_SURVIVED) wrong = "went unnoticed";
  else if (!WIFSIGNALED(c->status) || WTERMSIG(c->status) != SIGABRT) wrong = "did not abort";
  else if (lines != 1) wrong = "did not write exactly one line";
  else if (!test_matches(pattern, c->text)) wrong = "wrote another line";
  if (wrong == NULL) return;
  test_say("%s:%d: %s: %s; %s\n  expected  %s\n  it wrote  %s\n", file, line, expression, wrong,
           test_status_text(c->status, how, sizeof how), pattern,
           c->length > 0 ? c->text : "(nothing)");
  _exit(TEST_FAILED);
}

/* `expression`, run in a child, aborts after exactly one line that the extended
 * regular expression matches. */
#define EXPECT_ABORT(expression, pattern)                                                          \
  do {                                                                                             \
    test_child_t death_;                                                                           \
    if (test_fork(&death_, 20)) {                                                                  \
      expression;                                                                                  \
      _exit(TEST_SURVIVED);                                                                        \
    }                                                                                              \
    test_reap(&death_);                                                                            \
    test_judge_abort(&death_, #expression, pattern, __FILE__, __LINE__);                           \
  } while (0)

/* `expression`, run in a child, returns: the process goes on. */
#define EXPECT_SURVIVAL(expression)                                                                \
  do {                                                                                             \
    test_child_t life_;                                                                            \
    char how_[96];                                                                                 \
    if (test_fork(&life_, 20)) {                                                                   \
      expression;                                                                                  \
      _exit(TEST_SURVIVED);                                                                        \
    }                                                                                              \
    test_reap(&life_);                                                                             \
    if (!WIFEXITED(life_.status) || WEXITSTATUS(life_.status) != TEST_SURVIVED)                    \
      FAIL("%s: %s\n%s", #expression, test_status_text(life_.status, how_, sizeof how_),           \
           life_.text);                                                                            \
  } while (0)

/* Starts this executable anew with the test `full_name` in it, and waits for it. */
__attribute__((__unused__)) static void test_program(test_child_t *c, const char *full_name) {
  if (test_fork(c, 120)) {
#ifdef TEST_EMULATOR /* the system cannot start it */
    execl(TEST_EMULATOR, TEST_EMULATOR, "-L", TEST_ROOT, test_self, "--run", full_name,
          (char *)NULL);
#else
    execl("/proc/self/exe", test_self, "--run", full_name, (char *)NULL);
#endif
    FAIL("exec: errno %d", errno);
  }
  test_reap(c);
}

/* The same, and it ended well. */
#define CHECK_PROGRAM(full_name)                                                                   \
  do {                                                                                             \
    test_child_t program_;                                                                         \
    char how_[96];                                                                                 \
    test_program(&program_, full_name);                                                            \
    if (!WIFEXITED(program_.status) || WEXITSTATUS(program_.status) != 0)                          \
      FAIL("%s: %s\n%s", full_name, test_status_text(program_.status, how_, sizeof how_),          \
           program_.text);                                                                         \
  } while (0)

/* ---- the run --------------------------------------------------------------------------------- */

#ifndef TEST_WITHOUT_MAIN

static unsigned test_seconds(const test_case_t *t) {
  const char *at = strstr(t->tags, "timeout=");
  return (at != NULL ? (unsigned)atoi(at + 8) : (unsigned)TEST_DEFAULT_SECONDS) * TEST_PATIENCE;
}

/* Runs one test in a child in its own process group; its wait status, or -1 when it hung. The guard
 * is the parent's wait, not an alarm in the child: tests use alarms and signals themselves. */
static int test_guard(const test_case_t *t, const sigset_t *old_mask,
                      const sigset_t *child_signal) {
  pid_t pid = fork();
  if (pid < 0) FAIL("fork: errno %d", errno);
  if (pid == 0) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, old_mask, NULL);
    t->run();
    _exit(0);
  }
  setpgid(pid, pid);
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (;;) {
    int status;
    if (waitpid(pid, &status, WNOHANG) == pid) return status;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long left = (long)test_seconds(t) - (now.tv_sec - start.tv_sec);
    if (left <= 0) {
      kill(-pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    struct timespec wait = {left, 0};
    sigtimedwait(child_signal, NULL, &wait);
  }
}

static bool test_is_chosen(const test_case_t *t, int argc, char **argv) {
  bool filtered = false, found = false;
  char full[512];
  snprintf(full, sizeof full, "%s.%s %s", t->group, t->name, t->tags);
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], "--except") == 0 && strstr(full, argv[i + 1]) != NULL) return false;
    if (strcmp(argv[i], "--filter") != 0) continue;
    filtered = true;
    if (strstr(full, argv[i + 1]) != NULL) found = true;
  }
  return found || !filtered;
}

static int test_run_here(const char *full_name) {
  for (test_case_t *t = test_first; t != NULL; t = t->next) {
    size_t group = strlen(t->group);
    if (strncmp(full_name, t->group, group) != 0 || full_name[group] != '.') continue;
    if (strcmp(full_name + group + 1, t->name) != 0) continue;
    t->run();
    return 0;
  }
  test_say("no test is called %s\n", full_name);
  return 2;
}

static void test_report(const test_case_t *t, const char *verdict, double seconds) {
  char name[256];
  snprintf(name, sizeof name, "%s", t->name);
  for (char *c = name; *c != '\0'; c++)
    if (*c == '_') *c = ' ';
  char line[512];
  int n = snprintf(line, sizeof line, "%-6s %s: %s (%.2f s)\n", verdict, t->group, name, seconds);
  (void)!write(1, line, (size_t)n); /* nowhere left to complain */
}

int main(int argc, char **argv) {
  int passed = 0, failed = 0, skipped = 0;
  test_self = argv[0];
  if (argc == 3 && strcmp(argv[1], "--run") == 0) return test_run_here(argv[2]);
  bool list = argc == 2 && strcmp(argv[1], "--list") == 0;
  sigset_t child_signal, old_mask;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_signal, &old_mask);
  for (test_case_t *t = test_first; t != NULL; t = t->next) {
    struct timespec start, end;
    char how[96];
    if (strstr(t->tags, "program") != NULL || !test_is_chosen(t, argc, argv)) continue;
    if (list) {
      dprintf(1, "%s.%s\n", t->group, t->name);
      continue;
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    int status = test_guard(t, &old_mask, &child_signal);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds =
      (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
    bool ended = status != -1 && WIFEXITED(status);
    if (ended && WEXITSTATUS(status) == 0) {
      passed++;
      test_report(t, "ok", seconds);
    } else if (ended && WEXITSTATUS(status) == TEST_SKIPPED) {
      skipped++;
      test_report(t, "SKIP", seconds);
    } else {
      failed++;
      if (status == -1)
        test_say("%s.%s hung: killed after %u s\n", t->group, t->name, test_seconds(t));
      else if (!ended)
        test_say("%s.%s died of %s\n", t->group, t->name,
                 test_status_text(status, how, sizeof how));
      test_report(t, "FAILED", seconds);
    }
  }
  if (list) return 0;
  if (skipped > 0) dprintf(1, "%d skipped\n", skipped);
  dprintf(1, "%d passed, %d failed\n", passed, failed);
  if (failed > 0) return 1;
  return passed == 0 && skipped > 0 ? TEST_SKIPPED : 0;
}
#endif

#endif

#endif
