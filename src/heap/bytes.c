/* bytes.c - what a thread has allocated and freed                                     layer 6: heap
 * Contract: bytes.h. */
#include "bytes.h"

#include "../stock/stock.h"
#include "enter.h"
#include "here.h"
#include "sleepers.h"

static __thread thread_bytes_t began __attribute__((tls_model("initial-exec")));
static __thread bool has_begun __attribute__((tls_model("initial-exec")));

/* Sets all operations' marks at once, so that no handler takes a block of its lists meanwhile. */
static held_t read_held(heap_t *h) {
  bool is_own = h == heap_of_thread();
  uint8_t busy = h->busy;
  uint64_t limit = heap_here.limit;
  uintptr_t window = heap_here.window;
  h->busy = 1;
  if (is_own) here_mark();
  signal_fence();
  held_t held = sleepers_held(h);
  signal_fence();
  if (is_own) {
    heap_here.window = window;
    heap_here.limit = limit;
  }
  h->busy = busy;
  return held;
}

/* What the thread's heaps hold was taken, but the program does not have it. */
static thread_bytes_t so_far(void) {
  for (;;) { /* Progress: a further round means that a handler has allocated or freed */
    held_t all = {0, 0};
    uint64_t taken = atomic64_load_relaxed(&slab_thread.taken),
             binned = atomic64_load_relaxed(&slab_thread.binned);
    /* Bound: the depth of its handlers */
    for (heap_t *h = heap_of_thread(); h != NULL; h = atomic_ptr_load_relaxed(&h->nested))
      all = held_sum(all, read_held(h));
    if (taken == atomic64_load_relaxed(&slab_thread.taken) &&
        binned == atomic64_load_relaxed(&slab_thread.binned))
      return (thread_bytes_t){binned - all.ready, binned - taken + all.freed};
  }
}

/* A thread that asks has no wide outbox. */
static void end_wide_outbox(void) {
  heap_t *h = heap_enter_own();
  if (h == NULL) return;
  if (h->put_off != 0 && outbox_is_wide(h)) outbox_flush(h);
  heap_exit(h);
}

/* Counts what comes and goes from the first moment, also in handlers. */
thread_bytes_t heap_thread_bytes(void) {
  bool is_first = !has_begun;
  if (is_first) end_wide_outbox();
  slab_thread.is_asked = true;
  signal_fence();
  thread_bytes_t now = so_far();
  if (!has_begun) { /* else a handler came first */
    began = now;
    signal_fence();
    has_begun = true;
  }
  if (is_first) return (thread_bytes_t){0, 0};
  return (thread_bytes_t){now.allocated - began.allocated, now.freed - began.freed};
}
