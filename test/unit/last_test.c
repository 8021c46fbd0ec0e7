/* last_test.c - tests of secure/last, in the secure grade */
#include "../../src/secure/secure.h"
#include "core.h"

static char *allocate(size_t size) {
  secure_start();
  return secure_allocate(NULL, 1, size, ORIGIN_MALLOC);
}

TEST(last, what_was_written_behind_a_block_that_lives_is_found_at_exit, "") {
  static const size_t sizes[] = {20, 500, 5000, 20000, 100000};
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
    char *p = allocate(sizes[i]);
    p[sizes[i]] ^= 1;
    EXPECT_ABORT(secure_end(), "overflow behind");
    p[sizes[i]] ^= 1;
  }
  secure_end();
}

TEST(last, what_was_written_far_before_a_blocks_end_is_found_at_exit, "") {
  static const size_t far[] = {0, 1, 15, 9000, 64000};
  char *p = allocate(150000);
  CHECK(secure_expand(p, 100, "t"));
  for (size_t i = 0; i < ARRAY_LENGTH(far); i++) {
    p[100 + far[i] % 16000] ^= 1;
    EXPECT_ABORT(secure_end(), "overflow behind a block of 100 bytes");
    p[100 + far[i] % 16000] ^= 1;
  }
  secure_end();
}

TEST(last, what_was_written_to_a_freed_block_is_found_at_exit, "") {
  char *p = allocate(100);
  secure_free(p, ORIGIN_MALLOC, "test");
  p[40] = 1;
  EXPECT_ABORT(secure_end(), "write after free");
  p[40] = 0;
  secure_end();
}
