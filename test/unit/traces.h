/* traces.h - what the tests of the event trace share: a file, and its events */
#ifndef TRACES_H
#define TRACES_H

#include "core.h"

#include "../../src/support/trace.h"

static char path[64];
unused static const char *make_path(void) {
  snprintf(path, sizeof path, "/tmp/freehold-trace-%d", (int)getpid());
  return path;
}

/* The file's bytes; it is gone afterwards. */
unused static const char *take_file(size_t *size) {
  int file = open(path, O_RDONLY);
  CHECK_GE(file, 0);
  *size = (size_t)lseek(file, 0, SEEK_END);
  const char *bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, file, 0);
  CHECK(bytes != MAP_FAILED);
  close(file);
  unlink(path);
  return bytes;
}

/* Reads all chunks one after another; the number of events. */
unused static size_t read_all(const char *bytes, size_t size, trace_event_t *events, size_t most) {
  size_t count = 0;
  for (size_t at = TRACE_CHUNK; at < size; at += TRACE_CHUNK) {
    const trace_chunk_t *chunk = (const trace_chunk_t *)(const void *)(bytes + at);
    trace_reader_t r;
    trace_event_t e;
    if (chunk->mark == 0) continue;
    CHECK_EQ(chunk->mark, (uint32_t)TRACE_CHUNK_MARK);
    trace_read_start(&r, chunk, atomic32_load_relaxed(&chunk->used));
    while (trace_read(&r, &e)) {
      if (count < most) events[count] = e;
      count++;
    }
    CHECK(r.at == r.end);
  }
  return count;
}

#endif
