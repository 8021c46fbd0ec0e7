/* slow.c - malloc, where the fast path could not do it                                layer 6: heap
 * Contract: slow.h. */
#include "slow.h"

#include "../base/sizeclass.h"
#include "../stock/large.h"
#include "../stock/magazine.h"
#include "../stock/pool.h"
#include "../stock/shrink.h"
#include "../support/options.h"
#include "enter.h"
#include "refill.h"

static always_inline void *allocate_once(heap_t *h, size_t size, size_t alignment) {
  unsigned c = 0;
  if (alignment > 16) c = class_of_aligned(alignment, max_size(size, 1));
  else if (size <= SMALL_MAX_SIZE) c = class_of(max_size(size, 1));
  return c != 0 ? heap_malloc_class(h, c) : large_malloc(h, size, alignment);
}

/* Memory is short: what the heap keeps may make room. Not for a block with a mapping of its own. */
static cold bool give_room(heap_t *h, size_t size, size_t alignment) {
  if (large_is_huge(size, alignment)) return false;
  heap_flush_bins(h);
  magazine_empty(h);
  return true;
}

static always_inline void *allocate_or_shrink(heap_t *h, size_t size, size_t alignment) {
  bool is_plain = alignment <= 16 && size <= SMALL_MAX_SIZE;
  if (unlikely(option_get(OPTION_stats_detail) != 0) && is_plain)
    pool_note_requested(class_of(max_size(size, 1)), size);
  void *block = allocate_once(h, size, alignment);
  if (likely(block != NULL) || !give_room(h, size, alignment)) return block;
  return allocate_once(h, size, alignment);
}

void *heap_malloc_in(heap_t *h, size_t size, size_t alignment) {
  return allocate_or_shrink(h, size, alignment);
}

static always_inline void *enter_and_allocate(size_t alignment, size_t size) {
  heap_t *h = size <= PTRDIFF_MAX ? heap_enter() : NULL;
  if (h == NULL) return NULL;
  void *block = allocate_or_shrink(h, size, alignment);
  heap_exit(h);
  return block;
}

cold void *heap_malloc_slow(size_t size) { return enter_and_allocate(1, size); }
void *heap_aligned_slow(size_t alignment, size_t size) {
  return enter_and_allocate(alignment, size);
}
