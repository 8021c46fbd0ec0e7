/* callstack.h - call stacks by number, and what is counted for each                layer 2: support
 * Owns:    the table of call stacks.   Called by: sample.c, profile.c, fault.c.   Calls: os.
 * Threads: any; also in signal handlers.
 * Sync:    S-stack  a stack's frames are complete (release) -> finding or reading it (acquire).
 *          Likewise the table.
 * Progress: a thread that stops while it enters a stack keeps one bucket from being used. Threads
 *          that look for the same stack meanwhile enter it again. */
#pragma once

#include "../base/atomic.h"

enum {
  CALLSTACK_FRAMES = 64,                 /* of a stack, the innermost ones */
  CALLSTACKS = 1 << 14,                  /* numbers of stacks are below this */
  CALLSTACKS_AND_PAIRS = 2 * CALLSTACKS, /* pairs have numbers from there up to this */
  CALLSTACK_UNKNOWN = 0,                 /* there were no frames, or no room for them */
};

/* relaxed: sums of weights (poisson.h) */
typedef struct {
  atomic64_t blocks, bytes; /* times POISSON_ONE; unscaled */
} callstack_sum_t;

typedef struct {
  atomic32_t count;         /* frames; 0: not complete yet. Then const, like the frames */
  atomic32_t lifetime_part; /* the fraction that `lifetime` lacks, times POISSON_ONE; modulo 2^32 */
  callstack_sum_t allocated, live, peak; /* of a stack */
  callstack_sum_t freed;                 /* of a pair; of a stack: blocks without a pair */
  atomic64_t lifetime;                   /* of the freed blocks: ms, all together */
} callstack_t;
/* relaxed: callstack_at has looked. In the memory of another process it may be any number. */
static inline uint32_t callstack_length(const callstack_t *s) {
  return (uint32_t)min_size(atomic32_load_relaxed(&s->count), CALLSTACK_FRAMES);
}

/* Makes the table, if need be. False: no memory. */
hidden bool callstack_start(void);
hidden bool callstack_is_started(void);
/* The number of a stack of up to CALLSTACK_FRAMES; there must be a table. */
hidden uint32_t callstack_intern(const uintptr_t *frames, unsigned count);
/* The number of a pair: where blocks were allocated, and where freed. Its frames are these two
 * numbers. If there is no room: `allocated`. */
hidden uint32_t callstack_pair(uint32_t allocated, uint32_t freed);
/* NULL: no such number, or not yet. `frames`: may be NULL. */
hidden callstack_t *callstack_at(uint32_t number, const uintptr_t **frames);
hidden uint32_t callstack_count(void);     /* numbers given out: below this */
hidden uint32_t callstack_pairs_end(void); /* likewise of pairs, from CALLSTACKS on */
hidden uint64_t callstack_unknown(void);   /* calls that got CALLSTACK_UNKNOWN */
