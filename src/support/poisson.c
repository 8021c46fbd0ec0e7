/* poisson.c - points that fall at random on what a program allocates               layer 2: support
 * Contract: poisson.h. */
#include "poisson.h"

#include "../base/bits.h"

static uint64_t next_random(uint64_t *state) { return bits_mix(*state += bits_golden); }

/* The natural logarithm of `x` / 2^64, to seven digits; `x` is not 0. */
static double log_of_part(uint64_t x) {
  const double ln_2 = 0.69314718055994531;
  int shift = __builtin_clzll(x);
  double m = (double)(x << shift >> 11) / (double)((uint64_t)1 << 52); /* 1 to 2 */
  double t = (m - 1) / (m + 1), tt = t * t, sum = 0;
  for (int i = 13; i > 0; i -= 2) sum = sum * tt + 2.0 / i; /* the series of artanh */
  return sum * t - ln_2 * (shift + 1);
}

uint64_t poisson_distance(uint64_t *state, uint64_t mean) {
  ASSERT(mean != 0 && mean <= POISSON_MEAN_MOST);
  double distance = -log_of_part(next_random(state) | 1) * (double)mean;
  return (uint64_t)distance + 1;
}

/* exp(-x) for x from 0 to 32, to seven digits. */
static double exp_of_minus(double x) {
  enum { HALVINGS = 7, TERMS = 8 };
  double y = x / (1 << HALVINGS), e = 1;
  for (int i = TERMS; i > 0; i--) e = 1 - e * y / i;
  for (int i = 0; i < HALVINGS; i++) e *= e;
  return e;
}

uint64_t poisson_weight(uint64_t size, uint64_t mean) {
  ASSERT(size != 0 && mean != 0 && mean <= POISSON_MEAN_MOST);
  double x = (double)size / (double)mean;
  if (x > 32) return POISSON_ONE;
  return (uint64_t)(POISSON_ONE / (1 - exp_of_minus(x)) + 0.5);
}
