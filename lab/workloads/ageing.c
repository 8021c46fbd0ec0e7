/* ageing.c - heaps that grow old: how much is resident for what lives?
 *
 * Holds:   live <= --bytes at all times, `table` has its blocks without gaps. */
#include "bench.h"

enum { LEAST = 16, MOST = 1 << 16, RADIX_BITS = 11, RADIX = 1 << RADIX_BITS, ADDRESS_BITS = 48 };

static long bytes = 64L << 20, rounds = 2;
static const char *kind = "robson";

typedef struct item {
  void *block;
  size_t size;
} item_t;

static item_t *table, *spare; /* the second only for sorting */
static long count, room, operations;
static size_t live;
static long long before;
static double ratio_most, ratio_sum;
static long samples;
static bench_rng_t rng;

/* ---- the heap -------------------------------------------------------------------------------- */

static void block_add(size_t size) {
  if (count == room) bench_fail(BENCH_SYSTEM, "more blocks than expected");
  table[count++] = (item_t){memset(bench_malloc(size), 1, size), size};
  live += size;
  operations++;
}

static void block_drop(long at) {
  live -= table[at].size;
  free(table[at].block);
  table[at] = table[--count];
}

static void sample_take(void) {
  double ratio = (double)(bench_resident() - before) / (double)bytes;
  if (ratio > ratio_most) ratio_most = ratio;
  ratio_sum += ratio;
  samples++;
}

/* ---- Robson: what survives lies as widely spread as can be ----------------------------------- */

static void sort_digit(const item_t *from, item_t *to, int shift) {
  static long starts[RADIX + 1];
  memset(starts, 0, sizeof starts);
  for (long i = 0; i < count; i++) starts[((uintptr_t)from[i].block >> shift) % RADIX + 1]++;
  for (int i = 0; i < RADIX; i++) starts[i + 1] += starts[i];
  for (long i = 0; i < count; i++) {
    to[starts[((uintptr_t)from[i].block >> shift) % RADIX]++] = from[i];
  }
}

/* By address, without the allocator's help. Blocks are aligned to 8, so three bits need no pass. */
static void table_sort(void) {
  for (int shift = 3; shift < ADDRESS_BITS; shift += RADIX_BITS) {
    sort_digit(table, spare, shift);
    item_t *sorted = spare;
    spare = table;
    table = sorted;
  }
}

static void table_thin(void) {
  long kept = 0;
  for (long i = 0; i < count; i++) {
    if (i % 2 == 0) {
      table[kept++] = table[i];
    } else {
      live -= table[i].size;
      free(table[i].block);
    }
  }
  count = kept;
}

static void robson_round(void) {
  for (size_t size = LEAST; size <= MOST; size *= 2) {
    while (live + size <= (size_t)bytes) block_add(size);
    sample_take();
    table_sort();
    table_thin();
    sample_take();
  }
  while (count > 0) block_drop(count - 1);
}

/* ---- a walk: sizes that are wanted change slowly --------------------------------------------- */

static void walk_round(void) {
  static size_t centre = 256;
  size_t next = bench_below(&rng, 2) == 0 ? centre / 2 : centre * 2;
  if (next >= 2 * LEAST && next <= MOST / 2) centre = next;
  /* About an eighth of the heap is replaced before the sizes change again. */
  for (size_t replaced = 0; replaced < (size_t)bytes / 8;) {
    size_t size = bench_mixed_size(&rng, centre / 2, centre * 2);
    while (live + size > (size_t)bytes) block_drop((long)bench_below(&rng, (uint32_t)count));
    block_add(size);
    replaced += size;
  }
  sample_take();
}

static bench_option_t options[] = {
  BENCH_WORD("kind", kind, "robson|walk", "how the heap grows old"),
  BENCH_NUMBER("bytes", bytes, 1 << 20, 1L << 36, "alive at most"),
  BENCH_NUMBER("rounds", rounds, 1, 1 << 20, "rounds"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "ageing",
  .about =
    "a heap that grows old: fragmentation\n\n"
    "robson: --bytes are filled with blocks of 16 bytes, every other block, by address, is freed,\n"
    "and what came free is filled with blocks of twice the size, up to 64 KiB; a round is all of\n"
    "this from an empty heap. The scheme is that of Robson's bound (\"Bounds for some functions\n"
    "concerning dynamic storage allocation\", JACM 1974), the choice of what survives is simpler.\n"
    "walk: blocks at random are replaced by blocks of a size that doubles or halves by chance\n"
    "after every eighth of --bytes, between 16 bytes and 64 KiB. Every byte is written. `ratio`\n"
    "is what is resident, less what was before, over --bytes, on average over the samples;\n"
    "`ratio_most` the largest, which is what Robson's bound is about. Definition: freehold's own.",
  .operation = "blocks that were allocated",
  .example = "ageing --kind walk --bytes 256M",
  .options = options,
};

int main(int argument_count, char **arguments) {
  bench_start(argument_count, arguments, &program);
  room = bytes / LEAST + 1;
  table = bench_pages((size_t)room * sizeof *table, true);
  spare = bench_pages((size_t)room * sizeof *spare, true);
  rng = bench_seed(0);
  before = bench_resident();
  bool is_walk = strcmp(kind, "walk") == 0;

  mark_t start = mark_now();
  for (long i = 0; i < rounds; i++) {
    if (is_walk) walk_round();
    else robson_round();
  }
  mark_t end = mark_now();

  json_start(&program);
  json_elapsed(start, end, operations);
  json_real("ratio", ratio_sum / (double)samples);
  json_real("ratio_most", ratio_most);
  json_costs();
  json_end();
  return BENCH_OK;
}
