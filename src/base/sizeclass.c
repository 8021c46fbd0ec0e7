/* sizeclass.c - the table of classes                                                  layer 0: base
 * Contract: sizeclass.h. */
#include "sizeclass.h"

/* clang-format off */
/* The first number from 2^64 / size on, and what its product with the size wraps to. */
#define FIRST(size) (UINT64_MAX / (size) + 1)
#define REST(size) (FIRST(size) * (size))
/* See class_has_block_at. */
#define INVERSE(size) \
  (FIRST(size) + (CLASS_BOUND / (SLICE_SIZE / (size)) - REST(size)) / (size) + 1)
#define SIZES \
  ROW(16),  ROW(32),  ROW(48),  ROW(64),  ROW(80),  ROW(96),  ROW(112), ROW(128), \
  ROW(144), ROW(160), ROW(176), ROW(192), ROW(208), ROW(224), ROW(240), ROW(256), \
  ROW(272), ROW(288), ROW(304), ROW(320), ROW(336), ROW(352), ROW(368), ROW(384), \
  ROW(400), ROW(416), ROW(432), ROW(448), ROW(464), ROW(480), ROW(496), ROW(512), \
  EIGHT_FROM(512), EIGHT_FROM(1024), EIGHT_FROM(2048), EIGHT_FROM(4096), EIGHT_FROM(8192)
#define EIGHT_FROM(base)                                                                   \
  ROW(base + base / 8), ROW(base + base / 4), ROW(base + base / 8 * 3), ROW(base + base / 2), \
  ROW(base + base / 8 * 5), ROW(base + base / 4 * 3), ROW(base + base / 8 * 7), ROW(base * 2)

#define ROW(size) { size, SLICE_SIZE / (size) - 1 }
const first_constant class_info_t class_info[CLASS_COUNT] = { { 0, 0 }, SIZES };
#undef ROW
#define ROW(size) INVERSE(size)
const first_constant uint64_t class_inverse[CLASS_COUNT] = { 0, SIZES };

#define ONE(c) [c] = c
#define ONES(c)                                   \
  ONE(c), ONE(c + 1), ONE(c + 2), ONE(c + 3),     \
  ONE(c + 4), ONE(c + 5), ONE(c + 6), ONE(c + 7)
#define SPAN(from, width, c) [from + 1 ... from + width] = c
#define SPANS(base, c)                                                                     \
  SPAN(base, base / 8, c), SPAN(base + base / 8, base / 8, c + 1),                         \
  SPAN(base + base / 8 * 2, base / 8, c + 2), SPAN(base + base / 8 * 3, base / 8, c + 3),  \
  SPAN(base + base / 8 * 4, base / 8, c + 4), SPAN(base + base / 8 * 5, base / 8, c + 5),  \
  SPAN(base + base / 8 * 6, base / 8, c + 6), SPAN(base + base / 8 * 7, base / 8, c + 7)

const first_constant uint8_t class_table[SMALL_STEPS + 1] = {
  ONES(1), ONES(9), ONES(17), ONES(25),
  SPANS(32, 33), SPANS(64, 41), SPANS(128, 49), SPANS(256, 57), SPANS(512, 65),
}; /* clang-format on */

bool class_is_valid(void) {
  for (size_t n = 1; n <= SMALL_MOST; n++) {
    unsigned c = class_of(n);
    size_t step = n <= 512 ? CLASS_STEP : ((size_t)1 << bits_highest(n - 1)) / 8;
    HOLDS(Z1, class_info[c].size >= n && class_info[c - 1].size < n);
    HOLDS(Z2, class_info[c].size == align_up(n, step));
  }
  return true;
}
