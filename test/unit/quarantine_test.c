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

TEST(quarantine, what_goes_in_comes_out_once_and_no_more_is_held_than_there_are_places, "") {
  enum { BLOCKS = 5000 };
  static uint8_t seen[BLOCKS + 1];
  heap_t *h = pool_claim();
  quarantine_t *q = heap_quarantine(h);
  size_t out = 0, place = 0;
  void *p;
  for (uintptr_t i = 1; i <= BLOCKS; i++)
    if ((p = quarantine_put(q, number(i), 64, quarantine_draw(q))) != NULL)
      out++, seen[(uintptr_t)p / 16]++;
  CHECK_GE(out, BLOCKS - (size_t)QUARANTINE_SMALL);
  for (; (p = quarantine_take(q, &place)) != NULL; out++) seen[(uintptr_t)p / 16]++;
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

TEST(quarantine, a_large_block_cannot_be_touched_until_it_comes_out, "") {
  heap_t *h = pool_claim();
  quarantine_t *q = heap_quarantine(h);
  h->busy = 1;
  char *p = large_malloc(h, KiB(100), 1);
  size_t place = 0;
  p[0] = 1;
  CHECK_NULL(quarantine_put_large(q, p));
  CHECK(!is_open(p) && !is_open(p + KiB(100) - 1));
  CHECK(quarantine_take(q, &place) == p);
  p[0] = 2;
}

TEST(quarantine, a_large_block_that_the_system_does_not_close_goes_at_once, "") {
  heap_t *h = pool_claim();
  quarantine_t *q = heap_quarantine(h);
  h->busy = 1;
  char *p = large_malloc(h, MiB(3), 1);
  size_t place = 0;
  p[MiB(3) - 1] = 1;
  CHECK_NULL(quarantine_put_large(q, p)); /* whose memory is given back at once */
  CHECK_EQ(os_resident(p, MiB(3)), 0u);
  CHECK(quarantine_take(q, &place) == p);
}
