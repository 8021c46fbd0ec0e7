/* bystanders.c - what a call costs that should not know how large the process is: statistics,
 * trim, collect, heaps of one request, threads
 *
 * Holds:   a call is the allocator's own or it is refused: what libc would answer for its own
 *          malloc says nothing about the library that is measured. */
#include <malloc.h>

#include "filler.h"
#include "threads.h"

enum { THREADS_MOST = 100000, BLOCK = 100 };

static const char *call = "thread";
static long times = 100, threads = 0;
static atomic_long asleep;
static int gate[2]; /* as in manythreads: a read of it sleeps until the other end is closed */

/* ---- calls that not every allocator has ------------------------------------------------------ */

static int (*trim)(size_t);
static struct mallinfo2 (*info)(void);
static void (*collect)(bool);
static bool (*stats)(void *);
static void *(*heap_new)(void), *(*heap_malloc)(void *, size_t);
static void (*heap_destroy)(void *);

static void trim_prepare(void) { trim = bench_symbol("malloc_trim", NULL); }
static void info_prepare(void) { info = bench_symbol("mallinfo2", NULL); }
static void collect_prepare(void) { collect = bench_symbol("fh_collect", "mi_collect"); }

/* The first word is the size of the record, which we do not know: the one that is taken. */
static size_t record[1 << 13];

static void stats_prepare(void) {
  stats = bench_symbol("fh_stats_get", NULL);
  while (!stats(record) && record[0] < sizeof record) record[0] += sizeof *record;
}

static void heap_prepare(void) {
  heap_new = bench_symbol("fh_heap_new", "mi_heap_new");
  heap_malloc = bench_symbol("fh_heap_malloc", "mi_heap_malloc");
  heap_destroy = bench_symbol("fh_heap_destroy", "mi_heap_destroy");
}

static void trim_once(void) { trim(0); }
static void info_once(void) { info(); }
static void collect_once(void) { collect(true); }

static void stats_once(void) {
  if (!stats(record)) bench_fail(BENCH_SYSTEM, "no statistics");
}

static void heap_once(void) {
  void *heap = heap_new(), *p = heap == NULL ? NULL : heap_malloc(heap, BLOCK);
  if (p == NULL) bench_fail(BENCH_NO_MEMORY, "no heap");
  bench_touch(p);
  heap_destroy(heap);
}

/* ---- threads --------------------------------------------------------------------------------- */

static char *brief_stack;

static void *brief_body(void *argument) {
  void *p = bench_malloc(BLOCK);
  bench_touch(p);
  free(p);
  return argument;
}

static void thread_prepare(void) { brief_stack = bench_pages(BENCH_STACK, false); }

static void thread_once(void) {
  pthread_t thread;
  bench_thread_start(&thread, brief_stack, brief_body, NULL);
  pthread_join(thread, NULL);
}

static void *sleeper_body(void *argument) {
  void *p = bench_malloc(BLOCK);
  bench_touch(p);
  atomic_fetch_add(&asleep, 1);
  char byte;
  while (read(gate[0], &byte, 1) < 0 && errno == EINTR) {}
  free(p);
  return argument;
}

static const struct {
  const char *name;
  void (*prepare)(void), (*once)(void);
} calls[] = {
  {"thread", thread_prepare, thread_once},  {"mallinfo2", info_prepare, info_once},
  {"malloc_trim", trim_prepare, trim_once}, {"collect", collect_prepare, collect_once},
  {"stats", stats_prepare, stats_once},     {"heap", heap_prepare, heap_once},
};

static bench_option_t options[] = {
  BENCH_WORD("call", call, "thread|mallinfo2|malloc_trim|collect|stats|heap", "what is measured"),
  BENCH_NUMBER("times", times, 1, LONG_MAX / 2, "how often, after the first time"),
  BENCH_NUMBER("threads", threads, 0, THREADS_MOST, "threads asleep, each with a block"),
  FILLER_OPTIONS,
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "bystanders",
  .about =
    "the time of calls that should not depend on heap and threads\n\n"
    "thread: one is started, allocates a block of 100 bytes, frees it and is joined; mallinfo2;\n"
    "malloc_trim(0); collect: fh_collect or mi_collect(true); stats: fh_stats_get; heap: a\n"
    "first-class heap of freehold or mimalloc is made, gives one block and is destroyed. Where\n"
    "the allocator itself has no such call, the exit code is 4. `first_ns` is the time of the\n"
    "first one. --threads threads sleep meanwhile, each with a block of 100 bytes.\n" FILLER_ABOUT
    "Definition: freehold's own.",
  .operation = "calls after the first",
  .example = "bystanders --call malloc_trim --gib 8 --threads 100",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  size_t chosen = 0;
  while (strcmp(calls[chosen].name, call) != 0) chosen++;
  calls[chosen].prepare();
  if (pipe2(gate, O_CLOEXEC) != 0) bench_fail(BENCH_SYSTEM, "pipe: %s", strerror(errno));
  filler_t filler = filler_make();
  team_t team = team_start((size_t)threads, sleeper_body, NULL, 0);
  while (atomic_load(&asleep) < threads) bench_sleep(0.001);

  double first = bench_seconds();
  calls[chosen].once();
  mark_t start = mark_now();
  for (long i = 0; i < times; i++) calls[chosen].once();
  mark_t end = mark_now();
  json_start(&program);
  json_elapsed(start, end, times);
  json_real("first_ns", (start.wall - first) * 1e9);
  filler_json(&filler);
  json_integer("calls", filler.made + threads + (strcmp(call, "thread") == 0 ? times + 1 : 0));
  json_costs();
  json_end();
  close(gate[1]);
  team_join(&team);
  return BENCH_OK;
}
