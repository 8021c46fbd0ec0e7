/* bytes.h - what the calling thread has allocated and freed                           layer 6: heap
 * Owns:    where a thread's counts begin.   Called by: ext.c.   Calls: held, slab.
 * Threads: the calling thread's own, and its handlers'. */
#pragma once

#include "../base/base.h"

/* Bytes since the thread first asked; both are 0 then. */
typedef struct {
  uint64_t allocated, freed;
} thread_bytes_t;
hidden thread_bytes_t heap_thread_bytes(void);
