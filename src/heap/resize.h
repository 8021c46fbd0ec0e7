/* resize.h - realloc, and the sizes of blocks                                         layer 6: heap
 * Owns:    fast_sized_steps (fits.h).   Called by: firstclass.c, secure, api.
 *          Calls: free, slow, enter, stock, slab, arena, support, os.
 * Threads: any; the block belongs to the caller. */
#pragma once

#include "../arena/map.h"
#include "../base/sizeclass.h"

enum { MOVED_LEAST = 512 << 10 }; /* bytes: from this size on moving pages beats copying */
/* `p` is a block, `size` is not 0. NULL: no memory. */
hidden void *heap_realloc(void *p, size_t size, const char *call);
/* The first-class heap from which our live block `p` comes, if that has not ended; or NULL. */
hidden void *heap_of_block(const void *p, const char *call);
/* In place, or by moving pages if it is a block of `heap`. NULL: only a copy will do. */
hidden void *heap_resize(void *p, size_t size, const void *heap, const char *call);
/* There was no memory for a copy with `size` bytes. False: the block is shorter than that. Else it
 * stays, as long as need be. */
hidden bool heap_stay(void *p, size_t size, const char *call);
/* The size to ask for when a small block of `usable` bytes is copied to have `size`. A block that
 * grows by a little will grow again, so it gets a quarter more. But not beyond the next power of
 * two: programs use these as bounds for what they grow. */
static inline size_t heap_with_headroom(size_t usable, size_t size) {
  if (size <= usable || size > SMALL_MOST || usable == 0) return size;
  return max_size(size, min_size(usable + usable / 4, (size_t)2 << bits_highest(size - 1)));
}
hidden bool heap_expand(void *p, size_t size, const char *call);
hidden size_t heap_usable_size(const void *p, const char *call); /* 0: NULL */
hidden size_t heap_good_size(size_t size, size_t alignment);
hidden bool heap_owns(const void *p);
/* Does `p` lie in no memory of ours? It may lie in a window that we could not get. */
static inline bool heap_is_foreign(const void *p) { return !map_is_ours(map_find(p)); }
/* `p` is our block, allocated with `size` bytes and never resized. `fatal` if it has another
 * size. */
hidden void heap_check_class(const void *p, size_t size, size_t alignment, const char *call);
/* `fatal` if `p` is our block, but nobody can have asked for it with this size. Then it has less,
 * or so much more that realloc would not have left it so. */
hidden void heap_check_size(const void *p, size_t size, size_t alignment, const char *call);
