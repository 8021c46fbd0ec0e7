/* drift.c - the live set stays as it is, for long: does what is resident?
 *
 * Threads: with --hand any a slot belongs to no thread; a block changes hands by an exchange.
 *          Between rounds all threads wait, so what is resident and what lives are read at rest.
 * Holds:   a block's first word is its size. */
#include "slope.h"
#include "threads.h"

enum { THREADS_MOST = 1024, SAMPLES = 20, CLOCK_EVERY = 64 };

static long threads = 1, live = 64 << 20, low = 16, high = 128, other_low = 16, other_high = 128;
static const char *hand = "any";
static long foreign = 0, other_percent = 0, operations = 2000000, milliseconds = 0;
static atomic_uintptr_t *slots;
static uint32_t slot_count;
static pthread_barrier_t round_start, round_end;
static double round_deadline;
static bool is_filled, is_over;

typedef struct worker {
  bench_rng_t rng;
  uint32_t first, count; /* the slots that it fills, and those that it replaces */
  uint32_t from, among;
  long quota, done;
  long long live; /* allocated here less freed here */
} worker_t;

/* ---- replacement ----------------------------------------------------------------------------- */

static uintptr_t block_new(worker_t *w) {
  bool is_other = bench_below(&w->rng, 100) < (uint32_t)other_percent;
  size_t size =
    is_other ? bench_between(&w->rng, other_low, other_high) : bench_between(&w->rng, low, high);
  char *p = bench_malloc(size);
  bench_touch_pages(p, 0, size);
  p[size - 1] = 1;
  *(size_t *)p = size;
  w->live += (long long)size;
  return (uintptr_t)p;
}

static void slot_replace(worker_t *w, uint32_t slot) {
  uintptr_t old = atomic_exchange(&slots[slot], block_new(w));
  if (old == 0) return;
  w->live -= (long long)*(size_t *)old;
  free((void *)old);
}

static void round_run(worker_t *w) {
  for (long i = 0; milliseconds > 0 || i < w->quota; i++) {
    bool is_foreign = foreign != 0 && bench_below(&w->rng, 1000) < (uint32_t)foreign;
    slot_replace(w, is_foreign ? bench_below(&w->rng, slot_count)
                               : w->from + bench_below(&w->rng, w->among));
    w->done++;
    if (milliseconds > 0 && i % CLOCK_EVERY == 0 && bench_seconds() >= round_deadline) return;
  }
}

static void round_fill(worker_t *w) {
  for (uint32_t i = 0; i < w->count; i++) slot_replace(w, w->first + i);
}

static void *worker_body(void *argument) {
  worker_t *w = argument;
  for (;;) {
    pthread_barrier_wait(&round_start);
    if (is_over) return NULL;
    if (is_filled) round_run(w);
    else round_fill(w);
    pthread_barrier_wait(&round_end);
  }
}

static worker_t *workers_make(void) {
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  uint32_t first = 0;
  for (long i = 0; i < threads; i++) {
    worker_t *w = &workers[i];
    *w = (worker_t){.rng = bench_seed((uint64_t)i),
                    .first = first,
                    .count = (uint32_t)bench_share((long)slot_count, threads, i)};
    bool is_own = strcmp(hand, "own") == 0 && w->count > 0;
    w->from = is_own ? first : 0;
    w->among = is_own ? w->count : slot_count;
    first += w->count;
  }
  return workers;
}

static void round_together(void) {
  pthread_barrier_wait(&round_start);
  pthread_barrier_wait(&round_end);
}

/* ---- what is found --------------------------------------------------------------------------- */

static long long live_now(const worker_t *workers) {
  long long sum = 0;
  for (long i = 0; i < threads; i++) sum += workers[i].live;
  return sum;
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_WORD("hand", hand, "own|any", "whose blocks a thread replaces"),
  BENCH_NUMBER("foreign", foreign, 0, 1000, "of 1,000 replacements are of any thread's blocks"),
  BENCH_NUMBER("live", live, 1 << 20, 1L << 35, "bytes that live, on average"),
  BENCH_NUMBER("low", low, 16, 1 << 30, "smallest block"),
  BENCH_NUMBER("high", high, 16, 1 << 30, "largest block"),
  BENCH_NUMBER("other-percent", other_percent, 0, 100, "of the blocks have other sizes"),
  BENCH_NUMBER("other-low", other_low, 16, 1 << 30, "smallest of these"),
  BENCH_NUMBER("other-high", other_high, 16, 1 << 30, "largest of these"),
  BENCH_NUMBER("operations", operations, SAMPLES, LONG_MAX / 2, "replacements of all threads"),
  BENCH_NUMBER("milliseconds", milliseconds, 0, 1L << 40, "if not 0, the time decides"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "drift",
  .about =
    "a constant live set, replaced at random for long\n\n"
    "As many blocks of uniformly random size as make --live bytes; then one at random is replaced\n"
    "by one of random size, again and again. A byte of every page is written. After each\n"
    "twentieth of the run all threads wait, and `ratios` gets what is resident, less what was\n"
    "before, over the bytes that live then. `ratio` is the last, `ratio_most` the largest.\n"
    "`slope` is that of the line through the last ten, for a whole run, `slope_error` its\n"
    "standard error (as if samples were independent) of `slope_degrees` degrees of freedom,\n"
    "`slope_least` what it exceeds at 95 %: above zero, resident memory was shown to grow.\n"
    "Definition: freehold's own.",
  .operation = "replacements after the first fill",
  .example = "drift --low 16500 --high 19500 --other-percent 5 --other-low 60K --other-high 65K",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_order("low", low, "high", high);
  bench_check_order("other-low", other_low, "other-high", other_high);
  double mean = ((double)(low + high) * (double)(100 - other_percent) +
                 (double)(other_low + other_high) * (double)other_percent) /
                200;
  slot_count = (uint32_t)((double)live / mean) + 1;
  slots = bench_pages(slot_count * sizeof *slots, true);
  worker_t *workers = workers_make();
  pthread_barrier_init(&round_start, NULL, (unsigned)threads + 1);
  pthread_barrier_init(&round_end, NULL, (unsigned)threads + 1);
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  long long before = bench_resident();
  round_together();
  is_filled = true;

  double ratios[SAMPLES], most = 0;
  mark_t start = mark_now();
  for (int round = 0; round < SAMPLES; round++) {
    for (long i = 0; i < threads; i++) {
      workers[i].quota = bench_share(bench_share(operations, threads, i), SAMPLES, round);
    }
    round_deadline = start.wall + (double)milliseconds * 1e-3 * (round + 1) / SAMPLES;
    round_together();
    ratios[round] = (double)(bench_resident() - before) / (double)live_now(workers);
    if (ratios[round] > most) most = ratios[round];
  }
  mark_t end = mark_now();
  is_over = true;
  pthread_barrier_wait(&round_start);
  team_join(&team);

  long done = 0;
  for (long i = 0; i < threads; i++) done += workers[i].done;
  json_start(&program);
  json_elapsed(start, end, done);
  json_integer("live_now", live_now(workers));
  json_real("ratio", ratios[SAMPLES - 1]);
  json_real("ratio_most", most);
  json_slope(ratios, SAMPLES, 1);
  json_reals("ratios", ratios, SAMPLES);
  json_integer("calls", done + slot_count);
  json_costs();
  json_end();
  return BENCH_OK;
}
