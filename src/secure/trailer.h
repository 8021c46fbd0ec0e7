/* trailer.h - what stands behind the bytes that were asked for                      layer 7: secure
 * Owns:    nothing.   Called by: secure, api.   Calls: slab.
 * Threads: a block's holder writes its trailer; a thread that frees the block behind it checks it.
 *
 * A block's last word says how many bytes were asked for and by what kind of call. It is bound to
 * the block's address and to a number that only this process knows. The bytes between are filled
 * with one byte that also depends on the address: from 0x80 to 0xBF, so no zero, no 0xFF and no
 * letter. The word begins and ends with such a byte. So a write behind the bytes asked for changes
 * the filler or the word. */
#pragma once

#include "../base/atomic.h"
#include "../base/bits.h"
#include "../slab/slab.h"

/* The kind of call by which a block came, or goes. */
typedef enum {
  ORIGIN_MALLOC,
  ORIGIN_NEW,
  ORIGIN_NEW_ARRAY,
  ORIGIN_ALIGNED, /* added to one of the last two: the form with an alignment */
  ORIGIN_NEW_ALIGNED = ORIGIN_NEW + ORIGIN_ALIGNED,
  ORIGIN_ARRAY_ALIGNED = ORIGIN_NEW_ARRAY + ORIGIN_ALIGNED,
  ORIGIN_ANY,
} origin_t;

enum { TRAILER_SIZE = 8, TRAILER_FEW = 16, TRAILER_SLACK_BITS = 21, TRAILER_INFO_BITS = 24 };
#define TRAILER_SLACK_MOST (((size_t)1 << TRAILER_SLACK_BITS) - 1)

typedef struct {
  size_t size; /* bytes asked for */
  origin_t origin;
} trailer_t;

/* A block's trailer before any information goes in; its first byte is the filler. relaxed: see
 * secrets */
static always_inline uint64_t trailer_seal_by(uintptr_t block, const atomic64_t *secret) {
  uint64_t hash = bits_fold(block ^ atomic64_load_relaxed(secret), bits_golden);
  return (hash | 0x8000000000000080u) & 0xBFFFFFFFFFFFFFBFu;
}
static always_inline uint64_t trailer_seal(uintptr_t block) {
  return trailer_seal_by(block, &secrets.trailer);
}
static always_inline uint8_t trailer_marker(uint64_t seal) { return (uint8_t)seal; }
/* The word holds `info` twice, so a change of one byte shows. */
#define TRAILER_TWICE (((uint64_t)1 << TRAILER_INFO_BITS | 1) << 8)

#define TRAILER_EACH_BYTE UINT64_C(0x0101010101010101)
static always_inline uint64_t trailer_filler(uint64_t seal) {
  return trailer_marker(seal) * TRAILER_EACH_BYTE;
}
static races_knowingly uint64_t trailer_load(const char *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}
static races_knowingly void trailer_store(char *at, uint64_t word) {
  memcpy(at, &word, sizeof word);
}

static always_inline atomic64_t *trailer_of(uintptr_t block, size_t usable) {
  return (atomic64_t *)(block + usable - TRAILER_SIZE);
}

/* From `at` to `end`, more than TRAILER_FEW bytes. The last words may be written twice, so that
 * there are few branches. */
