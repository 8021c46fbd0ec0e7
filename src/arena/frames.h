/* frames.h - huge pages, where they cost no memory                                   layer 3: arena
 * Owns:    which frames were made huge pages, and when the next one may be.
 *          Called by: arena.c, purge.c, grow.c, slab, heap.   Calls: slices, budget, support, os.
 * Threads: any. A frame is a huge page's worth of slices, half of a word of any bitmap. */
#pragma once

#include "slices.h"

enum { FRAME_SLICES = 32 };

/* Does a frame begin with this slice, and is it worth a huge page if it is fresh? */
hidden bool frames_begins(const void *slice);
/* The caller has claimed all slices of the frame, which read as zero: makes it a huge page. */
hidden bool frames_fill(void *first);
/* Makes one dense frame a huge page if that is due. */
hidden void frames_tick(void);
/* The slices of a word that must not go back one by one: those of huge frames of which more than
 * half is in use. */
hidden uint64_t frames_spared(const arena_t *a, size_t word);
/* Some pages of these slices are no longer in memory. */
hidden void frames_break(const arena_t *a, size_t first, size_t n);
