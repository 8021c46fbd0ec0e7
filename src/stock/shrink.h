/* shrink.h - what a heap gives up: a little now and then, or everything              layer 5: stock
 * Owns:    nothing.   Called by: heap.   Calls: outbox, returned, owned, magazine, tails, pool,
 *          slab.
 * Threads: the heap's own. */
#ifndef STOCK_SHRINK_H
#define STOCK_SHRINK_H

#include "heap.h"

hidden void heap_settle(heap_t *h);                /* what it has counted goes to heap_counts */
hidden void heap_flush_bins(heap_t *h);            /* and what it has freed */
hidden void heap_trim(heap_t *h);                  /* a little: the steps that are due */
hidden void heap_answer_trim(heap_t *h);           /* heap_trims */
hidden void heap_let_go(heap_t *h);                /* of all that it owns */
hidden void heap_end(heap_t *h);                   /* likewise, and back to the pool */
hidden void heap_drop(heap_t *h);                  /* likewise, and of the blocks in it */
hidden uint32_t heap_prepare_rest(heap_t *h);      /* how many pages it would hold: RESTING_PAGES */
hidden bool heap_end_rest(void);                   /* of one that rests; false: there is none */
hidden void heap_end_dead(void);                   /* of those that threads have left behind */
hidden void heap_sweep_all(heap_t *lane);          /* owned_sweep of all, by who is in it */

#endif
