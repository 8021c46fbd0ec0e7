/* timing.c - how long the slow paths took                                          layer 2: support
 * Contract: timing.h. */
#include "timing.h"

#include "../base/layout.h"
#include "../os/os.h"
#include "options.h"

enum { TIMING_BUCKETS = 64 };

/* relaxed: sums. A bucket counts calls that took less than two to the power of its number. */
typedef struct {
  atomic64_t count[TIMING_BUCKETS], most;
} histogram_t;
static large_table histogram_t timings[TIMING_KIND_COUNT];
LAYOUT_VARIABLE(timings);

__thread uint32_t timing_marks __attribute__((tls_model("initial-exec")));

static void note(timing_kind_t kind, uint64_t ns) {
  histogram_t *h = &timings[kind];
  uint64_t most = atomic64_load_relaxed(&h->most);
  unsigned bucket = ns == 0 ? 0 : 64 - (unsigned)__builtin_clzll(ns);
  atomic64_add_relaxed(&h->count[min_size(bucket, TIMING_BUCKETS - 1)], 1);
  while (ns > most) /* Progress: a failed swap means that the maximum rose */
    if (atomic64_cas_relaxed(&h->most, &most, ns)) most = ns;
}

uint64_t timing_begin(void) {
  if (option_get(OPTION_stats_detail) == 0) return 0;
  timing_marks = 0;
  return os_now_ns();
}

void timing_end(timing_kind_t kind, uint64_t began) {
  if (began != 0) note(kind, os_now_ns() - began);
}

void timing_end_marked(uint64_t began) {
  for (timing_kind_t k = 0; k < TIMING_KIND_COUNT; k++)
    if ((timing_marks >> k & 1) != 0) timing_end(k, began);
}

/* The end of the bucket by which `part` hundredths of all are counted. */
static uint64_t quantile(const histogram_t *h, uint64_t all, unsigned part) {
  uint64_t seen = 0, most = atomic64_load_relaxed(&h->most);
  for (unsigned i = 0; i < TIMING_BUCKETS; i++) {
    seen += atomic64_load_relaxed(&h->count[i]);
    if (seen * 100 >= all * part) return min_size((uint64_t)1 << i, most);
  }
  return most;
}

timing_t timing_of(timing_kind_t kind) {
  const histogram_t *h = &timings[kind];
  uint64_t all = 0;
  for (unsigned i = 0; i < TIMING_BUCKETS; i++) all += atomic64_load_relaxed(&h->count[i]);
  if (all == 0) return (timing_t){0};
  return (timing_t){all, quantile(h, all, 50), quantile(h, all, 90), quantile(h, all, 99),
                    atomic64_load_relaxed(&h->most)};
}

const char *timing_name(timing_kind_t kind) {
#define TIMING_NAME(name, text, what) text,
  static const char names[][8] = {TIMING_KINDS(TIMING_NAME)};
  return names[kind];
}
