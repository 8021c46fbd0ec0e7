/* lanes.c - a first-class heap, and what its lanes have together                     layer 5: stock
 * Contract: lanes.h. */
#include "lanes.h"

#include "index.h"

lanes_counts_t lanes_use(const fh_heap_t *heap) {
  lanes_counts_t use = {0, 0};
  heap_t *lane = atomic_ptr_load_acquire(&heap->lanes); /* S-lanes */
  for (; lane != NULL; lane = lanes_next(lane)) {       /* Bound: the heap's lanes */
    use.slabs += atomic32_load_relaxed(&lane->own->lane_slabs);
    use.bytes += (uint64_t)index_lane_bytes(lane);
  }
  if ((int64_t)use.bytes < 0) use.bytes = 0; /* read between a block's two counts */
  return use;
}

bool lanes_may_take(const heap_t *h, size_t bytes) {
  const fh_heap_t *heap = heap_tag(h);
  uint64_t quota = likely(heap == NULL) ? 0 : atomic64_load_relaxed(&heap->quota);
  if (likely(quota == 0)) return true;
  lanes_counts_t use = lanes_use(heap);
  return bytes <= quota && (use.slabs << SLICE_SHIFT) + use.bytes <= quota - bytes;
}
