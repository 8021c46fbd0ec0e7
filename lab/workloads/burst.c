/* burst.c - threads free a burst of blocks and then block for ever: does the memory go back?
 *
 * Nobody calls the allocator between the last free and `excess_later`. */
#include <malloc.h>

#include "threads.h"

enum { THREADS_MOST = 100000, CALLS = 200, CALL_SIZE = 40000 };

static long threads = 32, bytes = 2L << 30, low = 16, high = 1 << 16, keep = 0, milliseconds = 1000;
static const char *order = "random", *turns = "together", *from = "malloc";
static bool are_together;
static void *(*heap_new)(void), *(*heap_malloc)(void *, size_t);
static atomic_long ready, filled, emptied, operations;
static atomic_llong live;    /* usable bytes of the blocks that are kept */
static int gate[2], turn[2]; /* who reads a byte of `turn` begins */

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

/* NULL: malloc. */
static void *block_new(void *heap, size_t size) {
  if (heap == NULL) return bench_malloc(size);
  void *p = heap_malloc(heap, size);
  if (p == NULL) bench_fail(BENCH_NO_MEMORY, "a heap's malloc(%zu) failed", size);
  return p;
}

static size_t worker_fill(worker_t *w) {
  size_t count = 0;
  void *heap = heap_new == NULL ? NULL : heap_new();
  for (size_t left = (size_t)(bytes / threads); left > 0 && count < w->most;) {
    size_t size = bench_mixed_size(&w->rng, (size_t)low, (size_t)high);
    memset(w->blocks[count++] = block_new(heap, size), 1, size);
    left -= size < left ? size : left;
  }
  return count;
}

static void read_byte(int file) {
  char byte;
  while (read(file, &byte, 1) < 0 && errno == EINTR) {}
}

static void begin(long count) {
  for (; count > 0; count--) {
    if (write(turn[1], "", 1) != 1) bench_fail(BENCH_SYSTEM, "pipe: %s", strerror(errno));
  }
}

static void *worker_body(void *argument) {
  worker_t *w = argument;
  atomic_fetch_add(&ready, 1);
  read_byte(turn[0]);
  size_t count = worker_fill(w), kept = count * (size_t)keep / 100;
  long long usable = 0;
  for (size_t i = 0; i < kept; i++) usable += (long long)malloc_usable_size(w->blocks[i]);
  atomic_fetch_add(&live, usable);
  atomic_fetch_add(&operations, (long)count);
  if (strcmp(order, "random") == 0) shuffle(w->blocks + kept, count - kept, &w->rng);
  atomic_fetch_add(&filled, 1);
  while (are_together && atomic_load(&filled) < threads) bench_sleep(0.001);
  for (size_t i = kept; i < count; i++) free(w->blocks[i]);
  if (!are_together) begin(1);
  atomic_fetch_add(&emptied, 1);
  read_byte(gate[0]);
  return NULL;
}

/* A first-class heap for each thread. */
static void heaps_prepare(void) {
  if (strcmp(from, "heap") != 0) return;
  heap_new = bench_symbol("fh_heap_new", "mi_heap_new");
  heap_malloc = bench_symbol("fh_heap_malloc", "mi_heap_malloc");
}

/* The mean block has as many bytes as the mean of the doublings. */
static size_t blocks_most(void) {
  int doublings = __builtin_ctzl((size_t)high) - __builtin_ctzl((size_t)low);
  return (size_t)(bytes / threads / ((high - low) * 3 / 4 / doublings)) + 1000;
}

/* What is resident beyond `before` and what lives. */
static long long excess(long long before) { return bench_resident() - before - atomic_load(&live); }

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("bytes", bytes, 1 << 20, 1L << 40, "that all allocate together"),
  BENCH_NUMBER("low", low, 16, 1 << 20, "smallest block, a power of two"),
  BENCH_NUMBER("high", high, 32, 1 << 21, "largest block, a power of two"),
  BENCH_NUMBER("keep", keep, 0, 100,
               "percent of its blocks, the first, that a thread does not free"),
  BENCH_WORD("order", order, "random|birth", "in which blocks are freed"),
  BENCH_WORD("turns", turns, "together|one", "all threads at once, or one after the other"),
  BENCH_WORD("from", from, "malloc|heap", "heap: a first-class heap of the thread's own"),
  BENCH_NUMBER("milliseconds", milliseconds, 0, 600000, "until the second figure"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "burst",
  .about =
    "threads allocate a burst, free it and block in a read for ever\n\n"
    "Sizes from --low to --high, each doubling as likely as any other, every byte written.\n"
    "`excess_now` is what is resident, less what was before the burst and less the blocks that\n"
    "are kept, as soon as the last thread has freed; `excess_later` the same after\n"
    "--milliseconds, in which no thread runs; `excess_called` after the main thread has then made\n"
    "200 pairs of malloc and free of 40,000 bytes. Where the allocator has no first-class heaps\n"
    "and they are wanted, the exit code is 4. Definition: freehold's own.",
  .operation = "blocks that were allocated, by all threads",
  .example = "burst --threads 8 --bytes 512M --keep 25",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_powers("low", low, "high", high);
  are_together = strcmp(turns, "together") == 0;
  heaps_prepare();
  if (pipe2(gate, O_CLOEXEC) != 0 || pipe2(turn, O_CLOEXEC) != 0) {
    bench_fail(BENCH_SYSTEM, "pipe: %s", strerror(errno));
  }
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  for (long i = 0; i < threads; i++) {
    size_t most = blocks_most();
    workers[i] =
      (worker_t){bench_seed((uint64_t)i), bench_pages(most * sizeof(void *), true), most};
  }
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  while (atomic_load(&ready) < threads) bench_sleep(0.001);
  long long before = bench_resident();
  mark_t start = mark_now();
  begin(are_together ? threads : 1);
  while (atomic_load(&emptied) < threads) bench_sleep(0.0005);
  mark_t end = mark_now();
  long long now = excess(before);
  bench_sleep((double)milliseconds * 1e-3);
  long long later = excess(before);
  for (int i = 0; i < CALLS; i++) free(bench_malloc(CALL_SIZE));
  long long called = excess(before);

  json_start(&program);
  json_elapsed(start, end, atomic_load(&operations));
  json_integer("live", atomic_load(&live));
  json_integer("excess_now", now);
  json_integer("excess_later", later);
  json_integer("excess_called", called);
  json_integer("calls", atomic_load(&operations) + CALLS);
  json_costs();
  json_end();
  close(gate[1]);
  team_join(&team);
  return BENCH_OK;
}
