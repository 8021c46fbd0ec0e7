/* program.h - what every workload shows of itself: options, --help, one JSON line, exit codes
 *
 * Owns:    the buffer of the JSON line.
 * Threads: the main thread's, except `bench_fail`, which any may call.
 * Holds:   nothing here calls the allocator, so that all its calls are the workload's own. Also
 *          compiles as C++.
 *
 * A program describes itself in a `bench_program_t`, calls `bench_start` first, then `json_start`,
 * `json_elapsed`, its own figures and `json_end`, and leaves with one of the codes below. Which
 * allocator it measures is LD_PRELOAD's choice; the JSON line names the file that malloc came from,
 * so that a result cannot be taken for another library's. */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BENCH_OK = 0, BENCH_USAGE = 2, BENCH_NO_MEMORY = 3, BENCH_SYSTEM = 4 };

/* ---- leaving --------------------------------------------------------------------------------- */

__attribute__((noreturn, format(printf, 2, 3))) static inline void bench_fail(
  int code, const char *format, ...) {
  char text[300];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  dprintf(STDERR_FILENO, "bench: %s\n", text);
  _exit(code);
}

/* ---- options --------------------------------------------------------------------------------- */

typedef struct bench_option {
  const char *name;
  const char *help;
  long *number; /* where a number goes, with its bounds ... */
  long lowest, highest;
  const char **text; /* ... or where one of the words in `words` goes, or a file's name */
  const char *words; /* separated by |; NULL: a file's name */
} bench_option_t;

/* Rows of a program's table of options, which ends with BENCH_END. */
#define BENCH_NUMBER(name_, variable, lowest_, highest_, help_)                                    \
  { .name = name_, .help = help_, .number = &(variable), .lowest = lowest_, .highest = highest_ }
#define BENCH_WORD(name_, variable, words_, help_)                                                 \
  { .name = name_, .help = help_, .text = &(variable), .words = words_ }
#define BENCH_PATH(name_, variable, help_)                                                         \
  { .name = name_, .help = help_, .text = &(variable) }
#define BENCH_END                                                                                  \
  { .name = NULL }

typedef struct bench_program {
  const char *name;
  const char *about;     /* what it does, and who defined it */
  const char *operation; /* what `operations` counts, in the plural */
  const char *example;
  bench_option_t *options; /* ended by BENCH_END */
} bench_program_t;

static inline void bench_help(const bench_program_t *program) {
  printf("%s - %s\n\noptions:\n", program->name, program->about);
  for (bench_option_t *o = program->options; o->name != NULL; o++) {
    if (o->number != NULL) {
      printf("  --%s N (%ld to %ld; default %ld)\n", o->name, o->lowest, o->highest, *o->number);
    } else if (o->words == NULL) printf("  --%s FILE\n", o->name);
    else printf("  --%s WORD (%s; default %s)\n", o->name, o->words, *o->text);
    printf("      %s\n", o->help);
  }
  printf("  --help\n      this page\n\n"
         "Numbers may end in K, M or G (powers of 1024).\n"
         "The allocator is the one that LD_PRELOAD names, else libc's. One line of JSON goes to\n"
         "standard output: `operations` counts %s;\n"
         "`seconds` is wall time, `ns` that of one of them in nanoseconds, `processor_seconds`\n"
         "user and system time.\n"
         "exit code: 0 measured, 2 usage, 3 an allocation failed, 4 the system refused\n\n"
         "example:\n  %s\n",
         program->operation, program->example);
}

static inline long bench_number(const bench_option_t *o, const char *value) {
  char *end;
  errno = 0;
  long number = strtol(value, &end, 10);
  int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  if (shift != 0) end++;
  bool overflows = __builtin_mul_overflow(number, 1L << shift, &number);
  if (end == value || *end != '\0' || errno != 0 || overflows || number < o->lowest ||
      number > o->highest) {
    bench_fail(BENCH_USAGE, "--%s %s: want a number from %ld to %ld", o->name, value, o->lowest,
               o->highest);
  }
  return number;
}

