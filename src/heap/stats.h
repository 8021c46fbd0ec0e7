/* stats.h - adds up what is counted everywhere                                        layer 6: heap
 * Owns:    the peaks of classes, which rise when they are read.   Called by: api.   Calls: visit,
 *          enter, stock, slab, arena, support, os.
 * Threads: any; stops nobody. */
#ifndef HEAP_STATS_H
#define HEAP_STATS_H

#include "../../include/freehold/freehold.h"
#include "../base/base.h"

hidden void heap_stats(fh_stats_t *stats); /* visits every slab */
/* Bytes of live blocks, and free blocks of slabs, without a visit. */
hidden void heap_sums(uint64_t *live, uint64_t *free);

#endif
