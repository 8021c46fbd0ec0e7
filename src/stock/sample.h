/* sample.h - which blocks are sampled, and what is counted of them                   layer 5: stock
 * Owns:    heap_sampled_t; the sums of all call stacks.   Called by: stock, heap, secure, api.
 *          Calls: callstack, poisson, map, slab, os.
 * Threads: any; `h` is the thread's, marked.
 * Sync:    S-stack  sample_start, sample_start_guards (release) -> sample_was_started (acquire):
 *                   the table of call stacks is there, or the guards' record.
 *
 * A block is sampled if a point falls on it (poisson.h), by its class's size. Each class of a heap
 * has its own points. A bin is cut where the next point falls, so the fast path need not know: the
 * malloc that finds the bin empty is sampled. The blocks behind the cut are the next bin.
 *
 * A sampled block is a large, huge or guarded one, whatever its size, so the fast free need not
 * know either. Its record has its call stack and its weight. Until sampling starts nothing here is
 * touched, and the slow paths look at one word. */
#pragma once

#include "../arena/places.h"
#include "../support/callstack.h"
#include "../support/sampled.h"
#include "heap.h"

enum { SAMPLE_LARGE = 0 }; /* stands for blocks without a class */

typedef struct {
  uint64_t until[CLASS_COUNT];   /* bytes from the bin's end to the next point; 0: not drawn */
  uintptr_t behind[CLASS_COUNT]; /* what was cut off the bin */
  uint32_t count[CLASS_COUNT];   /* how many of these */
  uint64_t random;
  uint64_t mean; /* `until` was drawn with this */
} aligned_to(64) heap_sampled_t;
/* Heaps lie in chunks (pool.c). Behind a chunk's heaps and their parts lie these, one for each. */
enum {
  SAMPLED_AT = PLACES_IN_CHUNK * (sizeof(heap_t) + sizeof(heap_aside_t) + sizeof(heap_own_t))
};
static always_inline heap_sampled_t *sample_of(const heap_t *h) {
  size_t place = heap_number(h) % PLACES_IN_CHUNK;
  return (heap_sampled_t *)((uintptr_t)(h - place) + SAMPLED_AT) + place;
}

/* Average bytes between two points; 0: no block is sampled, or guarded. relaxed: wishes */
extern hidden atomic64_t sample_interval, sample_guard_interval;
/* 1 once sampling was started, and from then on. A thread that sees it late samples later. */
extern hidden atomic32_t sample_started;
/* Are samples kept? Guards alone need points, and nothing else. relaxed: a wish */
static inline bool sample_is_profiling(void) {
  return atomic64_load_relaxed(&sample_interval) != 0;
}
/* Has profiling ever begun? Then stacks may have been kept. */
static inline bool sample_has_stacks(void) { return callstack_is_started(); }
static inline bool sample_was_started(void) {
  return atomic32_load_acquire(&sample_started) != 0; /* S-stack: the table is there */
}

/* Samples one block in `interval` bytes from now on; 0: none. False: no memory for call stacks. */
hidden bool sample_start(uint64_t interval);

/* While no samples are kept, points fall once in so many bytes. Call guard_start first. */
hidden void sample_start_guards(uint64_t interval);

/* ---- the rest is for a process in which sampling was started ---- */

/* While samples are kept, guards need no points of their own. */
static always_inline uint64_t sample_mean(void) {
  uint64_t mean = atomic64_load_relaxed(&sample_interval);
  return likely(mean != 0) ? mean : atomic64_load_relaxed(&sample_guard_interval);
}
/* Is the class's next point known, and not within the next `size` bytes? */
static always_inline bool sample_is_far(const heap_sampled_t *d, unsigned c, size_t size) {
  return d->until[c] > size && d->mean == sample_mean();
}
/* Draws the class's next point if need be. True: it falls into the next `size` bytes. */
hidden bool sample_find_point(heap_t *h, unsigned c, size_t size);
/* The next `size` bytes of the class, with no point in them, were or will be handed out. */
static inline void sample_pass_bytes(heap_t *h, unsigned c, size_t size) {
  uint64_t *until = &sample_of(h)->until[c];
  *until -= min_size(size, *until);
}
/* The class's bin, now empty, gets the blocks that were cut off the last one. */
hidden cold void sample_renew_bin(heap_t *h, unsigned c);
/* The class's bin is new, with `count` blocks: cuts it where the next point falls. */
hidden void sample_cut_bin(heap_t *h, unsigned c, unsigned count);
static always_inline void sample_new_bin(heap_t *h, unsigned c, unsigned count) {
  heap_sampled_t *d = sample_of(h);
  size_t all = count * class_size(c);
  if (likely(sample_is_far(d, c, all))) d->until[c] -= all;
  else sample_cut_bin(h, c, count);
}
/* `p` is a fresh large, huge or guarded block with a point in it, and stands for one of class
 * `c`. */
hidden void sample_begin(heap_t *h, unsigned c, void *p, size_t size);
/* `p` is a fresh large or huge block. It is sampled if it has a point in it. */
hidden void sample_note_large(heap_t *h, void *p);
/* `p` has become larger or smaller, and counts as a fresh one. */
hidden void sample_note_resized(heap_t *h, void *p);
/* The class's bin goes back, and so must this list, which was cut off it. Points are drawn anew. */
hidden uintptr_t *sample_return_bin(heap_t *h, unsigned c);
/* Moves what was cut off the class's bin to another heap, which has none of the class. */
hidden void sample_move_bin(heap_t *to, heap_t *from, unsigned c);
/* Are blocks that were cut off the class's bin still there? Works before sampling starts, too. */
hidden bool sample_is_cut(const heap_t *h, unsigned c);
/* From then on calls `call` each time `step` more bytes are live than at its last call. Once, at
 * start. A heap is marked during the call, so `call` may not allocate. */
hidden void sample_on_growth(uint64_t step, void (*call)(void));
/* Calls `call` when a sampled block is allocated and when it is freed; `bytes` is what it stands
 * for. A heap may be marked then. */
typedef void sample_visitor_t(void *p, size_t size, uint64_t bytes, bool is_freed);
hidden void sample_on_block(sample_visitor_t *call);
/* This large, huge or guarded block ends, if sampled. */
hidden void sample_end(void *p);
