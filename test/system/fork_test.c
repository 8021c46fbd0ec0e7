/* fork_test.c - fork at any moment: the child of a process with many threads
 * allocates and frees at once */
#include "entry.h"

#include <pthread.h>
#include <sys/syscall.h>

enum { STORM_THREADS = 32, FORKS_EACH = 25, SHARED = 256 };
static void *shared[SHARED]; /* blocks that any thread may take and free */
static int stop;

/* What a child does with blocks of its own and of its parent's threads; its exit
 * code is 0 if all is well. */
static void live_in_child(uint64_t seed) {
  uint64_t state = seed * 2 + 1;
  void *p[64];
  size_t n[64];
  alarm(40);
  for (int i = 0; i < 64; i++) {
    n[i] = random_size(&state);
    p[i] = i % 8 == 1 ? aligned_alloc(128, n[i]) : malloc(n[i]);
    CHECK(p[i] != NULL);
    stamp(p[i], n[i], (uint64_t)i);
  }
  for (int i = 0; i < SHARED; i++) { /* blocks that other threads of the parent allocated */
    uint32_t *block = (uint32_t *)__atomic_exchange_n(&shared[i], NULL, __ATOMIC_ACQ_REL);
    if (block == NULL) continue;
    CHECK(is_stamped(block + 2, block[0], block[1]));
    if (i % 4 == 0) block = (uint32_t *)realloc(block, block[0] * 2 + 100);
    CHECK(block != NULL);
    free(block);
  }
  for (int i = 0; i < 64; i++) {
    CHECK(is_stamped(p[i], n[i], (uint64_t)i));
    free(p[i]);
  }
  tour_everything();
}

static void *body_allocates(void *argument) {
  uint64_t state = (uintptr_t)argument * 77 + 7;
  while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
    size_t n = random_size(&state) % 30000;
    uint32_t *p = (uint32_t *)malloc(n + 8);
    CHECK(p != NULL);
    p[0] = (uint32_t)n;
    p[1] = (uint32_t)state;
    stamp(p + 2, n, p[1]);
    free(__atomic_exchange_n(&shared[state % SHARED], (void *)p, __ATOMIC_ACQ_REL));
  }
  return NULL;
}

static void wait_for_child(pid_t pid) {
  int status;
  char how[96];
  CHECK_EQ(waitpid(pid, &status, 0), pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    FAIL("a child ended with %s", test_status_text(status, how, sizeof how));
}

static void *body_forks(void *argument) {
  for (uintptr_t i = 0; i < FORKS_EACH; i++) {
    free(malloc(launder_size(i * 50)));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      live_in_child((uintptr_t)argument * 1000 + i);
      _exit(0);
    }
    wait_for_child(pid);
  }
  return NULL;
}

TEST(fork, thirty_two_threads_fork_while_others_allocate, "timeout=180") {
  pthread_t busy[3];
  for (uintptr_t i = 0; i < 3; i++) busy[i] = start_thread(body_allocates, (void *)i, 0);
  run_threads(STORM_THREADS, body_forks);
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 3; i++) join_thread(busy[i]);
}

static void *body_some_work(void *argument) {
  uint64_t state = (uintptr_t)argument + 3;
  for (int i = 0; i < 3000; i++) free(malloc(random_size(&state)));
  return NULL;
}

TEST(fork, a_child_may_start_threads_and_fork_again, "") {
  pthread_t busy[3];
  for (uintptr_t i = 0; i < 3; i++) busy[i] = start_thread(body_allocates, (void *)i, 0);
  for (int i = 0; i < 30; i++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      live_in_child((uint64_t)i);
      run_threads(4, body_some_work);
      pid_t inner = fork();
      if (inner == 0) {
        live_in_child((uint64_t)i + 500);
        run_threads(2, body_some_work);
        _exit(0);
      }
      wait_for_child(inner);
      _exit(0);
    }
    wait_for_child(pid);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 3; i++) join_thread(busy[i]);
}

/* A chain in which each child forks the next: state handed down many times. */
TEST(fork, twenty_generations_inherit_and_free_each_others_blocks, "") {
  void *block = malloc(launder_size(5000));
  stamp(block, 5000, 1);
  for (int generation = 0; generation < 20; generation++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0) {
      wait_for_child(pid);
      _exit(0);
    }
    CHECK(is_stamped(block, 5000, 1));
    free(block);
    live_in_child((uint64_t)generation);
    block = malloc(launder_size(5000));
    stamp(block, 5000, 1);
  }
}

