/* idle.c - a program that allocates next to nothing: what the allocator costs those who hardly use it */
#include "bench.h"

static long blocks = 10, size = 100;

static bench_option_t options[] = {
  {.name = "blocks", .help = "blocks that are allocated and kept", .number = &blocks, .lowest = 0, .highest = 1000000},
  {.name = "size", .help = "bytes of each", .number = &size, .lowest = 8, .highest = 1 << 20},
  {.name = NULL},
};

static const bench_program_t program = {
  .name = "idle",
  .about = "allocates a handful of blocks and says what is resident\n\n"
  "`resident` counts every page that is present, the library's code among them. Under strace its system calls can be\n"
  "counted: the workload makes none but those that read /proc and write the result. Definition: freehold's own.",
  .operation = "blocks that were allocated",
  .example = "strace -c -E LD_PRELOAD=libjemalloc.so.2 idle",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  mark_t start = mark_now();
  for (long i = 0; i < blocks; i++) bench_touch(bench_malloc((size_t)size));
  mark_t end = mark_now();
  json_start(&program);
  json_work(blocks, mark_between(start, end));
  json_integer("resident", bench_resident());
  json_costs();
  json_end();
  return BENCH_OK;
}
