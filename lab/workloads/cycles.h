/* cycles.h - the time of single calls: a cycle counter, its own cost, histograms
 *
 * Threads: a histogram belongs to one thread; `histogram_add` merges them when their threads have
 *          ended.
 * Holds:   a value falls into one of 32 steps of its power of two, so a percentile is true to about
 *          3 %; the largest value is kept as it is. */
#ifndef BENCH_CYCLES_H
#define BENCH_CYCLES_H

#include "bench.h"

/* Both ends of a stretch read it; what comes before has been done by then. */
static inline uint64_t cycles_now(void) {
#if defined(__x86_64__)
  uint32_t low, high;
  __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
  return (uint64_t)high << 32 | low;
#else
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* What two readings one after the other are apart: the least of many. */
static inline uint64_t cycles_cost(void) {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 100000; i++) {
    uint64_t start = cycles_now(), apart = cycles_now() - start;
    if (apart < least) least = apart;
  }
  return least;
}

/* ---- the counter against the clock ----------------------------------------------------------- */

typedef struct cycles_mark {
  uint64_t cycles;
  double seconds;
} cycles_mark_t;

static inline cycles_mark_t cycles_mark(void) {
  return (cycles_mark_t){cycles_now(), bench_seconds()};
}

/* Nanoseconds of a cycle; `from` should be some tenths of a second ago. */
static inline double cycles_nanoseconds(cycles_mark_t from) {
  cycles_mark_t to = cycles_mark();
  return (to.seconds - from.seconds) * 1e9 / (double)(to.cycles - from.cycles);
}

/* ---- histograms ------------------------------------------------------------------------------ */

enum {
  HISTOGRAM_STEP_BITS = 5,
  HISTOGRAM_STEPS = 1 << HISTOGRAM_STEP_BITS,
  HISTOGRAM_BINS = 64 * HISTOGRAM_STEPS
};

typedef struct histogram {
  uint64_t count, most;
  uint64_t bins[HISTOGRAM_BINS];
} histogram_t;

/* Values below HISTOGRAM_STEPS have bins of their own. */
static inline size_t histogram_bin(uint64_t value) {
  if (value < HISTOGRAM_STEPS) return value;
  int shift = 63 - __builtin_clzll(value) - HISTOGRAM_STEP_BITS;
  return (size_t)(shift + 1) * HISTOGRAM_STEPS + (value >> shift) % HISTOGRAM_STEPS;
}

/* The middle of a bin. */
static inline double histogram_value(size_t bin) {
  if (bin < HISTOGRAM_STEPS) return (double)bin;
  size_t shift = bin / HISTOGRAM_STEPS - 1;
  double width = (double)((uint64_t)1 << shift);
  return (double)(HISTOGRAM_STEPS + bin % HISTOGRAM_STEPS) * width + (width - 1) / 2;
}

static inline void histogram_count(histogram_t *h, uint64_t value) {
  h->count++;
  if (value > h->most) h->most = value;
  h->bins[histogram_bin(value)]++;
}

static inline void histogram_add(histogram_t *to, const histogram_t *from) {
  to->count += from->count;
  if (from->most > to->most) to->most = from->most;
  for (size_t i = 0; i < HISTOGRAM_BINS; i++) to->bins[i] += from->bins[i];
}

/* The value that `share` of all values do not exceed. */
static inline double histogram_percentile(const histogram_t *h, double share) {
  uint64_t wanted = (uint64_t)(share * (double)h->count), seen = 0;
  for (size_t i = 0; i < HISTOGRAM_BINS; i++) {
    seen += h->bins[i];
    if (seen > wanted) return histogram_value(i);
  }
  return (double)h->most;
}

#endif
