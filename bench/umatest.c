/* umatest.c - blocks of random size, zero-filled, of which the first half is freed */
#include "threads.h"

enum { THREADS_MOST = 256 };

static long threads = 1, allocations = 1000000, low = 16, high = 64;

typedef struct worker {
  bench_rng_t rng;
  long count;
  void **blocks;
} worker_t;

static void *worker_body(void *argument) {
  worker_t *w = argument;
  for (long i = 0; i < w->count; i++) {
    size_t size = bench_between(&w->rng, low, high);
    w->blocks[i] = memset(bench_malloc(size), 0, size);
  }
  for (long i = 0; i < w->count / 2; i++) free(w->blocks[i]);
  return NULL;
}

static bench_option_t options[] = {
  {.name = "threads", .help = "NT: threads", .number = &threads, .lowest = 1, .highest = THREADS_MOST},
  {.name = "allocations", .help = "NA: blocks in total", .number = &allocations, .lowest = 1, .highest = 1L << 32},
  {.name = "low", .help = "SI: smallest block", .number = &low, .lowest = 1, .highest = 1 << 20},
  {.name = "high", .help = "SA: largest block", .number = &high, .lowest = 1, .highest = 1 << 20},
  BENCH_SEED,
  {.name = NULL},
};

static const bench_program_t program = {
  .name = "umatest",
  .about = "UMA_test: blocks of uniformly random size, zero-filled, then the first half of them freed\n\n"
  "Elias, Matias, Fernandes and Borges, \"Experimental and theoretical analyses of memory allocation algorithms\"\n"
  "(SAC 2014), Figure 2. NA blocks are shared out evenly over NT threads (what is left over by one each); every\n"
  "thread fills its blocks with zeros and, when it has all of them, frees the first half in the order of birth. The\n"
  "rest lives until the process ends. `resident` is taken when all threads have ended, `grown` is what it is more than\n"
  "before they started.",
  .operation = "blocks that were allocated, by all threads",
  .example = "umatest --allocations 500000 --threads 4 --low 256 --high 1024",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_order("low", low, "high", high);
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  for (long i = 0; i < threads; i++) {
    long share = bench_share(allocations, threads, i);
    workers[i] = (worker_t){bench_seed((uint64_t)i), share, bench_pages((size_t)(share + 1) * sizeof(void *), true)};
  }

  long long before = bench_resident();
  mark_t start = mark_now();
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  team_join(&team);
  mark_t end = mark_now();

  json_start(&program);
  json_elapsed(start, end, allocations);
  json_integer("resident", bench_resident());
  json_integer("grown", bench_resident() - before);
  json_costs();
  json_end();
  return BENCH_OK;
}
