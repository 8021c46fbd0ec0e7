/* signals_test.c - malloc and free in signal handlers, also in those that interrupt
 * them or never return */
#include "entry.h"

#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>

static volatile sig_atomic_t handled;
static int stop;

/* Will send this thread `signal`. */
static timer_t make_timer(int signal) {
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal;
  event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
  timer_t timer;
  CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  return timer;
}
static timer_t start_timer(int signal, long microseconds) {
  timer_t timer = make_timer(signal);
  struct itimerspec often = {{0, microseconds * 1000}, {0, microseconds * 1000}};
  CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
  return timer;
}
static void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = flags | SA_RESTART;
  CHECK_EQ(sigaction(signal, &action, NULL), 0);
}

/* ---- handlers that allocate ------------------------------------------------------------------ */

static __thread void *held_by_handler[64];
static __thread uint64_t handler_state;
static void handler_allocates(int signal) {
  int kept = errno;
  (void)signal;
  handled++;
  handler_state = handler_state * 6364136223846793005u + 1442695040888963407u;
  size_t k = handler_state >> 58, n = handler_state >> 40 & 0x3FF;
  if (handled % 64 == 0) n *= 300;
  uint32_t *p = (uint32_t *)held_by_handler[k];
  if (p != NULL && !is_stamped(p + 2, p[0], p[1])) FAIL("a block of the handler has changed");
  free(p);
  p = (uint32_t *)malloc(n + 8);
  if (p == NULL) FAIL("malloc failed in a handler");
  p[0] = (uint32_t)n;
  p[1] = (uint32_t)k;
  stamp(p + 2, n, p[1]);
  held_by_handler[k] = p;
  if (handled % 512 == 0) tour_everything();
  errno = kept;
}

enum { SLOTS = 500 };
static void *body_interrupted(void *argument) {
  uint64_t state = (uintptr_t)argument * 31 + 11;
  void *p[SLOTS] = {NULL};
  size_t n[SLOTS] = {0};
  timer_t timer = start_timer(SIGUSR1, 50);
  while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
    size_t k = random_next(&state) % SLOTS;
    if (p[k] != NULL && !is_stamped(p[k], n[k], k))
      FAIL("an interrupted thread's block has changed");
    if (state % 8 == 0 && p[k] != NULL) {
      size_t m = random_size(&state) + 1, kept = m < n[k] ? m : n[k];
      p[k] = realloc(p[k], m);
      CHECK(p[k] != NULL && is_prefix_stamped(p[k], kept, n[k], k));
      n[k] = m;
    } else {
      free(p[k]);
      n[k] = random_size(&state);
      CHECK((p[k] = malloc(n[k])) != NULL);
    }
    stamp(p[k], n[k], k);
  }
  timer_delete(timer);
  for (int k = 0; k < SLOTS; k++) free(p[k]);
  return NULL;
}

TEST(signals, handlers_that_allocate_and_free_may_interrupt_any_call, "timeout=120") {
  handle(SIGUSR1, handler_allocates, 0);
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; i++) threads[i] = start_thread(body_interrupted, (void *)i, 0);
  /* by count; the wait only bounds it */
  for (int wait = 0; handled < 60000 && wait < 900; wait++) usleep(100000);
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 4; i++) join_thread(threads[i]);
  CHECK_GE(handled, 1000);
}

/* The outermost handler asks for the next signal at its end: however long the six take, what they
 * interrupt goes on. */
static timer_t soon;
static void set_soon(void) {
  CHECK_EQ(timer_settime(soon, 0, &(struct itimerspec){.it_value.tv_nsec = 100000}, NULL), 0);
}
static void handler_nests(int signal) {
  int kept = errno;
  void *p = malloc(launder_size(200));
  if (p == NULL) FAIL("malloc failed in a nested handler");
  stamp(p, 200, (uint64_t)signal);
  if (signal < SIGRTMIN + 5) raise(signal + 1);
  void *q = malloc(launder_size(70000));
  CHECK(is_stamped(p, 200, (uint64_t)signal));
  free(p);
  free(q);
  handled++;
  if (signal == SIGRTMIN) set_soon();
  errno = kept;
}

