/* trace_file.c - the file of the event trace, and its pieces                       layer 2: support
 * Contract: trace_file.h. */
#include "trace_file.h"

#include "../base/bits.h"
#include "../base/fmt.h"
#include "../base/layout.h"
#include "../os/os.h"

enum { FILE_LEAST = 200 }; /* a number that programs seldom reach */

/* REFUSED: there is no file; NO_ROOM: nor room for one. Only requests leave stages except NONE. */
typedef enum {
  STAGE_NONE,
  STAGE_REFUSED,
  STAGE_NO_ROOM,
  STAGE_ENDED,
  STAGE_BEGINS, /* from here on nobody else begins one */
  STAGE_READY,
  STAGE_ENDS
} stage_t;

/* A stage's word says which thread set it, or for ENDED which trace it was. No other thread goes on
 * from BEGINS and ENDS, unless that thread has died. */
enum { STAGE_BITS = 8 };
static stage_t stage_of(uint64_t word) { return (stage_t)(word & ((1 << STAGE_BITS) - 1)); }
static uint64_t stage_word(stage_t stage) { return os_thread() << STAGE_BITS | stage; }
static bool has_died(uint64_t word) { return os_thread_has_ended(word >> STAGE_BITS, os_thread()); }

/* A thread that uses the file holds it, so that its number and head do not become another's
 * meanwhile. The last holder closes it when the trace must end. */
#define FILE_ENDS ((uint64_t)1 << 32)
#define FILE_CLOSED (FILE_ENDS | FILE_ENDS << 1)

static atomic32_t is_tracing; /* S-trace: trace_state, and what follows */
LAYOUT_VARIABLE(is_tracing);
static atomic_ptr_t trace_state; /* trace_file_t, never unmapped; relaxed: zero pages */
/* relaxed: written before `is_tracing`, or by the thread that begins the trace */
static atomic_ptr_t trace_name;
static atomic64_t trace_ring;
static atomic32_t is_late;
static atomic32_t generations; /* a child of fork goes on counting. relaxed: each is drawn once */
/* The thread is beginning a trace further down its stack. If a handler forks there, the child goes
 * on with that too; so the handler itself must not begin one. */
static __thread bool is_beginning __attribute__((tls_model("initial-exec")));

trace_file_t *trace_file(void) { return (trace_file_t *)atomic_ptr_load_relaxed(&trace_state); }
size_t trace_ring_size(void) { return atomic64_load_relaxed(&trace_ring); }
const char *trace_path(void) { return (const char *)atomic_ptr_load_relaxed(&trace_name); }
bool trace_is_on(void) { return atomic32_load_acquire(&is_tracing) != 0; } /* S-trace */

/* Replaces `before`, which stays, since threads may still use it. NULL: no memory. */
static trace_file_t *make_state(trace_file_t *before) {
  void *found = trace_file();
  void *made = found == before ? os_map_unshared(trace_state_size(trace_ring_size() != 0)) : NULL;
  if (found != before) return (trace_file_t *)found;
  if (made == NULL) return NULL;
  if (atomic_ptr_cas_relaxed(&trace_state, &found, made)) return (trace_file_t *)made;
  os_unmap(made, trace_state_size(trace_ring_size() != 0));
  return (trace_file_t *)found;
}

bool trace_start(const char *name, size_t ring) {
  if (ring != 0) ring = align_up(max_size(ring, 2 * TRACE_CHUNK), TRACE_CHUNK);
  atomic64_store_relaxed(&trace_ring, ring);
  if (make_state(NULL) == NULL) return false;
  atomic_ptr_store_relaxed(&trace_name, (void *)(uintptr_t)name);
  atomic32_store_release(&is_tracing, 1); /* S-trace */
  return true;
}

/* ---- who holds the file ---------------------------------------------------------------------- */

/* False: there is none, or no longer one. */
static bool hold_file(trace_file_t *s) {
  if (stage_of(atomic64_load_acquire(&s->stage)) != STAGE_READY) return false; /* S-trace */
  uint64_t n = atomic64_load_relaxed(&s->holds);
  do { /* Progress: another thread has begun or stopped holding it */
    if (n >= FILE_ENDS) return false;
  } while (!atomic64_cas_acquire(&s->holds, &n, n + 1)); /* S-trace */
  return true;
}

