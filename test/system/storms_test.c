/* storms_test.c - signals, forks, births and cancellations, many of each
 *
 * FREEHOLD_SOAK=N does N hundredths of the whole: 100 is what ./dev soak does (a million
 * threads); without it, one or two. */
#include "entry.h"

#include <sys/syscall.h>

static long hundredths(long whole) {
  const char *text = getenv("FREEHOLD_SOAK");
  long share = text != NULL ? atol(text) : 1;
  return whole / 100 * (share > 0 ? share : 1);
}

static int stop;
static bool is_over(void) { return __atomic_load_n(&stop, __ATOMIC_ACQUIRE) != 0; }

/* Blocks that any thread may take and free; size and seed stand in front of what is stamped. */
enum { SHARED = 512 };
static void *shared[SHARED];

static void exchange_block(uint64_t *state) {
  size_t n = random_size(state) % 20000;
  uint32_t *p = (uint32_t *)malloc(n + 8);
  CHECK(p != NULL);
  p[0] = (uint32_t)n;
  p[1] = (uint32_t)*state;
  stamp(p + 2, n, p[1]);
  uint32_t *old =
    (uint32_t *)__atomic_exchange_n(&shared[*state % SHARED], (void *)p, __ATOMIC_ACQ_REL);
  if (old == NULL) return;
  CHECK(is_stamped(old + 2, old[0], old[1]));
  free(old);
}

static void free_shared(void) {
  for (int i = 0; i < SHARED; i++) free(__atomic_exchange_n(&shared[i], NULL, __ATOMIC_ACQ_REL));
}

/* ---- signals --------------------------------------------------------------------------------- */

static long handled;
static __thread timer_t own_timer;
static __thread uint64_t handler_state;

static void set_interval(long microseconds) {
  struct itimerspec often = {{0, microseconds * 1000}, {0, microseconds * 1000}};
  CHECK_EQ(timer_settime(own_timer, 0, &often, NULL), 0);
}

/* In the end it stops its own timer, for a thread that does nothing but handle
 * signals would not come to it. */
static void handler_exchanges(int signal) {
  int kept = errno;
  (void)signal;
  exchange_block(&handler_state);
  __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
  if (is_over()) set_interval(0);
  errno = kept;
}

static void start_signals(long microseconds) {
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGUSR1;
  event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
  CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &own_timer), 0);
  set_interval(microseconds);
}

static void handle_by_exchange(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler_exchanges;
  action.sa_flags = SA_RESTART;
  CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

static void *body_under_signals(void *argument) {
  uint64_t state = (uintptr_t)argument * 2654435761u + 1;
  handler_state = state + 77;
  start_signals(100);
  while (!is_over()) exchange_block(&state);
  timer_delete(own_timer);
  return NULL;
}

TEST(storms, ten_thousand_signals_a_second_into_each_of_sixteen_threads_whose_handlers_allocate,
     "timeout=250") {
  enum { THREADS = 16 };
  pthread_t threads[THREADS];
  long most = hundredths(5000000);
  handle_by_exchange();
  for (uintptr_t i = 0; i < THREADS; i++)
    threads[i] = start_thread(body_under_signals, (void *)i, 0);
  while (__atomic_load_n(&handled, __ATOMIC_RELAXED) < most) usleep(10000);
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < THREADS; i++) join_thread(threads[i]);
  free_shared();
  tour_everything();
}

/* ---- forks ----------------------------------------------------------------------------------- */

static long forks_left;

static void live_in_child(uint64_t seed) {
  uint64_t state = seed * 2 + 1;
  alarm(200);
  free_shared();
  for (int i = 0; i < 300; i++) exchange_block(&state);
  tour_everything();
  _exit(0);
}

static void *body_forks(void *argument) {
  while (__atomic_sub_fetch(&forks_left, 1, __ATOMIC_RELAXED) >= 0) {
    int status;
    uint64_t state = (uintptr_t)argument + 5;
    for (int i = 0; i < 20; i++) exchange_block(&state);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) live_in_child((uintptr_t)argument);
    while (waitpid(pid, &status, 0) != pid) CHECK_EQ(errno, EINTR);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  return NULL;
}

TEST(storms, eight_threads_fork_while_eight_allocate_under_signals, "timeout=250") {
  enum { THREADS = 8 };
  pthread_t forking[THREADS], busy[THREADS];
  forks_left = hundredths(10000);
  handle_by_exchange();
  for (uintptr_t i = 0; i < THREADS; i++) busy[i] = start_thread(body_under_signals, (void *)i, 0);
  for (uintptr_t i = 0; i < THREADS; i++) forking[i] = start_thread(body_forks, (void *)i, 0);
  for (int i = 0; i < THREADS; i++) join_thread(forking[i]);
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < THREADS; i++) join_thread(busy[i]);
  free_shared();
}

/* ---- births ---------------------------------------------------------------------------------- */

