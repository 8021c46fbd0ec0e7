/* trailer.h - what stands behind the bytes that were asked for                      layer 7: secure
 * Owns:    nothing.   Called by: secure.c, api.   Calls: slab.
 * Threads: a block's holder writes its trailer; whoever frees the block behind it looks at it.
 *
 * A block's last word says how many bytes were asked for and by what kind of call. It is bound to
 * the block's address and to a number that only this process knows. What lies between these bytes
 * and the word is filled with a byte, likewise of the address, that no text has and that is neither
 * 0 nor 0xFF. The word begins and ends with that byte. So a write behind what was asked for changes
 * one of both. */
#ifndef SECURE_TRAILER_H
#define SECURE_TRAILER_H

#include "../base/atomic.h"
#include "../base/bits.h"
#include "../slab/slab.h"

/* By which kind of call a block came, or goes. */
typedef enum {
  ORIGIN_MALLOC,
  ORIGIN_NEW,
  ORIGIN_NEW_ARRAY,
  ORIGIN_ALIGNED, /* added to one of the last two: the form with an alignment */
  ORIGIN_NEW_ALIGNED = ORIGIN_NEW + ORIGIN_ALIGNED,
  ORIGIN_ARRAY_ALIGNED = ORIGIN_NEW_ARRAY + ORIGIN_ALIGNED,
  ORIGIN_ANY,
} origin_t;

enum { TRAILER_SIZE = 8, TRAILER_SLACK_BITS = 21, TRAILER_INFO_BITS = 24 };
#define TRAILER_SLACK_MOST (((size_t)1 << TRAILER_SLACK_BITS) - 1)

typedef struct {
  size_t size; /* bytes that were asked for */
  origin_t origin;
} trailer_t;

/* Of a block: what its trailer and filler are made of. relaxed: see block_secret */
static always_inline uint64_t trailer_hash(uintptr_t block) {
  return bits_fold(block ^ atomic64_load_relaxed(&block_secret), 0x9E3779B97F4A7C15u);
}
static always_inline uint8_t trailer_marker(uint64_t hash) {
  return (uint8_t)(0x80 + ((hash >> 57) * 0x7F >> 7)); /* 0x80 to 0xFE */
}
static always_inline uint64_t trailer_word(uint64_t hash, uint64_t info) {
  uint64_t check = ((hash + info) * 0x9E3779B97F4A7C15u) >> 40, marker = trailer_marker(hash);
  uint64_t covered = (info ^ hash >> 8) & (((uint64_t)1 << TRAILER_INFO_BITS) - 1);
  return marker << 56 | check << 32 | covered << 8 | marker;
}

static always_inline uint64_t trailer_load(const char *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}
static always_inline void trailer_store(char *at, uint64_t word) { memcpy(at, &word, sizeof word); }
#define TRAILER_EACH_BYTE UINT64_C(0x0101010101010101)

static always_inline atomic64_t *trailer_of(uintptr_t block, size_t usable) {
  return (atomic64_t *)(block + usable - TRAILER_SIZE);
}

/* Of a block that has `usable` bytes, of which `t.size` and TRAILER_SIZE are used. relaxed: the
 * block's state comes after it */
static always_inline void trailer_write(uintptr_t block, size_t usable, trailer_t t) {
  uint64_t hash = trailer_hash(block);
  size_t slack = min_size(usable - TRAILER_SIZE - t.size, TRAILER_SLACK_MOST);
  char *end = (char *)trailer_of(block, usable);
  uint64_t filler = trailer_marker(hash) * TRAILER_EACH_BYTE;
  if (slack > 16) memset(end - slack, trailer_marker(hash), slack);
  else trailer_store(end - slack, filler);
  if (slack > 8 && slack <= 16) trailer_store(end - 8, filler);
  uint64_t info = slack | (uint64_t)t.origin << TRAILER_SLACK_BITS;
  atomic64_store_relaxed(trailer_of(block, usable), trailer_word(hash, info));
}

/* What the word says of a block with this hash, whose bytes are at `bytes`; false: it is not what
 * was written. relaxed: its holder looks, or somebody who looks again */
static always_inline bool trailer_says(uint64_t hash, uintptr_t bytes, size_t usable,
                                       trailer_t *t) {
  uint64_t word = atomic64_load_relaxed(trailer_of(bytes, usable));
  uint64_t info = (word >> 8 ^ hash >> 8) & (((uint64_t)1 << TRAILER_INFO_BITS) - 1);
  size_t slack = info & TRAILER_SLACK_MOST;
  if (unlikely(word != trailer_word(hash, info)) || unlikely(slack > usable - TRAILER_SIZE))
    return false;
  *t = (trailer_t){usable - TRAILER_SIZE - slack, (origin_t)(info >> TRAILER_SLACK_BITS)};
  return true;
}
static always_inline bool trailer_read(uintptr_t block, size_t usable, trailer_t *t) {
  return trailer_says(trailer_hash(block), block, usable, t);
}

/* Is the filler behind `size` bytes as it was written? */
static always_inline bool trailer_is_filled(uint64_t hash, uintptr_t bytes, size_t usable,
                                            size_t size) {
  const char *end = (const char *)trailer_of(bytes, usable), *at = (const char *)bytes + size;
  uint64_t filler = trailer_marker(hash) * TRAILER_EACH_BYTE, other = 0;
  size_t slack = (size_t)(end - at);
  if (slack == 0) return true;
  if (slack < 8) return (trailer_load(at) ^ filler) << (64 - 8 * slack) == 0;
  if (slack <= 16) return ((trailer_load(at) ^ filler) | (trailer_load(end - 8) ^ filler)) == 0;
  for (; end - at >= 8; at += 8) other |= trailer_load(at) ^ filler; /* Bound: the block */
  return (other | (trailer_load(end - 8) ^ filler)) == 0;
}

#endif
