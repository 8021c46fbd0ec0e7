/* cachelines.c - threads write small blocks over and over: do two of them share a cache line? */
#include "threads.h"

enum { THREADS_MOST = 256 };

static long threads = 2, iterations = 100, size = 8, repetitions = 1000000;
static const char *sharing = "passive";

static void block_write(volatile char *p) {
  for (long i = repetitions / threads; i > 0; i--) {
    for (long k = 0; k < size; k++) {
      p[k] = (char)k;
      (void)p[k];
    }
  }
}

static void *worker_body(void *argument) {
  free(*(void **)argument);
  for (long i = 0; i < iterations; i++) {
    char *p = bench_malloc((size_t)size);
    block_write(p);
    free(p);
  }
  return NULL;
}

static bench_option_t options[] = {
  {.name = "threads", .help = "threads", .number = &threads, .lowest = 1, .highest = THREADS_MOST},
  {.name = "iterations", .help = "blocks of each thread, one after another", .number = &iterations, .lowest = 1,
   .highest = 1 << 30},
  {.name = "size", .help = "bytes of a block", .number = &size, .lowest = 1, .highest = 4096},
  {.name = "repetitions", .help = "how often blocks are written, divided by the number of threads",
   .number = &repetitions, .lowest = 1, .highest = 1L << 40},
  {.name = "sharing", .help = "passive: each thread first frees a block that the main thread allocated for it",
   .text = &sharing, .words = "passive|active"},
  {.name = NULL},
};

static const bench_program_t program = {
  .name = "cachelines",
  .about = "cache-scratch (passive) and cache-thrash (active): false sharing that the allocator causes\n\n"
  "Berger, McKinley, Blumofe and Wilson, \"Hoard\" (ASPLOS 2000), passive-false and active-false. A thread allocates a\n"
  "block, writes and reads each of its bytes --repetitions / --threads times, and frees it; --iterations times. With\n"
  "passive sharing the main thread has allocated one block for every thread, neighbours perhaps, which the threads\n"
  "free first: an allocator that hands these out again shares their cache lines. The work is the same for any number\n"
  "of threads, so `seconds` falls with them where no line is shared.",
  .operation = "bytes that were written, by all threads",
  .example = "cachelines --threads 4 --sharing active",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bool is_passive = strcmp(sharing, "passive") == 0;
  void **first = bench_pages((size_t)threads * sizeof *first, true);
  for (long i = 0; is_passive && i < threads; i++) first[i] = bench_malloc((size_t)size);

  mark_t start = mark_now();
  team_t team = team_start((size_t)threads, worker_body, first, sizeof *first);
  team_join(&team);
  mark_t end = mark_now();

  json_start(&program);
  json_elapsed(start, end, threads * iterations * (repetitions / threads) * size);
  json_costs();
  json_end();
  return BENCH_OK;
}
