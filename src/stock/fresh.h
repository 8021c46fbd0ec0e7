/* fresh.h - borrowed blocks that were never used                                     layer 5: stock
 * Owns:    `fresh` of slab_t and of a heap.   Called by: stock, heap.   Calls: slab.
 * Threads: the heap's own; any thread reads a slab's bits (S-visit).
 *
 * They lie side by side in their slab, read as zero and are not linked, so that the program is the
 * first to touch their pages. They have no key either. So their slab has a bit for each one not yet
 * handed out, whichever heap borrowed it. */
#pragma once

#include "heap.h"

typedef struct {
  uintptr_t first;
  unsigned count;
} fresh_t;

enum { FRESH_SHIFT = 16 };

/* One word for all; 0: none. */
static inline uint64_t fresh_pack(fresh_t f) {
  if (f.count == 0) return 0;
  return (uint64_t)f.first << FRESH_SHIFT | f.count;
}
static inline fresh_t fresh_unpack(uint64_t word) {
  return (fresh_t){(uintptr_t)(word >> FRESH_SHIFT), (uint16_t)word};
}

/* All except the first; `c` is their class. */
static inline fresh_t fresh_rest(fresh_t f, unsigned c) {
  return (fresh_t){f.first + class_size(c), f.count - 1};
}
/* The block's bit in its slab's `fresh`. Such blocks have 1 KiB at least, so no two share a bit. */
static inline uint64_t fresh_bit(uintptr_t block) {
  return (uint64_t)1 << block % SLICE_SIZE / (SLICE_SIZE / 64);
}
/* The bits of all these blocks. */
static inline uint64_t fresh_bits(fresh_t f, unsigned c) {
  uint64_t bits = 0;
  /* Bound: a slab's blocks */
  for (; f.count != 0; f = fresh_rest(f, c)) bits |= fresh_bit(f.first);
  return bits;
}

static inline fresh_t heap_fresh(const heap_t *h, unsigned c) {
  if (c < MEDIUM_CLASS) return (fresh_t){0};
  return fresh_unpack(atomic64_load_relaxed(&h->aside->fresh[c - MEDIUM_CLASS]));
}
static inline void heap_set_fresh(heap_t *h, unsigned c, fresh_t f) {
  ASSERT(c >= MEDIUM_CLASS);
  atomic64_store_relaxed(&h->aside->fresh[c - MEDIUM_CLASS], fresh_pack(f));
}
/* The first of them is no longer fresh: it was handed out, or has a key. */
static inline void heap_drop_fresh(heap_t *h, unsigned c, fresh_t f) {
  heap_set_fresh(h, c, fresh_rest(f, c));
  atomic64_and_release(&slab_of((void *)f.first)->fresh, ~fresh_bit(f.first)); /* S-visit */
}
