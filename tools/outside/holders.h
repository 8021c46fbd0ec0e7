/* holders.h - sampled blocks, summed by call stack and size
 * Owns:    holders_t.   Called by: why.c.   Calls: libc. */
#ifndef OUTSIDE_HOLDERS_H
#define OUTSIDE_HOLDERS_H

#include <stddef.h>
#include <stdint.h>

enum { HOLDER_FRAMES = 8 };

typedef struct {
  uint32_t stack, youngest, oldest; /* the last two in ms */
  uint32_t samples, frame_count;
  uint64_t size, bytes; /* of one block, 0: blocks of all sizes; of all of them */
  uintptr_t frames[HOLDER_FRAMES];
} holder_t;

/* All zero at first. */
typedef struct {
  holder_t *all;
  size_t count, room;
  uint32_t *places; /* a number in `all`, and 1; 0: free. At least half of them are */
  size_t place_count;
  uint64_t looks; /* at places: work is in proportion to them */
} holders_t;

/* Adds blocks of `one`'s stack and size. A stack and size that were not there yet get a holder
 * with its frames, which is returned; else NULL. */
holder_t *holders_add(holders_t *h, const holder_t *one);
/* Adds all of `from` to `to`, whatever their sizes. */
void holders_add_stacks(holders_t *to, const holders_t *from);
/* Those with most bytes come first. Nothing is added after that. */
void holders_sort(holders_t *h);
void holders_empty(holders_t *h); /* what memory there is stays */
void holders_free(holders_t *h);

#endif
