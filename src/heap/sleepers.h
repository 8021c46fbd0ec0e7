/* sleepers.h - what the heaps of sleeping threads keep, taken without their help      layer 6: heap
 * Owns:    `is_taken`, `moved_ready` and `moved_freed` of a heap.
 *          Called by: enter.c, bytes.c, upkeep.c.   Calls: stock, slab, arena, os.
 * Threads: any. One thread takes at a time; another that comes meanwhile does nothing. The heaps'
 *          own threads may wake up at any moment, and wait for nobody. While a thread takes, the
 *          system holds its signals back.
 * Holds:   V1 while a call of its user has a heap, none of its words is closed
 *          V2 a heap among `sleepers` says that it is taken
 *          V3 a heap that receives what others keep is busy until it ends
 *
 * The taker skips heaps of threads that run, wait for a processor, are in a call, or have closed
 * fast paths. It also skips first-class heaps, and heaps that stand in for others in handlers. It
 * skips a process's first heap until its thread has made some slow calls beside others. */
#pragma once

#include "../stock/held.h"

/* Takes what all other heaps keep. */
hidden void sleepers_take_all(void);
/* Looks at the next heaps. Takes what they keep if their threads have not run since the last look
 * at them, SLEEP_MS ago or more. Only for the background thread. */
hidden void sleepers_look(void);

/* In a child of fork: the taker no longer exists, so opens what it had closed. */
hidden void sleepers_end_parents(void);

/* ---- for the thread whose heap it is, with it marked ---- */

/* What the heap holds and what was taken out of it, even while that is under way. */
hidden held_t sleepers_held(heap_t *h);
/* The thread ends. True: another thread is taking, and will end the heap. */
hidden bool sleepers_leave(heap_t *h);
