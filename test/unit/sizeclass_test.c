/* sizeclass_test.c - tests of base/sizeclass: every size, every class, every offset */
#include "core.h"

#include "../../src/base/sizeclass.h"

TEST(sizeclass, every_size_gets_the_smallest_class_that_holds_it, "Z1") {
  CHECK(class_is_valid());
  for (size_t n = 1; n <= SMALL_MOST; n++) {
    unsigned c = class_of(n), first = 1;
    while (class_size(first) < n) first++;
    CHECK_EQ(c, first);
  }
  CHECK_EQ(class_size(CLASS_COUNT - 1), (size_t)SMALL_MOST);
  CHECK_EQ(class_of(SMALL_MOST), (unsigned)CLASS_COUNT - 1);
}

TEST(sizeclass, waste_is_below_sixteen_bytes_or_an_eighth_of_the_block, "Z2") {
  for (size_t n = 1; n <= SMALL_MOST; n++) {
    size_t waste = class_size(class_of(n)) - n;
    CHECK(waste < 16 || waste * 8 < class_size(class_of(n)));
    CHECK(n < 128 || waste * 8 <= n);
  }
}

TEST(sizeclass, classes_are_whole_steps_and_rise, "") {
  for (unsigned c = 0; c <= 32; c++) CHECK_EQ(class_size(c), c * (size_t)CLASS_STEP);
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    CHECK_GT(class_size(c), class_size(c - 1));
    CHECK_EQ(class_size(c) % CLASS_STEP, 0u);
  }
}

TEST(sizeclass, all_blocks_of_a_slab_lie_in_its_slice_and_none_at_its_start, "I4") {
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    CHECK_GE(class_info[c].capacity, 1);
    CHECK_LE((class_info[c].capacity + (size_t)1) * class_size(c), SLICE_SIZE);
    CHECK_GT((class_info[c].capacity + (size_t)2) * class_size(c), SLICE_SIZE);
  }
}

TEST(sizeclass, the_start_of_a_block_is_told_from_every_other_offset_in_every_class, "Z1") {
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    for (uint32_t offset = 0; offset < SLICE_SIZE; offset++)
      if (class_has_block_at(offset, class_inverse[c]) !=
          (offset != 0 && offset % class_size(c) == 0 &&
           offset / class_size(c) <= class_info[c].capacity))
        FAIL("class %u, offset %u", c, offset);
}

TEST(sizeclass, an_alignment_gets_the_smallest_class_all_of_whose_blocks_keep_it, "") {
  for (size_t alignment = 1; alignment <= 32768; alignment *= 2)
    for (size_t n = 0; n <= SMALL_MOST + 1; n += n < 600 ? 1 : 37) {
      unsigned want = 0, c = class_of_aligned(alignment, n);
      for (unsigned k = CLASS_COUNT - 1; k >= 1; k--)
        if (class_size(k) >= n && class_size(k) >= alignment && class_size(k) % alignment == 0)
          want = k;
      if (n == 0) want = 0; /* a size of no bytes has no class */
      CHECK_EQ(c, want);
    }
}

TEST(sizeclass, a_request_of_no_bytes_has_a_class_and_a_large_one_has_none, "") {
  for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    CHECK_EQ(class_of_request(0, alignment), class_of_request(1, alignment));
    CHECK_GT(class_of_request(0, alignment), 0u);
    CHECK_EQ(class_of_request(SMALL_MOST, alignment), (unsigned)CLASS_COUNT - 1);
    CHECK_EQ(class_of_request(SMALL_MOST + 1, alignment), 0u);
  }
}

TEST(sizeclass, no_offset_is_the_start_of_a_block_where_there_is_no_slab, "") {
  for (uint32_t offset = 0; offset < SLICE_SIZE; offset++) CHECK(!class_has_block_at(offset, 0));
}

TEST(sizeclass, there_are_no_other_classes, "") {
  EXPECT_ABORT(class_size(CLASS_COUNT), "assertion c < CLASS_COUNT");
  EXPECT_ABORT(class_of(SMALL_MOST + 1), "assertion n <= SMALL_MOST");
}
