/* trace.c - writes the event trace                                                 layer 2: support
 * Contract: trace.h. Each thread writes to chunks of its own, and a handler that interrupts it
 * while it writes to another one. A thread that ends hands its chunk on. The state lies on pages
 * that are zero in a child of fork. So the child sees at its first event that it has no file yet.
 * What its thread remembers of the parent's chunk is of another generation. */
#include "trace.h"

#include "../base/bits.h"
#include "../base/fmt.h"
#include "../os/os.h"

enum { RECORD_MOST = 64, HANDED_MOST = 1024, RINGS_MOST = 4096, TRACE_NAME_MOST = 4096 };
enum { FILE_LEAST = 200 }; /* a number that programs seldom reach */

typedef enum { STAGE_NONE, STAGE_BEGINS, STAGE_READY, STAGE_REFUSED } stage_t;

typedef struct {
  atomic32_t stage;
  atomic32_t file;     /* relaxed: a number; the next three: const from STAGE_READY on */
  uint32_t generation; /* of this process among its parents */
  uint64_t identity, began;
  trace_head_t *head;
  atomic32_t is_full;               /* relaxed: a hint, so that no more is asked for */
  atomic64_t end;                   /* of the file. relaxed: each place is drawn once */
  atomic64_t lost;                  /* relaxed: a sum */
  atomic_ptr_t handed[HANDED_MOST]; /* chunks that threads have left; S-trace */
  atomic64_t rings;                 /* relaxed: each number is drawn once */
  atomic_ptr_t ring[RINGS_MOST];    /* relaxed: looked at by one that is about to die */
  char name[TRACE_NAME_MOST];
} trace_state_t;

/* Where one thread, or one handler, writes. */
typedef struct {
  trace_chunk_t *chunk; /* NULL: none yet */
  uint32_t used, generation;
  uint64_t time, address, heap; /* of the last record */
  bool is_busy;                 /* a record is being written */
} stream_t;

/* The calling thread's. */
typedef struct {
  stream_t stream;
  atomic32_t serial; /* 0: none yet. relaxed: the thread's and its handlers' */
} trace_here_t;

static atomic_ptr_t trace_state; /* trace_state_t; relaxed: zero pages, whoever mapped them */
/* relaxed: written before the threads that read them see that any option wants every call */
static atomic_ptr_t trace_name;
static atomic64_t trace_ring;  /* bytes, whole chunks; 0: none */
static atomic32_t is_late;     /* relaxed: likewise */
static atomic32_t generations; /* a child of fork goes on counting. relaxed: its thread's */
static atomic32_t serials;     /* likewise; relaxed: each is drawn once */
static __thread trace_here_t trace_here __attribute__((tls_model("initial-exec")));

bool trace_start(const char *name, size_t ring) {
  size_t size = align_up(sizeof(trace_state_t), os_page_size());
  void *none = NULL, *state = os_map_unshared(size);
  if (state == NULL) return false;
  if (ring != 0) ring = align_up(max_size(ring, 2 * TRACE_CHUNK), TRACE_CHUNK);
  atomic_ptr_store_relaxed(&trace_name, (void *)(uintptr_t)name);
  atomic64_store_relaxed(&trace_ring, ring);
  if (!atomic_ptr_cas_relaxed(&trace_state, &none, state)) os_unmap(state, size);
  return true;
}

/* Whoever sets the name begins it. */
bool trace_start_late(const char *path) {
  size_t length = strlen(path) + 1, size = align_up(length, os_page_size());
  void *none = NULL;
  char *name = length <= TRACE_NAME_MOST ? (char *)os_map(size) : NULL;
  if (name == NULL) return false;
  memcpy(name, path, length);
  if (!atomic_ptr_cas_relaxed(&trace_name, &none, name)) {
    os_unmap(name, size);
    return false;
  }
  atomic32_store_relaxed(&is_late, 1);
  if (trace_start(name, 0) && trace_open()) return true;
  atomic32_add_relaxed(&generations, (uint32_t)-1);
  atomic_ptr_store_relaxed(&trace_state, NULL); /* its pages stay: a call may be looking at them */
  atomic_ptr_store_relaxed(&trace_name, NULL);
  return false;
}

