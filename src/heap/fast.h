/* fast.h - malloc and free, the common path: start reading here                       layer 6: heap
 * Owns:    nothing.   Called by: api, secure, heap.   Calls: inline functions of a few lines
 *          in here.h, block.h, slab.h, sizeclass.h and atomic.h. On every way out at most one
 *          function out of line, as a tail call unless the caller looks at the answer.
 * Threads: the calling thread's own heap and slabs; no atomic read-modify-write, no loop, no system
 *          call.
 *
 * malloc: the size gives the class, the class's bin is a list of free blocks, and its first block
 *         is the answer.
 * free:   the address gives the window, the slice in it, and the slice's descriptor. If this heap
 *         owns the slab, the block goes onto the slab's list; if nobody does, onto a list of the
 *         heap. Neither list is the bin: freed blocks come back when the bin is used up, so a
 *         malloc never waits for the store of the free before it. The marks (here.h) are set before
 *         reading anything that a signal handler could change. */
#pragma once

#include "free.h"
#include "here.h"
#include "slow.h"

/* Takes the first block of bin `c`; the thread's heap is not marked. NULL if the bin is empty. */
static always_inline void *fast_pop(size_t c) {
  here_mark_malloc();
  heap_t *h = heap_of_thread();
  uintptr_t block = h->bin[c];
  if (unlikely(!heap_bin_has_block(block))) {
    here_unmark_malloc();
    return NULL;
  }
  uintptr_t next = block_pop(block);
  h->bin[c] = next;
  here_unmark_malloc();
  block_set_live(block);
  __builtin_prefetch((void *)next, 1); /* the class's next malloc uses its link and its key */
  return (void *)block;
}

/* `slow` does what the fast path cannot: heap_malloc_slow, or what stands before it. */
static always_inline void *fast_malloc_or(size_t size, void *(*slow)(size_t size)) {
  size_t steps = class_steps(size); /* if it overflows: 0, whose bin is always empty */
  if (unlikely(steps >= heap_here.limit)) return slow(size);
  void *block = fast_pop(class_table[steps]);
  return likely(block != NULL) ? block : slow(size);
}
static always_inline void *fast_malloc_or_null(size_t size) {
  size_t steps = class_steps(size);
  return likely(steps < heap_here.limit) ? fast_pop(class_table[steps]) : NULL;
}

static always_inline void *fast_malloc(size_t size) {
  return fast_malloc_or(size, heap_malloc_slow);
}

/* `alignment`: a power of two. NULL if the slow path must do it. */
static always_inline void *fast_aligned_or_null(size_t alignment, size_t size) {
  unsigned c = class_of_aligned(alignment, size); /* no bytes: 0, whose bin is empty */
  return likely(heap_here.limit != 0) ? fast_pop(c) : NULL;
}

static always_inline void *fast_aligned_or(size_t alignment, size_t size,
                                           void *(*slow)(size_t alignment, size_t size)) {
  void *block = fast_aligned_or_null(alignment, size);
  return likely(block != NULL) ? block : slow(alignment, size);
}

/* `window`: the last byte of the block's window. */
static always_inline slab_t *fast_descriptor(uintptr_t block, uintptr_t window) {
  uintptr_t offset = block >> (SLICE_SHIFT - DESCRIPTOR_SHIFT);
  offset &= (WINDOW_SLICES - 1) << DESCRIPTOR_SHIFT;
  return (slab_t *)(window - (WINDOW_SIZE - 1) + offset);
}

/* Where a freed block went. */
typedef enum {
  FAST_FREED,
  FAST_EMPTIED, /* freed, and its slab has no block in use any more */
  FAST_OTHERS,  /* nowhere: another heap has its slab, or the heap has no room */
  FAST_REFUSED  /* nowhere: it seems to be no block, or already free */
} fast_freed_t;

/* Keeps a block, whose slab nobody owns, for the class's next bin. The returned list has room.
 * False if the block is already free: its link is then spoilt. */
static always_inline bool fast_keep(heap_t *h, unsigned c, uintptr_t block, bool is_live) {
  uintptr_t *list = &h->aside->returned[c];
  ASSERT(h->returned_room[c] != 0);
  if (is_live) {
    block_link(block, *list);
  } else {
    block_set_next(block, *list);
    if (unlikely(block_is_free(block))) return false;
    block_set_free(block);
  }
  *list = block;
  h->returned_room[c]--;
  return true;
}

/* Decides where the block goes. The heap is the thread's own, and marked. `is_live`: the caller
 * knows that it is a block and not free. */
static always_inline fast_freed_t fast_put_back(heap_t *h, slab_t *s, uintptr_t block,
                                                bool is_live) {
  if (!is_live && unlikely(!class_has_block_at((uint16_t)block, s->inverse))) return FAST_REFUSED;
  if (likely(atomic_ptr_is_relaxed(&s->owner, h))) {
    if (!is_live && unlikely(block_is_free(block))) return FAST_REFUSED;
    return unlikely(slab_put_back(s, block)) ? FAST_EMPTIED : FAST_FREED;
  }
  unsigned c = slab_class(s);
  if (!atomic_ptr_is_relaxed(&s->owner, NULL) || unlikely(!heap_list_has_room(h->returned_room[c])))
    return FAST_OTHERS;
  return likely(fast_keep(h, c, block, is_live)) ? FAST_FREED : FAST_REFUSED;
}

/* `slow` does what the fast path cannot: heap_free_slow, or what stands before it. */
static always_inline void fast_free_or(void *p, bool is_live, void (*slow)(void *p)) {
  uintptr_t block = (uintptr_t)p, window = window_of(block);
  if (unlikely(window != heap_here.window)) return slow(p);
  here_mark_free(); /* from here on no handler takes the slab away */
  slab_t *s = fast_descriptor(block, window);
  fast_freed_t freed = fast_put_back(heap_of_thread(), s, block, is_live);
  here_unmark_free(window);
  if (unlikely(freed == FAST_OTHERS)) return heap_free_others(s, p, slow);
  if (unlikely(freed == FAST_REFUSED)) return slow(p);
  if (unlikely(freed == FAST_EMPTIED)) return heap_slab_emptied(s);
}

static always_inline void fast_free(void *p) { fast_free_or(p, false, heap_free_slow); }
