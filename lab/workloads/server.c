/* server.c - a server's day: a burst, a pause, a changing mix of sizes, steady work; and its memory
 *
 * Threads: workers count their own live bytes; the main thread samples. A barrier stands between
 *          the phases. */
#include "threads.h"

enum { THREADS_MOST = 256, SAMPLES_MOST = 2000, PHASES = 4 };

static long threads = 4, bytes = 256L << 20, pairs = 300000, idle = 500, period = 10;
static pthread_barrier_t barrier;
static atomic_int phase;    /* the one that is going on; PHASES: all have ended */
static double ends[PHASES]; /* of the phases, in seconds since the first began */
static double begin;

typedef struct worker {
  _Alignas(64) atomic_llong live; /* bytes asked for and not yet freed; its thread alone writes */
  bench_rng_t rng;
  long most, count, operations;
  struct item {
    void *block;
    uint32_t size;
  } * items;
} worker_t;

/* ---- what requests do ------------------------------------------------------------------------ */

static void live_add(worker_t *w, long long size) {
  atomic_store_explicit(&w->live, atomic_load_explicit(&w->live, memory_order_relaxed) + size,
                        memory_order_relaxed);
}

static void item_make(worker_t *w, struct item *item, size_t size) {
  *item = (struct item){bench_malloc(size), (uint32_t)size};
  memset(item->block, 1, size);
  live_add(w, (long long)size);
  w->operations++;
}

static void item_free(worker_t *w, struct item *item) {
  live_add(w, -(long long)item->size);
  free(item->block);
}

/* Replaces `pairs` blocks at random; while `shifting`, the sizes go from those between `low` and
 * `high` to those eight times as large. */
static void items_replace(worker_t *w, size_t low, size_t high, bool shifting) {
  for (long i = 0; i < pairs; i++) {
    struct item *item = &w->items[bench_below(&w->rng, (uint32_t)w->count)];
    size_t size = bench_mixed_size(&w->rng, low, high);
    if (shifting) size *= 1 + (size_t)(7 * i / pairs);
    item_free(w, item);
    item_make(w, item, size);
  }
}

/* ---- the phases ------------------------------------------------------------------------------ */

/* All of `bytes` at once, then all but every eighth block goes. */
static void phase_burst(worker_t *w) {
  while (atomic_load_explicit(&w->live, memory_order_relaxed) < bytes / threads &&
         w->count < w->most) {
    item_make(w, &w->items[w->count++], bench_mixed_size(&w->rng, 16, 1 << 14));
  }
  long kept = 0;
  for (long i = 0; i < w->count; i++) {
    if (i % 8 == 0) w->items[kept++] = w->items[i];
    else item_free(w, &w->items[i]);
  }
  w->count = kept;
}

static void phase_idle(worker_t *w) {
  (void)w;
  bench_sleep((double)idle * 1e-3);
}

static void phase_shift(worker_t *w) { items_replace(w, 16, 1 << 11, true); }
static void phase_steady(worker_t *w) { items_replace(w, 128, 1 << 14, false); }

static void (*const phases[PHASES])(worker_t *w) = {phase_burst, phase_idle, phase_shift,
                                                    phase_steady};
static const char *const phase_names[PHASES] = {"burst", "idle", "shift", "steady"};

