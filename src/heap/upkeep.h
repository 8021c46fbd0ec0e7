/* upkeep.h - memory that goes back on request, and in the background                  layer 6: heap
 * Owns:    the background thread.   Called by: api.   Calls: enter, firstclass, stock, slab,
 *          arena, support, os.
 * Threads: any. */
#pragma once

#include "../base/base.h"

hidden void heap_collect(bool force); /* fh_collect */
hidden void heap_start(void);         /* at load: what a handler must not do first */
/* At exit: `fatal` if somebody overwrote the link or key of a free block on the calling thread's
 * lists. */
hidden void heap_check_last(void);
