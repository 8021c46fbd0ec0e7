/* here.h - what the fast paths know of a thread: its heap and its marks               layer 6: heap
 * Owns:    nothing; heap_here is enter.c's.   Called by: heap, secure, start.c, cold.c, variants.c,
 *          closed.c, macos.c.   Calls: nothing.
 * Threads: the thread's own, and its signal handlers'.
 *
 * Signals: three marks say that an operation is under way. A signal handler that interrupts it
 *          leaves the heap alone and uses the thread's next one. heap_here.limit is 0 while a bin
 *          changes, heap_here.window is 0 inside a fast free; everything else sets both to 0, and
 *          the heap's `busy`. A fast malloc touches its bin only, a fast free the slab or what
 *          `aside` has, so one may interrupt the other. The fast paths test these words anyway (the
 *          size, the window), so a mark costs no test of its own. A thread that has no heap yet,
 *          whose words are all 0, is marked too. A handler that leaves by longjmp leaves the mark
 *          behind: the heap is then retired, not repaired. While a thread's fast paths are
 *          closed, both words are 0, and `busy` alone is the mark. */
#pragma once

#include "../stock/heap.h"

enum { HERE_OPEN = SMALL_STEPS + 1 };
/* What the fast paths want to know of the calling thread. All 0 before its first call. */
typedef struct {
  size_t limit; /* HERE_OPEN: from here on malloc is not fast; 0: mark */
  /* the last byte of the window where the fast free expects blocks, or WINDOW_NONE; 0: mark */
  uintptr_t window;
  atomic_ptr_t heap;   /* the thread's own; at first, and at the end, NULL */
  uint32_t lone_frees; /* of a thread without a heap, or LONE_AT_END */
  uint32_t is_closed;  /* 1: `limit` and `window` stay 0, in this thread, until that is over */
  atomic_ptr_t chosen; /* the first-class heap of which malloc takes blocks, or NULL */
} heap_here_t;
extern hidden __thread heap_here_t heap_here __attribute__((tls_model("initial-exec")));

/* 1: the fast paths are to be closed. Every call of a thread takes the slow path, because `limit`
 * and `window` stay 0: of one that has a heap by then, from its next slow call on. Set at start, or
 * later; with the first slow call after it is 0 again they open. relaxed: each thread looks by
 * itself. */
extern hidden atomic32_t heap_closed;
static always_inline struct fh_heap *heap_chosen(void) {
  return atomic_ptr_load_relaxed(&heap_here.chosen); /* relaxed: the thread's own */
}
/* In all threads, or in this one, which has chosen a first-class heap. */
static always_inline bool heap_is_closed(void) {
  return atomic32_load_relaxed(&heap_closed) != 0 || unlikely(heap_chosen() != NULL);
}

/* The mark of a fast malloc, and that of a fast free; `window`: what it was. */
static always_inline void here_mark_malloc(void) {
  heap_here.limit = 0;
  signal_fence();
}
static always_inline void here_unmark_malloc(void) {
  signal_fence();
  heap_here.limit = HERE_OPEN;
}
static always_inline void here_mark_free(void) {
  heap_here.window = 0;
  signal_fence();
}
static always_inline void here_unmark_free(uintptr_t window) {
  signal_fence();
  heap_here.window = window;
}
static always_inline void here_mark(void) {
  heap_here.limit = 0;
  here_mark_free();
}
/* Takes both away, unless the fast paths are closed. */
static always_inline void here_open(uintptr_t window) {
  bool is_closed = heap_is_closed();
  heap_here.is_closed = is_closed;
  signal_fence(); /* a handler that finds them closed sets both words to 0 */
  if (likely(!is_closed)) {
    heap_here.window = window;
    heap_here.limit = HERE_OPEN;
  }
}

static always_inline heap_t *heap_of_thread(void) {
  return atomic_ptr_load_relaxed(&heap_here.heap);
}
/* Not 0 even of NULL. */
static always_inline uintptr_t window_of(uintptr_t p) { return p | (WINDOW_SIZE - 1); }