static void *worker_body(void *argument) {
  worker_t *w = argument;
  for (int i = 0; i < PHASES; i++) {
    phases[i](w);
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
      ends[i] = bench_seconds() - begin;
      atomic_store(&phase, i + 1);
    }
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

/* ---- samples --------------------------------------------------------------------------------- */

static struct {
  size_t count;
  double seconds[SAMPLES_MOST], resident[SAMPLES_MOST], live[SAMPLES_MOST];
} samples;

static double live_bytes(const worker_t *workers) {
  long long live = 0;
  for (long i = 0; i < threads; i++) {
    live += atomic_load_explicit(&workers[i].live, memory_order_relaxed);
  }
  return (double)live;
}

/* Every other one goes, so that the rest still spans the whole time. */
static void samples_thin(void) {
  samples.count /= 2;
  for (size_t i = 0; i < samples.count; i++) {
    samples.seconds[i] = samples.seconds[2 * i];
    samples.resident[i] = samples.resident[2 * i];
    samples.live[i] = samples.live[2 * i];
  }
}

static void sample_take(const worker_t *workers, long long before) {
  size_t i = samples.count++;
  double live = live_bytes(workers);
  samples.resident[i] = (double)(bench_resident() - before);
  samples.live[i] = (live + live_bytes(workers)) / 2;
  samples.seconds[i] = bench_seconds() - begin;
}

/* The integral of both over time, over each other. */
static double samples_ratio(void) {
  double resident = 0, live = 0;
  for (size_t i = 1; i < samples.count; i++) {
    double width = samples.seconds[i] - samples.seconds[i - 1];
    resident += width * (samples.resident[i] + samples.resident[i - 1]) / 2;
    live += width * (samples.live[i] + samples.live[i - 1]) / 2;
  }
  return resident / live;
}

/* What was resident and not live in the last sample before `seconds`. */
static double samples_excess(double seconds) {
  double excess = 0;
  for (size_t i = 0; i < samples.count && samples.seconds[i] < seconds; i++) {
    excess = samples.resident[i] - samples.live[i];
  }
  return excess;
}

static void json_samples(void) {
  char name[40];
  for (int i = 0; i < PHASES; i++) {
    snprintf(name, sizeof name, "%s_seconds", phase_names[i]);
    json_real(name, ends[i] - (i == 0 ? 0 : ends[i - 1]));
    snprintf(name, sizeof name, "%s_excess", phase_names[i]);
    json_real(name, samples_excess(ends[i]));
  }
  json_real("ratio", samples_ratio());
  json_reals("sample_seconds", samples.seconds, samples.count);
  json_reals("sample_resident", samples.resident, samples.count);
  json_reals("sample_live", samples.live, samples.count);
}

static bench_option_t options[] = {
  BENCH_NUMBER("threads", threads, 1, THREADS_MOST, "threads"),
  BENCH_NUMBER("bytes", bytes, 1 << 20, 1L << 38, "of the burst, all threads together"),
  BENCH_NUMBER("pairs", pairs, 1, 1L << 32,
               "replacements of each thread in the phases shift and steady"),
  BENCH_NUMBER("idle", idle, 0, 600000, "milliseconds of the phase idle"),
  BENCH_NUMBER("period", period, 1, 10000, "milliseconds from sample to sample, at first"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "server",
  .about =
    "a server with phases whose resident and live bytes are sampled over time\n\n"
    "burst: the threads fill --bytes with blocks of 16 bytes to 16 KiB and free seven of eight.\n"
    "idle: they sleep. shift: they replace what is left at random, by 16 bytes to 2 KiB at first\n"
    "and by eight times as much in the end. steady: the same with 128 bytes to 16 KiB. Each\n"
    "doubling of the size is as likely as any other, every byte is written. `sample_resident` is\n"
    "what the kernel counts, less what was resident before; `sample_live` what the threads asked\n"
    "for and have not freed. `ratio` is the integral of resident over time over that of live,\n"
    "`idle_excess` what was resident and not live at the end of that phase, and so on. `seconds`\n"
    "and `ns` leave out the phase idle. Definition: freehold's own.",
  .operation = "blocks that were allocated, by all threads",
  .example = "server --threads 16 --bytes 1G --idle 2000",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  worker_t *workers = bench_pages((size_t)threads * sizeof *workers, true);
  for (long i = 0; i < threads; i++) {
    workers[i].rng = bench_seed((uint64_t)i);
    workers[i].most = bytes / threads / 1024 + 1000; /* the mean block has 2.4 KiB */
    workers[i].items = bench_pages((size_t)workers[i].most * sizeof(struct item), true);
  }

  long long before = bench_resident();
  begin = bench_seconds();
  mark_t start = mark_now();
  sample_take(workers, before);
  team_t team = team_start((size_t)threads, worker_body, workers, sizeof *workers);
  for (double wait = (double)period * 1e-3; atomic_load(&phase) < PHASES;) {
    bench_sleep(wait);
    sample_take(workers, before);
    if (samples.count < SAMPLES_MOST) continue;
    samples_thin();
    wait *= 2;
  }
  team_join(&team);
  sample_take(workers, before);
  mark_t spent = mark_between(start, mark_now());
  spent.wall = ends[PHASES - 1] - (ends[1] - ends[0]);

  long operations = 0;
  for (long i = 0; i < threads; i++) operations += workers[i].operations;
  json_start(&program);
  json_work(operations, spent);
  json_real("ns", spent.wall * 1e9 / (double)operations);
  json_samples();
  json_costs();
  json_end();
  return BENCH_OK;
}
