/* empty.h - blocks of no bytes                                                       layer 5: stock
 * Owns:    their addresses, in a region without access, and a bit for each: it lives.
 * Called by: heap.   Calls: bits, map, os.
 * Threads: any, also in signal handlers. A thread that stops in a call keeps one address from being
 *          used.
 *
 * A thread that reads or writes such a block gets SIGSEGV. The first request makes the region. If
 * that fails, or a call finds no free address, a small block has to do. The tenant of the region's
 * window is its record. */
#pragma once

#include "../arena/map.h"
#include "heap.h"

enum {
  EMPTY_ALIGNMENT = 16, /* of the addresses, which are as far apart */
  EMPTY_ALIGNED = 1024, /* the largest alignment: one address of each word has it */
  EMPTY_WORDS = 4096,   /* 64 addresses each: 4 MiB of them */
  EMPTY_LOOKS = 8,      /* words that one call looks at */
  EMPTY_STEP = 4        /* a heap's next search begins so many addresses on */
};

/* `h`: the calling thread's heap, marked or not. `alignment`: a power of two up to EMPTY_ALIGNED.
 * NULL: an ordinary block will do. */
hidden void *empty_malloc(heap_t *h, size_t alignment);
/* `p` lies in a window whose tenant is `record`; `call` is named in errors. */
hidden void empty_free(void *record, void *p, const char *call);
/* `fatal` unless it lives. */
hidden void empty_check(void *record, const void *p, const char *call);
hidden bool empty_owns(const void *record, const void *p); /* live or not */
/* Calls `visitor` with each live block; false as soon as it returns false. */
typedef bool empty_visitor_t(void *block, size_t usable, void *context);
hidden bool empty_visit(empty_visitor_t *visitor, void *context);
hidden size_t empty_count(void);    /* how many are live: reads the whole record */
hidden size_t empty_metadata(void); /* bytes of the record */