TEST(signals, handlers_that_interrupt_handlers_may_allocate, "") {
  for (int s = SIGRTMIN; s <= SIGRTMIN + 5; s++) handle(s, handler_nests, 0);
  soon = make_timer(SIGRTMIN);
  set_soon();
  uint64_t state = 5;
  for (int wait = 0; handled < 12000 && wait < 4000000; wait++) {
    size_t n = random_size(&state);
    void *p = malloc(n);
    CHECK(p != NULL);
    stamp(p, n, n);
    CHECK(is_stamped(p, n, n));
    free(p);
  }
  handle(SIGRTMIN, SIG_IGN, 0); /* the handler wants the timer */
  timer_delete(soon);
  CHECK_GE(handled, 6);
}

/* ---- handlers that never return -------------------------------------------------------------- */

static __thread sigjmp_buf landing;
static __thread volatile sig_atomic_t may_jump;
static void handler_jumps(int signal) {
  (void)signal;
  handled++;
  if (!may_jump) return;
  may_jump = 0;
  free(malloc(launder_size(100)));
  siglongjmp(landing, 1);
}

static void *volatile in_flight[200]; /* volatile: a jump comes between any two stores */
static void jump_out_of_calls(int jumps) {
  static __thread uint64_t state;
  volatile int left = jumps;
  state = 42;
  for (int i = 0; i < 200; i++) in_flight[i] = NULL;
  while (left > 0) {
    if (sigsetjmp(landing, 1) != 0) {
      left--;
      continue;
    }
    may_jump = 1;
    for (;;) {
      size_t k = random_next(&state) % 100, n = random_size(&state) % 8000;
      void *p = in_flight[k];
      in_flight[k] = NULL; /* a jump leaks one block here, which is ours to lose */
      free(p);
      in_flight[k] = malloc(n);
      if (in_flight[k] == NULL) FAIL("malloc failed after %d jumps", jumps - left);
    }
  }
}

static bool all_is_well(void) {
  enum { N = 2000 };
  static void *p[N];
  uint64_t state = 1;
  for (size_t i = 0; i < N; i++) {
    p[i] = malloc(300 + i % 700);
    stamp(p[i], 300 + i % 700, i);
  }
  for (size_t i = 0; i < N; i++) {
    if (!is_stamped(p[i], 300 + i % 700, i)) return false;
    free(p[i]);
  }
  for (int i = 0; i < 20000; i++) free(malloc(random_size(&state)));
  tour_everything();
  return true;
}

TEST(signals, a_handler_may_leave_an_interrupted_call_by_siglongjmp, "timeout=120") {
  handle(SIGUSR1, handler_jumps, 0);
  timer_t timer = start_timer(SIGUSR1, 100);
  jump_out_of_calls(1000);
  size_t early = resident_bytes();
  jump_out_of_calls(8000);
  timer_delete(timer);
  may_jump = 0;
  CHECK(all_is_well());
  CHECK_LE(resident_bytes(), early + MiB_(128)); /* at most one thing in limbo a jump */
}

static void *body_jumps(void *argument) {
  timer_t timer = start_timer(SIGUSR1, 200);
  uint64_t state = (uintptr_t)argument + 5;
  volatile int left = 1000;
  while (left > 0) {
    if (sigsetjmp(landing, 1) != 0) {
      left--;
      continue;
    }
    may_jump = 1;
    for (;;) free(malloc(random_size(&state)));
  }
  timer_delete(timer);
  may_jump = 0;
  return NULL;
}

TEST(signals, jumps_in_one_thread_harm_no_other, "timeout=120") {
  handle(SIGUSR1, handler_jumps, 0);
  for (int round = 0; round < 4; round++) {
    pthread_t jumpers[3];
    for (uintptr_t i = 0; i < 3; i++) jumpers[i] = start_thread(body_jumps, (void *)i, 0);
    for (int i = 0; i < 5; i++) CHECK(all_is_well());
    for (int i = 0; i < 3; i++) join_thread(jumpers[i]);
  }
  CHECK(all_is_well());
}

