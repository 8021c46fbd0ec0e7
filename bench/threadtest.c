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
  {.name = "threads", .help = "threads", .number = &threads, .lowest = 1, .highest = THREADS_MOST},
  {.name = "rounds", .help = "rounds of each thread", .number = &rounds, .lowest = 1, .highest = 1 << 30},
  {.name = "blocks", .help = "blocks of a round", .number = &blocks, .lowest = 1, .highest = 1 << 30},
  {.name = "size", .help = "bytes of a block", .number = &size, .lowest = 1, .highest = 1 << 20},
  {.name = "work", .help = "turns of an empty loop after each call", .number = &work, .lowest = 0, .highest = 1 << 20},
  {.name = NULL},
};

static const bench_program_t program = {
  .name = "threadtest",
  .about = "rounds of a batch of small blocks that is allocated and freed in the order of birth\n\n"
  "Berger, McKinley, Blumofe and Wilson, \"Hoard\" (ASPLOS 2000), with the numbers of Michael, \"Scalable lock-free\n"
  "dynamic memory allocation\" (PLDI 2004): 100 rounds of 100,000 blocks of 8 bytes by every thread. The blocks are\n"
  "not written.",
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
