/* order.h - the private list of a slab, in the order of addresses                     layer 4: slab
 * Owns:    nothing.   Called by: holes.c; slab_sort (slab.h) by heap.   Calls: slab.h.
 * Threads: the owner. */
#pragma once

#include "slab.h"

/* Blocks by their addresses: a bit for each at which one may begin. */
typedef struct {
  uint64_t words[SLICE_SIZE / CLASS_STEP / 64];
} slab_starts_t;
hidden void slab_note_starts(const slab_t *s, slab_starts_t *starts); /* of the private list */
hidden void slab_link_starts(slab_t *s, const slab_starts_t *starts); /* these are the list */