/* For the last holder only. */
static void close_trace(trace_file_t *s) {
  int file = (int)atomic32_load_relaxed(&s->file);
  void *head = atomic_ptr_load_relaxed(&s->head);
  if (head != NULL) os_unmap_file(head, TRACE_CHUNK);
  if (os_file_identity(file) == s->identity) os_close(file);
  atomic64_store_release(&s->holds, FILE_CLOSED); /* S-trace */
}

static void release_file(trace_file_t *s) {
  uint64_t n = atomic64_load_relaxed(&s->holds);
  do {                              /* Progress: as above */
    if (n % FILE_ENDS == 0) return; /* a handler has forked: the parent held it */
  } while (!atomic64_cas_acq_rel(&s->holds, &n, n - 1)); /* S-trace */
  if (n - 1 == FILE_ENDS) close_trace(s);
}

/* The head counts events lost before there was a file, too. A child that a handler forks in between
 * finds no head, or writes what its parent writes. */
static void write_lost(trace_file_t *s) {
  if (!hold_file(s)) return;
  uint64_t lost = atomic64_load_relaxed(&s->lost);
  signal_fence();
  trace_head_t *head = (trace_head_t *)atomic_ptr_load_relaxed(&s->head);
  if (head != NULL) atomic64_raise_relaxed(&head->lost, lost);
  release_file(s);
}

uint64_t trace_lost(void) {
  trace_file_t *s = trace_file();
  if (s == NULL) return 0;
  write_lost(s); /* a thread may have counted while another one published the file */
  return atomic64_load_relaxed(&s->lost);
}

bool trace_is_full(void) { return atomic32_load_relaxed(&trace_file()->is_full) == TRACE_FULL; }

void trace_file_lose_event(trace_file_t *s) {
  if (!trace_is_on()) return; /* it was ended meanwhile */
  uint64_t began = atomic64_load_relaxed(&s->began);
  atomic64_add_relaxed(&s->lost, 1);
  if (began != 0) atomic64_raise_relaxed(&s->lost_at, os_now_ns() - began);
  write_lost(s);
}

/* ---- its beginning --------------------------------------------------------------------------- */

/* Where the name does not tell processes apart, all except the first add their number to it. */
static void put_trace_name(trace_file_t *s, const char *pattern, bool is_first) {
  fmt_t f;
  fmt_start(&f, s->name, sizeof s->name, NULL, NULL);
  bool is_unique = fmt_pattern(&f, pattern, os_process(), NULL) || is_first;
  if (!is_unique) fmt_char(&f, '.'), fmt_decimal(&f, os_process());
  fmt_end(&f);
}

static int keep_apart(int file) {
  int kept = file < 0 ? -1 : os_duplicate(file, FILE_LEAST);
  if (kept < 0) return file;
  os_close(file);
  return kept;
}

typedef struct {
  int file;
  trace_head_t *head; /* NULL: none */
} made_t;

/* In a child that a handler forked meanwhile. Whose file it is nobody knows, so the file stays. */
static void drop_made(const made_t *made) {
  if (made->head == NULL) return;
  os_unmap_file(made->head, TRACE_CHUNK);
  os_close(made->file);
}

/* Collects the head's facts before there is a file: a child that a handler forks after that would
 * describe itself. Nor does such a child make a file by the parent's name. */
