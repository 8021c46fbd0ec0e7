/* owned.h - the slabs that a heap owns                                               layer 5: stock
 * Owns:    heap_own_t, but for `growth`.   Called by: stock, heap.   Calls: magazine, slab, arena.
 * Threads: the heap's own. */
#ifndef STOCK_OWNED_H
#define STOCK_OWNED_H

#include "heap.h"

enum {
  /* a heap with fewer slabs of a class adopts what nobody owns, and keeps no blocks of it */
  OWNED_MANY = 8,
  OWNED_MAX = 16,                /* a heap with so many slabs of a class adopts no more */
  USED_UP_MAX = 2,               /* ... and lets go of used-up ones from here on */
};

enum {
  IDLE_MAX = 2,                  /* empty slabs that a heap keeps as the first of their classes */
};

hidden slab_t *owned_first(const heap_t *h, unsigned c);
/* A slab that has just become this heap's; one that comes first, or last, from now on; one that
 * leaves the list; one that is let go of. */
hidden void owned_add(heap_t *h, slab_t *s);
hidden void owned_move(heap_t *h, slab_t *s, bool as_first);
hidden void owned_remove(heap_t *h, slab_t *s);
hidden void owned_let_go(heap_t *h, slab_t *s);
hidden void owned_disown(heap_t *h, unsigned c);   /* of all of a class */
/* All blocks of a slab are free: the first of a class may stay, a few of them in all. It is used
 * again. */
hidden void owned_note_empty(heap_t *h, slab_t *s);
hidden void owned_end_idleness(heap_t *h, slab_t *s);
/* Did others free what is free in the owned slabs of the class? Then to own them brings nothing and
 * keeps them from heaps that would use them: it owns none from then on, until it has taken so many
 * blocks more that a trial is worth while. */
hidden bool owned_is_remote(heap_t *h, unsigned c);
hidden void owned_recount(heap_t *h);              /* a fast free was cut short */
/* Of a lane, by who is in it: of the next `looks` slabs those that others have emptied go. */
hidden void owned_sweep(heap_t *lane, unsigned looks);

#endif
