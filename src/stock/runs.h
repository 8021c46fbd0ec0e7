/* runs.h - runs of pages without blocks that a heap keeps for itself                 layer 5: stock
 * Owns:    a heap's runs of pages.   Called by: magazine.c, heap.c, paged.c.   Calls: span, arena.
 * Threads: the heap's own.
 * Holds:   R3 a run that is kept is claimed, and no block; their pages are as many as is counted
 *
 * A few are kept, for the same reason as slices are (magazine.h). */
#pragma once

#include "../slab/span.h"
#include "heap.h"

/* An address, and below it how many pages. */
typedef uintptr_t run_t;
static inline void *run_pages_at(run_t run) { return (void *)(run & ~(run_t)(SPAN_PAGE - 1)); }
static inline unsigned run_page_count(run_t run) { return run & (SPAN_PAGE - 1); }

/* May `n` pages be kept where all are `most` at most? If not, another run is the caller's. 0: they
 * may, or there is none left. */
hidden run_t runs_make_room(heap_t *h, unsigned n, size_t most);
hidden void runs_put(heap_t *h, void *p, unsigned n); /* there is room */
/* One of just so many pages, a block again; NULL: there is none. */
hidden void *runs_take(heap_t *h, unsigned n);
hidden void runs_empty(heap_t *h);
hidden void runs_move(heap_t *to, heap_t *from); /* all of them; `to` has none */
hidden void runs_recount(heap_t *h);             /* as magazine_recount */
hidden bool runs_are_valid(const heap_t *h);     /* its user only */
