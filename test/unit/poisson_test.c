/* poisson_test.c - tests of support/poisson */
#include "../test.h"

#include "../../src/support/poisson.h"

static double square(double x) { return x * x; }

TEST(poisson, distances_have_the_mean_and_the_deviation_of_an_exponential, "") {
  enum { DRAWS = 1 << 20 };
  static const uint64_t means[] = {100, 512 << 10, POISSON_MEAN_MOST};
  uint64_t state = 1;
  for (unsigned i = 0; i < ARRAY_LENGTH(means); i++) {
    double sum = 0, squares = 0, mean = (double)means[i];
    for (int n = 0; n < DRAWS; n++) {
      double d = (double)poisson_distance(&state, means[i]) - 0.5; /* it was rounded up */
      sum += d / mean;
      squares += square(d / mean);
    }
    CHECK(sum / DRAWS > 0.995 && sum / DRAWS < 1.005); /* five deviations of the mean */
    CHECK(squares / DRAWS > 1.98 && squares / DRAWS < 2.02);
  }
}

TEST(poisson, a_distance_is_never_0_and_never_beyond_45_times_the_mean, "") {
  uint64_t state = 0;
  for (int n = 0; n < 1 << 20; n++) {
    uint64_t d = poisson_distance(&state, 1000);
    CHECK(d >= 1 && d <= 45000);
  }
}

/* By the library's own expm1, which the core does without. */
TEST(poisson, weights_are_the_inverse_of_the_chance_to_be_sampled, "") {
  static const uint64_t means[] = {1, 4096, 512 << 10, MiB(64), POISSON_MEAN_MOST};
  for (unsigned i = 0; i < ARRAY_LENGTH(means); i++)
    for (uint64_t size = 16; size < (uint64_t)1 << 40; size += size / 3) {
      double weight = -1 / __builtin_expm1(-(double)size / (double)means[i]);
      double found = (double)poisson_weight(size, means[i]) / POISSON_ONE;
      CHECK(found > weight * 0.999 - 0.001 && found < weight * 1.001 + 0.001);
    }
}

/* A thousand programs, each of blocks of one size: how often an estimate is further off than three
 * deviations. Of a normal distribution that is one in 370. */
TEST(poisson, estimates_without_bias_that_are_seldom_three_deviations_off, "") {
  enum { RUNS = 1000, BLOCKS = 20000, SIZE = 112, MEAN = 4096 };
  const double chance = 1 - __builtin_exp(-(double)SIZE / MEAN), expected = chance * BLOCKS;
  uint64_t state = 7;
  double all = 0;
  int alarms = 0;
  for (int run = 0; run < RUNS; run++) {
    uint64_t until = poisson_distance(&state, MEAN);
    int sampled = 0;
    for (int i = 0; i < BLOCKS; i++) {
      bool is_sampled = until <= SIZE;
      sampled += is_sampled;
      until = is_sampled ? poisson_distance(&state, MEAN) : until - SIZE;
    }
    alarms += square(sampled - expected) > 9 * expected * (1 - chance);
    all += sampled;
  }
  CHECK(alarms <= 12); /* 2.7 expected; more in one of ten thousand */
  CHECK(all / RUNS > expected * 0.995 && all / RUNS < expected * 1.005);
}
