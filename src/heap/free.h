/* free.h - giving blocks back                                                         layer 6: heap
 * Owns:    nothing.   Called by: heap, secure, api.   Calls: enter, stock, slab, arena.
 * Threads: any. */
#pragma once

#include "../stock/heap.h"

hidden void heap_free(void *p, const char *call); /* any block, or NULL */
hidden void heap_free_slow(void *p);
hidden void heap_free_large(slab_t *s, void *p, const char *call);
/* A block of `s`, live or not, begins at `p`. The fast free could not put it away; `slow` can. */
hidden void heap_free_others(slab_t *s, void *p, void (*slow)(void *p));
/* Calls `call` with a lane and its slab when a free, as far as it could see, left no block of the
 * slab in use. The slab may be something else by then. No heap is marked. */
typedef void lane_visitor_t(heap_t *lane, slab_t *s);
hidden void heap_on_lane_emptied(lane_visitor_t *call);
hidden void heap_slab_emptied(slab_t *s); /* a fast free made `used` zero */
/* `p` lies in our memory but is no live block: reports what it was, and dies. */
_Noreturn hidden void heap_refuse_pointer(const slab_t *s, const void *p, const char *call);
