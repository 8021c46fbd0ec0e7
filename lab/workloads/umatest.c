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
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "NT: threads"),
  BENCH_NUMBER("allocations", allocations, 1, 1L << 32, "NA: blocks in total"),
  BENCH_NUMBER("low", low, 1, 1 << 20, "SI: smallest block"),
  BENCH_NUMBER("high", high, 1, 1 << 20, "SA: largest block"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "umatest",
  .about =
    "UMA_test: zero-filled blocks of random size, of which the first half is freed\n\n"
    "Elias, Matias, Fernandes and Borges, \"Experimental and theoretical analyses of memory\n"
    "allocation algorithms\" (SAC 2014), Figure 2. NA blocks are shared out evenly over NT\n"
    "threads (what is left over by one each); every thread fills its blocks with zeros and, when\n"
    "it has all of them, frees the first half in the order of birth. The rest lives until the\n"
    "process ends. `resident` is taken when all threads have ended, `grown` is what it is more\n"
    "than before they started.",
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
    workers[i] = (worker_t){bench_seed((uint64_t)i), share,
                            bench_pages((size_t)(share + 1) * sizeof(void *), true)};
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