bool trace_began_late(void) { return atomic32_load_relaxed(&is_late) != 0; }

bool trace_is_on(void) { return atomic_ptr_load_relaxed(&trace_state) != NULL; }

uint64_t trace_lost(void) {
  const trace_state_t *s = (trace_state_t *)atomic_ptr_load_relaxed(&trace_state);
  return s != NULL ? atomic64_load_relaxed(&s->lost) : 0;
}

static void lose_event(trace_state_t *s) {
  atomic64_add_relaxed(&s->lost, 1);
  if (atomic32_load_acquire(&s->stage) == STAGE_READY && s->head != NULL) /* S-trace */
    atomic64_add_relaxed(&s->head->lost, 1);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Where the name does not tell processes apart, all but the first have their number behind it. */
static void put_trace_name(trace_state_t *s, const char *pattern, bool is_first) {
  fmt_t f;
  bool is_told = is_first;
  fmt_start(&f, s->name, sizeof s->name, NULL, NULL);
  for (; *pattern != '\0'; pattern++) { /* Bound: the option's text */
    bool is_process = pattern[0] == '%' && pattern[1] == 'p';
    if (is_process) fmt_decimal(&f, os_process()), pattern++;
    else fmt_char(&f, *pattern);
    is_told = is_told || is_process;
  }
  if (!is_told) fmt_char(&f, '.'), fmt_decimal(&f, os_process());
  fmt_end(&f);
}

static int keep_apart(int file) {
  int kept = file < 0 ? -1 : os_duplicate(file, FILE_LEAST);
  if (kept < 0) return file;
  os_close(file);
  return kept;
}

static bool make_trace(trace_state_t *s, const char *pattern) {
  put_trace_name(s, pattern, s->generation == 1);
  int file = os_create_shared(s->name);
  if (file < 0) { /* perhaps another process is writing to it */
    put_trace_name(s, pattern, false);
    file = os_create_shared(s->name);
  }
  file = keep_apart(file);
  if (file < 0) return false;
  atomic32_store_relaxed(&s->is_full, 0);
  s->identity = os_file_identity(file);
  s->head = (trace_head_t *)os_map_file(file, 0, TRACE_CHUNK);
  atomic32_store_relaxed(&s->file, (uint32_t)file);
  atomic64_store_relaxed(&s->end, TRACE_CHUNK);
  if (s->head == NULL) {
    os_close(file);
    os_remove(s->name);
    return false;
  }
  s->head->version = TRACE_VERSION, s->head->chunk = TRACE_CHUNK;
  s->head->process = os_process(), s->head->page = (uint32_t)os_page_size();
  s->head->began = s->began;
  s->head->ring = atomic64_load_relaxed(&trace_ring);
  s->head->late = atomic32_load_relaxed(&is_late);
  memcpy(s->head->magic, TRACE_MAGIC, sizeof s->head->magic);
  return true;
}

/* One does it; what others record meanwhile is lost. */
static cold bool begin_trace(trace_state_t *s) {
  const char *pattern = (const char *)atomic_ptr_load_relaxed(&trace_name);
  uint32_t none = STAGE_NONE;
  if (!atomic32_cas_relaxed(&s->stage, &none, STAGE_BEGINS)) return none == STAGE_READY;
  s->generation = atomic32_add_relaxed(&generations, 1) + 1;
  s->began = os_now_ns();
  bool is_made = pattern == NULL || make_trace(s, pattern);
  atomic32_store_release(&s->stage, is_made ? STAGE_READY : STAGE_REFUSED); /* S-trace */
  return is_made;
}

static inline bool is_begun(trace_state_t *s) {
  uint32_t stage = atomic32_load_acquire(&s->stage); /* S-trace */
  return likely(stage == STAGE_READY) || (stage == STAGE_NONE && begin_trace(s));
}

bool trace_open(void) {
  trace_state_t *s = (trace_state_t *)atomic_ptr_load_relaxed(&trace_state);
  return s != NULL && is_begun(s);
}

/* A program may have closed our file, and the number be its own now. -1: the file is gone. */
static int find_trace(trace_state_t *s) {
  int file = (int)atomic32_load_relaxed(&s->file);
  if (os_file_identity(file) == s->identity) return file;
  file = keep_apart(os_open_shared(s->name));
  if (file < 0) return -1;
  if (os_file_identity(file) == s->identity) {
    atomic32_store_relaxed(&s->file, (uint32_t)file);
    return file;
  }
  os_close(file);
  return -1;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static trace_chunk_t *take_handed(trace_state_t *s) {
  for (unsigned i = 0; i < HANDED_MOST; i++) {
    void *chunk = atomic_ptr_load_relaxed(&s->handed[i]); /* relaxed: the swap reads again */
    if (chunk == NULL) continue;
    /* S-trace */
    if (atomic_ptr_cas_acquire(&s->handed[i], &chunk, NULL)) return (trace_chunk_t *)chunk;
  }
  return NULL;
}

static void drop_chunk(trace_chunk_t *chunk) {
  if (atomic_ptr_load_relaxed(&trace_name) != NULL) os_unmap_file(chunk, TRACE_CHUNK);
  else os_unmap(chunk, TRACE_CHUNK);
}

/* The chunk is used up: the ring's next one, or NULL. */
static trace_chunk_t *leave_chunk(trace_chunk_t *chunk) {
  size_t ring = atomic64_load_relaxed(&trace_ring);
  if (ring == 0) {
    drop_chunk(chunk);
    return NULL;
  }
  uint32_t index = chunk->index;
  char *first = (char *)chunk - (size_t)index * TRACE_CHUNK;
  index = (index + 1) % (uint32_t)(ring / TRACE_CHUNK);
  trace_chunk_t *next = (trace_chunk_t *)(void *)(first + (size_t)index * TRACE_CHUNK);
  atomic32_store_release(&next->used, 0); /* S-trace */
  return next;
}

/* So that whoever takes it has room. */
static void hand_chunk_on(trace_state_t *s, trace_chunk_t *chunk) {
  uint32_t used = atomic32_load_relaxed(&chunk->used); /* relaxed: the caller's */
  if (used + 2 * RECORD_MOST > TRACE_CHUNK) chunk = leave_chunk(chunk);
  for (unsigned i = 0; chunk != NULL && i < HANDED_MOST; i++) {
    void *none = NULL;
    if (atomic_ptr_cas_release(&s->handed[i], &none, chunk)) return; /* S-trace */
  }
  if (chunk != NULL && atomic64_load_relaxed(&trace_ring) == 0) drop_chunk(chunk);
}

/* In a child that a handler forked in the middle of this the end is 0: the file is the parent's. */
static void *map_piece(trace_state_t *s, int file, size_t size) {
  uint64_t at = atomic64_add_relaxed(&s->end, size);
  return at != 0 ? os_map_file(file, at, size) : NULL;
}

/* Of a fresh piece: a chunk, or a thread's ring. */
static cold trace_chunk_t *claim_chunk(trace_state_t *s, uint32_t generation) {
  size_t ring = atomic64_load_relaxed(&trace_ring), size = max_size(ring, TRACE_CHUNK);
  char *piece = NULL;
  if (atomic32_load_relaxed(&s->is_full)) return NULL;
  int file = s->head != NULL ? find_trace(s) : -1;
  if (s->head == NULL) piece = (char *)os_map(size);
  else if (file >= 0) piece = map_piece(s, file, size);
  if (piece == NULL) {
    atomic32_store_relaxed(&s->is_full, s->generation == generation);
    return NULL;
  }
  for (size_t i = 0; i < size / TRACE_CHUNK; i++)
    ((trace_chunk_t *)(void *)(piece + i * TRACE_CHUNK))->index = (uint32_t)i;
  uint64_t number = ring == 0 ? RINGS_MOST : atomic64_add_relaxed(&s->rings, 1);
  if (number < RINGS_MOST) atomic_ptr_store_relaxed(&s->ring[number], piece);
  return (trace_chunk_t *)(void *)piece;
}

/* ---- records --------------------------------------------------------------------------------- */

static unsigned char *put_trace_number(unsigned char *at, uint64_t n) {
  for (; n >= 128; n >>= 7) *at++ = (unsigned char)(n | 128); /* Bound: the bits of a word */
  *at++ = (unsigned char)n;
  return at;
}

static unsigned char *put_place(unsigned char *at, uint64_t *last, uintptr_t address) {
  uint64_t sixteenths = (uint64_t)address >> 4, n = sixteenths - *last;
  *last = sixteenths;
  return put_trace_number(at, n << 1 ^ (0 - (n >> 63)));
}

/* What is behind `used` counts for nobody, so no record is ever seen in part. A child that a
 * handler forked in the middle of this writes the same bytes to the same place. It must not take
 * back what the parent has written since. */
static void append_record(stream_t *t, const unsigned char *record, const unsigned char *end) {
  uint32_t before = t->used;
  memcpy((char *)t->chunk + before, record, (size_t)(end - record));
  t->used = before + (uint32_t)(end - record);
  atomic32_cas_release(&t->chunk->used, &before, t->used); /* S-trace */
}

/* Has the process, or a handler of this thread, forked since the chunk was taken? Then it goes. */
static inline bool is_parents(trace_state_t *s, stream_t *t) {
  if (likely(t->chunk == NULL || t->generation == s->generation)) return false;
  drop_chunk(t->chunk);
  t->chunk = NULL;
  return true;
}

static uint32_t serial_here(void) {
  uint32_t none = 0, serial = atomic32_load_relaxed(&trace_here.serial);
  if (likely(serial != 0)) return serial;
  serial = atomic32_add_relaxed(&serials, 1) + 1;
  /* A handler may have drawn one meanwhile. */
  return atomic32_cas_relaxed(&trace_here.serial, &none, serial) ? serial : none;
}

/* Not before the last record of whoever had the chunk. False: it is the parent's. */
static bool put_sync(trace_state_t *s, stream_t *t) {
  unsigned char record[RECORD_MOST], *at = record;
  uint64_t now = os_now_ns() - s->began;
  *at++ = TRACE_SYNC;
  at = put_trace_number(at, (uint32_t)os_thread() & ((1u << OS_THREAD_BITS / 2) - 1));
  at = put_trace_number(at, serial_here());
  at = put_trace_number(at, now);
  t->time = now, t->address = t->heap = 0;
  signal_fence();
  if (is_parents(s, t)) return false;
  append_record(t, record, at);
  return true;
}

/* Room for one record. */
static bool find_room(trace_state_t *s, stream_t *t) {
  is_parents(s, t);
  if (likely(t->chunk != NULL && t->used + 2 * RECORD_MOST <= TRACE_CHUNK)) return true;
  t->generation = s->generation;
  trace_chunk_t *chunk = t->chunk != NULL ? leave_chunk(t->chunk) : take_handed(s);
  if (chunk == NULL) chunk = claim_chunk(s, t->generation);
  t->chunk = chunk;
  signal_fence();
  if (chunk == NULL || is_parents(s, t)) return false;
  chunk->mark = TRACE_CHUNK_MARK;
  t->used = sizeof *chunk; /* if nothing is in it yet */
  uint32_t used = 0;
  if (!atomic32_cas_relaxed(&chunk->used, &used, t->used)) t->used = used;
  return put_sync(s, t);
}

static void write_event(trace_state_t *s, stream_t *t, const trace_event_t *e) {
  uint64_t now = os_now_ns() - s->began;
  if (!find_room(s, t)) return lose_event(s);
  bool is_heap = e->kind == TRACE_DELETE || e->kind == TRACE_DESTROY;
  unsigned char record[RECORD_MOST], *at = record;
  *at++ =
    (unsigned char)(e->kind | (e->failed ? TRACE_FAILED : 0) | (e->heap != 0 ? TRACE_OF_HEAP : 0));
  at = put_trace_number(at, now > t->time ? now - t->time : 0);
  t->time = max_size(now, t->time);
  if (!e->failed && e->kind != TRACE_LEAVE)
    at = put_place(at, is_heap ? &t->heap : &t->address, e->address);
  if (trace_has_size(e->kind)) at = put_trace_number(at, e->size);
  if (e->kind == TRACE_ALIGNED) at = put_trace_number(at, (unsigned)__builtin_ctzll(e->alignment));
  if (e->heap != 0) at = put_place(at, &t->heap, e->heap);
  signal_fence();
  if (likely(!is_parents(s, t))) append_record(t, record, at);
  else lose_event(s);
}

void trace_record(const trace_event_t *e, bool stays) {
  trace_state_t *s = (trace_state_t *)atomic_ptr_load_relaxed(&trace_state);
  if (s == NULL) return;
  if (!is_begun(s)) return lose_event(s);
  stream_t *t = &trace_here.stream;
  if (likely(stays && !t->is_busy)) {
    t->is_busy = true;
    signal_fence();
    write_event(s, t, e);
    signal_fence();
    t->is_busy = false;
    return;
  }
  stream_t once = {0};
  write_event(s, &once, e);
  if (once.chunk != NULL) hand_chunk_on(s, once.chunk);
}

void trace_leave(void) {
  trace_state_t *s = (trace_state_t *)atomic_ptr_load_relaxed(&trace_state);
  stream_t *t = &trace_here.stream;
  if (s == NULL || t->is_busy) return;
  if (atomic32_load_relaxed(&trace_here.serial) != 0) /* else it has recorded nothing */
    trace_record(&(trace_event_t){.kind = TRACE_LEAVE, .alignment = 1}, true);
  t->is_busy = true;
  signal_fence();
  trace_chunk_t *chunk = t->chunk;
  t->chunk = NULL;
  signal_fence();
  t->is_busy = false;
  if (chunk != NULL && t->generation == s->generation) hand_chunk_on(s, chunk);
}

/* ---- rings ----------------------------------------------------------------------------------- */

typedef struct {
  uintptr_t address;
  uint64_t skipped; /* the time of what does not count */
  uint32_t thread, found_thread;
  uint64_t found;
  bool is_found;
} search_t;

/* `copy`: of a chunk, whose thread goes on writing. */
static void search_chunk(search_t *look, const trace_chunk_t *copy) {
  trace_reader_t r;
  trace_event_t e;
  size_t used = atomic32_load_relaxed(&copy->used);
  if (copy->mark != TRACE_CHUNK_MARK || used > TRACE_CHUNK) return;
  trace_read_start(&r, copy, used);
  while (trace_read(&r, &e)) { /* Bound: the bytes of a chunk */
    bool frees = e.kind == TRACE_FREE || e.kind == TRACE_FROM;
    if (!frees || e.address != look->address || (look->is_found && e.time < look->found)) continue;
    if (e.thread == look->thread && e.time == look->skipped) continue;
    look->is_found = true, look->found = e.time, look->found_thread = e.thread;
  }
}

cold bool trace_find_free(uintptr_t address, bool recorded, uint32_t *thread, uint64_t *ago) {
  trace_state_t *s = (trace_state_t *)atomic_ptr_load_relaxed(&trace_state);
  size_t ring = atomic64_load_relaxed(&trace_ring);
  if (s == NULL || ring == 0 || !is_begun(s)) return false;
  trace_chunk_t *copy = (trace_chunk_t *)os_map(TRACE_CHUNK);
  if (copy == NULL) return false;
  uint32_t self = (uint32_t)os_thread() & ((1u << OS_THREAD_BITS / 2) - 1);
  search_t look = {
    .address = address, .thread = recorded ? self : 0, .skipped = trace_here.stream.time};
  for (size_t i = 0; i < RINGS_MOST; i++) {
    char *first = (char *)atomic_ptr_load_relaxed(&s->ring[i]);
    for (size_t at = 0; first != NULL && at < ring; at += TRACE_CHUNK)
      if (os_copy(copy, first + at, TRACE_CHUNK)) search_chunk(&look, copy);
  }
  os_unmap(copy, TRACE_CHUNK);
  *thread = look.found_thread;
  *ago = os_now_ns() - s->began - look.found;
  return look.is_found;
}