static stage_t make_trace(trace_file_t *s, const char *pattern, bool is_first, made_t *made) {
  trace_head_t about = {.version = TRACE_VERSION,
                        .chunk = TRACE_CHUNK,
                        .process = os_process(),
                        .page = (uint32_t)os_page_size(),
                        .began = atomic64_load_relaxed(&s->began),
                        .ring = trace_ring_size(),
                        .late = atomic32_load_relaxed(&is_late)};
  put_trace_name(s, pattern, is_first);
  if (stage_of(atomic64_load_relaxed(&s->stage)) != STAGE_BEGINS) return STAGE_NONE;
  int file = os_create_shared(s->name);
  if (file < 0 && !os_is_special(s->name)) { /* perhaps another process is writing to it */
    put_trace_name(s, pattern, false);
    file = os_create_shared(s->name);
  }
  file = keep_apart(file);
  if (file < 0) return STAGE_REFUSED;
  trace_head_t *head = (trace_head_t *)os_map_file(file, 0, TRACE_CHUNK);
  if (head == NULL) {
    os_close(file);
    os_remove(s->name);
    return STAGE_NO_ROOM;
  }
  *made = (made_t){file, head};
  atomic_ptr_store_relaxed(&s->head, head);
  s->identity = os_file_identity(file);
  atomic32_store_relaxed(&s->file, (uint32_t)file);
  atomic64_store_relaxed(&s->end, TRACE_CHUNK);
  *head = about;
  signal_fence(); /* a head that has it is complete */
  memcpy(head->magic, TRACE_MAGIC, sizeof head->magic);
  /* Only now: a thread that saw the last trace may come here late, and hold this one. */
  atomic64_store_release(&s->holds, 0); /* S-trace */
  return STAGE_READY;
}

static void name_late(const char *path) {
  static large_table char late_name[TRACE_NAME_MOST];
  memcpy(late_name, path, strlen(path) + 1);
  atomic_ptr_store_relaxed(&trace_name, late_name);
  atomic64_store_relaxed(&trace_ring, 0);
  atomic32_store_relaxed(&is_late, 1);
}

/* Only one thread at a time. `path`: NULL if the name is known. */
static stage_t begin_alone(trace_file_t *s, const char *path, made_t *made) {
  uint32_t generation = atomic32_add_relaxed(&generations, 1) + 1;
  if (path != NULL) name_late(path);
  const char *pattern = trace_path();
  bool is_first = path != NULL || generation == 1 || trace_file_is_of(s, 1); /* a dead thread's */
  atomic32_store_relaxed(&s->generation, generation);
  atomic64_store_relaxed(&s->began, os_now_ns());
  atomic32_store_relaxed(&s->is_full, 0);
  if (path != NULL) atomic64_store_relaxed(&s->lost, 0);
  if (pattern == NULL) return STAGE_READY;
  return make_trace(s, pattern, is_first, made);
}

/* One thread does it; others' events are lost meanwhile. False: another one does; `*stage` is how
 * far it has got. A handler may fork in the middle of this. The child finds a state of zeros when
 * it goes on here. So it publishes nothing, and what it wrote there means nothing: STAGE_NONE. */
static cold bool begin_trace(trace_file_t *s, uint64_t *stage, const char *path) {
  uint64_t begins = stage_word(STAGE_BEGINS);
  made_t made = {-1, NULL};
  if (is_beginning) return false;
  is_beginning = true;
  signal_fence();
  bool is_mine = atomic64_cas_acquire(&s->stage, stage, begins); /* S-trace */
  if (is_mine) {
    *stage = begins - STAGE_BEGINS + begin_alone(s, path, &made);
    if (!atomic64_cas_release(&s->stage, &begins, *stage)) { /* S-trace */
      drop_made(&made);
      atomic32_store_relaxed(&s->generation, 0); /* the parent's */
      *stage = STAGE_NONE;
    }
    write_lost(s);
  }
  signal_fence();
  is_beginning = false;
  return is_mine;
}

bool trace_file_is_begun(trace_file_t *s) {
  uint64_t stage = atomic64_load_acquire(&s->stage); /* S-trace */
  if (likely(stage_of(stage) == STAGE_READY)) return true;
  if (stage == STAGE_NONE || (stage_of(stage) == STAGE_BEGINS && has_died(stage)))
    begin_trace(s, &stage, NULL);
  return stage_of(stage) == STAGE_READY;
}

bool trace_open(void) {
  trace_file_t *s = trace_file();
  return s != NULL && trace_file_is_begun(s);
}

static bool is_in_use(const trace_file_t *s, uint64_t stage) {
  uint64_t holds = atomic64_load_relaxed(&s->holds); /* relaxed: read after the stage */
  return stage_of(stage) >= STAGE_BEGINS || (holds != 0 && holds != FILE_CLOSED);
}

/* There is no trace, and no living thread begins or ends one. One died, or is in its file. */
static bool is_left(const trace_file_t *s, uint64_t stage) {
  if (stage_of(stage) >= STAGE_BEGINS && !has_died(stage)) return false;
  return !trace_is_on() && atomic64_load_acquire(&s->stage) == stage; /* S-trace */
}

