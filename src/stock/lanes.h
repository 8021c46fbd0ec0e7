/* lanes.h - a first-class heap, and what its lanes have together                     layer 5: stock
 * Owns:    fh_heap_t, whose `quota` heaps.c sets.   Called by: large.c, refill.c, firstclass.c.
 *          Calls: index.
 * Threads: any that may use the heap. The lanes' counts are relaxed words: threads that allocate at
 *          the same moment may each pass the quota by what they asked for.
 * Sync:    S-lanes (firstclass.c). */
#pragma once

#include "heap.h"

typedef struct fh_heap fh_heap_t;
struct fh_heap {
  atomic_ptr_t lanes; /* heap_t, linked by `next_lane` */
  atomic64_t quota;   /* bytes; 0: none */
  char name[32];      /* ended by a zero byte */
};

/* relaxed: acquiring the head of the list acquired all that it leads to */
static inline heap_t *lanes_next(heap_t *lane) { return atomic_ptr_load_relaxed(&lane->next_lane); }

typedef struct {
  uint64_t slabs, bytes; /* slabs; bytes of large and huge blocks */
} lanes_counts_t;
hidden lanes_counts_t lanes_use(const fh_heap_t *heap);
/* May the heap take so many more bytes? Always, if it is no lane. */
hidden bool lanes_may_take(const heap_t *h, size_t bytes);
