/* options_doc.c - writes docs/options.md from the table of options, or checks it
 * Owns:    nothing.     Calls: support/options.h for the table, libc.
 *   options_doc                  writes the page to standard output
 *   options_doc --check FILE     exit code 1 and one line if FILE is not that page */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/support/options.h"

static void doc_put_row(fmt_t *f, option_t option) {
  const option_info_t *info = &option_info[option];
  static const char *const kinds[] = { "number", "size", "on or off", "word" };
  char range[64];
  fmt_t cell;
  fmt_text(f, "| `");
  fmt_text(f, info->name);
  fmt_text(f, "` | ");
  fmt_text(f, kinds[info->kind]);
  fmt_text(f, " | ");
  option_put_value(f, option, info->fallback);
  fmt_text(f, " | ");
  fmt_start(&cell, range, sizeof range, NULL, NULL);
  option_put_range(&cell, option);
  for (const char *c = fmt_end(&cell); *c != '\0'; c++) {
    if (*c == '|') fmt_text(f, ", ");          /* a bar would end the cell */
    else fmt_char(f, *c);
  }
  fmt_text(f, info->when == OPTION_SET_AT_START ? " | at start | " : " | any time | ");
  fmt_text(f, info->what);
  fmt_text(f, " |\n");
}

static void doc_put_page(fmt_t *f) {
  fmt_text(f,
    "# Options\n"
    "\n"
    "This page is written by `tools/options_doc.c` from the table in `src/support/options.h`; a\n"
    "test compares the two.\n"
    "\n"
    "Options are text of the form `name:value,name:value`. It is read at the first use of the\n"
    "library, from these places; a later place wins over an earlier one:\n"
    "\n"
    "1. the target of the symbolic link `/etc/freehold.conf`:\n"
    "   `ln -s purge_delay_ms:10,thp:never /etc/freehold.conf`\n"
    "2. the environment: `FREEHOLD_OPTIONS=purge_delay_ms:10` (ignored in programs with raised\n"
    "   privileges)\n"
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
    "`64KiB` are the same). On or off may also be written yes or no, true or false, 1 or 0.\n"
    "Spaces around names and values do not count. A name that does not exist or a value out of\n"
    "range is reported in one line on standard error, the value that held before stays, and the\n"
    "program runs; of many mistakes the first eight are reported, and the number of the rest.\n"
    "\n"
    "| option | type | default | range | set | what it does |\n"
    "| --- | --- | --- | --- | --- | --- |\n");
  for (unsigned i = 0; i < OPTION_COUNT; i++) doc_put_row(f, (option_t)i);
}

/* The number of the first line in which the texts differ. */
static unsigned doc_first_difference(const char *a, const char *b) {
  unsigned line = 1;
  for (; *a == *b && *a != '\0'; a++, b++) line += *a == '\n';
  return line;
}

static int doc_check(const char *path, const char *page) {
  static char text[64 << 10];
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    return 1;
  }
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  if (strcmp(text, page) == 0) return 0;
  fprintf(stderr,
          "%s: line %u is not what src/support/options.h says; write it anew with options_doc\n",
          path, doc_first_difference(text, page));
  return 1;
}

int main(int argc, char **argv) {
  static char page[64 << 10];
  fmt_t f;
  fmt_start(&f, page, sizeof page, NULL, NULL);
  doc_put_page(&f);
  if (argc == 3 && strcmp(argv[1], "--check") == 0) return doc_check(argv[2], fmt_end(&f));
  if (argc == 1) return fputs(fmt_end(&f), stdout) < 0 || fflush(stdout) != 0;
  fprintf(stderr, "usage: options_doc [--check FILE]\n");
  return 2;
}
