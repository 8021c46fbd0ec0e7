/* runs.h - runs of pages without blocks: what a heap keeps and what goes back        layer 5: stock
 * Owns:    a heap's runs of pages; with span.c arena_counts.free_pages.
 *          Called by: magazine.c, heap.c, shrink.c, paged.c, slow.c, resize.c.
 *          Calls: span, arena, support, os.
 * Threads: the heap's own; any where `h` may be NULL.
 * Holds:   R3 a kept run is claimed, and is no block; `kept_pages` is the number of their pages
 *          R4 each has its slot's bit in `kept_runs` and in `runs_of` for its length; a length with
 *             any has its bit in `kept_lengths`
 *
 * A heap keeps a few runs, for the same reason as it keeps slices (magazine.h). Spans may have as
 * many free pages in memory as slices may be dirty, and a part of all their pages. Beyond that a
 * free also gives the free pages of its span back to the system. */
#pragma once

#include "../slab/span.h"
#include "heap.h"

enum {
  RUN_MORE_PART = 8, /* a kept run may serve a request that is shorter by this part */
  RUNS_AT_ONCE = 16, /* the most that one call claims, or gives back to make room */
};

#define ALL_RUNS UINT32_MAX /* a bit for each of PAGE_RUNS_KEPT */
_Static_assert(PAGE_RUNS_KEPT == 32, "the bits of a word");

/* An address. Its low bits hold the number of pages. */
typedef uintptr_t run_t;
static inline void *run_pages_at(run_t run) { return (void *)(run & ~(run_t)(SPAN_PAGE - 1)); }
static inline unsigned run_page_count(run_t run) { return run & (SPAN_PAGE - 1); }
static inline span_part_t run_part(run_t run) {
  return span_part(run_pages_at(run), run_page_count(run));
}

/* May `n` more pages be kept, by `pages_most`? */
static inline bool runs_have_room(const heap_t *h, unsigned n) {
  return h->own->kept_runs != ALL_RUNS && h->own->kept_pages + n <= h->own->pages_most;
}
/* Up to `most` kept runs of one span, now the caller's; there must be one. */
hidden span_part_t runs_take_some(heap_t *h, unsigned most);
/* For want of room, `n` pages went back. A heap that has missed many gives up other things. */
hidden void runs_note_given(heap_t *h, unsigned n);
/* It had none of `n` pages that it needs. If it has given some back, it should have kept them. */
hidden void runs_note_claimed(heap_t *h, unsigned n);
/* How many more runs of `n` pages it should claim now: none, unless it keeps no run and has given
 * back what it needs again. */
hidden unsigned runs_to_claim(const heap_t *h, unsigned n);
hidden void runs_put(heap_t *h, void *p, unsigned n); /* needs room */
/* A run of `*n` pages or up to an eighth more, now a block; sets `*n` to its length. NULL: none. */
hidden void *runs_take(heap_t *h, unsigned *n);
hidden void runs_empty(heap_t *h);
hidden void runs_move(heap_t *to, heap_t *from); /* all runs; `to` has none */
hidden void runs_recount(heap_t *h);             /* like magazine_recount */
/* So many more pages of spans are free, or fewer if below 0. */
hidden void runs_count_free(heap_t *h, int pages);
hidden void runs_settle(heap_t *h); /* adds its own count to the sum */
/* The pages of former blocks go back to their span. Returns the span if it has ended, as span_free
 * does. */
hidden slab_t *runs_give_back(heap_t *h, span_part_t part);
/* Pages of the span became free because a block got shorter: as after runs_give_back. */
hidden void runs_note_cut(slab_t *s);
/* The slices of a span that has ended go to their arena. */
hidden void runs_release(slab_t *ended);
/* Under a hard limit: would `size` bytes fit once the free pages of all spans, and what the heap
 * (or NULL) keeps, have gone back to the system? A guess. */
hidden bool runs_may_give_room(const heap_t *h, size_t size);
/* Gives the free pages of all spans back if needed. True: there is room for `size` bytes. */
hidden bool runs_give_room(size_t size);
hidden bool runs_are_valid(const heap_t *h); /* its user only */
