/* visit.h - every slab, without stopping anyone                                       layer 5: heap
 * Owns:    nothing.     Called by: stats.c.     Calls: slab, arena.
 * Threads: any; see visit.c. */
#ifndef HEAP_VISIT_H
#define HEAP_VISIT_H

#include "heap.h"

/* `word` is what slab_word said: another slab or none may have taken its place since. */
typedef bool visit_slab_t(slab_t *s, uint32_t word, void *base, void *context);

/* Calls `visit` for each small slab and large block of all arenas; false as soon as it says so. */
hidden bool visit_slabs(visit_slab_t *visit, void *context);

#endif
