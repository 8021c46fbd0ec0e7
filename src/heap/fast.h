/* fast.h - malloc and free, the common path: start reading here                       layer 5: heap
 * Owns:    nothing.   Called by: api.   Calls: on every way out, one cold function, as a tail call.
 * Threads: the calling thread's own heap and slabs; no atomic read-modify-write, no loop, no system
 *          call.
 *
 * malloc: the size gives the class, the class's bin is a list of free blocks, its first block is
 *         the answer.
 * free:   the address gives the window, the slice in it, and the slice's descriptor; if this heap
 *         owns the slab, the block goes on the slab's list. The list of a bin and the list of a
 *         slab are two: what is freed comes back when the bin is used up, so a malloc never waits
 *         for the store of the free before it. The marks (heap.h) are set after the tests and
 *         before anything is read that a signal handler could change. */
#ifndef HEAP_FAST_H
#define HEAP_FAST_H

#include "heap.h"

/* Takes the first block of bin `c`; the thread's heap is not marked. NULL if the bin is empty. */
static always_inline void *fast_pop(size_t c) {
  heap_here.limit = 0;
  signal_fence();
  heap_t *h = heap_here.heap;
  uintptr_t block = h->bin[c];
  if (unlikely(block_is_end(block))) {
    heap_here.limit = CLASS_FAST_MAX + 1;
    return NULL;
  }
  uintptr_t next = block_next(block);
  h->bin[c] = next;
  signal_fence();
  heap_here.limit = CLASS_FAST_MAX + 1;
  block_set_live(block);
  __builtin_prefetch((void *)next, 1);     /* the next malloc of this class reads its link and clears its key */
  return (void *)block;
}

/* 513 bytes up to SMALL_MAX_SIZE, and whatever else the test of the size turned away. */
static __attribute__((noinline)) void *fast_malloc_medium(size_t size) {
  if (unlikely(heap_here.limit == 0 || size - 1 >= SMALL_MAX_SIZE)) return heap_malloc_slow(size);
  void *block = fast_pop(class_of(size));
  return likely(block != NULL) ? block : heap_malloc_slow(size);
}

static always_inline void *fast_malloc(size_t size) {
  size_t c = (size + 15) >> 4;             /* of a size that overflows here: 0, whose bin is always empty */
  if (unlikely(c >= heap_here.limit)) return fast_malloc_medium(size);
  void *block = fast_pop(c);
  return likely(block != NULL) ? block : heap_malloc_slow(size);
}

static always_inline uintptr_t fast_descriptor_offset(uintptr_t block) {
  return block >> (SLICE_SHIFT - DESCRIPTOR_SHIFT) & (WINDOW_SLICES - 1) << DESCRIPTOR_SHIFT;
}

/* `slow` does what the fast path cannot: heap_free_slow, or its twin for another name. */
static always_inline void fast_free_or(void *p, void (*slow)(void *p)) {
  uintptr_t block = (uintptr_t)p, window = window_of(block);
  if (unlikely(window != heap_here.window)) return slow(p);
  heap_here.window = 0;                    /* from here on no handler takes the slab away */
  signal_fence();
  slab_t *s = (slab_t *)(window - (WINDOW_SIZE - 1) + fast_descriptor_offset(block));
  if (unlikely(!atomic_ptr_is_relaxed(&s->fast_owner, heap_here.heap))) goto not_simple;
  if (unlikely(!class_is_multiple((uint16_t)block, s->inverse))) goto not_simple;
  if (unlikely(block_is_free(block))) goto not_simple;
  block_link(block, s->head);
  s->head = block;
  bool is_empty = atomic32_drop_one(&s->used);
  signal_fence();
  heap_here.window = window;
  if (unlikely(is_empty)) return heap_slab_emptied(s);
  return;
not_simple:
  heap_here.window = window;
  return slow(p);
}

static always_inline void fast_free(void *p) { fast_free_or(p, heap_free_slow); }

#endif
