/* trace_file.h - the file of the event trace, and its pieces                       layer 2: support
 * Owns:    the trace's state.   Called by: trace.c.   Calls: os, fmt.
 * Threads: any, also in signal handlers and before main. No lock, no wait, no allocation.
 * Sync:    S-trace  begin_trace, trace_start, trace_start_late (release) -> trace_file_is_begun,
 *                   trace_is_on (acquire): the file. trace_stopped (release) -> trace_start_late,
 *                   begin_trace (acquire): the last one is closed. release_file, trace_stop,
 *                   close_trace, make_trace (release) -> hold_file, release_file (acquire): who
 *                   holds the file, and that it is there. trace_hand_on (release) -> take_handed
 *                   (acquire): a chunk that a thread has left.
 *
 * The state lies on pages that are zero in a child of fork. So the child sees at its first event
 * that it has no file yet. The parent's chunk that its thread remembers is of another generation,
 * as is the chunk of a trace that was ended. */
#pragma once

#include "trace.h"

enum { RINGS_MOST = 16384, HANDED_MOST = RINGS_MOST };
enum { TRACE_FULL = 1, TRACE_OVER };

typedef struct {
  atomic64_t stage;  /* how far it has got, and by whom; S-trace */
  atomic64_t holds;  /* how many threads hold the file; S-trace */
  atomic32_t file;   /* relaxed: a number */
  uint64_t identity; /* the holders', like the next two: const while there is a trace */
  atomic_ptr_t head; /* NULL: no file. relaxed: likewise */
  char name[TRACE_NAME_MOST];
  atomic32_t generation; /* of traces, of this process and its parents. relaxed: compared */
  atomic64_t began;      /* relaxed: a time */
  atomic32_t is_full;    /* 0; else nobody asks for more. relaxed: a hint */
  atomic64_t end;        /* of the file. relaxed: each place is drawn once */
  atomic64_t lost;       /* relaxed: a sum */
  atomic64_t lost_at;    /* when one was last lost. relaxed: compared */
  atomic64_t handed_end; /* of places ever used. relaxed: a hint */
  atomic64_t rings;      /* relaxed: each number is drawn once */
  atomic_ptr_t handed[HANDED_MOST]; /* chunks that threads have left; S-trace */
  atomic_ptr_t ring
    [RINGS_MOST]; /* not there if there are none. relaxed: looked at by one that is about to die */
} trace_file_t;

/* Without rings the last field is missing. */
static inline size_t trace_state_size(bool has_rings) {
  return has_rings ? sizeof(trace_file_t) : offsetof(trace_file_t, ring);
}
/* NULL: not made yet. It is never unmapped. */
hidden trace_file_t *trace_file(void);
/* Begins the trace if nobody has. False: there is none, or not yet. */
hidden bool trace_file_is_begun(trace_file_t *s);
static inline bool trace_file_is_of(const trace_file_t *s, uint32_t generation) {
  return likely(atomic32_load_relaxed(&s->generation) == generation);
}
hidden void trace_file_lose_event(trace_file_t *s);

/* A chunk to write to, and the first one of its ring, or itself; NULL: no room. */
hidden trace_chunk_t *trace_take_chunk(trace_file_t *s, uint32_t generation, trace_chunk_t **first);
/* The ring's next chunk, when this one is used up; NULL: no ring, or it is another trace's. */
hidden trace_chunk_t *trace_next_chunk(trace_file_t *s, uint32_t generation, trace_chunk_t *first,
                                       trace_chunk_t *chunk);
hidden void trace_drop_chunks(trace_chunk_t *first); /* its whole ring, or itself */
/* Lets another thread write to it. */
hidden void trace_hand_on(trace_file_t *s, trace_chunk_t *chunk);
hidden size_t trace_ring_size(void); /* bytes, whole chunks; 0: none */
