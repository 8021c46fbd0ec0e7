/* threads_test.c - many threads: their births and deaths, and blocks that travel between them */
#include "entry.h"

#include <limits.h>
#include <sys/syscall.h>

/* ---- births and deaths ----------------------------------------------------------------------- */

static void *body_some_blocks(void *argument) {
  uint64_t state = (uintptr_t)argument * 2654435761u + 1;
  void *p[24];
  for (int i = 0; i < 24; i++) CHECK((p[i] = malloc(random_next(&state) % 600)) != NULL);
  for (int i = 0; i < 24; i++) free(p[i]);
  return NULL;
}

TEST(threads, twelve_thousand_one_after_another_leak_nothing, "lrmalloc-defect timeout=120") {
  size_t early = 0;
  for (uintptr_t i = 0; i < 12000; i++) {
    join_thread(start_thread(body_some_blocks, (void *)i, 65536));
    if (i == 2000) early = resident_bytes();
  }
  CHECK_LE(resident_bytes(), early + MiB_(2)); /* 10,000 threads: 200 bytes each would show */
}

static struct {
  int waiting;
  int open;
} gate;
static void *body_wait_at_gate(void *argument) {
  void *small = malloc(launder_size(100)), *second = malloc(launder_size(1000));
  CHECK(small != NULL && second != NULL);
  stamp(small, 100, (uintptr_t)argument);
  stamp(second, 1000, (uintptr_t)argument);
  __atomic_add_fetch(&gate.waiting, 1, __ATOMIC_ACQ_REL);
  while (!__atomic_load_n(&gate.open, __ATOMIC_ACQUIRE))
    syscall(SYS_futex, &gate.open, 0 /* wait */, 0, NULL);
  CHECK(is_stamped(small, 100, (uintptr_t)argument) &&
        is_stamped(second, 1000, (uintptr_t)argument));
  free(second);
  return small;
}

TEST(threads, ten_thousand_at_once, "lrmalloc-defect timeout=180") {
  enum { N = 10000 };
  static pthread_t threads[N];
  struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_NPROC, &limit);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 32768);
  for (uintptr_t i = 0; i < N; i++) {
    int error = pthread_create(&threads[i], &attributes, body_wait_at_gate, (void *)i);
    if (error == EAGAIN)
      FAIL("the system refuses the %zuth thread: raise kernel.threads-max, vm.max_map_count and "
           "the limits of the container",
           (size_t)i);
    CHECK_EQ(error, 0);
  }
  while (__atomic_load_n(&gate.waiting, __ATOMIC_ACQUIRE) < N) usleep(1000);
  __atomic_store_n(&gate.open, 1, __ATOMIC_RELEASE);
  syscall(SYS_futex, &gate.open, 1 /* wake */, INT32_MAX);
  for (uintptr_t i = 0; i < N; i++) {
    void *small = NULL;
    CHECK_EQ(pthread_join(threads[i], &small), 0);
    CHECK(is_stamped(small, 100, i));
    free(small);
  }
  CHECK_EQ(gate.waiting, N);
}

static void *body_burst(void *argument) {
  enum { N = 2000 };
  void **p = (void **)malloc(N * sizeof *p);
  for (size_t i = 0; i < N; i++) memset(p[i] = malloc(launder_size(500)), 1, 500);
  for (size_t i = 0; i < N; i++) free(p[i]);
  free(p);
  return argument;
}

TEST(threads, the_memory_of_those_that_ended_is_used_again, "") {
  for (int i = 0; i < 20; i++) join_thread(start_thread(body_burst, NULL, 0));
  size_t early = resident_bytes();
  for (int i = 0; i < 400; i++) join_thread(start_thread(body_burst, NULL, 0)); /* 1 MB each */
  CHECK_LE(resident_bytes(), early + MiB_(3));
}

static void *kept_by_dead[200][500];
static void *body_keep(void *argument) {
  for (size_t i = 0; i < 500; i++) {
    void *p = kept_by_dead[(uintptr_t)argument][i] = malloc(launder_size(400));
    stamp(p, 400, i);
  }
  return NULL;
}

TEST(threads, blocks_of_the_dead_live_on_and_their_memory_comes_back, "") {
  for (int round = 0; round < 15; round++) {
    static size_t first;
    for (uintptr_t t = 0; t < 200; t++) join_thread(start_thread(body_keep, (void *)t, 0));
    for (size_t i = 0; i < 500; i++) {
      for (size_t t = 0; t < 200; t++) {
        CHECK(is_stamped(kept_by_dead[t][i], 400, i));
        free(kept_by_dead[t][i]);
      }
    }
    if (round != 6 && round != 14) continue;
    malloc_trim(0); /* what waits for its delay is not the question */
    if (round == 6) first = resident_bytes();
    if (round == 14) CHECK_LE(resident_bytes(), first + MiB_(3));
  }
}

