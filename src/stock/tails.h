/* tails.h - what large blocks leave unused of slices that are in memory              layer 5: stock
 * Owns:    the counts of tails, in heap_counts.   Called by: large.c, shrink.c, refill.c.
 *          Calls: pool, slab, arena, support, os.
 * Threads: a tail belongs to whoever holds the block; the counts are sums, which each heap changes
 *          in steps.
 * Holds:   L3 the slice in which a large block ends counts as touched as far as the block goes, or
 *             beyond */
#pragma once

#include "heap.h"

/* A large block has its slices and its size now: it is counted. `wish` is what tails_wish said. `h`
 * may be NULL, also below. */
hidden void tails_count(heap_t *h, slab_t *s, size_t wish);
/* It goes, or is about to change: it is counted no more. */
hidden void tails_uncount(heap_t *h, const slab_t *s);
/* It is counted no more; how far the slice in which it ends was touched. */
hidden size_t tails_end(heap_t *h, const slab_t *s);
/* 0: tails are not too many; else how far the last slice of a block of that usable size is best
 * touched. */
hidden size_t tails_wish(size_t size);
hidden void tails_settle(heap_t *h);          /* its tails and pages go to heap_counts */
hidden bool tails_are_valid(const slab_t *s); /* the block's holder only */
