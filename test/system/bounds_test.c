/* bounds_test.c - memcpy and its kind within blocks: with libfreehold-bounds.so preloaded
 *
 * Compiled without built-in functions, so that each call is one. A resolver of an indirect function
 * calls them while the program is still being relocated. */
#include "entry.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

static char pattern_text[256];
static const char *line(const char *what, size_t n, size_t left, size_t size, const void *p,
                        const char *call) {
  snprintf(
    pattern_text, sizeof pattern_text,
    "^freehold: %s of %zu bytes, %zu left of a block of %zu bytes: 0x0*%lx in %s\\(\\)" TEST_BLOCK
    "$",
    what, n, left, size, (unsigned long)(uintptr_t)p, call);
  return pattern_text;
}

static char elsewhere[MiB_(4)];
static const size_t sizes[] = {1, 24, 100, 1000, 5000, 16000, 70000, MiB_(1), MiB_(3)};
enum { SIZES = sizeof sizes / sizeof sizes[0] };
static char *block_of(size_t n) { return (char *)launder(malloc(launder_size(n))); }

static int plain(int x) { return x + 1; }
static char resolved[16];
static int (*resolver(void))(int) {
  memset(launder(resolved), 7, 16);
  memmove(launder(resolved + 1), launder(resolved), 8);
  strcpy((char *)launder(resolved + 8), "here");
  return plain;
}
int two_ways(int x) __attribute__((ifunc("resolver")));

TEST(bounds, a_resolver_may_copy_before_the_program_is_relocated, "") {
  CHECK_EQ(two_ways(1), 2);
  CHECK_BYTES(resolved, 7, 8);
  CHECK(strcmp(resolved + 8, "here") == 0);
}

TEST(bounds, a_call_that_writes_behind_a_block_is_told_at_once, "") {
  for (int i = 0; i < SIZES; i++) {
    size_t n = sizes[i], from = n / 3, left = n - from;
    char *p = block_of(n), *at = p + from;
    EXPECT_ABORT(memcpy(at, elsewhere, left + 1), line("write", left + 1, left, n, p, "memcpy"));
    EXPECT_ABORT(memmove(at, elsewhere, n + 9), line("write", n + 9, left, n, p, "memmove"));
    EXPECT_ABORT(memset(at, 7, left + 32), line("write", left + 32, left, n, p, "memset"));
    EXPECT_ABORT(strncpy(at, "a", left + 1), line("write", left + 1, left, n, p, "strncpy"));
    EXPECT_ABORT(memset(p + n, 7, 1), line("write", 1, 0, n, p, "memset"));
    memset(at, 7, left);
    memcpy(at, elsewhere, left);
    free(p);
  }
}

TEST(bounds, what_the_program_keeps_beside_memory_that_it_brought_is_in_no_block, "") {
  enum { BROUGHT = 32 << 20, SIZE = 64 << 20, N = 200 };
  const uintptr_t gib = (uintptr_t)1 << 30;
  size_t (*add)(void *, size_t, unsigned) =
    (size_t(*)(void *, size_t, unsigned))dlsym(RTLD_DEFAULT, "fh_arena_add");
  char *p =
    (char *)mmap(NULL, 2 * gib, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char *at = (char *)(((uintptr_t)p + gib) & ~(gib - 1));
  CHECK_EQ(mprotect(at, SIZE, PROT_READ | PROT_WRITE), 0);
  CHECK(add != NULL && add(at, BROUGHT, 1) != 0);
  for (int i = 0; i < N; i++) CHECK(block_of(200000) != NULL); /* up to its end */
  for (size_t i = BROUGHT; i < SIZE; i += 100000) memset((char *)launder(at + i), 7, 1000);
  CHECK_BYTES(at + BROUGHT, 7, 1000);
}

TEST(bounds, a_string_that_is_too_long_by_its_zero_is_told, "") {
  char *p = block_of(6);
  EXPECT_ABORT(strcpy(p, "abcdef"), line("write", 7, 6, 6, p, "strcpy"));
  EXPECT_ABORT(stpcpy(p, "abcdef"), line("write", 7, 6, 6, p, "stpcpy"));
  strcpy(p, "abc");
  EXPECT_ABORT(strcat(p, "def"), line("write", 7, 6, 6, p, "strcat"));
  EXPECT_ABORT(strncat(p, "defgh", 4), line("write", 8, 6, 6, p, "strncat"));
  free(p);
}

TEST(bounds, a_call_that_reads_behind_a_block_is_told_at_once, "") {
  for (int i = 0; i < SIZES; i++) {
    size_t n = sizes[i];
    char *p = block_of(n);
    EXPECT_ABORT(memcpy(elsewhere, p, n + 1), line("read", n + 1, n, n, p, "memcpy"));
    EXPECT_ABORT(mempcpy(elsewhere, p + 1, n), line("read", n, n - 1, n, p, "mempcpy"));
    memcpy(elsewhere, p, n);
    free(p);
  }
}

TEST(bounds, what_stays_within_a_block_is_as_libc_does_it, "C23 7.26") {
  char *p = block_of(40), want[40];
  for (size_t i = 0; i < 40; i++) p[i] = want[i] = (char)(i * 7 + 1);
  CHECK(memmove(p + 3, p, 30) == p + 3);
  for (size_t i = 30; i-- > 0;) want[i + 3] = want[i];
  CHECK(memcmp(p, want, 40) == 0);
  CHECK(memmove(p, p + 5, 30) == p);
  for (size_t i = 0; i < 30; i++) want[i] = want[i + 5];
  CHECK(memcmp(p, want, 40) == 0);
  CHECK(memcpy(p, want + 1, 39) == p && memset(p, 300, 40) == p && p[39] == 44);
  CHECK(mempcpy(p, want, 40) == p + 40);
  CHECK(memcpy(p + 40, want, 0) == p + 40 && memset(p + 41, 1, 0) == p + 41);
  CHECK(memmove(p + 4000, p, 0) == p + 4000);
  CHECK(strcpy(p, "abc") == p && stpcpy(p, "abc") == p + 3 && strcat(p, "de") == p);
  CHECK(strncat(p, "fghi", 2) == p && strcmp(p, "abcdefg") == 0);
  CHECK(strncpy(p, "xy", 6) == p && memcmp(p, "xy\0\0\0\0g", 8) == 0);
  CHECK(strncpy(p, "vwxyz", 3) == p && memcmp(p, "vwx\0\0\0g", 8) == 0);
  free(p);
}

static void handler(int number) {
  (void)number;
  char *p = block_of(100);
  memset(p, 7, 100);
  memcpy(elsewhere, p, 100);
  free(p);
}
TEST(bounds, a_signal_handler_may_copy_while_its_thread_does, "") {
  CHECK(signal(SIGALRM, handler) != SIG_ERR);
  struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
  CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
  for (int i = 0; i < 20000; i++) {
    char *p = block_of(100 + i % 900);
    memset(p, i, 100);
    memmove(p + 1, p, 99);
    p = (char *)realloc(p, 300);
    CHECK_BYTES(p, (char)i, 100);
    free(p);
  }
  CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
}
