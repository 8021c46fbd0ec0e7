/* bench.h - what every workload shares: time, random numbers, memory and its figures
 *
 * Threads: any thread may call anything here but the json_ functions, which are the main thread's.
 * Holds:   nothing here calls the allocator but `bench_malloc`. Also compiles as C++. */
#ifndef BENCH_H
#define BENCH_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "program.h"

/* ---- time and chance ------------------------------------------------------------------------- */

static inline double bench_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline void bench_sleep(double seconds) {
  struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

/* A linear congruential generator: a few cycles, the same numbers for every allocator. */
typedef uint64_t bench_rng_t;

static long bench_seed_number __attribute__((unused));

#define BENCH_SEED BENCH_NUMBER("seed", bench_seed_number, 0, INT_MAX, "of sizes and orders")

static inline bench_rng_t bench_seed(uint64_t stream) {
  return (((uint64_t)bench_seed_number << 32) + stream + 1) * 0x9E3779B97F4A7C15u;
}

static inline uint32_t bench_random(bench_rng_t *rng) {
  *rng = *rng * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*rng >> 32);
}

static inline uint32_t bench_below(bench_rng_t *rng, uint32_t bound) {
  return (uint32_t)(((uint64_t)bench_random(rng) * bound) >> 32);
}

/* From `low` to `high`, both included. */
static inline size_t bench_between(bench_rng_t *rng, long low, long high) {
  return (size_t)low + bench_below(rng, (uint32_t)(high - low + 1));
}

/* From `low` to `high`, each doubling as likely as any other; both are powers of two. */
static inline size_t bench_mixed_size(bench_rng_t *rng, size_t low, size_t high) {
  int first = __builtin_ctzl(low), doublings = __builtin_ctzl(high) - first;
  size_t base = (size_t)1 << (first + (int)bench_below(rng, (uint32_t)doublings));
  return base + bench_below(rng, (uint32_t)base);
}

/* What thread `index` of `threads` does of `total`: what is left over goes to the first ones. */
static inline long bench_share(long total, long threads, long index) {
  return total / threads + (index < total % threads);
}

/* ---- cost of a stretch of work --------------------------------------------------------------- */

static inline double bench_timeval(struct timeval t) {
  return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

typedef struct mark {
  double wall, processor;
} mark_t;

static inline mark_t mark_now(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (mark_t){bench_seconds(), bench_timeval(usage.ru_utime) + bench_timeval(usage.ru_stime)};
}

static inline mark_t mark_between(mark_t from, mark_t to) {
  return (mark_t){to.wall - from.wall, to.processor - from.processor};
}

static inline void json_work(long long operations, mark_t spent) {
  json_integer("operations", operations);
  json_real("seconds", spent.wall);
  json_real("processor_seconds", spent.processor);
}

/* With the time of one operation. Processor time suffers less when others want the processors. */
static inline void json_elapsed(mark_t from, mark_t to, long long operations) {
  mark_t spent = mark_between(from, to);
  json_work(operations, spent);
  json_real("ns", spent.wall * 1e9 / (double)operations);
  json_real("processor_ns", spent.processor * 1e9 / (double)operations);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Memory that is the workload's and not the allocator's: tables of pointers, stacks. It is zero. */
static inline void *bench_pages(size_t bytes, bool touch) {
  bytes += bytes == 0;
  void *p =
    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) bench_fail(BENCH_SYSTEM, "mmap of %zu bytes: %s", bytes, strerror(errno));
  madvise(p, bytes, MADV_NOHUGEPAGE);
  for (size_t at = 0; touch && at < bytes; at += 4096) ((volatile char *)p)[at] = 0;
  return p;
}

static inline void *bench_malloc(size_t size) {
  void *p = malloc(size);
  if (__builtin_expect(p == NULL, 0)) bench_fail(BENCH_NO_MEMORY, "malloc(%zu) failed", size);
  return p;
}

/* As a program would: it allocates because it has something to write. */
static inline void bench_touch(void *p) { *(volatile uint64_t *)p = (uintptr_t)p; }

static inline void bench_touch_pages(char *p, size_t from, size_t to) {
  for (size_t at = from; at < to; at += 4096) *(volatile char *)(p + at) = 1;
}

/* The file's first bytes as text; false where there is no such file. */
static inline bool bench_read(const char *path, char *text, size_t size) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  size_t length = 0;
  for (ssize_t n; length < size - 1 && (n = read(file, text + length, size - 1 - length)) > 0;) {
    length += (size_t)n;
  }
  close(file);
  text[length] = '\0';
  return true;
}

/* The figure behind `label` in a file of /proc, in bytes (the file says kB). */
static inline long long bench_proc_bytes(const char *path, const char *label) {
  char text[4096];
  if (!bench_read(path, text, sizeof text)) bench_fail(BENCH_SYSTEM, "cannot read %s", path);
  const char *at = strstr(text, label);
  if (at == NULL) bench_fail(BENCH_SYSTEM, "%s has no %s", path, label);
  return strtoll(at + strlen(label), NULL, 10) * 1024;
}

/* Exact, by walking the page tables: milliseconds for gigabytes. */
static inline long long bench_resident(void) {
  return bench_proc_bytes("/proc/self/smaps_rollup", "\nRss:");
}

/* The most that was ever resident, by the memory map: getrusage hands on the parent's. */
static inline long long bench_peak(void) {
  return bench_proc_bytes("/proc/self/status", "\nVmHWM:");
}

static inline long bench_mappings(void) {
  static char text[1 << 16];
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) bench_fail(BENCH_SYSTEM, "cannot read /proc/self/maps");
  long lines = 0;
  for (ssize_t n; (n = read(file, text, sizeof text)) > 0;) {
    for (ssize_t i = 0; i < n; i++) lines += text[i] == '\n';
  }
  close(file);
  return lines;
}

/* What all results end with; call it while the workload still holds its blocks. */
static inline void json_costs(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  json_real("user", bench_timeval(usage.ru_utime));
  json_real("system", bench_timeval(usage.ru_stime));
  json_integer("faults", usage.ru_minflt);
  json_integer("mappings", bench_mappings());
  json_integer("peak", bench_peak());
}

/* ---- calls that not every allocator has ------------------------------------------------------ */

static inline void *bench_symbol_own(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  bool is_own =
    found != NULL && strcmp(bench_origin(found), bench_origin((void *)(uintptr_t)&malloc)) == 0;
  return is_own ? found : NULL;
}

/* The second name is NULL where no peer has one of its own for it. */
static inline void *bench_symbol(const char *first, const char *second) {
  void *found = bench_symbol_own(first);
  if (found == NULL && second != NULL) found = bench_symbol_own(second);
  if (found == NULL) bench_fail(BENCH_SYSTEM, "the allocator has nothing like %s", first);
  return found;
}

/* ---- several measurements -------------------------------------------------------------------- */

/* Sorted by insertion: qsort may call the allocator. */
static inline void bench_sort(double *values, size_t count) {
  for (size_t i = 1; i < count; i++) {
    double value = values[i];
    size_t j = i;
    for (; j > 0 && values[j - 1] > value; j--) values[j] = values[j - 1];
    values[j] = value;
  }
}

#endif