static void *body_raw_exit(void *argument) {
  void *p = malloc(launder_size(100)), *q = malloc(launder_size(100000));
  memset(p, 1, 100);
  memset(q, 1, 100000);
  free(q);
  ((void **)argument)[0] = p;
  syscall(SYS_exit, 0); /* no destructor, no clean-up runs */
  return NULL;
}

TEST(threads, one_that_leaves_by_the_raw_system_call_harms_nobody, "") {
  size_t early = 0;
  for (int i = 0; i < 1000; i++) {
    void *block = NULL;
    join_thread(start_thread(body_raw_exit, &block, 65536));
    CHECK_BYTES(block, 1, 100);
    free(block);
    tour_everything();
    join_thread(start_thread(body_some_blocks, (void *)1, 65536));
    if (i == 100) early = resident_bytes();
  }
  /* what their heaps held is lost, no more */
  CHECK_LE(resident_bytes(), early + (size_t)900 * 192 * 1024);
}

/* ---- first and last calls -------------------------------------------------------------------- */

static void *given_to_tour[ENTRY_TOURS];
static void *body_first_call(void *argument) {
  uintptr_t i = (uintptr_t)argument;
  entry_tours[i].tour(given_to_tour[i]);
  return NULL;
}

TEST(threads, every_entry_point_may_be_the_first_call, "") {
  for (int round = 0; round < 20; round++) {
    for (uintptr_t i = 0; i < ENTRY_TOURS; i++) {
      given_to_tour[i] = malloc(launder_size(40));
      join_thread(start_thread(body_first_call, (void *)i, 0));
    }
  }
}

static void *body_smallest_stack(void *argument) {
  body_first_call(argument);
  tour_everything();
  body_some_blocks(argument);
  return NULL;
}

TEST(threads, every_entry_point_works_on_the_smallest_stack, "") {
  size_t smallest = (size_t)sysconf(_SC_THREAD_STACK_MIN);
  for (uintptr_t i = 0; i < ENTRY_TOURS; i++) {
    given_to_tour[i] = malloc(launder_size(40));
    join_thread(start_thread(body_smallest_stack, (void *)i, smallest));
  }
}

/* One destructor that sets its key anew three times is called in all four rounds. */
static pthread_key_t last_key, late_key;
static __thread unsigned last_round;
static unsigned rounds_seen[PTHREAD_DESTRUCTOR_ITERATIONS + 1];
static void in_last_rounds(void *value) {
  uintptr_t i = (uintptr_t)value - 1;
  __atomic_add_fetch(&rounds_seen[last_round < 4 ? last_round : 4], 1, __ATOMIC_RELAXED);
  if (i < ENTRY_TOURS) entry_tours[i].tour(malloc(launder_size(40)));
  else tour_everything();
  if (++last_round < PTHREAD_DESTRUCTOR_ITERATIONS) pthread_setspecific(last_key, value);
  if (last_round == PTHREAD_DESTRUCTOR_ITERATIONS - 1)
    pthread_setspecific(late_key, malloc(launder_size(64)));
}
static void *body_with_destructors(void *argument) {
  uintptr_t i = (uintptr_t)argument;
  if (i % 2 == 0) free(malloc(launder_size(30))); /* else the destructor makes the first call too */
  pthread_setspecific(last_key, (void *)(i / 2 + 1));
  return NULL;
}
static void *body_background(void *argument) {
  uint64_t state = (uintptr_t)argument + 99;
  while (!__atomic_load_n(&gate.open, __ATOMIC_ACQUIRE)) {
    void *p = malloc(random_size(&state));
    CHECK(p != NULL);
    free(p);
  }
  return NULL;
}

TEST(threads, every_entry_point_may_be_the_last_call_in_each_round_of_destructors,
     "lrmalloc-defect") {
  pthread_t background = start_thread(body_background, NULL, 0);
  CHECK_EQ(pthread_key_create(&last_key, in_last_rounds), 0);
  CHECK_EQ(pthread_key_create(&late_key, free), 0);
  unsigned threads = 0;
  for (int round = 0; round < 10; round++) {
    for (uintptr_t i = 0; i < 2 * (ENTRY_TOURS + 1); i++, threads++)
      join_thread(start_thread(body_with_destructors, (void *)i, 0));
  }
  for (int i = 0; i < PTHREAD_DESTRUCTOR_ITERATIONS; i++) CHECK_EQ(rounds_seen[i], threads);
  size_t early = 0; /* the most: at times the other thread has just given back what it kept */
  for (int i = 0; i < 2500; i++) {
    join_thread(
      start_thread(body_with_destructors, (void *)(uintptr_t)(2 * ENTRY_TOURS + 1), 65536));
    size_t now = i < 500 ? resident_bytes() : 0;
    if (now > early) early = now;
  }
  /* calls after the heap was let go leak nothing either */
  CHECK_LE(resident_bytes(), early + MiB_(2));
  __atomic_store_n(&gate.open, 1, __ATOMIC_RELEASE);
  join_thread(background);
}

/* ---- blocks that travel ---------------------------------------------------------------------- */

