/* poisson.h - points that fall at random on what a program allocates               layer 2: support
 * Owns:    nothing: the state is the caller's.   Called by: sample.c, profile.c.   Calls: nothing.
 * Threads: any, each with its own state. No libm, no libc.
 *
 * The points of a Poisson process with one in `mean` bytes: the distance from any byte to the next
 * point is exponential, whatever lies before it. So each class of each heap can have its own
 * points, and all of them together are such a process again. */
#pragma once

#include "../base/base.h"

enum { POISSON_ONE = 1024 };      /* a weight of 1 */
#define POISSON_MEAN_MOST GiB(64) /* bytes: beyond it weights lose precision */

/* Bytes from here to the one with the next point, inclusive; at least 1. `*state`: anything at
 * first. `mean`: 1 to POISSON_MEAN_MOST. */
hidden uint64_t poisson_distance(uint64_t *state, uint64_t mean);

/* How many blocks of `size` bytes one with a point in it stands for, times POISSON_ONE: 1 / (1 -
 * exp(-size / mean)). `size`: not 0. */
hidden uint64_t poisson_weight(uint64_t size, uint64_t mean);
