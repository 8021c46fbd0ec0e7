/* lives.c - a long-lived process starts and ends very many threads, each in the same manner
 *
 * Holds:   stacks are the system's own, of the default size. When glibc gives one back it frees
 *          what belongs to it: it calls the allocator in a thread that has ended except for that.
 *          At most --at-once threads live besides the main one. */
#include <sys/stat.h>
#include <sys/syscall.h>

#include "threads.h"

enum { BLOCKS = 10, LOW = 16, HIGH = 1024, AT_ONCE_MOST = 4096, WARM_SHARE = 10 };

static long threads = 100000, at_once = 32;
static const char *manner = "joined", *what = "allocates";
static bool is_detached, is_cancelled, is_raw, allocates, frees;
static pthread_barrier_t all_live;

typedef struct life {
  pthread_t id;
  void *blocks[BLOCKS]; /* from the main thread to be freed, or to it */
} life_t;

static life_t lives[AT_ONCE_MOST];

/* ---- one life -------------------------------------------------------------------------------- */

static void blocks_allocate(life_t *life, bench_rng_t *rng) {
  for (int i = 0; i < BLOCKS; i++) {
    bench_touch(life->blocks[i] = bench_malloc(bench_between(rng, LOW, HIGH)));
  }
}

static void blocks_free(life_t *life, int from) {
  for (int i = from; i < BLOCKS; i++) {
    free(life->blocks[i]);
    life->blocks[i] = NULL;
  }
}

static void *life_body(void *argument) {
  life_t *life = argument;
  bench_rng_t rng = bench_seed((uint64_t)(life - lives));
  if (allocates) {
    blocks_allocate(life, &rng);
    blocks_free(life, BLOCKS / 2); /* the others are left behind */
  }
  if (frees) blocks_free(life, 0);
  pthread_barrier_wait(&all_live);
  while (is_cancelled) pause();
  if (is_raw) syscall(SYS_exit, 0);
  return NULL;
}

/* ---- all at once ----------------------------------------------------------------------------- */

static void batch_start(long count, bench_rng_t *rng) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (is_detached) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_barrier_init(&all_live, NULL, (unsigned)count + 1);
  for (long i = 0; i < count; i++) {
    if (frees) blocks_allocate(&lives[i], rng);
    int error = pthread_create(&lives[i].id, &attributes, life_body, &lives[i]);
    if (error != 0) bench_fail(BENCH_SYSTEM, "cannot start a thread: %s", strerror(error));
  }
  pthread_attr_destroy(&attributes);
  pthread_barrier_wait(&all_live);
}

/* A task is a folder, and a link to the folder of all. */
static void await_alone(void) {
  struct stat tasks;
  while (stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 3) bench_sleep(0.00005);
}

static void batch_end(long count) {
  for (long i = 0; i < count; i++) {
    if (is_cancelled) pthread_cancel(lives[i].id);
    if (!is_detached) pthread_join(lives[i].id, NULL);
  }
  await_alone();
  pthread_barrier_destroy(&all_live);
  for (long i = 0; i < count; i++) blocks_free(&lives[i], 0);
}

static void lives_run(long count, bench_rng_t *rng) {
  for (long left = count; left > 0; left -= at_once) {
    long batch = left < at_once ? left : at_once;
    batch_start(batch, rng);
    batch_end(batch);
  }
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 100, LONG_MAX / 2, "threads in total"),
  BENCH_NUMBER("at-once", at_once, 1, AT_ONCE_MOST, "alive at a time"),
  BENCH_WORD("manner", manner, "joined|detached|cancelled|raw", "how a thread ends"),
  BENCH_WORD("what", what, "allocates|frees|nothing", "what it does before"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "lives",
  .about =
    "very many threads over the life of a process\n\n"
    "--at-once threads are started, live together and end; then the next. joined: they return and\n"
    "are joined; detached; cancelled while they sleep, then joined; raw: by the system call exit,\n"
    "so that nothing of libc or of the allocator runs, then joined. allocates: each allocates 10\n"
    "blocks of 16 to 1,024 bytes and frees half of them, the main thread the rest; frees: it\n"
    "frees 10 blocks of the main thread; nothing: it never calls the allocator. `before` is what\n"
    "is resident after a tenth of the lives, `after` at the end, `growth` the latter over the\n"
    "former, `each` the difference for one thread. Definition: freehold's own.",
  .operation = "threads after the first tenth",
  .example = "lives --threads 10K --manner detached --what nothing",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  is_detached = strcmp(manner, "detached") == 0;
  is_cancelled = strcmp(manner, "cancelled") == 0;
  is_raw = strcmp(manner, "raw") == 0;
  allocates = strcmp(what, "allocates") == 0;
  frees = strcmp(what, "frees") == 0;
  bench_rng_t rng = bench_seed(AT_ONCE_MOST);
  long warm = threads / WARM_SHARE;

  lives_run(warm, &rng);
  long long before = bench_resident();
  mark_t start = mark_now();
  lives_run(threads - warm, &rng);
  mark_t end = mark_now();
  long long after = bench_resident();
  json_start(&program);
  json_elapsed(start, end, threads - warm);
  json_integer("before", before);
  json_integer("after", after);
  json_real("growth", (double)after / (double)before);
  json_real("each", (double)(after - before) / (double)(threads - warm));
  json_integer("calls", strcmp(what, "nothing") == 0 ? 0 : threads * BLOCKS);
  json_costs();
  json_end();
  return BENCH_OK;
}
