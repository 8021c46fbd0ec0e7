/* locality.c - a heap of very many blocks: replacing them, and walking through some of them */
#include "bench.h"

enum { BLOCKS_MOST = 1 << 28 };

static long blocks = 1000000, pairs = 1000000, walks = 10, low = 16, high = 64;

typedef struct node {
  struct node *next;
  uint64_t value;
} node_t;

static node_t **nodes;
static bench_rng_t rng;

static node_t *node_new(node_t *next) {
  node_t *node = bench_malloc(bench_between(&rng, low, high));
  *node = (node_t){next, 1};
  return node;
}

static void heap_fill(void) {
  for (long i = 0; i < blocks; i++) nodes[i] = node_new(NULL);
}

static void heap_age(void) {
  for (long i = 0; i < pairs; i++) {
    uint32_t at = bench_below(&rng, (uint32_t)blocks);
    free(nodes[at]);
    nodes[at] = node_new(NULL);
  }
}

/* Frees every other block, in the order of the table, which is no longer that of the addresses. */
static void heap_thin(void) {
  for (long i = 0; i < blocks; i += 2) free(nodes[i]);
}

/* As many again, linked in the order of their birth. */
static node_t *list_make(void) {
  node_t *first = NULL, *last = NULL;
  for (long i = 0; i < blocks; i += 2) {
    node_t *node = node_new(NULL);
    if (last == NULL) first = node;
    else last->next = node;
    last = node;
  }
  return first;
}

static uint64_t list_walk(const node_t *node) {
  uint64_t sum = 0;
  for (; node != NULL; node = node->next) sum += node->value;
  return sum;
}

static bench_option_t options[] = {
  BENCH_NUMBER("blocks", blocks, 2, BLOCKS_MOST, "blocks of the heap"),
  BENCH_NUMBER("pairs", pairs, 0, LONG_MAX / 2, "replacements at random"),
  BENCH_NUMBER("walks", walks, 1, 1 << 20, "walks along the list"),
  BENCH_NUMBER("low", low, (long)sizeof(node_t), 1 << 16, "smallest block"),
  BENCH_NUMBER("high", high, (long)sizeof(node_t), 1 << 16, "largest block"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "locality",
  .about =
    "a heap of very many small blocks, aged, then a list in it that is walked\n\n"
    "--blocks blocks are allocated (`fill_ns` each); --pairs times one at random is replaced\n"
    "(`replace_ns`); every other one is freed (`free_ns`), and as many are allocated again\n"
    "(`refill_ns`) as a list in the order of their birth, which is walked --walks times\n"
    "(`walk_ns` a node). An allocator that gives out neighbours one after another is walked\n"
    "through fast. `ns` is all of it but the walks, over the blocks allocated. Definition:\n"
    "freehold's own.",
  .operation = "blocks that were allocated",
  .example = "locality --blocks 10000000 --pairs 10000000",
  .options = options,
};

/* Puts what has passed since *clock into the line, for each of `count`, and sets *clock anew. */
static void json_lap(const char *name, double *clock, long count) {
  double now = bench_seconds();
  json_real(name, (now - *clock) * 1e9 / (double)(count > 0 ? count : 1));
  *clock = bench_seconds();
}

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_order("low", low, "high", high);
  nodes = bench_pages((size_t)blocks * sizeof *nodes, true);
  rng = bench_seed(0);
  long half = (blocks + 1) / 2;

  json_start(&program);
  mark_t start = mark_now();
  double clock = bench_seconds();
  heap_fill();
  json_lap("fill_ns", &clock, blocks);
  heap_age();
  json_lap("replace_ns", &clock, pairs);
  heap_thin();
  json_lap("free_ns", &clock, half);
  node_t *list = list_make();
  json_lap("refill_ns", &clock, half);
  json_elapsed(start, mark_now(), blocks + pairs + half);

  clock = bench_seconds();
  uint64_t sum = 0;
  for (long i = 0; i < walks; i++) sum += list_walk(list);
  json_lap("walk_ns", &clock, walks * half);
  if (sum != (uint64_t)(walks * half)) bench_fail(BENCH_SYSTEM, "the list is damaged");
  json_costs();
  json_end();
  return BENCH_OK;
}
