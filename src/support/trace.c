/* trace.c - writes the event trace                                                 layer 2: support
 * Contract: trace.h. Each thread writes to its own chunks. A handler that interrupts it in the
 * middle of a record writes to another one. A thread that ends hands its chunk on. */
#include "trace.h"

#include "../base/bits.h"
#include "../base/layout.h"
#include "../os/os.h"
#include "options.h"
#include "trace_file.h"

enum { RECORD_MOST = 96 };

/* Where one thread, or one handler, writes. */
typedef struct {
  trace_chunk_t *chunk; /* NULL: none yet */
  trace_chunk_t *first; /* of its ring; a child of fork finds nothing there */
  uint32_t used, generation;
  uint64_t time, address, heap, code; /* of the last record */
  bool is_busy;                       /* a record is being written */
} stream_t;

/* The calling thread's. */
typedef struct {
  stream_t stream;
  uint64_t freeing;  /* trace_freeing */
  atomic32_t serial; /* 0: none yet. relaxed: the thread's and its handlers' */
} trace_here_t;

static atomic32_t serials; /* a child of fork goes on counting. relaxed: each is drawn once */
static __thread trace_here_t trace_here __attribute__((tls_model("initial-exec")));

/* ---- records --------------------------------------------------------------------------------- */

static unsigned char *put_difference(unsigned char *at, uint64_t *last, uint64_t word) {
  uint64_t n = word - *last;
  *last = word;
  return bits_put_varint(at, n << 1 ^ (0 - (n >> 63)));
}

static unsigned char *put_address(unsigned char *at, uint64_t *last, uintptr_t address) {
  return put_difference(at, last, (uint64_t)address >> 4);
}

static unsigned char *put_code(unsigned char *at, uint64_t *last, const trace_event_t *e) {
  at = bits_put_varint(at, e->frame_count);
  for (unsigned i = 0; i < e->frame_count; i++) at = put_difference(at, last, e->frames[i]);
  return at;
}

/* Nobody reads bytes behind `used`, so no record is ever seen in part. A child that a handler
 * forked in the middle of this writes the same bytes to the same place. It must not undo what the
 * parent has written since. */
static void append_record(stream_t *t, const unsigned char *record, const unsigned char *end) {
  uint32_t before = t->used;
  memcpy((char *)t->chunk + before, record, (size_t)(end - record));
  t->used = before + (uint32_t)(end - record);
  atomic32_cas_release(&t->chunk->used, &before, t->used); /* S-trace */
}

/* The thread lets go of it first, because a jump may leave us here. */
static void drop_own(stream_t *t) {
  if (t->chunk == NULL) return;
  t->chunk = NULL;
  signal_fence();
  trace_drop_chunks(t->first);
}

/* Drops the chunk if the process, or a handler of this thread, has forked since it was taken, or if
 * another trace has begun. */
static inline bool drop_others(trace_file_t *s, stream_t *t) {
  if (likely(t->chunk == NULL) || trace_file_is_of(s, t->generation)) return false;
  drop_own(t);
  return true;
}

static uint32_t serial_here(void) {
  uint32_t none = 0, serial = atomic32_load_relaxed(&trace_here.serial);
  if (likely(serial != 0)) return serial;
  serial = atomic32_add_relaxed(&serials, 1) + 1;
  /* A handler may have drawn one meanwhile. */
  return atomic32_cas_relaxed(&trace_here.serial, &none, serial) ? serial : none;
}

/* Not before the last record of the chunk's earlier user. False: the chunk is another's. */
static bool put_sync(trace_file_t *s, stream_t *t) {
  unsigned char record[RECORD_MOST], *at = record;
  uint64_t now = os_now_ns() - atomic64_load_relaxed(&s->began);
  *at++ = TRACE_SYNC;
  at = bits_put_varint(at, os_thread_number());
  at = bits_put_varint(at, serial_here());
  at = bits_put_varint(at, now);
  t->time = now, t->address = t->heap = t->code = 0;
  signal_fence();
  if (drop_others(s, t)) return false;
  append_record(t, record, at);
  return true;
}

/* Room for one record. */
static bool find_room(trace_file_t *s, stream_t *t) {
  drop_others(s, t);
  if (likely(t->chunk != NULL && t->used + 2 * RECORD_MOST <= TRACE_CHUNK)) return true;
  trace_chunk_t *chunk = t->chunk;
  if (chunk != NULL) chunk = trace_next_chunk(s, t->generation, t->first, chunk);
  if (chunk == NULL) {
    drop_own(t);
    t->generation = atomic32_load_relaxed(&s->generation);
    chunk = trace_take_chunk(s, t->generation, &t->first);
  }
  t->chunk = chunk;
  signal_fence();
  if (chunk == NULL || drop_others(s, t)) return false;
  chunk->mark = TRACE_CHUNK_MARK;
  t->used = sizeof *chunk; /* if it is still empty */
  uint32_t used = 0;
  if (!atomic32_cas_relaxed(&chunk->used, &used, t->used)) t->used = used;
  return put_sync(s, t);
}

