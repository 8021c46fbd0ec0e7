/* ifunc_test.c - resolvers of indirect functions that allocate, while the program is
 * still being relocated
 *
 * No constructor has run then, neither the program's nor the library's, and in glibc the main
 * thread's thread-local variables are still all zero: their initial values are copied after
 * relocation. A program of its own, because nothing in it runs if this fails. */
#include "entry.h"

static void *from_resolver[3];

static int plain(int x) { return x + 1; }
static int (*resolver(void))(int) {
  from_resolver[0] = malloc(launder_size(300));
  if (from_resolver[0] != NULL) memset(from_resolver[0], 7, 300);
  from_resolver[1] = calloc(1, launder_size(100000));
  from_resolver[2] = realloc(malloc(launder_size(40)), launder_size(5000));
  free(malloc(launder_size(64)));
  return plain;
}
int two_ways(int x) __attribute__((ifunc("resolver")));

TEST(ifunc, resolvers_may_allocate_and_free, "") {
  CHECK_EQ(two_ways(1), 2);
  CHECK(from_resolver[0] != NULL && from_resolver[1] != NULL && from_resolver[2] != NULL);
  CHECK_BYTES(from_resolver[0], 7, 300);
  for (int i = 0; i < 3; i++) {
    if (fh_owns != NULL) CHECK(fh_owns(from_resolver[i]));
    from_resolver[i] = realloc(from_resolver[i], 6000);
    CHECK(from_resolver[i] != NULL);
    free(from_resolver[i]);
  }
  tour_everything();
}
