/* filler.h - a heap that is large already: blocks that nobody touches, with holes among them
 *
 * Threads: the main thread's.
 * Holds:   the table of blocks comes from mmap; only what the allocator itself writes is resident,
 *          so that a hundred GiB need no more than address space. */
#ifndef BENCH_FILLER_H
#define BENCH_FILLER_H

#include <sys/prctl.h>

#include "bench.h"

static long filler_gib, filler_low = 64 << 10, filler_high = 1 << 20, filler_holes = 10;

#define FILLER_OPTIONS                                                                             \
  BENCH_NUMBER("gib", filler_gib, 0, 4096, "GiB that live before the clock starts, untouched"),    \
    BENCH_NUMBER("filler-low", filler_low, 16, 1 << 30, "smallest block of these, a power of 2"),  \
    BENCH_NUMBER("filler-high", filler_high, 32, 1 << 30, "largest, a power of 2"),                \
    BENCH_NUMBER("holes", filler_holes, 0, 90, "percent of them that were freed again, at random")

#define FILLER_ABOUT                                                                               \
  "Before that --gib GiB of blocks are allocated that nobody touches, each doubling of the size\n" \
  "from --filler-low to --filler-high as likely as any other, and more, of which as many are\n"    \
  "freed again, at random, as make --holes percent; transparent huge pages are off. `fill_ns`\n"   \
  "is the time of one malloc of these, `fillers` their number.\n"

typedef struct filler {
  char **blocks;
  uint32_t *sizes;
  long count, made;
  mark_t spent; /* on the allocation alone */
} filler_t;

static inline void filler_drop(filler_t *f, long at) {
  free(f->blocks[at]);
  f->blocks[at] = f->blocks[--f->count];
  f->sizes[at] = f->sizes[f->count];
}

static inline filler_t filler_make(void) {
  bench_check_powers("filler-low", filler_low, "filler-high", filler_high);
  if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) bench_fail(BENCH_SYSTEM, "prctl failed");
  uint64_t wanted = (uint64_t)filler_gib << 30, live = 0;
  uint64_t most = wanted * 100 / (uint64_t)(100 - filler_holes), room = most / (uint64_t)filler_low;
  filler_t f = {.blocks = bench_pages((room + 1) * sizeof *f.blocks, false),
                .sizes = bench_pages((room + 1) * sizeof *f.sizes, false)};
  bench_rng_t rng = bench_seed(1000);
  mark_t start = mark_now();
  for (; live < most; live += f.sizes[f.count++]) {
    size_t size = bench_mixed_size(&rng, (size_t)filler_low, (size_t)filler_high);
    f.blocks[f.count] = bench_malloc(size);
    f.sizes[f.count] = (uint32_t)size;
  }
  f.spent = mark_between(start, mark_now());
  f.made = f.count;
  while (live > wanted) {
    long at = (long)bench_below(&rng, (uint32_t)f.count);
    live -= f.sizes[at];
    filler_drop(&f, at);
  }
  return f;
}

static inline void filler_json(const filler_t *f) {
  double count = f->made == 0 ? 1 : (double)f->made;
  json_integer("fillers", f->made);
  json_real("fill_ns", f->spent.wall * 1e9 / count);
  json_real("fill_processor_ns", f->spent.processor * 1e9 / count);
}

#endif
