/* owned.h - the slabs that a heap owns                                               layer 5: stock
 * Owns:    of heap_own_t the slabs, their counts, the sweep, `others_lead` and `lane_slabs`.
 *          Called by: stock, heap.   Calls: magazine, slab, arena.
 * Threads: the heap's own. */
#pragma once

#include "heap.h"

enum {
  /* a heap with 1 to OWNED_MANY - 1 slabs of a class keeps no blocks of slabs that nobody owns:
   * adopting the slabs is better */
  OWNED_MANY = 8,
  OWNED_MOST = 16,  /* a heap with so many slabs of a class adopts no more */
  USED_UP_MOST = 2, /* a heap with more slabs of a class lets go of used-up ones */
  MUCH_PART = 8,    /* others free much of a slab if they free one block in so many */
  IDLE_MOST = 2,    /* empty slabs that a heap keeps as the first of their classes */
};

hidden slab_t *owned_first(const heap_t *h, unsigned c);
hidden void owned_add(heap_t *h, slab_t *s);                 /* the heap has just come to own it */
hidden void owned_move(heap_t *h, slab_t *s, bool as_first); /* as the first, or the last */
hidden void owned_remove(heap_t *h, slab_t *s);              /* from its list; no longer idle */
hidden void owned_let_go(heap_t *h, slab_t *s);              /* anyone may take it then */
hidden void owned_disown(heap_t *h, unsigned c);             /* lets go of all slabs of a class */
/* All blocks of the slab are free. The first slab of a class may stay, and a few in all. */
hidden void owned_note_empty(heap_t *h, slab_t *s);
hidden void owned_end_idleness(heap_t *h, slab_t *s); /* it is used again */
/* A bin is about to take `most` blocks from an owned slab: notes who freed them. If others free
 * much of a class, owning its slabs gains nothing and keeps them from heaps that would use them.
 * The class is then remote: the heap owns no slab of it until the next trial is due
 * (heap_since_trial). */
hidden void owned_note_freed(heap_t *h, unsigned c, const slab_t *s, unsigned most);
hidden void owned_recount(heap_t *h); /* a fast free was cut short */
/* The caller is in the lane. Gives up those of its next `looks` slabs that others have emptied. */
hidden void owned_sweep(heap_t *lane, unsigned looks);
