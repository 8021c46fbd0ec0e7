/* paged.h - blocks of a few pages                                                    layer 5: stock
 * Owns:    nothing.   Called by: heap.   Calls: runs, magazine, large, span, arena, support, os.
 * Threads: any; a block belongs to whoever holds it. `h` is the thread's, marked, or NULL where it
 *          says so. */
#pragma once

#include "../slab/span.h"
#include "heap.h"

/* What is no small block: is it to be a run of pages? */
static inline bool paged_fits(size_t size, size_t alignment) {
  return !SECURE && size > SMALL_MOST && size <= SPAN_MOST << SPAN_PAGE_SHIFT &&
         alignment <= SPAN_PAGE;
}
/* NULL: it is not, or there is no memory for a span; a large block may do. */
hidden void *paged_malloc(heap_t *h, size_t size, size_t alignment);
hidden void paged_free(heap_t *h, void *p, const char *call); /* h: or NULL */
/* Settles anew how many pages the heap may keep in runs. It gives some back if it has more. */
hidden void paged_settle(heap_t *h);
/* One for `size` bytes, as long as such a block may be, so that it can grow. */
hidden void *paged_malloc_roomy(heap_t *h, size_t size);
/* Can it be so long, if it is a block for `size` bytes? */
hidden bool paged_may_have(size_t usable, size_t size);
/* In place; `usable`: what it has. What was counted for the thread changes, too. */
hidden bool paged_resize(void *p, size_t usable, size_t size);
