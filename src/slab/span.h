/* span.h - four slices, whose blocks are runs of pages                                layer 4: slab
 * Owns:    their descriptors' `pages`, `runs` and `touched_pages`, and the hints of spans.
 *          Called by: stock, heap, sparse.c, fault.c.   Calls: slab, hint, arena, os.
 * Threads: any. A page belongs to whoever cleared its bit in `pages`, alone or with others. No span
 *          has an owner: its bits are all there is to agree on.
 * Sync:    S-run   giving bits back (release) -> claiming them (acquire): the pages and what `runs`
 *                  says of them; the first bits of a span -> claiming them: its descriptor.
 *          S-room, S-group (hint.h): `pages` changes, then the bit of its longest run is set, then
 *                  the old one is cleared, and `pages` read again. All seq_cst.
 * Holds:   R1 a page that is free begins no live run, and the pages of one are claimed
 *          R2 at rest a span has its bit among those of its longest free run
 *
 * A span is one word: a bit for each of its 64 pages that is free. To split a free run, one swap
 * clears bits; to join runs, one operation sets them. The span is born when all bits are set, and
 * whoever swaps all of them for none ends it. */
#pragma once

#include "slab.h"

enum {
  SPAN_SLICES = 4,
  SPAN_PAGE_SHIFT = TOUCHED_SHIFT,
  SPAN_PAGE = 1 << SPAN_PAGE_SHIFT, /* bytes: a page here, whatever the system's pages are */
  SPAN_PAGES = ARENA_SPAN_PAGES,
  SPAN_LEAST = 5, /* pages of the shortest run: less is for slabs */
  SPAN_MOST = 32, /* and of the longest */
};
#define SPAN_SIZE ((size_t)SPAN_SLICES << SLICE_SHIFT)

/* The span around an address in a window of slices, or NULL. */
static inline slab_t *span_around(const void *p) {
  const void *base = (const void *)align_down((uintptr_t)p, SPAN_SIZE);
  if (arena_slice(base) < ARENA_FIRST_SLICE) return NULL;
  return slab_word(slab_of(base)) == SLAB_IS_SPAN ? slab_of(base) : NULL;
}

/* `n` pages in a row of any span: of a free run that is hardly longer, if there is one. `spread`
 * lets threads look at different spans. NULL: no span has so many. */
hidden void *span_claim(unsigned n, unsigned spread);
/* The first `n` pages of a new span: four claimed slices. `is_clean`: they read as zero. */
hidden void *span_begin(void *base, bool is_clean, unsigned n);
/* The run is a block no more, but its pages stay the caller's. How many; `fatal` if `p` is none. */
hidden unsigned span_end_block(void *p, const char *call);
/* The same of a run that was claimed just now, which nobody has used. */
hidden void span_forget_block(void *p);
/* And again it is one. */
hidden void span_renew_block(void *p, unsigned n);
/* The pages of what was a block go back. What is returned has ended, and its slices are the
 * caller's; else NULL. */
hidden slab_t *span_free(void *p, unsigned n);
/* Likewise, and what is free of the span goes back to the system. Not so if that is pinned, fewer
 * than `least` pages, or claimed from meanwhile. SPAN_REFUSED: the system keeps some. */
typedef enum { SPAN_NOT_ASKED, SPAN_GIVEN, SPAN_REFUSED } span_outcome_t;
hidden slab_t *span_free_to_system(void *p, unsigned n, unsigned least, span_outcome_t *outcome);
/* How many pages of one that has ended may be in memory. */
hidden unsigned span_touched(const slab_t *ended);
/* The caller's run becomes one of `n` pages, if those behind it are free. */
hidden bool span_resize(void *p, unsigned n);
/* How many more pages may be in memory then. */
hidden unsigned span_untouched_behind(const void *p, unsigned n);
/* How many pages the caller's run has; `fatal` if `p` is none. */
hidden unsigned span_pages(const void *p, const char *call);
/* The run reads as zero as far as nobody wrote to it. */
hidden bool span_is_clean(const void *p);
/* The live run around an address in a span: its first byte and its pages. NULL: there is none. */
hidden void *span_find(const void *p, unsigned *pages);
/* Bytes in live runs. */
hidden size_t span_live(const slab_t *s);
/* The page is not in use, and a run began there that was freed. */
hidden bool span_was_freed(const void *p);

/* Free pages of the spans in a group of 64 slices go back to the system, if no page of the span
 * changed hands since the last look. `is_at_once`: in any case. How many looks that was worth. */
hidden size_t span_purge(arena_t *a, size_t group, bool is_at_once);

hidden bool span_is_valid(const slab_t *s); /* while no thread runs */
