/* large.h - blocks of whole slices                                                   layer 5: stock
 * Owns:    nothing.   Called by: heap, secure, variants.c.   Calls: magazine, tails, huge, index,
 *          pool, slab, arena, os.
 * Threads: any; a large block belongs to whoever holds it. So nothing is shared except the slices
 *          (arena.h), and counts: each heap has its own, which its user writes. `h` is the thread's
 *          heap, marked, or NULL where that is said.
 * Holds:   L1 a block of n bytes takes the fewest slices that hold it, or a quarter more; its
 *             usable size ends with a page */
#pragma once

#include "heap.h"

/* The block's address is a multiple of the slice size; NULL: no memory. */
hidden void *large_malloc(heap_t *h, size_t size, size_t alignment);
/* Must a block of that size have its own mapping? */
hidden bool large_is_huge(size_t size, size_t alignment);
/* A block of `size` bytes with slices for `roomy`; the slices behind its end hold no memory. */
hidden void *large_with_headroom(heap_t *h, size_t size, size_t roomy);
hidden void large_free(heap_t *h, slab_t *s, void *p, const char *call); /* h: or NULL */
hidden bool large_resize(heap_t *h, slab_t *s, void *p, size_t size);    /* in place; h: or NULL */
hidden void *large_move_to_huge(slab_t *s, void *p, size_t size);
hidden bool large_is_clean(const void *p); /* reads as zero unless it was written to */
/* The first `size` bytes of a fresh block, large, huge or guarded, read as zero afterwards. */
hidden void large_clear(void *p, size_t size);
/* The bytes of any block, a small one too, from `from` to `end` read as zero afterwards. */
hidden void large_clear_from(void *p, size_t from, size_t end);
/* Counts `n` more blocks, with `bytes` in all; both may be negative, modulo 2^64. `h` may be NULL
 * if they are fewer. */
hidden void large_count(heap_t *h, int n, uint64_t bytes);
hidden bool large_is_valid(const slab_t *s); /* its holder only */
