/* report.c - the statistics as a struct, as text for people, as JSON for machines      layer 6: api
 * Owns:    nothing.   Called by: the program, lifecycle, glibc.   Calls: heap for the figures, fmt
 *          for the text.
 * Threads: any; reading stops nobody. No allocation: the text goes out line by line from a buffer
 *          on the stack. */
#include "api.h"

#include "../../include/freehold/freehold.h"
#include "../heap/heap.h"

FH_API bool fh_stats_get(fh_stats_t *stats) {
  if (stats == NULL || stats->struct_size != sizeof *stats) return false;
  api_start();
  heap_stats(stats);
  stats->struct_size = sizeof *stats;
  return true;
}

static bool report_is_used(const fh_class_stats_t *c) { return c->allocated > 0 || c->slabs > 0; }

/* ---- text ------------------------------------------------------------------------------------ */

enum { REPORT_NAME = 18, REPORT_NUMBER = 10 };

/* "  name   number", the start of a line. */
static void report_put_bytes(fmt_t *f, const char *name, uint64_t bytes) {
  fmt_spaces(f, 2);
  fmt_left(f, name, REPORT_NAME);
  fmt_size_right(f, bytes, REPORT_NUMBER);
}
static void report_put_count(fmt_t *f, const char *name, uint64_t count) {
  fmt_spaces(f, 2);
  fmt_left(f, name, REPORT_NAME);
  fmt_decimal_right(f, count, REPORT_NUMBER);
}

/* ", 12.5% of <whole>" and the end of the line. */
static void report_put_share(fmt_t *f, uint64_t part, uint64_t whole, const char *of) {
  fmt_percent_right(f, part, whole, 8);
  fmt_text(f, " of ");
  fmt_text(f, of);
  fmt_char(f, '\n');
}

static void report_put_memory(fmt_t *f, const fh_stats_t *s) {
  fmt_text(f, "memory\n");
  report_put_bytes(f, "mapped", s->mapped);
  fmt_text(f, "   address space in ");
  fmt_decimal(f, s->arenas);
  fmt_text(f, s->arenas == 1 ? " arena\n" : " arenas\n");
  report_put_bytes(f, "committed", s->committed);
  fmt_text(f, "   at most ");
  fmt_size(f, s->peak_committed);
  fmt_char(f, '\n');
  report_put_bytes(f, "live", s->live_bytes);
  report_put_share(f, s->live_bytes, s->committed, "committed");
  report_put_bytes(f, "resident", s->resident);
  report_put_share(f, s->resident, s->mapped, "mapped");
  report_put_bytes(f, "dirty", s->dirty);
  fmt_text(f, "   free, not yet given back\n");
  report_put_bytes(f, "purged", s->purged);
  fmt_text(f, "   given back since start\n");
  report_put_bytes(f, "metadata", s->metadata);
  report_put_share(f, s->metadata, s->mapped, "mapped");
}

static void report_put_activity(fmt_t *f, const fh_stats_t *s) {
  fmt_text(f, "system calls\n");
  report_put_count(f, "mmap", s->mmaps);
  report_put_count(f, "munmap", s->munmaps);
  report_put_count(f, "mremap", s->mremaps);
  fmt_char(f, '\n');
  report_put_count(f, "madvise", s->madvises);
  report_put_count(f, "refused", s->failed_calls);
  fmt_text(f, "\nsharing\n");
  report_put_count(f, "remote frees", s->remote_frees);
  report_put_share(f, s->remote_frees, s->total.allocated, "blocks allocated");
  report_put_count(f, "put back in swaps", s->swaps);
  fmt_char(f, '\n');
  report_put_count(f, "swaps repeated", s->swap_retries);
  fmt_char(f, '\n');
  report_put_count(f, "slabs adopted", s->adoptions);
  report_put_count(f, "published", s->publications);
  fmt_text(f, "\nthreads\n");
  report_put_count(f, "now", s->threads);
  report_put_count(f, "heaps ever", s->heaps);
  report_put_count(f, "nested calls", s->nested);
  fmt_char(f, '\n');
}

static void report_put_class(fmt_t *f, const char *name, const fh_class_stats_t *c) {
  fmt_right(f, name, 7);
  fmt_decimal_right(f, c->live, 12);
  fmt_decimal_right(f, c->allocated, 14);
  fmt_size_right(f, c->requested, 10);
  fmt_decimal_right(f, c->slabs, 8);
  for (unsigned i = 0; i < 4; i++) fmt_percent_right(f, c->fullness[i], c->slabs, 7);
  fmt_char(f, '\n');
}

