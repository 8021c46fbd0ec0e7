/* peak.c - a server of eight threads that needs much for a moment, for docs/insight.md
 *
 *   peak [REQUESTS]
 *
 * Requests are answered from a cache, of which they renew an entry now and then. Halfway one thread
 * makes a report: it collects all lines before it writes the first. Then it lets go of them, so at
 * the end nobody sees what there was. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, ENTRIES = 4000, ENTRY_SIZE = 200, LINES = 100000, LINE_SIZE = 300 };

static unsigned requests = 2000000;

__attribute__((noinline)) static char *make_entry(unsigned key) {
  char *entry = malloc(ENTRY_SIZE);
  if (entry == NULL) abort();
  snprintf(entry, ENTRY_SIZE, "entry %u", key);
  return entry;
}

__attribute__((noinline)) static char *make_line(const char *entry) {
  char *line = malloc(LINE_SIZE);
  if (line == NULL) abort();
  memset(line, ' ', LINE_SIZE);
  memcpy(line, entry, strlen(entry));
  return line;
}

__attribute__((noinline)) static size_t make_report(char **cache) {
  char **lines = malloc(LINES * sizeof *lines);
  size_t length = 0;
  if (lines == NULL) abort();
  for (unsigned i = 0; i < LINES; i++) lines[i] = make_line(cache[i % ENTRIES]);
  for (unsigned i = 0; i < LINES; i++) length += (size_t)(lines[i][0] == 'e') * LINE_SIZE;
  for (unsigned i = 0; i < LINES; i++) free(lines[i]);
  free(lines);
  return length;
}

static void *serve(void *reports) {
  char *cache[ENTRIES];
  size_t sent = 0;
  for (unsigned i = 0; i < ENTRIES; i++) cache[i] = make_entry(i);
  for (unsigned i = 0; i < requests / THREADS; i++) {
    unsigned key = i * 2654435761u % ENTRIES;
    if (i % 10 == 0) {
      free(cache[key]);
      cache[key] = make_entry(key);
    }
    sent += strlen(cache[key]);
    if (reports != NULL && i == requests / THREADS / 2) sent += make_report(cache);
  }
  for (unsigned i = 0; i < ENTRIES; i++) free(cache[i]);
  return (void *)sent;
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS];
  size_t sent = 0;
  if (argc > 1) requests = (unsigned)strtoul(argv[1], NULL, 10);
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, serve, i == 0 ? threads : NULL) != 0) return 1;
  for (int i = 0; i < THREADS; i++) {
    void *part;
    pthread_join(threads[i], &part);
    sent += (size_t)part;
  }
  printf("%zu bytes sent\n", sent);
  return 0;
}
