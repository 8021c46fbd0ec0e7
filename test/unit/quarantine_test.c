/* quarantine_test.c - tests of stock/quarantine, in the secure grade */
#include "../../src/stock/quarantine.h"

#include "../../src/os/os.h"
#include "../../src/stock/large.h"
#include "../../src/stock/pool.h"
#include "core.h"

/* The system does not copy from where the program cannot read. */
static bool is_open(const char *p) {
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  bool good = write(ends[1], p, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return good;
}

static void *number(uintptr_t n) { return (void *)(n * 16); }

TEST(quarantine, what_goes_in_comes_out_once_and_no_more_is_held_than_there_are_slots, "") {
  enum { BLOCKS = 5000 };
  static uint8_t seen[BLOCKS + 1];
  heap_t *h = pool_claim();
  quarantine_t *q = heap_quarantine(h);
  size_t out = 0, slot = 0;
  void *p;
  for (uintptr_t i = 1; i <= BLOCKS; i++)
    if ((p = quarantine_put(q, number(i), 64, quarantine_draw(q))) != NULL)
      out++, seen[(uintptr_t)p / 16]++;
  CHECK_GE(out, BLOCKS - (size_t)QUARANTINE_SMALL);
  for (; (p = quarantine_take(q, &slot)) != NULL; out++) seen[(uintptr_t)p / 16]++;
  CHECK_EQ(out, (size_t)BLOCKS);
  for (size_t i = 1; i <= BLOCKS; i++) CHECK_EQ(seen[i], 1);
}

TEST(quarantine, the_order_in_which_blocks_come_out_is_not_that_in_which_they_went_in, "") {
  heap_t *h = pool_claim();
  quarantine_t *q = heap_quarantine(h);
  uintptr_t last = 0, in_order = 0, out = 0;
  for (uintptr_t i = 1; i <= 2000; i++) {
    uintptr_t p = (uintptr_t)quarantine_put(q, number(i), 64, quarantine_draw(q));
    if (p == 0) continue;
    in_order += p > last;
    last = p;
    out++;
  }
  CHECK_LT(in_order, out * 3 / 4);
}

static uint64_t draw_in_child(quarantine_t *q) {
  int ends[2];
  uint64_t drawn;
  CHECK_EQ(pipe(ends), 0);
  if (fork() == 0) {
    drawn = quarantine_draw(q);
    _exit(write(ends[1], &drawn, sizeof drawn) != sizeof drawn);
  }
  CHECK_EQ(read(ends[0], &drawn, sizeof drawn), (ssize_t)sizeof drawn);
  CHECK(wait(NULL) > 0);
  return drawn;
}

TEST(quarantine, a_child_of_fork_draws_other_numbers_than_its_parent_and_its_sisters, "") {
  os_fake.is_random = true;
  quarantine_t *q = heap_quarantine(pool_claim());
  quarantine_draw(q);
  uint64_t first = draw_in_child(q), second = draw_in_child(q), own = quarantine_draw(q);
  CHECK(first != second && first != own && second != own);
}

static quarantine_t *start(heap_t *h) {
  quarantine_start();
  h->busy = 1;
  return heap_quarantine(h);
}

TEST(quarantine, a_large_block_cannot_be_touched_until_it_comes_out, "") {
  heap_t *h = pool_claim();
  quarantine_t *q = start(h);
  char *p = large_malloc(h, KiB(100), 1);
  size_t slot = 0;
  p[0] = 1;
  CHECK_NULL(quarantine_put_large(q, p));
  CHECK(!is_open(p) && !is_open(p + KiB(100) - 1));
  CHECK(quarantine_take(q, &slot) == p);
  p[0] = 2;
}

TEST(quarantine, a_guard_stays_protected_until_all_of_the_block_is_open, "") {
  heap_t *h = pool_claim();
  start(h);
  char *p = large_malloc(h, KiB(100), 1);
  CHECK(quarantine_protect(p, KiB(64)));
  CHECK(is_open(p) && !is_open(p + KiB(64)));
  CHECK(quarantine_protect(p, 0) && !is_open(p));
  CHECK(quarantine_unprotect(p) && is_open(p) && is_open(p + KiB(64)));
  CHECK(quarantine_unprotect(p)); /* once more: nothing is protected */
}

static uint64_t committed(void) { return atomic64_load_relaxed(&arena_counts.committed); }

/* As at RLIMIT_DATA, which counts pages that are opened. */
TEST(quarantine, a_block_that_the_system_does_not_open_goes_without_its_pages, "") {
  heap_t *h = pool_claim();
  quarantine_t *q = start(h);
  char *p = large_malloc(h, KiB(200), 1);
  size_t slot = 0;
  CHECK_NULL(quarantine_put_large(q, p));
  uint64_t before = committed(), mapped = os_fake.mapped;
  os_fake_fail(1u << OS_FAKE_PROTECT, 1, true);
  CHECK(quarantine_take(q, &slot) == p);
  CHECK_EQ(os_fake.mapped, mapped - 4 * SLICE_SIZE);
  os_fake_fail(1u << OS_FAKE_PROTECT, 0, false);
  large_free(h, slab_of(p), p, "test"); /* they are mapped again */
  CHECK_EQ(committed(), before - 4);
  CHECK_EQ(os_fake.mapped, mapped);
  char *again = large_malloc(h, KiB(200), 1);
  CHECK(again == p && is_open(again) && large_is_clean(again));
  CHECK(arena_is_valid(arena_of(p)));
}

TEST(quarantine, a_block_that_the_system_neither_opens_nor_unmaps_stays, "") {
  heap_t *h = pool_claim();
  quarantine_t *q = start(h);
  char *p = large_malloc(h, KiB(200), 1);
  size_t slot = 0;
  CHECK_NULL(quarantine_put_large(q, p));
  os_fake_fail(1u << OS_FAKE_PROTECT | 1u << OS_FAKE_UNMAP, 1, true);
  CHECK_NULL(quarantine_take(q, &slot));
  CHECK(arena_is_valid(arena_of(p)));
}

TEST(quarantine, a_block_of_many_MiB_rests_without_its_memory, "") {
  heap_t *h = pool_claim();
  quarantine_t *q = start(h);
  char *p = large_malloc(h, MiB(9), 1);
  size_t slot = 0;
  memset(p, 1, MiB(9));
  CHECK_NULL(quarantine_put_large(q, p));
  CHECK_EQ(os_resident(p, MiB(9)), 0u);
  CHECK(quarantine_take(q, &slot) == p);
  large_free(h, slab_of(p), p, "test");
  char *again = large_malloc(h, MiB(9), 1);
  CHECK(again == p && large_is_clean(again)); /* its next owner need not ask */
}

TEST(quarantine, a_block_whose_memory_the_system_keeps_is_not_taken_for_a_clean_one, "") {
  heap_t *h = pool_claim();
  quarantine_t *q = start(h);
  char *p = large_malloc(h, MiB(9), 1);
  size_t slot = 0;
  memset(p, 1, MiB(9));
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  CHECK_NULL(quarantine_put_large(q, p));
  CHECK(quarantine_take(q, &slot) == p);
  large_free(h, slab_of(p), p, "test");
  char *again = large_malloc(h, MiB(9), 1);
  CHECK(again == p && !large_is_clean(again));
}

TEST(quarantine, large_blocks_give_way_to_one_that_would_be_too_much_beside_them, "") {
  heap_t *h = pool_claim();
  quarantine_t *q = start(h);
  atomic_ptr_t *places = &q->slots[QUARANTINE_SMALL + QUARANTINE_MEDIUM];
  for (int i = 0; i < 3; i++) atomic_ptr_store_relaxed(&places[i], large_malloc(h, MiB(2), 1));
  void *p = large_malloc(h, MiB(2), 1), *another = large_malloc(h, MiB(2), 1);
  CHECK_NULL(quarantine_give_way(q, p)); /* 8 MiB are enough for four */
  atomic_ptr_store_relaxed(&places[3], p);
  CHECK(quarantine_give_way(q, another) != NULL);
  CHECK_NULL(quarantine_give_way(q, another));
}

TEST(quarantine, protections_come_to_an_end_and_the_block_stays_open, "") {
  heap_t *h = pool_claim();
  start(h);
  char *p = large_malloc(h, MiB(8), 1);
  int closings = 0;
  while (closings < 100000 && quarantine_protect(p, 0)) closings++, quarantine_unprotect(p);
  CHECK(closings > 10 && closings < 100000);
  CHECK(is_open(p));
}
