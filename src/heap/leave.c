/* leave.c - what a heap gives up: a little when it shrinks, everything when it ends   layer 5: heap
 * Contract: heap.h. */
#include "heap.h"

#include "../base/check.h"

enum { TRIM_SHARED = 8 };

/* Puts the blocks of a bin back where they came from: all of them lie in one slab. */
static void flush_bin(heap_t *h, unsigned c) {
  uintptr_t first = h->bin[c];
  if (block_is_end(first)) return;
  slab_t *s = slab_of((void *)first);
  h->bin[c] = 0;
  if (atomic_ptr_load_relaxed(&s->owner) == h) {
    slab_put_list(s, first);
    if (slab_used(s) == 0) heap_note_empty(h, s);
    return;
  }
  uintptr_t last = first;
  unsigned count = 1; /* Bound: the slab's capacity */
  for (uintptr_t next; !block_is_end(next = block_next(last)); last = next)
    if (++count > s->capacity) fatal("heap corruption", (void *)last, "free");
  heap_push(h, s, first, last, count);
}

void heap_flush_bins(heap_t *h) {
  for (unsigned c = 1; c < CLASS_COUNT; c++) flush_bin(h, c);
}

/* A step of shrinking, taken each time the heap gives a slice back: one class's bin, and now and
 * then the frees that were put off. A heap that frees what it had passes through all of them, and
 * keeps next to nothing. */
void heap_trim(heap_t *h) {
  if (h->is_trimming) return; /* a step may give a slice back itself */
  h->is_trimming = 1;
  h->trim_class = (uint8_t)(h->trim_class + 1 < CLASS_COUNT ? h->trim_class + 1 : 1);
  flush_bin(h, h->trim_class);
  if (h->has_shared && h->trim_class % TRIM_SHARED == 0) heap_flush_shared(h);
  h->is_trimming = 0;
}

void heap_empty_magazine(heap_t *h) {
  for (slab_t *s; (s = h->magazine) != NULL;) { /* Bound: option magazine */
    h->magazine = s->next;
    h->magazine_count--;
    slab_release(s);
  }
}

void heap_let_go(heap_t *h) {
  h->is_trimming = 1;
  heap_flush_shared(h);
  heap_flush_bins(h);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    for (slab_t *s; (s = h->slabs[c]) != NULL;) { /* Bound: owned slabs */
      heap_end_idleness(h, s);
      heap_unlink_slab(h, s);
      atomic_ptr_store_relaxed(&s->tag, NULL);
      if (slab_let_go(s) == SLAB_IS_EMPTY) slab_release(s);
    }
  heap_empty_magazine(h);
  h->is_trimming = 0;
}

void heap_drop(heap_t *h) {
  heap_flush_shared(h);
  memset(h->bin, 0, sizeof h->bin);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    for (slab_t *s; (s = h->slabs[c]) != NULL;) { /* Bound: owned slabs */
      heap_unlink_slab(h, s);
      slab_release(s);
    }
  h->idle = 0;
}
