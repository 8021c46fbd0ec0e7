/* manythreads.c - very many threads that allocate once and sleep: what does such a thread cost?
 *
 * A child does the same without allocating, for the cost of the thread itself. */
#include <sys/wait.h>

#include "threads.h"

enum { THREADS_MOST = 100000, CHECK_EVERY = 100 };

static long threads = 10000, size = 100, limit = 4096L << 20;
static atomic_long asleep;
static int gate[2]; /* nothing is ever written: a read of it sleeps until the other end is closed */
static bool allocates;

typedef struct result {
  long threads;
  long long bytes; /* resident, without what was resident before the threads */
  long mappings;
} result_t;

static void *sleeper_body(void *argument) {
  void *p = NULL;
  if (allocates) bench_touch(p = bench_malloc((size_t)size));
  atomic_fetch_add(&asleep, 1);
  char byte;
  while (read(gate[0], &byte, 1) < 0 && errno == EINTR) {}
  free(p);
  return argument;
}

static void sleep_until_asleep(long count) {
  while (atomic_load(&asleep) < count) bench_sleep(0.0005);
}

static result_t threads_measure(bool with_blocks) {
  allocates = with_blocks;
  if (pipe2(gate, O_CLOEXEC) != 0) bench_fail(BENCH_SYSTEM, "pipe: %s", strerror(errno));
  pthread_t *ids = bench_pages((size_t)threads * sizeof *ids, true);
  char *stacks = bench_pages((size_t)threads * BENCH_STACK, false);
  result_t result = {0, -bench_resident(), 0};
  while (result.threads < threads &&
         bench_thread_try(&ids[result.threads], stacks + result.threads * BENCH_STACK, sleeper_body,
                          NULL)) {
    if (++result.threads % CHECK_EVERY != 0) continue;
    sleep_until_asleep(result.threads);
    if (bench_resident() > limit) break;
  }
  sleep_until_asleep(result.threads);
  result.bytes += bench_resident();
  result.mappings = bench_mappings();
  close(gate[1]);
  for (long i = 0; i < result.threads; i++) pthread_join(ids[i], NULL);
  return result;
}

/* In a child, whose memory nobody else sees. */
static result_t threads_alone(void) {
  int channel[2];
  if (pipe2(channel, O_CLOEXEC) != 0) bench_fail(BENCH_SYSTEM, "pipe: %s", strerror(errno));
  pid_t child = fork();
  if (child < 0) bench_fail(BENCH_SYSTEM, "fork: %s", strerror(errno));
  if (child == 0) {
    result_t result = threads_measure(false);
    _exit(write(channel[1], &result, sizeof result) == sizeof result ? BENCH_OK : BENCH_SYSTEM);
  }
  close(channel[1]);
  result_t result;
  bool complete = read(channel[0], &result, sizeof result) == sizeof result;
  close(channel[0]);
  int status;
  if (waitpid(child, &status, 0) != child || status != 0 || !complete || result.threads == 0) {
    bench_fail(BENCH_SYSTEM, "the run without allocation failed");
  }
  return result;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads asleep at a time"),
  BENCH_NUMBER("size", size, 8, 1 << 20, "bytes that each allocates"),
  BENCH_NUMBER("limit", limit, 1 << 20, LONG_MAX / 2,
               "start no more threads when so many bytes are resident"),
  BENCH_END,
};

static const bench_program_t program = {
  .name = "manythreads",
  .about =
    "very many threads, each allocates one block and sleeps\n\n"
    "`per_thread` is what is resident for each thread, less the same in a child whose threads do\n"
    "not allocate: stack and thread structures do not count. All stacks lie in one mapping, so\n"
    "`mappings` are the allocator's except some thirty. `reached` is below --threads where the\n"
    "limit or the system ended it. Definition: freehold's own.",
  .operation = "threads that allocated a block",
  .example = "manythreads --threads 2000",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  result_t bare = threads_alone();
  mark_t start = mark_now();
  result_t result = threads_measure(true);
  mark_t end = mark_now();
  if (result.threads == 0) bench_fail(BENCH_SYSTEM, "no thread could be started");
  double bare_each = (double)bare.bytes / (double)bare.threads;
  json_start(&program);
  json_elapsed(start, end, result.threads);
  json_integer("reached", result.threads);
  json_real("per_thread", (double)result.bytes / (double)result.threads - bare_each);
  json_real("bare_thread", bare_each);
  json_integer("mappings", result.mappings);
  json_integer("peak", bench_peak());
  json_end();
  return BENCH_OK;
}