static bool frees(const trace_event_t *e) { return e->kind == TRACE_FREE || e->kind == TRACE_FROM; }

/* Only in rings, because it takes time. In a static program the first frames are ours, so frames
 * before `caller` do not count. */
static out_of_line void find_code(trace_event_t *e, uintptr_t caller) {
  enum { OURS_MOST = 12 };
  uintptr_t frames[OURS_MOST + TRACE_FRAMES];
  if (likely(trace_ring_size() == 0) || !frees(e)) return;
  bool by_tables = option_get(OPTION_profile_stack) == STACK_TABLES;
  unsigned first = 0, count = os_backtrace(frames, TRACE_FRAMES, by_tables);
  if (count == TRACE_FRAMES && caller != 0 && frames[0] != caller)
    count = os_backtrace(frames, ARRAY_LENGTH(frames), by_tables);
  while (first < count && frames[first] != caller) first++; /* Bound: `frames` */
  if (first == count) first = 0;
  e->frame_count = (unsigned)min_size(count - first, TRACE_FRAMES);
  memcpy(e->frames, &frames[first], e->frame_count * sizeof *frames);
}

/* Returns the event's time plus 1; 0: it was lost. */
static out_of_line uint64_t write_event(trace_file_t *s, stream_t *t, const trace_event_t *e) {
  if (!find_room(s, t)) return trace_file_lose_event(s), 0;
  uint64_t now = os_now_ns() - atomic64_load_relaxed(&s->began);
  bool is_heap = e->kind == TRACE_DELETE || e->kind == TRACE_DESTROY;
  unsigned char record[RECORD_MOST], *at = record;
  *at++ =
    (unsigned char)(e->kind | (e->failed ? TRACE_FAILED : 0) | (e->heap != 0 ? TRACE_OF_HEAP : 0) |
                    (e->frame_count != 0 ? TRACE_HAS_CODE : 0));
  at = bits_put_varint(at, now > t->time ? now - t->time : 0);
  t->time = max_size(now, t->time);
  if (!e->failed && e->kind != TRACE_LEAVE)
    at = put_address(at, is_heap ? &t->heap : &t->address, e->address);
  if (trace_has_size(e->kind)) at = bits_put_varint(at, e->size);
  if (e->kind == TRACE_ALIGNED) at = bits_put_varint(at, (unsigned)__builtin_ctzll(e->alignment));
  if (e->heap != 0) at = put_address(at, &t->heap, e->heap);
  if (e->frame_count != 0) at = put_code(at, &t->code, e);
  signal_fence();
  if (drop_others(s, t)) return trace_file_lose_event(s), 0;
  append_record(t, record, at);
  return t->time + 1;
}

/* `t`: only the caller knows it. Makes sure that the next user of the chunk has room. */
static void hand_chunk_on(trace_file_t *s, const stream_t *t) {
  trace_chunk_t *chunk = t->chunk;
  if (!trace_is_on() || !trace_file_is_of(s, t->generation)) return trace_drop_chunks(t->first);
  uint32_t used = atomic32_load_relaxed(&chunk->used); /* relaxed: the caller's */
  bool is_full = used + 2 * RECORD_MOST > TRACE_CHUNK;
  if (is_full) chunk = trace_next_chunk(s, t->generation, t->first, chunk);
  if (chunk != NULL) trace_hand_on(s, chunk);
  else trace_drop_chunks(t->first);
}

void trace_record(trace_event_t *e, bool stays) {
  if (!trace_is_on()) return;
  trace_file_t *s = trace_file();
  if (!trace_file_is_begun(s)) return trace_file_lose_event(s);
  stream_t *own = &trace_here.stream, once = {0}, *t = stays && !own->is_busy ? own : &once;
  find_code(e, e->frames[0]);
  t->is_busy = true;
  signal_fence();
  uint64_t time = write_event(s, t, e);
  if (frees(e)) trace_here.freeing = time;
  signal_fence();
  t->is_busy = false;
  if (t == &once && once.chunk != NULL) hand_chunk_on(s, &once);
}

uint64_t *trace_freeing(void) { return &trace_here.freeing; }

