/* metadata.c - a heap full of small blocks: how much of it are the blocks? */
#include <freehold/freehold.h>
#include <malloc.h>

#include "bench.h"

static long bytes = 1L << 30, low = 16, high = 1024;

/* What freehold itself says about its metadata; false under any other allocator. */
static bool own_metadata(uint64_t *metadata) {
  bool (*stats_get)(fh_stats_t *) = NULL;
  *(void **)&stats_get = dlsym(RTLD_DEFAULT, "fh_stats_get");
  static fh_stats_t stats;
  stats.struct_size = sizeof stats;
  if (stats_get == NULL || !stats_get(&stats)) return false;
  *metadata = stats.metadata;
  return true;
}

static bench_option_t options[] = {
  BENCH_NUMBER("bytes", bytes, 1 << 20, 1L << 38, "that are asked for in all"),
  BENCH_NUMBER("low", low, 16, 1 << 20, "smallest block, a power of two"),
  BENCH_NUMBER("high", high, 32, 1 << 20, "largest block, a power of two"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "metadata",
  .about =
    "fills a heap with small blocks of mixed sizes and weighs it\n\n"
    "Each doubling of the size is as likely as any other, every byte is written. `usable` sums\n"
    "malloc_usable_size, the bytes asked for and what rounding adds. `overhead` is what is\n"
    "resident beyond these, over `usable`: metadata and whatever else is touched; `waste` is the\n"
    "same over the bytes asked for. Under freehold `metadata_share` is its own figure over\n"
    "`usable`. Definition: freehold's own.",
  .operation = "blocks that were allocated",
  .example = "metadata --bytes 256M --high 4K",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_powers("low", low, "high", high);
  bench_rng_t rng = bench_seed(1);
  long long before = bench_resident(), requested = 0, usable = 0, blocks = 0;
  mark_t start = mark_now();
  /* Nothing is freed, so no table of the blocks is needed. */
  for (; requested < bytes; blocks++) {
    size_t size = bench_mixed_size(&rng, (size_t)low, (size_t)high);
    void *p = bench_malloc(size);
    memset(p, 1, size);
    requested += (long long)size;
    usable += (long long)malloc_usable_size(p);
  }
  mark_t end = mark_now();
  long long resident = bench_resident() - before;

  json_start(&program);
  json_elapsed(start, end, blocks);
  json_integer("requested", requested);
  json_integer("usable", usable);
  json_integer("resident", resident);
  json_real("overhead", (double)(resident - usable) / (double)usable);
  json_real("waste", (double)(resident - requested) / (double)requested);
  uint64_t metadata;
  if (own_metadata(&metadata)) json_real("metadata_share", (double)metadata / (double)usable);
  json_costs();
  json_end();
  return BENCH_OK;
}
