/* natural.h - natural numbers of any size, each a block of its own
 *
 * Owns:    nothing: every function gives a new number, which the caller drops with `natural_drop`.
 * Holds:   no leading zero digits: zero has none.
 *
 * Written as programs with numbers on the heap are: no result is put into an operand. */
#ifndef BENCH_NATURAL_H
#define BENCH_NATURAL_H

#include "bench.h"

typedef unsigned __int128 wide_t;

typedef struct natural {
  uint32_t count;
  uint32_t digits[]; /* to the base 2^32, the least first */
} natural_t;

static long natural_blocks; /* that have been allocated */

static inline natural_t *natural_new(uint32_t count) {
  natural_t *n = (natural_t *)bench_malloc(sizeof *n + count * sizeof *n->digits);
  n->count = count;
  natural_blocks++;
  return n;
}

static inline void natural_drop(natural_t *n) { free(n); }

static inline natural_t *natural_trimmed(natural_t *n) {
  while (n->count > 0 && n->digits[n->count - 1] == 0) n->count--;
  return n;
}

static inline natural_t *natural_from(wide_t value) {
  natural_t *n = natural_new(4);
  for (int i = 0; i < 4; i++, value >>= 32) n->digits[i] = (uint32_t)value;
  return natural_trimmed(n);
}

static inline natural_t *natural_copy(const natural_t *a) {
  natural_t *n = natural_new(a->count);
  memcpy(n->digits, a->digits, a->count * sizeof *a->digits);
  return n;
}

/* Of a number below 2^128. */
static inline wide_t natural_value(const natural_t *a) {
  wide_t value = 0;
  for (uint32_t i = a->count; i > 0; i--) value = value << 32 | a->digits[i - 1];
  return value;
}

static inline int natural_compare(const natural_t *a, const natural_t *b) {
  if (a->count != b->count) return a->count < b->count ? -1 : 1;
  for (uint32_t i = a->count; i > 0; i--) {
    if (a->digits[i - 1] != b->digits[i - 1]) return a->digits[i - 1] < b->digits[i - 1] ? -1 : 1;
  }
  return 0;
}

static inline natural_t *natural_add(const natural_t *a, const natural_t *b) {
  if (a->count < b->count) return natural_add(b, a);
  natural_t *sum = natural_new(a->count + 1);
  uint64_t carry = 0;
  for (uint32_t i = 0; i < a->count; i++, carry >>= 32) {
    carry += (uint64_t)a->digits[i] + (i < b->count ? b->digits[i] : 0);
    sum->digits[i] = (uint32_t)carry;
  }
  sum->digits[a->count] = (uint32_t)carry;
  return natural_trimmed(sum);
}

/* a - b, where b is not greater. */
static inline natural_t *natural_subtract(const natural_t *a, const natural_t *b) {
  natural_t *rest = natural_new(a->count);
  int64_t borrow = 0;
  for (uint32_t i = 0; i < a->count; i++, borrow >>= 32) {
    borrow += (int64_t)a->digits[i] - (i < b->count ? b->digits[i] : 0);
    rest->digits[i] = (uint32_t)borrow;
  }
  return natural_trimmed(rest);
}

static inline natural_t *natural_multiply(const natural_t *a, const natural_t *b) {
  natural_t *product = natural_new(a->count + b->count);
  memset(product->digits, 0, product->count * sizeof *product->digits);
  for (uint32_t i = 0; i < a->count; i++) {
    uint64_t carry = 0;
    for (uint32_t j = 0; j < b->count; j++, carry >>= 32) {
      carry += (uint64_t)a->digits[i] * b->digits[j] + product->digits[i + j];
      product->digits[i + j] = (uint32_t)carry;
    }
    product->digits[i + b->count] = (uint32_t)carry;
  }
  return natural_trimmed(product);
}

/* a / b, with what is left in *rest. */
static inline natural_t *natural_divide_small(const natural_t *a, uint32_t b, uint32_t *rest) {
  natural_t *quotient = natural_new(a->count);
  uint64_t left = 0;
  for (uint32_t i = a->count; i > 0; i--) {
    left = left << 32 | a->digits[i - 1];
    quotient->digits[i - 1] = (uint32_t)(left / b);
    left %= b;
  }
  *rest = (uint32_t)left;
  return natural_trimmed(quotient);
}

