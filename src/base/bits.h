/* bits.h - the bits of a word, and ranges of bytes that are to be zero                layer 0: base
 * Owns:    nothing.     Called by: everyone.     Calls: check.
 * Threads: any. */
#pragma once

#include "check.h"

static inline bool is_power_of_two(size_t n) { return n != 0 && (n & (n - 1)) == 0; }
/* `to`: power of two */
static inline size_t align_up(size_t n, size_t to) {
  ASSERT(is_power_of_two(to));
  return (n + to - 1) & ~(to - 1);
}
static inline size_t align_down(size_t n, size_t to) {
  ASSERT(is_power_of_two(to));
  return n & ~(to - 1);
}

/* `w` is not 0. */
static inline unsigned bits_lowest(uint64_t w) {
  ASSERT(w != 0);
  return (unsigned)__builtin_ctzll(w);
}
static inline uint64_t bits_lowest_one(uint64_t w) { return w & (~w + 1); } /* 0 of 0 */
/* That one and all that follow it without a gap; 0 of 0. */
static inline uint64_t bits_lowest_run(uint64_t w) { return w & ~(w + bits_lowest_one(w)); }
static inline unsigned bits_highest(uint64_t w) {
  ASSERT(w != 0);
  return 63u - (unsigned)__builtin_clzll(w);
}

/* 2^64 by the golden ratio: odd, and without a pattern. */
static const uint64_t bits_golden = 0x9E3779B97F4A7C15u;

/* One to one, and each bit of the result depends on all of `w`: Sebastiano Vigna's splitmix64. */
static inline uint64_t bits_mix(uint64_t w) {
  w = (w ^ w >> 30) * 0xBF58476D1CE4E5B9u;
  w = (w ^ w >> 27) * 0x94D049BB133111EBu;
  return w ^ w >> 31;
}

/* The two halves of a product, as one word: after Wang Yi's wyhash. */
static always_inline uint64_t bits_fold(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
  __extension__ unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
#else /* by halves, as on paper */
  uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX), high = (a >> 32) * (b >> 32);
  uint64_t one = (a >> 32) * (b & UINT32_MAX), other = (a & UINT32_MAX) * (b >> 32);
  uint64_t middle = (low >> 32) + (one & UINT32_MAX) + other;
  return a * b ^ (high + (one >> 32) + (middle >> 32));
#endif
}

typedef uint64_t pair_t __attribute__((vector_size(16), may_alias));
#if UINTPTR_MAX == UINT32_MAX /* no pair_t is ever passed: all is inlined */
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

/* Zeroes `n` bytes: 32 to BITS_FEW. Here and below `n` and the address are multiples of 16. No
 * loop, and beyond 64 bytes no branch: some words are written twice, from either end. */
enum { BITS_FEW = 256 };
static always_inline void bits_clear_two(char *at) {
  const pair_t zero = {0, 0};
  ((pair_t *)at)[0] = ((pair_t *)at)[1] = zero;
}
static always_inline void bits_clear_few(void *at, size_t n) {
  char *from = at, *last = from + n - 32;
  bits_clear_two(from), bits_clear_two(last);
  if (n <= 64) return;
  for (size_t i = 32, d; i < BITS_FEW / 2; i += 32) { /* Bound: 3 */
    d = min_size(i, n - 32);
    bits_clear_two(from + d), bits_clear_two(last - d);
  }
}

static always_inline pair_t bits_of_two(const char *at) {
  return ((const pair_t *)at)[0] | ((const pair_t *)at)[1];
}
static always_inline bool bits_are_none(pair_t bits) { return (bits[0] | bits[1]) == 0; }

