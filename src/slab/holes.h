/* holes.h - free blocks by their addresses: in order, and whole free pages            layer 4: slab
 * Owns:    `holes` and `sunk` of slab_t.   Calls: tally, arena, os.
 *          Called by: partial.c, slab.c, sparse.c; slab_sort and slab_is_on_hole by stock, heap.
 * Threads: the one that has the slab for now; any may call slab_may_have_holes and slab_begins_on.
 * Holds:   I7 a block of which a part lies on a hole is free and on no list */
#pragma once

#include "slab.h"

/* Blocks by their addresses: a bit for each at which one may begin. */
typedef struct {
  uint64_t words[SLICE_SIZE / CLASS_STEP / 64];
} slab_starts_t;

/* Does it begin on a page that was given back? Then it is free. Other free blocks have keys. */
hidden bool slab_begins_on(uint32_t holes, uintptr_t block);
static inline bool slab_is_on_hole(const slab_t *s, uintptr_t block) {
  uint32_t holes = atomic32_load_acquire(&s->holes); /* S-visit */
  return unlikely(holes != 0) && slab_begins_on(holes, block);
}
static inline bool slab_block_is_free(const slab_t *s, uintptr_t block) {
  return block_is_free(block) || slab_is_on_hole(s, block);
}
/* Links the private list anew, in address order, so that neighbours are handed out in a row. */
hidden void slab_sort(slab_t *s);
/* The pages that a block of `size` bytes lies on, as bits of `holes`. */
hidden uint32_t slab_pages_of(uintptr_t block, size_t size);
/* For a heap that has taken the slab over: sunk blocks go to the private list. */
hidden void slab_fill_holes(slab_t *s);
/* Gives back every page without any part of a block in use. The caller owns the slab, and brings
 * `free` for notes. */
hidden void slab_make_holes(slab_t *s, slab_starts_t *free);
/* May there be such a page? By now the anchor may be another slab's. */
hidden bool slab_may_have_holes(const slab_t *s, unsigned c);
