/* fits.h - what a block is, as far as a fast path can tell                            layer 6: heap
 * Owns:    nothing.   Called by: resize.c, secure, api.   Calls: fast, outbox, slab.
 * Threads: any; the block belongs to the caller. If a fast free could not take it, or would have to
 *          look closely, the answer is no; heap_resize and its like then find out. */
#pragma once

#include "../stock/outbox.h"
#include "fast.h"

/* The descriptor of the slice around `p`; NULL: not in the window that the fast free expects. */
static always_inline slab_t *fast_descriptor_here(const void *p) {
  uintptr_t block = (uintptr_t)p, window = window_of(block);
  return likely(window == heap_here.window) ? fast_descriptor(block, window) : NULL;
}
/* The slab in which a block may begin at `p`; NULL: a fast free could not take it. */
static always_inline slab_t *fast_slab_here(const void *p) {
  slab_t *s = fast_descriptor_here(p);
  return s != NULL && likely(class_has_block_at((uint16_t)(uintptr_t)p, s->inverse)) ? s : NULL;
}

/* Is it a block that the calling thread has just freed, but that is not marked free yet? */
static always_inline bool fast_was_freed_last(const void *p) {
  const heap_t *h = heap_of_thread();
  return h != NULL && outbox_is_wide(h) && outbox_has_fetched(h, (uintptr_t)p);
}

/* Can a small block stay where it is, without waste? */
static always_inline bool fast_fits(size_t usable, size_t size) {
  return size <= usable && (size > usable / 2 || usable <= 64);
}

/* The same for a pointer; false also if a fast free could not take it. */
static always_inline bool fast_fits_here(const void *p, size_t size) {
  const slab_t *s = fast_slab_here(p);
  /* a slab with holes needs a closer look; relaxed: no live block ever lies on one */
  return s != NULL && !block_is_free((uintptr_t)p) && atomic32_load_relaxed(&s->holes) == 0 &&
         fast_fits(class_size(slab_class(s)), size) && !fast_was_freed_last(p);
}

/* SMALL_STEPS; 0 if the program replaced an operator: no size passes then. Set by a constructor. */
extern hidden size_t fast_sized_steps;
/* Is it a small block of the class that `size` bytes have? False also if a fast free could not take
 * it. */
static always_inline bool fast_has_class_of(const void *p, size_t size) {
  const slab_t *s = fast_descriptor_here(p);
  size_t steps = class_steps(size);
  return s != NULL && steps - 1 < fast_sized_steps &&
         s->inverse == class_inverse[class_table[steps]];
}

/* Likewise, for a block with an alignment that malloc does not give. */
static always_inline bool fast_has_class_aligned(const void *p, size_t size, size_t alignment) {
  const slab_t *s = fast_descriptor_here(p);
  unsigned c = class_of_aligned(alignment, max_size(size, 1));
  return s != NULL && c != 0 && s->inverse == class_inverse[c];
}
/* Is it a small block that fits so many bytes without waste? False also if that needs a closer
 * look. */
static always_inline bool fast_has_bytes(const void *p, size_t size) {
  const slab_t *s = fast_descriptor_here(p);
  return s != NULL && s->inverse != 0 && fast_fits(class_size(slab_class(s)), size);
}
