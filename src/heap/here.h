/* here.h - what the fast paths know of a thread: its heap and its marks               layer 6: heap
 * Owns:    nothing; heap_here is enter.c's.   Called by: heap, secure, start.c, cold.c, variants.c,
 *          closed.c, macos.c.   Calls: nothing.
 * Threads: the thread's own, and its signal handlers'.
 *
 * Signals: three marks say that an operation is under way. A signal handler that interrupts it
 *          leaves the heap alone and uses the thread's next one. heap_here.limit is 0 while a bin
 *          changes, heap_here.window is 0 inside a fast free; every other one of the thread's heap
 *          sets both to 0, and sets the heap's `busy`. A fast malloc touches only its bin, a fast
 *          free the slab or what `aside` has, so one may interrupt the other. The fast paths test
 *          these words anyway (the size, the window), so a mark costs no test of its own. A thread
 *          without a heap yet has all words 0, so it is marked too. A handler that leaves by
 *          longjmp leaves the mark behind: the heap is then retired, not repaired. While a thread's
 *          fast paths are closed, both words are 0, and only `busy` is the mark. */
#pragma once

#include "../stock/heap.h"

enum { HERE_OPEN = SMALL_STEPS + 1 };
/* What the fast paths need to know of the calling thread. All 0 before its first call. */
typedef struct {
  size_t limit; /* HERE_OPEN: from so many steps on malloc is slow; 0: mark */
  /* the last byte of the window where the fast free expects blocks, or WINDOW_NONE; 0: mark */
  uintptr_t window;
  atomic_ptr_t heap;   /* the thread's own; NULL at first and at the end */
  uint32_t lone_frees; /* frees without a heap, or LONE_AT_END */
  uint32_t is_closed;  /* 1: in this thread `limit` and `window` stay 0 until it is 0 again */
  atomic_ptr_t chosen; /* the first-class heap that malloc uses, or NULL */
} heap_here_t;
extern hidden __thread heap_here_t heap_here __attribute__((tls_model("initial-exec")));

/* 1: the fast paths must close. Each call of a thread then takes the slow path, because `limit` and
 * `window` stay 0. If the thread already has a heap, this begins with its next slow call. Set at
 * start or later. The first slow call after it is 0 again opens them. relaxed: each thread looks by
 * itself. */
extern hidden atomic32_t heap_closed;
static always_inline struct fh_heap *heap_chosen(void) {
  return atomic_ptr_load_relaxed(&heap_here.chosen); /* relaxed: the thread's own */
}
/* In all threads, or in this one because it has chosen a first-class heap. */
static always_inline bool heap_is_closed(void) {
  return atomic32_load_relaxed(&heap_closed) != 0 || unlikely(heap_chosen() != NULL);
}

/* The marks of a fast malloc and of a fast free; `window`: its value before. */
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
/* Removes both marks, unless the fast paths are closed. */
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
/* Not 0, even for NULL. */
static always_inline uintptr_t window_of(uintptr_t p) { return p | (WINDOW_SIZE - 1); }
