/* visit.h - every slab and every live block, without stopping anyone                  layer 6: heap
 * Owns:    nothing.   Called by: stats.c, firstclass.c, secure, profile.c.
 *          Calls: stock, slab, arena, support.
 * Threads: any; see visit.c. */
#pragma once

#include "../../include/freehold/freehold.h"
#include "../stock/heap.h"

/* `word` is what slab_word said: another slab or none may have taken its place since. */
typedef bool visit_slab_t(slab_t *s, uint32_t word, void *context);

/* Calls `visit` for each slab, span and block of slices of all arenas; false as soon as it says
 * so. */
hidden bool visit_slabs(visit_slab_t *visit, void *context);

/* What is shown each live block, or else the areas in which they lie. */
typedef struct {
  fh_visitor_t *blocks;
  fh_area_visitor_t *areas;
  void *context;
} visitor_t;
/* Visits all live blocks of the process. */
hidden bool heap_visit(const visitor_t *to);
/* Visits those of a lane. `is_mine`: the caller is in it. */
hidden bool heap_visit_lane(const heap_t *lane, bool is_mine, const visitor_t *to);

/* Calls `visitor` with each sampled block that lives. Time in proportion to the memory mapped. */
typedef void sampled_visitor_t(const sampled_t *block, void *context);
hidden void heap_visit_sampled(sampled_visitor_t *visitor, void *context);