/* Takes what a thread may have in its lists, and stays. Hardly uses its stack: after a bare system
 * call that stays in the children. */
static int arrived;
static void *body_stays(void *argument) {
  enum { BLOCKS = 2000 };
  uint64_t state = (uintptr_t)argument + 5;
  void **chosen = NULL, **before;
  for (int i = 0; i < BLOCKS; i++, chosen = before) {
    before = (void **)malloc(16 + random_size(&state) % 500);
    CHECK(before != NULL);
    *before = (void *)chosen;
  }
  for (; chosen != NULL; chosen = before) {
    before = (void **)*chosen;
    free((void *)chosen);
  }
  __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);
  for (;;) pause();
  return NULL;
}
static size_t resident_pages(void) {
  size_t all = 0, resident = 0;
  FILE *file = fopen("/proc/thread-self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%zu %zu", &all, &resident) == 2);
  fclose(file);
  return resident;
}

/* One process after the other. In each, threads stay that have heaps, and then somebody forks. */
typedef enum { HAS_A_HEAP, HAS_NONE, ENDS_SOON, IS_QUIET } forker_t;
static struct {
  forker_t forker;
  bool is_bare; /* no handler of fork runs */
  int generation;
  size_t early_most, late_least; /* resident pages of the first generations, and of the last */
} chain;

static void *live_on(void *unused_argument);
static void *fork_and_live_on(void *unused_argument) {
  (void)unused_argument;
  if (chain.forker == ENDS_SOON) free(launder(malloc(10)));
  pid_t pid = chain.is_bare ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
  CHECK(pid >= 0);
  if (pid > 0) {
    wait_for_child(pid);
    _exit(0);
  }
  chain.generation++;
  if (chain.forker != ENDS_SOON) return live_on(NULL);
  pthread_t successor;
  CHECK_EQ(pthread_create(&successor, NULL, live_on, NULL), 0);
  return NULL; /* no pthread_exit: it loads a library, and the next child may find its lock taken */
}

static void *live_on(void *unused_argument) {
  enum { THREADS = 8, GENERATIONS = 32, SOME = 8 };
  (void)unused_argument;
  arrived = 0;
  for (uintptr_t i = 0; i < THREADS; i++) start_thread(body_stays, (void *)i, 0);
  while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < THREADS) usleep(100);
  for (int i = 0; i < 100 && chain.forker != IS_QUIET; i++) free(malloc(launder_size(40000)));
  size_t pages = resident_pages();
  if (chain.generation <= SOME && pages > chain.early_most) chain.early_most = pages;
  if (chain.generation == GENERATIONS - SOME) chain.late_least = pages;
  if (chain.generation > GENERATIONS - SOME && pages < chain.late_least) chain.late_least = pages;
  if (chain.generation == GENERATIONS) {
    CHECK(chain.late_least > 0 && chain.late_least <= 2 * chain.early_most);
    _exit(0);
  }
  if (chain.forker == HAS_A_HEAP || chain.forker == IS_QUIET) return fork_and_live_on(NULL);
  start_thread(fork_and_live_on, NULL, 0);
  for (;;) pause();
}

static void check_chain(forker_t forker, bool is_bare) {
  chain.forker = forker;
  chain.is_bare = is_bare;
  pid_t pid = fork();
  if (pid == 0) live_on(NULL);
  wait_for_child(pid);
}
TEST(chain, what_a_parents_threads_had_is_used_again_so_that_it_does_not_grow, "") {
  check_chain(HAS_A_HEAP, true);
}
TEST(chain, likewise_if_the_thread_that_forks_never_allocated, "") { check_chain(HAS_NONE, true); }
TEST(chain, likewise_if_the_thread_that_forked_ends_soon, "") { check_chain(ENDS_SOON, true); }
TEST(chain, likewise_if_the_thread_that_forked_makes_no_call, "") { check_chain(IS_QUIET, false); }
TEST(chain, likewise_if_a_handler_of_fork_says_who_forked, "") {
  check_chain(HAS_NONE, false);
  check_chain(ENDS_SOON, false);
}

static void before_fork(void) { tour_everything(); }
TEST(fork, atfork_handlers_may_allocate, "") {
  CHECK_EQ(pthread_atfork(before_fork, before_fork, before_fork), 0);
  for (int i = 0; i < 20; i++) {
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    wait_for_child(pid);
  }
}
