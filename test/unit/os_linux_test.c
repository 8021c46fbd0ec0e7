/* os_linux_test.c - tests of os/os_linux, on the kernel itself */
#include "../test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/base/bits.h"
#include "../../src/base/check.h"
#include "../../src/os/os.h"

enum { PAGES = 8 };

static size_t bytes(size_t pages) { return pages * os_page_size(); }

static void report(const char *what, const void *address, const char *call) {
  (void)address;
  test_say("%s in %s()\n", what, call);
  os_abort();
}

static uint64_t failures(void) { return atomic64_load_relaxed(&os_counts.failures); }

TEST(os_linux, a_mapping_is_zero_lies_at_pages_and_holds_no_memory_until_it_is_touched, "") {
  char *at = os_map(bytes(PAGES));
  CHECK(is_power_of_two(os_page_size()));
  CHECK_EQ((uintptr_t)at % os_page_size(), 0u);
  CHECK_EQ(os_resident(at, bytes(PAGES)), 0u);
  CHECK_BYTES(at, 0, 1);
  at[bytes(1)] = 7;
  CHECK_EQ(os_resident(at, bytes(PAGES)), bytes(2));
  CHECK(os_unmap(at, bytes(PAGES)));
  CHECK_EQ(os_resident(at, bytes(PAGES)), 0u);
  CHECK_EQ(atomic64_load_relaxed(&os_counts.maps), (uint64_t)1);
  CHECK_EQ(atomic64_load_relaxed(&os_counts.unmaps), (uint64_t)1);
  CHECK_EQ(failures(), (uint64_t)0);
}

TEST(os_linux, a_word_is_there_if_its_page_can_be_read, "") {
  uintptr_t *at = os_map(bytes(PAGES));
  CHECK(os_is_there(at) && os_is_there(at + bytes(1) / sizeof *at - 1));
  CHECK(os_unmap(at, bytes(PAGES)));
  CHECK(!os_is_there(at) && !os_is_there(NULL) && !os_is_there((void *)(UINTPTR_MAX - 7)));
  sigset_t before = {{0}}, after = {{0}};
  sigprocmask(SIG_SETMASK, NULL, &before);
  CHECK(os_is_there(&(uint64_t){UINT64_MAX}));
  sigprocmask(SIG_SETMASK, NULL, &after);
  CHECK(memcmp(&before, &after, sizeof before) == 0);
}

TEST(os_linux, what_is_made_zero_keeps_the_pages_that_are_in_memory_and_makes_no_others, "") {
  char *at = os_map(bytes(PAGES));
  at[0] = at[bytes(1)] = at[bytes(5) + 1] = at[bytes(PAGES) - 1] = 7;
  os_zero(at, bytes(PAGES));
  CHECK_EQ(os_resident(at, bytes(PAGES)), bytes(4));
  CHECK_BYTES(at, 0, bytes(PAGES));
}

TEST(os_linux, where_few_scattered_pages_are_in_memory_all_go_at_once, "") {
  size_t many = 128;
  char *at = os_map(bytes(many));
  for (size_t i = 0; i < many; i += 8) at[bytes(i)] = 7;
  os_zero(at, bytes(many));
  CHECK_EQ(os_resident(at, bytes(many)), 0u);
  memset(at, 7, bytes(many));
  for (size_t i = 0; i < many; i += 8) CHECK(os_discard(at + bytes(i), bytes(1)));
  os_zero(at, bytes(many));
  CHECK_EQ(os_resident(at, bytes(many)), bytes(many - many / 8)); /* most were */
  CHECK_BYTES(at, 0, bytes(many));
}

TEST(os_linux, what_is_given_back_reads_as_zero_and_what_is_populated_is_there, "") {
  char *at = os_map(bytes(PAGES));
  memset(at, 7, bytes(PAGES));
  CHECK(os_discard(at, bytes(2)));
  CHECK_EQ(os_resident(at, bytes(PAGES)), bytes(PAGES - 2));
  CHECK_BYTES(at, 0, bytes(2));
  CHECK_BYTES(at + bytes(2), 7, bytes(PAGES - 2));
  CHECK(os_discard(at, bytes(PAGES)));
  if (os_populate(at, bytes(3))) CHECK_EQ(os_resident(at, bytes(PAGES)), bytes(3));
}

