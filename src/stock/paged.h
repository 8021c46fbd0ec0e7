/* paged.h - blocks of a few pages                                                    layer 5: stock
 * Owns:    nothing.   Called by: heap.   Calls: runs, magazine, large, span, arena, support, os.
 * Threads: any; a block belongs to whoever holds it. `h` is the thread's heap, marked, or NULL
 *          where that is said. */
#pragma once

#include "../slab/span.h"
#include "heap.h"

/* Should a block that is not small be a run of pages? */
static inline bool paged_fits(size_t size, size_t alignment) {
  return !SECURE && size > SMALL_MOST && size <= SPAN_MOST << SPAN_PAGE_SHIFT &&
         alignment <= SPAN_PAGE;
}
/* NULL: it should not, or there is no memory for a span; a large block may do. */
hidden void *paged_malloc(heap_t *h, size_t size, size_t alignment);
/* Only a run that the heap keeps. The block should be one, and `h` is no lane. */
hidden void *paged_malloc_kept(heap_t *h, size_t size);
hidden void paged_free(heap_t *h, void *p, const char *call); /* h: or NULL */
/* Settles anew how many pages the heap may keep in runs. It gives some back if it has more. */
hidden void paged_settle(heap_t *h);
/* A block for `size` bytes, as long as it may be, so that it can grow. */
hidden void *paged_malloc_roomy(heap_t *h, size_t size);
/* Can a block for `size` bytes be this long? */
hidden bool paged_may_have(size_t usable, size_t size);
/* In place; `usable`: its present size. The thread's counts change, too. */
hidden bool paged_resize(void *p, size_t usable, size_t size);