trace_begun_t trace_start_late(const char *path) {
  trace_file_t *s = strlen(path) < TRACE_NAME_MOST ? make_state(NULL) : NULL;
  uint64_t stage = STAGE_NONE;
  /* Progress: another round means that a thread has died, or that a handler forked this child */
  while (s != NULL && stage == STAGE_NONE) {
    stage = atomic64_load_acquire(&s->stage); /* S-trace */
    if (is_in_use(s, stage)) {
      if (!is_left(s, stage)) return TRACE_BUSY;
      s = make_state(s);
      stage = STAGE_NONE;
    } else if (!begin_trace(s, &stage, path)) return TRACE_BUSY;
  }
  if (stage_of(stage) != STAGE_READY)
    return stage_of(stage) == STAGE_NO_ROOM ? TRACE_NO_ROOM : TRACE_NO_FILE;
  atomic32_store_release(&is_tracing, 1); /* S-trace */
  return TRACE_BEGUN;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

void trace_drop_chunks(trace_chunk_t *first) {
  size_t size = max_size(trace_ring_size(), TRACE_CHUNK);
  if (trace_path() != NULL) os_unmap_file(first, size);
  else os_unmap(first, size);
}

/* Drops chunks of another trace. A child of fork may find a ring of its parent's: it stays, since
 * its contents are gone. */
static trace_chunk_t *take_handed(trace_file_t *s, uint32_t generation, trace_chunk_t **first) {
  for (size_t i = 0, end = atomic64_load_relaxed(&s->handed_end); i < end; i++) {
    void *handed = atomic_ptr_load_relaxed(&s->handed[i]); /* relaxed: the swap reads again */
    if (handed == NULL) continue;
    if (!atomic_ptr_cas_acquire(&s->handed[i], &handed, NULL)) continue; /* S-trace */
    trace_chunk_t *chunk = (trace_chunk_t *)handed;
    *first = chunk - (size_t)chunk->index * TRACE_CHUNK / sizeof *chunk;
    signal_fence(); /* if it is of that trace now, what was read before was true */
    if (chunk->generation == generation) return chunk;
    if (trace_ring_size() == 0) trace_drop_chunks(chunk);
  }
  return NULL;
}

/* A child that a handler forks in the middle of this must not undo its parent's later writes. */
trace_chunk_t *trace_next_chunk(trace_file_t *s, uint32_t generation, trace_chunk_t *first,
                                trace_chunk_t *chunk) {
  enum { STEP = TRACE_CHUNK / sizeof *chunk };
  size_t ring = trace_ring_size(), index = ((size_t)(chunk - first) / STEP + 1) * TRACE_CHUNK;
  if (ring == 0) return NULL;
  trace_chunk_t *next = index < ring ? chunk + STEP : first;
  uint32_t used = atomic32_load_relaxed(&next->used);
  signal_fence();
  if (!trace_file_is_of(s, generation)) return NULL;
  atomic32_cas_release(&next->used, &used, 0); /* S-trace */
  return next;
}

/* Chunks of no ring may find no place and go: their records are in the file. */
void trace_hand_on(trace_file_t *s, trace_chunk_t *chunk) {
  for (size_t i = 0; i < HANDED_MOST; i++) {
    void *none = atomic_ptr_load_relaxed(&s->handed[i]); /* relaxed: the swap reads again */
    if (none != NULL || !atomic_ptr_cas_release(&s->handed[i], &none, chunk))
      continue; /* S-trace */
    atomic64_raise_relaxed(&s->handed_end, i + 1);
    return;
  }
  if (trace_ring_size() == 0) trace_drop_chunks(chunk);
}

/* The program may have closed our file, and now use its number itself. -1: the file is gone. */
static int find_trace(trace_file_t *s) {
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

/* If a handler forks in the middle of this, the child's end is 0: the file is the parent's. */
static void *map_piece(trace_file_t *s, int file, size_t size) {
  uint64_t at = atomic64_add_relaxed(&s->end, size);
  return at != 0 ? os_map_file(file, at, size) : NULL;
}

/* For a trace that has not ended: the caller holds its file, or it has none. */
static void note_full(trace_file_t *s, uint32_t generation) {
  if (trace_file_is_of(s, generation)) atomic32_store_relaxed(&s->is_full, TRACE_FULL);
}

/* A parent's rings take no memory in a child of fork. */
static void *claim_memory(trace_file_t *s, uint32_t generation, size_t size) {
  void *piece = os_map_unshared(size);
  if (piece == NULL) piece = os_map(size);
  if (piece == NULL) note_full(s, generation);
  return piece;
}

static void *claim_piece(trace_file_t *s, uint32_t generation, size_t size) {
  if (trace_path() == NULL) return claim_memory(s, generation, size);
  void *piece = NULL;
  if (!hold_file(s)) return NULL;
  if (trace_file_is_of(s, generation)) {
    int file = find_trace(s);
    piece = file >= 0 ? map_piece(s, file, size) : NULL;
    if (piece == NULL) note_full(s, generation);
  }
  release_file(s);
  return piece;
}

/* Takes a fresh piece: a chunk, or a thread's ring. */
static cold trace_chunk_t *claim_chunk(trace_file_t *s, uint32_t generation) {
  size_t ring = trace_ring_size(), size = max_size(ring, TRACE_CHUNK);
  if (atomic32_load_relaxed(&s->is_full)) return NULL;
  uint64_t number = ring != 0 ? atomic64_add_relaxed(&s->rings, 1) : 0;
  if (number >= RINGS_MOST) return note_full(s, generation), NULL;
  char *piece = (char *)claim_piece(s, generation, size);
  if (piece == NULL) return NULL;
  for (size_t i = 0; i < size / TRACE_CHUNK; i++) {
    trace_chunk_t *chunk = (trace_chunk_t *)(void *)(piece + i * TRACE_CHUNK);
    chunk->index = (uint32_t)i;
    chunk->generation = generation;
  }
  if (ring != 0 && trace_file_is_of(s, generation))
    atomic_ptr_store_relaxed(&s->ring[number], piece);
  return (trace_chunk_t *)(void *)piece;
}

trace_chunk_t *trace_take_chunk(trace_file_t *s, uint32_t generation, trace_chunk_t **first) {
  trace_chunk_t *chunk = take_handed(s, generation, first);
  return chunk != NULL ? chunk : (*first = claim_chunk(s, generation));
}

/* ---- its end --------------------------------------------------------------------------------- */

/* The trace has ended, or a living thread begins or ends it. */
static bool is_anothers(uint64_t stage) {
  bool is_moving = stage_of(stage) == STAGE_BEGINS || stage_of(stage) == STAGE_ENDS;
  return stage_of(stage) == STAGE_ENDED || (is_moving && !has_died(stage));
}

/* Does not close again what a thread that died on the way may have closed. */
bool trace_stop(void) {
  trace_file_t *s = trace_file();
  if (s == NULL || !trace_is_on() || trace_ring_size() != 0) return false;
  uint64_t stage = atomic64_load_relaxed(&s->stage), ends = stage_word(STAGE_ENDS);
  do { /* Progress: another thread has begun it, or ends it */
    if (is_anothers(stage)) return false;
  } while (!atomic64_cas_acquire(&s->stage, &stage, ends)); /* S-trace */
  atomic32_store_release(&is_tracing, 0);                   /* S-trace */
  if (stage_of(stage) < STAGE_READY) return true;
  uint32_t open = 0;
  atomic32_cas_relaxed(&s->is_full, &open, TRACE_OVER);
  take_handed(s, 0, &(trace_chunk_t *){NULL});               /* no trace's: drops all */
  if (atomic64_load_relaxed(&s->stage) != ends) return true; /* a child that a handler forked */
  if (atomic64_or_acq_rel(&s->holds, FILE_ENDS) == 0) close_trace(s); /* S-trace */
  return true;
}

void trace_stopped(void) {
  trace_file_t *s = trace_file();
  uint64_t ends = atomic64_load_relaxed(&s->stage), which = atomic32_load_relaxed(&s->generation);
  if (stage_of(ends) != STAGE_ENDS) return; /* a child that a handler forked meanwhile */
  atomic64_store_release(&s->stage, which << STAGE_BITS | STAGE_ENDED); /* S-trace */
}
