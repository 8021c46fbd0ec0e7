/* tables.c - writes what is said elsewhere of the tables in the sources, or checks it
 * Owns:    nothing.     Calls: support/options.h and stats.h for the tables, libc.
 *   tables options               writes docs/options.md to standard output
 *   tables statistics            docs/statistics.md
 *   tables header                the structs of the statistics, as freehold.h has them
 *   tables NAME --check FILE     exit code 1 and one line if FILE is not that, or has it not */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/support/options.h"
#include "../src/support/stats.h"
#include "../src/support/timing.h"

/* ---- options --------------------------------------------------------------------------------- */

static void put_option(fmt_t *f, option_t option) {
  const option_info_t *info = &option_info[option];
  static const char *const kinds[] = {"number", "size", "size or %", "on or off", "word", "text"};
  char range[64];
  fmt_t cell;
  fmt_print(f, "| `%s` | %s | ", info->name, kinds[info->kind]);
  option_put_value(f, option, info->fallback);
  fmt_text(f, " | ");
  fmt_start(&cell, range, sizeof range, NULL, NULL);
  option_put_range(&cell, option);
  for (const char *c = fmt_end(&cell); *c != '\0'; c++) {
    if (*c == '|') fmt_text(f, ", "); /* a bar would end the cell */
    else fmt_char(f, *c);
  }
  const char *when = info->when == OPTION_SET_AT_START ? "at start" : "any time";
  fmt_print(f, " | %s | %s |\n", when, info->what);
}

static void put_options(fmt_t *f) {
  fmt_text(
    f,
    "# Options\n"
    "\n"
    "This page is written by `tools/tables.c` from the table in `src/support/options.h`; a\n"
    "test compares the two.\n"
    "\n"
    "Options are text of the form `name:value,name:value`. It is read at the first use of the\n"
    "library, from these places; a later place wins over an earlier one:\n"
    "\n"
    "1. the target of the symbolic link `/etc/freehold.conf`:\n"
    "   `ln -s purge_delay_ms:10,thp:never /etc/freehold.conf`\n"
    "2. the environment: `FREEHOLD_OPTIONS=purge_delay_ms:10` (ignored in programs with raised\n"
    "   privileges, as are options that name files, wherever they stand)\n"
    "3. the program: `const char *fh_options = \"purge_delay_ms:10\";` in one of its C files (a\n"
    "   program that the library is only preloaded into has to export the symbol: link it with\n"
    "   `-rdynamic`)\n"
    "\n"
    "`freehold run --purge-delay-ms 10 -- PROGRAM` adds to the environment for one run. A\n"
    "program changes what may be set at any time by `fh_option_set`, and reads every value by\n"
    "`fh_option_get`; words count from 0 there, in the order of the range below.\n"
    "`freehold options` shows what the link and its own environment set.\n"
    "\n"
    "Sizes are bytes or a number with K, M, G, T, P or E (powers of 1024; `64K`, `64k` and\n"
    "`64KiB` are the same). A percentage, where one may stand, is a negative number for\n"
    "`fh_option_set` and `fh_option_get`. On or off may also be written yes or no, true or\n"
    "false, 1 or 0. A text has at most 1,023 bytes. All texts that the three places give, one for\n"
    "the same option after another too, have 4,096 bytes together with an end of one byte each.\n"
    "Spaces around names and values do not count. A name that does not exist or a value out of\n"
    "range is reported in one line on standard error; the value that held before stays. Of many\n"
    "mistakes the first eight are reported, and the number of the rest.\n"
    "\n"
    "| option | type | default | range | set | what it does |\n"
    "| --- | --- | --- | --- | --- | --- |\n");
  for (unsigned i = 0; i < OPTION_COUNT; i++) put_option(f, (option_t)i);
}

/* ---- statistics ------------------------------------------------------------------------------ */

