/* held.h - the memory in a heap that is not in the program's hands                   layer 5: stock
 * Owns:    nothing.   Called by: stock, heap.   Calls: owned, returned, fresh, sample, slab.
 * Threads: the heap's own, also in a handler that interrupts a call: lists are whole then, and
 *          counts are off by what that call is moving.
 *
 * The bytes of a thread's calls follow from this, though the fast paths count none. The thread has
 * allocated what went into its bins and is no longer there. It has freed the rest
 * (slab_thread_t). */
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
/* Bytes that it held until another thread took them: for its own thread they still count. */
hidden held_t held_moved(const heap_t *h);
hidden held_t held_in_all(const heap_t *h); /* both */
hidden void held_set_moved(heap_t *h, held_t moved);
/* If the calling thread counts its bytes: held_add counts what `h` holds as the thread's from now
 * on, as though it had taken it; the others take it off again. Else no list is walked. */
hidden void held_add(heap_t *h);
hidden void held_take_off_all(const heap_t *h);
hidden void held_take_off(held_t held);
