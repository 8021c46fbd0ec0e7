/* fresh.h - lent blocks that were never used                                          layer 5: heap
 * Owns:    nothing.   Called by: heap.   Calls: sizeclass, arena.
 *
 * They lie side by side in their slab, read as zero and are not linked, so that no page of them is
 * touched before they are handed out: its first touch is the program's. They have no key either, so
 * whoever visits blocks asks the heaps first (pool_fresh_of); for that they are one word. */
#ifndef HEAP_FRESH_H
#define HEAP_FRESH_H

#include "../arena/arena.h"
#include "../base/sizeclass.h"

typedef struct {
  uintptr_t first;
  unsigned count;
} fresh_t;

enum { FRESH_SHIFT = 16 };

/* 0: none. */
static inline uint64_t fresh_pack(fresh_t f) {
  if (f.count == 0) return 0;
  return (uint64_t)f.first << FRESH_SHIFT | f.count;
}
static inline fresh_t fresh_unpack(uint64_t word) {
  return (fresh_t){ word >> FRESH_SHIFT, (uint16_t)word };
}

/* What remains of those of class `c` without the first. */
static inline fresh_t fresh_rest(fresh_t f, unsigned c) {
  return (fresh_t){ f.first + class_size(c), f.count - 1 };
}
/* A bit for each of them that lies in the slab at `base`, in the order of addresses. */
static inline uint64_t fresh_bits(fresh_t f, unsigned c, const void *base) {
  size_t offset = f.first - (uintptr_t)base;
  if (f.count == 0 || offset >= SLICE_SIZE) return 0;
  return bits_run((unsigned)(offset / class_size(c) - 1), f.count);
}

#endif