typedef uint64_t trailer_pair_t __attribute__((vector_size(16), aligned(1), may_alias));
enum { TRAILER_PAIR = sizeof(trailer_pair_t), TRAILER_PAIRS = 4 };
#define TRAILER_STEP (TRAILER_PAIRS * TRAILER_PAIR)
static always_inline trailer_pair_t *trailer_pair(const char *at, const char *end, size_t number) {
  uintptr_t first = (uintptr_t)at + number * TRAILER_PAIR, last = (uintptr_t)end - TRAILER_PAIR;
  return (trailer_pair_t *)(first < last ? first : last);
}
static races_knowingly void trailer_fill(char *at, char *end, uint64_t filler) {
  const trailer_pair_t pair = {filler, filler};
  for (; end - at > TRAILER_STEP; at += TRAILER_STEP) /* Bound: the block */
    for (size_t i = 0; i < TRAILER_PAIRS; i++) ((trailer_pair_t *)at)[i] = pair;
  for (size_t i = 0; i < TRAILER_PAIRS; i++) *trailer_pair(at, end, i) = pair;
}
/* What differs in four pairs; the last three may lie elsewhere. Compilers do not unroll it. */
static always_inline trailer_pair_t trailer_other(const trailer_pair_t *p, const trailer_pair_t *q,
                                                  const trailer_pair_t *r, const trailer_pair_t *s,
                                                  trailer_pair_t pair) {
  return (*p ^ pair) | (*q ^ pair) | (*r ^ pair) | (*s ^ pair);
}
static races_knowingly bool trailer_is_full(const char *at, const char *end, uint64_t filler) {
  const trailer_pair_t pair = {filler, filler}, *p;
  trailer_pair_t other = {0, 0};
  for (; end - at > TRAILER_STEP; at += TRAILER_STEP) { /* Bound: likewise */
    p = (const trailer_pair_t *)at;
    other |= trailer_other(p, p + 1, p + 2, p + 3, pair);
  }
  other |= trailer_other(trailer_pair(at, end, 0), trailer_pair(at, end, 1),
                         trailer_pair(at, end, 2), trailer_pair(at, end, 3), pair);
  return (other[0] | other[1]) == 0;
}

/* For a block of `usable` bytes, of which `t.size` and TRAILER_SIZE are used. relaxed: the block's
 * state comes after it */
static always_inline void trailer_write(uintptr_t block, size_t usable, trailer_t t) {
  uint64_t seal = trailer_seal(block);
  size_t slack = min_size(usable - TRAILER_SIZE - t.size, TRAILER_SLACK_MOST);
  char *end = (char *)trailer_of(block, usable);
  uint64_t filler = trailer_filler(seal);
  if (unlikely(slack > TRAILER_FEW)) {
    trailer_fill(end - slack, end, filler);
  } else { /* no branch: sizes are unpredictable */
    trailer_store(end - slack, filler);
    trailer_store(end - min_size(slack, 8), filler);
  }
  uint64_t info = slack | (uint64_t)t.origin << TRAILER_SLACK_BITS;
  atomic64_store_relaxed(trailer_of(block, usable), seal ^ info * TRAILER_TWICE);
}

/* What the word says of a block with this seal, whose bytes are at `bytes`; false: it was changed.
 * relaxed: the holder reads it, or a thread that reads it again */
static always_inline bool trailer_says(uint64_t seal, uintptr_t bytes, size_t usable,
                                       trailer_t *t) {
  uint64_t twice = atomic64_load_relaxed(trailer_of(bytes, usable)) ^ seal;
  uint64_t info = (uint32_t)twice >> 8;
  size_t slack = info & TRAILER_SLACK_MOST;
  if (unlikely(twice != info * TRAILER_TWICE)) return false;
  *t = (trailer_t){usable - TRAILER_SIZE - slack, (origin_t)(info >> TRAILER_SLACK_BITS)};
  return true;
}
static always_inline bool trailer_read(uintptr_t block, size_t usable, trailer_t *t) {
  return trailer_says(trailer_seal(block), block, usable, t);
}

/* Is the filler behind `size` bytes unchanged? */
static always_inline bool trailer_is_filled(uint64_t seal, uintptr_t bytes, size_t usable,
                                            size_t size) {
  const char *end = (const char *)trailer_of(bytes, usable), *at = (const char *)bytes + size;
  uint64_t filler = trailer_filler(seal);
  size_t slack = (size_t)(end - at), last = min_size(slack, 8);
  if (unlikely(slack > TRAILER_FEW)) return trailer_is_full(at, end, filler);
  uint64_t other = (trailer_load(at) ^ filler) | (trailer_load(end - last) ^ filler);
  /* bytes of the trailer, which come after mine in memory */
  bool is_big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  uint64_t all = ~(uint64_t)0;
  uint64_t not_mine = is_big_endian ? all >> 4 * last >> 4 * last : all << 4 * last << 4 * last;
  return (other & ~not_mine) == 0;
}
