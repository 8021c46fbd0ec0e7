/* bytes.h - what a thread has allocated and freed                                     layer 6: heap
 * Owns:    where a thread's bytes begin.   Called by: api.   Calls: sleepers, here.h, stock, slab.
 * Threads: its own, and its handlers. */
#pragma once

#include "../base/base.h"

/* Bytes since the calling thread first asked; both are 0 at that time. */
typedef struct {
  uint64_t allocated, freed;
} thread_bytes_t;
hidden thread_bytes_t heap_thread_bytes(void);
