/* shrink.h - what a heap gives up: a little now and then, or everything              layer 5: stock
 * Owns:    nothing.   Called by: heap.   Calls: outbox, returned, owned, magazine, tails, large,
 *          quarantine, pool, slab, support, os.
 * Threads: the heap's own; any for heap_end_rest, heap_end_parents and heap_end_dead. */
#pragma once

#include "heap.h"

hidden void heap_settle(heap_t *h);     /* all its own counts go to heap_counts */
hidden void heap_flush_bins(heap_t *h); /* and lists, and frees that were put off */
/* Gives up a little: the steps that are due. True if all classes have had their turn. */
hidden bool heap_trim(heap_t *h);
/* Gives up the watched class if the heap has filled no bin of it since. Then watches the next
 * one. */
hidden void heap_watch_class(heap_t *h, uint8_t now);
hidden void heap_answer_trim(heap_t *h);      /* does what heap_trims asks for */
hidden void heap_give_up_all(heap_t *h);      /* everything that it owns */
hidden void heap_empty(heap_t *h);            /* and what a dead thread held back: secure grade */
hidden void heap_end(heap_t *h);              /* lets go of all, and returns it to the pool */
hidden void heap_end_another(heap_t *h);      /* ends a heap taken over from another thread */
hidden void heap_drop(heap_t *h);             /* releases its slabs, live blocks included */
hidden uint32_t heap_prepare_rest(heap_t *h); /* how many pages it then holds: pool_rest */
hidden bool heap_end_rest(void);              /* ends a resting heap; false: there is none */
/* Ends a heap of a parent's thread if it finds one, unless another ended just now. */
hidden void heap_end_parents(void);
hidden void heap_end_dead(void);        /* ends all heaps that dead threads left behind */
hidden void heap_sweep_all(heap_t *h);  /* bins, lists and empty slabs go */
hidden void heap_clear_room(heap_t *h); /* the same where memory is short */
