/* latency.c - many threads on few processors: how long does every single call take? */
#include "cycles.h"
#include "threads.h"

enum { THREADS_MOST = 1024, SLOTS_MOST = 1 << 20 };

static long threads = 64, pairs = 100000, slots = 500, low = 16, high = 16384, foreign = 20;
static atomic_uintptr_t *shared; /* a slot for every slot of a thread: blocks that anybody takes */
static uint64_t own_cost;

typedef struct worker {
  bench_rng_t rng;
  void **blocks;
  histogram_t *mallocs, *frees;
} worker_t;

static uint64_t spent_since(uint64_t start) {
  uint64_t spent = cycles_now() - start;
  return spent > own_cost ? spent - own_cost : 0;
}

static void *timed_malloc(worker_t *w, size_t size) {
  uint64_t start = cycles_now();
  void *p = malloc(size);
  histogram_count(w->mallocs, spent_since(start));
  if (p == NULL) bench_fail(BENCH_NO_MEMORY, "malloc(%zu) failed", size);
  return p;
}

static void timed_free(worker_t *w, void *p) {
  uint64_t start = cycles_now();
  free(p);
  histogram_count(w->frees, spent_since(start));
}

static void *worker_body(void *argument) {
  worker_t *w = argument;
  for (long i = 0; i < pairs; i++) {
    void *fresh = timed_malloc(w, bench_mixed_size(&w->rng, (size_t)low, (size_t)high)), *old;
    bench_touch(fresh);
    uint32_t slot = bench_below(&w->rng, (uint32_t)slots);
    if (bench_below(&w->rng, 100) < (uint32_t)foreign) {
      old = (void *)atomic_exchange(&shared[slot], (uintptr_t)fresh);
    } else {
      old = w->blocks[slot];
      w->blocks[slot] = fresh;
    }
    if (old != NULL) timed_free(w, old);
  }
  return NULL;
}

static void json_histogram(const char *call, const histogram_t *h, double nanoseconds) {
  static const struct {
    const char *name;
    double share;
  } points[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99_9", 0.999}, {"p99_99", 0.9999}};
  char name[40];
  for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
    snprintf(name, sizeof name, "%s_%s", call, points[i].name);
    json_real(name, histogram_percentile(h, points[i].share) * nanoseconds);
  }
  snprintf(name, sizeof name, "%s_max", call);
  json_real(name, (double)h->most * nanoseconds);
}

/* The whole curve: how many calls took about so many nanoseconds. */
static void json_curve(const char *call, const histogram_t *h, double nanoseconds) {
  static double times[HISTOGRAM_BINS], calls[HISTOGRAM_BINS];
  size_t count = 0;
  for (size_t i = 0; i < HISTOGRAM_BINS; i++) {
    if (h->bins[i] == 0) continue;
    times[count] = histogram_value(i) * nanoseconds;
    calls[count++] = (double)h->bins[i];
  }
  char name[40];
  snprintf(name, sizeof name, "%s_times", call);
  json_reals(name, times, count);
  snprintf(name, sizeof name, "%s_calls", call);
  json_reals(name, calls, count);
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("pairs", pairs, 1, 1L << 32, "replacements by each thread"),
  BENCH_NUMBER("slots", slots, 1, SLOTS_MOST, "blocks of each thread, and as many shared by all"),
  BENCH_NUMBER("low", low, 8, 1 << 20, "smallest block, a power of two"),
  BENCH_NUMBER("high", high, 16, 1 << 20, "largest block, a power of two"),
  BENCH_NUMBER("foreign", foreign, 0, 100,
               "percent of the replacements that take place in the shared slots"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "latency",
  .about =
    "many threads replace blocks at random, every call timed\n\n"
    "Each doubling of the size is as likely as any other. A replacement allocates a block, writes\n"
    "its first bytes, puts it into a random slot, its own or a shared one, and frees the block\n"
    "that was there. Every malloc and free is timed by the processor's cycle counter, whose own\n"
    "cost (`clock_ns`, the least distance of two readings) is subtracted. `malloc_p50` and so on\n"
    "are percentiles in nanoseconds over the calls of all threads, true to 3 %; with more threads\n"
    "than processors the last of them, and `malloc_max`, hold the time slices of other threads.\n"
    "`malloc_times` and `malloc_calls` are the whole curve: so many calls took so long. `ns` has\n"
    "the readings in it. Definition: freehold's own.",
  .operation = "blocks that were allocated, by all threads",
  .example = "latency --threads 8 --foreign 0",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_powers("low", low, "high", high);
  cycles_mark_t first = cycles_mark();
  own_cost = cycles_cost();
  shared = bench_pages((size_t)slots * sizeof *shared, true);
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  histogram_t *histograms = bench_pages(2 * (size_t)threads * sizeof *histograms, true);
  for (long i = 0; i < threads; i++) {
    workers[i] =
      (worker_t){bench_seed((uint64_t)i), bench_pages((size_t)slots * sizeof(void *), true),
                 &histograms[2 * i], &histograms[2 * i + 1]};
  }

  mark_t start = mark_now();
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  team_join(&team);
  mark_t end = mark_now();
  for (long i = 1; i < threads; i++) {
    histogram_add(workers[0].mallocs, workers[i].mallocs);
    histogram_add(workers[0].frees, workers[i].frees);
  }

  double nanoseconds = cycles_nanoseconds(first);
  json_start(&program);
  json_elapsed(start, end, threads * pairs);
  json_histogram("malloc", workers[0].mallocs, nanoseconds);
  json_histogram("free", workers[0].frees, nanoseconds);
  json_curve("malloc", workers[0].mallocs, nanoseconds);
  json_curve("free", workers[0].frees, nanoseconds);
  json_real("clock_ns", (double)own_cost * nanoseconds);
  json_costs();
  json_end();
  return BENCH_OK;
}
