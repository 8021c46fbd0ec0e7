/* bench.h - what every workload shares: options, one JSON line, time, random numbers, memory figures
 *
 * Owns:    the buffer of the JSON line.
 * Threads: options and JSON are the main thread's; everything else may be called by any.
 * Holds:   nothing here calls the allocator, so that all its calls are the workload's own.
 *
 * A program describes itself in a `bench_program_t`, calls `bench_start` first and `json_end` last, and leaves with one
 * of the codes below. Which allocator it measures is LD_PRELOAD's choice; the JSON line names the file that malloc came
 * from, so that a result cannot be taken for another library's. */
#ifndef BENCH_H
#define BENCH_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BENCH_OK = 0, BENCH_USAGE = 2, BENCH_NO_MEMORY = 3, BENCH_SYSTEM = 4 };

/* ---- leaving ---------------------------------------------------------------------------------------------------- */

__attribute__((noreturn, format(printf, 2, 3))) static inline void bench_fail(int code,
                                                                              const char *format, ...) {
  char text[300];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  dprintf(STDERR_FILENO, "bench: %s\n", text);
  _exit(code);
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

typedef struct bench_option {
  const char *name;
  const char *help;
  long *number;           /* where a number goes, with its bounds ... */
  long lowest, highest;
  const char **text;      /* ... or where one of the words in `words` goes */
  const char *words;      /* separated by | */
} bench_option_t;

typedef struct bench_program {
  const char *name;
  const char *about;      /* what it does, and who defined it */
  const char *example;
  bench_option_t *options; /* ended by one without a name */
} bench_program_t;

static inline void bench_help(const bench_program_t *program) {
  printf("%s - %s\n\noptions:\n", program->name, program->about);
  for (bench_option_t *o = program->options; o->name != NULL; o++) {
    if (o->number != NULL) {
      printf("  --%s N  %s (%ld to %ld; default %ld)\n", o->name, o->help, o->lowest, o->highest,
             *o->number);
    } else {
      printf("  --%s WORD  %s (%s; default %s)\n", o->name, o->help, o->words, *o->text);
    }
  }
  printf("  --help  this page\n\nNumbers may end in K, M or G (powers of 1024).\n"
         "The allocator is the one that LD_PRELOAD names, else libc's. One line of JSON goes to standard output.\n"
         "exit code: 0 measured, 2 usage, 3 an allocation failed, 4 the system refused something else\n\n"
         "example:\n  %s\n", program->example);
}

static inline long bench_number(const bench_option_t *o, const char *value) {
  char *end;
  errno = 0;
  long number = strtol(value, &end, 10);
  int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  if (shift != 0) end++;
  bool overflows = __builtin_mul_overflow(number, 1L << shift, &number);
  if (end == value || *end != '\0' || errno != 0 || overflows || number < o->lowest
      || number > o->highest) {
    bench_fail(BENCH_USAGE, "--%s %s: want a number from %ld to %ld", o->name, value, o->lowest,
               o->highest);
  }
  return number;
}

static inline const char *bench_word(const bench_option_t *o, const char *value) {
  size_t length = strlen(value);
  for (const char *word = o->words; word != NULL; word = strchr(word, '|')) {
    if (*word == '|') word++;
    if (length == strcspn(word, "|") && memcmp(word, value, length) == 0) return value;
  }
  bench_fail(BENCH_USAGE, "--%s %s: want one of %s", o->name, value, o->words);
}

static inline void bench_start(int count, char **arguments, const bench_program_t *program) {
  for (int i = 1; i < count; i++) {
    if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
      bench_help(program);
      exit(BENCH_OK);
    }
    bench_option_t *o = program->options;
    while (o->name != NULL && (strncmp(arguments[i], "--", 2) != 0 || strcmp(arguments[i] + 2, o->name) != 0)) o++;
    if (o->name == NULL) bench_fail(BENCH_USAGE, "%s: no option %s; see --help", program->name, arguments[i]);
    if (++i == count) bench_fail(BENCH_USAGE, "--%s wants a value", o->name);
    if (o->number != NULL) *o->number = bench_number(o, arguments[i]);
    else *o->text = bench_word(o, arguments[i]);
  }
}

