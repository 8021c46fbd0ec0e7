/* holes.h - free blocks by their addresses: in order, and whole free pages            layer 4: slab
 * Owns:    `holes` and `sunk` of slab_t.   Calls: tally, arena, os.
 *          Called by: partial.c, slab.c, sparse.c; slab_sort (slab.h) by heap.
 * Threads: whoever has the slab for now; any may ask slab_may_have_holes, and slab_begins_on.
 * Holds:   I7 a block of which a part lies on a hole is free and on no list */
#pragma once

#include "slab.h"

/* Blocks by their addresses: a bit for each at which one may begin. */
typedef struct {
  uint64_t words[SLICE_SIZE / CLASS_STEP / 64];
} slab_starts_t;

/* The pages on which a block of `size` bytes lies, as bits of `holes`. */
hidden uint32_t slab_pages_of(uintptr_t block, size_t size);
/* A heap has taken over the slab: what is sunk goes to the private list. */
hidden void slab_fill_holes(slab_t *s);
/* Gives back every page on which no part of a block in use lies. The slab is the caller's, as is
 * `free`, for what is noted meanwhile. */
hidden void slab_make_holes(slab_t *s, slab_starts_t *free);
/* May there be such a page? What the anchor says may be another slab's by now. */
hidden bool slab_may_have_holes(const slab_t *s, unsigned c);
