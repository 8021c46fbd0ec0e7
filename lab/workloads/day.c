/* day.c - a day of a server in fast motion: sizes and live set drift, and come back; does what is
 * resident?
 *
 * Threads: each has blocks of its own. An eighth of the operations swaps a new block for one that
 *          some thread left in the `post`, by an exchange. Between phases all threads wait.
 * Holds:   a block's first word is its size. */
#include "slope.h"
#include "threads.h"

enum { THREADS_MOST = 256, PHASES = 72, PERIOD = 12, POST = 1024, SLOW_SHARE = 8, SLOWNESS = 1024 };
enum { SIZE_LEAST = 16, SIZE_SPREAD = 8, MEAN_LEAST = 48 }; /* 16 to 128 bytes have 56 */

static long threads = 2, live = 64 << 20, operations = 10000000;
static atomic_uintptr_t post[POST];
static pthread_barrier_t phase_start, phase_end;
static size_t phase_low;
static bool is_filled, is_over;

typedef struct worker {
  bench_rng_t rng;
  uintptr_t *blocks;
  uint32_t count, most;
  long quota, calls;
  long long target, held; /* bytes: that its own blocks should have, and that they have */
  long long live;         /* allocated here less freed here */
} worker_t;

/* ---- one operation --------------------------------------------------------------------------- */

static size_t size_of(uintptr_t block) { return *(size_t *)block; }

static uintptr_t block_new(worker_t *w) {
  size_t size = bench_mixed_size(&w->rng, phase_low, phase_low * SIZE_SPREAD);
  char *p = bench_malloc(size);
  bench_touch_pages(p, 0, size);
  p[size - 1] = 1;
  *(size_t *)p = size;
  w->calls++;
  w->live += (long long)size;
  return (uintptr_t)p;
}

static void block_free(worker_t *w, uintptr_t block) {
  if (block == 0) return;
  w->live -= (long long)size_of(block);
  free((void *)block);
}

static void own_add(worker_t *w) {
  uintptr_t block = block_new(w);
  w->blocks[w->count++] = block;
  w->held += (long long)size_of(block);
}

/* The first eighth lives long: it is chosen a thousandth as often. */
static uint32_t own_choose(worker_t *w) {
  uint32_t k = bench_below(&w->rng, w->count), slow = w->count / SLOW_SHARE;
  if (k < slow && bench_below(&w->rng, SLOWNESS) != 0) k = slow + k % (w->count - slow);
  return k;
}

/* One of its own goes. The last one takes its place, or a new one, unless too much lives. */
static void own_replace(worker_t *w) {
  uint32_t k = own_choose(w);
  uintptr_t old = w->blocks[k];
  bool is_too_much = w->held > w->target;
  w->held -= (long long)size_of(old);
  block_free(w, old);
  w->blocks[k] = w->blocks[--w->count];
  if (!is_too_much) own_add(w);
}

static void operate(worker_t *w) {
  if (bench_below(&w->rng, 8) == 0) {
    block_free(w, atomic_exchange(&post[bench_below(&w->rng, POST)], block_new(w)));
  } else if (w->count == 0 || (w->held < w->target && w->count < w->most)) own_add(w);
  else own_replace(w);
}

/* ---- phases ---------------------------------------------------------------------------------- */

static void *worker_body(void *argument) {
  worker_t *w = argument;
  for (;;) {
    pthread_barrier_wait(&phase_start);
    if (is_over) return NULL;
    if (is_filled) {
      for (long i = 0; i < w->quota; i++) operate(w);
    } else {
      while (w->held < w->target && w->count < w->most) own_add(w);
    }
    pthread_barrier_wait(&phase_end);
  }
}

/* 0 to 6 and back in a period. */
static int tide(int phase) {
  int at = phase % PERIOD;
  return at <= PERIOD / 2 ? at : PERIOD - at;
}

/* All threads wait. The smallest blocks go from 16 bytes to 1 KiB, the live set from half of --live
 * to three halves, a quarter of a period ahead. */
