/* sample.h - which blocks are sampled, and what is counted of them                   layer 5: stock
 * Owns:    heap_sampled_t; the sums of all call stacks.   Called by: stock, heap, secure, api.
 *          Calls: callstack, poisson, map, slab, os.
 * Threads: any; `h` is the thread's, marked.
 * Sync:    S-stack  sample_start, sample_start_guards (release) -> sample_was_started (acquire):
 *                   the table of call stacks is there, or the guards' record.
 *
 * A block is sampled if a point falls on it (poisson.h), by its class's size. Each class of a heap
 * has points of its own. A bin is cut where the next one falls, so the fast path knows nothing of
 * it: the malloc that finds the bin empty is sampled. What is behind the cut is the next bin.
 *
 * A sampled block is a large, huge or guarded one, of whatever size, so the fast free knows nothing
 * of it either. Its record says from which call stack it is, and its weight. Until sampling is
 * started nothing here is touched, and the slow paths look at one word. */
#pragma once

#include "../arena/places.h"
#include "../support/callstack.h"
#include "../support/sampled.h"
#include "heap.h"

enum { SAMPLE_LARGE = 0 }; /* the class of all that has none */

typedef struct {
  uint64_t until[CLASS_COUNT];   /* bytes from the bin's end to the next point; 0: not drawn */
  uintptr_t behind[CLASS_COUNT]; /* what was cut off the bin */
  uint32_t count[CLASS_COUNT];   /* how many blocks these are */
  uint64_t random;
  uint64_t mean; /* with which `until` was drawn */
} aligned_to(64) heap_sampled_t;
/* Heaps lie in chunks (pool.c), and behind those of a chunk and their parts is this, of each. */
enum {
  SAMPLED_AT = PLACES_IN_CHUNK * (sizeof(heap_t) + sizeof(heap_aside_t) + sizeof(heap_own_t))
};
static always_inline heap_sampled_t *sample_of(const heap_t *h) {
  size_t place = heap_number(h) % PLACES_IN_CHUNK;
  return (heap_sampled_t *)((uintptr_t)(h - place) + SAMPLED_AT) + place;
}

/* Bytes between two points on average; 0: no block is sampled, or guarded. relaxed: wishes */
extern hidden atomic64_t sample_interval, sample_guard_interval;
/* 1 once sampling was started, and from then on. A thread that sees it late samples later. */
extern hidden atomic32_t sample_started;
/* Are samples kept? Guards alone want points, and nothing else. relaxed: a wish */
static inline bool sample_is_profiling(void) {
  return atomic64_load_relaxed(&sample_interval) != 0;
}
/* Was profiling ever begun? Then stacks may have been kept. */
static inline bool sample_has_stacks(void) { return callstack_is_started(); }
static inline bool sample_was_started(void) {
  return atomic32_load_acquire(&sample_started) != 0; /* S-stack: the table is there */
}

/* From now on, one block in so many bytes; 0: none. False: no memory for the call stacks. */
hidden bool sample_start(uint64_t interval);

/* While no samples are kept, points fall once in so many bytes. guard_start was called before. */
hidden void sample_start_guards(uint64_t interval);

/* ---- the rest is for a process in which sampling was started ---- */

/* While samples are kept, guards want no points of their own. */
static always_inline uint64_t sample_mean(void) {
  uint64_t mean = atomic64_load_relaxed(&sample_interval);
  return likely(mean != 0) ? mean : atomic64_load_relaxed(&sample_guard_interval);
}
/* The class's next point is known, and does not fall into the next `size` bytes. */
static always_inline bool sample_is_far(const heap_sampled_t *d, unsigned c, size_t size) {
  return d->until[c] > size && d->mean == sample_mean();
}
/* Draws the class's next point if need be. True: it falls into the next `size` bytes. */
hidden bool sample_find_point(heap_t *h, unsigned c, size_t size);
/* The next `size` bytes of the class were handed out, or are about to be, with no point in them. */
static inline void sample_pass_bytes(heap_t *h, unsigned c, size_t size) {
  uint64_t *until = &sample_of(h)->until[c];
  *until -= min_size(size, *until);
}
/* The bin of the class, which is empty, gets what was cut off the last one. */
hidden cold void sample_renew_bin(heap_t *h, unsigned c);
/* The bin of the class is new, with `count` blocks: cuts it where the next point falls. */
hidden void sample_cut_bin(heap_t *h, unsigned c, unsigned count);
static always_inline void sample_new_bin(heap_t *h, unsigned c, unsigned count) {
  heap_sampled_t *d = sample_of(h);
  size_t all = count * class_size(c);
  if (likely(sample_is_far(d, c, all))) d->until[c] -= all;
  else sample_cut_bin(h, c, count);
}
/* `p` is a fresh large, huge or guarded block that stands for one of class `c`, and has a point in
 * it. */
hidden void sample_begin(heap_t *h, unsigned c, void *p, size_t size);
/* `p` is a fresh large or huge block. It is sampled if it has a point in it. */
hidden void sample_note_large(heap_t *h, void *p);
/* `p` has become larger or smaller, and counts as a fresh one. */
hidden void sample_note_resized(heap_t *h, void *p);
/* The bin of the class goes back: so must this list, cut off it. The points are drawn anew. */
hidden uintptr_t *sample_return_bin(heap_t *h, unsigned c);
/* What was cut off the bin of the class is that of another heap, which has nothing of it. */
hidden void sample_move_bin(heap_t *to, heap_t *from, unsigned c);
/* Was something cut off the bin of the class, which is there still? Also if none was started. */
hidden bool sample_is_cut(const heap_t *h, unsigned c);
/* Calls `call` each time that `step` bytes more live than when it was called last. Once, at start.
 * A heap is marked then, so `call` may not allocate. */
hidden void sample_on_growth(uint64_t step, void (*call)(void));
/* Calls `call` for each sampled block, when it is allocated and when it is freed. `bytes`: what it
 * stands for. A heap may be marked then. */
typedef void sample_visitor_t(void *p, size_t size, uint64_t bytes, bool is_freed);
hidden void sample_on_block(sample_visitor_t *call);
/* This large, huge or guarded block ends, if it is sampled. */
hidden void sample_end(void *p);
