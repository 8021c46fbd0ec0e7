/* empty.h - blocks of no bytes                                                       layer 5: stock
 * Owns:    their addresses, in a region without access, and two bits for each.
 * Called by: heap, secure.   Calls: bitmap, map, os.
 * Threads: any, also in signal handlers. A thread that stops inside keeps one address, or those of
 *          EMPTY_STEP_WORDS words, from being used.
 * Holds:   E1 no address is free and live at once, and none that was not made is either
 *
 * Whoever reads or writes such a block gets SIGSEGV. The region is made when the first one is asked
 * for; where it cannot be had, or is full, a small block has to do. Its window's tenant is its
 * record. */
#ifndef STOCK_EMPTY_H
#define STOCK_EMPTY_H

#include "../arena/map.h"

enum {
  EMPTY_ALIGNMENT = 16, /* of the addresses, which are as far apart */
  EMPTY_WORDS = 4096,   /* 64 addresses each: 4 MiB of them */
  EMPTY_STEP_WORDS = 64 /* so many are made at a time */
};

hidden void *empty_malloc(void); /* NULL: an ordinary block will do */
/* `p` lies in a window whose tenant is `record`; `call` is named in errors. */
hidden void empty_free(void *record, void *p, const char *call);
hidden void empty_check(void *record, const void *p,
                        const char *call);                 /* `fatal` unless it lives */
hidden bool empty_owns(const void *record, const void *p); /* live or not */
/* Calls `visitor` with each that lives; false as soon as it says so. */
typedef bool empty_visitor_t(void *block, size_t usable, void *context);
hidden bool empty_visit(empty_visitor_t *visitor, void *context);
hidden size_t empty_metadata(void); /* bytes of the record */
hidden bool empty_is_valid(void);   /* while nobody claims or frees */

#endif