static inline const char *bench_word(const bench_option_t *o, const char *value) {
  size_t length = strlen(value);
  if (o->words == NULL) return value;
  for (const char *word = o->words; word != NULL; word = strchr(word, '|')) {
    if (*word == '|') word++;
    if (length == strcspn(word, "|") && memcmp(word, value, length) == 0) return value;
  }
  bench_fail(BENCH_USAGE, "--%s %s: want one of %s", o->name, value, o->words);
}

/* The option that `argument` names, as --NAME. */
static inline const bench_option_t *bench_option(const bench_program_t *program,
                                                 const char *argument) {
  for (const bench_option_t *o = program->options; o->name != NULL; o++) {
    if (strncmp(argument, "--", 2) == 0 && strcmp(argument + 2, o->name) == 0) return o;
  }
  bench_fail(BENCH_USAGE, "%s: no option %s; see --help", program->name, argument);
}

static inline void bench_start(int count, char **arguments, const bench_program_t *program) {
  for (int i = 1; i < count; i++) {
    if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
      bench_help(program);
      exit(BENCH_OK);
    }
    const bench_option_t *o = bench_option(program, arguments[i]);
    if (++i == count) bench_fail(BENCH_USAGE, "--%s wants a value", o->name);
    if (o->number != NULL) *o->number = bench_number(o, arguments[i]);
    else *o->text = bench_word(o, arguments[i]);
  }
}

/* For the two ends of a range. */
static inline void bench_check_order(const char *low_name, long low, const char *high_name,
                                     long high) {
  if (low > high) {
    bench_fail(BENCH_USAGE, "--%s %ld is larger than --%s %ld", low_name, low, high_name, high);
  }
}

static inline bool is_power_of_two(long number) { return (number & (number - 1)) == 0; }

/* For the ends of a range whose doublings are equally likely. */
static inline void bench_check_powers(const char *low_name, long low, const char *high_name,
                                      long high) {
  if (low >= high || !is_power_of_two(low) || !is_power_of_two(high)) {
    bench_fail(BENCH_USAGE, "--%s %ld and --%s %ld: want powers of two, the first the smaller one",
               low_name, low, high_name, high);
  }
}

/* ---- JSON: one object, one line -------------------------------------------------------------- */

static char json_line[1 << 17];
static size_t json_length;
static bool json_separated; /* does a comma come before the next member? */

__attribute__((format(printf, 1, 2))) static inline void json_add(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(json_line + json_length, sizeof json_line - json_length, format, arguments);
  va_end(arguments);
  if (n < 0 || (size_t)n >= sizeof json_line - json_length) {
    bench_fail(BENCH_SYSTEM, "JSON line too long");
  }
  json_length += (size_t)n;
}

static inline void json_name(const char *name) {
  json_add("%s\"%s\": ", json_separated ? ", " : "", name);
  json_separated = true;
}

static inline void json_integer(const char *name, long long value) {
  json_name(name);
  json_add("%lld", value);
}

static inline void json_real(const char *name, double value) {
  if (!__builtin_isfinite(value)) bench_fail(BENCH_SYSTEM, "%s is not a number", name);
  json_name(name);
  json_add("%.9g", value);
}

static inline void json_reals(const char *name, const double *values, size_t count) {
  json_name(name);
  for (size_t i = 0; i < count; i++) json_add("%s%.9g", i == 0 ? "[" : ", ", values[i]);
  json_add(count == 0 ? "[]" : "]");
}

/* Paths and words of ours: only quotes and backslashes need care. */
static inline void json_text(const char *name, const char *value) {
  json_name(name);
  json_add("\"");
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
  json_separated = false;
  json_add("{");
  json_text("workload", program->name);
  json_text("malloc", bench_origin((void *)(uintptr_t)&malloc));
  json_name("parameters");
  json_add("{");
  json_separated = false;
  for (bench_option_t *o = program->options; o->name != NULL; o++) {
    if (o->number != NULL) json_integer(o->name, *o->number);
    else json_text(o->name, *o->text);
  }
  json_add("}");
  json_separated = true;
}

static inline void json_end(void) {
  json_add("}\n");
  for (size_t done = 0; done < json_length;) {
    ssize_t n = write(STDOUT_FILENO, json_line + done, json_length - done);
    if (n < 0 && errno != EINTR) {
      bench_fail(BENCH_SYSTEM, "cannot write the result: %s", strerror(errno));
    }
    if (n > 0) done += (size_t)n;
  }
}

#endif
