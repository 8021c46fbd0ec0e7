/* report.c - the statistics as a struct, as text for people, as JSON for machines      layer 8: api
 * Owns:    nothing.   Called by: the program, lifecycle.c, glibc.c.   Calls: heap and arena for the
 *          figures, support for their table and that of options, os, fmt for the text.
 * Threads: any; reading stops nobody. No allocation: the text goes out line by line from a buffer
 *          on the stack. */
#include "api.h"

#include "../heap/stats.h"
#include "../support/stats.h"
#include "../support/timing.h"

FH_API bool fh_stats_get(fh_stats_t *stats) {
  if (stats == NULL || stats->struct_size != sizeof *stats) return false;
  api_start();
  heap_stats(stats);
  stats->struct_size = sizeof *stats;
  return true;
}

static bool class_is_used(const fh_class_stats_t *c) { return c->allocated > 0 || c->slabs > 0; }

/* ---- text ------------------------------------------------------------------------------------ */

enum { REPORT_KEY = 16, REPORT_NAME = 18, REPORT_NUMBER = 10 };

/* A row of the table, for printing a figure. */
enum { REPORT_BYTES, REPORT_COUNT, REPORT_MS };
#define REPORT_ENUMERATOR(name, ...) REPORT_##name,
enum { STATS_SECTIONS(REPORT_ENUMERATOR) };
enum { STATS_FOLLOWED_BY(REPORT_ENUMERATOR) };
typedef struct {         /* no pointers, so that loading the library relocates nothing */
  char name[REPORT_KEY]; /* in JSON */
  char label[REPORT_NAME];
  uint16_t offset; /* in fh_stats_t */
  uint8_t section, unit, followed;
  uint8_t position; /* 0: none */
} report_row_t;
#define REPORT_ROW(name, section, unit, from, position, label, followed, what)                     \
  {#name,   label, offsetof(fh_stats_t, name), REPORT_##section, REPORT_##unit, REPORT_##followed, \
   position},
static const report_row_t all_rows[] = {FH_STATISTICS(REPORT_ROW, )};
enum { REPORT_ROWS = ARRAY_LENGTH(all_rows) };
#define REPORT_FITS(name, ...) _Static_assert(sizeof #name <= REPORT_KEY, #name);
FH_STATISTICS(REPORT_FITS, )

static uint64_t figure_of(const fh_stats_t *s, const report_row_t *row) {
  return *(const uint64_t *)((const char *)s + row->offset);
}

#define REPORT_TITLE(name, title) title,
static const char all_titles[][16] = {STATS_SECTIONS(REPORT_TITLE)};

/* "   12.5% of committed" and the end of the line. */
static void put_share(fmt_t *f, uint64_t part, uint64_t whole, const char *of) {
  fmt_percent_right(f, part, whole, 8);
  fmt_print(f, " of %s\n", of);
}

static void put_followed(fmt_t *f, const fh_stats_t *s, uint8_t followed, uint64_t n) {
  switch (followed) {
    case REPORT_NEXT: return;
    case REPORT_COMMITTED: return put_share(f, n, s->committed, "committed");
    case REPORT_MAPPED: return put_share(f, n, s->mapped, "mapped");
    case REPORT_RESIDENT: return put_share(f, n, s->resident, "resident");
    case REPORT_ALLOCATED: return put_share(f, n, s->total.allocated, "blocks allocated");
    case REPORT_WAITS: return fmt_text(f, "   free, not yet given back\n");
    case REPORT_SINCE: return fmt_text(f, "   given back since start\n");
    case REPORT_ARENAS:
      return fmt_print(f, "   address space in %lu arena%s\n", s->arenas,
                       s->arenas == 1 ? "" : "s");
    case REPORT_PEAK:
      fmt_text(f, "   at most ");
      fmt_size(f, s->peak_committed);
      break;
    default: break;
  }
  fmt_char(f, '\n');
}

static void put_row(fmt_t *f, const fh_stats_t *s, const report_row_t *row) {
  uint64_t n = figure_of(s, row);
  fmt_print(f, "  %-*s", REPORT_NAME, row->label);
  if (row->unit == REPORT_BYTES) fmt_size_right(f, n, REPORT_NUMBER);
  else fmt_print(f, "%*lu", REPORT_NUMBER, n);
  put_followed(f, s, row->followed, n);
}

static void put_section(fmt_t *f, const fh_stats_t *s, unsigned section) {
  fmt_print(f, "%s\n", all_titles[section]);
  for (unsigned position = 1; position <= REPORT_ROWS; position++)
    for (const report_row_t *row = all_rows; row < all_rows + REPORT_ROWS; row++)
      if (row->section == section && row->position == position) put_row(f, s, row);
}

static void put_class(fmt_t *f, const fh_class_stats_t *c) {
  fmt_print(f, "%12lu%12lu%14lu", c->live, c->peak, c->allocated);
  fmt_size_right(f, c->requested, 10);
  fmt_print(f, "%8lu", c->slabs);
  for (unsigned i = 0; i < 4; i++) fmt_percent_right(f, c->fullness[i], c->slabs, 7);
  fmt_char(f, '\n');
}

