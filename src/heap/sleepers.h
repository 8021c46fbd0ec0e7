/* sleepers.h - what the heaps of sleeping threads keep, taken without their help      layer 6: heap
 * Owns:    `is_taken` of a heap.   Called by: upkeep.   Calls: stock, slab, os.
 * Threads: any. One takes at a time; another that comes meanwhile does nothing. The threads whose
 *          heaps these are may wake up at any moment, and wait for nobody. */
#pragma once

#include "../base/base.h"

/* Takes what all heaps keep in which no call is under way. */
hidden void sleepers_take_all(void);
/* Looks at the next heaps, and takes what those keep whose threads have not run since the last look
 * at them, SLEEP_MS ago or more. For the background thread alone. */
hidden void sleepers_look(void);
