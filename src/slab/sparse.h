/* sparse.h - slabs that nobody owns and that have free pages                          layer 4: slab
 * Owns:    the pace of the looks; `seen` of slab_t.   Called by: heap.
 * Calls:   holes, partial, arena, support, os.
 * Threads: any, at once: the thread that clears a slab's bit has it for the moment. */
#pragma once

#include "slab.h"

/* Gives whole free pages of all slabs that nobody owns back to the system: only on request, since
 * it takes time in proportion to these slabs. */
hidden void sparse_collect(void);

/* If due, looks at the next few of these slabs. Gives back free pages of those that hold little and
 * that nobody has taken for a while; under pressure, of all. Returns the time. */
hidden uint32_t sparse_tick(void);
