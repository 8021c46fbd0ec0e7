/* trace_file.c - a trace, read in the order of time
 * Contract: trace_file.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const trace_kind_text[] = {
#define KIND_TEXT(name, text) text,
  TRACE_KINDS(KIND_TEXT)
#undef KIND_TEXT
};

static void sink(trace_file_t *f, size_t i) {
  for (size_t child; (child = 2 * i + 1) < f->in_hand; i = child) {
    if (child + 1 < f->in_hand && f->cursors[child + 1].next.time < f->cursors[child].next.time)
      child++;
    if (f->cursors[i].next.time <= f->cursors[child].next.time) return;
    trace_cursor_t moved = f->cursors[i];
    f->cursors[i] = f->cursors[child];
    f->cursors[child] = moved;
  }
}

/* The chunk that holds `at` is not needed for now: its pages are the file's, and need not stay. */
static void drop_pages(const trace_file_t *f, const void *at) {
  size_t chunk = (size_t)((const char *)at - f->bytes - 1) / TRACE_CHUNK;
  madvise((void *)(uintptr_t)(f->bytes + chunk * TRACE_CHUNK), TRACE_CHUNK, MADV_DONTNEED);
}

/* A thread's time does not go back: what does is not what it wrote. */
static bool advance(trace_file_t *f, trace_cursor_t *c) {
  uint64_t before = c->next.time;
  bool is_read = trace_read(&c->reader, &c->next);
  if (is_read && c->next.time >= before) return true;
  if (is_read || c->reader.at < c->reader.end) f->is_cut = true;
  drop_pages(f, c->reader.end);
  return false;
}

const char *trace_file_rewind(trace_file_t *f) {
  if (f->cursors == NULL) f->cursors = calloc(f->chunks + 1, sizeof *f->cursors);
  if (f->cursors == NULL) return strerror(ENOMEM);
  f->in_hand = 0;
  for (size_t i = 1; i < f->chunks; i++) {
    const trace_chunk_t *chunk = (const void *)(f->bytes + i * TRACE_CHUNK);
    size_t used = atomic32_load_acquire(&chunk->used);
    if (used == 0) continue; /* its thread died before it was begun, or begun again */
    if (chunk->mark != TRACE_CHUNK_MARK || used > TRACE_CHUNK || used < sizeof *chunk) {
      f->is_cut = true;
      continue;
    }
    trace_cursor_t *c = &f->cursors[f->in_hand];
    trace_read_start(&c->reader, chunk, used);
    c->next.time = 0;
    if (!advance(f, c)) continue;
    f->in_hand++;
    drop_pages(f, c->reader.end); /* until it is the chunk's turn */
  }
  for (size_t i = f->in_hand / 2; i-- > 0;) sink(f, i);
  return NULL;
}

const char *trace_file_open(trace_file_t *f, const char *path) {
  struct stat about;
  *f = (trace_file_t){0};
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* of a pipe: waits for no writer */
  if (file < 0 || fstat(file, &about) != 0) return strerror(errno);
  f->size = (size_t)about.st_size;
  bool is_file = S_ISREG(about.st_mode), is_long_enough = f->size >= sizeof(trace_head_t);
  void *bytes =
    is_file && is_long_enough ? mmap(NULL, f->size, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (!is_file) return "is no plain file";
  if (!is_long_enough) return "is no trace";
  if (bytes == MAP_FAILED) return strerror(errno);
  f->bytes = bytes;
  f->head = bytes;
  if (memcmp(f->head->magic, TRACE_MAGIC, sizeof f->head->magic) != 0) return "is no trace";
  if (f->head->version < TRACE_VERSION_OLDEST || f->head->version > TRACE_VERSION ||
      f->head->chunk != TRACE_CHUNK)
    return "is a trace of another version of freehold";
  f->is_cut = f->size % TRACE_CHUNK != 0;
  f->chunks = f->size / TRACE_CHUNK;
  return trace_file_rewind(f);
}

static size_t find_place(const trace_file_t *f, uint32_t serial) {
  size_t at = serial & (f->room - 1);
  while (f->threads[at].place != 0 && f->threads[at].serial != serial)
    at = (at + 1) & (f->room - 1);
  return at;
}

static bool grow_places(trace_file_t *f) {
  trace_file_t old = *f;
  f->room = old.room == 0 ? 64 : old.room * 2;
  f->threads = calloc(f->room, sizeof *f->threads);
  if (f->threads == NULL) return false;
  for (size_t i = 0; i < old.room; i++)
    if (old.threads[i].place != 0)
      f->threads[find_place(f, old.threads[i].serial)] = old.threads[i];
  free(old.threads);
  return true;
}

size_t trace_file_place(trace_file_t *f, const trace_event_t *e) {
  if (f->thread_count * 2 >= f->room && !grow_places(f)) return SIZE_MAX;
  size_t at = find_place(f, e->serial);
  if (f->threads[at].place == 0) {
    f->threads[at].serial = e->serial;
    f->threads[at].place = (uint32_t)++f->thread_count;
  }
  return f->threads[at].place - 1;
}

bool trace_file_next(trace_file_t *f, trace_event_t *e) {
  if (f->in_hand == 0) return false;
  *e = f->cursors[0].next;
  if (!advance(f, &f->cursors[0])) f->cursors[0] = f->cursors[--f->in_hand];
  sink(f, 0);
  return true;
}
