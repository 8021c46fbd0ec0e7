/* large.c - blocks of many pages, replaced at random or all at once */
#include "threads.h"

enum { THREADS_MOST = 256, SLOTS_MOST = 100000, WRITTEN_BYTE = 0x5A };

static long threads = 1, pairs = 5000, slots = 64, low = 20 * 1024, high = 8 << 20, shrink = 1;
static const char *touch = "pages", *replace = "random";

typedef struct worker {
  bench_rng_t rng;
  void **blocks;
} worker_t;

/* Each doubling of the size is as likely as any other, so most are small. Within a doubling all
 * sizes are equally likely. */
static size_t size_next(bench_rng_t *rng) {
  if (high < 2 * low) return (size_t)low + bench_below(rng, (uint32_t)(high - low + 1));
  for (;;) {
    size_t size = bench_mixed_size(rng, 1 << 14, 1 << 28);
    if (size >= (size_t)low && size <= (size_t)high) return size;
  }
}

static void *block_new(bench_rng_t *rng) {
  bool all_pages = strcmp(touch, "pages") == 0, all = strcmp(touch, "all") == 0;
  size_t size = size_next(rng);
  char *p = bench_malloc(size);
  if (all) memset(p, WRITTEN_BYTE, size);
  else bench_touch_pages(p, 0, all_pages ? size : 1);
  void *shorter = shrink > 1 ? realloc(p, size / (size_t)shrink) : p;
  if (shorter == NULL) bench_fail(BENCH_NO_MEMORY, "realloc(%zu) failed", size / (size_t)shrink);
  return shorter;
}

static void *worker_body(void *argument) {
  worker_t *w = argument;
  bool are_all = strcmp(replace, "all") == 0;
  for (long i = 0; i < pairs; i++) {
    uint32_t slot = are_all ? (uint32_t)(i % slots) : bench_below(&w->rng, (uint32_t)slots);
    for (long j = 0; are_all && slot == 0 && j < slots; j++) {
      free(w->blocks[j]);
      w->blocks[j] = NULL;
    }
    free(w->blocks[slot]);
    w->blocks[slot] = block_new(&w->rng);
  }
  return NULL;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads, each with blocks of its own"),
  BENCH_NUMBER("pairs", pairs, 1, LONG_MAX / 2, "replacements by each"),
  BENCH_NUMBER("slots", slots, 1, SLOTS_MOST, "blocks of each thread"),
  BENCH_NUMBER("low", low, 1 << 14, 1 << 28, "smallest block"),
  BENCH_NUMBER("high", high, 1 << 14, 1 << 28, "largest block"),
  BENCH_WORD("touch", touch, "pages|first|all",
             "what is written: a byte of every page, the first alone, or all bytes"),
  BENCH_WORD("replace", replace, "random|all",
             "a block at random; or all are freed when every slot has one"),
  BENCH_NUMBER("shrink", shrink, 1, 1 << 14,
               "by this factor realloc makes each block shorter once it is written"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "large",
  .about =
    "blocks of many pages, replaced at random or all at once\n\n"
    "Every doubling of the size is as likely as any other. `ns` is wall time divided by the pairs\n"
    "of malloc and free of all threads, the writing included. Definition: freehold's own.",
  .operation = "pairs of malloc and free, those of all threads",
  .example = "large --slots 256 --touch first",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_order("low", low, "high", high);
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  for (long i = 0; i < threads; i++) {
    workers[i] =
      (worker_t){bench_seed((uint64_t)i), bench_pages((size_t)slots * sizeof(void *), true)};
  }

  mark_t start = mark_now();
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  team_join(&team);
  mark_t end = mark_now();

  json_start(&program);
  json_elapsed(start, end, pairs * threads);
  json_costs();
  json_end();
  return BENCH_OK;
}