TEST(os_linux, a_place_that_is_taken_is_left_alone_and_the_next_one_is_found, "") {
  char *at = os_find(bytes(PAGES));
  CHECK(os_map_at(at, bytes(1)) == OS_MAPPED);
  memset(at, 7, bytes(1));
  CHECK(os_map_at(at, bytes(2)) == OS_OCCUPIED);
  CHECK(os_reserve_at(at, bytes(1)) == OS_OCCUPIED);
  CHECK_BYTES(at, 7, bytes(1));
  CHECK(os_reserve_at(at + bytes(1), bytes(1)) == OS_MAPPED);
  CHECK(!os_is_readable(at + bytes(1), 8));
  CHECK(os_find(bytes(1)) != at);
  CHECK(os_map_at((void *)(uintptr_t)os_space_end(), bytes(1)) == OS_NO_MEMORY);
}

TEST(os_linux, pages_move_with_what_they_hold_and_a_mapping_changes_its_size, "") {
  char *from = os_map(bytes(2)), *to = os_find(bytes(PAGES));
  memset(from, 7, bytes(2));
  CHECK(os_move(from, bytes(2), to, bytes(4)));
  CHECK(!os_is_readable(from, 1));
  CHECK_BYTES(to, 7, bytes(2));
  CHECK_BYTES(to + bytes(2), 0, bytes(2));
  CHECK(os_resize(to, bytes(4), bytes(1)));
  CHECK(os_is_readable(to, 8) && !os_is_readable(to + bytes(1), 8));
  CHECK(!os_move(from, bytes(1), to, bytes(1)));
  CHECK_EQ(failures(), (uint64_t)1);
}

TEST(os_linux, closed_pages_cannot_be_read_and_keep_what_they_hold, "") {
  char *at = os_map(bytes(2));
  at[0] = 7;
  CHECK(os_protect(at, bytes(1), false));
  CHECK(!os_is_readable(at, 1) && os_is_readable(at + bytes(1), 1));
  CHECK(os_protect(at, bytes(1), true));
  CHECK_EQ(at[0], 7);
}

/* `leader`: the process's first thread. */
static void *look_when_it_has_ended(void *leader) {
  char path[64], text[256] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)(intptr_t)leader);
  while (strstr(text, ") Z ") == NULL) { /* it is on its way */
    int file = open(path, O_RDONLY);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0) _exit(2);
    close(file);
  }
  uint64_t copy = 0, word = 5;
  uintptr_t from, to;
  if (!os_copy(&copy, &word, sizeof word) || copy != word) _exit(3);
  if (os_read_whole(os_open_either(OS_OF_PROCESS("maps")), text, sizeof text) == 0) _exit(4);
  _exit(os_break_range(&from, &to) && from != 0 ? TEST_SURVIVED : 5);
}
static void end_first_thread(void) {
  pthread_t other;
  long end = syscall(SYS_brk, 0) + (long)bytes(1);
  CHECK(syscall(SYS_brk, end) == end); /* so that there is a range: musl has none, nor sanitizers */
  pthread_create(&other, NULL, look_when_it_has_ended, (void *)(intptr_t)getpid());
  pthread_exit(NULL);
}
TEST(os_linux, the_process_is_known_also_after_its_first_thread_has_ended, "") {
  EXPECT_SURVIVAL(end_first_thread());
}

TEST(os_linux, each_random_number_is_another, "") { CHECK(os_random() != os_random()); }

TEST(os_linux, a_call_for_less_than_whole_pages_is_seen_or_rounded_up, "") {
  char *at = os_map(bytes(1) + 1);
  check_set_reporter(report);
  at[bytes(2) - 1] = 1;
  EXPECT_ABORT(os_map_at(at + 8, bytes(1)), "assertion are_pages");
  EXPECT_ABORT(os_unmap(at + 8, bytes(1)), "assertion are_pages");
  EXPECT_ABORT(os_resize(at, bytes(2), bytes(1) + 1), "assertion are_pages");
  EXPECT_ABORT(os_move(at, bytes(1), at + bytes(1) + 8, bytes(1)), "assertion are_pages");
}

TEST(os_linux, a_child_finds_zeros_where_memory_is_not_shared, "") {
  char *at = os_map_unshared(bytes(1));
  if (at == NULL) return; /* a kernel that is too old */
  *at = 7;
  EXPECT_ABORT((test_say("%d\n", *at), os_abort()), "^0$");
  CHECK_EQ(*at, 7);
}

TEST(os_linux, windows_lie_in_the_lower_part_of_the_space_at_another_place_in_each_process, "") {
  CHECK_EQ(os_space_start() % WINDOW_SIZE, 0u);
  CHECK_EQ(os_space_start(), os_space_start());
  CHECK_LE(os_space_start(), os_space_end() / 4);
  CHECK_LE((uintptr_t)&failures, os_space_end());
}

TEST(os_linux, the_clock_goes_on_while_the_thread_sleeps, "") {
  uint32_t before = os_now_ms();
  os_sleep_ms(50);
  CHECK_GE(os_now_ms() - before, 40u);
}

