/* purge.h - gives idle dirty slices back to the system                               layer 3: arena
 * Owns:    the time and place of the last look.   Called by: slab, stock, heap.
 *          Calls: arena.c, patience, slices, support, os.
 * Threads: any, at once. The slices of one word (4 MiB at most) are claimed, discarded and freed
 *          again. So a thread that stops here holds back no more, and nobody waits for it.
 * Sync:    S-bit (bitmap.h); S-group (hint.h): free dirty slices, their group's bit, and their
 *          arena's. */
#pragma once

#include "arena.h"

/* Gives slices back; they may be claimed at once, and are purged when idle or over the budget. */
hidden void arena_release(void *first, size_t n);
/* Purges a few groups at most, and only if due. Returns the time; 0: it did not read the clock. */
hidden uint32_t purge_tick(void);
hidden void purge_over_budget(size_t released); /* at most twice that or PURGE_STEP, plus 63 */
hidden void purge_all(void);                    /* everything dirty */
