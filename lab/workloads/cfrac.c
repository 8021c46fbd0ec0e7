/* cfrac.c - a number is factored by continued fractions: very many very small blocks
 *
 * Morrison and Brillhart: a convergent A of the continued fraction of the root of n has
 * A^2 = (-1)^i Q modulo n with a small Q. Where Q has small prime factors only, the two are a
 * relation. Relations whose product is a square on both sides give x^2 = y^2 modulo n and, with
 * luck, a factor of n. */
#include "natural.h"

enum {
  BASE_MOST = 512,
  RELATIONS_MOST = BASE_MOST + 32,
  ROW_WORDS = (BASE_MOST + RELATIONS_MOST + 63) / 64
};

static long digits = 36, length; /* of the number that is made; of the one that is factored */
static const char *number = "made";
static bench_rng_t rng;

/* 47582602774358115722167492755475367767, of 38 digits: the number of Evans's paper. */
enum { EVANS_DIGITS = 38 };
static const uint64_t evans[] = {4839247443291043691u, 9832645123432343237u};

/* ---- two primes and their product ------------------------------------------------------------ */

static uint64_t power_modulo(uint64_t base, uint64_t exponent, uint64_t modulus) {
  uint64_t power = 1;
  for (wide_t square = base; exponent > 0; exponent >>= 1, square = square * square % modulus) {
    if (exponent % 2 == 1) power = (uint64_t)(power * square % modulus);
  }
  return power;
}

/* Miller and Rabin's test, with witnesses that decide for every number below 2^64. */
static bool is_prime(uint64_t n) {
  static const uint64_t witnesses[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  int twos = __builtin_ctzll(n - 1);
  for (size_t i = 0; i < sizeof witnesses / sizeof *witnesses; i++) {
    if (n % witnesses[i] == 0) return n == witnesses[i];
    wide_t x = power_modulo(witnesses[i], (n - 1) >> twos, n);
    bool passes = x == 1 || x == n - 1;
    for (int j = 1; j < twos && !passes; j++) {
      x = x * x % n;
      passes = x == n - 1;
    }
    if (!passes) return false;
  }
  return true;
}

/* With half of the digits wanted, in the upper half of these. */
static uint64_t prime_make(void) {
  uint64_t top = 1;
  for (long i = 0; i < digits / 2; i++) top *= 10;
  uint64_t chance = (uint64_t)bench_random(&rng) << 32 | bench_random(&rng);
  uint64_t n = (top - chance % (top / 2)) | 1;
  while (!is_prime(n)) n -= 2;
  return n;
}

/* ---- the factor base ------------------------------------------------------------------------- */

static struct {
  int count;
  uint32_t primes[BASE_MOST];
} base;

/* The primes modulo which n is a square: no other divides any Q. */
static void base_make(const natural_t *n) {
  int wanted = (int)(length * length / 4);
  base.primes[base.count++] = 2;
  for (uint32_t p = 3; base.count < wanted; p += 2) {
    uint32_t rest;
    if (!is_prime(p)) continue;
    natural_drop(natural_divide_small(n, p, &rest));
    if (power_modulo(rest, (p - 1) / 2, p) == 1) base.primes[base.count++] = p;
  }
}

/* ---- relations ------------------------------------------------------------------------------- */

typedef struct relation {
  natural_t *root;    /* A modulo n */
  uint8_t *exponents; /* of -1, then of the primes */
} relation_t;

static relation_t relations[RELATIONS_MOST];
static int relation_count;
static long quotients; /* that were tried */

/* Divides p out of *n as often as it goes. */
static uint8_t prime_divide_out(natural_t **n, uint32_t p) {
  for (uint8_t times = 0;; times++) {
    uint32_t rest;
    natural_t *quotient = natural_divide_small(*n, p, &rest);
    natural_drop(rest == 0 ? *n : quotient);
    if (rest != 0) return times;
    *n = quotient;
  }
}

/* Has q only factors of the base? Gives up where much is left after the smallest primes. */
static bool is_smooth(const natural_t *q, uint8_t *exponents) {
  natural_t *left = natural_copy(q);
  for (int i = 0; i < base.count && !(i == base.count / 4 && left->count > 1); i++) {
    exponents[i + 1] = prime_divide_out(&left, base.primes[i]);
  }
  bool smooth = left->count == 1 && left->digits[0] == 1;
  natural_drop(left);
  return smooth;
}

static void relation_try(const natural_t *root, const natural_t *q, bool is_negative) {
  uint8_t exponents[BASE_MOST + 1] = {is_negative};
  quotients++;
  if (!is_smooth(q, exponents)) return;
  size_t size = (size_t)base.count + 1;
  relations[relation_count++] =
    (relation_t){natural_copy(root), memcpy(bench_malloc(size), exponents, size)};
}

/* ---- the continued fraction of the root of n ------------------------------------------------- */

typedef struct expansion {
  const natural_t *n;
  natural_t *start;        /* the root of n, rounded down */
  natural_t *p, *q, *term; /* P, Q and the last partial quotient */
  natural_t *last, *root;  /* the last two A modulo n */
  bool is_negative;        /* is A^2 = -Q? */
} expansion_t;

static expansion_t expansion_start(const natural_t *n) {
  natural_t *start = natural_root(n);
  return (expansion_t){
    .n = n,
    .start = start,
    .p = natural_from(0),
    .q = natural_from(1),
    .term = natural_copy(start),
    .last = natural_from(1),
    .root = natural_copy(start),
  };
}

static void replace(natural_t **old, natural_t *fresh) {
  natural_drop(*old);
  *old = fresh;
}

static void expansion_step(expansion_t *e) {
  natural_t *product = natural_multiply(e->term, e->q);
  replace(&e->p, natural_subtract(product, e->p));
  replace(&product, natural_multiply(e->p, e->p));
  replace(&product, natural_subtract(e->n, product));
  replace(&e->q, natural_divide(product, e->q, NULL));
  e->is_negative = !e->is_negative;
  relation_try(e->root, e->q, e->is_negative);

  replace(&product, natural_add(e->start, e->p));
  replace(&e->term, natural_divide(product, e->q, NULL));
  replace(&product, natural_multiply(e->term, e->root));
  replace(&product, natural_add(product, e->last));
  natural_drop(e->last);
  e->last = e->root;
  e->root = natural_remainder(product, e->n);
  natural_drop(product);
}

static void expansion_end(expansion_t *e) {
  natural_t *numbers[] = {e->start, e->p, e->q, e->term, e->last, e->root};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) natural_drop(numbers[i]);
}

