/* scalability.c - each thread fills memory with blocks of one size and frees them all */
#include "threads.h"

enum { THREADS_MOST = 256 };

static long threads = 1, blocks = 10000000, size = 16;

static void *worker_body(void *argument) {
  void **slots = *(void ***)argument;
  for (long i = 0; i < blocks; i++) slots[i] = bench_malloc((size_t)size);
  for (long i = 0; i < blocks; i++) free(slots[i]);
  return NULL;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("blocks", blocks, 1, 1L << 32, "blocks of each thread"),
  BENCH_NUMBER("size", size, 1, 1 << 20, "bytes of a block"),
  BENCH_END,
};

static const bench_program_t program = {
  .name = "scalability",
  .about =
    "linux-scalability: each thread allocates blocks of one size, then frees them all\n\n"
    "After the test of the Linux Scalability project (Lever and Boreham, USENIX 2000) as\n"
    "allocators are measured with it since: 10,000,000 blocks of 16 bytes a thread, all alive\n"
    "before the first is freed, freed in the order of birth. The blocks are not written; their\n"
    "addresses go into a table of the workload's own.",
  .operation = "pairs of malloc and free, those of all threads",
  .example = "scalability --threads 4 --blocks 1000000",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  void ***tables = bench_pages((size_t)threads * sizeof *tables, true);
  for (long i = 0; i < threads; i++) tables[i] = bench_pages((size_t)blocks * sizeof(void *), true);

  mark_t start = mark_now();
  team_t team = team_start((size_t)threads, worker_body, tables, sizeof *tables);
  team_join(&team);
  mark_t end = mark_now();

  json_start(&program);
  json_elapsed(start, end, threads * blocks);
  json_costs();
  json_end();
  return BENCH_OK;
}
