/* sample.c - a program that a package is tried with: it allocates, and writes the statistics of the
 * allocator it runs on. Exit code 0 if that is freehold. */
#include <freehold/freehold.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  void *volatile blocks[1000];
  for (int i = 0; i < 1000; i++) blocks[i] = malloc((size_t)i + 1);
  int is_ours = 1;
  for (int i = 0; i < 1000; i++) is_ours &= fh_owns(blocks[i]);
  printf("malloc is %s, library %s\n", is_ours ? "freehold's" : "not freehold's",
         fh_version_string());
  fflush(stdout);
  fh_stats_print(false);
  for (int i = 0; i < 1000; i++) free(blocks[i]);
  return is_ours ? 0 : 1;
}