/* ---- squares --------------------------------------------------------------------------------- */

/* A row: the exponents' parities, then one bit for every relation that is in it. */
typedef uint64_t row_t[ROW_WORDS];

static bool row_bit(const uint64_t *row, int at) { return row[at / 64] >> at % 64 & 1; }
static void row_flip(uint64_t *row, int at) { row[at / 64] ^= (uint64_t)1 << at % 64; }

static void row_add(uint64_t *row, const uint64_t *other) {
  for (int i = 0; i < ROW_WORDS; i++) row[i] ^= other[i];
}

static natural_t *square_root_of_primes(const uint64_t *row, const natural_t *n) {
  natural_t *product = natural_from(1);
  for (int i = 0; i < base.count; i++) {
    long exponent = 0;
    for (int j = 0; j < relation_count; j++) {
      if (row_bit(row, BASE_MOST + j)) exponent += relations[j].exponents[i + 1];
    }
    natural_t *prime = natural_from(base.primes[i]);
    for (long k = 0; k < exponent / 2; k++) {
      replace(&product, natural_multiply_modulo(product, prime, n));
    }
    natural_drop(prime);
  }
  return product;
}

/* A factor of n out of the relations in a row, perhaps 1 or n. */
static natural_t *row_factor(const uint64_t *row, const natural_t *n) {
  natural_t *x = natural_from(1), *y = square_root_of_primes(row, n);
  for (int j = 0; j < relation_count; j++) {
    if (row_bit(row, BASE_MOST + j)) replace(&x, natural_multiply_modulo(x, relations[j].root, n));
  }
  natural_t *sum = natural_add(x, y), *factor = natural_gcd(sum, n);
  natural_drop(x);
  natural_drop(y);
  natural_drop(sum);
  return factor;
}

