/* many.h - many blocks of one size at once                                           layer 6: heap
 * Owns:    nothing.   Called by: api.   Calls: heap, slab.
 * Threads: as in fast.h, but the heap is marked once for all blocks, and not once for each. A call
 *          that is cut short has lost at most the blocks that it took out of the bin. */
#pragma once

#include "../base/base.h"

/* Takes up to `most` blocks out of the bin of that size; how many. 0 is no failure: a call that
 * refills the bin comes next. */
hidden size_t heap_take_many(size_t size, size_t most, void **blocks);
/* Frees from the first one on what a fast free can, up to one that it cannot; how many. */
hidden size_t heap_free_many(void *const *blocks, size_t count);
