/* lives_test.c - thousands of threads in every manner of ending: no heap is left for those that are
 * gone, and no memory */
#include "entry.h"

#include <limits.h>
#include <sys/syscall.h>

#include "../../include/freehold/freehold.h"
#pragma weak fh_stats_get

enum { BATCH = 32, BATCHES = 100, EARLY = 15, FEW = 5, MANY = 300, KEPT = 20 };

typedef enum { RETURNS, EXITS, IS_CANCELLED, ENDS_RAW, MANNERS } manner_t;
typedef enum { WAITS, FREES_FEW, FREES_MANY, ALLOCATES, KEEPS, ALLOCATES_LATE, WORKS } work_t;
static const char *const manners[] = {"returns", "exits", "is cancelled", "ends raw"};
static const char *const works[] = {"waits",     "frees a few",  "frees many",
                                    "allocates", "keeps blocks", "allocates late"};

typedef struct {
  manner_t manner;
  work_t work;
  void *blocks[MANY];
} life_t;

static life_t lives[BATCH];
static int arrived, ended;
static pthread_key_t late_key;

/* The last of all: the library's own destructor has been called, and is not called again. */
static void allocate_late(void *value) {
  uintptr_t round = (uintptr_t)value;
  if (round < PTHREAD_DESTRUCTOR_ITERATIONS) pthread_setspecific(late_key, (void *)(round + 1));
  else free(malloc(launder_size(50)));
}

static void do_work(life_t *life) {
  if (life->work == FREES_FEW || life->work == FREES_MANY)
    for (int i = 0; i < (life->work == FREES_FEW ? FEW : MANY); i++) {
      free(life->blocks[i]);
      life->blocks[i] = NULL;
    }
  if (life->work == ALLOCATES)
    for (size_t i = 0; i < 100; i++) free(malloc(launder_size(16 << i % 10)));
  if (life->work == KEEPS)
    for (size_t i = 0; i < KEPT; i++) life->blocks[i] = malloc(launder_size(16 << i % 10));
  if (life->work == ALLOCATES_LATE) pthread_setspecific(late_key, (void *)(uintptr_t)1);
}

/* All of a batch are there before one goes. */
static void *live(void *context) {
  life_t *life = context;
  do_work(life);
  __atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&arrived, __ATOMIC_ACQUIRE) < BATCH) usleep(100);
  __atomic_add_fetch(&ended, 1, __ATOMIC_ACQ_REL);
  if (life->manner == EXITS) pthread_exit(NULL);
  if (life->manner == ENDS_RAW) syscall(SYS_exit, 0);
  while (life->manner == IS_CANCELLED) pause();
  return NULL;
}

static void start(pthread_t *thread, life_t *life, bool detached, size_t stack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  if (detached) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  CHECK_EQ(pthread_create(thread, &attributes, live, life), 0);
  pthread_attr_destroy(&attributes);
}

static void wait_for(const int *count) {
  while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < BATCH) usleep(100);
}

static void run_batch(manner_t manner, work_t work, bool detached, size_t stack) {
  pthread_t threads[BATCH];
  arrived = ended = 0;
  for (int i = 0; i < BATCH; i++) {
    lives[i].manner = manner;
    lives[i].work = work;
    bool frees = work == FREES_FEW || work == FREES_MANY;
    for (int k = 0; frees && k < MANY; k++) lives[i].blocks[k] = malloc(launder_size(100));
  }
  for (int i = 0; i < BATCH; i++) start(&threads[i], &lives[i], detached, stack);
  wait_for(&ended);
  for (int i = 0; i < BATCH; i++) {
    if (manner == IS_CANCELLED) pthread_cancel(threads[i]);
    if (!detached) pthread_join(threads[i], NULL);
  }
  if (detached) usleep(2000);
  for (int i = 0; i < BATCH; i++)
    for (int k = 0; k < MANY; k++) {
      free(lives[i].blocks[k]);
      lives[i].blocks[k] = NULL;
    }
}

static size_t count_heaps(void) {
  fh_stats_t stats = {.struct_size = sizeof stats};
  if (fh_stats_get == NULL || !fh_stats_get(&stats)) exit(77);
  return stats.heaps;
}

/* As many heaps as live at once, of two batches where one ends slowly. Each comes to rest with a
 * slab or two of some classes, over hundreds of batches: 2.6 MB together after 19,200 threads. Had
 * each thread of these batches left one page, it would be 11 MB. */
static void check_flat(manner_t manner, work_t work, bool detached, size_t stack, int batches) {
  enum { HEAPS_MOST = 2 * BATCH + 1, HEAP_RESTS_WITH = 128 << 10 };
  size_t early = 0;
  for (int i = 0; i < batches; i++) {
    run_batch(manner, work, detached, stack);
    if (i == EARLY) early = resident_bytes();
  }
  size_t heaps = count_heaps();
  if (heaps > HEAPS_MOST)
    FAIL("a thread that %s and %s%s: %zu heaps after %d", works[work], manners[manner],
         detached ? ", detached" : "", heaps, batches * BATCH);
  if (resident_bytes() > early + MiB_(2) + heaps * HEAP_RESTS_WITH)
    FAIL("a thread that %s and %s%s: %zu more bytes after %d", works[work], manners[manner],
         detached ? ", detached" : "", resident_bytes() - early, batches * BATCH);
}

static void check_works(manner_t manner, bool detached) {
  CHECK_EQ(pthread_key_create(&late_key, allocate_late), 0);
  for (work_t work = WAITS; work < WORKS; work++)
    check_flat(manner, work, detached, 65536, BATCHES);
}

TEST(lives, those_that_return_and_are_joined_leave_nothing, "timeout=240") {
  check_works(RETURNS, false);
}
TEST(lives, those_that_return_detached_leave_nothing, "timeout=240") { check_works(RETURNS, true); }
TEST(lives, those_that_exit_leave_nothing, "timeout=240") { check_works(EXITS, false); }
TEST(lives, those_that_are_cancelled_leave_nothing, "timeout=240") {
  check_works(IS_CANCELLED, false);
}
TEST(lives, those_that_end_by_a_bare_system_call_leave_nothing, "timeout=240") {
  check_works(ENDS_RAW, false);
}

/* The C library gives cached stacks back when they are more than 40 MiB, and frees what belongs to
 * them, after the last destructor of the thread that ends. */
TEST(lives, those_whose_stacks_are_given_back_after_their_end_leave_nothing, "timeout=240") {
  check_flat(RETURNS, WAITS, true, MiB_(8), 100);
  check_flat(RETURNS, FREES_FEW, true, MiB_(8), 100);
  check_flat(EXITS, ALLOCATES, true, MiB_(8), 100);
}
