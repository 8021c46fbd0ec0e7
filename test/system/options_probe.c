/* options_probe.c - a program that allocates a little and tells an option's value;
 * options_test.py starts it
 *
 * options_probe [NAME...]
 *     prints "NAME=VALUE" for each; exit code 0 if its allocations worked. With PROGRAM_OPTIONS
 *     defined it brings an option text of one megabyte of its own. */
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

int main(int argc, char **argv) {
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
