/* cachelines.c - threads write small blocks over and over: do two of them share a cache line? */
#include "threads.h"

enum { THREADS_MOST = 256 };

static long threads = 2, iterations = 1000, size = 1, repetitions = 1000000;
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
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("iterations", iterations, 1, 1 << 30, "blocks of each thread, one after another"),
  BENCH_NUMBER("size", size, 1, 4096, "bytes of a block"),
  BENCH_NUMBER("repetitions", repetitions, 1, 1L << 40,
               "how often blocks are written, divided by the number of threads"),
  BENCH_WORD("sharing", sharing, "passive|active",
             "passive: each thread first frees a block that the main thread allocated for it"),
  BENCH_END,
};

static const bench_program_t program = {
  .name = "cachelines",
  .about =
    "cache-scratch and cache-thrash: false sharing that the allocator causes\n\n"
    "Berger, McKinley, Blumofe and Wilson, \"Hoard\" (ASPLOS 2000), passive-false and active-\n"
    "false. A thread allocates a block, writes and reads each of its bytes --repetitions /\n"
    "--threads times, and frees it; --iterations times. With passive sharing the main thread has\n"
    "allocated one block for every thread, neighbours perhaps, which the threads free first: an\n"
    "allocator that hands these out again shares their cache lines. The work is the same for any\n"
    "number of threads, so `seconds` falls with them where no line is shared. The numbers are\n"
    "those that Hoard's own programs name: 1,000 blocks of 1 byte, 1,000,000 repetitions.",
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
