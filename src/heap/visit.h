/* visit.h - every slab and every live block, without stopping anyone                  layer 6: heap
 * Owns:    nothing.   Called by: stats.c, firstclass.c, secure, profile.c.
 *          Calls: stock, slab, arena, support.
 * Threads: any; see visit.c. */
#pragma once

#include "../../include/freehold/freehold.h"
#include "../stock/heap.h"

/* `word` is from slab_word: another slab or none may have taken its place since. */
typedef bool visit_slab_t(slab_t *s, uint32_t word, void *context);

/* Calls `visit` for each slab, span and block of slices in all arenas; false as soon as it returns
 * false. */
hidden bool visit_slabs(visit_slab_t *visit, void *context);

/* Shown each live block, or else the areas that hold them. */
typedef struct {
  fh_visitor_t *blocks;
  fh_area_visitor_t *areas;
  void *context;
} visitor_t;
/* Visits all live blocks of the process. */
hidden bool heap_visit(const visitor_t *to);
/* Visits a lane's live blocks. `is_mine`: the caller is in the lane. */
hidden bool heap_visit_lane(const heap_t *lane, bool is_mine, const visitor_t *to);

/* Calls `visitor` with each live sampled block. Takes time in proportion to the mapped memory. */
typedef void sampled_visitor_t(const sampled_t *block, void *context);
hidden void heap_visit_sampled(sampled_visitor_t *visitor, void *context);
