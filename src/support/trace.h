/* trace.h - the event trace: its format, and what writes it                        layer 2: support
 * Owns:    each thread's place in the trace; trace_file.h has the file.   Called by: enter.c, api,
 *          tools.   Calls: os, trace_file.
 * Threads: any, also in signal handlers and before main. No lock, no wait, no allocation.
 * Sync:    S-trace  append_record (release) -> readers of `used` (acquire): whole records.
 *
 * Format, version 3, little endian; version 2 had no code. A file consists of chunks of TRACE_CHUNK
 * bytes. The first one begins with trace_head_t, any other with trace_chunk_t. Behind that come
 * records, `used` bytes including the chunk's head. A chunk that was never used has no mark. Each
 * chunk is decoded alone: it begins with a sync.
 *
 *   record   a byte: kind, and flags above it; then, except in a sync, the nanoseconds since the
 *            record before; then what its kind has
 *   sync     thread, its serial, nanoseconds since the trace began; the addresses before it were 0
 *   leave    nothing more: the thread ends
 *   others   the address, except of what failed. The size asked for, except of free and from. Of
 *            aligned alone the logarithm of the alignment. If flagged: the first-class heap; the
 *            code, which free and from have in rings
 *   code     how many return addresses there are, and these, the innermost first
 *
 * The system reuses thread numbers, so each thread has a serial too, from 1, which no other thread
 * of the process or its parents has. What runs in a thread after its end is recorded behind its
 * leave, under the same serial: perhaps frees, or blocks and one more leave. A thread has no leave
 * if it never had a heap, ended by a bare system call, or still runs.
 *
 * Numbers are varints: 7 bits a byte, the lowest first, bit 7: more follow. Addresses are divided
 * by 16, as the difference to the record before, in zigzag: 0 -1 1 -2. Heaps are compared with
 * heaps, and code, whose addresses are not divided, with code. A free is recorded before it
 * happens, an allocation after. So in order of time no block is allocated before it is free. A
 * realloc is two records; between them the old block is nobody's. In a trace that began late, a
 * thread's calls are there from its first slow one on. If a block is allocated twice there, a
 * thread that was not recorded yet freed it. The usable size is that of the size's class, or whole
 * pages; a sampled block has more. */
#pragma once

#include "../base/atomic.h"

enum { TRACE_VERSION = 3, TRACE_VERSION_OLDEST = 2 };
enum { TRACE_CHUNK = 64 << 10, TRACE_CHUNK_MARK = 0x43544846 /* FHTC */ };
enum { TRACE_NAME_MOST = 4096, TRACE_FRAMES = 4 /* of a call stack, the innermost ones */ };
#define TRACE_MAGIC "fh-trace"

typedef struct {
  char magic[8]; /* TRACE_MAGIC */
  uint32_t version, chunk, process, page;
  uint64_t began;  /* nanoseconds of the system's clock that only goes forward */
  uint64_t ring;   /* bytes kept of each thread; 0: all */
  atomic64_t lost; /* events. relaxed: a sum */
  uint64_t late;   /* 1: it began while the program ran, so older blocks are not known */
} trace_head_t;

typedef struct {
  uint32_t mark; /* TRACE_CHUNK_MARK */
  atomic32_t used;
  uint32_t index;      /* in its thread's ring */
  uint32_t generation; /* which of the process's and its parents' traces this is */
} trace_chunk_t;

#define TRACE_KINDS(K)                                                                             \
  K(END, "end")                                                                                    \
  K(SYNC, "sync")                                                                                  \
  K(MALLOC, "malloc")                                                                              \
  K(CALLOC, "calloc")                                                                              \
  K(ALIGNED, "aligned")                                                                            \
  K(FREE, "free")                                                                                  \
  K(FROM, "realloc-from")                                                                          \
  K(TO, "realloc-to")                                                                              \
  K(EXPAND, "expand")                                                                              \
  K(DELETE, "heap-delete")                                                                         \
  K(DESTROY, "heap-destroy")                                                                       \
  K(LEAVE, "leave")
#define TRACE_KIND(name, text) TRACE_##name,
typedef enum { TRACE_KINDS(TRACE_KIND) TRACE_KIND_COUNT } trace_kind_t;
enum { TRACE_KIND_BITS = 15, TRACE_FAILED = 16, TRACE_OF_HEAP = 32, TRACE_HAS_CODE = 64 };

typedef struct {
  trace_kind_t kind;
  bool failed;
  uintptr_t address;      /* of delete and destroy: the heap */
  size_t size, alignment; /* as asked for; alignment 1: any */
  uintptr_t heap;         /* a first-class one, or 0 */
  uint64_t time;          /* ns since the trace began; from here on: set when read */
  uint32_t thread, serial;
  unsigned frame_count;           /* 0: not known */
  uintptr_t frames[TRACE_FRAMES]; /* to record: the first is where the call returns, or 0 */
} trace_event_t;

/* ---- writing --------------------------------------------------------------------------------- */

/* Starts what the options `trace` and `trace_ring` ask for; `name` must stay. False: no memory. */
hidden bool trace_start(const char *name, size_t ring);
/* Begins a trace while the program runs; copies `path`. BUSY: there is one, or another thread
 * begins or ends one. */