#define DOC_SECTION(name, title) static const char doc_##name[] = title;
STATS_SECTIONS(DOC_SECTION)
static const char doc_BYTES[] = "bytes", doc_COUNT[] = "count", doc_MS[] = "ms";
#define DOC_COUNTER(counter) "`" #counter "`"
#define DOC_TALLIED(count) "`" #count "` of all tallies"
#define DOC_SLICES(counter) "`" #counter "`, slices"
#define DOC_WITH_HUGE(counter) "`" #counter "`, slices; `arena_counts.huge_bytes`"
#define DOC_HEAPS(field) "`" #field "` of each heap and of `heap_counts`"
#define DOC_VISIT(what) "a visit of all " what
#define DOC_PROCESS(field) "`" #field "` of `os_usage_t`"
typedef struct {
  const char *type, *name, *section, *unit, *from, *label, *what;
} figure_t;
#define FIGURE(name, section, unit, from, position, label, follows, what)                          \
  {"uint64_t", #name, doc_##section, doc_##unit, DOC_##from, label, what},
#define CLASSES_HERE {NULL, NULL, NULL, NULL, NULL, NULL, NULL},
static const figure_t figures[] = {FH_STATISTICS(FIGURE, CLASSES_HERE)};
#define CLASS_FIGURE(t, n, parts, sentence) {.type = #t, .name = #n #parts, .what = sentence},
static const figure_t class_figures[] = {FH_CLASS_STATISTICS(CLASS_FIGURE)};
#define HEAP_FIGURE(n, unit, title, sentence) {.name = #n, .label = title, .what = sentence},
static const figure_t heap_figures[] = {FH_HEAP_STATISTICS(HEAP_FIGURE)};

#define TIMING_ROW(name, text, what) "| `" text "` | " what " |\n"
static void put_cells(fmt_t *f, const char *const *cells, size_t n) {
  for (size_t i = 0; i < n; i++) fmt_print(f, "| %s ", cells[i]);
  fmt_text(f, "|\n");
}

static void put_statistics(fmt_t *f) {
  fmt_text(
    f, "# Statistics\n"
       "\n"
       "This page is written by `tools/tables.c` from the table in `src/support/stats.h`; a test\n"
       "compares the two. A program reads them by `fh_stats_get`; `fh_stats_print` and\n"
       "`fh_stats_json` write them, and at exit the option `stats` does\n"
       "([options](options.md)). In JSON they have the names of the first column.\n"
       "\n"
       "| name | in the text | unit | what it is | where it comes from |\n"
       "| --- | --- | --- | --- | --- |\n");
  for (size_t i = 0; i < ARRAY_LENGTH(figures); i++) {
    const figure_t *r = &figures[i];
    char name[64];
    if (r->name == NULL) continue;
    snprintf(name, sizeof name, "`%s`", r->name);
    put_cells(f, (const char *[]){name, r->label, r->unit, r->what, r->from}, 5);
  }
  fmt_text(f, "\n"
              "Of each size class (`classes`), and of all together (`total`):\n"
              "\n"
              "| name | what it is |\n"
              "| --- | --- |\n");
  for (size_t i = 0; i < ARRAY_LENGTH(class_figures); i++) {
    char name[64];
    snprintf(name, sizeof name, "`%s`", class_figures[i].name);
    put_cells(f, (const char *[]){name, class_figures[i].what}, 2);
  }
  fmt_text(
    f,
    "\n**Peaks of classes** are noted when blocks move between slabs and threads, so nobody has\n"
    "to look at that moment. A thread tells its count when it has changed by 4 KiB, or by a 64th\n"
    "of the peak if that is more. A slab is the most that it keeps for itself. A peak is off by\n"
    "no more for each thread that used the class. What threads keep for their next calls counts,\n"
    "as in `live`. So do free blocks in slabs that they own: at most 16 slabs of a class for\n"
    "each thread. `allocated` less `live` is what came back. With `caches:off` a call takes\n"
    "blocks for the next ones too, and gives them back; `allocated` counts them all.\n"
    "\nWhat is marked (d) is 0 without the option `stats_detail`.\n"
    "\n**Times of the slow paths** (`slow_paths` in JSON) are there with `stats_detail` alone: \n"
    "how often each was taken, the median, the 90th and 99th percentile, and the longest. The\n"
    "first three are ends of buckets, powers of two, so less than twice the truth.\n"
    "\n| name | what it is |\n| --- | --- |\n");
  fmt_text(f, TIMING_KINDS(TIMING_ROW));
  fmt_text(f,
           "\n**Each heap**, and so each thread (`by_heap` in JSON), is there with `stats_detail`\n"
           "alone. A heap goes on to the next thread when its own ends. A first-class heap is\n"
           "also told by `fh_heap_stats_get`.\n"
           "\n| name | in the text | what it is |\n| --- | --- | --- |\n");
  for (size_t i = 0; i < ARRAY_LENGTH(heap_figures); i++) {
    char name[64];
    snprintf(name, sizeof name, "`%s`", heap_figures[i].name);
    put_cells(f, (const char *[]){name, heap_figures[i].label, heap_figures[i].what}, 3);
  }
  fmt_text(f,
           "\nAt exit the text ends with a line `not freed`: the sum of all that lives, as in\n"
           "`live_bytes`. What threads keep for their next calls counts too, so it is the most\n"
           "that the program and its libraries can still hold. `./dev lab leaks` says who holds\n"
           "it.\n");
}

/* ---- the structs of the statistics, for the header ------------------------------------------- */

enum { COLUMNS = 100 };

/* A comment of as many lines as it takes. */
static void put_comment(fmt_t *f, const char *text) {
  size_t column = 2;
  fmt_text(f, "  /*");
  for (column += 2; *text != '\0';) {
    size_t word = strcspn(text, " ");
    if (column + 1 + word + (text[word] == '\0' ? 3 : 0) > COLUMNS) {
      fmt_text(f, "\n   *");
      column = 4;
    }
    fmt_char(f, ' ');
    fmt_bytes(f, text, word);
    column += 1 + word;
    text += word + (text[word] == ' ');
  }
  fmt_text(f, " */\n");
}

/* The comment stands behind the field, or above it if it is too long. */
static void put_field(fmt_t *f, const figure_t *r, int width) {
  char field[64];
  int length = snprintf(field, sizeof field, "  %-8s %s;", r->type, r->name);
  if ((size_t)width + 1 + strlen(r->what) + strlen("/*  */") > COLUMNS) {
    put_comment(f, r->what);
    fmt_bytes(f, field, (size_t)length);
  } else {
    fmt_print(f, "%-*s/* %s */", width + 1, field, r->what);
  }
  fmt_char(f, '\n');
}

static void put_header(fmt_t *f) {
  const char *section = "";
  fmt_text(f, "typedef struct fh_class_stats {\n");
  for (size_t i = 0; i < ARRAY_LENGTH(class_figures); i++) put_field(f, &class_figures[i], 24);
  fmt_text(f, "} fh_class_stats_t;\n"
              "\n"
              "enum { FH_CLASSES = 72 };\n"
              "\n"
              "typedef struct fh_stats {\n");
  put_field(f,
            &(figure_t){.type = "size_t",
                        .name = "struct_size",
                        .what = "the caller's sizeof(fh_stats_t): later versions add to the end"},
            27);
  for (size_t i = 0; i < ARRAY_LENGTH(figures); i++) {
    const figure_t *r = &figures[i];
    if (r->name == NULL) {
      fmt_text(f, "  fh_class_stats_t total;\n  fh_class_stats_t classes[FH_CLASSES];\n");
      continue;
    }
    if (strcmp(r->section, section) != 0) {
      fmt_text(f, "  /* ");
      fmt_text(f, section = r->section);
      fmt_text(f, r->unit == doc_BYTES ? ", in bytes */\n" : " */\n");
    }
    put_field(f, r, 27);
  }
  fmt_text(f, "} fh_stats_t;\n");
}

/* ---- writing and checking -------------------------------------------------------------------- */

typedef struct {
  const char *name;
  void (*put)(fmt_t *f);
  bool is_part;
} table_t;
static const table_t tables[] = {{"options", put_options, false},
                                 {"statistics", put_statistics, false},
                                 {"header", put_header, true}};

/* The number of the first line in which the texts differ. */
static unsigned first_difference(const char *a, const char *b) {
  unsigned line = 1;
  for (; *a == *b && *a != '\0'; a++, b++) line += *a == '\n';
  return line;
}

static int check(const table_t *table, const char *path, const char *page) {
  static char text[64 << 10];
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    return 1;
  }
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  if (table->is_part ? strstr(text, page) != NULL : strcmp(text, page) == 0) return 0;
  fprintf(stderr, "%s is not what the table says", path);
  if (!table->is_part) fprintf(stderr, ", from line %u on", first_difference(text, page));
  fprintf(stderr, "; write it anew with tables %s\n", table->name);
  return 1;
}

int main(int argc, char **argv) {
  static char page[64 << 10];
  for (size_t i = 0; i < ARRAY_LENGTH(tables) && argc >= 2; i++) {
    fmt_t f;
    if (strcmp(argv[1], tables[i].name) != 0) continue;
    fmt_start(&f, page, sizeof page, NULL, NULL);
    tables[i].put(&f);
    if (argc == 4 && strcmp(argv[2], "--check") == 0)
      return check(&tables[i], argv[3], fmt_end(&f));
    if (argc == 2) return fputs(fmt_end(&f), stdout) < 0 || fflush(stdout) != 0;
  }
  fprintf(stderr, "usage: tables options|statistics|header [--check FILE]\n");
  return 2;
}
