/* sampled.h - what a descriptor keeps of a sampled block                           layer 2: support
 * Owns:    nothing.   Called by: sample.c, guard.c, visit.c, secure, profile.c,
 *          fault.c.   Calls: nothing.
 * Threads: the block's holder writes it; others read roughly current values. */
#pragma once

#include "../base/atomic.h"
#include "../base/check.h"
#include "poisson.h"

/* relaxed: see Threads */
typedef struct {
  atomic64_t blocks_and_stack; /* sampled_blocks, and above them sampled_stack; 0: not sampled */
  atomic64_t size;             /* of each of these: its class's, or its own if it has no class */
  atomic_ptr_t heap;           /* the first-class heap it is from, or NULL */
  atomic32_t since, thread; /* os_now_ms, and the lower half of os_thread, when it was allocated */
} sampled_t;
enum { SAMPLED_STACK_SHIFT = 48 };
/* How many blocks it stands for, times POISSON_ONE. */
static inline uint64_t sampled_blocks(const sampled_t *block) {
  uint64_t word = atomic64_load_relaxed(&block->blocks_and_stack);
  return word & (((uint64_t)1 << SAMPLED_STACK_SHIFT) - 1);
}
/* The number of its call stack. */
static inline uint32_t sampled_stack(const sampled_t *block) {
  return (uint32_t)(atomic64_load_relaxed(&block->blocks_and_stack) >> SAMPLED_STACK_SHIFT);
}
/* The bytes of all the blocks that it stands for. */
static inline uint64_t sampled_bytes(const sampled_t *block) {
  return sampled_blocks(block) * atomic64_load_relaxed(&block->size) / POISSON_ONE;
}
static inline void sampled_set(sampled_t *block, uint64_t blocks, uint32_t stack) {
  ASSERT(blocks >> SAMPLED_STACK_SHIFT == 0);
  uint64_t word = blocks | (uint64_t)stack << SAMPLED_STACK_SHIFT;
  atomic64_store_relaxed(&block->blocks_and_stack, word);
}
