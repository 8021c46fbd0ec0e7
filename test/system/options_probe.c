/* options_probe.c - a program that allocates a little and tells an option's value;
 * options_test.py starts it
 *
 * options_probe [NAME...] | keep N
 *     prints "NAME=VALUE" for each; exit code 0 if its allocations worked. With PROGRAM_OPTIONS
 *     defined it brings an option text of one megabyte of its own. keep: of 2 N blocks of
 *     1000 bytes N are not freed. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

__attribute__((weak)) bool fh_option_get(const char *name, int64_t *value);

#ifdef PROGRAM_OPTIONS
#define TEN(x) x x x x x x x x x x
#define ITEM "arena_step:garbage," /* 19 characters */
extern const char *fh_options;
__attribute__((visibility("default"))) const char *fh_options =
  TEN(TEN(TEN(TEN(ITEM ITEM ITEM ITEM ITEM ITEM)))) "purge_delay_ms:77";
#endif

static int keep(int n) {
  char **p = (char **)malloc((size_t)n * 2 * sizeof *p);
  for (int i = 0; i < 2 * n; i++)
    if ((p[i] = (char *)malloc(1000)) == NULL) return 2;
  for (int i = 0; i < 2 * n; i += 2) free(p[i]);
  free(p);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "keep") == 0) return keep(atoi(argv[2]));
  char *p[100];
  for (size_t i = 0; i < 100; i++) {
    if ((p[i] = (char *)malloc(i * 100)) == NULL) return 2;
    memset(p[i], (int)i, i * 100);
  }
  for (size_t i = 0; i < 100; i++) free(p[i]);
  for (int i = 1; i < argc; i++) {
    int64_t value = 0;
    if (fh_option_get == NULL || !fh_option_get(argv[i], &value)) return 3;
    printf("%s=%lld\n", argv[i], (long long)value);
  }
  printf("secure=%lu\n", getauxval(AT_SECURE));
  return 0;
}
