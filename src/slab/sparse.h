/* sparse.h - slabs of nobody of which pages are free                                 layer 4: slab
 * Owns:    the pace of the looks; `seen` of slab_t.   Called by: heap.
 * Calls:   holes, partial, arena, support, os.
 * Threads: any, at once: whoever clears a slab's bit has it for the moment. */
#ifndef SLAB_SPARSE_H
#define SLAB_SPARSE_H

#include "slab.h"

/* Gives whole free pages of all slabs that nobody owns back to the system: on request or under
 * pressure, for it takes time in proportion to these slabs. */
hidden void sparse_collect(void);

/* If a look is due: at the slabs of the next few groups. Of those that hold little, and that nobody
 * has taken and nothing was freed to since the look before, the free pages go back. */
hidden void sparse_tick(void);

#endif
