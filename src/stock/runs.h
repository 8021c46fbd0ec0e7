/* runs.h - runs of pages without blocks: what a heap keeps and what goes back        layer 5: stock
 * Owns:    a heap's runs of pages; with span.c arena_counts.free_pages.
 *          Called by: magazine.c, heap.c, shrink.c, paged.c, slow.c, resize.c.
 *          Calls: span, arena, support, os.
 * Threads: the heap's own; where `h` may be NULL, any.
 * Holds:   R3 a run that is kept is claimed, and no block; their pages are as many as is counted
 *          R4 each has its bit in `kept_runs`, is on the list of its length, and no list without
 *             its bit in `kept_lengths` has any
 *
 * A few are kept, for the same reason as slices are (magazine.h). Free pages of spans that are in
 * memory may be as many as slices may be dirty, and a part of what spans have. Beyond that a free
 * gives those of its span back to the system, too. */
#pragma once

#include "../slab/span.h"
#include "heap.h"

/* A run that is kept may be longer by this part than what is asked for. */
enum { RUN_MORE_PART = 8 };

#define ALL_RUNS UINT32_MAX /* a bit for each of PAGE_RUNS_KEPT */
_Static_assert(PAGE_RUNS_KEPT == 32, "the bits of a word");

/* An address, and below it how many pages. */
typedef uintptr_t run_t;
static inline void *run_pages_at(run_t run) { return (void *)(run & ~(run_t)(SPAN_PAGE - 1)); }
static inline unsigned run_page_count(run_t run) { return run & (SPAN_PAGE - 1); }

/* May `n` pages be kept, by `pages_most`? */
static inline bool runs_have_room(const heap_t *h, unsigned n) {
  return h->own->kept_runs != ALL_RUNS && h->own->kept_pages + n <= h->own->pages_most;
}
/* One of those that are kept, for there are some. It is the caller's. */
hidden run_t runs_take_any(heap_t *h);
/* The heap has no room for `n` pages more. If it has been so for much, it gives up other things. */
hidden void runs_note_given(heap_t *h, unsigned n);
/* It kept none of `n` pages. If it has given some back, it should have kept them. */
hidden void runs_note_claimed(heap_t *h, unsigned n);
hidden void runs_put(heap_t *h, void *p, unsigned n); /* there is room */
/* One of so many pages or an eighth more, a block again: `*n` pages then. NULL: there is none. */
hidden void *runs_take(heap_t *h, unsigned *n);
hidden void runs_empty(heap_t *h);
hidden void runs_move(heap_t *to, heap_t *from); /* all of them; `to` has none */
hidden void runs_recount(heap_t *h);             /* as magazine_recount */
/* So many more pages of spans are free, or fewer. */
hidden void runs_count_free(heap_t *h, int pages);
hidden void runs_settle(heap_t *h); /* what it counted by itself */
/* The pages of what was a block go back to their span. What is returned has ended, as of
 * span_free. */
hidden slab_t *runs_give_back(heap_t *h, void *p, unsigned n);
/* The slices of a span that has ended go to their arena. */
hidden void runs_release(slab_t *ended);
/* There is a hard limit. May `size` bytes be had below it once what is free of all spans, and what
 * the heap keeps (or NULL), has gone back to the system? A guess. */
hidden bool runs_may_give_room(const heap_t *h, size_t size);
/* Then the former does, if it is needed. True: there is room for so much. */
hidden bool runs_give_room(size_t size);
hidden bool runs_are_valid(const heap_t *h); /* its user only */
