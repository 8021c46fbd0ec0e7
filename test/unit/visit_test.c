/* visit_test.c - tests of heap/visit */
#include "heaps.h"

#include "../../src/heap/visit.h"

enum { MANY = 3000 };
static struct { char *p; bool is_live; int seen; } block[MANY];
static size_t visited, strange;

static bool note(void *p, size_t size, void *context) {
  (void)context;
  visited++;
  CHECK_GT(size, 0u);
  for (int i = 0; i < MANY; i++)
    if (block[i].p == p) {
      CHECK(block[i].is_live);
      block[i].seen++;
      return true;
    }
  strange++;
  return true;
}

TEST(visit, each_live_block_is_visited_once_and_no_free_one, "") {
  uint64_t state = 3;
  for (int i = 0; i < MANY; i++) {
    block[i].p = fast_malloc(i % 100 == 0 ? 100000 : i == 77 ? MiB(40) : 10 + core_next(&state) % 1000);
    memset(block[i].p, 0xAB, 10);
    block[i].is_live = true;
  }
  for (int i = 0; i < MANY; i++)
    if (core_next(&state) % 2) {
      fast_free(block[i].p);
      block[i].is_live = false;
    }
  CHECK(heap_visit(NULL, note, NULL));
  for (int i = 0; i < MANY; i++) CHECK_EQ(block[i].seen, block[i].is_live);
  CHECK_EQ(strange, 0u);
}

static bool stop_at_five(void *p, size_t size, void *context) {
  (void)p, (void)size;
  return ++*(int *)context < 5;
}
static bool refuse_slabs(slab_t *s, void *base, void *context) {
  CHECK_EQ((uintptr_t)base, slab_base(s));
  ++*(int *)context;
  return false;
}

TEST(visit, a_visitor_that_has_seen_enough_ends_the_visit, "") {
  int count = 0, slabs = 0;
  for (int i = 0; i < 100; i++) fast_malloc(100);
  CHECK(!heap_visit(NULL, stop_at_five, &count));
  CHECK_EQ(count, 5);
  CHECK(!visit_slabs(refuse_slabs, &slabs));
  CHECK_EQ(slabs, 1);
}

static bool count_blocks(void *p, size_t size, void *context) {
  (void)p, (void)size;
  ++*(int *)context;
  return true;
}

TEST(visit, the_blocks_of_a_first_class_heap_can_be_visited_alone, "F1") {
  fh_heap_t *heap = firstclass_new();
  int count = 0;
  for (int i = 0; i < 300; i++) fast_malloc(64);
  for (int i = 0; i < 70; i++) firstclass_aligned(heap, 1, i % 10 == 0 ? 90000 : 64);
  firstclass_aligned(heap, 1, MiB(40));
  CHECK(heap_visit(heap, count_blocks, &count));
  CHECK_EQ(count, 71);
}

TEST(visit, an_allocator_that_was_never_used_has_nothing_to_visit, "") {
  int count = 0;
  CHECK(heap_visit(NULL, count_blocks, &count));
  CHECK_EQ(count, 0);
}
