/* quarantine.h - freed blocks that are not used again for a while: secure grade      layer 5: stock
 * Owns:    quarantine_t.   Called by: secure.   Calls: slab, arena, support, os.
 * Threads: the heap's thread and its signal handlers. A slot changes by one exchange, so neither
 *          loses the other's block. */
#pragma once

#include "../base/bits.h"
#include "../os/os.h"
#include "heap.h"

/* An incoming block takes the slot of a random other one, which goes. So the order of reuse is
 * random. A heap holds back a bounded amount: 256 KiB of blocks up to 1 KiB, 512 KiB of blocks up
 * to 16 KiB, and 8 MiB of large ones. */
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
  atomic64_t own_random;                /* used for `random` if the system does not report forks */
} aligned_to(64) quarantine_t;

static inline quarantine_t *heap_quarantine(const heap_t *h) { return h->aside->quarantine[0]; }

/* Called at first, and in a child of fork. */
hidden uint64_t quarantine_seed(void);
static always_inline uint64_t quarantine_draw(quarantine_t *q) {
  uint64_t random = atomic64_load_relaxed(q->random) + bits_golden;
  if (unlikely(random == bits_golden)) random = quarantine_seed();
  atomic64_store_relaxed(q->random, random);
  return bits_fold(random, 0xD6E8FEB86659FD93u);
}

enum { QUARANTINE_SMALL_SIZE = 1 << 10 }; /* bytes; a larger block is a medium one */
/* The block, or NULL, that makes way for this one of `size` bytes. `number`: quarantine_draw's. */
static always_inline void *quarantine_put(quarantine_t *q, void *block, size_t size,
                                          uint64_t number) {
  size_t slot = likely(size <= QUARANTINE_SMALL_SIZE)
                  ? number % QUARANTINE_SMALL
                  : QUARANTINE_SMALL + number % QUARANTINE_MEDIUM;
  return atomic_ptr_exchange_own(&q->slots[slot], block);
}
/* The block that makes way for this large one, which is then closed unless that fails. */
hidden void *quarantine_put_large(quarantine_t *q, void *block);
/* A large block that must go first, for its memory; NULL: none. */
hidden void *quarantine_give_way(quarantine_t *q, void *block);
/* Must be called before all others. */
hidden void quarantine_start(void);
/* For the heap with this number, before it is used. */
hidden void quarantine_begin(quarantine_t *q, size_t number);
/* Nobody can touch a large block from byte `from` on until it is opened. False: the system refuses,
 * there are too many such blocks, or too many were protected recently. */
hidden bool quarantine_protect(void *block, size_t from);
/* Opens all of it, if protected. False: the system refuses. */
hidden bool quarantine_unprotect(void *block);
/* Opens an ended block for large_free; it may lose its pages. False: as above. */
hidden bool quarantine_open_to_free(void *block);
/* A block that was held back, from `*slot` on, which moves on. NULL: none. */
hidden void *quarantine_take(quarantine_t *q, size_t *slot);
