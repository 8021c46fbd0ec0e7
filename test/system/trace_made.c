/* trace_made.c - writes a trace of a program that never ran: trace_made FILE THREADS EVENTS LIVE
 *
 * Each thread allocates until its share of LIVE is live, then it frees and allocates in turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/support/trace.h"

enum { ROOM = 64 };

typedef struct {
  unsigned char *at, bytes[TRACE_CHUNK];
  uint64_t time, address;
  uint64_t first, count; /* of its blocks that live, by number: the oldest, and how many */
} stream_t;

static FILE *out;

static void put(stream_t *s, uint64_t n) {
  for (; n >= 128; n >>= 7) *s->at++ = (unsigned char)(n | 128);
  *s->at++ = (unsigned char)n;
}

static void put_address(stream_t *s, uint64_t address) {
  uint64_t n = (address >> 4) - s->address;
  s->address = address >> 4;
  put(s, n << 1 ^ (0 - (n >> 63)));
}

static void end_chunk(stream_t *s) {
  trace_chunk_t *head = (void *)s->bytes;
  head->mark = TRACE_CHUNK_MARK;
  __atomic_store_n(&head->used.value, (uint32_t)(s->at - s->bytes), __ATOMIC_RELAXED);
  if (fwrite(s->bytes, sizeof s->bytes, 1, out) != 1) exit(1);
}

static void begin_chunk(stream_t *s, unsigned thread, uint64_t now) {
  memset(s->bytes, 0, sizeof s->bytes);
  s->at = s->bytes + sizeof(trace_chunk_t);
  s->time = now, s->address = 0;
  *s->at++ = TRACE_SYNC;
  put(s, 1000 + thread);
  put(s, 1 + thread);
  put(s, now);
}

int main(int argc, char **argv) {
  if (argc != 5 || (out = fopen(argv[1], "wb")) == NULL) return 2;
  unsigned threads = (unsigned)atoi(argv[2]);
  uint64_t events = strtoull(argv[3], NULL, 10), most = strtoull(argv[4], NULL, 10) / threads;
  stream_t *all = calloc(threads, sizeof *all);
  static union {
    trace_head_t head;
    char bytes[TRACE_CHUNK];
  } first;
  memcpy(first.head.magic, TRACE_MAGIC, sizeof first.head.magic);
  first.head.version = TRACE_VERSION, first.head.chunk = TRACE_CHUNK;
  first.head.process = 1000, first.head.page = 4096;
  fwrite(&first, sizeof first, 1, out);
  for (unsigned i = 0; i < threads; i++) begin_chunk(&all[i], i, 0);
  for (uint64_t n = 0; n < events; n++) {
    stream_t *s = &all[n % threads];
    uint64_t now = 50 * n, base = (uint64_t)(n % threads + 1) << 34;
    if (s->at + ROOM > s->bytes + TRACE_CHUNK) {
      end_chunk(s);
      begin_chunk(s, (unsigned)(n % threads), now);
    }
    bool frees = s->count == most;
    uint64_t number = frees ? s->first++ : s->first + s->count;
    s->count += frees ? (uint64_t)-1 : 1;
    *s->at++ = frees ? TRACE_FREE : TRACE_MALLOC;
    put(s, now - s->time);
    s->time = now;
    put_address(s, base + number % (most + 1) * 256);
    if (!frees) put(s, number % 200 + 1);
  }
  for (unsigned i = 0; i < threads; i++) end_chunk(&all[i]);
  return fclose(out) == 0 ? 0 : 1;
}