static void *body_short_life(void *argument) {
  uint64_t state = (uintptr_t)argument * 2654435761u + 1;
  for (int i = 0; i < 8; i++) exchange_block(&state);
  return NULL;
}

/* Eight at a time, so that lives overlap. */
static void live_and_die(long threads) {
  enum { AT_ONCE = 8 };
  pthread_t thread[AT_ONCE];
  for (long i = 0; i < threads; i++) {
    if (i >= AT_ONCE) join_thread(thread[i % AT_ONCE]);
    thread[i % AT_ONCE] = start_thread(body_short_life, (void *)i, 65536);
  }
  for (int i = 0; i < AT_ONCE; i++) join_thread(thread[i]);
}

TEST(storms, a_million_threads_are_born_and_gone_and_leave_nothing, "timeout=250") {
  live_and_die(5000);
  size_t early = resident_bytes();
  live_and_die(hundredths(1000000));
  /* at most 10 MB are in `shared`, and 16 MiB in heaps at rest (RESTING_PAGES): both fill in time.
   * 26 bytes a thread would show */
  CHECK_LE(resident_bytes(), early + MiB_(26));
  free_shared();
}

/* ---- cancellations --------------------------------------------------------------------------- */

static void *body_until_cancelled(void *argument) {
  uint64_t state = (uintptr_t)argument * 2654435761u + 1;
  int before;
  free(malloc(launder_size(100)));
  CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before), 0);
  for (;;) free(malloc(random_size(&state) % 1000));
}

static void *body_works_on(void *argument) {
  uint64_t state = (uintptr_t)argument + 3;
  while (!is_over()) exchange_block(&state);
  return NULL;
}

TEST(storms, threads_are_cancelled_at_any_instruction_and_the_others_work_on, "timeout=250") {
  long cancellations = hundredths(20000);
  pthread_t others[2];
  uint64_t state = 9;
  size_t early = 0;
  for (uintptr_t i = 0; i < 2; i++) others[i] = start_thread(body_works_on, (void *)i, 0);
  for (long i = 0; i < cancellations; i++) {
    void *result;
    pthread_t thread = start_thread(body_until_cancelled, (void *)i, 0);
    usleep((useconds_t)(random_next(&state) % 300));
    CHECK_EQ(pthread_cancel(thread), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK_EQ(result, PTHREAD_CANCELED);
    if (i == cancellations / 10) early = resident_bytes();
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 2; i++) join_thread(others[i]);
  /* what a heap holds is lost, no more: a magazine, and its lists. The longer a thread had worked,
   * on a busy machine, the nearer it comes to that */
  CHECK_LE(resident_bytes(), early + (size_t)cancellations * (384 + 64) * 1024);
  free_shared();
  tour_everything();
}

/* ---- threads that sleep ---------------------------------------------------------------------- */

extern int malloc_trim(size_t) __attribute__((weak)); /* musl has none, the library has */

static long turns_left; /* of sleepers */
static void *body_sleeps_and_exchanges(void *argument) {
  enum { OWN = 64, BURST = 100 };
  uint64_t state = (uintptr_t)argument * 2654435761u + 7;
  void *own[OWN] = {0};
  while (__atomic_sub_fetch(&turns_left, 1, __ATOMIC_RELAXED) >= 0) {
    for (int i = 0; i < BURST; i++) {
      size_t n = random_size(&state) % 3000 + 8;
      void **mine = &own[state % OWN];
      exchange_block(&state);
      CHECK(*mine == NULL || is_stamped((char *)*mine + 8, *(uint32_t *)*mine, 5));
      free(*mine);
      *mine = malloc(n + 8);
      CHECK(*mine != NULL);
      *(uint32_t *)*mine = (uint32_t)n;
      stamp((char *)*mine + 8, n, 5);
    }
    nanosleep(&(struct timespec){0, (long)(state % 300000)}, NULL);
  }
  for (int i = 0; i < OWN; i++) free(own[i]);
  return NULL;
}
static void *body_trims(void *argument) {
  for (; !is_over(); nanosleep(&(struct timespec){0, 100000}, NULL))
    if (malloc_trim != NULL) malloc_trim(0);
  return argument;
}

TEST(storms, threads_that_sleep_keep_their_blocks_while_others_trim, "timeout=250") {
  enum { SLEEPERS = 12 };
  pthread_t sleepers[SLEEPERS], trimmers[2];
  turns_left = hundredths(200000);
  for (int i = 0; i < 2; i++) trimmers[i] = start_thread(body_trims, NULL, 0);
  for (uintptr_t i = 0; i < SLEEPERS; i++)
    sleepers[i] = start_thread(body_sleeps_and_exchanges, (void *)i, 0);
  for (int i = 0; i < SLEEPERS; i++) join_thread(sleepers[i]);
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 2; i++) join_thread(trimmers[i]);
  free_shared();
}
