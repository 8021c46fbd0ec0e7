/* idle.c - a program that allocates next to nothing: what an allocator costs who hardly uses it */
#include "bench.h"

static long blocks = 10, size = 100;

/* What strict accounting charges for: address space that is private and can be written to. */
static long long charged(void) {
  static char text[1 << 18];
  if (!bench_read("/proc/self/maps", text, sizeof text))
    bench_fail(BENCH_SYSTEM, "cannot read maps");
  long long sum = 0;
  for (char *line = text, *end; line != NULL && *line != '\0'; line = strchr(end, '\n')) {
    line += *line == '\n';
    long long from = strtoll(line, &end, 16), to = strtoll(end + (*end == '-'), &end, 16);
    if (strlen(end) > 4 && end[2] == 'w' && end[4] == 'p') sum += to - from;
  }
  return sum;
}

static bench_option_t options[] = {
  BENCH_NUMBER("blocks", blocks, 0, 1000000, "blocks that are allocated and kept"),
  BENCH_NUMBER("size", size, 8, 1 << 20, "bytes of each"),
  BENCH_END,
};

static const bench_program_t program = {
  .name = "idle",
  .about =
    "allocates a handful of blocks and says what is resident\n\n"
    "`resident` counts every page that is present, the library's code among them. Under strace\n"
    "its system calls can be counted: the workload makes none but those that read /proc and write\n"
    "the result. `charged` is the address space that is private and can be written to: so much\n"
    "the kernel counts against its limit with vm.overcommit_memory 2. Definition: freehold's own.",
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
  json_integer("charged", charged());
  json_costs();
  json_end();
  return BENCH_OK;
}