/* Eliminates one parity after the other; a row without any is a square. True if one of these
 * gives a factor. */
static bool factor_find(const natural_t *n, uint64_t *factor) {
  static row_t rows[RELATIONS_MOST];
  for (int i = 0; i < relation_count; i++) {
    memset(rows[i], 0, sizeof rows[i]);
    row_flip(rows[i], BASE_MOST + i);
    for (int j = 0; j <= base.count; j++) {
      if (relations[i].exponents[j] % 2 == 1) row_flip(rows[i], j);
    }
  }
  int used = 0;
  for (int column = 0; column <= base.count; column++) {
    int pivot = used;
    while (pivot < relation_count && !row_bit(rows[pivot], column)) pivot++;
    if (pivot == relation_count) continue;
    row_t row;
    memcpy(row, rows[pivot], sizeof row);
    memcpy(rows[pivot], rows[used], sizeof row);
    memcpy(rows[used++], row, sizeof row);
    for (int i = pivot; i < relation_count; i++) {
      if (i >= used && row_bit(rows[i], column)) row_add(rows[i], row);
    }
  }
  for (int i = used; i < relation_count; i++) {
    natural_t *found = row_factor(rows[i], n);
    bool proper = found->count > 0 && found->count <= 2 && natural_compare(found, n) < 0 &&
                  natural_value(found) > 1;
    *factor = (uint64_t)natural_value(found);
    natural_drop(found);
    if (proper) return true;
  }
  return false;
}

static void relations_drop(void) {
  for (int i = 0; i < relation_count; i++) {
    natural_drop(relations[i].root);
    free(relations[i].exponents);
  }
}

static bench_option_t options[] = {
  BENCH_NUMBER("digits", digits, 20, 36, "decimal digits of the number, even"),
  BENCH_WORD("number", number, "made|evans",
             "made of primes by --seed, or the one of Evans (2006), whatever --digits says"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "cfrac",
  .about =
    "factors the product of two primes by continued fractions\n\n"
    "A program of the kind of cfrac, which allocators have been measured with since Zorn and\n"
    "Grunwald, \"Empirical measurements of six allocation-intensive C programs\" (1992): the\n"
    "method is Morrison and Brillhart's (1975), and every number is a block of its own, of 4\n"
    "bytes and 4 for each digit to the base 2^32, most of 12 to 32 bytes and freed soon. The\n"
    "primes come from --seed and have half of --digits each; --number evans is that of \"A\n"
    "scalable concurrent malloc(3) implementation for FreeBSD\" (2006),\n"
    "47582602774358115722167492755475367767. The answer is checked.",
  .operation = "blocks that were allocated",
  .example = "cfrac --digits 32 --seed 7",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  if (digits % 2 != 0) bench_fail(BENCH_USAGE, "--digits %ld: want an even number", digits);
  rng = bench_seed(0);
  bool is_made = strcmp(number, "made") == 0;
  length = is_made ? digits : EVANS_DIGITS;
  uint64_t first = is_made ? prime_make() : evans[0], second = is_made ? prime_make() : evans[1];
  uint64_t factor = 0;

  mark_t start = mark_now();
  natural_t *n = natural_from((wide_t)first * second);
  base_make(n);
  expansion_t expansion = expansion_start(n);
  while (relation_count < base.count + 17) expansion_step(&expansion);
  bool found = factor_find(n, &factor);
  expansion_end(&expansion);
  relations_drop();
  natural_drop(n);
  mark_t end = mark_now();

  if (!found || (factor != first && factor != second)) {
    bench_fail(BENCH_SYSTEM, "no factor was found");
  }
  json_start(&program);
  json_elapsed(start, end, natural_blocks + relation_count);
  json_integer("factor", (long long)(first < second ? first : second));
  json_integer("quotients", quotients);
  json_costs();
  json_end();
  return BENCH_OK;
}
