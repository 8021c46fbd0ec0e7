/* espresso.c - covers of cubes are complemented: short-lived sets of bits and growing tables
 *
 * A cube is a product of literals: two bits for each variable, 11 where it is of no matter. A cover
 * is a sum of cubes. Complementing follows Shannon: a cover is split by a variable, both halves are
 * complemented, and what is in both needs the variable no more. */
#include "bench.h"

enum { VARIABLES_MOST = 256, COUNT_FIRST = 4, POINTS = 200 };

static long variables = 20, cubes = 40, literals = 5, rounds = 200;
static long words;  /* of a cube */
static long blocks; /* that have been allocated */

typedef struct cover {
  long count, room;
  uint64_t **cubes;
} cover_t;

/* ---- cubes ----------------------------------------------------------------------------------- */

static uint64_t *cube_new(void) {
  blocks++;
  return bench_malloc((size_t)words * sizeof(uint64_t));
}

static uint64_t *cube_copy(const uint64_t *cube) {
  return memcpy(cube_new(), cube, (size_t)words * sizeof *cube);
}

static uint64_t *cube_universe(void) {
  return memset(cube_new(), 0xff, (size_t)words * sizeof(uint64_t));
}

/* 1: complemented, 2: as it is, 3: of no matter. */
static unsigned cube_literal(const uint64_t *cube, long variable) {
  return (unsigned)(cube[variable / 32] >> variable % 32 * 2 & 3);
}

static void cube_set(uint64_t *cube, long variable, unsigned literal) {
  int shift = (int)(variable % 32 * 2);
  cube[variable / 32] &= ~((uint64_t)3 << shift);
  cube[variable / 32] |= (uint64_t)literal << shift;
}

static bool cube_is_equal(const uint64_t *a, const uint64_t *b) {
  return memcmp(a, b, (size_t)words * sizeof *a) == 0;
}

static bool cube_is_universe(const uint64_t *cube) {
  for (long i = 0; i < words; i++) {
    if (cube[i] != UINT64_MAX) return false;
  }
  return true;
}

/* ---- covers ---------------------------------------------------------------------------------- */

static void cover_add(cover_t *c, uint64_t *cube) {
  if (c->count == c->room) {
    c->room = c->room == 0 ? COUNT_FIRST : 2 * c->room;
    c->cubes = realloc(c->cubes, (size_t)c->room * sizeof *c->cubes);
    if (c->cubes == NULL) bench_fail(BENCH_NO_MEMORY, "realloc failed");
    blocks++;
  }
  c->cubes[c->count++] = cube;
}

static void cover_drop(cover_t *c) {
  for (long i = 0; i < c->count; i++) free(c->cubes[i]);
  free(c->cubes);
}

/* What is left of a cover where a variable has the value of `literal`. */
static cover_t cover_cofactor(const cover_t *c, long variable, unsigned literal) {
  cover_t half = {0};
  for (long i = 0; i < c->count; i++) {
    if ((cube_literal(c->cubes[i], variable) & literal) == 0) continue;
    uint64_t *cube = cube_copy(c->cubes[i]);
    cube_set(cube, variable, 3);
    cover_add(&half, cube);
  }
  return half;
}

/* The variable that most cubes have. */
static long cover_split(const cover_t *c) {
  long best = 0, most = -1;
  for (long v = 0; v < variables; v++) {
    long uses = 0;
    for (long i = 0; i < c->count; i++) uses += cube_literal(c->cubes[i], v) != 3;
    if (uses > most) best = v, most = uses;
  }
  return best;
}

static bool cover_has(const cover_t *c, const uint64_t *point) {
  for (long i = 0; i < c->count; i++) {
    bool is_in = true;
    for (long w = 0; w < words && is_in; w++) is_in = (point[w] & ~c->cubes[i][w]) == 0;
    if (is_in) return true;
  }
  return false;
}

/* Moves the cubes of `from` behind those of `to`: with the literal, or without where both have the
 * same cube. */
