/* threadtest.c - rounds in which each thread allocates a batch of blocks and frees it */
#include "threads.h"

enum { THREADS_MOST = 256 };

static long threads = 1, rounds = 100, blocks = 100000, size = 8, work = 0;

/* What a program would do with a block: nothing, or a loop that no compiler removes. */
static void work_do(void) {
  for (volatile long i = 0; i < work; i++) {}
}

static void *worker_body(void *argument) {
  void **slots = *(void ***)argument;
  for (long round = 0; round < rounds; round++) {
    for (long i = 0; i < blocks; i++) {
      slots[i] = bench_malloc((size_t)size);
      if (work > 0) work_do();
    }
    for (long i = 0; i < blocks; i++) {
      free(slots[i]);
      if (work > 0) work_do();
    }
  }
  return NULL;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("rounds", rounds, 1, 1 << 30, "rounds of each thread"),
  BENCH_NUMBER("blocks", blocks, 1, 1 << 30, "blocks of a round"),
  BENCH_NUMBER("size", size, 1, 1 << 20, "bytes of a block"),
  BENCH_NUMBER("work", work, 0, 1 << 20, "turns of an empty loop after each call"),
  BENCH_END,
};

static const bench_program_t program = {
  .name = "threadtest",
  .about =
    "rounds of a batch of small blocks that is allocated and freed in the order of birth\n\n"
    "Berger, McKinley, Blumofe and Wilson, \"Hoard\" (ASPLOS 2000), with the numbers of Michael,\n"
    "\"Scalable lock-free dynamic memory allocation\" (PLDI 2004): 100 rounds of 100,000 blocks\n"
    "of 8 bytes by every thread. The blocks are not written.",
  .operation = "pairs of malloc and free, those of all threads",
  .example = "threadtest --threads 4 --size 64",
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
  json_elapsed(start, end, threads * rounds * blocks);
  json_costs();
  json_end();
  return BENCH_OK;
}
