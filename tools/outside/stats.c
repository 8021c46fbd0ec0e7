/* stats.c - `freehold stats`: what the library writes itself, from outside
 * Contract: commands.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/api/api.h"
#include "../../src/support/stats.h"
#include "../../src/support/timing.h"
#include "adopt.h"
#include "commands.h"
#include "target.h"

/* ---- what all commands share ----------------------------------------------------------------- */

int outside_option(int argc, char **argv, const struct option *options, const char *help) {
  opterr = 0;
  int found = getopt_long(argc, argv, ":h", options, NULL);
  if (found == OPTION_HELP) {
    fputs(help, stdout);
    exit(EXIT_SUCCESS);
  }
  if (found == ':')
    fprintf(stderr, "freehold: %s of %s needs a value\n", argv[optind - 1], argv[0]);
  if (found == '?')
    fprintf(stderr, "freehold: %s has no option '%s'; 'freehold %s --help' lists them\n", argv[0],
            argv[optind - 1], argv[0]);
  return found == ':' ? OPTION_WRONG : found;
}

int outside_open(int argc, char **argv) {
  if (optind + 1 != argc) {
    fprintf(stderr, "freehold: %s takes one process or core file, not %d: freehold %s PID\n",
            argv[0], argc - optind, argv[0]);
    return OUTSIDE_BAD_USE;
  }
  return target_open(argv[optind]) && adopt_open() ? OUTSIDE_DONE : OUTSIDE_CANNOT_READ;
}

FILE *outside_create(const char *path, mode_t rights) {
  if (strcmp(path, "-") == 0) return stdout;
  int number = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, rights);
  FILE *file = number < 0 ? NULL : fdopen(number, "w");
  if (file == NULL)
    fprintf(stderr, "freehold: '%s' cannot be written: %s\n", path, strerror(errno));
  return file;
}

int outside_finish(FILE *file, const char *path, bool is_whole) {
  struct stat about;
  is_whole &= fflush(file) == 0 && ferror(file) == 0;
  bool is_plain = fstat(fileno(file), &about) == 0 && S_ISREG(about.st_mode);
  if ((file == stdout || fclose(file) == 0) && is_whole) return OUTSIDE_DONE;
  fprintf(stderr, "freehold: '%s' could not be written whole: %s\n", path, strerror(errno));
  if (is_plain && file != stdout) unlink(path);
  return OUTSIDE_CANNOT_READ;
}

const char *outside_size(uint64_t bytes) {
  static char texts[8][24];
  static unsigned next;
  char *text = texts[next++ % 8];
  fmt_t f;
  fmt_start(&f, text, sizeof texts[0], NULL, NULL);
  fmt_size(&f, bytes);
  fmt_end(&f);
  return text;
}

/* ---- stats ----------------------------------------------------------------------------------- */

static void drain(const char *text, size_t length, void *file) { fwrite(text, 1, length, file); }

void outside_write_stats(const view_t *v, bool is_json) {
  char buffer[2048];
  fmt_t f;
  fmt_start(&f, buffer, sizeof buffer, drain, stdout);
  if (is_json) api_report_json(&f, &v->stats);
  else api_report_text(&f, &v->stats, false);
  fmt_flush(&f);
}

/* A row of the table as Prometheus reads it. What only grows is a counter there. */
static bool only_grows(const char *name) {
  static const char *const ends[] = {"_allocated", "frees",     "swaps",     "retries",
                                     "s_calls",    "maps",      "adoptions", "publications",
                                     "_ms",        "faults",    "madvises",  "purged",
                                     "nested",     "collapsed", "raises"};
  for (size_t i = 0; i < ARRAY_LENGTH(ends); i++) {
    size_t length = strlen(name), end = strlen(ends[i]);
    if (length >= end && strcmp(name + length - end, ends[i]) == 0) return true;
  }
  return strcmp(name, "failed_calls") == 0 || strcmp(name, "swap_retries") == 0;
}

