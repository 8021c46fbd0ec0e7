/* sizeclass.h - sizes and their classes                                               layer 0: base
 * Owns:    the constant table of classes.   Called by: slab, heap, api.   Calls: bits.
 * Holds:   Z1 class_size[class_of(n)] >= n, and class_size[class_of(n) - 1] < n
 *          Z2 up to 512 bytes 16 apart, then eight classes a doubling: at most 12.5 % more than
 *             asked from 128 on */
#ifndef BASE_SIZECLASS_H
#define BASE_SIZECLASS_H

#include "bits.h"

enum {
  CLASS_FAST_MAX = 32,           /* classes 1..32 are 16, 32, ... 512: the class is the size in 16-byte steps */
  CLASS_COUNT    = 73,           /* class 0 stays empty: a request of no bytes takes the slow path to class 1 */
  FAST_MAX_SIZE  = 512,
  SMALL_MAX_SIZE = 16384,        /* larger requests are blocks of whole slices */
};

typedef struct {
  uint16_t size;       /* bytes of a block */
  uint16_t capacity;   /* blocks of a slab: they lie at size, 2 * size, ... : never at a slice's start */
  uint32_t inverse;    /* 2^32 / size, rounded up: see class_is_multiple */
} class_info_t;

extern hidden const class_info_t class_info[CLASS_COUNT];

/* 0 < n <= SMALL_MAX_SIZE. */
static inline unsigned class_of(size_t n) {
  if (n <= FAST_MAX_SIZE) return (unsigned)((n + 15) >> 4);
  unsigned high = bits_highest(n - 1);                        /* 2^high < n <= 2^(high + 1), high >= 9 */
  return CLASS_FAST_MAX + 1 + (high - 9) * 8 + (unsigned)(((n - 1) >> (high - 3)) & 7);
}

static inline size_t class_size(unsigned c) { return class_info[c].size; }

/* Is `offset` (below 64 KiB) a multiple of the size whose `inverse` this is? The product wraps to
 * less than 2^16 just for multiples: k * size * inverse = k * 2^32 + k * e with e < size, and k * e
 * <= offset; any other remainder r adds r * inverse, which is 2^18 at least. */
static always_inline bool class_is_multiple(uint32_t offset, uint32_t inverse) {
  return offset * inverse < 0x10000;
}

/* The smallest class for `n` bytes whose blocks are aligned to `alignment`, or 0 if there is
 * none. */
hidden unsigned class_of_aligned(size_t alignment, size_t n);

hidden bool class_is_valid(void);

#endif