/* ---- JSON: one object, one line --------------------------------------------------------------------------------- */

static char json_line[4096];
static size_t json_length;

__attribute__((format(printf, 1, 2))) static inline void json_add(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(json_line + json_length, sizeof json_line - json_length, format, arguments);
  va_end(arguments);
  if (n < 0 || (size_t)n >= sizeof json_line - json_length) bench_fail(BENCH_SYSTEM, "JSON line too long");
  json_length += (size_t)n;
}

static inline void json_integer(const char *name, long long value) { json_add(", \"%s\": %lld", name, value); }
static inline void json_real(const char *name, double value) { json_add(", \"%s\": %.4g", name, value); }

/* Paths and words of ours: only quotes and backslashes need care. */
static inline void json_text(const char *name, const char *value) {
  json_add(", \"%s\": \"", name);
  for (; *value != '\0'; value++) json_add(*value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
  json_add("\"");
}

/* The file that the function at `address` was loaded from. */
static inline const char *bench_origin(void *address) {
  Dl_info info;
  return dladdr(address, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "?";
}

static inline void json_start(const bench_program_t *program) {
  json_length = 0;
  json_add("{\"program\": \"%s\"", program->name);
  json_text("malloc", bench_origin((void *)(uintptr_t)&malloc));
  for (bench_option_t *o = program->options; o->name != NULL; o++) {
    if (o->number != NULL) json_integer(o->name, *o->number);
    else json_text(o->name, *o->text);
  }
}

static inline void json_end(void) {
  json_add("}\n");
  for (size_t done = 0; done < json_length;) {
    ssize_t n = write(STDOUT_FILENO, json_line + done, json_length - done);
    if (n < 0 && errno != EINTR) bench_fail(BENCH_SYSTEM, "cannot write the result: %s", strerror(errno));
    if (n > 0) done += (size_t)n;
  }
}

/* ---- time and chance -------------------------------------------------------------------------------------------- */

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

static inline bench_rng_t bench_seed(uint64_t stream) { return (stream + 1) * 0x9E3779B97F4A7C15u; }

static inline uint32_t bench_random(bench_rng_t *rng) {
  *rng = *rng * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*rng >> 32);
}

static inline uint32_t bench_below(bench_rng_t *rng, uint32_t bound) {
  return (uint32_t)(((uint64_t)bench_random(rng) * bound) >> 32);
}

/* From `low` to `high`, each doubling as likely as any other; both are powers of two. */
static inline size_t bench_mixed_size(bench_rng_t *rng, size_t low, size_t high) {
  int first = __builtin_ctzl(low), doublings = __builtin_ctzl(high) - first;
  size_t base = (size_t)1 << (first + (int)bench_below(rng, (uint32_t)doublings));
  return base + bench_below(rng, (uint32_t)base);
}

/* ---- cost of a stretch of work ---------------------------------------------------------------------------------- */

static inline double bench_timeval(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

typedef struct mark {
  double wall, processor;
} mark_t;

static inline mark_t mark_now(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (mark_t){bench_seconds(), bench_timeval(usage.ru_utime) + bench_timeval(usage.ru_stime)};
}

/* Both per operation, in nanoseconds. Processor time suffers less when others want the processors too. */
static inline void json_elapsed(mark_t from, mark_t to, double operations) {
  json_real("ns", (to.wall - from.wall) * 1e9 / operations);
  json_real("processor_ns", (to.processor - from.processor) * 1e9 / operations);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Memory that is the workload's and not the allocator's: pointer tables, stacks. Zero, and touched if `touch`. */
static inline void *bench_pages(size_t bytes, bool touch) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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
  for (ssize_t n; length < size - 1 && (n = read(file, text + length, size - 1 - length)) > 0;) length += (size_t)n;
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
static inline long long bench_resident(void) { return bench_proc_bytes("/proc/self/smaps_rollup", "\nRss:"); }

/* The most that was ever resident. From the memory map's own count, since getrusage hands on the parent's. */
static inline long long bench_peak(void) { return bench_proc_bytes("/proc/self/status", "\nVmHWM:"); }

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

/* ---- several measurements --------------------------------------------------------------------------------------- */

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
