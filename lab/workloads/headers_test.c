/* headers_test.c - what the workloads compute with: random sizes, shares, histograms, numbers */
#include "cycles.h"
#include "natural.h"
#include "slope.h"
#include "test.h"

/* ---- bench.h --------------------------------------------------------------------------------- */

TEST(bench, shares_add_up_and_differ_by_one_at_most, "") {
  for (long total = 0; total < 50; total++) {
    for (long threads = 1; threads < 9; threads++) {
      long sum = 0;
      for (long i = 0; i < threads; i++) {
        long share = bench_share(total, threads, i);
        CHECK(share == total / threads || share == total / threads + 1);
        sum += share;
      }
      CHECK(sum == total);
    }
  }
}

TEST(bench, sizes_between_two_ends_reach_both_and_stay_within, "") {
  bench_rng_t rng = bench_seed(0);
  long seen[8] = {0};
  for (int i = 0; i < 8000; i++) {
    size_t size = bench_between(&rng, 3, 10);
    CHECK(size >= 3 && size <= 10);
    seen[size - 3]++;
  }
  for (int i = 0; i < 8; i++) CHECK(seen[i] > 800 && seen[i] < 1200);
}

TEST(bench, doublings_of_a_mixed_size_are_equally_likely, "") {
  bench_rng_t rng = bench_seed(0);
  long seen[6] = {0};
  for (int i = 0; i < 60000; i++) {
    size_t size = bench_mixed_size(&rng, 16, 1024);
    CHECK(size >= 16 && size < 1024);
    seen[59 - __builtin_clzl(size)]++;
  }
  for (int i = 0; i < 6; i++) CHECK(seen[i] > 9400 && seen[i] < 10600);
}

TEST(bench, threads_have_different_sequences_and_each_seed_another, "") {
  bench_rng_t first = bench_seed(0), second = bench_seed(1);
  CHECK(bench_random(&first) != bench_random(&second));
  bench_rng_t before = bench_seed(0);
  bench_seed_number = 5;
  CHECK(bench_seed(0) != before);
}

/* ---- slope.h --------------------------------------------------------------------------------- */

static bool is_near(double value, double expected) {
  return value > expected - 2e-4 && value < expected + 2e-4;
}

/* The figure of that name in the line that json_slope has made. */
static double said(const char *name) {
  const char *at = strstr(json_line, name);
  CHECK(at != NULL);
  return strtod(at + strlen(name) + 3, NULL);
}

TEST(slope, a_line_is_found_under_what_comes_again_with_the_period, "") {
  double ratios[72];
  for (int i = 0; i < 72; i++) ratios[i] = 1 + 0.5 * (i + 1) / 72 + i % 12 * (i % 12) * 0.1;
  json_length = 0;
  json_slope(ratios, 72, 12);
  CHECK(is_near(said("slope"), 0.5) && is_near(said("slope_error"), 0));
  CHECK(said("slope_degrees") == 23 && is_near(said("slope_least"), 0.5));
}

TEST(slope, its_error_is_that_of_least_squares, "") {
  static const double ratios[] = {9, 9, 9, 9, 1, 3, 2, 4};
  json_length = 0;
  json_slope(ratios, 8, 1);
  CHECK(is_near(said("slope"), 6.4) && is_near(said("slope_error"), 3.39411));
  CHECK(said("slope_degrees") == 2);
}

TEST(slope, students_distribution_is_that_of_the_tables, "") {
  CHECK(is_near(slope_student(8), 1.85955) && is_near(slope_student(23), 1.71387));
}

/* ---- cycles.h -------------------------------------------------------------------------------- */

TEST(cycles, a_bin_is_within_three_percent_of_its_values, "") {
  for (uint64_t value = 0; value < (uint64_t)1 << 62; value += 1 + value / 7) {
    double middle = histogram_value(histogram_bin(value)), error = middle - (double)value;
    CHECK(histogram_bin(value) < HISTOGRAM_BINS);
    CHECK((error < 0 ? -error : error) <= (double)value * 0.032);
  }
}

TEST(cycles, bins_rise_with_their_values, "") {
  for (uint64_t value = 1; value < 100000; value++) {
    size_t step = histogram_bin(value) - histogram_bin(value - 1);
    CHECK(step == 0 || step == 1);
  }
}

TEST(cycles, percentiles_of_known_values_are_found, "") {
  static histogram_t h, other;
  for (uint64_t i = 1; i <= 10000; i++) histogram_count(i % 2 == 0 ? &h : &other, i);
  histogram_add(&h, &other);
  CHECK(h.count == 10000 && h.most == 10000);
  static const double shares[] = {0.01, 0.5, 0.9, 0.99, 0.999};
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    double found = histogram_percentile(&h, shares[i]), exact = shares[i] * 10000;
    CHECK(found > exact * 0.96 && found < exact * 1.04);
  }
}

/* ---- natural.h ------------------------------------------------------------------------------- */

/* Of up to `digits` digits; every third is as small or as large as can be, which is where guesses
 * of a quotient go wrong. */
static natural_t *natural_chance(bench_rng_t *rng, uint32_t digits) {
  natural_t *n = natural_new(1 + bench_below(rng, digits));
  for (uint32_t i = 0; i < n->count; i++) {
    uint32_t kind = bench_below(rng, 6);
    n->digits[i] = kind == 0 ? 0 : kind == 1 ? UINT32_MAX : bench_random(rng);
  }
  return natural_trimmed(n);
}

TEST(natural, quotient_times_divisor_and_rest_give_the_dividend, "") {
  bench_rng_t rng = bench_seed(0);
  for (int i = 0; i < 200000; i++) {
    natural_t *a = natural_chance(&rng, 8), *b = natural_chance(&rng, 5), *rest;
    if (b->count == 0) continue;
    natural_t *quotient = natural_divide(a, b, &rest), *product = natural_multiply(quotient, b);
    natural_t *sum = natural_add(product, rest), *difference = natural_subtract(sum, rest);
    CHECK(natural_compare(rest, b) < 0);
    CHECK(natural_compare(sum, a) == 0);
    CHECK(natural_compare(difference, product) == 0);
  }
}

TEST(natural, division_by_one_digit_agrees_with_the_long_one, "") {
  bench_rng_t rng = bench_seed(0);
  for (int i = 0; i < 20000; i++) {
    natural_t *a = natural_chance(&rng, 6), *long_rest;
    uint32_t divisor = bench_random(&rng) | 1, rest;
    natural_t *b = natural_from(divisor);
    natural_t *quotient = natural_divide_small(a, divisor, &rest);
    CHECK(natural_compare(quotient, natural_divide(a, b, &long_rest)) == 0);
    CHECK(natural_value(long_rest) == rest);
  }
}

TEST(natural, a_root_is_the_greatest_number_whose_square_is_not_greater, "") {
  bench_rng_t rng = bench_seed(0);
  natural_t *one = natural_from(1);
  for (int i = 0; i < 5000; i++) {
    natural_t *n = natural_chance(&rng, 6);
    if (n->count == 0) continue;
    natural_t *root = natural_root(n), *next = natural_add(root, one);
    CHECK(natural_compare(natural_multiply(root, root), n) <= 0);
    CHECK(natural_compare(natural_multiply(next, next), n) > 0);
  }
}

TEST(natural, a_common_factor_is_in_the_gcd, "") {
  natural_t *a = natural_from((wide_t)1000003 * 999983 * 7), *b = natural_from((wide_t)1000003 * 8);
  CHECK(natural_value(natural_gcd(a, b)) == 1000003);
}
