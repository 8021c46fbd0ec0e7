/* grow.h - more mapped slices: the rest of a window, what was unmapped, a new window layer 3: arena
 * Owns:    which slices were unmapped to make room, and the counts of readers.
 * Called by: arena.c; what arena.h declares of it by stock and heap.   Calls: slices, map, support,
 *          os.
 * Threads: any. Sync: S-room (hint.h), S-read (arena.h). */
#pragma once

#include "slices.h"

/* Maps `n` slices for the caller, the first at a multiple of `alignment`. NO_SLICES: the window has
 * no room for them; NO_MEMORY: the system refuses them; 0: others were quicker. */
hidden size_t grow_claim(arena_t *a, size_t n, size_t alignment);

/* Exactly these slices, of which it maps some. False if none are missing, or others are in the
 * way. */
hidden bool grow_at(arena_t *a, size_t first, size_t n);

/* Maps slices in use again, at which nothing is mapped, and counts them as committed; false: they
 * are unmapped from now on. */
hidden bool grow_map_again(void *at, size_t n);

/* A new window with `*slices` mapped, `n` of them for the caller; NULL: no memory. */
hidden arena_t *grow_map_window(size_t n, size_t alignment, size_t *slices);
/* Makes the window an arena; returns the first of the caller's `n` slices. NO_SLICES: there are
 * ARENA_MOST arenas already. */
hidden size_t grow_publish_window(arena_t *a, size_t n, size_t alignment, size_t slices);
hidden void grow_unmap_window(arena_t *a, size_t slices);
