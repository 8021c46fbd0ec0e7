/* hugechurn.c - huge blocks come and go for long: does the address space drift away? */
#include "bench.h"

enum { SLOTS_MOST = 1 << 16, SAMPLES = 20 };

static long operations = 1000000, slots = 40, low = 64 << 20, high = 32L << 30;

typedef struct item {
  uintptr_t start;
  size_t size; /* 0: empty, malloc failed */
} item_t;

static item_t items[SLOTS_MOST];
static uintptr_t lowest = UINTPTR_MAX, highest; /* of all that ever was */
static size_t live, live_most;
static long failures;

static size_t size_next(bench_rng_t *rng) {
  int first = __builtin_ctzl((size_t)low), doublings = __builtin_ctzl((size_t)high) - first;
  size_t base = (size_t)low << bench_below(rng, (uint32_t)doublings);
  uint64_t number = (uint64_t)bench_random(rng) << 32 | bench_random(rng);
  return base + number % base;
}

static void item_replace(item_t *item, size_t size) {
  free((void *)item->start);
  live -= item->size;
  *item = (item_t){(uintptr_t)malloc(size), size};
  if (item->start == 0) {
    item->size = 0;
    failures++;
    return;
  }
  if (item->start < lowest) lowest = item->start;
  if (item->start + size > highest) highest = item->start + size;
  live += size;
  if (live > live_most) live_most = live;
}

static long long virtual_now(void) { return bench_proc_bytes("/proc/self/status", "\nVmSize:"); }

static bench_option_t options[] = {
  BENCH_NUMBER("operations", operations, SAMPLES, LONG_MAX / 2, "replacements"),
  BENCH_NUMBER("slots", slots, 1, SLOTS_MOST, "blocks alive at a time"),
  BENCH_NUMBER("low", low, 1 << 16, 1L << 40, "smallest block, a power of two"),
  BENCH_NUMBER("high", high, 1 << 17, 1L << 40, "largest, a power of two"),
  BENCH_SEED,
  BENCH_END,
};

static const bench_program_t program = {
  .name = "hugechurn",
  .about =
    "huge blocks that nobody touches, replaced at random for long\n\n"
    "Each doubling of the size from --low to --high is as likely as any other. `span` is the\n"
    "highest less the lowest address that any block ever had, `ratio` that over `live_most`, the\n"
    "most that ever lived at once: 1 where all room is used again at once, and growing where each\n"
    "block gets new room. `virtual_ratio` is the address space that was mapped, the most of 20\n"
    "samples and less what was mapped before, over the same. A malloc that fails is counted\n"
    "(`failures`), and its slot is empty until it is the next one's. Definition: freehold's own.",
  .operation = "replacements",
  .example = "hugechurn --operations 10M --slots 40",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_powers("low", low, "high", high);
  bench_rng_t rng = bench_seed(0);
  long long before = virtual_now(), most = 0;
  mark_t start = mark_now();
  for (int sample = 0; sample < SAMPLES; sample++) {
    for (long left = bench_share(operations, SAMPLES, sample); left > 0; left--) {
      item_replace(&items[bench_below(&rng, (uint32_t)slots)], size_next(&rng));
    }
    long long now = virtual_now() - before;
    if (now > most) most = now;
  }
  mark_t end = mark_now();
  if (live_most == 0) bench_fail(BENCH_NO_MEMORY, "no block of %ld bytes at all", low);
  json_start(&program);
  json_elapsed(start, end, operations);
  json_integer("live_most", (long long)live_most);
  json_integer("span", (long long)(highest - lowest));
  json_real("ratio", (double)(highest - lowest) / (double)live_most);
  json_real("virtual_ratio", (double)most / (double)live_most);
  json_integer("failures", failures);
  json_costs();
  json_end();
  return BENCH_OK;
}
