/* prodcons.c - one thread of a pair allocates, the other frees, and may enlarge before */
#include "threads.h"

enum { THREADS_MOST = 256 };

static long threads = 2, blocks = 16000000, low = 16, high = 1024, grow = 0;

typedef struct pair {
  queue_t queue;
  bench_rng_t rng;
  long batches;
} pair_t;

static void produce(pair_t *pair) {
  batch_t batch = {.count = QUEUE_BATCH};
  for (long i = 0; i < pair->batches; i++) {
    for (int j = 0; j < QUEUE_BATCH; j++) {
      size_t size = bench_between(&pair->rng, low, high);
      char *p = bench_malloc(size);
      p[0] = p[size - 1] = 1;
      if (grow != 0) memcpy(memset(p, 1, size), &size, sizeof size); /* the consumer reads it */
      batch.blocks[j] = p;
    }
    queue_put(&pair->queue, &batch);
  }
  batch.count = 0;
  queue_put(&pair->queue, &batch);
}

static char *enlarge(char *p) {
  size_t size;
  memcpy(&size, p, sizeof size);
  p = realloc(p, size + size * (size_t)grow / 100);
  if (p == NULL) bench_fail(BENCH_NO_MEMORY, "realloc of %zu bytes failed", size);
  return p;
}

static void consume(pair_t *pair) {
  batch_t batch;
  for (;;) {
    queue_get(&pair->queue, &batch);
    if (batch.count == 0) return;
    for (size_t j = 0; j < batch.count; j++) {
      char *p = batch.blocks[j];
      if (grow != 0) p = enlarge(p);
      free(p);
    }
  }
}

typedef struct side {
  pair_t *pair;
  bool produces;
} side_t;

static void *side_body(void *argument) {
  side_t *side = argument;
  if (side->produces) produce(side->pair);
  else consume(side->pair);
  return NULL;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 2, THREADS_MOST, "threads, half of them producers"),
  BENCH_NUMBER("blocks", blocks, QUEUE_BATCH, LONG_MAX / 2, "blocks in total"),
  BENCH_NUMBER("low", low, 1, 1 << 20, "smallest block"),
  BENCH_NUMBER("high", high, 1, 1 << 20, "largest block"),
  BENCH_NUMBER("grow", grow, 0, 1000, "percent by which the consumer enlarges each block first"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "prodcons",
  .about =
    "pairs of a producer, which only allocates, and a consumer, which only frees\n\n"
    "After the producer and consumer pattern of Lever and Boreham, \"malloc() performance in a\n"
    "multithreaded Linux environment\" (USENIX 2000). Blocks of uniformly random size pass in\n"
    "batches of 128 through a queue of 16 batches with a lock. `ns` is wall time divided by the\n"
    "blocks that passed in all queues together.",
  .operation = "blocks that were allocated by one thread and freed by another",
  .example = "prodcons --threads 16 --blocks 8M",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_order("low", low, "high", high);
  if (grow != 0 && low < (long)sizeof(size_t))
    bench_fail(BENCH_USAGE, "--grow needs blocks of at least %zu bytes: --low", sizeof(size_t));
  if (threads % 2 != 0) bench_fail(BENCH_USAGE, "--threads has to be even");
  long pair_count = threads / 2, batches = blocks / QUEUE_BATCH / pair_count;
  pair_t *pairs = bench_pages((size_t)pair_count * sizeof *pairs, true);
  side_t *sides = bench_pages((size_t)threads * sizeof *sides, true);
  for (long i = 0; i < pair_count; i++) {
    queue_make(&pairs[i].queue);
    pairs[i].rng = bench_seed((uint64_t)i);
    pairs[i].batches = batches < 1 ? 1 : batches;
    sides[2 * i] = (side_t){&pairs[i], true};
    sides[2 * i + 1] = (side_t){&pairs[i], false};
  }

  mark_t start = mark_now();
  team_t team = team_start((size_t)threads, side_body, sides, sizeof *sides);
  team_join(&team);
  mark_t end = mark_now();

  json_start(&program);
  json_elapsed(start, end, pairs[0].batches * pair_count * QUEUE_BATCH);
  json_costs();
  json_end();
  return BENCH_OK;
}
