/* holes.h - free blocks by their addresses: in order, and whole free pages            layer 4: slab
 * Owns:    `holes` and `sunk` of slab_t.   Calls: tally, arena, os.
 *          Called by: partial.c, slab.c, sparse.c; slab_sort and slab_is_on_hole by stock, heap.
 * Threads: whoever has the slab for now; any may ask slab_may_have_holes, and slab_begins_on.
 * Holds:   I7 a block of which a part lies on a hole is free and on no list */
#pragma once

#include "slab.h"

/* Blocks by their addresses: a bit for each at which one may begin. */
typedef struct {
  uint64_t words[SLICE_SIZE / CLASS_STEP / 64];
} slab_starts_t;

/* Does it begin on a page that was given back? Then it is free. Others that are free have keys. */
hidden bool slab_begins_on(uint32_t holes, uintptr_t block);
static inline bool slab_is_on_hole(const slab_t *s, uintptr_t block) {
  uint32_t holes = atomic32_load_acquire(&s->holes); /* S-visit */
  return unlikely(holes != 0) && slab_begins_on(holes, block);
}
static inline bool slab_block_is_free(const slab_t *s, uintptr_t block) {
  return block_is_free(block) || slab_is_on_hole(s, block);
}
/* Links the private list anew, in the order of addresses, so that neighbours are handed out one
 * after another. */
hidden void slab_sort(slab_t *s);
/* The pages on which a block of `size` bytes lies, as bits of `holes`. */
hidden uint32_t slab_pages_of(uintptr_t block, size_t size);
/* A heap has taken over the slab: what is sunk goes to the private list. */
hidden void slab_fill_holes(slab_t *s);
/* Gives back every page on which no part of a block in use lies. The slab is the caller's, as is
 * `free`, for what is noted meanwhile. */
hidden void slab_make_holes(slab_t *s, slab_starts_t *free);
/* May there be such a page? What the anchor says may be another slab's by now. */
hidden bool slab_may_have_holes(const slab_t *s, unsigned c);
