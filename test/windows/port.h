/* port.h - what test.h does where there is no fork: Windows
 * A test runs in this process; test/windows/run.py starts one for each. What is to die is met in
 * one more for each death: the test says which there are, and the runner judges.
 *
 *   prog --list                    names
 *   prog --run group.name [N]      that one; the Nth death happens
 *
 * Whoever calls fork fails: test/windows.txt lists these tests. */
#ifndef TEST_WINDOWS_PORT_H
#define TEST_WINDOWS_PORT_H

#include <io.h>
#include <process.h>

static unsigned test_met, test_wanted; /* deaths, by number; 0: none is wanted */

/* Ends as a signal would: the runner knows the code. */
enum { TEST_ABORTED = 134 };
_Noreturn static void test_abort(void) { _exit(TEST_ABORTED); }
#define abort test_abort

#define TEST_APART(kind, expression, pattern)                                                      \
  do {                                                                                             \
    if (++test_met == test_wanted) {                                                               \
      puts(pattern), fflush(stdout); /* addresses in it are this process's */                      \
      expression;                                                                                  \
      _exit(TEST_SURVIVED);                                                                        \
    }                                                                                              \
    if (test_wanted == 0) printf("%s %u %s:%d %s\n", kind, test_met, __FILE__, __LINE__, pattern); \
  } while (0)
#define EXPECT_ABORT(expression, pattern) TEST_APART("death", expression, pattern)
#define EXPECT_SURVIVAL(expression) TEST_APART("life", expression, "")

/* ---- what the others have -------------------------------------------------------------------- */

enum { SIGALRM = 14, SIGKILL = 9, SIGUSR1 = SIGBREAK, WNOHANG = 1 };
#define WIFEXITED(status) ((status) < 128)
#define WEXITSTATUS(status) (status)
#define WIFSIGNALED(status) ((status) >= 128)
#define WTERMSIG(status) ((status)-128)

typedef struct test_child {
  pid_t pid;
  int status;
  size_t length;
  char text[16384];
} test_child_t;

#define NO_FORK() (test_say("Windows has no fork\n"), _exit(TEST_FAILED))
static inline pid_t fork(void) { return NO_FORK(), -1; }
static inline pid_t waitpid(pid_t pid, int *status, int how) {
  return (void)pid, (void)status, (void)how, NO_FORK(), -1;
}
static inline bool test_fork(test_child_t *c, unsigned seconds) {
  return (void)c, (void)seconds, NO_FORK(), false;
}
static inline void test_reap(test_child_t *c) { (void)c, NO_FORK(); }
static inline const char *test_status_text(int status, char *buffer, size_t size) {
  return snprintf(buffer, size, "code %d", status), buffer;
}
#define CHECK_PROGRAM(full_name) NO_FORK()

static inline void test_program(test_child_t *c, const char *full_name) {
  (void)c, (void)full_name, NO_FORK();
}
static inline bool test_matches(const char *pattern, const char *text) {
  return (void)pattern, (void)text, NO_FORK(), false;
}

#ifdef __cplusplus
#define PORT_CALL extern "C" __declspec(dllimport)
#else
#define PORT_CALL __declspec(dllimport)
#endif
PORT_CALL void Sleep(unsigned long ms);
static inline int pause(void) { return Sleep(-1ul), -1; }
static inline int setenv(const char *name, const char *value, int replaces) {
  return (void)replaces, _putenv_s(name, value);
}
static inline int unsetenv(const char *name) { return _putenv_s(name, ""); }

/* ---- the run --------------------------------------------------------------------------------- */

/* A fault ends the test: nobody is to be asked, and no debugger started. */
PORT_CALL void *SetUnhandledExceptionFilter(long (*filter)(void *));
static long test_on_fault(void *context) { return (void)context, _exit(TEST_ABORTED), 0; }

int main(int argc, char **argv) {
  _setmode(1, _O_BINARY);
  _setmode(2, _O_BINARY);
  SetUnhandledExceptionFilter(test_on_fault);
  bool is_list = argc == 2 && strcmp(argv[1], "--list") == 0;
  if (argc == 4) test_wanted = (unsigned)atoi(argv[3]);
  for (test_case_t *t = test_first; t != NULL; t = t->next) {
    char full[512];
    snprintf(full, sizeof full, "%s.%s", t->group, t->name);
    if (is_list && strstr(t->tags, "program") == NULL) puts(full);
    if (is_list || argc < 3 || strcmp(full, argv[2]) != 0) continue;
    t->run();
    exit(0); /* as programs end: what they print then is tested, too */
  }
  return is_list ? 0 : 2;
}

#endif
