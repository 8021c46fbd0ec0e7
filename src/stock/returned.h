/* returned.h - what a heap has freed of slabs that nobody owns, for its bins         layer 5: stock
 * Owns:    `returned`, `returned_most`, `returned_room` and `lengthened` of a heap. A fast free
 *          adds to the list (fast.h).   Called by: stock, heap.   Calls: outbox, surplus, slab.
 * Threads: the heap's own. */
#pragma once

#include "heap.h"

enum {
  RETURN_FIRST = 8,           /* blocks of a class that are kept at first */
  RETURN_MOST = 64,           /* blocks in a medium class's list that has not grown, at most */
  RETURN_SMALL_BYTES = 16384, /* bytes in a list of a class below MEDIUM_CLASS, at most */
  RETURN_BYTES = 131072,      /* bytes in a list of a medium class that has not grown, at most */
  RETURN_PART = 96,           /* or this part of what a heap has on average, if less */
  SIFT_BLOCKS = 512,          /* blocks of a class between two siftings of its list */
  DOUBLED_MOST = 7,           /* how often a medium class's list may double: to 128-fold */
  LOOK_PART = 4,              /* one look at its use, drawn by lot, for so many times its blocks */
  LITTLE_USED_MOST = 14,      /* looks in a row that found little use; with one more it is halved */
};

/* How many blocks the class's list has. */
hidden size_t returned_count(const heap_t *h, unsigned c);
/* Is the list worth a bin, or half as long as it may be? */
hidden bool returned_has(const heap_t *h, unsigned c);
/* Takes the list and its length. The list is empty then. */
hidden uintptr_t returned_take(heap_t *h, unsigned c, unsigned *count);
/* Puts back the blocks whose slabs are less than half live, so that these slabs become empty. Call
 * it before the outbox is flushed. */
hidden void returned_sift(heap_t *h, unsigned c);
/* The list is not worth a bin: blocks come from elsewhere. It may be longer from now on. */
hidden void returned_missed(heap_t *h, unsigned c);
/* The list may hold nothing until it is renewed. */
hidden void returned_give_up(heap_t *h, unsigned c);
/* Forgets how long the lists of all classes had to be, and gives back their part of the surplus. */
hidden void returned_forget(heap_t *h);
/* Moves the lists' part of the surplus to the lists of another heap, which have none. */
hidden void returned_move(heap_t *to, heap_t *from);
/* The part of the surplus that the lists of all classes have, in slices. */
hidden size_t returned_surplus(const heap_t *h);
