/* onefrees.c - many threads only allocate, one only frees: how large is the heap? */
#include <malloc.h>

#include "threads.h"

enum { THREADS_MOST = 256, SAMPLES_MOST = 10000, LOW = 16, HIGH = 1 << 14 };

static long threads = 16, bytes = 256L << 20, milliseconds = 3000, period = 20;
static const char *order = "oldest";
static queue_t queue;
static atomic_llong live; /* usable bytes of all blocks that are not freed */
static atomic_llong operations;
static atomic_bool stop;

static void *producer_body(void *argument) {
  bench_rng_t rng = *(bench_rng_t *)argument;
  batch_t batch = {.count = QUEUE_BATCH};
  while (!atomic_load(&stop)) {
    for (int i = 0; i < QUEUE_BATCH; i++) {
      size_t size = bench_mixed_size(&rng, LOW, HIGH);
      memset(batch.blocks[i] = bench_malloc(size), 1, size);
      atomic_fetch_add(&live, (long long)malloc_usable_size(batch.blocks[i]));
    }
    queue_put(&queue, &batch);
    atomic_fetch_add(&operations, QUEUE_BATCH);
  }
  batch.count = 0;
  queue_put(&queue, &batch);
  return NULL;
}

static void block_free(void *p) {
  atomic_fetch_sub(&live, (long long)malloc_usable_size(p));
  free(p);
}

/* The blocks that the freeing thread has been given, a ring from `first` on. Its room is never
 * full: a block has 2.4 KiB on average. */
static void **kept;
static size_t room, first, count;

static void *victim_take(bench_rng_t *rng) {
  size_t at = first;
  if (strcmp(order, "random") == 0) {
    at = (first + bench_below(rng, (uint32_t)count)) % room;
    void *p = kept[at];
    kept[at] = kept[first];
    kept[first] = p;
  }
  void *victim = kept[first];
  first = (first + 1) % room;
  count--;
  return victim;
}

static void *freer_body(void *argument) {
  bench_rng_t rng = bench_seed(99);
  batch_t batch;
  for (long ended = 0; ended < threads;) {
    queue_get(&queue, &batch);
    ended += batch.count == 0;
    for (size_t i = 0; i < batch.count; i++) {
      if (count == room) bench_fail(BENCH_SYSTEM, "more blocks than expected");
      kept[(first + count++) % room] = batch.blocks[i];
      while (count > 0 && atomic_load(&live) > bytes) block_free(victim_take(&rng));
    }
  }
  return argument;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads that allocate"),
  BENCH_NUMBER("bytes", bytes, 1 << 20, 1L << 36, "that are kept alive"),
  BENCH_WORD("order", order, "oldest|random", "which block is freed"),
  BENCH_NUMBER("milliseconds", milliseconds, 100, 600000, "for how long"),
  BENCH_NUMBER("period", period, 1, 10000, "milliseconds from sample to sample"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "onefrees",
  .about =
    "many threads allocate, one thread frees all of it\n\n"
    "Sizes from 16 bytes to 16 KiB, each doubling as likely as any other, every byte written; the\n"
    "thread that frees does so whenever more than --bytes are alive. Sampled once --bytes have\n"
    "been reached: resident, less what was before, over the usable bytes of live blocks; `ratio`\n"
    "is the median, `ratio_most` the largest, `ratio_last` the last. After mimalloc's issue 1364.",
  .operation = "blocks that were allocated, by all threads",
  .example = "onefrees --threads 4 --bytes 64M",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  queue_make(&queue);
  room = (size_t)bytes / 512;
  kept = bench_pages(room * sizeof *kept, true);
  bench_rng_t *seeds = bench_pages((size_t)threads * sizeof *seeds, true);
  for (long i = 0; i < threads; i++) seeds[i] = bench_seed((uint64_t)i);
  double *ratios = bench_pages(SAMPLES_MOST * sizeof *ratios, true);
  long long before = bench_resident();
  mark_t start = mark_now();
  team_t freer = team_start(1, freer_body, NULL, 0);
  team_t producers = team_start((size_t)threads, producer_body, seeds, sizeof *seeds);

  size_t samples = 0;
  double end = bench_seconds() + (double)milliseconds * 1e-3;
  while (bench_seconds() < end && samples < SAMPLES_MOST) {
    bench_sleep((double)period * 1e-3);
    /* Read before and after, since the walk over the pages takes milliseconds, in which blocks come
     * and go. */
    long long first = atomic_load(&live), resident = bench_resident() - before,
              second = atomic_load(&live);
    if (first < bytes - bytes / 16) continue;
    ratios[samples++] = (double)resident / ((double)(first + second) / 2);
  }
  mark_t spent = mark_between(start, mark_now());
  atomic_store(&stop, true);
  team_join(&producers);
  team_join(&freer);
  json_start(&program);
  /* with each thread's last batch, when the clock had stopped */
  json_work(atomic_load(&operations), spent);
  json_real("ns", spent.wall * 1e9 / (double)atomic_load(&operations));
  if (samples == 0) bench_fail(BENCH_SYSTEM, "never reached %ld bytes in the time given", bytes);
  json_integer("samples", (long long)samples);
  json_real("ratio_last", ratios[samples - 1]);
  bench_sort(ratios, samples);
  json_real("ratio", ratios[samples / 2]);
  json_real("ratio_most", ratios[samples - 1]);
  json_costs();
  json_end();
  return BENCH_OK;
}
