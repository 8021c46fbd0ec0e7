/* sleepers.h - what the heaps of sleeping threads keep, taken without their help      layer 6: heap
 * Owns:    `is_taken`, `moved_ready` and `moved_freed` of a heap.
 *          Called by: enter.c, bytes.c, upkeep.c.   Calls: stock, slab, arena, os.
 * Threads: any. One takes at a time; another that comes meanwhile does nothing. The threads whose
 *          heaps these are may wake up at any moment, and wait for nobody. While one takes, the
 *          system keeps its signals back.
 * Holds:   V1 while a call of its user has a heap, no word of it is closed
 *          V2 a heap among `sleepers` says that it is taken
 *          V3 a heap to which others' is moved is busy until it is ended
 *
 * Left out are heaps of threads that run, or wait for a processor; that are in a call, or whose
 * fast paths are closed. So are first-class heaps, and what stands in for a heap in handlers. A
 * process's first heap is left out until its thread has made some slow calls beside others. */
#pragma once

#include "../stock/held.h"

/* Takes what all other heaps keep. */
hidden void sleepers_take_all(void);
/* Looks at the next heaps, and takes what those keep whose threads have not run since the last look
 * at them, SLEEP_MS ago or more. For the background thread alone. */
hidden void sleepers_look(void);

/* In a child of fork: who took is not there any more, and what was closed is opened. */
hidden void sleepers_end_parents(void);

/* ---- for the thread whose heap it is, with it marked ---- */

/* What it holds and what was taken out of it; also while that is under way. */
hidden held_t sleepers_held(heap_t *h);
/* The thread ends. True: another is taking, and ends the heap. */
hidden bool sleepers_leave(heap_t *h);
