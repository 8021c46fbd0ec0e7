/* index.h - the large and huge blocks of a first-class heap, found from its lanes    layer 5: stock
 * Owns:    a lane's chunks of cells; a block has one, its `cell`.   Called by: large.c, huge.c,
 *          lanes.c, sample.c, slow.c, firstclass.c, resize.c, visit.c.   Calls: slab, bitmap.
 * Threads: a lane's user takes cells; the thread that frees a block gives its cell back, by one
 *          operation on one word, also after the heap was deleted. A chunk lives until the lane and
 *          all blocks have left it. A thread that stops before that keeps one chunk from going
 *          back. */
#pragma once

#include "heap.h"
#include "huge.h"

/* A cell for the lane's next block is at hand afterwards; false: the index needs a chunk first. */
hidden bool index_prepare(heap_t *lane);
enum { INDEX_CHUNK_SIZE = 512 };
/* `block` has that size class, so that a cell's address leads to its chunk. */
hidden void index_add_chunk(heap_t *lane, void *block);
/* The next block's cell; NULL: none is at hand, or `h` is no lane. */
hidden void *index_cell(const heap_t *h);
/* A block is complete: its cell, if it has one, leads to its slab_t or huge_t from now on. */
hidden void index_set(void *cell, void *descriptor, bool is_huge);
hidden void index_give_back(void *cell);
/* For a block's holder: its first-class heap, unless that has ended; NULL: none, or no cell. */
hidden void *index_heap(const void *cell);
/* The block with this cell (or NULL) has so many more bytes, modulo 2^48. A free that the lane's
 * end overtakes counts nowhere. */
hidden void index_count(const void *cell, uint64_t more);
/* Bytes in the lane's large and huge blocks; may be below 0 for a moment. */
hidden int64_t index_lane_bytes(const heap_t *lane);
/* The block ends; `word` is its word for the cell. */
static inline void index_clear(atomic_ptr_t *word) {
  void *cell = atomic_ptr_load_relaxed(word); /* relaxed: the block's holder calls */
  if (cell == NULL) return;
  atomic_ptr_store_relaxed(word, NULL);
  index_give_back(cell);
}
/* Calls `visitor` with each block, large or huge; false as soon as it returns false. Any thread: it
 * may or may not see what others do meanwhile. */
typedef bool index_visitor_t(slab_t *large, huge_t *huge, void *context);
hidden bool index_each(const heap_t *lane, index_visitor_t *visitor, void *context);
/* The lane's first-class heap ends, perhaps before the lane. Its blocks then belong to no heap. */
hidden void index_forget_heap(heap_t *lane);
hidden void index_end(heap_t *lane); /* blocks that still live stay */
