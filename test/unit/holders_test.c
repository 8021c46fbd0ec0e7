/* holders_test.c - tests of tools/outside/holders: what `freehold why` sums */
#include "../test.h"

#include "../../tools/outside/holders.c"

static holder_t *add(holders_t *h, uint32_t stack, uint64_t size, uint64_t bytes, uint32_t age) {
  holder_t one = {
    .stack = stack, .size = size, .bytes = bytes, .youngest = age, .oldest = age, .frame_count = 1};
  one.frames[0] = stack;
  return holders_add(h, &one);
}

TEST(holders, blocks_of_one_stack_and_size_are_one_and_the_largest_comes_first, "") {
  holders_t h = {.all = NULL};
  holders_sort(&h);
  holders_empty(&h);
  CHECK(add(&h, 7, 100, 1000, 50) != NULL);
  CHECK_NULL(add(&h, 7, 100, 500, 20));
  CHECK_NULL(add(&h, 7, 100, 500, 90));
  CHECK(add(&h, 7, 200, 3000, 10) != NULL); /* of another size, */
  CHECK(add(&h, 8, 100, 9, 10) != NULL);    /* of another stack */
  holders_sort(&h);
  CHECK_EQ(h.count, (size_t)3);
  CHECK_EQ(h.all[0].bytes, (uint64_t)3000);
  CHECK_EQ(h.all[1].bytes, (uint64_t)2000);
  CHECK(h.all[1].youngest == 20 && h.all[1].oldest == 90);
  CHECK_EQ(h.all[2].stack, 8u);
  holders_empty(&h);
  CHECK(add(&h, 7, 100, 1, 1) != NULL);
  CHECK_EQ(h.count, (size_t)1);
  CHECK_EQ(h.all[0].bytes, (uint64_t)1);
  holders_free(&h);
}

TEST(holders, sizes_do_not_count_where_stacks_alone_are_summed, "") {
  holders_t h = {.all = NULL}, stacks = {.all = NULL};
  for (uint32_t i = 0; i < 60; i++) add(&h, i % 3, 16 * i, i, i);
  CHECK_EQ(h.count, (size_t)60);
  holders_add_stacks(&stacks, &h);
  holders_sort(&stacks);
  CHECK_EQ(stacks.count, (size_t)3);
  for (uint32_t i = 0; i < 3; i++) {
    const holder_t *one = &stacks.all[i];
    uint32_t stack = 2 - i; /* which has most bytes */
    CHECK_EQ(one->stack, stack);
    CHECK_EQ(one->bytes, (uint64_t)(20 * stack + 3 * 190));
    CHECK(one->youngest == stack && one->oldest == 57 + stack);
    CHECK(one->frame_count == 1 && one->frames[0] == stack);
  }
  holders_free(&h);
  holders_free(&stacks);
}

/* As many stacks as the library keeps, each with blocks of eight sizes, each sampled again and
 * again. */
TEST(holders, work_is_in_proportion_to_the_samples_and_none_is_left_out, "") {
  enum { STACKS = 1 << 14, SIZES = 8, TIMES = 4, SAMPLES = STACKS * SIZES * TIMES };
  holders_t h = {.all = NULL}, stacks = {.all = NULL};
  for (uint32_t n = 0; n < SAMPLES; n++)
    add(&h, n * 2654435761u % STACKS, 16u << n / STACKS % SIZES, 1, n);
  CHECK_EQ(h.count, (size_t)(STACKS * SIZES));
  CHECK_LT(h.looks, (uint64_t)3 * SAMPLES);
  holders_add_stacks(&stacks, &h);
  CHECK_EQ(stacks.count, (size_t)STACKS);
  CHECK_LT(stacks.looks, (uint64_t)3 * STACKS * SIZES);
  uint64_t bytes = 0;
  for (size_t i = 0; i < stacks.count; i++) bytes += stacks.all[i].bytes;
  CHECK_EQ(bytes, (uint64_t)SAMPLES);
  holders_free(&h);
  holders_free(&stacks);
}
