/* bitmap.h - bits that are claimed and given back without a lock                     layer 3: arena
 * Owns:    nothing: the words are the caller's. A bit that is set is free to be claimed.
 * Called by: arena, slab, stock.   Calls: bits.
 * Threads: any. Progress: a compare-and-swap fails only because another thread claimed or gave back
 *          bits of that word.
 * Sync:    S-bit  bitmap_release (release) -> every claim (acquire): the thread that claims a bit
 *                 sees what was done to its thing before that was given back.
 *          S-room (hint.h): bits that come back, and searches that look for them again.
 * Holds:   M1 between a claim and the release of the same bit nobody else's claim of it succeeds */
#pragma once

#include "../base/atomic.h"
#include "../base/bits.h"

#define BITMAP_NONE ((size_t)-1)

/* Is it free? relaxed: true for a moment only */
static inline bool bitmap_has(const atomic64_t *words, size_t n) {
  return (atomic64_load_relaxed(&words[n / 64]) >> n % 64 & 1) != 0;
}

/* The lowest free bit at or above word `from`, claimed; BITMAP_NONE if there is none. */
hidden size_t bitmap_claim_one(atomic64_t *words, size_t word_count, size_t from);

/* The first bit of the lowest run of `n` free bits at or above word `from`; BITMAP_NONE: there is
 * none. It starts at a multiple of `alignment` (a power of two). Reads each word once; others may
 * change them meanwhile. */
hidden size_t bitmap_find_run(const atomic64_t *words, size_t word_count, size_t from, size_t n,
                              size_t alignment);
/* Likewise, where each bit may be free in `words` or in `others`. */
hidden size_t bitmap_find_joined(const atomic64_t *words, const atomic64_t *others,
                                 size_t word_count, size_t n, size_t alignment);

/* Likewise with alignment 1, but finds the shortest of the lowest such run and those in the next
 * 4,096 bits. */
hidden size_t bitmap_find_tight(const atomic64_t *words, size_t word_count, size_t from, size_t n);

/* How many bits are free right below number `end`, or from number `from` on; `most` at most. */
hidden size_t bitmap_run_below(const atomic64_t *words, size_t end, size_t most);
hidden size_t bitmap_run_above(const atomic64_t *words, size_t from, size_t most);

/* Claims exactly these bits, all or none. A run over several words is claimed word by word upwards,
 * and given back on failure. */
hidden bool bitmap_claim_at(atomic64_t *words, size_t first, size_t n);

/* Claims and returns those of `wanted` that are free in this word. */
hidden uint64_t bitmap_claim_some(atomic64_t *word, uint64_t wanted);

hidden void bitmap_release(atomic64_t *words, size_t first, size_t n);

/* Calls `f` with each word that a run touches and the bits of the run in it. */
typedef void bitmap_part_t(atomic64_t *word, uint64_t bits, void *context);
static always_inline void bitmap_each_part(atomic64_t *words, size_t first, size_t n,
                                           bitmap_part_t *f, void *context) {
  while (n > 0) { /* Bound: the words of the run */
    unsigned at = first % 64;
    unsigned part = (unsigned)min_size(n, 64 - at);
    f(&words[first / 64], bits_run(at, part), context);
    first += part;
    n -= part;
  }
}