static void report_put_classes(fmt_t *f, const fh_stats_t *s) {
  fmt_text(f, "blocks         live     allocated requested   slabs    <1/4   <1/2   <3/4   full\n");
  for (unsigned i = 0; i < FH_CLASSES; i++) {
    char name[24];
    fmt_t text;
    if (!report_is_used(&s->classes[i])) continue;
    fmt_start(&text, name, sizeof name, NULL, NULL);
    fmt_decimal(&text, s->classes[i].block_size);
    report_put_class(f, fmt_end(&text), &s->classes[i]);
  }
  report_put_class(f, "total", &s->total);
  fmt_right(f, "large", 7);
  fmt_decimal_right(f, s->large_live, 12);
  fmt_decimal_right(f, s->large_allocated, 14);
  fmt_char(f, '\n');
  fmt_right(f, "huge", 7);
  fmt_decimal_right(f, s->huge_live, 12);
  fmt_decimal_right(f, s->huge_allocated, 14);
  fmt_char(f, '\n');
}

/* ---- JSON: the names are those of fh_stats_t ------------------------------------------------- */

#define REPORT_NUMBER_OF(j, s, field) fmt_json_number(j, #field, (s)->field)

static void report_json_class(fmt_json_t *j, const char *name, const fh_class_stats_t *c) {
  fmt_json_object(j, name);
  REPORT_NUMBER_OF(j, c, block_size);
  REPORT_NUMBER_OF(j, c, requested);
  REPORT_NUMBER_OF(j, c, allocated);
  REPORT_NUMBER_OF(j, c, live);
  REPORT_NUMBER_OF(j, c, peak);
  REPORT_NUMBER_OF(j, c, slabs);
  /* an array whose elements would each stand on a line is too tall for four figures */
  static const char *const quarters[] = { "below_1_4", "below_1_2", "below_3_4", "up_to_1" };
  fmt_json_object(j, "fullness");
  for (unsigned i = 0; i < 4; i++) fmt_json_number(j, quarters[i], c->fullness[i]);
  fmt_json_close(j);
  fmt_json_close(j);
}

static void report_json(fmt_t *f, const fh_stats_t *s) {
  fmt_json_t json, *j = &json;
  fmt_json_start(j, f);
  fmt_json_object(j, NULL);
  fmt_json_text(j, "freehold", fh_version_string());
  REPORT_NUMBER_OF(j, s, mapped);
  REPORT_NUMBER_OF(j, s, committed);
  REPORT_NUMBER_OF(j, s, resident);
  REPORT_NUMBER_OF(j, s, dirty);
  REPORT_NUMBER_OF(j, s, purged);
  REPORT_NUMBER_OF(j, s, metadata);
  REPORT_NUMBER_OF(j, s, live_bytes);
  REPORT_NUMBER_OF(j, s, peak_committed);
  REPORT_NUMBER_OF(j, s, large_live);
  REPORT_NUMBER_OF(j, s, large_allocated);
  REPORT_NUMBER_OF(j, s, huge_live);
  REPORT_NUMBER_OF(j, s, huge_allocated);
  REPORT_NUMBER_OF(j, s, mmaps);
  REPORT_NUMBER_OF(j, s, munmaps);
  REPORT_NUMBER_OF(j, s, mremaps);
  REPORT_NUMBER_OF(j, s, madvises);
  REPORT_NUMBER_OF(j, s, failed_calls);
  REPORT_NUMBER_OF(j, s, remote_frees);
  REPORT_NUMBER_OF(j, s, swaps);
  REPORT_NUMBER_OF(j, s, swap_retries);
  REPORT_NUMBER_OF(j, s, adoptions);
  REPORT_NUMBER_OF(j, s, publications);
  REPORT_NUMBER_OF(j, s, threads);
  REPORT_NUMBER_OF(j, s, heaps);
  REPORT_NUMBER_OF(j, s, nested);
  REPORT_NUMBER_OF(j, s, arenas);
  report_json_class(j, "total", &s->total);
  fmt_json_array(j, "classes");
  for (unsigned i = 0; i < FH_CLASSES; i++)
    if (report_is_used(&s->classes[i])) report_json_class(j, NULL, &s->classes[i]);
  fmt_json_close(j);
  fmt_json_close(j);
}

/* ---- out ------------------------------------------------------------------------------------- */

static void report_drain(const char *text, size_t length, void *context) {
  (void)context;
  api_output(text, length);
}

FH_API void fh_stats_print(bool json) {
  char buffer[2048];
  fh_stats_t stats = { .struct_size = sizeof stats };
  fmt_t f;
  fh_stats_get(&stats);
  fmt_start(&f, buffer, sizeof buffer, report_drain, NULL);
  if (json) {
    report_json(&f, &stats);
  } else {
    fmt_text(&f, "freehold ");
    fmt_text(&f, fh_version_string());
    fmt_char(&f, '\n');
    report_put_memory(&f, &stats);
    report_put_activity(&f, &stats);
    report_put_classes(&f, &stats);
  }
  fmt_flush(&f);
}

FH_API size_t fh_stats_json(char *buffer, size_t size) {
  fh_stats_t stats = { .struct_size = sizeof stats };
  fmt_t f;
  fh_stats_get(&stats);
  fmt_start(&f, buffer, size, NULL, NULL);
  report_json(&f, &stats);
  fmt_end(&f);
  return f.total;
}
