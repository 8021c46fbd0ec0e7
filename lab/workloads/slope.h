/* slope.h - does a ratio grow from sample to sample of a run?
 *
 * Holds:   what comes again with a period is no growth: each place in the period has a mean of its
 *          own. */
#ifndef BENCH_SLOPE_H
#define BENCH_SLOPE_H

#include <math.h>

#include "bench.h"

enum { SLOPE_PERIOD_MOST = 24 };

/* What 95 % of Student's distribution stay below, within 0.0002 from 8 degrees of freedom on:
 * Cornish and Fisher's expansion around the normal one. */
static inline double slope_student(double degrees) {
  const double z = 1.6448536, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / 4 / degrees + (5 * z5 + 16 * z3 + 3 * z) / 96 / degrees / degrees +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384 / degrees / degrees / degrees;
}

/* The straight line through the second half of `count` ratios, in ratio for a whole run, by least
 * squares. What is half of `count` has whole periods, more than one. */
static inline void json_slope(const double *ratios, int count, int period) {
  const int half = count / 2, times = half / period;
  double means_x[SLOPE_PERIOD_MOST] = {0}, means_y[SLOPE_PERIOD_MOST] = {0};
  double xx = 0, xy = 0, errors = 0;
  for (int i = half; i < count; i++) {
    means_x[i % period] += (double)(i + 1) / count / times;
    means_y[i % period] += ratios[i] / times;
  }
  for (int i = half; i < count; i++) {
    double x = (double)(i + 1) / count - means_x[i % period];
    xx += x * x;
    xy += x * (ratios[i] - means_y[i % period]);
  }
  double slope = xy / xx;
  for (int i = half; i < count; i++) {
    double x = (double)(i + 1) / count - means_x[i % period];
    double error = ratios[i] - means_y[i % period] - slope * x;
    errors += error * error;
  }
  int degrees = half - period - 1;
  double error = sqrt(errors / degrees / xx);
  json_real("slope", slope);
  json_real("slope_error", error);
  json_integer("slope_degrees", degrees);
  json_real("slope_least", slope - slope_student(degrees) * error);
}

#endif
