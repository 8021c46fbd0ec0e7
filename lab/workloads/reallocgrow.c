/* reallocgrow.c - vectors that grow by half as much again or in equal steps, strings by a word */
#include "bench.h"

enum { VECTORS_MOST = 1 << 20 };

static const char *mode = "huge";
static long top = 1 << 30, vectors = 2000, times = 0, step = 0;
static bool is_string, is_strict;

/* The next size: by a step, by half as much again, or by a word and a space. Up to `top`. */
static size_t size_after(size_t size, bench_rng_t *rng) {
  size_t more = is_string ? 2 + bench_below(rng, 14) : step > 0 ? (size_t)step : size / 2;
  return size + more < (size_t)top ? size + more : (size_t)top;
}

static char *vector_grow(char *p, size_t from, size_t to) {
  p = realloc(p, to);
  if (p == NULL) bench_fail(BENCH_NO_MEMORY, "realloc to %zu bytes failed", to);
  bench_touch_pages(p, from, to);
  p[to - 1] = 1;
  return p;
}

static long huge_run(void) {
  long steps = 1;
  char *p = vector_grow(NULL, 0, 16);
  for (size_t size = 16, next; size < (size_t)top; size = next, steps++) {
    next = size_after(size, NULL);
    p = vector_grow(p, size, next);
  }
  free(p);
  return steps;
}

/* All grow together, one at random a step further each time, or one after the other. */
static long many_run(void) {
  static size_t sizes[VECTORS_MOST];
  static char *starts[VECTORS_MOST];
  bench_rng_t rng = bench_seed(1);
  long steps = vectors, left = vectors;
  for (long i = 0; i < vectors; i++) starts[i] = vector_grow(NULL, 0, sizes[i] = 16);
  for (long turn = 0; left > 0; turn++) {
    uint32_t i = is_strict ? (uint32_t)(turn % left) : bench_below(&rng, (uint32_t)left);
    size_t next = size_after(sizes[i], &rng);
    starts[i] = vector_grow(starts[i], sizes[i], next);
    sizes[i] = next;
    steps++;
    if (next == (size_t)top) {
      free(starts[i]);
      left--;
      starts[i] = starts[left];
      sizes[i] = sizes[left];
    }
  }
  return steps;
}

static bench_option_t options[] = {
  BENCH_WORD("mode", mode, "huge|many|turns|strings",
             "one vector, or many, or many in strict turns, or many strings"),
  BENCH_NUMBER("top", top, 32, LONG_MAX / 4, "bytes at which one has grown up"),
  BENCH_NUMBER("vectors", vectors, 1, VECTORS_MOST, "how many, but in mode huge"),
  BENCH_NUMBER("times", times, 0, 100000,
               "how often all is done; 0: once in mode huge, else 20 times"),
  BENCH_NUMBER("step", step, 0, 1 << 30, "bytes by which a vector grows; 0: half of its size"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "reallocgrow",
  .about =
    "vectors that grow by realloc by half of their size, or strings by a few bytes\n\n"
    "A vector starts with 16 bytes and grows until it has --top, then it is freed; a string grows\n"
    "by 2 to 15 bytes each time. Of many, one at random grows a step, in mode turns each in its\n"
    "turn. A byte of every new page and the last byte are written. `peak` tells whether the old\n"
    "and the new block were ever present together. Definition: freehold's own.",
  .operation = "calls of realloc",
  .example = "reallocgrow --mode strings --top 1K --vectors 5000",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bool is_huge = strcmp(mode, "huge") == 0;
  is_string = strcmp(mode, "strings") == 0;
  is_strict = strcmp(mode, "turns") == 0;
  if (times == 0) times = is_huge ? 1 : 20;
  long steps = 0;
  mark_t start = mark_now();
  for (long i = 0; i < times; i++) steps += is_huge ? huge_run() : many_run();
  mark_t end = mark_now();
  json_start(&program);
  json_elapsed(start, end, steps);
  json_costs();
  json_end();
  return BENCH_OK;
}
