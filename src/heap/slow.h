/* slow.h - malloc, where the fast path could not do it; many blocks at once           layer 6: heap
 * Owns:    heap_longer.   Called by: heap, secure, api.
 *          Calls: enter, stock, slab, arena, support, os.
 * Threads: any. NULL: no memory. */
#pragma once

#include "../stock/large.h"

/* 1: a block may be longer than necessary. relaxed: set before the program has it */
extern hidden atomic32_t heap_longer;
hidden void heap_note_longer(void);

hidden void *heap_malloc_slow(size_t size); /* what the fast path could not do */
/* A run of pages that the heap keeps. NULL: none, or the functions above must decide. */
hidden void *heap_malloc_kept(size_t alignment, size_t size);
hidden void *heap_aligned_slow(size_t alignment, size_t size); /* alignment: a power of two */
hidden void *heap_malloc_empty(size_t alignment);              /* NULL: an ordinary one will do */
/* A small block for the library's own use: never sampled, counted for no thread, and without a
 * state in the secure grade. NULL: no memory. */
hidden void *heap_malloc_own(size_t size);
/* `alignment` 1: any will do. The caller has entered `h`. */
hidden void *heap_malloc_in(heap_t *h, size_t size, size_t alignment);
/* Clears the first `size` bytes of any fresh block; NULL stays NULL. */
static inline void *heap_clear(void *p, size_t size) {
  if (p != NULL && size <= SMALL_MOST) return memset(p, 0, size);
  if (p != NULL) large_clear(p, size);
  return p;
}

enum {
  BORROW_BYTES = 32768,   /* fresh bytes of a medium class to borrow at a time */
  MUCH_BORROWED = 262144, /* once it has used so much of a class: a slab at a time */
};
hidden void *heap_malloc_class(heap_t *h, unsigned c); /* in refill.c; the heap's own thread */

/* Takes up to `most` blocks out of the bin for that size; returns how many. 0 is no failure: the
 * caller's next call refills the bin. */
hidden size_t heap_take_many(size_t size, size_t most, void **blocks);
/* Frees blocks from the first on, up to one that a fast free cannot; returns how many. */
hidden size_t heap_free_many(void *const *blocks, size_t count);
