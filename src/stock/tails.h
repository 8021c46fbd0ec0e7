/* tails.h - what large blocks leave unused of slices that are in memory              layer 5: stock
 * Owns:    the counts of tails, in heap_counts.   Called by: large.c, shrink.c, refill.c.
 *          Calls: slab, arena, support, os.
 * Threads: a tail belongs to whoever holds the block; the counts are sums, which each heap changes
 *          in steps.
 * Holds:   L3 the slice in which a large block ends counts as touched as far as the block goes, or
 *             beyond */
#ifndef STOCK_TAILS_H
#define STOCK_TAILS_H

#include "heap.h"

/* A large block, which has its slices and its size; it goes, or is about to change. `h`
 * may be NULL. */
hidden void tail_enter(heap_t *h, slab_t *s, size_t wish);
hidden void tail_leave(heap_t *h, const slab_t *s);
/* 0: tails are not too many; else how far the last slice of a block of that usable size were best
 * touched. */
hidden size_t tail_wish(size_t size);
hidden void tails_settle(heap_t *h);               /* what it has counted goes to heap_counts */
hidden bool tail_is_valid(const slab_t *s);                    /* the block's holder only */

#endif
