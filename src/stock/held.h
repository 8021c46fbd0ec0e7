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
  uint64_t freed; /* on private and returned lists, and in the outbox */
} held_t;

hidden held_t heap_held(const heap_t *h);
hidden held_t held_sum(held_t a, held_t b);
hidden held_t held_less(held_t a, held_t b);
/* What it held and another thread has taken since: for its thread it counts as if it were there
 * still. */
hidden held_t held_moved(const heap_t *h);
hidden held_t held_in_all(const heap_t *h); /* both */
hidden void held_set_moved(heap_t *h, held_t moved);
/* If the calling thread counts its bytes: what `h` holds is the thread's from now on, as though it
 * had taken it; or so much is not any more. */
hidden void held_add(heap_t *h);
hidden void held_take_off(held_t held);
