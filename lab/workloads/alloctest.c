/* alloctest.c - slots that are filled and emptied by chance: most often few of them, most often
 * small */
#include "threads.h"

enum { THREADS_MOST = 256, SLOTS_MOST = 1 << 24, SIZES_MOST = 24 };

static long threads = 1, slots = 100000, turns = 20000000, sizes = 10;

typedef struct slot {
  unsigned char *block;
  size_t size;
} slot_t;

typedef struct worker {
  bench_rng_t rng;
  slot_t *slots;
  long turns, blocks;
  unsigned long sum;
} worker_t;

/* A number below `most` whose logarithm is as likely as another: 1 to 2 as often as 512 to 1024. */
static uint32_t skewed(bench_rng_t *rng, uint32_t most) {
  int bits = 32 - __builtin_clz(most);
  uint32_t n = bench_random(rng) >> (32 - 1 - bench_below(rng, (uint32_t)bits));
  return n % most;
}

static size_t size_by_chance(bench_rng_t *rng) {
  uint32_t top = (uint32_t)1 << (3 + bench_below(rng, (uint32_t)sizes - 2));
  return top / 2 + 1 + bench_below(rng, top / 2);
}

static void *worker_body(void *argument) {
  worker_t *w = argument;
  for (long i = 0; i < w->turns; i++) {
    slot_t *s = &w->slots[skewed(&w->rng, (uint32_t)slots)];
    if (s->block == NULL) {
      s->size = size_by_chance(&w->rng);
      s->block = memset(bench_malloc(s->size), (int)(i & 0xff), s->size);
      w->blocks++;
    } else {
      for (size_t j = 0; j < s->size; j++) w->sum += s->block[j];
      free(s->block);
      s->block = NULL;
    }
  }
  return NULL;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("slots", slots, 1, SLOTS_MOST, "slots of each thread"),
  BENCH_NUMBER("turns", turns, 1, 1L << 40, "turns in total"),
  BENCH_NUMBER("sizes", sizes, 3, SIZES_MOST, "blocks have up to 2 to the power of so many bytes"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "alloctest",
  .about =
    "slots that are filled and emptied by chance\n\n"
    "What alloc-test is described to do (\"No Bugs\" Hare, \"Testing memory allocators: ptmalloc2\n"
    "vs tcmalloc vs hoard vs jemalloc, while trying to simulate real-world loads\", 2018),\n"
    "written anew. A turn takes a slot: an empty one gets a block, which is written, a full one\n"
    "is read and freed. Slots are chosen so that few are hit often and many seldom, and lives\n"
    "have no typical length. Each power of two is as likely a size, to 2 to the power of --sizes.\n"
    "Turns are shared out evenly over the threads, each with its own slots.",
  .operation = "blocks that were allocated, by all threads",
  .example = "alloctest --threads 4 --slots 10000",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  for (long i = 0; i < threads; i++) {
    workers[i] = (worker_t){.rng = bench_seed((uint64_t)i),
                            .slots = bench_pages((size_t)slots * sizeof(slot_t), true),
                            .turns = bench_share(turns, threads, i)};
  }

  mark_t start = mark_now();
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  team_join(&team);
  mark_t end = mark_now();

  long long blocks = 0;
  for (long i = 0; i < threads; i++) blocks += workers[i].blocks;
  json_start(&program);
  json_elapsed(start, end, blocks);
  json_costs();
  json_end();
  return BENCH_OK;
}
