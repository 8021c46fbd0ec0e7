/* surplus.h - how much all heaps together keep beyond what each is due               layer 5: stock
 * Owns:    the sum, in slices.   Called by: magazine.c, returned.c, pool.c, refill.c.
 *          Calls: users, arena.
 * Threads: any; the sum is a bound that may be passed by a few of them.
 * Holds:   K1 the sum is the part that the runs and lists of all heaps have, while nobody changes
 *             these */
#pragma once

#include "../base/base.h"

/* The bound, in slices: SURPLUS_LEAST, or a part of what is in use. SURPLUS_EACH for each processor
 * that can run a thread with a heap may come to more: the difference is the spare part. */
enum { SURPLUS_EACH = 128, SURPLUS_LEAST = 2 * SURPLUS_EACH, SURPLUS_PART = 8 };
enum { SURPLUS_SMALL = 512 }; /* slices that a few threads may share as if they were in use */

/* So many more slices are kept, modulo 2^32. */
hidden void surplus_add(uint32_t slices);
/* True if the caller may keep so many more, at most half of what is left; they now count. */
hidden bool surplus_ask(size_t slices);
/* What is in use, in slices, and SURPLUS_SMALL, divided among the heaps that threads use. */
hidden size_t surplus_average(void);
/* Is the surplus below its bound? */
hidden bool surplus_has_room(void);
/* Is any of the spare part left, whatever is in use? */
hidden bool surplus_has_spare(void);
/* Is it above twice its bound, spare part included? Then every heap gives some back at its next
 * occasion. */
hidden bool surplus_is_too_much(void);
hidden bool surplus_is_valid(size_t kept); /* by all heaps: pool_is_valid */