TEST(os_linux, what_the_process_has_used_grows_with_what_it_does, "") {
  enum { MORE = 4000 };
  os_usage_t before, after;
  os_usage(&before);
  os_sleep_ms(50);
  char *at = os_map(bytes(MORE));
  os_advise_huge(at, bytes(MORE), false);
  memset(at, 1, bytes(MORE));
  while (os_usage(&after), after.user_ms + after.system_ms < before.user_ms + before.system_ms + 20)
    memset(at, 2, bytes(1));
  CHECK_GE(after.elapsed_ms, before.elapsed_ms + 40);
  CHECK_GE(after.minor_faults, before.minor_faults + MORE);
  CHECK_GE(after.major_faults, before.major_faults);
  CHECK_GE(after.peak_resident, bytes(MORE));
  os_usage(&before);
  CHECK_GE(before.elapsed_ms, after.elapsed_ms);
}

TEST(os_linux, it_aborts_also_where_the_signal_is_blocked_and_handled, "") {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  signal(SIGABRT, SIG_IGN);
  EXPECT_ABORT((test_say("aborts\n"), os_abort()), "aborts");
}

/* A filter that refuses a system call. */
static void forbid(unsigned number) {
  struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {ARRAY_LENGTH(rules), rules};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) _exit(127);
}
TEST(os_linux, it_ends_also_where_a_filter_forbids_to_send_the_signal, "") {
  int status;
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    forbid(SYS_tgkill);
    os_abort();
  }
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 127);
}

enum { MANY_CALL = 440 }; /* process_madvise, which old headers do not name */
/* Every second page of eight, from the first on. */
static void discard_half(char *at, size_t *calls) {
  os_range_t ranges[PAGES / 2];
  memset(at, 7, bytes(PAGES));
  for (size_t i = 0; i < PAGES / 2; i++) ranges[i] = (os_range_t){at + bytes(2 * i), bytes(1)};
  uint64_t before = atomic64_load_relaxed(&os_counts.advices);
  for (size_t i = 0, gone; i < PAGES / 2; i += gone) {
    gone = os_discard_some(&ranges[i], PAGES / 2 - i);
    CHECK(gone != 0 && gone <= PAGES / 2 - i);
  }
  *calls = atomic64_load_relaxed(&os_counts.advices) - before;
  for (size_t i = 0; i < PAGES; i++) CHECK_BYTES(at + bytes(i), i % 2 == 0 ? 0 : 7, bytes(1));
}
static void pretend_threads(void) { os_thread_watch(NULL), os_thread_watch(NULL); }

TEST(os_linux, several_ranges_go_and_nothing_between_them, "") {
  size_t calls;
  char *at = os_map(bytes(PAGES));
  discard_half(at, &calls);
  CHECK(calls == PAGES / 2); /* with one thread, one by one */
  pretend_threads();
  discard_half(at, &calls);
  discard_half(at, &calls);
  CHECK_EQ(calls, os_ranges_at_once() == 1 ? PAGES / 2 : 1u);
  os_begin_in_child(true);
  discard_half(at, &calls);
  CHECK(calls == PAGES / 2); /* a child has one thread, too */
}

TEST(os_linux, where_a_filter_refuses_several_ranges_at_once_they_go_one_by_one, "") {
  size_t calls;
  char *at = os_map(bytes(PAGES));
  pretend_threads();
  CHECK_EQ(os_ranges_at_once(), (size_t)OS_RANGES_MOST);
  forbid(MANY_CALL);
  discard_half(at, &calls);
  CHECK_EQ(calls, PAGES / 2 + 1u);
  CHECK_EQ(os_ranges_at_once(), 1u);
  discard_half(at, &calls);
  CHECK_EQ(calls, PAGES / 2 + 0u);
}

TEST(os_linux, ranges_before_one_that_is_locked_go_and_those_behind_it_can, "") {
  char *at = os_map(bytes(PAGES));
  memset(at, 7, bytes(PAGES));
  pretend_threads();
  if (mlock(at + bytes(2), bytes(1)) != 0 || os_discard(at + bytes(2), bytes(1))) return;
  os_range_t ranges[] = {{at, bytes(1)}, {at + bytes(2), bytes(1)}, {at + bytes(4), bytes(2)}};
  CHECK_EQ(os_discard_some(ranges, 3), 1u);
  bool is_many = os_ranges_at_once() != 1;
  CHECK_EQ(os_discard_some(ranges + 1, 2), 0u);
  CHECK_EQ(os_ranges_at_once() != 1, is_many); /* it has refused this one only */
  CHECK_EQ(os_discard_some(ranges + 2, 1), 1u);
  CHECK_EQ(os_resident(at, bytes(PAGES)), bytes(PAGES - 3));
  CHECK_BYTES(at + bytes(2), 7, bytes(1));
}

