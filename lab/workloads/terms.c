/* terms.c - terms with reference counts are rewritten by threads that share them */
#include "threads.h"

enum { THREADS_MOST = 256, FORMULAS = 64, RESULTS = 256, HEIGHT = 5 };

static long threads = 2, jobs = 60000, times = 3;

typedef enum kind { NUMBER, VARIABLE, SUM, PRODUCT, POWER } kind_t;

/* Never changed, except for the count of those who hold it. */
typedef struct term {
  atomic_long holders;
  kind_t kind;
  int value; /* of a number; the exponent of a power */
  struct term *left, *right;
} term_t;

static term_t *formulas[FORMULAS];         /* common to all threads */
static _Atomic(term_t *) results[RESULTS]; /* the last ones; whoever comes by frees the old one */
static _Thread_local long blocks;

/* ---- terms: a function takes over what it is given and gives what the caller has to drop ----- */

static term_t *term_hold(term_t *t) {
  atomic_fetch_add_explicit(&t->holders, 1, memory_order_relaxed);
  return t;
}

static void term_drop(term_t *t) {
  if (t == NULL || atomic_fetch_sub_explicit(&t->holders, 1, memory_order_acq_rel) > 1) return;
  term_drop(t->left);
  term_drop(t->right);
  free(t);
}

static term_t *term_new(kind_t kind, int value, term_t *left, term_t *right) {
  blocks++;
  term_t *t = bench_malloc(sizeof *t);
  *t = (term_t){.holders = 1, .kind = kind, .value = value, .left = left, .right = right};
  return t;
}

static bool term_is(const term_t *t, int value) { return t->kind == NUMBER && t->value == value; }

static term_t *term_number(int value) { return term_new(NUMBER, value, NULL, NULL); }

static term_t *instead(term_t *t, term_t *one, term_t *other) {
  term_drop(one);
  term_drop(other);
  return t;
}

static term_t *term_sum(term_t *a, term_t *b) {
  if (term_is(a, 0)) return instead(b, a, NULL);
  if (term_is(b, 0)) return instead(a, b, NULL);
  if (a->kind == NUMBER && b->kind == NUMBER) {
    return instead(term_number((a->value + b->value) % 1000), a, b);
  }
  return term_new(SUM, 0, a, b);
}

static term_t *term_product(term_t *a, term_t *b) {
  if (term_is(a, 0) || term_is(b, 0)) return instead(term_number(0), a, b);
  if (term_is(a, 1)) return instead(b, a, NULL);
  if (term_is(b, 1)) return instead(a, b, NULL);
  if (a->kind == NUMBER && b->kind == NUMBER) {
    return instead(term_number(a->value * b->value % 1000), a, b);
  }
  return term_new(PRODUCT, 0, a, b);
}

static term_t *term_power(term_t *a, int exponent) {
  if (exponent == 0) return instead(term_number(1), a, NULL);
  return exponent == 1 ? a : term_new(POWER, exponent, a, NULL);
}

/* The derivative; what stays as it is, is shared with `t`, which the caller keeps. */
static term_t *term_derive(term_t *t) {
  switch (t->kind) {
    case NUMBER: return term_number(0);
    case VARIABLE: return term_number(1);
    case SUM: return term_sum(term_derive(t->left), term_derive(t->right));
    case PRODUCT:
      return term_sum(term_product(term_derive(t->left), term_hold(t->right)),
                      term_product(term_hold(t->left), term_derive(t->right)));
    default:
      return term_product(
        term_product(term_number(t->value), term_power(term_hold(t->left), t->value - 1)),
        term_derive(t->left));
  }
}

static term_t *term_make(bench_rng_t *rng, int height) {
  if (height == 0) {
    return bench_below(rng, 3) == 0 ? term_number(1 + (int)bench_below(rng, 9))
                                    : term_new(VARIABLE, 0, NULL, NULL);
  }
  switch (bench_below(rng, 3)) {
    case 0: return term_sum(term_make(rng, height - 1), term_make(rng, height - 1));
    case 1: return term_product(term_make(rng, height - 1), term_make(rng, height - 1));
    default: return term_power(term_make(rng, height - 1), 2 + (int)bench_below(rng, 3));
  }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

typedef struct worker {
  bench_rng_t rng;
  long jobs, blocks;
} worker_t;

static void *worker_body(void *argument) {
  worker_t *w = argument;
  for (long i = 0; i < w->jobs; i++) {
    term_t *t = term_hold(formulas[bench_below(&w->rng, FORMULAS)]);
    for (long k = 0; k < times; k++) t = instead(term_derive(t), t, NULL);
    term_drop(atomic_exchange(&results[bench_below(&w->rng, RESULTS)], t));
  }
  w->blocks = blocks;
  return NULL;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("jobs", jobs, 1, 1L << 40, "jobs in total"),
  BENCH_NUMBER("times", times, 1, 8, "how often a job derives its formula"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "terms",
  .about =
    "terms with reference counts, rewritten by threads that share them\n\n"
    "A program of the kind of Lean, the theorem prover whose run is one of mimalloc's benchmarks\n"
    "(Leijen, Zorn and de Moura, \"Mimalloc: free list sharding in action\", 2019): functional\n"
    "terms of a few words with atomic counts of their holders. A job takes a formula that all\n"
    "threads share and derives it --times times; what stays as it is, is shared with what was\n"
    "there before. The result goes into a table, and the one that was there is dropped, most\n"
    "often by another thread than the one that made it.",
  .operation = "blocks that were allocated, by all threads",
  .example = "terms --threads 4 --times 4",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  bench_rng_t rng = bench_seed(0);
  for (long i = 0; i < FORMULAS; i++) formulas[i] = term_make(&rng, HEIGHT);
  long before = blocks;
  for (long i = 0; i < threads; i++) {
    workers[i] = (worker_t){bench_seed((uint64_t)i + 1), bench_share(jobs, threads, i), 0};
  }

  mark_t start = mark_now();
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  team_join(&team);
  mark_t end = mark_now();

  long long made = 0;
  for (long i = 0; i < threads; i++) made += workers[i].blocks;
  for (long i = 0; i < RESULTS; i++) term_drop(results[i]);
  for (long i = 0; i < FORMULAS; i++) term_drop(formulas[i]);
  json_start(&program);
  json_elapsed(start, end, made);
  json_integer("calls", made + before);
  json_costs();
  json_end();
  return BENCH_OK;
}