static void write_metric(const char *name, const char *unit, const char *what, uint64_t value) {
  bool is_counter = only_grows(name);
  char full[96];
  snprintf(full, sizeof full, "freehold_%s%s%s", name,
           strcmp(unit, "BYTES") == 0 && strstr(name, "bytes") == NULL ? "_bytes" : "",
           is_counter ? "_total" : "");
  printf("# HELP %s %s\n# TYPE %s %s\n%s %llu\n", full, what, full,
         is_counter ? "counter" : "gauge", full, (unsigned long long)value);
}

#define METRIC(name, section, unit, from, position, label, follows, what)                          \
  write_metric(#name, #unit, what, v->stats.name);

static void write_classes(const view_t *v, const char *name, const char *kind, size_t offset) {
  printf("# TYPE freehold_class_%s %s\n", name, kind);
  for (unsigned i = 0; i < FH_CLASSES; i++) {
    const fh_class_stats_t *c = &v->stats.classes[i];
    if (c->slabs == 0 && c->allocated == 0) continue;
    printf("freehold_class_%s{size=\"%zu\"} %llu\n", name, c->block_size,
           (unsigned long long)*(const uint64_t *)((const char *)c + offset));
  }
}

/* With the option stats_detail. */
static void write_slow_paths(void) {
  printf("# TYPE freehold_slow_paths_total counter\n");
  for (timing_kind_t k = 0; k < TIMING_KIND_COUNT; k++)
    printf("freehold_slow_paths_total{path=\"%s\"} %llu\n", timing_name(k),
           (unsigned long long)timing_of(k).count);
  printf("# TYPE freehold_slow_path_ns gauge\n");
  for (timing_kind_t k = 0; k < TIMING_KIND_COUNT; k++) {
    timing_t t = timing_of(k);
    const struct {
      const char *name;
      uint64_t ns;
    } quantiles[] = {{"0.5", t.p50}, {"0.9", t.p90}, {"0.99", t.p99}, {"1", t.most}};
    for (size_t i = 0; i < ARRAY_LENGTH(quantiles); i++)
      printf("freehold_slow_path_ns{path=\"%s\",quantile=\"%s\"} %llu\n", timing_name(k),
             quantiles[i].name, (unsigned long long)quantiles[i].ns);
  }
}

static void write_prometheus(const view_t *v) {
  FH_STATISTICS(METRIC, )
  write_slow_paths();
  write_classes(v, "allocated_blocks_total", "counter", offsetof(fh_class_stats_t, allocated));
  write_classes(v, "live_blocks", "gauge", offsetof(fh_class_stats_t, live));
  write_classes(v, "slabs", "gauge", offsetof(fh_class_stats_t, slabs));
}

int command_stats(int argc, char **argv) {
  static const char help[] =
    "freehold stats [--json | --prometheus] TARGET\n"
    "    the statistics of a process that runs on freehold, read from outside: it is not stopped\n"
    "    and need not help\n"
    "TARGET is a process's number, its name if no other process has it, or a core file.\n"
    "  --json        one object; the names are those of fh_stats_t\n"
    "  --prometheus  as a scraper of Prometheus reads it\n"
    "Example: freehold stats --json redis-server\n"
    "Exit codes: 0 done, 1 the target cannot be read, 2 bad use\n";
  static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                          {"prometheus", no_argument, NULL, 'p'},
                                          {"help", no_argument, NULL, OPTION_HELP},
                                          {0}};
  int how = 't';
  for (int o; (o = outside_option(argc, argv, options, help)) != -1; how = o) {
    if (o == OPTION_WRONG) return OUTSIDE_BAD_USE;
    if (how == 't' || how == o) continue;
    fputs("freehold: stats: --json or --prometheus, not both\n", stderr);
    return OUTSIDE_BAD_USE;
  }
  int code = outside_open(argc, argv);
  view_t v = {.heaps = NULL};
  if (code != OUTSIDE_DONE) return code;
  if (!view_read(&v)) return OUTSIDE_CANNOT_READ;
  if (how == 'p') write_prometheus(&v);
  else outside_write_stats(&v, how == 'j');
  return OUTSIDE_DONE;
}
