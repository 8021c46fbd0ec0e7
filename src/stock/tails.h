/* tails.h - what large blocks leave unused of slices that are in memory              layer 5: stock
 * Owns:    the counts of tails, in heap_counts.   Called by: large.c, shrink.c, refill.c.
 *          Calls: pool, slab, arena, support, os.
 * Threads: a tail belongs to whoever holds the block; the counts are sums that each heap changes in
 *          steps.
 * Holds:   L3 the slice in which a large block ends counts as touched as far as the block goes, or
 *             beyond */
#pragma once

#include "heap.h"

/* Counts a large block, which now has its slices and its size. `wish` is from tails_wish. `h` may
 * be NULL, also below. */
hidden void tails_count(heap_t *h, slab_t *s, size_t wish);
/* The block goes, or is about to change: takes it off the counts. */
hidden void tails_uncount(heap_t *h, const slab_t *s);
/* Likewise; returns how far the slice in which the block ends was touched. */
hidden size_t tails_end(heap_t *h, const slab_t *s);
/* 0: tails are not too many. Else how far a block of that usable size would best find its last
 * slice touched. */
hidden size_t tails_wish(size_t size);
hidden void tails_settle(heap_t *h);          /* adds its tails and pages to heap_counts */
hidden bool tails_are_valid(const slab_t *s); /* the block's holder only */
