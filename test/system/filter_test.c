/* filter_test.c - programs that may make few system calls: docs/promises.md, section 8
 *
 * A filter (seccomp) may end a program for any call that it does not expect. Which ones freehold
 * makes, also late, is written down: one more would end programs that ran before. */
#include "entry.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

ENTRY_WEAK bool fh_option_set(const char *name, int64_t value);

/* Of the test, and what malloc of any library asks for. */
#define PLAIN                                                                                      \
  SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mprotect, SYS_brk, SYS_clock_gettime,         \
    SYS_exit_group
#define IN_ANY_CASE PLAIN, SYS_getpid, SYS_gettid, SYS_tgkill, SYS_mincore, SYS_prlimit64
#define BY_DEFAULT IN_ANY_CASE, SYS_openat, SYS_read, SYS_pread64, SYS_close, SYS_sysinfo

/* `otherwise`: what any other call comes to. */
static void allow_only(const int *calls, size_t count, unsigned otherwise) {
  struct sock_filter code[40];
  unsigned short n = 0;
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
  for (size_t i = 0; i < count; i++)
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i],
                                             (uint8_t)(count - i), 0);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {n, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(TEST_SKIPPED);
}

/* Sizes of all kinds up to 200 MiB, for as long as the looks at huge pages and the container need
 * to come. */
static void work(void) {
  enum { SLOTS = 4096 };
  static char *slots[SLOTS];
  uint64_t state = 1;
  for (int i = 0; i < 400000; i++) {
    char **p = &slots[random_next(&state) % SLOTS];
    size_t n = random_next(&state) % (i % 16 == 0 ? 400000 : 20000) + 1;
    free(*p);
    *p = i % 3 == 0 ? (char *)calloc(1, n) : (char *)malloc(n);
    if (*p == NULL) _exit(1);
    (*p)[n - 1] = 1;
    if (i % 50 == 0) *p = (char *)realloc(*p, 4 * n);
    if (i % 50000 == 0) malloc_trim(0);
  }
  char *big = NULL;
  for (size_t n = 1 << 20; n < (size_t)600 << 20; n *= 2) big = (char *)realloc(big, n);
  free(big);
}

static void check_works_with(const int *calls, size_t count, unsigned otherwise) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    allow_only(calls, count, otherwise);
    work();
    _exit(0);
  }
  CHECK_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED) return;
  CHECK_EQ(status, 0);
}

TEST(filter, a_program_that_may_make_the_calls_of_the_documents_works, "timeout=120") {
  static const int calls[] = {BY_DEFAULT};
  check_works_with(calls, sizeof calls / sizeof *calls, SECCOMP_RET_KILL_PROCESS);
}

TEST(filter, calls_that_are_only_refused_are_done_without, "timeout=120") {
  static const int calls[] = {PLAIN};
  check_works_with(calls, sizeof calls / sizeof *calls, SECCOMP_RET_ERRNO | EPERM);
}

TEST(filter, without_container_and_huge_pages_no_file_is_opened, "timeout=120") {
  static const int calls[] = {IN_ANY_CASE};
  if (fh_option_set == NULL) return;
  CHECK(fh_option_set("container", 1) && fh_option_set("thp", 1));
  check_works_with(calls, sizeof calls / sizeof *calls, SECCOMP_RET_KILL_PROCESS);
}
