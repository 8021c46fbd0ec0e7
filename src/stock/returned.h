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
  RETURN_PART = 96,           /* this part of what a heap has on average, if that is less */
  SIFT_BLOCKS = 512,          /* of a class, from one sifting of its list to the next */
  DOUBLED_MOST = 7,           /* times that a medium class's list may double: to 128-fold */
};

/* How many blocks the list of the class has. */
hidden size_t returned_count(const heap_t *h, unsigned c);
/* Is the list worth a bin, or half as long as it may be? */
hidden bool returned_has(const heap_t *h, unsigned c);
/* The list with its length; the heap's is empty then, and may hold what returned_renew says. */
hidden uintptr_t returned_take(heap_t *h, unsigned c, unsigned *count);
/* Puts those blocks back of whose slabs less than half is live, so that these become empty. Before
 * the outbox is flushed. */
hidden void returned_sift(heap_t *h, unsigned c);
/* Settles how many blocks the list may hold from now on. It is empty. */
hidden void returned_renew(heap_t *h, unsigned c);
/* The list may hold nothing until it is renewed. */
hidden void returned_give_up(heap_t *h, unsigned c);
/* Forgets how long the lists of all classes had to be; their part of the surplus goes back. */
hidden void returned_forget(heap_t *h);
/* What the lists had of the surplus is that of another heap's lists, which have none. */
hidden void returned_move(heap_t *to, heap_t *from);
/* What the lists of all classes have of the surplus, in slices. */
hidden size_t returned_surplus(const heap_t *h);