static void cover_join(cover_t *to, cover_t *from, long variable) {
  long old = to->count;
  for (long i = 0; i < old; i++) cube_set(to->cubes[i], variable, 1);
  for (long i = 0; i < from->count; i++) {
    uint64_t *cube = from->cubes[i];
    bool is_in_both = false;
    cube_set(cube, variable, 1);
    for (long j = 0; j < old && !is_in_both; j++) {
      is_in_both = cube_is_equal(to->cubes[j], cube);
      if (is_in_both) cube_set(to->cubes[j], variable, 3);
    }
    cube_set(cube, variable, 2);
    if (is_in_both) free(cube);
    else cover_add(to, cube);
  }
  free(from->cubes);
}

static cover_t cover_complement(const cover_t *c) {
  cover_t found = {0};
  if (c->count == 0) cover_add(&found, cube_universe());
  for (long i = 0; i < c->count; i++) {
    if (cube_is_universe(c->cubes[i])) return found;
  }
  if (c->count == 0) return found;
  long variable = cover_split(c);
  cover_t no = cover_cofactor(c, variable, 1), yes = cover_cofactor(c, variable, 2);
  found = cover_complement(&no);
  cover_t other = cover_complement(&yes);
  cover_join(&found, &other, variable);
  cover_drop(&no);
  cover_drop(&yes);
  return found;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static cover_t cover_make(bench_rng_t *rng) {
  cover_t cover = {0};
  for (long i = 0; i < cubes; i++) {
    uint64_t *cube = cube_universe();
    for (long j = 0; j < literals; j++) {
      long variable = bench_below(rng, (uint32_t)variables);
      cube_set(cube, variable, 1 + bench_below(rng, 2));
    }
    cover_add(&cover, cube);
  }
  return cover;
}

/* Every point is in one of the two. */
static void check(const cover_t *one, const cover_t *other, bench_rng_t *rng) {
  uint64_t *point = cube_universe();
  for (long i = 0; i < POINTS; i++) {
    for (long v = 0; v < variables; v++) cube_set(point, v, 1 + bench_below(rng, 2));
    for (long v = variables; v < words * 32; v++) cube_set(point, v, 1);
    if (cover_has(one, point) == cover_has(other, point)) {
      bench_fail(BENCH_SYSTEM, "a cover and its complement overlap or leave a gap");
    }
  }
  free(point);
}

static bench_option_t options[] = {
  BENCH_NUMBER("variables", variables, 2, VARIABLES_MOST, "variables"),
  BENCH_NUMBER("cubes", cubes, 1, 10000, "cubes of a cover"),
  BENCH_NUMBER("literals", literals, 1, VARIABLES_MOST, "literals of a cube, at most"),
  BENCH_NUMBER("rounds", rounds, 1, 1000000, "covers"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "espresso",
  .about =
    "complements covers of Boolean functions\n\n"
    "A program of the kind of espresso, the minimiser of two-level logic (Brayton and others,\n"
    "\"Logic minimization algorithms for VLSI synthesis\", 1984), with which allocators have been\n"
    "measured since Zorn and Grunwald (1992). A round makes a cover of --cubes random cubes and\n"
    "complements it by Shannon's expansion. Every cube is a block of some words and lives for one\n"
    "step; tables of cubes grow by doubling. The complement is checked at random points.",
  .operation = "blocks that were allocated, grown ones among them",
  .example = "espresso --variables 30 --rounds 5",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  words = (variables + 31) / 32;
  bench_rng_t rng = bench_seed(0);
  long long made = 0;

  mark_t start = mark_now();
  for (long round = 0; round < rounds; round++) {
    cover_t cover = cover_make(&rng), complement = cover_complement(&cover);
    check(&cover, &complement, &rng);
    made += complement.count;
    cover_drop(&cover);
    cover_drop(&complement);
  }
  mark_t end = mark_now();

  json_start(&program);
  json_elapsed(start, end, blocks);
  json_integer("cubes", made);
  json_costs();
  json_end();
  return BENCH_OK;
}