static void put_classes(fmt_t *f, const fh_stats_t *s) {
  fmt_text(f, "blocks         live        peak     allocated requested   slabs");
  fmt_text(f, "    <1/4   <1/2   <3/4   full\n");
  for (unsigned i = 0; i < FH_CLASSES; i++) {
    if (!class_is_used(&s->classes[i])) continue;
    fmt_print(f, "%7lu", (uint64_t)s->classes[i].block_size);
    put_class(f, &s->classes[i]);
  }
  fmt_text(f, "  total");
  put_class(f, &s->total);
  fmt_print(f, "  large%12lu%26lu\n", s->large_live, s->large_allocated);
  fmt_print(f, "   huge%12lu%26lu\n", s->huge_live, s->huge_allocated);
  fmt_print(f, "  empty%12lu\n", s->empty_live);
}

static void put_us(fmt_t *f, uint64_t ns) { fmt_print(f, "%9lu.%lu", ns / 1000, ns / 100 % 10); }

/* Only with the option stats_detail. */
static void put_timings(fmt_t *f) {
  bool is_first = true;
  for (timing_kind_t k = 0; k < TIMING_KIND_COUNT; k++) {
    timing_t t = timing_of(k);
    if (t.count == 0) continue;
    if (is_first) fmt_text(f, "slow paths     times     p50 us     p90 us     p99 us    most us\n");
    is_first = false;
    fmt_print(f, "  %-8s%10lu", timing_name(k), t.count);
    put_us(f, t.p50), put_us(f, t.p90), put_us(f, t.p99), put_us(f, t.most);
    fmt_char(f, '\n');
  }
}

