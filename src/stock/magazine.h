/* magazine.h - slices without blocks that a heap keeps for itself                    layer 5: stock
 * Owns:    a heap's magazine.   Called by: stock, heap.   Calls: surplus, slab, arena, support.
 * Threads: the heap's own.
 * Holds:   L2 slices on a list of a magazine are claimed, of no kind, and as many as is counted;
 *             of a run all but the last count as touched
 *
 * What a thread has freed it often needs again soon, and the arena's bits and counts are words that
 * all threads share. So a few slices are kept: single ones, for slabs and for large blocks, and
 * runs of several, for large blocks. */
#ifndef STOCK_MAGAZINE_H
#define STOCK_MAGAZINE_H

#include "heap.h"

enum {
  RUN_TIMES = 4,                 /* runs are kept as far as so many times the single slices, ... */
  RUN_EARNED = 4,                /* ... and one slice for so many large blocks that it allocated; */
};

enum { RUN_LEAST = 4 };            /* slices in runs, if earned; more as far as the surplus goes */

/* The slice of a slab whose blocks are all free, which is on no list, and the slices of a large
 * block that was freed, which ended in the `used`th: they are kept or given back. */
hidden void magazine_put_slab(heap_t *h, slab_t *s);
hidden void magazine_put_run(heap_t *h, slab_t *s, size_t n, size_t used);

/* `n` slices, the first at a multiple of `alignment`: kept ones, if `wish` is not 0 those of whose
 * last slice as much was touched (tail_wish), or the arena's. `*clean` as there. NULL: it has
 * none. */
hidden void *magazine_claim(heap_t *h, size_t n, size_t alignment, size_t wish, bool *clean);
/* Up to `n` slices from `at` on, if they are free, for the next slabs, as far as the magazine has
 * room, which has no single slice now. How many of them read as zero: all or none. */
hidden size_t magazine_claim_ahead(heap_t *h, char *at, size_t n);
hidden void magazine_empty(heap_t *h);
hidden bool magazine_is_valid(const heap_t *h);    /* its user only */

#endif
