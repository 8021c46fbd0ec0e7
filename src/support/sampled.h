/* sampled.h - what a descriptor keeps of a sampled block                           layer 2: support
 * Owns:    nothing.   Called by: sample.c, visit.c, profile.c.   Calls: nothing.
 * Threads: the block's holder writes it; what others read is of about that moment. */
#ifndef SUPPORT_SAMPLED_H
#define SUPPORT_SAMPLED_H

#include "../base/atomic.h"

/* relaxed: see Threads */
typedef struct {
  /* how many blocks it stands for, times POISSON_ONE; 0: it is not sampled. Its call stack's number
   * above that */
  atomic64_t weight;
  atomic64_t bytes;         /* likewise, as they are */
  atomic_ptr_t heap;        /* the first-class heap it is from, or NULL */
  atomic32_t since, thread; /* os_now_ms, and the lower half of os_thread, when it was allocated */
} sampled_t;
enum { SAMPLED_STACK_SHIFT = 48 };
static inline uint64_t sampled_blocks(const sampled_t *block) {
  return atomic64_load_relaxed(&block->weight) & (((uint64_t)1 << SAMPLED_STACK_SHIFT) - 1);
}
static inline uint32_t sampled_stack(const sampled_t *block) {
  return (uint32_t)(atomic64_load_relaxed(&block->weight) >> SAMPLED_STACK_SHIFT);
}

#endif
