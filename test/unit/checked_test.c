/* checked_test.c - tests of secure/checked, in the secure grade */
#include "../../src/secure/checked.h"

#include "../../src/secure/secure.h"
#include "core.h"

static char *allocate(size_t size) {
  secure_start();
  return secure_allocate(NULL, 1, size, ORIGIN_MALLOC);
}

TEST(checked, a_block_is_found_with_its_size_and_its_state, "") {
  char *p = allocate(100);
  checked_t f = checked_find(p, "test"), large = checked_find(allocate(100000), "test");
  CHECK(f.is_small && f.block == (uintptr_t)p);
  CHECK_EQ((uintptr_t)p % SLICE_SIZE % f.usable, 0u);
  CHECK_EQ(checked_state(&f) & STATE_IS, STATE_LIVE);
  CHECK_EQ(checked_read(&f, checked_state(&f), "test").size, 100u);
  CHECK(!large.is_small && large.has_guard);
  CHECK_EQ(checked_read(&large, checked_state(&large), "test").size, 100000u);
}

TEST(checked, where_no_block_begins_is_refused, "") {
  EXPECT_ABORT(checked_find(allocate(100) + 16, "test"), "invalid pointer");
}

TEST(checked, what_is_overwritten_is_not_whole_and_what_is_not_live_is, "") {
  char *p = allocate(100);
  checked_t f = checked_find(p, "test");
  CHECK(checked_is_whole(&f));
  p[100] ^= 1;
  CHECK(!checked_is_whole(&f));
  atomic8_t state = {STATE_RESTED};
  f.state = &state;
  CHECK(checked_is_whole(&f));
  p[100] ^= 1;
}

TEST(checked, a_byte_before_a_block_is_its_neighbour_s_trailer, "") {
  char *p = allocate(100);
  checked_t f = checked_find(p, "test");
  for (int i = 0; i < 20000 && checked_is_first(&f); i++)
    f = checked_find(p = allocate(100), "test");
  atomic8_t *before = states_at(f.states, p - f.usable);
  uint8_t seen = atomic8_load_relaxed(before);
  CHECK(checked_reads_before(&f));
  atomic8_store_relaxed(before, STATE_LIVE);
  trailer_write(f.block - f.usable, f.usable, (trailer_t){90, ORIGIN_MALLOC});
  CHECK(checked_reads_before(&f));
  p[-1] ^= 1;
  CHECK(!checked_reads_before(&f));
  p[-1] ^= 1;
  atomic8_store_relaxed(before, seen);
}
