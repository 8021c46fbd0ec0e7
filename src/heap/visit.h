/* visit.h - every slab, without stopping anyone                                       layer 5: heap
 * Owns:    nothing.     Called by: stats.c, firstclass.c.     Calls: slab, arena. */
#ifndef HEAP_VISIT_H
#define HEAP_VISIT_H

#include "heap.h"

/* Calls `visit` for each small slab and large block of all arenas; false as soon as it says so. */
hidden bool visit_slabs(bool (*visit)(slab_t *s, void *base, void *context), void *context);

#endif
