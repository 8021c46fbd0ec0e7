/* fragmented.c - a server of eight threads whose memory is full of holes, for docs/insight.md
 *
 *   fragmented [REQUESTS]
 *
 * Requests come eighty at a time. Each needs forty buffers for a moment, and writes a record for the
 * audit, which is as long as a buffer and is kept. So the buffers' slabs stay, each for a record or
 * two. At the end the server waits for a signal. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, BUFFERS = 40, PIPELINED = 80, BUFFER_SIZE = 1500 };

__attribute__((noinline)) static char *receive_buffer(void) {
  char *buffer = malloc(BUFFER_SIZE);
  if (buffer == NULL) abort();
  return memset(buffer, 'b', BUFFER_SIZE);
}

__attribute__((noinline)) static void write_audit(void) {
  char *record = malloc(BUFFER_SIZE);
  if (record == NULL) abort();
  memset(record, 'a', BUFFER_SIZE); /* kept for the auditors, who never come */
}

__attribute__((noinline)) static void handle_requests(unsigned requests) {
  char *buffers[PIPELINED * BUFFERS];
  size_t count = 0;
  for (unsigned i = 0; i < requests; i++) {
    for (unsigned k = 0; k < BUFFERS; k++) buffers[count++] = receive_buffer();
    write_audit();
    if ((i + 1) % PIPELINED != 0 && i + 1 < requests) continue;
    while (count > 0) free(buffers[--count]);
  }
}

static void *serve(void *requests) {
  handle_requests(*(const unsigned *)requests / THREADS);
  return NULL;
}

int main(int argc, char **argv) {
  unsigned requests = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 8000;
  pthread_t threads[THREADS];
  for (unsigned i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, serve, &requests);
  for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  puts("waiting");
  fflush(stdout);
  pause();
  return 0;
}
