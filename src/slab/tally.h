/* tally.h - what slabs and threads count                                              layer 4: slab
 * Owns:    slab_counts, each thread's tally and its bytes.
 *          Called by: slab, stock, heap, api.   Calls: atomic.
 * Threads: any. relaxed, all of it except `partial_arenas`: sums.
 * Holds:   N1 a tally holds back no more blocks of a class than slab_tally_step says */
#pragma once

#include "../arena/arena.h"

/* Bytes of live blocks, large ones too, and free blocks of slabs. They change only when a chain or
 * a slab changes hands, so the private list of an owned slab counts as live. A thread adds to its
 * own tally, or to a shared one; a reader adds them all up. */
enum { TALLIES_OWN = 256, TALLIES = TALLIES_OWN + 64 };
enum { TALLY_LIVE, TALLY_FREE, TALLY_RETRIES, TALLY_ADOPTIONS, TALLY_PUBLICATIONS, TALLY_COUNTS };
typedef struct {
  atomic64_t counts[TALLY_COUNTS];
  atomic32_t taken[CLASS_COUNT]; /* of each class: blocks, signed, not yet in `classes` below */
} aligned_to(64) slab_tally_t;
hidden void slab_choose_tally(size_t number);                /* from TALLIES_OWN on: a common one */
hidden void slab_tally_add(size_t count, uint64_t more);     /* modulo 2^64 */
hidden uint64_t slab_tally_sum(size_t count);                /* over all of them */
hidden void slab_tally_change(uint64_t live, uint64_t free); /* so many more, modulo 2^64 */
static inline void slab_tally_live(uint64_t more) {          /* likewise */
  if (COUNTED) slab_tally_add(TALLY_LIVE, more);
}
/* `blocks` of class `c` went to a heap; if negative, they came back. */
hidden void slab_count_taken(unsigned c, int blocks);
/* Bytes of the calling thread, modulo 2^64. Neither counts what a first-class heap keeps. */
typedef struct {
  atomic64_t taken;  /* larger blocks, and what it took out of slabs, less what it gave back */
  atomic64_t binned; /* larger blocks, and what went into its bins, less what came out otherwise */
  bool is_asked;     /* the thread has asked for figures from these: heap/bytes.c */
} slab_thread_t;     /* relaxed: the thread's and its handlers' */
extern hidden __thread slab_thread_t slab_thread __attribute__((tls_model("initial-exec")));
static inline void slab_thread_count(uint64_t taken, uint64_t binned) {
  if (!COUNTED) return;
  atomic64_add_own(&slab_thread.taken, taken);
  atomic64_add_own(&slab_thread.binned, binned);
}
/* The most blocks of class `c` that heaps have had (0: of all classes together), to within
 * slab_tally_step(c) for each tally. It stays at least `live` from now on. */
hidden uint64_t slab_taken_peak(unsigned c, uint64_t live);
hidden uint32_t slab_tally_step(unsigned c); /* blocks that a tally may hold back */
hidden bool tally_is_valid(const slab_tally_t *t, unsigned c); /* the caller's own */

typedef struct {
  atomic64_t taken, peak; /* signed: another thread may count a block's return first */
} slab_class_count_t;
/* The part that a small program touches lies in the middle, on one page. */
typedef struct {
  uint8_t apart[KiB(1)];
  /* a hint: arenas with a bit in `partial_groups`, by class; for each 64 of them, the first ones
   * last (partial.c) */
  atomic64_t partial_arenas[ARENA_MOST / 64][CLASS_COUNT];
  slab_class_count_t classes[CLASS_COUNT]; /* class 0 has no blocks: it stands for all together */
  slab_tally_t tallies[TALLIES];
} aligned_to(4096) slab_counts_t;
extern hidden slab_counts_t slab_counts;
extern hidden __thread slab_tally_t *slab_tally __attribute__((tls_model("initial-exec")));