/* Takes the thread's chunk away. A handler may take another one at once. */
static void leave_own(trace_file_t *s, stream_t *t) {
  t->is_busy = true;
  signal_fence();
  stream_t had = *t;
  t->chunk = NULL;
  signal_fence();
  t->is_busy = false;
  signal_fence();
  if (had.chunk != NULL) hand_chunk_on(s, &had);
}

/* If a jump has left a record unfinished, its chunk gets no more records. */
void trace_leave(void) {
  trace_file_t *s = trace_file();
  stream_t *t = &trace_here.stream;
  if (s == NULL) return;
  if (t->is_busy) leave_own(s, t);
  if (atomic32_load_relaxed(&trace_here.serial) != 0) /* else it has recorded nothing */
    trace_record(&(trace_event_t){.kind = TRACE_LEAVE, .alignment = 1}, true);
  leave_own(s, t);
}

void trace_drop_stale(void) {
  stream_t *t = &trace_here.stream;
  if (unlikely(t->chunk != NULL) && !t->is_busy && !trace_is_on()) leave_own(trace_file(), t);
}

/* ---- rings ----------------------------------------------------------------------------------- */

typedef struct {
  uintptr_t address;
  uint32_t thread;      /* the calling one */
  uint64_t asked;       /* later events do not count */
  uint64_t known_since; /* nothing is missing from then on */
  uint64_t oldest;      /* of the ring */
  trace_event_t *last;  /* event of the address; kind: 0 if there is none */
} search_t;

/* Is this the call under way? */
static bool is_now(const search_t *look, const trace_event_t *e) {
  return e->thread == look->thread && e->time + 1 == *trace_freeing();
}

/* Did the event allocate or free the address? */
static bool is_of_block(const search_t *look, const trace_event_t *e) {
  bool gives = e->kind == TRACE_MALLOC || e->kind == TRACE_CALLOC || e->kind == TRACE_ALIGNED ||
               e->kind == TRACE_TO;
  bool is_wanted = e->address == look->address && !e->failed && e->time <= look->asked;
  return is_wanted && (gives || frees(e)) && !is_now(look, e);
}

/* `copy`: of the used bytes of a chunk, whose thread goes on writing. */
static void search_chunk(search_t *look, const trace_chunk_t *copy, size_t used) {
  trace_reader_t r;
  trace_event_t e;
  trace_read_start(&r, copy, used);
  while (trace_read(&r, &e)) { /* Bound: the bytes of a chunk */
    look->oldest = min_size(look->oldest, e.time);
    if (!is_of_block(look, &e)) continue;
    if (look->last->kind == TRACE_END || e.time >= look->last->time) *look->last = e;
  }
}

/* A ring's chunks are used in turn. Once all have been used, the first events may be gone. */
static void search_ring(search_t *look, const char *ring, trace_chunk_t *copy) {
  look->oldest = UINT64_MAX;
  for (size_t at = 0; at < trace_ring_size(); at += TRACE_CHUNK) { /* Bound: the option */
    if (!os_copy(copy, ring + at, sizeof *copy) || copy->mark != TRACE_CHUNK_MARK) return;
    size_t used = min_size(atomic32_load_relaxed(&copy->used), TRACE_CHUNK);
    if (used <= sizeof *copy || !os_copy(copy, ring + at, used)) continue;
    trace_chunk_t now; /* its thread may have begun it anew meanwhile */
    if (!os_copy(&now, ring + at, sizeof now) || atomic32_load_relaxed(&now.used) < used) continue;
    search_chunk(look, copy, used);
  }
  look->known_since = max_size(look->known_since, look->oldest);
}

cold bool trace_find_free(uintptr_t address, trace_event_t *found) {
  trace_file_t *s = trace_file();
  if (s == NULL || trace_ring_size() == 0 || !trace_file_is_begun(s)) return false;
  trace_chunk_t *copy = (trace_chunk_t *)os_map(TRACE_CHUNK);
  if (copy == NULL) return false;
  search_t look = {.address = address, .thread = os_thread_number(), .last = found};
  look.asked = os_now_ns() - atomic64_load_relaxed(&s->began);
  found->kind = TRACE_END;
  for (size_t i = 0; i < RINGS_MOST; i++) {
    const char *ring = (const char *)atomic_ptr_load_relaxed(&s->ring[i]);
    if (ring != NULL) search_ring(&look, ring, copy);
  }
  os_unmap(copy, TRACE_CHUNK);
  if (found->kind == TRACE_END || !frees(found)) return false;
  found->failed = found->time < max_size(look.known_since, atomic64_load_relaxed(&s->lost_at));
  found->time = look.asked - found->time;
  return true;
}
