/* span.h - four slices, whose blocks are runs of pages                                layer 4: slab
 * Owns:    their descriptors' `pages`, `runs` and `touched_pages`, and the hints of spans.
 *          Called by: stock, heap, sparse.c, fault.c.   Calls: slab, hint, arena, os.
 * Threads: any. A page belongs to the thread that cleared its bit in `pages`, alone or with others.
 *          No span has an owner: threads only have to agree on its bits.
 * Sync:    S-run   giving bits back (release) -> claiming them (acquire): the pages and what `runs`
 *                  says of them; the first bits of a span -> claiming them: its descriptor.
 *          S-room, S-group (hint.h): `pages` changes, then the bit of its longest run is set, then
 *                  the old one is cleared, and `pages` read again. All seq_cst.
 * Holds:   R1 a free page begins no live run, and all pages of a live run are claimed
 *          R2 at rest a span has its bit at the level of its longest free run
 *
 * A span is one word: a bit for each of its 64 pages that is free. To split a free run, one swap
 * clears bits; to join runs, one operation sets them. A span begins with its
 * first bits, and the thread that swaps all of them for none ends it. */
#pragma once

#include "slab.h"

enum {
  SPAN_SLICES = 4,
  SPAN_PAGE_SHIFT = TOUCHED_SHIFT,
  SPAN_PAGE = 1 << SPAN_PAGE_SHIFT, /* bytes: a page here, whatever the system's pages are */
  SPAN_PAGES = ARENA_SPAN_PAGES,
  SPAN_LEAST = 5, /* pages of the shortest run: slabs have less */
  SPAN_MOST = 32, /* and of the longest */
};
#define SPAN_SIZE ((size_t)SPAN_SLICES << SLICE_SHIFT)

/* The span around an address in a window of slices, or NULL. */
static inline slab_t *span_around(const void *p) {
  const void *base = (const void *)align_down((uintptr_t)p, SPAN_SIZE);
  if (arena_slice(base) < ARENA_FIRST_SLICE) return NULL;
  return slab_word(slab_of(base)) == SLAB_IS_SPAN ? slab_of(base) : NULL;
}

/* The words `pages` of its other slices. SEEN: what was free at the last look. GONE: what went to
 * the system, and nobody has claimed since. KEPT: what was free when the system last kept some. */
enum { SPAN_SEEN = 1, SPAN_GONE, SPAN_KEPT };
static inline atomic64_t *span_word(const slab_t *s, unsigned which) {
  return &slab_of((void *)(slab_base(s) + which * SLICE_SIZE))->pages;
}

/* Its number among its arena's spans, or those that could be there. */
static inline size_t span_number(const slab_t *s) {
  return arena_slice((void *)slab_base(s)) / SPAN_SLICES;
}
static inline slab_t *span_numbered(const arena_t *a, size_t number) {
  return slab_of(arena_address(a, number * SPAN_SLICES));
}

typedef struct {
  slab_t *span;
  unsigned page;
} span_page_t;
static inline span_page_t span_page_at(const void *p) {
  return (span_page_t){.span = slab_of((void *)align_down((uintptr_t)p, SPAN_SIZE)),
                       .page = (unsigned)((uintptr_t)p % SPAN_SIZE >> SPAN_PAGE_SHIFT)};
}

/* `n` adjacent pages of any span, from a free run that is hardly longer, if there is one. `spread`
 * lets threads look at different spans. NULL: no span has that many. */
hidden void *span_claim(unsigned n, unsigned spread);
/* Claims up to `most` runs of `n` pages from the free pages behind the caller's run, which has `n`
 * too. Returns how many. They count as former blocks. */
hidden unsigned span_claim_behind(const void *p, unsigned n, unsigned most);
/* The first `n` pages of a new span: four claimed slices. `is_clean`: they read as zero. */
hidden void *span_begin(void *base, bool is_clean, unsigned n);
/* Ends the block, but the caller keeps its pages. Returns how many; `fatal` if `p` is no block. */
hidden unsigned span_end_block(void *p, const char *call);
/* The same for a run that was claimed just now, and that nobody has used. */
hidden void span_forget_block(void *p);
/* The caller's run, a former block, is one again. */
hidden void span_renew_block(void *p);
/* Some pages of a span, all of them the caller's: one bit each. */
typedef struct {
  slab_t *span;
  uint64_t pages;
} span_part_t;
/* The pages of a run. */
static inline span_part_t span_part(const void *p, unsigned n) {
  span_page_t at = span_page_at(p);
  return (span_part_t){at.span, bits_run(at.page, n)};
}
/* Gives back the pages of former blocks. If that ends the span, returns it, and its slices are the
 * caller's; else NULL. */
hidden slab_t *span_free(span_part_t part);
/* How many pages of an ended span may be in memory. */
hidden unsigned span_touched(const slab_t *ended);
/* The caller's run becomes one of `n` pages, if the pages behind it are free. */
hidden bool span_resize(void *p, unsigned n);
/* How many more pages may be in memory then. */
hidden unsigned span_untouched_behind(const void *p, unsigned n);
/* How many pages the caller's run has; `fatal` if `p` is none. */
hidden unsigned span_pages(const void *p, const char *call);
/* Does the run read as zero, where nobody wrote to it? */
hidden bool span_is_clean(const void *p);
/* The live run around an address in a span: its first byte and its pages. NULL: there is none. */
hidden void *span_find(const void *p, unsigned *pages);
/* Bytes in live runs. */
hidden size_t span_live(const slab_t *s);
/* Is the page free, and did a run that was freed begin there? */
hidden bool span_was_freed(const void *p);

/* Claims the free pages that may be in memory and can go, if they are `least` or more. 0: none. */
hidden uint64_t span_claim_idle(slab_t *s, unsigned least);
/* Claimed pages went back to the system. */
hidden void span_note_gone(span_part_t part);

/* ---- span_purge.c ---- */

/* Gives free pages of the spans in a group of 64 slices back to the system, if no page of the span
 * changed hands since the last look, or `is_at_once`. Returns how many looks that was worth. */
hidden size_t span_purge(arena_t *a, size_t group, bool is_at_once);
/* Gives the span's free pages back to the system, unless they are fewer than `least`, or claimed
 * meanwhile. The span may have ended. If `least` is more than 1 and the system takes many ranges at
 * a time, those of its neighbours go along. SPAN_REFUSED: the system keeps some of the span's. */
typedef enum { SPAN_NOT_ASKED, SPAN_GIVEN, SPAN_REFUSED } span_outcome_t;
hidden span_outcome_t span_purge_near(slab_t *s, unsigned least);

hidden bool span_is_valid(const slab_t *s); /* while no thread runs */
