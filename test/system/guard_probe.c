/* guard_probe.c - programs that run into a guard, or nearly, for guard_test.py
 *
 *   guard_probe over BYTES AT     writes at that place of a block, which stands at its pages' end
 *   guard_probe under BYTES AT    ... so far before one that stands at their start
 *   guard_probe freed BYTES       reads a block that another thread has freed
 *   guard_probe beside BYTES      writes a byte behind a block whose page goes on, and frees it
 *   guard_probe twice BYTES       frees a block twice
 *   guard_probe nothing           reads a block of no bytes
 *   guard_probe elsewhere HOW     faults at address 16; HOW: plain, own, or sent
 *   guard_probe sent BYTES        sends itself SIGSEGV, and reads a block that it has freed
 *   guard_probe own BYTES         has a handler of its own, and writes behind a block
 *   guard_probe child BYTES       a child of fork reads what its parent has freed
 *   guard_probe turns             10,000 guarded blocks: says how many mappings there are more
 *   guard_probe many              so many blocks at once that there are no slots left: likewise */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, TRIES = 1000, TURNS = 10000, MANY = 3000 };

static volatile char *get(size_t size, bool at_start) {
  for (int i = 0; i < TRIES; i++) {
    char *p = malloc(size);
    if (((uintptr_t)p % PAGE == 0) == at_start) return p;
    free(p);
  }
  fprintf(stderr, "no block stands there\n");
  exit(3);
}

static void *free_it(void *p) {
  free(p);
  return NULL;
}
static void free_elsewhere(volatile char *p) {
  pthread_t thread;
  pthread_create(&thread, NULL, free_it, (void *)p);
  pthread_join(thread, NULL);
}

static void own_handler(int number) {
  (void)number;
  static const char text[] = "own handler\n";
  _exit(write(1, text, sizeof text - 1) > 0 ? 5 : 6);
}

static unsigned count_mappings(void) {
  char line[4096];
  unsigned n = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps) != NULL) n++;
  fclose(maps);
  return n;
}

static void in_turn(void) {
  for (int i = 0; i < TURNS; i++) {
    char *p = malloc((size_t)(i % 5000) + 1);
    p[i % 5000] = 1;
    free(p);
  }
}

static int say_growth(bool at_once) {
  static void *p[MANY];
  in_turn(); /* what the first ones need is there */
  unsigned before = count_mappings();
  if (!at_once) in_turn();
  for (int i = 0; at_once && i < MANY; i++) memset(p[i] = malloc(100), 1, 100);
  printf("%d\n", (int)(count_mappings() - before));
  return 0;
}

int main(int count, char **words) {
  const char *what = count > 1 ? words[1] : "";
  size_t size = count > 2 ? strtoul(words[2], NULL, 0) : 0;
  size_t at = count > 3 ? strtoul(words[3], NULL, 0) : 0;
  if (strcmp(what, "turns") == 0 || strcmp(what, "many") == 0)
    return say_growth(strcmp(what, "many") == 0);
  if (strcmp(what, "nothing") == 0) return *(volatile char *)malloc(size);
  if (strcmp(what, "elsewhere") == 0) {
    if (strcmp(words[2], "own") == 0) signal(SIGSEGV, own_handler);
    if (strcmp(words[2], "sent") == 0) return raise(SIGSEGV);
    return *(volatile char *)(uintptr_t)16;
  }
  bool at_start = strcmp(what, "under") == 0 || strcmp(what, "beside") == 0;
  volatile char *p = get(size, at_start);
  if (strcmp(what, "own") == 0) signal(SIGSEGV, own_handler);
  if (strcmp(what, "under") == 0) *(p - at) = 1;
  if (strcmp(what, "over") == 0) p[at] = 1;
  if (strcmp(what, "own") == 0) p[size] = 1;
  if (strcmp(what, "beside") == 0) p[size] = 1;
  if (strcmp(what, "freed") == 0) {
    free_elsewhere(p);
    return p[0];
  }
  free((void *)p);
  if (strcmp(what, "sent") == 0) return raise(SIGSEGV) + p[0];
  if (strcmp(what, "twice") == 0) free((void *)p);
  if (strcmp(what, "child") == 0) {
    int status = 0;
    if (fork() == 0) _exit(p[0]);
    wait(&status);
    return WIFSIGNALED(status) ? 7 : 8;
  }
  return 0;
}
