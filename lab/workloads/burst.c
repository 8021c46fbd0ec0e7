/* burst.c - threads free a burst of blocks and then block for ever: does the memory go back?
 *
 * Nobody calls the allocator between the last free and the last figure. */
#include <malloc.h>

#include "threads.h"

enum { THREADS_MOST = 1024, LOW = 16, HIGH = 1 << 16 };

static long threads = 32, bytes = 2L << 30, keep = 0, milliseconds = 1000;
static const char *order = "random";
static atomic_long ready, filled, emptied, operations;
static atomic_bool go;
static atomic_llong live; /* usable bytes of the blocks that are kept */
static int gate[2];

typedef struct worker {
  bench_rng_t rng;
  void **blocks;
  size_t most;
} worker_t;

static void shuffle(void **blocks, size_t count, bench_rng_t *rng) {
  for (size_t i = count; i > 1; i--) {
    size_t j = bench_below(rng, (uint32_t)i);
    void *p = blocks[i - 1];
    blocks[i - 1] = blocks[j];
    blocks[j] = p;
  }
}

static size_t worker_fill(worker_t *w) {
  size_t count = 0;
  for (size_t left = (size_t)(bytes / threads); left > 0 && count < w->most;) {
    size_t size = bench_mixed_size(&w->rng, LOW, HIGH);
    memset(w->blocks[count++] = bench_malloc(size), 1, size);
    left -= size < left ? size : left;
  }
  return count;
}

static void *worker_body(void *argument) {
  worker_t *w = argument;
  atomic_fetch_add(&ready, 1);
  while (!atomic_load(&go)) bench_sleep(0.001);
  size_t count = worker_fill(w), kept = count * (size_t)keep / 100;
  long long usable = 0;
  for (size_t i = 0; i < kept; i++) usable += (long long)malloc_usable_size(w->blocks[i]);
  atomic_fetch_add(&live, usable);
  atomic_fetch_add(&operations, (long)count);
  if (strcmp(order, "random") == 0) shuffle(w->blocks + kept, count - kept, &w->rng);
  atomic_fetch_add(&filled, 1);
  while (atomic_load(&filled) < threads) bench_sleep(0.001);
  for (size_t i = kept; i < count; i++) free(w->blocks[i]);
  atomic_fetch_add(&emptied, 1);
  char byte;
  while (read(gate[0], &byte, 1) < 0 && errno == EINTR) {}
  return NULL;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("bytes", bytes, 1 << 20, 1L << 40, "that all allocate together"),
  BENCH_NUMBER("keep", keep, 0, 100,
               "percent of its blocks, the first, that a thread does not free"),
  BENCH_WORD("order", order, "random|birth", "in which blocks are freed"),
  BENCH_NUMBER("milliseconds", milliseconds, 0, 600000, "until the second figure"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "burst",
  .about =
    "threads allocate a burst, free it and block in a read for ever\n\n"
    "Sizes from 16 bytes to 64 KiB, each doubling as likely as any other, every byte written.\n"
    "`excess_now` is what is resident, less what was before the burst and less the blocks that\n"
    "are kept, as soon as the last thread has freed; `excess_later` the same after\n"
    "--milliseconds, in which no thread runs. Definition: freehold's own.",
  .operation = "blocks that were allocated, by all threads",
  .example = "burst --threads 8 --bytes 512M --keep 25",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  if (pipe2(gate, O_CLOEXEC) != 0) bench_fail(BENCH_SYSTEM, "pipe: %s", strerror(errno));
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  for (long i = 0; i < threads; i++) {
    size_t most = (size_t)(bytes / threads) / 4096 + 1000; /* the mean block has 8 KiB */
    workers[i] =
      (worker_t){bench_seed((uint64_t)i), bench_pages(most * sizeof(void *), true), most};
  }
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  while (atomic_load(&ready) < threads) bench_sleep(0.001);
  long long before = bench_resident();
  mark_t start = mark_now();
  atomic_store(&go, true);
  while (atomic_load(&filled) < threads) bench_sleep(0.001);
  while (atomic_load(&emptied) < threads) bench_sleep(0.0005);
  mark_t end = mark_now();
  long long now = bench_resident() - before - atomic_load(&live);
  bench_sleep((double)milliseconds * 1e-3);
  long long later = bench_resident() - before - atomic_load(&live);

  json_start(&program);
  json_elapsed(start, end, atomic_load(&operations));
  json_integer("live", atomic_load(&live));
  json_integer("excess_now", now);
  json_integer("excess_later", later);
  json_costs();
  json_end();
  close(gate[1]);
  team_join(&team);
  return BENCH_OK;
}
