/* held.h - the memory in a heap that is not in the program's hands                   layer 5: stock
 * Owns:    nothing.   Called by: stock, heap.   Calls: owned, returned, fresh, sample, slab.
 * Threads: the heap's own, also in a handler that has interrupted a call: lists are whole then, and
 *          counts off by what that call is moving.
 *
 * So the bytes of a thread's calls follow, of which the fast paths count none. What it allocated
 * has gone into its bins and is not there any more. What it freed is the rest (slab_thread_t). */
#pragma once

#include "heap.h"

/* Bytes in blocks. */
typedef struct {
  uint64_t ready; /* in bins, also behind a cut, and fresh */
  uint64_t freed; /* on private and returned lists, and in batches */
} held_t;

hidden held_t heap_held(const heap_t *h);
/* What it held and another thread took: it counts as if it were there still. Any thread. */
static inline held_t held_moved(const heap_t *h) {
  return (held_t){atomic64_load_relaxed(&h->own->moved_ready),
                  atomic64_load_relaxed(&h->own->moved_freed)};
}
/* All that `to` holds was moved out of `from`. */
hidden void held_move(heap_t *from, const heap_t *to);
/* If the calling thread counts its bytes: what `h` holds is the thread's from now on, as though it
 * had taken it; or is not any more. */
hidden void held_add(heap_t *h);
hidden void held_take_off(const heap_t *h);
