/* heapsize.c - what one call costs in a process that holds much already */
#include <malloc.h>

#include "filler.h"

enum { SLOTS_MOST = 1 << 20 };

static const char *call = "malloc";
static long size = 128 << 10, alignment = 4096, rounds = 200, slots = 100;
static void **blocks;

static void *block_checked(void *p) {
  if (__builtin_expect(p == NULL, 0)) bench_fail(BENCH_NO_MEMORY, "%s(%ld) failed", call, size);
  return p;
}

/* ---- what is measured, for all slots --------------------------------------------------------- */

static void all_malloc(void) {
  for (long i = 0; i < slots; i++) blocks[i] = block_checked(malloc((size_t)size));
}

static void all_calloc(void) {
  for (long i = 0; i < slots; i++) blocks[i] = block_checked(calloc(1, (size_t)size));
}

static void all_aligned_alloc(void) {
  size_t rounded = ((size_t)size + (size_t)alignment - 1) & ~((size_t)alignment - 1);
  for (long i = 0; i < slots; i++) {
    blocks[i] = block_checked(aligned_alloc((size_t)alignment, rounded));
  }
}

static void all_free(void) {
  for (long i = 0; i < slots; i++) free(blocks[i]);
}

static void all_realloc(size_t to) {
  for (long i = 0; i < slots; i++) blocks[i] = block_checked(realloc(blocks[i], to));
}

static bool is_call(const char *name) { return strcmp(call, name) == 0; }

static void round_allocate(void) {
  if (is_call("calloc")) all_calloc();
  else if (is_call("aligned_alloc")) all_aligned_alloc();
  else all_malloc();
}

static void round_run(void) {
  if (is_call("realloc")) {
    all_realloc((size_t)(size + size / 4));
    all_realloc((size_t)size);
  } else {
    all_free();
    round_allocate();
  }
}

static bench_option_t options[] = {
  BENCH_WORD("call", call, "malloc|calloc|realloc|aligned_alloc", "what is measured"),
  BENCH_NUMBER("size", size, 16, 1L << 34, "bytes of a block"),
  BENCH_NUMBER("alignment", alignment, 8, 1 << 30, "for aligned_alloc, a power of two"),
  BENCH_NUMBER("slots", slots, 1, SLOTS_MOST, "blocks of that size alive at a time"),
  BENCH_NUMBER("rounds", rounds, 1, LONG_MAX / SLOTS_MOST, "how often all of them are replaced"),
  FILLER_OPTIONS,
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "heapsize",
  .about =
    "the time of a call in a large heap\n\n"
    "--slots blocks of --size bytes are allocated; `first_ns` is the time of one. In each round\n"
    "all are freed and allocated again, or with realloc grow by a quarter and shrink back; `ns`\n"
    "is the time of one such pair of calls. No block is written.\n" FILLER_ABOUT
    "Definition: freehold's own.",
  .operation = "pairs of calls",
  .example = "heapsize --gib 8 --call aligned_alloc --size 2M --alignment 2M",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  if (!is_power_of_two(alignment)) bench_fail(BENCH_USAGE, "--alignment is no power of two");
  filler_t filler = filler_make();
  blocks = bench_pages((size_t)slots * sizeof *blocks, true);
  double first = bench_seconds();
  round_allocate();
  mark_t start = mark_now();
  for (long i = 0; i < rounds; i++) round_run();
  mark_t end = mark_now();
  json_start(&program);
  json_elapsed(start, end, slots * rounds);
  json_real("first_ns", (start.wall - first) * 1e9 / (double)slots);
  filler_json(&filler);
  json_integer("calls", slots + slots * rounds * (is_call("realloc") ? 2 : 1) + filler.made);
  json_costs();
  json_end();
  return BENCH_OK;
}
