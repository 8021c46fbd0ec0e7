/* magazine.h - slices without blocks that a heap keeps for itself                    layer 5: stock
 * Owns:    a heap's magazine; `more_singles` and `missed_singles` of its heap_own_t.
 *          Called by: stock, heap.   Calls: surplus, slab, arena, support.
 * Threads: the heap's own.
 * Holds:   L2 slices on a magazine's list are claimed, of no kind, and as many as is counted; all
 *             slices of a run but the last count as touched
 *
 * A thread often needs what it freed again soon, and all threads share the words of the arena's
 * bits and counts. So a heap keeps a few slices: single ones for slabs and large blocks, and runs
 * of several for large blocks. */
#pragma once

#include "heap.h"

enum {
  RUN_TIMES = 4,  /* runs may have this many times the slices of option magazine */
  RUN_SPARE = 16, /* the same if more than two processors run threads */
  RUN_EARNED = 4, /* large blocks that a heap allocates for each slice it may keep */
  RUN_LEAST = 4,  /* slices in runs, if earned; more while the surplus has room */
};

/* Keeps or gives back the slice of an empty slab, which is on no list. */
hidden void magazine_put_slab(heap_t *h, slab_t *s);
/* Keeps or gives back the `n` slices of a freed block, or of a span that has ended. The block ended
 * in the `used`th slice, of which `touched` pages may be in memory. */
hidden void magazine_put_run(heap_t *h, slab_t *s, size_t n, size_t used, size_t touched);

/* `n` slices, the first at a multiple of `alignment`, kept or from the arena. If `wish` is not 0,
 * prefers the kept run whose last slice was touched closest to it (tails_wish). `*clean` as in
 * arena_claim. NULL: no memory. */
hidden void *magazine_claim(heap_t *h, size_t n, size_t alignment, size_t wish, bool *clean);
/* How many single slices the magazine may have. */
hidden size_t magazine_singles_most(void);
/* How many pages the heap may keep in runs: no more than are in the slices that it may still add.
 * Nor more than it has earned, or than its share of what all heaps may keep. A quarter of those
 * slices is its due. It may have more as far as it has given runs back and then needed as many. */
hidden size_t magazine_pages_most(const heap_t *h);
/* Claims `n` slices from `at` on for the next slabs, if free; the heap has no single slice now.
 * Returns how many of them read as zero: all or none. */
hidden size_t magazine_claim_ahead(heap_t *h, char *at, size_t n);
/* A slice beyond the limit, for the heap's next slab; false: there is no memory. */
hidden bool magazine_add_reserve(heap_t *h);
hidden void magazine_empty(heap_t *h);               /* also gives back its part of the surplus */
hidden void magazine_forget(heap_t *h);              /* gives back that part alone */
hidden void magazine_move(heap_t *to, heap_t *from); /* all of it; `to` has none */
hidden void magazine_recount(heap_t *h);        /* its lists were taken, perhaps not its counts */
hidden bool magazine_is_valid(const heap_t *h); /* its user only */
