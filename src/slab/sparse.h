/* sparse.h - slabs that nobody owns and that have free pages                          layer 4: slab
 * Owns:    the pace of the looks; `seen` of slab_t.   Called by: heap.
 * Calls:   holes, partial, arena, support, os.
 * Threads: any, at once: whoever clears a slab's bit has it for the moment. */
#pragma once

#include "slab.h"

/* Gives whole free pages of all slabs that nobody owns back to the system: on request, for it takes
 * time in proportion to these slabs. */
hidden void sparse_collect(void);

/* What the clock says. If a look is due, it is at the next few of these slabs. Of those that hold
 * little, and that nobody has taken for a while, free pages go; under pressure, of all. */
hidden uint32_t sparse_tick(void);