/* ---- threads --------------------------------------------------------------------------------- */

TEST(os_linux, a_variable_of_the_environment_is_found_by_its_whole_name, "") {
  setenv("FREEHOLD_TEST", "some:text", 1);
  CHECK_SAME_TEXT(os_environment("FREEHOLD_TEST"), "some:text");
  CHECK_NULL(os_environment("FREEHOLD_TES"));
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Which byte a fault was at: s390x tells its page alone. */
#if defined(__s390x__)
enum { FAULT_GRAIN = 4096 };
#else
enum { FAULT_GRAIN = 1 };
#endif
static bool is_at(const void *address, const void *at) {
  return (uintptr_t)address / FAULT_GRAIN == (uintptr_t)at / FAULT_GRAIN;
}

static char *closed_page, *elsewhere;
static void close_pages(void) {
  closed_page = os_map(2 * os_page_size());
  CHECK(closed_page != NULL && os_protect(closed_page, 2 * os_page_size(), false));
  elsewhere = closed_page + (FAULT_GRAIN == 1 ? 6 : os_page_size());
}
static bool is_of_page(const void *address) {
  if (!is_at(address, closed_page + 5)) return false;
  test_say("ours");
  return true;
}
static void say_theirs(int number) {
  (void)number;
  test_say("theirs");
  _exit(0);
}
static void return_from_theirs(int number) {
  CHECK_EQ(number, SIGSEGV);
  test_say("theirs ");
}
static sigjmp_buf back;
static void jump_from_theirs(int number, siginfo_t *info, void *context) {
  CHECK(number == SIGSEGV && context != NULL);
  test_say(is_at(info->si_addr, elsewhere) ? "fault " : "sent ");
  siglongjmp(back, 1);
}

typedef enum { TOUCH_PAGE, TOUCH_ELSEWHERE, SEND } fault_kind_t;
static void fault(fault_kind_t kind, bool has_handler) {
  signal(SIGSEGV, has_handler ? say_theirs : SIG_DFL); /* and not a sanitizer's */
  CHECK(os_on_fault(is_of_page) && os_on_fault(is_of_page));
  if (kind == SEND) raise(SIGSEGV);
  *(volatile char *)(kind == TOUCH_PAGE ? closed_page + 5 : elsewhere) = 1;
}

static void check_fault(fault_kind_t kind, bool has_handler, const char *said, bool ends) {
  test_child_t child;
  if (test_fork(&child, 60)) {
    fault(kind, has_handler);
    _exit(1);
  }
  test_reap(&child);
  CHECK_SAME_TEXT(child.text, said);
  CHECK(ends ? WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGSEGV
             : WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

TEST(fault, what_is_ours_ends_as_the_system_does_and_what_is_not_is_theirs, "") {
  close_pages();
  check_fault(TOUCH_PAGE, false, "ours", true);
  check_fault(TOUCH_PAGE, true, "ours", true);
  check_fault(TOUCH_ELSEWHERE, false, "", true);
  check_fault(TOUCH_ELSEWHERE, true, "theirs", false);
  check_fault(SEND, false, "", true);
  check_fault(SEND, true, "theirs", false);
}

static void send_and_touch(const struct sigaction *before, const char *said) {
  test_child_t child;
  if (test_fork(&child, 60)) {
    sigaction(SIGSEGV, before, NULL);
    CHECK(os_on_fault(is_of_page));
    for (volatile int i = 0; i < 2; i++)
      if (sigsetjmp(back, 1) == 0) raise(SIGSEGV);
    bool jumps = before->sa_handler != SIG_IGN && before->sa_handler != return_from_theirs;
    if (jumps && sigsetjmp(back, 1) == 0) *(volatile char *)elsewhere = 1;
    closed_page[5] = 1;
    _exit(1);
  }
  test_reap(&child);
  CHECK_SAME_TEXT(child.text, said);
  CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGSEGV);
}

TEST(fault, ours_stays_after_what_was_ignored_and_after_a_handler_that_goes_on, "") {
  close_pages();
  send_and_touch(&(struct sigaction){.sa_handler = SIG_IGN}, "ours");
  send_and_touch(&(struct sigaction){.sa_handler = return_from_theirs}, "theirs theirs ours");
  send_and_touch(&(struct sigaction){.sa_sigaction = jump_from_theirs, .sa_flags = SA_SIGINFO},
                 "sent sent fault ours");
}