/* a times 2^shift with one more digit than a has, zero or not. For shift < 32. */
static inline natural_t *natural_shifted(const natural_t *a, int shift) {
  natural_t *n = natural_new(a->count + 1);
  uint64_t carry = 0;
  for (uint32_t i = 0; i < a->count; i++, carry >>= 32) {
    carry |= (uint64_t)a->digits[i] << shift;
    n->digits[i] = (uint32_t)carry;
  }
  n->digits[a->count] = (uint32_t)carry;
  return n;
}

/* One digit of the quotient of `u`, whose digits from `at` on are worth less than v times 2^32;
 * takes that many v away. Knuth, The Art of Computer Programming 2, 4.3.1 D: v's first digit has
 * its top bit set. So a guess from two digits is at most two too large, and is corrected when the
 * subtraction goes below zero. */
static inline uint32_t natural_quotient_digit(natural_t *u, uint32_t at, const natural_t *v,
                                              uint32_t v_count) {
  uint64_t head = (uint64_t)u->digits[at + v_count] << 32 | u->digits[at + v_count - 1];
  uint64_t guess = head / v->digits[v_count - 1];
  if (guess > UINT32_MAX) guess = UINT32_MAX;
  int64_t borrow = 0;
  uint64_t carry = 0;
  for (uint32_t i = 0; i <= v_count; i++, borrow >>= 32, carry >>= 32) {
    if (i < v_count) carry += guess * v->digits[i];
    borrow += (int64_t)u->digits[at + i] - (uint32_t)carry;
    u->digits[at + i] = (uint32_t)borrow;
  }
  while (borrow < 0) {
    guess--;
    carry = 0;
    for (uint32_t i = 0; i <= v_count; i++, carry >>= 32) {
      carry += (uint64_t)u->digits[at + i] + (i < v_count ? v->digits[i] : 0);
      u->digits[at + i] = (uint32_t)carry;
    }
    borrow += (int64_t)carry;
  }
  return (uint32_t)guess;
}

/* a / b, with what is left in *rest unless that is NULL. */
static inline natural_t *natural_divide(const natural_t *a, const natural_t *b, natural_t **rest) {
  if (natural_compare(a, b) < 0) {
    if (rest != NULL) *rest = natural_copy(a);
    return natural_new(0);
  }
  int shift = __builtin_clz(b->digits[b->count - 1]);
  natural_t *u = natural_shifted(a, shift), *v = natural_shifted(b, shift);
  natural_t *quotient = natural_new(a->count - b->count + 1);
  for (uint32_t at = quotient->count; at > 0; at--) {
    quotient->digits[at - 1] = natural_quotient_digit(u, at - 1, v, b->count);
  }
  if (rest != NULL) {
    natural_t *left = natural_new(b->count);
    for (uint32_t i = 0; i < b->count; i++) {
      left->digits[i] = (uint32_t)(((uint64_t)u->digits[i + 1] << 32 | u->digits[i]) >> shift);
    }
    *rest = natural_trimmed(left);
  }
  natural_drop(u);
  natural_drop(v);
  return natural_trimmed(quotient);
}

static inline natural_t *natural_remainder(const natural_t *a, const natural_t *b) {
  natural_t *rest;
  natural_drop(natural_divide(a, b, &rest));
  return rest;
}

/* a * b mod n. */
static inline natural_t *natural_multiply_modulo(const natural_t *a, const natural_t *b,
                                                 const natural_t *n) {
  natural_t *product = natural_multiply(a, b), *rest = natural_remainder(product, n);
  natural_drop(product);
  return rest;
}

static inline natural_t *natural_gcd(const natural_t *a, const natural_t *b) {
  natural_t *x = natural_copy(a), *y = natural_copy(b);
  while (y->count > 0) {
    natural_t *rest = natural_remainder(x, y);
    natural_drop(x);
    x = y;
    y = rest;
  }
  natural_drop(y);
  return x;
}

/* The greatest number whose square is not greater than n > 0: Newton's, from above. */
static inline natural_t *natural_root(const natural_t *n) {
  natural_t *root = natural_copy(n);
  for (;;) {
    natural_t *quotient = natural_divide(n, root, NULL), *sum = natural_add(root, quotient);
    uint32_t ignored;
    natural_t *next = natural_divide_small(sum, 2, &ignored);
    natural_drop(quotient);
    natural_drop(sum);
    if (natural_compare(next, root) >= 0) {
      natural_drop(next);
      return root;
    }
    natural_drop(root);
    root = next;
  }
}

#endif
