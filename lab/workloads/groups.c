/* groups.c - rounds of groups of equal blocks, some of which are kept for later rounds */
#include "threads.h"

enum { THREADS_MOST = 256, GROUP_BYTES = 4000, GROUP_LEAST = 4, GROUP_MOST = 200 };

static long threads = 1, rounds = 3000, low = 1, high = 1000, keep = 4, store = 1000;
static const char *hand = "own", *touch = "ends";
static bool is_filled;
static long operations_of_thread;

typedef enum order { FORWARD, BACKWARD, ODD_FIRST, ORDERS } order_t;

/* Blocks of one size, in the order of their birth. */
typedef struct group {
  long count;
  order_t order; /* in which it is going to be freed */
  void *blocks[GROUP_MOST];
} group_t;

typedef struct worker {
  bench_rng_t rng;
  _Atomic(group_t *) *kept; /* `store` groups; one store for all if groups change hands */
  group_t *fresh;           /* filled next */
} worker_t;

/* Small blocks are the most: every group has about the same number of bytes. */
static long group_count(size_t size) {
  long count = GROUP_BYTES / (long)size;
  return count < GROUP_LEAST ? GROUP_LEAST : count > GROUP_MOST ? GROUP_MOST : count;
}

static void group_fill(group_t *g, size_t size, order_t order) {
  g->count = group_count(size);
  g->order = order;
  for (long i = 0; i < g->count; i++) {
    char *p = bench_malloc(size);
    if (is_filled) memset(p, 1, size);
    else p[0] = p[size - 1] = 1;
    g->blocks[i] = p;
  }
}

static void group_free(const group_t *g) {
  switch (g->order) {
    case FORWARD:
      for (long i = 0; i < g->count; i++) free(g->blocks[i]);
      break;
    case BACKWARD:
      for (long i = g->count - 1; i >= 0; i--) free(g->blocks[i]);
      break;
    default:
      for (long i = 1; i < g->count; i += 2) free(g->blocks[i]);
      for (long i = 0; i < g->count; i += 2) free(g->blocks[i]);
  }
}

/* Puts the fresh group into a slot; what was there becomes the fresh one, its blocks freed. */
static void worker_keep(worker_t *w) {
  uint32_t slot = bench_below(&w->rng, (uint32_t)store);
  group_t *old = atomic_exchange(&w->kept[slot], w->fresh);
  group_free(old);
  w->fresh = old;
}

static void *worker_body(void *argument) {
  worker_t *w = argument;
  for (long round = 0, groups = 0; round < rounds; round++) {
    for (long size = low; size <= high; size++, groups++) {
      group_fill(w->fresh, (size_t)size, (order_t)(groups % ORDERS));
      if (groups % keep == 0) worker_keep(w);
      else group_free(w->fresh);
    }
  }
  return NULL;
}

static _Atomic(group_t *) *store_make(void) {
  _Atomic(group_t *) *kept = bench_pages((size_t)store * sizeof *kept, true);
  group_t *groups = bench_pages((size_t)store * sizeof *groups, true);
  for (long i = 0; i < store; i++) kept[i] = &groups[i];
  return kept;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("rounds", rounds, 1, 1 << 20, "rounds of each thread"),
  BENCH_NUMBER("low", low, 1, 1 << 16, "smallest block"),
  BENCH_NUMBER("high", high, 1, 1 << 16, "largest block"),
  BENCH_NUMBER("keep", keep, 1, 1 << 20, "one group in so many is kept"),
  BENCH_NUMBER("store", store, 1, 1 << 20, "groups that are kept at a time"),
  BENCH_WORD("hand", hand, "own|any",
             "who frees a kept group: the thread it is from, or whichever comes by"),
  BENCH_WORD("touch", touch, "ends|all", "which bytes of a block are written"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "groups",
  .about =
    "rounds of groups of equal blocks, some of which are kept for later rounds\n\n"
    "What MicroQuill's sh6bench and sh8bench are described to do, written anew. A round has one\n"
    "group for every size from --low to --high: about 4,000 bytes of blocks, 4 to 200 of them,\n"
    "the first and last byte of each written, or with --touch all every byte, as Evans has it in\n"
    "\"A scalable concurrent malloc(3) implementation for FreeBSD\" (2006). A group is freed at\n"
    "once, except one in --keep: that is put into a random slot of a store, and the group that\n"
    "was there is freed. By turns a group is freed first block first, last block first, or every\n"
    "other block and then the rest.\n"
    "With --hand any all threads share one store, so that most kept groups are freed by another\n"
    "thread (sh8bench, sizes to 1,512); with --hand own each has its own (sh6bench, sizes to\n"
    "1,000). The last kept groups stay.",
  .operation = "blocks that were allocated, by all threads",
  .example = "groups --threads 4 --hand any --high 1512",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_order("low", low, "high", high);
  for (long size = low; size <= high; size++) {
    operations_of_thread += rounds * group_count((size_t)size);
  }
  is_filled = strcmp(touch, "all") == 0;
  bool is_shared = strcmp(hand, "any") == 0;
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  for (long i = 0; i < threads; i++) {
    workers[i].rng = bench_seed((uint64_t)i);
    workers[i].kept = is_shared && i > 0 ? workers[0].kept : store_make();
    workers[i].fresh = bench_pages(sizeof(group_t), true);
  }

  mark_t start = mark_now();
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  team_join(&team);
  mark_t end = mark_now();

  json_start(&program);
  json_elapsed(start, end, threads * operations_of_thread);
  json_costs();
  json_end();
  return BENCH_OK;
}
