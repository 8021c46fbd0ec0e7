/* anchor.h - the one word through which threads share a slab                          layer 4: slab
 * Owns:    the encoding of the anchor.   Called by: slab, and for reading by stock and heap.
 *          Calls: atomic.
 * Threads: any; the table in docs/design.md, section 4, says what may be done to the word.
 *
 * `avail` is the offset in the slab of the first block of a chain of free ones, linked as in
 * block.h; 0: none. `count` is the chain's length. While nobody owns the slab, `carved` is how many
 * of its blocks a heap ever had, less those that are sunk (holes.h). So the word alone tells the
 * thread that frees the last one that it did. No tag is needed: when the word has come back to the
 * value read, the chain behind `avail` is the one that the new block must point to. */
#pragma once

#include "../base/atomic.h"

/* FULL: nobody's, with fewer free blocks than the threshold (slab.c), so nobody looks for it.
 * EMPTY: nobody's, with all blocks free; the thread that clears its bit releases it. */
typedef enum { /* clang-format off */
  ANCHOR_NONE, ANCHOR_OWNED, ANCHOR_FULL, ANCHOR_PARTIAL, ANCHOR_EMPTY
} anchor_state_t; /* clang-format on */

typedef struct {
  anchor_state_t state;
  uint16_t avail, count, carved;
} anchor_t;

static inline uint64_t anchor_pack(anchor_state_t state, uint16_t avail, unsigned count,
                                   unsigned carved) {
  return (uint64_t)state << 48 | (uint64_t)carved << 32 | (uint64_t)count << 16 | avail;
}
static inline anchor_t anchor_unpack(uint64_t word) {
  return (anchor_t){.state = (anchor_state_t)(word >> 48),
                    .avail = (uint16_t)word,
                    .count = (uint16_t)(word >> 16),
                    .carved = (uint16_t)(word >> 32)};
}