/* Each heap, likewise. */
#define REPORT_HEAP_ROW(name, unit, title, what)                                                   \
  {#name, title, REPORT_##unit, offsetof(heap_stats_t, name)},
static const struct {
  char name[12], title[8]; /* without a title: shown otherwise */
  uint8_t unit, offset;
} report_heap_rows[] = {FH_HEAP_STATISTICS(REPORT_HEAP_ROW)};
static int64_t figure_of_heap(const heap_stats_t *s, unsigned i) {
  return *(const int64_t *)((const char *)s + report_heap_rows[i].offset);
}

static void put_heap(const heap_stats_t *s, void *out) {
  char text[32];
  fmt_t cell;
  for (unsigned i = 0; i < ARRAY_LENGTH(report_heap_rows); i++) {
    int64_t n = figure_of_heap(s, i);
    if (report_heap_rows[i].title[0] == '\0') continue;
    fmt_start(&cell, text, sizeof text, NULL, NULL);
    if (n < 0) fmt_char(&cell, '-');
    if (report_heap_rows[i].unit == REPORT_COUNT) fmt_decimal(&cell, (uint64_t)n);
    else fmt_size(&cell, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
    fmt_end(&cell);
    fmt_spaces(out, cell.used < REPORT_NUMBER ? REPORT_NUMBER - cell.used : 1);
    fmt_text(out, text);
  }
  if (s->heap != 0) fmt_print(out, "  of heap %#lx", (uint64_t)s->heap);
  fmt_char(out, '\n');
}

static void put_heaps(fmt_t *f) {
  if (!option_get(OPTION_stats_detail)) return;
  fmt_text(f, "heaps\n");
  for (unsigned i = 0; i < ARRAY_LENGTH(report_heap_rows); i++) {
    size_t length = strlen(report_heap_rows[i].title);
    if (length == 0) continue;
    fmt_spaces(f, REPORT_NUMBER - length);
    fmt_text(f, report_heap_rows[i].title);
  }
  fmt_char(f, '\n');
  heap_stats_each(put_heap, f);
}

/* ---- JSON: the names are those of fh_stats_t ------------------------------------------------- */

#define REPORT_CLASS_ROW(type, name, parts, what)                                                  \
  {#name, offsetof(fh_class_stats_t, name), sizeof(type parts) / sizeof(type), sizeof(type)},
static const struct {
  char name[13];
  uint8_t offset, parts, size; /* in fh_class_stats_t; numbers; bytes of one */
} report_class_rows[] = {FH_CLASS_STATISTICS(REPORT_CLASS_ROW)};

static void json_class(fmt_json_t *j, const char *name, const fh_class_stats_t *c) {
  static const char quarters[][12] = STATS_QUARTERS;
  fmt_json_object(j, name);
  for (unsigned i = 0; i < ARRAY_LENGTH(report_class_rows); i++) {
    const uint64_t *n = (const uint64_t *)((const char *)c + report_class_rows[i].offset);
    unsigned parts = report_class_rows[i].parts;
    if (parts == 1) {
      bool is_half = report_class_rows[i].size == sizeof(uint32_t);
      fmt_json_number(j, report_class_rows[i].name, is_half ? *(const uint32_t *)n : *n);
      continue;
    }
    fmt_json_object(j, report_class_rows[i].name);
    for (unsigned k = 0; k < parts; k++) fmt_json_number(j, quarters[k], n[k]);
    fmt_json_close(j);
  }
  fmt_json_close(j);
}

static void json_timings(fmt_json_t *j) {
  fmt_json_object(j, "slow_paths");
  for (timing_kind_t k = 0; k < TIMING_KIND_COUNT; k++) {
    timing_t t = timing_of(k);
    if (t.count == 0) continue;
    fmt_json_object(j, timing_name(k));
    fmt_json_number(j, "times", t.count);
    fmt_json_number(j, "p50_ns", t.p50);
    fmt_json_number(j, "p90_ns", t.p90);
    fmt_json_number(j, "p99_ns", t.p99);
    fmt_json_number(j, "most_ns", t.most);
    fmt_json_close(j);
  }
  fmt_json_close(j);
}

static void json_heap(const heap_stats_t *s, void *out) {
  fmt_json_object(out, NULL);
  for (unsigned i = 0; i < ARRAY_LENGTH(report_heap_rows); i++)
    fmt_json_signed(out, report_heap_rows[i].name, figure_of_heap(s, i));
  fmt_json_close(out);
}

void api_report_json(fmt_t *f, const fh_stats_t *s) {
  fmt_json_t json, *j = &json;
  fmt_json_start(j, f);
  fmt_json_object(j, NULL);
  fmt_json_text(j, "freehold", fh_version_string());
  for (const report_row_t *row = all_rows; row < all_rows + REPORT_ROWS; row++)
    fmt_json_number(j, row->name, figure_of(s, row));
  json_class(j, "total", &s->total);
  fmt_json_array(j, "classes");
  for (unsigned i = 0; i < FH_CLASSES; i++)
    if (class_is_used(&s->classes[i])) json_class(j, NULL, &s->classes[i]);
  fmt_json_close(j);
  json_timings(j);
  fmt_json_array(j, "by_heap");
  if (option_get(OPTION_stats_detail)) heap_stats_each(json_heap, j);
  fmt_json_close(j);
  fmt_json_close(j);
}

/* ---- out ------------------------------------------------------------------------------------- */

static void write_line(const char *text, size_t length, void *context) {
  (void)context;
  api_output(text, length);
}

void api_report_text(fmt_t *f, const fh_stats_t *s, bool at_exit) {
  fmt_print(f, "freehold %s\n", fh_version_string());
  for (unsigned section = 0; section < REPORT_BLOCKS; section++) put_section(f, s, section);
  put_classes(f, s);
  put_timings(f);
  put_heaps(f);
  if (!at_exit) return;
  uint64_t blocks = s->total.live + s->large_live + s->huge_live + s->empty_live;
  fmt_print(f, "not freed: at most %lu block%s, ", blocks, blocks == 1 ? "" : "s");
  fmt_size(f, s->live_bytes);
  fmt_text(f, " (with what threads keep for their next calls)\n");
}

void api_report(bool json, bool at_exit) {
  char buffer[2048];
  fmt_t f;
  fh_stats_t stats = {.struct_size = sizeof stats};
  fh_stats_get(&stats);
  fmt_start(&f, buffer, sizeof buffer, write_line, NULL);
  if (json) api_report_json(&f, &stats);
  else api_report_text(&f, &stats, at_exit);
  fmt_flush(&f);
}

FH_API void fh_stats_print(bool json) { api_report(json, false); }

void api_report_at_load(void) {
  char buffer[1024], setting[OS_HUGE_SETTING];
  size_t length = os_huge_setting(setting);
  fmt_t f;
  fmt_start(&f, buffer, sizeof buffer, write_line, NULL);
  fmt_print(&f, "freehold %s: pages of ", fh_version_string());
  fmt_exact_size(&f, os_page_size());
  fmt_text(&f, ", transparent huge pages of the system: ");
  if (length == 0) fmt_text(&f, "not known");
  fmt_shown(&f, setting, length, sizeof setting);
  fmt_char(&f, '\n');
  for (option_t i = 0; i < OPTION_COUNT; i++) {
    if (option_get(i) == option_info[i].fallback) continue;
    fmt_print(&f, "freehold: option %s: ", option_info[i].name);
    option_put_value(&f, i, option_get(i));
    fmt_print(&f, ", from %s\n", option_source_name[option_source(i)]);
  }
  if (option_get(OPTION_reserve_huge_pages) != 0) {
    fmt_text(&f, "freehold: huge pages reserved: ");
    fmt_exact_size(&f, atomic64_load_relaxed(&arena_counts.reserved));
    fmt_char(&f, '\n');
  }
  fmt_flush(&f);
}

FH_API size_t fh_stats_json(char *buffer, size_t size) {
  fh_stats_t stats = {.struct_size = sizeof stats};
  fmt_t f;
  fh_stats_get(&stats);
  fmt_start(&f, buffer, size, NULL, NULL);
  api_report_json(&f, &stats);
  fmt_end(&f);
  return f.total;
}
