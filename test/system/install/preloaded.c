/* preloaded.c - a program that knows nothing of freehold: 0 if malloc is freehold's as often as the
 * argument says, among all that is loaded */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  char line[4096];
  int loaded = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
    loaded += strstr(line, "libfreehold") != NULL && strstr(line, " 00000000 ") != NULL;
  Dl_info info;
  void *(*volatile called)(size_t) = malloc;
  int is_ours = dladdr((void *)called, &info) != 0 && strstr(info.dli_fname, "libfreehold") != NULL;
  int wanted = argc > 1 ? atoi(argv[1]) : 1;
  if (loaded == wanted && is_ours == (wanted > 0)) return 0;
  fprintf(stderr, "loaded %d times; malloc is in %s\n", loaded, info.dli_fname);
  return 1;
}