static void phase_run(worker_t *workers, int phase) {
  phase_low = (size_t)SIZE_LEAST << tide(phase);
  for (long i = 0; i < threads; i++) {
    worker_t *w = &workers[i];
    w->target = live / threads * (PERIOD / 4 + tide(phase + PERIOD / 4)) / (PERIOD / 2);
    w->quota = bench_share(bench_share(operations, threads, i), PHASES, phase);
  }
  pthread_barrier_wait(&phase_start);
  pthread_barrier_wait(&phase_end);
}

static double live_now(const worker_t *workers) {
  double sum = 0;
  for (long i = 0; i < threads; i++) sum += (double)workers[i].live;
  return sum;
}

static worker_t *workers_make(void) {
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  long most = live / threads * 3 / 2 / MEAN_LEAST + 1;
  for (long i = 0; i < threads; i++) {
    workers[i] = (worker_t){.rng = bench_seed((uint64_t)i), .most = (uint32_t)most};
    workers[i].blocks = bench_pages((size_t)most * sizeof(uintptr_t), true);
  }
  return workers;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("live", live, 1 << 20, 1L << 34, "bytes that live, on average"),
  BENCH_NUMBER("operations", operations, PHASES, LONG_MAX / 2, "of all threads"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "day",
  .about =
    "a day of a server in fast motion\n\n"
    "72 phases, whose sizes and live set drift, and come back every twelfth. The smallest blocks\n"
    "go from 16 bytes to 1 KiB and back by doublings, the largest are eight times as large, each\n"
    "doubling is as likely as any other. The live set goes from half of --live to three halves.\n"
    "An operation replaces a block at random, or only frees or allocates one where too much or\n"
    "too little lives; an eighth of the blocks is chosen a thousandth as often. One in eight\n"
    "gives a block to another thread instead, for one that was left. A byte of every page is\n"
    "written. After each phase all threads wait, and `ratios` gets what is resident, less what\n"
    "was before, over the bytes that live then; `sample_resident` and `sample_live` are the two.\n"
    "`ratio` is the mean of the last 36, `ratio_most` the largest of all. `slope` is that of the\n"
    "line through the last 36, for a whole run, each place in the period with a mean of its own.\n"
    "`slope_error` is its standard error (as if phases were independent) of `slope_degrees`\n"
    "degrees of freedom, `slope_least` what it exceeds at 95 %. Definition: freehold's own.",
  .operation = "operations after the first fill",
  .example = "day --threads 4 --operations 1000000000",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  worker_t *workers = workers_make();
  pthread_barrier_init(&phase_start, NULL, (unsigned)threads + 1);
  pthread_barrier_init(&phase_end, NULL, (unsigned)threads + 1);
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  long long before = bench_resident();
  phase_run(workers, 0);
  is_filled = true;

  double ratios[PHASES], at[PHASES], resident[PHASES], living[PHASES], most = 0, sum = 0;
  mark_t start = mark_now();
  for (int phase = 0; phase < PHASES; phase++) {
    phase_run(workers, phase);
    at[phase] = mark_now().wall - start.wall;
    resident[phase] = (double)(bench_resident() - before);
    living[phase] = live_now(workers);
    ratios[phase] = resident[phase] / living[phase];
    if (ratios[phase] > most) most = ratios[phase];
    if (phase >= PHASES / 2) sum += ratios[phase];
  }
  mark_t end = mark_now();
  is_over = true;
  pthread_barrier_wait(&phase_start);
  team_join(&team);

  long calls = 0;
  for (long i = 0; i < threads; i++) calls += workers[i].calls;
  json_start(&program);
  json_elapsed(start, end, operations);
  json_real("ratio", sum / (PHASES - PHASES / 2));
  json_real("ratio_most", most);
  json_slope(ratios, PHASES, PERIOD);
  json_reals("ratios", ratios, PHASES);
  json_reals("sample_seconds", at, PHASES);
  json_reals("sample_resident", resident, PHASES);
  json_reals("sample_live", living, PHASES);
  json_integer("calls", calls);
  json_costs();
  json_end();
  return BENCH_OK;
}
