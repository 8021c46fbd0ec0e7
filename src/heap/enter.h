/* enter.h - how a thread comes to a heap and leaves it, and what is due then          layer 6: heap
 * Owns:    heap_here, and a heap's marks.   Called by: closed.c, heaps.c, secure,
 *          heap; the system, when a thread ends.   Calls: stock, slab, arena, support, os.
 * Threads: any; several threads, and signal handlers, may use it for the first time at once. */
#pragma once

#include "here.h"

enum {
  TICK_CALLS = 5, /* one slow call in so many checks if a purge is due */
  /* at most so many while the clock stands still. Primes: in most loops each call has its turn */
  TICK_MOST = 31,
  LONE_MOST = 8, /* blocks that a thread frees before it gets a heap for that */
};

/* The heap to use for one operation, marked; NULL: no heap. heap_exit ends the operation. */
hidden heap_t *heap_enter(void);
hidden heap_t *heap_enter_own(void);     /* NULL also if the thread has none */
hidden heap_t *heap_enter_to_free(void); /* NULL also if it has none and frees little */
hidden void heap_exit(heap_t *h);
/* Does `h` stand in for the thread's own heap because another thread takes or took what that keeps
 * (sleepers.c), and not because a handler has interrupted a call? */
hidden bool heap_stands_in(const heap_t *h);
/* Calls `call` in each thread that has a heap, before it ends. */
hidden void heap_before_leave(void (*call)(void));
/* heap_closed was set: closes the thread's fast paths, unless a handler has interrupted them. */
hidden void heap_close_own(void);
/* The thread's malloc uses this first-class heap from now on; NULL: the thread's own. Returns the
 * previous choice. */
hidden struct fh_heap *heap_choose(struct fh_heap *heap);
/* Lets go of all that the thread's heap keeps. */
hidden void heap_give_up_own(void);
hidden void heap_watch_threads(void); /* at load: C libraries may lock to make a key */

/* Purges what is due, sets the time of the next look, and answers heap_trims. */
hidden void heap_do_due(heap_t *h);
/* At the end of a slow call, so that memory goes back even while no slice is released. */
static inline void heap_tick(heap_t *h) {
  if (unlikely(h->calls == 0)) heap_do_due(h);
  else h->calls--;
}

/* ---- quickly: for calls that do little else -------------------------------------------------- */

hidden void heap_take_mark_away(heap_t *h, bool has_fast);

/* The thread's own heap, marked; heap_exit_quickly ends the operation. NULL: heap_enter has more to
 * do, or heap_exit will have. */
static always_inline heap_t *heap_enter_quickly(void) {
  if (unlikely(heap_here.limit == 0 || heap_here.window == 0)) return NULL; /* or it has no heap */
  signal_fence(); /* a handler may have given it one just now */
  heap_t *h = heap_of_thread();
  if (unlikely((h->busy | h->trims_due) != 0 || h->calls == 0)) return NULL;
  h->busy = 1;
  signal_fence();
  here_mark();
  signal_fence();
  bool is_taken = heap_is_taken(h); /* as in mark_unless_taken (enter.c) */
  signal_fence();
  if (likely(!is_taken)) return h;
  heap_take_mark_away(h, true);
  return NULL;
}

static always_inline void heap_exit_quickly(heap_t *h) {
  ASSERT_VALID(heap_is_valid(h));
  if (likely(h->calls != 0)) h->calls--; /* a handler may have counted, too */
  signal_fence();
  here_open(atomic64_load_relaxed(&h->home));
  signal_fence();
  h->busy = 0;
}
