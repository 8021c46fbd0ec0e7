/* slow.h - malloc, where the fast path could not do it                                layer 6: heap
 * Owns:    nothing.   Called by: heap, secure, api.
 *          Calls: arena, refill, enter, stock, support, os.
 * Threads: any. NULL: no memory. */
#pragma once

#include "../stock/large.h"

hidden void *heap_malloc_slow(size_t size);                    /* what the fast path could not do */
hidden void *heap_aligned_slow(size_t alignment, size_t size); /* alignment: a power of two */
hidden void *heap_malloc_empty(size_t alignment);              /* NULL: an ordinary one will do */
/* A block that is never sampled, for the heap's own use. The caller has entered `h`. */
hidden void *heap_malloc_unsampled(heap_t *h, size_t size);
/* `alignment` 1: any will do. The caller has entered `h`. */
hidden void *heap_malloc_in(heap_t *h, size_t size, size_t alignment);
/* Clears the first `size` bytes of any fresh block; NULL stays NULL. */
static inline void *heap_clear(void *p, size_t size) {
  if (p != NULL && size <= SMALL_MAX_SIZE) return memset(p, 0, size);
  if (p != NULL) large_clear(p, size);
  return p;
}
