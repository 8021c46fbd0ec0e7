/* order_test.c - tests of slab/holes */
#include "slabs.h"

enum { CLASS = 8, SIZE = 128, CAPACITY = 511 }; /* 128 bytes; the threshold is 64 */

/* Every third block of an owned slab, then the others downwards, each on the private list. */
static void free_in_disorder(slab_t *s, unsigned count) {
  for (unsigned i = 0; i < count; i += 3) put_back(s, blocks[i]);
  for (unsigned i = count; i-- > 0;)
    if (i % 3 != 0) put_back(s, blocks[i]);
}

TEST(order, a_sorted_list_has_the_same_blocks_in_the_order_of_addresses, "I1 I4") {
  const unsigned classes[] = {1, CLASS, 40, CLASS_COUNT - 1};
  for (size_t i = 0; i < ARRAY_LENGTH(classes); i++) {
    slab_t *s = new_slab(classes[i], &heap_a);
    unsigned all = take_all(s), count;
    free_in_disorder(s, all - 1); /* the last one stays out */
    slab_sort(s);
    CHECK(slab_is_valid(s));
    uintptr_t block = slab_take_list(s, 1, &count);
    CHECK_EQ(count, all - 1);
    for (unsigned b = 0; b < count; b++, block = block_next(block)) CHECK_EQ(block, blocks[b]);
    CHECK_EQ(block, (uintptr_t)0);
    slab_sort(s); /* none on the list */
    CHECK_EQ(s->head, (uintptr_t)0);
  }
}

TEST(order, sorting_dies_of_a_link_that_leads_elsewhere_or_to_no_free_block_or_in_a_ring, "") {
  slab_t *s = new_slab(CLASS, &heap_a), *other = new_slab(CLASS, &heap_a);
  take_all(other);
  block_link(blocks[0], 0);
  uintptr_t foreign = blocks[0];
  take_all(s);
  const uintptr_t links[] = {foreign, blocks[1], blocks[0], 16};
  for (size_t i = 0; i < ARRAY_LENGTH(links); i++) {
    block_link(blocks[0], links[i]);
    s->head = blocks[0];
    EXPECT_ABORT(slab_sort(s), "heap corruption");
  }
}
