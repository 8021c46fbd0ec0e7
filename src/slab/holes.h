/* holes.h - whole free pages of slabs that nobody owns                                layer 4: slab
 * Owns:    `holes` and `sunk` of slab_t.   Called by: partial.c, slab.c.   Calls: order, tally,
 *          arena, os.
 * Threads: whoever has the slab for now; any may ask slab_may_have_holes, and slab_is_in (slab.h).
 * Holds:   I7 a block of which a part lies on a hole is free and on no list */
#pragma once

#include "order.h"

/* A heap has taken over the slab: what is sunk goes to the private list. */
hidden void slab_fill_holes(slab_t *s);
/* Gives back every page on which no part of a block in use lies. The slab is the caller's, as is
 * `free`, for what is noted meanwhile. */
hidden void slab_make_holes(slab_t *s, slab_starts_t *free);
/* May there be such a page? What the anchor says may be another slab's by now. */
hidden bool slab_may_have_holes(const slab_t *s, unsigned c);
