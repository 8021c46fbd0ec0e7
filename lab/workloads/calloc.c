/* calloc.c - zeroed blocks, replaced at random */
#include "bench.h"

enum { SLOTS_MOST = 1 << 20 };

static long pairs = 2000000, slots = 1000, low = 16, high = 16384, dirty = 1;

static bench_option_t options[] = {
  BENCH_NUMBER("pairs", pairs, 1, LONG_MAX / 2, "replacements"),
  BENCH_NUMBER("slots", slots, 1, SLOTS_MOST, "blocks alive at a time"),
  BENCH_NUMBER("low", low, 8, 1 << 26, "smallest block, a power of two"),
  BENCH_NUMBER("high", high, 16, 1 << 28, "largest block, a power of two"),
  BENCH_NUMBER("dirty", dirty, 0, 100,
               "percent of the pages of a block that are written, its first"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "calloc",
  .about =
    "blocks from calloc, replaced at random\n\n"
    "Each doubling of the size is as likely as any other. The first and the last word of every\n"
    "block are read and have to be zero; then the first is written, and a byte of each page as\n"
    "far as --dirty says. Small blocks show what zeroing costs, large ones whether pages are\n"
    "zeroed that the kernel has just handed over. Definition: freehold's own.",
  .operation = "pairs of calloc and free",
  .example = "calloc --low 64K --high 4M --slots 50 --pairs 20000 --dirty 10",
  .options = options,
};

static void *block_new(bench_rng_t *rng) {
  size_t size = bench_mixed_size(rng, (size_t)low, (size_t)high);
  char *p = calloc(1, size);
  if (p == NULL) bench_fail(BENCH_NO_MEMORY, "calloc of %zu bytes failed", size);
  if (*(uint64_t *)p != 0 || p[size - 1] != 0) {
    bench_fail(BENCH_SYSTEM, "calloc gave a block that is not zero");
  }
  bench_touch(p);
  bench_touch_pages(p, 0, size / 100 * (size_t)dirty);
  p[size - 1] = 1;
  return p;
}

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_powers("low", low, "high", high);
  void **blocks = bench_pages((size_t)slots * sizeof *blocks, true);
  bench_rng_t rng = bench_seed(0);
  for (long i = 0; i < slots; i++) blocks[i] = block_new(&rng);

  mark_t start = mark_now();
  for (long i = 0; i < pairs; i++) {
    uint32_t slot = bench_below(&rng, (uint32_t)slots);
    free(blocks[slot]);
    blocks[slot] = block_new(&rng);
  }
  mark_t end = mark_now();

  json_start(&program);
  json_elapsed(start, end, pairs);
  json_costs();
  json_end();
  return BENCH_OK;
}
