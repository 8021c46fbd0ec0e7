/* threadchurn.c - threads are born, allocate, free a part, leave the rest to an heir and exit */
#include "threads.h"

enum { THREADS_MOST = 256, BLOCKS_MOST = 1 << 20 };

static long threads = 2, births = 20000, blocks = 200, low = 16, high = 1024;
static atomic_long born; /* and those that were refused, since no more are wanted */

typedef struct worker {
  chain_t chain;
  bench_rng_t rng;
  void **heritage; /* blocks / 2 blocks of the forebear, or NULLs */
} worker_t;

static bool worker_live(void *life) {
  worker_t *w = life;
  for (long i = 0; i < blocks / 2; i++) free(w->heritage[i]);
  void **own = w->heritage;
  void *brief[64];
  /* What is kept and what is soon freed take turns, so that neither fills a slab alone. */
  for (long i = 0; i < blocks / 2;) {
    long n = blocks / 2 - i < 64 ? blocks / 2 - i : 64;
    for (long j = 0; j < n; j++, i++) {
      bench_touch(own[i] = bench_malloc(bench_between(&w->rng, low, high)));
      bench_touch(brief[j] = bench_malloc(bench_between(&w->rng, low, high)));
    }
    for (long j = 0; j < n; j++) free(brief[j]);
  }
  return atomic_fetch_add(&born, 1) < births;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads alive at a time"),
  BENCH_NUMBER("births", births, 1, LONG_MAX / 2, "threads in total"),
  BENCH_NUMBER("blocks", blocks, 2, BLOCKS_MOST, "blocks that each allocates"),
  BENCH_NUMBER("low", low, 8, 1 << 20, "smallest block"),
  BENCH_NUMBER("high", high, 8, 1 << 20, "largest block"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "threadchurn",
  .about =
    "threads that live briefly\n\n"
    "Each thread frees what its forebear left, allocates --blocks blocks of uniformly random\n"
    "size, frees every other one, leaves the rest to its successor, which it starts before it\n"
    "exits. `ns` is wall time divided by the threads born; starting a thread is included and the\n"
    "same for all. Definition: freehold's own.",
  .operation = "threads that were born",
  .example = "threadchurn --threads 16 --births 50K",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_order("low", low, "high", high);
  if (births < threads) {
    bench_fail(BENCH_USAGE, "--births %ld is less than --threads %ld", births, threads);
  }
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  for (long i = 0; i < threads; i++) {
    workers[i].rng = bench_seed((uint64_t)i);
    workers[i].heritage = bench_pages((size_t)blocks * sizeof(void *), true);
  }

  atomic_store(&born, threads);
  mark_t start = mark_now();
  for (long i = 0; i < threads; i++) chain_start(&workers[i].chain, worker_live, &workers[i]);
  for (long i = 0; i < threads; i++) chain_join(&workers[i].chain);
  mark_t end = mark_now();
  long lives = 0;
  for (long i = 0; i < threads; i++) lives += (long)workers[i].chain.births;

  json_start(&program);
  json_elapsed(start, end, lives);
  json_costs();
  json_end();
  return BENCH_OK;
}
