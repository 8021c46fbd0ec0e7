/* replay.c - runs inputs of the fuzz target, without libFuzzer
 *
 * fuzz_replay FILE|FOLDER...
 *     Exit code 0: all of them ran. An input that fails aborts; its name is the last line. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operations.h"

enum { INPUT_MOST = 1 << 16, PATH_MOST = 4096 };

static unsigned ran;

static int run_file(const char *path) {
  static uint8_t bytes[INPUT_MOST];
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    return 2;
  }
  size_t count = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  printf("%s\n", path);
  fflush(stdout);
  operations_run(bytes, count);
  ran++;
  return 0;
}

static int run_folder(DIR *folder, const char *path) {
  char name[PATH_MOST];
  int code = 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL && code == 0;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
    code = run_file(name);
  }
  return code;
}

int main(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "--help") == 0) {
    printf("usage: fuzz_replay FILE|FOLDER...\nexample: fuzz_replay test/fuzz/corpus\n");
    return argc < 2 ? 2 : 0;
  }
  for (int i = 1; i < argc; i++) {
    DIR *folder = opendir(argv[i]);
    int code = folder != NULL ? run_folder(folder, argv[i]) : run_file(argv[i]);
    if (folder != NULL) closedir(folder);
    if (code != 0) return code;
  }
  printf("%u inputs\n", ran);
  return ran > 0 ? 0 : 2;
}
