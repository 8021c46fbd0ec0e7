/* barnes.c - bodies attract each other: a tree of blocks is built and freed at each step */
#include <math.h>

#include "bench.h"

enum { BODIES_MOST = 1 << 22, DEPTH_MOST = 60 };

static long bodies = 50000, steps = 15, angle = 80;
static long blocks; /* that have been allocated */

typedef struct vector {
  double x, y, z;
} vector_t;

typedef struct body {
  vector_t place, speed;
  double mass;
} body_t;

/* A cube of space: empty, with one body, or with eight smaller ones. */
typedef struct cell {
  vector_t middle, centre; /* of the cube; of the masses in it */
  double half, mass;
  const body_t *body;
  struct cell *inner[8];
  bool is_split;
} cell_t;

static vector_t plus(vector_t a, vector_t b, double factor) {
  return (vector_t){a.x + b.x * factor, a.y + b.y * factor, a.z + b.z * factor};
}

static cell_t *cell_new(vector_t middle, double half) {
  blocks++;
  cell_t *c = bench_malloc(sizeof *c);
  *c = (cell_t){.middle = middle, .half = half};
  return c;
}

static cell_t *cell_within(cell_t *c, vector_t place) {
  int number = (place.x > c->middle.x) + 2 * (place.y > c->middle.y) + 4 * (place.z > c->middle.z);
  if (c->inner[number] == NULL) {
    double half = c->half / 2;
    vector_t to = {number & 1 ? half : -half, number & 2 ? half : -half, number & 4 ? half : -half};
    c->inner[number] = cell_new(plus(c->middle, to, 1), half);
  }
  return c->inner[number];
}

/* Bodies in one place share a cell when it cannot get smaller. */
static void cell_add(cell_t *c, const body_t *b, int depth) {
  double mass = c->mass + b->mass;
  c->centre = plus(c->centre, plus(b->place, c->centre, -1), b->mass / mass);
  c->mass = mass;
  if (!c->is_split && c->body == NULL) {
    c->body = b;
    return;
  }
  if (depth == DEPTH_MOST) return;
  if (!c->is_split) {
    const body_t *old = c->body;
    c->is_split = true;
    c->body = NULL;
    cell_add(cell_within(c, old->place), old, depth + 1);
  }
  cell_add(cell_within(c, b->place), b, depth + 1);
}

static void cell_drop(cell_t *c) {
  for (int i = 0; i < 8; i++) {
    if (c->inner[i] != NULL) cell_drop(c->inner[i]);
  }
  free(c);
}

/* What a cell does to the speed of a body in one step. A cell that is far away counts as one. */
static vector_t cell_pull(const cell_t *c, const body_t *b) {
  if (c->body == b) return (vector_t){0};
  vector_t way = plus(c->centre, b->place, -1);
  double distance = sqrt(way.x * way.x + way.y * way.y + way.z * way.z) + 1e-2;
  vector_t pull = {0};
  if (!c->is_split || 200 * c->half < (double)angle * distance) {
    return plus(pull, way, c->mass / (distance * distance * distance));
  }
  for (int i = 0; i < 8; i++) {
    if (c->inner[i] != NULL) pull = plus(pull, cell_pull(c->inner[i], b), 1);
  }
  return pull;
}

static double chance(bench_rng_t *rng) { return bench_random(rng) / 4294967296.0 * 2 - 1; }

static void step(body_t **all) {
  double far = 1;
  for (long i = 0; i < bodies; i++) {
    vector_t p = all[i]->place;
    far = fmax(far, fmax(fabs(p.x), fmax(fabs(p.y), fabs(p.z))));
  }
  cell_t *root = cell_new((vector_t){0}, far);
  for (long i = 0; i < bodies; i++) cell_add(root, all[i], 0);
  if (fabs(root->mass - 1) > 1e-6) bench_fail(BENCH_SYSTEM, "the tree lost a body");
  for (long i = 0; i < bodies; i++) {
    all[i]->speed = plus(all[i]->speed, cell_pull(root, all[i]), 0.01);
  }
  for (long i = 0; i < bodies; i++) all[i]->place = plus(all[i]->place, all[i]->speed, 0.01);
  cell_drop(root);
}

static bench_option_t options[] = {
  BENCH_NUMBER("bodies", bodies, 2, BODIES_MOST, "bodies"),
  BENCH_NUMBER("steps", steps, 1, 1000000, "steps"),
  BENCH_NUMBER("angle", angle, 1, 200, "width of a cell that counts as one, % of its distance"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "barnes",
  .about =
    "bodies that attract each other, by a tree\n\n"
    "A program of the kind of barnes, with which allocators are compared: the method of Barnes\n"
    "and Hut, \"A hierarchical O(N log N) force-calculation algorithm\" (Nature 1986). Every body\n"
    "is a block, and so is every cell of the octree, which is built anew in each step and freed.\n"
    "Most time is not the allocator's: it goes into walking through the blocks.",
  .operation = "blocks that were allocated",
  .example = "barnes --bodies 5000 --steps 20",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  body_t **all = bench_pages((size_t)bodies * sizeof *all, true);
  bench_rng_t rng = bench_seed(0);

  mark_t start = mark_now();
  for (long i = 0; i < bodies; i++) {
    blocks++;
    all[i] = bench_malloc(sizeof **all);
    vector_t place = {chance(&rng), chance(&rng), chance(&rng)};
    *all[i] = (body_t){.place = place, .mass = 1.0 / (double)bodies};
  }
  for (long i = 0; i < steps; i++) step(all);
  for (long i = 0; i < bodies; i++) free(all[i]);
  mark_t end = mark_now();

  json_start(&program);
  json_elapsed(start, end, blocks);
  json_costs();
  json_end();
  return BENCH_OK;
}
