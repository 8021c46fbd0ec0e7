/* check_test.c - tests of base/check */
#include "core.h"

TEST(check, fatal_tells_the_reporter_what_where_and_in_which_call, "") {
  EXPECT_ABORT(fatal("double free", (void *)0x1230, "free"),
               "^freehold: double free: 0x1230 in free\\(\\)$");
}

static void returns(const char *what, const void *address, const char *call) {
  (void)what, (void)address, (void)call;
}

TEST(check, fatal_never_returns_even_if_the_reporter_does_or_there_is_none, "") {
  test_child_t c;
  for (int with = 0; with < 2; with++) {
    if (test_fork(&c, 20)) {
      check_set_reporter(with ? returns : NULL);
      fatal("double free", NULL, "free");
    }
    test_reap(&c);
    CHECK(WIFSIGNALED(c.status) && WTERMSIG(c.status) != SIGALRM);
    CHECK_EQ(c.length, 0u);
  }
}

static void broken(int a) { HOLDS(X7, a == 1); }
static void wrong(int a) { ASSERT(a == 1); }

TEST(check, a_broken_invariant_is_named_with_its_tag, "") {
  broken(1);
  EXPECT_ABORT(broken(2), "invariant X7: a == 1: .* in broken\\(\\)$");
}

TEST(check, a_failed_assertion_says_where_it_stands, "") {
  wrong(1);
  EXPECT_ABORT(wrong(2), "assertion a == 1 at .*check_test.c:[0-9]+: .* in wrong\\(\\)$");
}
