/* enter.h - how a thread comes to a heap and leaves it                                layer 6: heap
 * Owns:    heap_here.   Called by: heap, os (thread exit).   Calls: stock, slab, arena, support,
 *          os.
 * Threads: any; first use may happen in several threads, and in a signal handler, at once. */
#ifndef HEAP_ENTER_H
#define HEAP_ENTER_H

#include "here.h"

enum {
  TICK_CALLS = 4,                /* one slow call of so many looks whether a purge is due; ... */
  TICK_MOST = 32,                /* ... of up to so many, if the clock stands still meanwhile */
  LONE_MOST = 8,                 /* so many blocks a thread frees before it gets a heap for that */
};

/* The heap to use for one operation, marked; NULL if none can be had. heap_exit ends the
 * operation. */
hidden heap_t *heap_enter(void);
hidden heap_t *heap_enter_own(void);               /* likewise; NULL: the thread has none */
hidden heap_t *heap_enter_to_free(void);           /* likewise, unless it frees much */
hidden void heap_exit(heap_t *h);
hidden bool heap_is_marked(const heap_t *h);       /* of a heap of the calling thread */
hidden void heap_watch_threads(void);              /* at load: what a handler must not do first */

hidden void heap_look(heap_t *h);
/* At the end of a slow call: memory goes back also while nothing more is given back. */
static inline void heap_tick(heap_t *h) {
  if (unlikely(h->calls == 0)) heap_look(h);
  else h->calls--;
}

#endif
