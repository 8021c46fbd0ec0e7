/* malloctest.c - pairs of malloc and free of one size */
#include "threads.h"

enum { THREADS_MOST = 256 };

static long threads = 1, pairs = 40000000, size = 512;

static void *worker_body(void *argument) {
  for (long i = *(long *)argument; i > 0; i--) free(bench_malloc((size_t)size));
  return NULL;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("pairs", pairs, 1, 1L << 40, "pairs in total"),
  BENCH_NUMBER("size", size, 1, 1 << 30, "bytes of a block"),
  BENCH_END,
};

static const bench_program_t program = {
  .name = "malloctest",
  .about =
    "malloc-test: threads allocate a block and free it at once, over and over\n\n"
    "Lever and Boreham, \"malloc() performance in a multithreaded Linux environment\" (USENIX\n"
    "2000), the first of their tests, with a total of pairs that the threads share evenly:\n"
    "40,000,000 of 512 bytes. The block is not written.",
  .operation = "pairs of malloc and free, those of all threads",
  .example = "malloctest --threads 4 --size 8192",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  long *shares = bench_pages((size_t)threads * sizeof *shares, true);
  for (long i = 0; i < threads; i++) shares[i] = bench_share(pairs, threads, i);

  mark_t start = mark_now();
  team_t team = team_start((size_t)threads, worker_body, shares, sizeof *shares);
  team_join(&team);
  mark_t end = mark_now();

  json_start(&program);
  json_elapsed(start, end, pairs);
  json_costs();
  json_end();
  return BENCH_OK;
}