/* For more than BITS_FEW bytes, in steps. The last step ends with the range, and may overlap. */
enum { BITS_STEP = 128 };
static always_inline char *bits_step(char *from, char *end) {
  return from < end - BITS_STEP ? from : end - BITS_STEP;
}
static always_inline pair_t bits_of_step(const char *at) {
  return bits_of_two(at) | bits_of_two(at + 32) | bits_of_two(at + 64) | bits_of_two(at + 96);
}
static inline bool bits_are_zero_all(void *at, size_t n) {
  pair_t other = {0, 0};
  for (char *from = at, *end = from + n; from < end; from += BITS_STEP) /* Bound: `n` */
    other |= bits_of_step(bits_step(from, end));
  return bits_are_none(other);
}
/* Does not write where it reads zero: a page that was never written then takes no memory, and a
 * cache line need not be written back. */
static inline void bits_clear_all(void *at, size_t n) {
  for (char *from = at, *end = from + n; from < end; from += BITS_STEP) { /* Bound: likewise */
    char *step = bits_step(from, end);
    if (bits_are_none(bits_of_step(step))) continue;
    for (size_t i = 0; i < BITS_STEP; i += 32) bits_clear_two(step + i);
  }
}

/* Do `n` bytes read as zero? */
static always_inline bool bits_are_zero(const void *at, size_t n) {
  const char *from = at, *last = from + n - 32;
  if (unlikely(n > BITS_FEW)) return bits_are_zero_all((void *)(uintptr_t)at, n);
  pair_t other = *(const pair_t *)from;
  if (n > 16) other |= bits_of_two(from) | bits_of_two(last);
  if (n > 64)
    for (size_t i = 32, d; i < BITS_FEW / 2; i += 32) { /* Bound: 3 */
      d = min_size(i, n - 32);
      other |= bits_of_two(from + d) | bits_of_two(last - d);
    }
  return bits_are_none(other);
}

/* Seven bits a byte, the lowest first; the eighth is set in all but the last. Returns the end. */
static inline unsigned char *bits_put_varint(unsigned char *at, uint64_t n) {
  for (; n > 127; n >>= 7) *at++ = (unsigned char)(n | 128); /* Bound: the bits of a word */
  *at++ = (unsigned char)n;
  return at;
}

static inline unsigned bits_count(uint64_t w) { return (unsigned)__builtin_popcountll(w); }

/* `n` ones, starting at bit `first`; 1 <= n, first + n <= 64. */
static inline uint64_t bits_run(unsigned first, unsigned n) {
  ASSERT(n >= 1 && first + n <= 64);
  return (~(uint64_t)0 >> (64 - n)) << first;
}

/* Ones where a run of at least `n` ones of `w` begins; 1 <= n <= 64. At most six steps. */
static inline uint64_t bits_runs_of(uint64_t w, unsigned n) {
  ASSERT(n >= 1 && n <= 64);
  for (unsigned have = 1; have < n && w != 0;) {
    unsigned step = have < n - have ? have : n - have;
    w &= w >> step;
    have += step;
  }
  return w;
}

/* `at`: where runs of `n` ones begin. If some of them continue with a run of `more` ones (`of`:
 * where those begin), only the longer ones stay. */
static always_inline void bits_go_on(uint64_t *at, unsigned *n, uint64_t of, unsigned more) {
  uint64_t longer = *at & of >> *n;
  *n += longer != 0 ? more : 0;
  *at = longer != 0 ? longer : *at;
}

/* Length of the longest run of ones, 32 at most. */
static inline unsigned bits_longest_run(uint64_t w) {
  uint64_t two = w & w >> 1, four = two & two >> 2, eight = four & four >> 4;
  uint64_t sixteen = eight & eight >> 8, at = ~(uint64_t)0;
  unsigned n = 0;
  if ((sixteen & sixteen >> 16) != 0) return 32;
  bits_go_on(&at, &n, sixteen, 16);
  bits_go_on(&at, &n, eight, 8);
  bits_go_on(&at, &n, four, 4);
  bits_go_on(&at, &n, two, 2);
  bits_go_on(&at, &n, w, 1);
  return n;
}

/* Number of ones at the low end of `w`, and at its high end: 0 to 64. */
static inline unsigned bits_ones_below(uint64_t w) { return ~w == 0 ? 64 : bits_lowest(~w); }
static inline unsigned bits_ones_above(uint64_t w) { return ~w == 0 ? 64 : 63 - bits_highest(~w); }