enum { RING = 1024 };
static struct { void *slot[RING]; } ring[8];
static unsigned ring_steps = 200000;
static void *body_exchange(void *argument) {
  uint64_t state = (uintptr_t)argument * 7919 + 3;
  for (unsigned i = 0; i < ring_steps; i++) {
    uint64_t r = random_next(&state);
    size_t n = 16 + random_size(&state) % 40000;
    uint64_t *p = (uint64_t *)malloc(n);
    CHECK(p != NULL);
    p[0] = n;
    p[1] = r;
    if (n > 16) stamp(p + 2, n - 16, r);
    p =
      (uint64_t *)__atomic_exchange_n(&ring[r % 8].slot[r / 8 % RING], (void *)p, __ATOMIC_ACQ_REL);
    if (p == NULL) continue;
    if (!is_stamped(p + 2, p[0] - 16, p[1]))
      FAIL("a block of %zu bytes has changed on its way", (size_t)p[0]);
    if (r % 5 == 0) {
      p = (uint64_t *)realloc(p, p[0] * 2);
      CHECK(p != NULL && is_prefix_stamped(p + 2, p[0] - 16, p[0] - 16, p[1]));
    }
    free(p);
  }
  return NULL;
}

TEST(threads, blocks_exchanged_at_random_keep_their_contents, "timeout=120") {
  run_threads(8, body_exchange);
}

static void *body_produce(void *argument) {
  void **box = (void **)argument;
  for (unsigned i = 0; i < 300000; i++) {
    void *p = malloc(launder_size(16 + i % 500));
    stamp(p, 16, 5);
    while (__atomic_load_n(&box[i % RING], __ATOMIC_ACQUIRE) != NULL) sched_yield();
    __atomic_store_n(&box[i % RING], p, __ATOMIC_RELEASE);
  }
  return NULL;
}
static void *body_consume(void *argument) {
  void **box = (void **)argument, *p;
  for (unsigned i = 0; i < 300000; i++) {
    while ((p = __atomic_exchange_n(&box[i % RING], NULL, __ATOMIC_ACQ_REL)) == NULL) sched_yield();
    CHECK(is_stamped(p, 16, 5));
    free(p);
  }
  return NULL;
}

TEST(threads, a_thread_that_only_frees_what_others_allocate_lets_no_memory_pile_up, "timeout=120") {
  size_t early = resident_bytes();
  pthread_t producer[3], consumer[3];
  for (int i = 0; i < 3; i++) {
    producer[i] = start_thread(body_produce, ring[i].slot, 0);
    consumer[i] = start_thread(body_consume, ring[i].slot, 0);
  }
  for (int i = 0; i < 3; i++) join_thread(producer[i]), join_thread(consumer[i]);
  /* 230 MB went through, and at most 1 MB was live: what is left is within purge_budget and
   * what heaps may rest with. */
  CHECK_LE(resident_bytes(), early + MiB_(16) + MiB_(16) + MiB_(2));
}

/* As Larson and Krishnan's server: each thread replaces blocks in a set, then hands
 * the set to a new thread. */
enum { SET = 800, GENERATIONS = 25, SET_STEPS = 12000 };
typedef struct set {
  void *p[SET];
  uint32_t n[SET];
  uint64_t state;
} set_t;
static void *body_generation(void *argument) {
  set_t *set = (set_t *)argument;
  for (int i = 0; i < SET_STEPS; i++) {
    size_t k = random_next(&set->state) % SET;
    if (set->p[k] != NULL && !is_stamped(set->p[k], set->n[k], k))
      FAIL("block %zu of %u bytes has changed", k, set->n[k]);
    size_t n = random_size(&set->state) % 20000;
    if (i % 16 == 7 && set->p[k] != NULL) {
      size_t kept = n < set->n[k] ? n : set->n[k];
      set->p[k] = realloc(set->p[k], n + 1);
      CHECK(set->p[k] != NULL && is_prefix_stamped(set->p[k], kept, set->n[k], k));
    } else {
      free(set->p[k]);
      set->p[k] = i % 8 == 3 ? aligned_alloc(64, n) : i % 8 == 5 ? calloc(1, n) : malloc(n);
      CHECK(set->p[k] != NULL);
      if (i % 8 == 5) CHECK_BYTES(set->p[k], 0, n);
    }
    set->n[k] = (uint32_t)n;
    stamp(set->p[k], n, k);
  }
  return NULL;
}

TEST(threads, generations_of_threads_share_their_blocks, "timeout=180") {
  enum { LINES = 6 };
  static set_t sets[LINES];
  pthread_t threads[LINES];
  for (int g = 0; g < GENERATIONS; g++) {
    for (int i = 0; i < LINES; i++) {
      if (g > 0) join_thread(threads[i]);
      sets[i].state += (uint64_t)(g * LINES + i + 1) * 1000003;
      threads[i] = start_thread(body_generation, &sets[i], 0);
    }
  }
  for (int i = 0; i < LINES; i++) {
    join_thread(threads[i]);
    for (int k = 0; k < SET; k++) free(sets[i].p[k]);
  }
  malloc_trim(0);
}
