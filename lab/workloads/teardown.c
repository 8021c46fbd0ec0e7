/* teardown.c - what it costs to free all that a program has, and to allocate nothing meanwhile */
#include "bench.h"

enum { BLOCKS_MOST = 1 << 28, ROUNDS_MOST = 1000 };

static const char *order = "random";
static long blocks = 2000000, rounds = 5, low = 16, span = 240;

static bench_option_t options[] = {
  BENCH_WORD("order", order, "random|oldest|newest", "in which they are freed"),
  BENCH_NUMBER("blocks", blocks, 1, BLOCKS_MOST, "that are alive before all are freed"),
  BENCH_NUMBER("rounds", rounds, 1, ROUNDS_MOST, "how often"),
  BENCH_NUMBER("low", low, 1, 1 << 20, "bytes of the smallest block"),
  BENCH_NUMBER("span", span, 1, 1 << 20, "so many sizes, each as likely as any other"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "teardown",
  .about =
    "one thread allocates blocks of several sizes, and then frees all of them\n\n"
    "So ends a program that takes its tables and trees down. The first bytes of each block are\n"
    "written. Only the frees are timed: `ns` is that of a block in the fastest round, `ns_median`\n"
    "in the median one. Definition: freehold's own.",
  .operation = "blocks that were allocated and freed",
  .example = "teardown --order random --blocks 8M --rounds 3",
  .options = options,
};

static void shuffle(void **p, bench_rng_t *rng) {
  for (long i = blocks - 1; i > 0; i--) {
    uint32_t other = bench_below(rng, (uint32_t)i + 1);
    void *block = p[i];
    p[i] = p[other];
    p[other] = block;
  }
}

static double free_all(void **p) {
  double start = bench_seconds();
  if (strcmp(order, "newest") == 0)
    for (long i = blocks; i-- > 0;) free(p[i]);
  else
    for (long i = 0; i < blocks; i++) free(p[i]);
  return (bench_seconds() - start) * 1e9 / (double)blocks;
}

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  void **p = bench_pages((size_t)blocks * sizeof *p, true);
  bench_rng_t rng = bench_seed(0);
  double ns[ROUNDS_MOST];
  mark_t start = mark_now();
  for (long i = 0; i < rounds; i++) {
    for (long k = 0; k < blocks; k++)
      bench_touch(p[k] = bench_malloc((size_t)low + bench_below(&rng, (uint32_t)span)));
    if (strcmp(order, "random") == 0) shuffle(p, &rng);
    ns[i] = free_all(p);
  }
  mark_t end = mark_now();
  bench_sort(ns, (size_t)rounds);
  json_start(&program);
  json_work(blocks * rounds, mark_between(start, end));
  json_real("ns", ns[0]);
  json_real("ns_median", ns[rounds / 2]);
  json_costs();
  json_end();
  return BENCH_OK;
}
