/* patterns.c - six patterns of one thread, in nanoseconds per pair of malloc and free
 *
 * `pingpong_run` is also what callgrind counts: the two calls and as little else as can be. */
#include "bench.h"

enum { SMALL = 32, LOW = 16, SPAN = 240, QUEUE = 20000, PASSES_MOST = 1000 };

static const char *pattern = "pingpong";
static long pairs = 400000, passes = 15, instructions = 0;

static void **slots; /* the blocks that a pattern keeps between its calls */
static bench_rng_t rng;

/* ---- patterns: each makes `count` pairs ------------------------------------------------------ */

static void pingpong_run(long count) {
  for (; count > 0; count--) {
    char *p = malloc(SMALL);
    *(volatile char *)p = 1;
    free(p);
  }
}

static void batch_run(long count) {
  for (; count > 0; count -= QUEUE) {
    for (int i = 0; i < QUEUE; i++) bench_touch(slots[i] = bench_malloc(SMALL));
    for (int i = 0; i < QUEUE; i++) free(slots[i]);
  }
}

static void random_run(long count, uint32_t live) {
  bench_rng_t r = rng;
  for (; count > 0; count--) {
    uint32_t slot = bench_below(&r, live);
    free(slots[slot]);
    bench_touch(slots[slot] = bench_malloc(LOW + bench_below(&r, SPAN)));
  }
  rng = r;
}

static void random_1k_run(long count) { random_run(count, 1000); }
static void random_20k_run(long count) { random_run(count, 20000); }
static void random_1m_run(long count) { random_run(count, 1000000); }

static void fifo_run(long count) {
  static size_t oldest;
  bench_rng_t r = rng;
  size_t at = oldest;
  for (; count > 0; count--) {
    free(slots[at]);
    bench_touch(slots[at] = bench_malloc(LOW + bench_below(&r, SPAN)));
    at = at + 1 == QUEUE ? 0 : at + 1;
  }
  rng = r;
  oldest = at;
}

typedef struct pattern {
  const char *name;
  void (*run)(long count);
  size_t slots;
  bool filled; /* starts with a block in every slot */
} pattern_t;

static const pattern_t patterns[] = {
  {"pingpong", pingpong_run, 0, false},        {"batch", batch_run, QUEUE, false},
  {"random-1k", random_1k_run, 1000, true},    {"random-20k", random_20k_run, 20000, true},
  {"random-1m", random_1m_run, 1000000, true}, {"fifo", fifo_run, QUEUE, true},
};

static bench_option_t options[] = {
  BENCH_WORD("pattern", pattern, "pingpong|batch|random-1k|random-20k|random-1m|fifo", "which one"),
  BENCH_NUMBER("pairs", pairs, 1, LONG_MAX / 2, "pairs of a pass"),
  BENCH_NUMBER("passes", passes, 1, PASSES_MOST, "passes that are timed"),
  BENCH_NUMBER("instructions", instructions, 0, LONG_MAX / 2,
               "make just so many pairs, untimed, after a fixed warm-up; 0: off"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "patterns",
  .about =
    "one thread, one of six patterns of malloc and free\n\n"
    "  pingpong    a block of 32 bytes is freed at once\n"
    "  batch       20,000 blocks of 32 bytes, then freed in the order of their birth\n"
    "  random-1k   among 1,000 blocks of 16 to 255 bytes one at random is replaced;\n"
    "  random-20k  among 20,000;   random-1m  among 1,000,000\n"
    "  fifo        among 20,000 blocks of 16 to 255 bytes the oldest is replaced\n"
    "\n"
    "The first bytes of each block are written. After a warm-up come the passes, short enough\n"
    "that some run undisturbed; `ns` is the fastest pass divided by its pairs, `ns_median` the\n"
    "median one. --instructions is for callgrind: the difference of two runs of different length,\n"
    "divided by the difference of their pairs, is exact. Definition: freehold's own.",
  .operation = "pairs of malloc and free",
  .example = "LD_PRELOAD=libjemalloc.so.2 patterns --pattern random-1k --pairs 4M",
  .options = options,
};

/* Only what callgrind is to count, and a line that says so. */
static void run_counted(const pattern_t *p) {
  p->run(QUEUE);
  mark_t start = mark_now();
  p->run(instructions);
  json_start(&program);
  json_elapsed(start, mark_now(), instructions);
  json_end();
}

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  const pattern_t *p = patterns;
  while (strcmp(p->name, pattern) != 0) p++;

  slots = bench_pages((p->slots + 1) * sizeof *slots, true);
  rng = bench_seed(1);
  for (size_t i = 0; p->filled && i < p->slots; i++) {
    bench_touch(slots[i] = bench_malloc(LOW + bench_below(&rng, SPAN)));
  }
  if (instructions > 0) {
    run_counted(p);
    return BENCH_OK;
  }

  if (p->run == batch_run) pairs = (pairs + QUEUE - 1) / QUEUE * QUEUE;
  double ns[PASSES_MOST];
  p->run(QUEUE + 2 * (long)p->slots); /* every block has been replaced by then */
  mark_t start = mark_now();
  for (long i = 0; i < passes; i++) {
    double start = bench_seconds();
    p->run(pairs);
    ns[i] = (bench_seconds() - start) * 1e9 / (double)pairs;
  }
  mark_t end = mark_now();
  bench_sort(ns, (size_t)passes);
  json_start(&program);
  json_work(pairs * passes, mark_between(start, end));
  json_real("ns", ns[0]);
  json_real("ns_median", ns[passes / 2]);
  json_costs();
  json_end();
  return BENCH_OK;
}
