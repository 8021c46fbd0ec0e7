/* counts.h - what all heaps together have counted                                    layer 5: stock
 * Owns:    heap_counts (pool.c).   Called by: stock, heap, api.   Calls: nothing.
 * Threads: any. relaxed, all of them: sums. */
#ifndef STOCK_COUNTS_H
#define STOCK_COUNTS_H

#include "../base/atomic.h"

typedef struct {
  atomic64_t large_live, large_allocated, huge_live, huge_allocated, nested;
  atomic64_t remote_frees, shared_frees, swaps;
  atomic64_t tails, large_pages; /* pages of 4 KiB (tails.c); may be below 0 for a moment */
} heap_counts_t;
extern hidden heap_counts_t heap_counts;

#endif
