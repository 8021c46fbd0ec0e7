/* firstclass.h - heaps that the program makes                                         layer 6: heap
 * Owns:    nothing; fh_heap_t is that of lanes.h.   Called by: upkeep.c, secure, api.
 *          Calls: enter, slow, free, resize, visit, stock, slab, arena, support.
 * Threads: any; contracts: fh_heap_* of freehold.h. */
#pragma once

#include "../../include/freehold/freehold.h"
#include "visit.h"

hidden fh_heap_t *firstclass_new(void);
hidden fh_heap_t *firstclass_new_with(const char *name, size_t quota);
hidden void firstclass_stats(const fh_heap_t *heap, fh_heap_stats_t *stats);
/* `alignment` 1: any will do. */
hidden void *firstclass_aligned(fh_heap_t *heap, size_t alignment, size_t size);
hidden void *firstclass_realloc(fh_heap_t *heap, void *p, size_t size, const char *call);
hidden void firstclass_delete(fh_heap_t *heap);
hidden void firstclass_destroy(fh_heap_t *heap);
hidden void firstclass_collect(void); /* releases what all keep but do not use */
hidden void firstclass_collect_one(fh_heap_t *heap);
/* heap NULL: all of the process. */
hidden bool firstclass_visit(fh_heap_t *heap, const visitor_t *to);
