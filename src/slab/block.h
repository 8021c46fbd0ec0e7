/* block.h - a block on a list of free ones                                            layer 4: slab
 * Owns:    what a free block holds.
 *          Called by: slab, stock, heap, secure, api.   Calls: bits, check.
 * Threads: a block belongs to its holder, or to the list that it is on; visitors read its key.
 * Signals: each step leaves a list whole (signal_fence). */
#pragma once

#include "../base/atomic.h"
#include "../base/sizeclass.h"

/* What a free block holds: the next block's address, 0 at the end, and behind it a word that only a
 * freed block has. */
typedef struct {
  uint64_t next;
  atomic64_t key; /* written by its holder, read by visitors too */
} free_block_t;

/* For the secure grade: numbers that only this process knows, set before the first block, on a page
 * of their own (secrets.h). In other grades they stay 0, and nothing reads them. */
enum { SECRETS_OLDER = 7, SECRETS_PAGE = SECURE ? PAGE_MOST : 128 };
typedef union {
  struct {
    atomic64_t cover;                /* of links and keys */
    atomic64_t trailer;              /* seals blocks allocated from now on */
    atomic64_t older[SECRETS_OLDER]; /* what sealed parents' blocks; 0: none */
  };
  char page[SECRETS_PAGE];
} aligned_to(SECRETS_PAGE) secrets_t;
extern hidden secrets_t secrets;
/* In the secure grade nobody can guess what a free block holds, or copy it from another.
 * relaxed: see `secrets` */
static always_inline uint64_t block_cover(uintptr_t block) {
  return SECURE ? bits_fold(block ^ atomic64_load_relaxed(&secrets.cover), 0xD6E8FEB86659FD93u) : 0;
}

/* Added to the block's address. A live block that stores just this counts as free: promises.md. */
#define BLOCK_KEY 0x6B79A5C3u
static always_inline uint64_t block_key(uintptr_t block) {
  return BLOCK_KEY + (SECURE ? block_cover(block) : block);
}
static always_inline free_block_t *block_at(uintptr_t block) { return (free_block_t *)block; }
static always_inline bool block_may_be_link(uintptr_t next) {
  return ((uint64_t)next >> ADDRESS_BITS | next % CLASS_STEP) == 0;
}
static always_inline uintptr_t block_uncover(uintptr_t block, uint64_t cover) {
  uintptr_t next = block_at(block)->next ^ cover;
  if (SECURE && unlikely(!block_may_be_link(next)))
    fatal("write after free", (void *)block, "malloc");
  return next;
}
static always_inline uintptr_t block_next(uintptr_t block) {
  return block_uncover(block, block_cover(block));
}
/* The block after the first one of a bin, which leaves the bin. relaxed: it is the caller's */
static always_inline uintptr_t block_pop(uintptr_t block) {
  uint64_t cover = block_cover(block);
  if (SECURE && unlikely(!atomic64_is_relaxed(&block_at(block)->key, BLOCK_KEY + cover)))
    fatal("write after free", (void *)block, "malloc");
  return block_uncover(block, cover);
}
static always_inline bool block_is_free(uintptr_t block) {
  /* relaxed: its holder wrote it */
  return atomic64_is_relaxed(&block_at(block)->key, block_key(block));
}
static always_inline void block_set_free(uintptr_t block) {
  atomic64_store_relaxed(&block_at(block)->key, block_key(block));
}
static always_inline void block_set_live(uintptr_t block) {
  atomic64_store_relaxed(&block_at(block)->key, 0);
}
/* A freed block gets its link before its key is read. On a page never written, reading first would
 * cost two faults, the second of which involves all processors of the process. */
static always_inline void block_set_next(uintptr_t block, uintptr_t next) {
  block_at(block)->next = next ^ block_cover(block);
  signal_fence();
}
static always_inline void block_link(uintptr_t block, uintptr_t next) {
  uint64_t cover = block_cover(block);
  atomic64_store_relaxed(&block_at(block)->key, BLOCK_KEY + (SECURE ? cover : block));
  block_at(block)->next = next ^ cover;
}

/* The block is about to be linked. */
static inline void block_refuse_double_free(uintptr_t block, const char *call) {
  block_set_next(block, 0);
  if (block_is_free(block)) fatal("double free", (void *)block, call);
}