/* ---- handlers as the first caller ------------------------------------------------------------ */

static void handler_tours(int signal) {
  int kept = errno;
  (void)signal;
  tour_everything();
  handled++;
  errno = kept;
}

static void *body_first_call_in_handler(void *argument) {
  (void)argument;
  raise(SIGUSR2);
  tour_everything();
  return NULL;
}

TEST(signals, a_thread_may_make_its_first_call_in_a_handler, "") {
  handle(SIGUSR2, handler_tours, 0);
  for (int i = 0; i < 300; i++) join_thread(start_thread(body_first_call_in_handler, NULL, 0));
  CHECK_EQ(handled, 300);
}

static void *body_first_calls_interrupted(void *argument) {
  pthread_barrier_wait((pthread_barrier_t *)argument);
  for (int i = 0; i < 20; i++) {
    void *p = malloc(launder_size(100));
    CHECK(p != NULL);
    stamp(p, 100, 1);
    CHECK(is_stamped(p, 100, 1));
    free(p);
  }
  return NULL;
}

TEST(signals, first_calls_of_two_threads_and_of_their_handlers_coincide, "program") {
  pthread_barrier_t together;
  pthread_barrier_init(&together, NULL, 3);
  handle(SIGUSR2, handler_tours, 0);
  pthread_t a = start_thread(body_first_calls_interrupted, &together, 0);
  pthread_t b = start_thread(body_first_calls_interrupted, &together, 0);
  pthread_barrier_wait(&together);
  for (int i = 0; i < 10; i++) {
    pthread_kill(a, SIGUSR2);
    pthread_kill(b, SIGUSR2);
  }
  raise(SIGUSR2);
  join_thread(a);
  join_thread(b);
}

TEST(signals, first_use_in_two_threads_and_handlers_at_once, "") {
  for (int i = 0; i < 150; i++)
    CHECK_PROGRAM("signals.first_calls_of_two_threads_and_of_their_handlers_coincide");
}

/* ---- a crash handler ------------------------------------------------------------------------- */

static void handler_reports_a_crash(int signal) {
  char *report = (char *)malloc(launder_size(20000));
  if (report == NULL) _exit(1);
  int n = snprintf(report, 20000, "crashed with signal %d", signal);
  free(report);
  _exit(n > 0 ? 0 : 1);
}

TEST(signals, a_crash_handler_may_allocate_on_its_own_stack, "") {
  test_child_t child;
  if (test_fork(&child, 20)) {
    stack_t stack = {.ss_sp = malloc(65536), .ss_flags = 0, .ss_size = 65536};
    CHECK_EQ(sigaltstack(&stack, NULL), 0);
    handle(SIGSEGV, handler_reports_a_crash, SA_ONSTACK);
    *(volatile int *)launder((void *)8) = 1;
    _exit(2);
  }
  test_reap(&child);
  CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

static void handler_frees_twice(int signal) {
  (void)signal;
  void *p = malloc(launder_size(64));
  free(p);
  free(launder(p));
}
TEST(signals, a_double_free_is_told_on_a_small_stack, "") {
  test_child_t child;
  setenv("FREEHOLD_OPTIONS", "profile_interval:1", 1); /* the longest line there is */
  test_program(&child, "signals.program_that_frees_twice_on_a_small_stack");
  CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
  CHECK(test_matches("^freehold: double free: 0x[0-9a-f]+ in free\\(\\).*; called by thread .*$",
                     child.text));
}
TEST(signals, program_that_frees_twice_on_a_small_stack, "program") {
  static char room[65536];
  enum { AT_MINSIGSTKSZ_ = 51 }; /* what the kernel puts there before the handler runs */
  unsigned long frame = getauxval(AT_MINSIGSTKSZ_);
  stack_t stack = {.ss_sp = room,
                   .ss_flags = 0,
                   .ss_size = (frame > 0 ? frame : (unsigned long)MINSIGSTKSZ) + 3840};
  CHECK_EQ(sigaltstack(&stack, NULL), 0);
  handle(SIGUSR1, handler_frees_twice, SA_ONSTACK);
  raise(SIGUSR1);
}
