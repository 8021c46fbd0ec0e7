/* stats.h - adds up what is counted everywhere                                        layer 6: heap
 * Owns:    nothing. Reading raises the peaks of classes (tally.h).
 *          Called by: api.   Calls: visit, enter, stock, slab, arena, support, os.
 * Threads: any; stops nobody. */
#pragma once

#include "../../include/freehold/freehold.h"
#include "../base/base.h"
#include "../support/stats.h"

hidden void heap_stats(fh_stats_t *stats); /* visits every slab */
/* For one heap; the table defines the struct. */
#define HEAP_STATS_FIELD(name, ...) int64_t name;
typedef struct {
  FH_HEAP_STATISTICS(HEAP_STATS_FIELD)
} heap_stats_t;
/* Calls `row` with each heap that is in use or has left something, in the order of their numbers;
 * with none if there is no memory for the sums. Visits every slab. */
typedef void heap_stats_row_t(const heap_stats_t *stats, void *context);
hidden void heap_stats_each(heap_stats_row_t *row, void *context);
/* Bytes of live blocks, and free blocks of slabs, without a visit. */
hidden void heap_sums(uint64_t *live, uint64_t *free);
