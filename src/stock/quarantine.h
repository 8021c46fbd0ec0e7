/* quarantine.h - freed blocks that are not used again for a while: secure grade      layer 5: stock
 * Owns:    quarantine_t.   Called by: secure.   Calls: slab, arena, support, os.
 * Threads: the heap's thread and its signal handlers. A slot changes by one exchange, so neither
 *          loses a block of the other's. */
#pragma once

#include "../base/bits.h"
#include "../os/os.h"
#include "heap.h"

/* A block that comes in takes the slot of another, chosen at random, which goes. So the order of
 * reuse is random. What a heap holds back is bounded: 256 KiB of blocks up to 1 KiB, 512 KiB of
 * those up to 16 KiB, and 8 MiB of large ones. */
enum {
  QUARANTINE_SMALL = 256,
  QUARANTINE_MEDIUM = 32,
  QUARANTINE_LARGE = 8,
  QUARANTINE_SLOTS = QUARANTINE_SMALL + QUARANTINE_MEDIUM + QUARANTINE_LARGE,
  QUARANTINE_BYTES = 8 << 20, /* of large ones that keep their memory */
};
typedef struct quarantine {
  atomic_ptr_t slots[QUARANTINE_SLOTS]; /* small ones, medium ones, large ones */
  atomic64_t *random;                   /* const; relaxed: two that draw the same do no harm */
  atomic64_t own_random;                /* where that is, if the system says nothing of forks */
} aligned_to(64) quarantine_t;

static inline quarantine_t *heap_quarantine(const heap_t *h) { return h->aside->quarantine[0]; }

/* At first, and in a child of fork. */
hidden uint64_t quarantine_seed(void);
static always_inline uint64_t quarantine_draw(quarantine_t *q) {
  uint64_t random = atomic64_load_relaxed(q->random) + bits_golden;
  if (unlikely(random == bits_golden)) random = quarantine_seed();
  atomic64_store_relaxed(q->random, random);
  return bits_fold(random, 0xD6E8FEB86659FD93u);
}

enum { QUARANTINE_SMALL_SIZE = 1 << 10 }; /* bytes; from there on a block is a medium one */
/* The block that has to go for this one of `size` bytes; or NULL. `number`: as it was drawn. */
static always_inline void *quarantine_put(quarantine_t *q, void *block, size_t size,
                                          uint64_t number) {
  size_t slot = likely(size <= QUARANTINE_SMALL_SIZE)
                  ? number % QUARANTINE_SMALL
                  : QUARANTINE_SMALL + number % QUARANTINE_MEDIUM;
  return atomic_ptr_exchange_own(&q->slots[slot], block);
}
/* The block that has to go for this large one, which is closed from now on unless that fails. */
hidden void *quarantine_put_large(quarantine_t *q, void *block);
/* A large one that has to go before that, for its memory; NULL: none. */
hidden void *quarantine_give_way(quarantine_t *q, void *block);
/* Before any other call. */
hidden void quarantine_start(void);
/* Of the heap with this number, before it is used. */
hidden void quarantine_begin(quarantine_t *q, size_t number);
/* Nobody can touch a large block from byte `from` on until it is opened. False: the system does not
 * do that, there are too many such blocks, or too many were protected of late. */
hidden bool quarantine_protect(void *block, size_t from);
/* All of it, if it is protected. False: the system does not. */
hidden bool quarantine_unprotect(void *block);
/* Opens one that has ended and goes to large_free next; it may lose its pages. False: as above. */
hidden bool quarantine_open_to_free(void *block);
/* One that is held back; NULL: there is none from `*slot` on, which moves. */
hidden void *quarantine_take(quarantine_t *q, size_t *slot);
