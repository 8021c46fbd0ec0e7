/* bytes.c - what the calling thread has allocated and freed                           layer 6: heap
 * Contract: bytes.h. */
#include "bytes.h"

#include "../stock/held.h"
#include "here.h"

static __thread thread_bytes_t began __attribute__((tls_model("initial-exec")));

/* What the thread's heaps hold was taken, and is not the program's. */
static thread_bytes_t so_far(void) {
  held_t all = {0, 0};
  /* Bound: the depth of its handlers */
  for (const heap_t *h = heap_of_thread(); h != NULL; h = atomic_ptr_load_relaxed(&h->nested)) {
    held_t held = heap_held(h);
    all.ready += held.ready;
    all.freed += held.freed;
  }
  uint64_t taken = atomic64_load_relaxed(&slab_thread.taken),
           binned = atomic64_load_relaxed(&slab_thread.binned);
  return (thread_bytes_t){binned - all.ready, binned - taken + all.freed};
}

thread_bytes_t heap_thread_bytes(void) {
  thread_bytes_t now = so_far();
  if (!slab_thread.is_asked) {
    began = now;
    signal_fence();
    slab_thread.is_asked = true;
  }
  return (thread_bytes_t){now.allocated - began.allocated, now.freed - began.freed};
}
