/* quarantine.h - freed blocks that are not used again for a while: secure grade      layer 5: stock
 * Owns:    quarantine_t.   Called by: secure.   Calls: pool, slab, os.
 * Threads: the heap's thread and its signal handlers. A place changes by one exchange, so neither
 *          loses a block of the other's. */
#ifndef STOCK_QUARANTINE_H
#define STOCK_QUARANTINE_H

#include "../os/os.h"
#include "heap.h"

/* A block that comes in takes the place of another, chosen at random, which goes. So the order of
 * reuse is random. What a heap holds back is bounded: 256 KiB of blocks up to 1 KiB, 512 KiB of
 * those up to 16 KiB, and 8 MiB of large ones. */
enum {
  QUARANTINE_SMALL = 256,
  QUARANTINE_MEDIUM = 32,
  QUARANTINE_LARGE = 8,
  QUARANTINE_PLACES = QUARANTINE_SMALL + QUARANTINE_MEDIUM + QUARANTINE_LARGE,
};
typedef struct {
  atomic_ptr_t places[QUARANTINE_PLACES]; /* small ones, medium ones, large ones */
  atomic64_t random;                      /* relaxed: two that draw the same number do no harm */
} aligned_to(64) quarantine_t;

hidden uint64_t quarantine_draw(heap_t *h);
/* The block that has to go for this one of `size` bytes; or NULL. */
hidden void *quarantine_put(heap_t *h, void *block, size_t size, uint64_t random);
/* Is a large block of so many bytes closed while it rests, and guarded while it lives? One of a
 * single slice is not: that would take longer than to make it zero, and to look whether it is. */
static inline bool quarantine_closes(size_t usable) { return usable > SLICE_SIZE - os_page_size(); }
/* Likewise of a large block, which nobody can touch from now on if it is one that is closed. */
hidden void *quarantine_put_large(heap_t *h, void *block);
/* Nobody can touch these pages until they are opened, if the system does that and there are not too
 * many such ranges. */
hidden void quarantine_close(void *at, size_t size);
/* Once for each time that they were to be closed. False: the system does not. */
hidden bool quarantine_open(void *at, size_t size);
/* One that is held back; NULL: there is none from `*place` on, which moves. */
hidden void *quarantine_take(heap_t *h, size_t *place);

#endif
