/* trace_heaps.h - which blocks of a trace each first-class heap has, so that its end finds them
 * Owns:    trace_heaps_t.   Called by: tools/trace_sums.c, the laboratory's native programs.
 *          Calls: libc.
 * Memory:  a word for each block that was allocated from a heap, at most two for each that lives
 *          and 16; and a record for each heap. */
#ifndef TOOLS_TRACE_HEAPS_H
#define TOOLS_TRACE_HEAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  uintptr_t heap;    /* 0: none */
  uintptr_t *blocks; /* addresses: some twice, and some that were freed since */
  size_t count, room;
} trace_heap_t;

/* Is there a block of that heap at that address? */
typedef bool trace_lives_t(const void *context, uintptr_t heap, uintptr_t address);

/* All zero at first, but for these two. */
typedef struct {
  trace_lives_t *lives;
  const void *context;
  trace_heap_t *table;
  size_t room, used;
} trace_heaps_t;

/* False: no memory. */
bool trace_heaps_note(trace_heaps_t *h, uintptr_t heap, uintptr_t address);
/* What was noted of a heap, which has nothing from then on. The caller frees `blocks`. */
trace_heap_t trace_heaps_take(trace_heaps_t *h, uintptr_t heap);
void trace_heaps_free(trace_heaps_t *h);

#endif
