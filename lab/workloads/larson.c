/* larson.c - a server's blocks: replaced at random by threads that die and hand them on */
#include "threads.h"

enum { THREADS_MOST = 256, SLOTS_MOST = 1 << 20 };

static long threads = 2, low = 16, high = 128, slots = 1000, rounds = 100, milliseconds = 3000;
static atomic_bool stop;

typedef struct worker {
  chain_t chain;
  void **blocks;
  bench_rng_t rng;
  uint64_t pairs;
} worker_t;

static void *block_new(bench_rng_t *rng) {
  char *p = bench_malloc(bench_between(rng, low, high));
  *(volatile char *)p = 1;
  return p;
}

static bool worker_live(void *life) {
  worker_t *w = life;
  bench_rng_t rng = w->rng;
  long left = rounds * slots;
  for (; left > 0 && !atomic_load_explicit(&stop, memory_order_relaxed); left--) {
    uint32_t slot = bench_below(&rng, (uint32_t)slots);
    free(w->blocks[slot]);
    w->blocks[slot] = block_new(&rng);
  }
  w->rng = rng;
  w->pairs += (uint64_t)(rounds * slots - left);
  return left == 0;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads alive at a time"),
  BENCH_NUMBER("low", low, 1, 1 << 20, "smallest block"),
  BENCH_NUMBER("high", high, 1, 1 << 20, "largest block"),
  BENCH_NUMBER("slots", slots, 1, SLOTS_MOST, "blocks of each thread"),
  BENCH_NUMBER("rounds", rounds, 1, 1000000,
               "a thread dies after so many times --slots replacements"),
  BENCH_NUMBER("milliseconds", milliseconds, 1, 3600000, "for how long"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "larson",
  .about =
    "threads replace blocks at random, die and hand their blocks on\n\n"
    "After Larson and Krishnan, \"Memory allocation for long-running server applications\" (ISMM\n"
    "1998). The main thread fills all slots; each thread replaces the blocks in random slots of\n"
    "its own, and after a while starts a successor that inherits the slots and frees what its\n"
    "forebears allocated. `ns` is wall time divided by the pairs that all threads made together.",
  .operation = "pairs of malloc and free, those of all threads",
  .example = "larson --threads 16 --low 8 --high 1000 --slots 5000",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_order("low", low, "high", high);
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  bench_rng_t rng = bench_seed(0);
  for (long i = 0; i < threads; i++) {
    workers[i].rng = bench_seed((uint64_t)i + 1);
    workers[i].blocks = bench_pages((size_t)slots * sizeof(void *), true);
    for (long j = 0; j < slots; j++) workers[i].blocks[j] = block_new(&rng);
  }

  mark_t start = mark_now();
  for (long i = 0; i < threads; i++) chain_start(&workers[i].chain, worker_live, &workers[i]);
  bench_sleep((double)milliseconds * 1e-3);
  atomic_store(&stop, true);
  mark_t end = mark_now();
  uint64_t pairs = 0, births = 0;
  for (long i = 0; i < threads; i++) {
    chain_join(&workers[i].chain);
    pairs += workers[i].pairs;
    births += workers[i].chain.births;
  }

  json_start(&program);
  json_elapsed(start, end, (long long)pairs);
  json_integer("births", (long long)births);
  json_costs();
  json_end();
  return BENCH_OK;
}
