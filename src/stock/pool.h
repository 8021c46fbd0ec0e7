/* pool.h - where heaps come from, and what is left of those that are gone            layer 5: stock
 * Owns:    the places of all heaps; totals.   Called by: stock, heap, api.
 *          Calls: owned.c, users.c, magazine.c, returned.c, places, bitmap, os.
 * Threads: any.
 * Sync:    S-pool  a heap given back to the pool (release) -> the next claim of it (acquire).
 * Holds:   P2 nobody has claimed a heap that rests; it has its bit, and its pages are in the sum */
#pragma once

#include "heap.h"
#include "quarantine.h"
#include "sample.h"

enum {
  RESTING_PAGES = 4096,      /* of 4 KiB: what all heaps at rest in the pool hold at most */
  RESTING_PAGES_EACH = 1024, /* what one of them holds at most, with its own page */
};

/* What all heaps together have counted. relaxed, all of them: sums. */
typedef struct {
  atomic64_t large_live, large_allocated, huge_live, huge_allocated, nested;
  atomic64_t remote_frees, shared_frees, swaps;
  atomic64_t tails, large_pages; /* pages of 4 KiB (tails.c); may be below 0 for a moment */
  /* for each class: blocks put into bins, no longer counted by a heap; bytes (stats_detail) */
  atomic64_t binned[CLASS_COUNT], requested[CLASS_COUNT];
} aligned_to(64) heap_counts_t;
extern hidden heap_counts_t heap_counts;

/* May be one that rested, or a dead thread's, with what is left in it. NULL: no memory. */
hidden heap_t *pool_claim(void);
hidden heap_t *pool_claim_nested(void); /* for handlers: found by way of the heap it replaces */
hidden heap_t *pool_claim_lane(void);   /* preferably one that did not rest */
hidden void pool_release(heap_t *h);    /* it has let go of everything */
hidden void pool_discard_kept(void);    /* the idle chunk that was kept as needed soon */
/* Returns the heap with all it holds, `pages` in all. False if that is too much: the caller keeps
 * it. */
hidden bool pool_rest(heap_t *h, uint32_t pages);
/* Returns a heap as it was claimed, unused. */
hidden void pool_return_unused(heap_t *h);
/* The heap stays as it is and has no user any more. Its part of the surplus goes back. */
hidden void pool_abandon(heap_t *h);
hidden heap_t *pool_claim_resting(void); /* one that rests; NULL: there is none */
/* A heap, with its contents, whose thread ended without giving it back, or is a parent's and not in
 * this child of fork. NULL: none found. The caller is its user until the heap goes back; if the
 * caller ends first, others find it again. Looks at the next heaps as far as `*words` goes, and
 * takes off 1 for each, or POOL_ASK_WORDS if it has to ask the system. */
enum { POOL_ASK_WORDS = 8 };
hidden heap_t *pool_claim_dead(size_t *words);
/* A heap of a parent's thread, sought at some of the places. NULL: none found. */
hidden heap_t *pool_claim_parents(void);
hidden uint32_t pool_resting_pages(void); /* of all resting heaps: at least one each */
hidden size_t pool_size(void);            /* places, claimed or not */
hidden size_t pool_metadata(void);        /* bytes of all of them */
hidden heap_t *pool_at(size_t number, bool *is_claimed); /* NULL: never made */
hidden void pool_settle(heap_t *h);                      /* its large blocks go to heap_counts */

hidden bool pool_is_valid(void); /* while nobody claims or gives back */

/* How often all heaps have been asked to give back what they keep. relaxed: a wish. */
extern hidden atomic32_t heap_trims;
