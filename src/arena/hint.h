/* hint.h - where a search is worthwhile                                              layer 3: arena
 * Owns:    nothing: the words are the caller's.   Called by: arena, slab.   Calls: bitmap.
 * Threads: any. A hint may send a search in vain. It hides only what came back while a thread is
 *          stopped between the two steps below; permanently, if that thread never continues (child
 *          of fork, longjmp).
 * Sync:    S-group  bits above bits. A thread that sets a bit then checks the one above it, and
 *                   sets it if it is clear. One that finds nothing below a bit clears it, then
 *                   looks below again. All seq_cst, so one of the two sees the other.
 *          S-room   the same for runs of bits: a thread that gives bits back then checks the lack;
 *                   one that has searched in vain notes the lack, then searches again. All seq_cst.
 *
 * So the cost of a search does not grow with the heap. */
#pragma once

#include "bitmap.h"

/* ---- bits above bits ------------------------------------------------------------------------- */

static inline void hint_set_part(atomic64_t *word, uint64_t bits, void *context) {
  (void)context;
  if ((atomic64_load_seq_cst(word) & bits) != bits) atomic64_or_seq_cst(word, bits); /* S-group */
}
static inline void hint_set(atomic64_t *words, size_t number) {
  hint_set_part(&words[number / 64], (uint64_t)1 << number % 64, NULL);
}

/* The caller looks below again. */
static inline void hint_clear(atomic64_t *words, size_t number) {
  atomic64_and_seq_cst(&words[number / 64], ~((uint64_t)1 << number % 64)); /* S-group */
}

/* Is any bit set? */
static inline bool hint_any(const atomic64_t *words, size_t word_count) {
  uint64_t any = 0;
  for (size_t i = 0; i < word_count; i++) any |= atomic64_load_seq_cst(&words[i]); /* S-group */
  return any != 0;
}

/* ---- what a search did not find -------------------------------------------------------------- */

/* The shortest run, in bits, that was searched for in vain since one at least as long last came
 * back; 0: none. A word beside it is for runs that must begin at a multiple of something, whose
 * logarithm is above LACK_SHIFT. */
typedef atomic32_t lack_t;
typedef struct {
  lack_t run, aligned;
} lacks_t;
enum { LACK_SHIFT = 16 };
#define LACK_RUN (((uint32_t)1 << LACK_SHIFT) - 1)

static always_inline size_t lack_shape(size_t n, size_t alignment) {
  ASSERT(n <= LACK_RUN);
  return n | (size_t)bits_lowest(alignment) << LACK_SHIFT;
}

/* Without such a run there is no longer one either, nor one that may begin at fewer places. */
static inline bool lack_implies(uint32_t least, size_t n) {
  return least != 0 && (n & LACK_RUN) >= (least & LACK_RUN) &&
         n >> LACK_SHIFT >= least >> LACK_SHIFT;
}

static inline bool lack_covers(const lack_t *lack, size_t n) {
  return lack_implies(atomic32_load_relaxed(lack), n); /* relaxed: a hint */
}

/* The caller searches again, and calls lack_end if it finds something. */
static inline void lack_note(lack_t *lack, size_t n) {
  uint32_t least = atomic32_load_relaxed(lack); /* relaxed: the swap reads again */
  while (!lack_implies(least, n)) /* Progress: a failed swap means that another thread noted one */
    if (atomic32_cas_seq_cst(lack, &least, (uint32_t)n)) return; /* S-room */
}

/* relaxed: at worst, one more search */
static inline void lack_end(lack_t *lack) { atomic32_store_relaxed(lack, 0); }

/* Some bits came back, whichever. */
static inline void lack_forget(lack_t *lack) {
  if (atomic32_load_seq_cst(lack) != 0) lack_end(lack); /* S-room */
}

static inline void lacks_forget(lacks_t *lacks) {
  lack_forget(&lacks->run);
  lack_forget(&lacks->aligned);
}

/* `n` bits came back: is their run long enough to end the lack? If another thread has already taken
 * some of them, two runs may be left. */
static inline void lack_review(lack_t *lack, const atomic64_t *words, size_t first, size_t n) {
  size_t least = atomic32_load_seq_cst(lack) & LACK_RUN; /* S-room */
  if (least == 0) return;
  size_t run = bitmap_run_above(words, first, max_size(least, n));
  if (run >= n && run < least) run += bitmap_run_below(words, first, least - run);
  if (run < n || run >= least) lack_end(lack);
}