typedef enum { TRACE_BEGUN, TRACE_BUSY, TRACE_NO_FILE, TRACE_NO_ROOM } trace_begun_t;
hidden trace_begun_t trace_start_late(const char *path);
hidden const char *trace_path(void); /* as asked for; NULL: none was */
hidden bool trace_open(void); /* begins now, not with the first event; false: no file can be made */
hidden bool trace_is_on(void);
/* `stays`: the thread will say when it ends (trace_leave). Notes the code in the event. */
hidden void trace_record(trace_event_t *event, bool stays);
hidden void trace_leave(void); /* the calling thread ends */
/* Ends the trace; trace_stopped lets another one begin. False: there is none, or it has rings, or
 * another thread begins or ends it. */
hidden bool trace_stop(void);
hidden void trace_stopped(void);
/* Drops what the calling thread still has of a trace that was ended. */
hidden void trace_drop_stale(void);
hidden uint64_t trace_lost(void);
hidden bool trace_is_full(void); /* were some of these lost for want of room? */
/* The time of the calling thread's free under way, plus 1; 0: none. A record sets it, and the
 * function that frees restores it afterwards. */
hidden uint64_t *trace_freeing(void);
/* The last free of that address in the rings before the one under way; its time is how long ago it
 * was. `failed`: there may have been a later one, in events that were lost or older than some
 * thread's ring. False: there is none, or the address was handed out since. */
hidden bool trace_find_free(uintptr_t address, trace_event_t *found);

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
  const unsigned char *at, *end;
  uint64_t time, address, heap, code; /* the last ones; addresses are sixteenths */
  uint32_t thread, serial;
} trace_reader_t;

static inline void trace_read_start(trace_reader_t *r, const void *chunk, size_t used) {
  const unsigned char *bytes = (const unsigned char *)chunk;
  *r = (trace_reader_t){bytes + sizeof(trace_chunk_t), bytes + used, 0, 0, 0, 0, 0, 0};
}

static inline bool trace_read_number(trace_reader_t *r, uint64_t *n) {
  *n = 0;
  for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
    unsigned char byte = *r->at++;
    *n |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

static inline bool trace_read_difference(trace_reader_t *r, uint64_t *last) {
  uint64_t n;
  if (!trace_read_number(r, &n)) return false;
  *last += n >> 1 ^ (0 - (n & 1));
  return true;
}

static inline bool trace_read_address(trace_reader_t *r, uint64_t *last, uintptr_t *address) {
  if (!trace_read_difference(r, last)) return false;
  *address = (uintptr_t)(*last << 4);
  return true;
}

static inline bool trace_read_code(trace_reader_t *r, trace_event_t *e) {
  uint64_t n;
  if (!trace_read_number(r, &n) || n > TRACE_FRAMES) return false;
  for (; e->frame_count < n; e->frame_count++) {
    if (!trace_read_difference(r, &r->code)) return false;
    e->frames[e->frame_count] = (uintptr_t)r->code;
  }
  return true;
}

static inline bool trace_has_size(trace_kind_t kind) {
  return kind == TRACE_MALLOC || kind == TRACE_CALLOC || kind == TRACE_ALIGNED ||
         kind == TRACE_TO || kind == TRACE_EXPAND;
}

static inline bool trace_read_rest(trace_reader_t *r, trace_event_t *e, unsigned flags) {
  uint64_t n;
  if (e->kind == TRACE_LEAVE) return true;
  bool is_heap = e->kind == TRACE_DELETE || e->kind == TRACE_DESTROY;
  if (!e->failed && !trace_read_address(r, is_heap ? &r->heap : &r->address, &e->address))
    return false;
  if (trace_has_size(e->kind)) {
    if (!trace_read_number(r, &n)) return false;
    e->size = n;
  }
  if (e->kind == TRACE_ALIGNED) {
    if (!trace_read_number(r, &n) || n > 63) return false;
    e->alignment = (size_t)1 << n;
  }
  if ((flags & TRACE_OF_HEAP) != 0 && !trace_read_address(r, &r->heap, &e->heap)) return false;
  return (flags & TRACE_HAS_CODE) == 0 || trace_read_code(r, e);
}

/* The next event. False: there is none, or, if `r->at` is not `r->end`, it is unknown. */
static inline bool trace_read(trace_reader_t *r, trace_event_t *e) {
  while (r->at < r->end) { /* Bound: the bytes of a chunk */
    uint64_t n;
    const unsigned char *begin = r->at;
    unsigned char first = *begin;
    *e = (trace_event_t){.kind = (trace_kind_t)(first & TRACE_KIND_BITS), .alignment = 1};
    if (e->kind == TRACE_END || e->kind >= TRACE_KIND_COUNT) return false;
    r->at++;
    if (!trace_read_number(r, &n)) return r->at = begin, false;
    if (e->kind == TRACE_SYNC) {
      r->thread = (uint32_t)n;
      r->address = r->heap = r->code = 0;
      if (!trace_read_number(r, &n) || !trace_read_number(r, &r->time)) return r->at = begin, false;
      r->serial = (uint32_t)n;
      continue;
    }
    e->failed = (first & TRACE_FAILED) != 0;
    e->time = r->time += n;
    e->thread = r->thread, e->serial = r->serial;
    if (trace_read_rest(r, e, first)) return true;
    r->at = begin;
    return false;
  }
  return false;
}
