/* sizeclass.h - sizes and their classes                                               layer 0: base
 * Owns:    the constant table of classes.
 *          Called by: arena, slab, stock, heap, secure, api.   Calls: check.
 * Threads: any; nothing changes.
 * Holds:   Z1 class_size(class_of(n)) >= n, and class_size(class_of(n) - 1) < n
 *          Z2 up to 512 bytes 16 apart, then eight classes a doubling: at most 12.5 % more than
 *             asked from 128 on */
#pragma once

#include "bits.h"

enum {
  CLASS_COUNT = 73,   /* class 0 has no blocks, so malloc(0) takes the slow path */
  SMALL_MOST = 16384, /* larger requests are runs of pages or of slices */
  CLASS_STEP = 16,
  SMALL_STEPS = SMALL_MOST / CLASS_STEP,
};

typedef struct {
  uint16_t size;     /* bytes of a block */
  uint16_t capacity; /* blocks of a slab, at size, 2 * size, ... : never at a slice's start */
} class_info_t;

extern hidden const class_info_t class_info[CLASS_COUNT];
extern hidden const uint64_t class_inverse[CLASS_COUNT]; /* see class_has_block_at */

/* By the size in steps, rounded up. A table, and no arithmetic for large sizes: a program's sizes
 * may lie on either side of any limit, and a mispredicted branch costs more than a load. */
extern hidden const uint8_t class_table[SMALL_STEPS + 1];

/* 0 for the largest sizes, because the sum wraps. */
static always_inline size_t class_steps(size_t n) { return (n + CLASS_STEP - 1) / CLASS_STEP; }
/* For n <= SMALL_MOST. */
static inline unsigned class_of(size_t n) {
  ASSERT(n <= SMALL_MOST);
  return class_table[class_steps(n)];
}

static inline size_t class_size(unsigned c) {
  ASSERT(c < CLASS_COUNT);
  return class_info[c].size;
}

/* Does a block of the class with this `inverse` begin at `offset` (below 64 KiB) in its slab? The
 * product wraps to 1..CLASS_BOUND for exactly these offsets. size * inverse is 2^64 + e, so that of
 * block k wraps to k * e. Of all possible e it is the first that takes the place behind the last
 * block past the bound. Any other offset has a remainder r, which adds r * inverse: 2^50 at least.
 * False for an inverse of 0. */
#define CLASS_BOUND ((uint64_t)INT32_MAX)
static always_inline bool class_has_block_at(uint64_t offset, uint64_t inverse) {
  return offset * inverse - 1 < CLASS_BOUND;
}

/* The smallest class for `n` bytes whose blocks are aligned to `alignment` (a power of two), or 0
 * if there is none. The class of the next multiple of the alignment will do. Where classes are
 * closer together than that, each multiple is a class; elsewhere each class is a multiple. */
static inline unsigned class_of_aligned(size_t alignment, size_t n) {
  size_t multiple = align_up(n, alignment);
  return multiple - 1 < SMALL_MOST ? class_of(multiple) : 0;
}

/* The class of a request; 0: it needs a large block. A request for 0 bytes counts as one for 1. */
static always_inline unsigned class_of_request(size_t size, size_t alignment) {
  if (alignment > CLASS_STEP) return class_of_aligned(alignment, max_size(size, 1));
  return size <= SMALL_MOST ? class_of(max_size(size, 1)) : 0;
}

hidden bool class_is_valid(void);
