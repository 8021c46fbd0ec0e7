/* misuse_test.c - what a program may do wrong with a pointer, and the one line that it gets
 *
 * Each misuse aborts after exactly "freehold: <what>: <address> in <call>()". Where a released
 * slab may make a double free look like a foreign pointer, both words are right; the address
 * and the call always are. */
#include "entry.h"

static char pattern_text[256];
/* The line about `p`: `what` is an alternation such as "double free|invalid pointer". */
static const char *line(const char *what, const volatile void *p, const char *call) {
  snprintf(pattern_text, sizeof pattern_text,
           "^freehold: (%s): 0x0*%llx in %s\\(\\)" TEST_BLOCK "$", what,
           (unsigned long long)(uintptr_t)p, call);
  return pattern_text;
}
#define EITHER "double free|invalid pointer"

static const size_t sizes[] = {
  0,     1,     16,    24,    100,    512,     513,     1000,     4096,      10000,
  16384, 16385, 65536, 65537, 200000, 1000000, MiB_(5), MiB_(40), MiB_(600), (size_t)2 << 30};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* Written to all over, or all over its first megabyte. What older blocks left there is gone, so an
 * interior pointer cannot be taken for an older block's start. */
static void *new_block(size_t n) {
  void *p = malloc(launder_size(n));
  CHECK(p != NULL);
  size_t usable = malloc_usable_size(p);
  memset(p, 1, usable < MiB_(1) ? usable : MiB_(1));
  return launder(p);
}

/* ---- double frees ---------------------------------------------------------------------------- */

TEST(double_free, at_once, "") {
  for (int i = 0; i < SIZES; i++) {
    char *p = (char *)new_block(sizes[i]);
    free(p);
    EXPECT_ABORT(free(launder(p)), line(sizes[i] <= 16384 ? "double free" : EITHER, p, "free"));
  }
}

TEST(double_free, at_once_while_neighbours_live, "") {
  for (int i = 0; i < SIZES - 1; i++) {
    void *before = new_block(sizes[i]), *p = new_block(sizes[i]), *after = new_block(sizes[i]);
    free(p);
    EXPECT_ABORT(free(launder(p)), line(sizes[i] <= 16384 ? "double free" : EITHER, p, "free"));
    free(before);
    free(after);
  }
}

TEST(double_free, with_other_frees_between, "") {
  for (int i = 0; i < SIZES - 2; i++) {
    enum { N = 9 };
    void *p[N];
    for (int k = 0; k < N; k++) p[k] = new_block(sizes[i]);
    for (int k = 0; k < N - 1; k++) free(p[k]); /* the last one lives */
    for (int k = 0; k < N - 1; k += 3)
      EXPECT_ABORT(free(launder(p[k])), line(EITHER, p[k], "free"));
  }
}

TEST(double_free, with_a_thousand_frees_and_allocations_of_other_sizes_between, "") {
  void *p = new_block(48), *near = new_block(48);
  free(p);
  for (size_t i = 0; i < 1000; i++) free(new_block(64 + i % 3000));
  EXPECT_ABORT(free(launder(p)), line("double free", p, "free"));
  free(near);
}

TEST(double_free, after_all_its_neighbours_went_too, "") {
  enum { N = 20000 };
  static void *p[N];
  for (int i = 0; i < N; i++) p[i] = new_block(700); /* a size that the test itself does not need */
  for (int i = 0; i < N; i++) free(p[i]);
  for (int i = 0; i < N; i += N / 7) EXPECT_ABORT(free(launder(p[i])), line(EITHER, p[i], "free"));
}

static void *body_free(void *p) {
  free(p);
  return NULL;
}
static void free_elsewhere(void *p) { join_thread(start_thread(body_free, p, 0)); }
static void *body_malloc(void *size) { return new_block((size_t)(uintptr_t)size); }
static void *new_block_elsewhere(size_t n) {
  void *p = NULL;
  pthread_join(start_thread(body_malloc, (void *)n, 0), &p);
  return p;
}

/* Of blocks of every size that have a neighbour. */
static void check_both_frees(void (*first)(void *), void (*second)(void *)) {
  for (int i = 0; i < SIZES - 1; i++) {
    void *near = new_block(sizes[i]), *p = new_block(sizes[i]);
    first(p);
    EXPECT_ABORT(second(launder(p)), line(EITHER, p, "free"));
    free(near);
  }
}

TEST(double_free, by_another_thread, "") { check_both_frees(free, free_elsewhere); }
TEST(double_free, of_what_another_thread_freed_first, "") {
  check_both_frees(free_elsewhere, free);
}
TEST(double_free, by_two_other_threads, "") { check_both_frees(free_elsewhere, free_elsewhere); }

static void free_twice(void *p) {
  free(p);
  free(launder(p));
}
TEST(double_free, of_another_threads_block_twice_in_a_row, "") {
  for (int i = 0; i < SIZES - 1; i++) {
    void *p = new_block_elsewhere(sizes[i]);
    EXPECT_ABORT(free_twice(p), line(EITHER, p, "free"));
    free(p);
  }
}

TEST(double_free, of_aligned_blocks, "") {
  for (size_t a = 32; a <= ((size_t)1 << 30); a *= 4) {
    void *p = aligned_alloc(a, 100), *near = aligned_alloc(a, 100);
    free(p);
    EXPECT_ABORT(free(launder(p)), line(EITHER, p, "free"));
    free(near);
  }
}

TEST(double_free, through_realloc_that_moved_or_freed_the_block, "") {
  for (int i = 0; i < SIZES - 2; i++) {
    void *near = new_block(sizes[i]), *p = new_block(sizes[i]);
    void *q = realloc(p, sizes[i] * 4 + 5000);
    if (q != p) EXPECT_ABORT(free(launder(p)), line(EITHER, p, "free"));
    free(q);
    EXPECT_ABORT(free(launder(q)), line(EITHER, q, "free"));
    p = new_block(sizes[i]);
    CHECK_NULL(realloc(p, launder_size(0)));
    EXPECT_ABORT(free(launder(p)), line(EITHER, p, "free"));
    free(near);
  }
}

/* ---- pointers that are no block -------------------------------------------------------------- */

/* Where a large block began before, its end is remembered. */
static const char *interior(const char *p) {
  return (uintptr_t)p % (64 << 10) == 0 ? EITHER : "invalid pointer";
}

TEST(invalid, interior_pointers, "") {
  for (int i = 2; i < SIZES; i++) {
    char *p = (char *)new_block(sizes[i]);
    size_t usable = malloc_usable_size(p);
    for (size_t at = 1; at < usable; at = at < 16 ? at * 2 : at * 4)
      EXPECT_ABORT(free(launder(p + at)), line(interior(p + at), p + at, "free"));
    EXPECT_ABORT(free(launder(p + usable - 1)), line("invalid pointer", p + usable - 1, "free"));
    if (usable >= 32)
      EXPECT_ABORT(free(launder(p + usable / 32 * 16)),
                   line(interior(p + usable / 32 * 16), p + usable / 32 * 16, "free"));
    free(p);
  }
}

TEST(invalid, interior_pointers_on_borders_of_pages_and_slices, "") {
  static const size_t steps[] = {4096, 65536, 131072, MiB_(1), MiB_(2), MiB_(4), (size_t)1 << 30};
  for (int i = 13; i < SIZES; i++) {
    char *p = (char *)new_block(sizes[i]);
    for (unsigned k = 0; k < sizeof steps / sizeof steps[0]; k++) {
      char *inside = (char *)(((uintptr_t)p + steps[k]) / steps[k] * steps[k]);
      if (inside <= p || inside >= p + sizes[i]) continue;
      EXPECT_ABORT(free(launder(inside)), line(interior(inside), inside, "free"));
    }
    free(p);
  }
}

TEST(invalid, interior_pointers_of_another_threads_block, "") {
  for (int i = 2; i < SIZES - 1; i++) {
    char *p = (char *)new_block_elsewhere(sizes[i]);
    EXPECT_ABORT(free(launder(p + 8)), line("invalid pointer", p + 8, "free"));
    if (sizes[i] > 32) EXPECT_ABORT(free(launder(p + 16)), line("invalid pointer", p + 16, "free"));
    free(p);
  }
}

static char in_data[4096] __attribute__((aligned(4096))) = {1};
static char in_bss_itself[300000];
static const char in_text[64] __attribute__((aligned(16))) = "constant";

TEST(invalid, pointers_to_the_stack_to_static_data_and_to_code, "") {
  char on_stack[256] __attribute__((aligned(16)));
  memset(on_stack, 0, sizeof on_stack);
  char *in_bss = (char *)(((uintptr_t)in_bss_itself + 65535) / 65536 * 65536);
  const volatile char *wrong[] = {/* clang-format off */
    on_stack, on_stack + 1, on_stack + 16, on_stack + 128, in_data, in_data + 16, in_data + 7,
    in_bss, in_bss + 65536, in_bss + 100, in_text, (const char *)(uintptr_t)&body_free,
    (const char *)(uintptr_t)&errno
  }; /* clang-format on */
  for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    EXPECT_ABORT(free(launder(wrong[i])), line("invalid pointer", wrong[i], "free"));
}

TEST(invalid, pointers_to_memory_that_looks_like_a_block_of_libc, "") {
  static size_t fake[64] __attribute__((aligned(16)));
  static const size_t headers[] = {0x21,   0x31, 0x91, 0x1000,
                                   0x1002, 0x2,  0x25, 0xFFFFFFFFFFFFFFF1u};
  for (unsigned i = 0; i < sizeof headers / sizeof headers[0]; i++) {
    for (int k = 1; k < 64; k += 2) fake[k] = headers[i];
    EXPECT_ABORT(free(launder(&fake[2])), line("invalid pointer", &fake[2], "free"));
  }
}

TEST(invalid, pointers_into_mappings_of_the_program, "") {
  char *page =
    (char *)mmap(NULL, MiB_(4), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  char *slice = (char *)(((uintptr_t)page + 65535) / 65536 * 65536);
  char *wrong[] = {page, page + 16, page + 4096, slice, slice + 16, slice + 65536, page + 100001};
  for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    EXPECT_ABORT(free(launder(wrong[i])), line("invalid pointer", wrong[i], "free"));
  CHECK_EQ(mprotect(page, MiB_(4), PROT_NONE), 0);
  EXPECT_ABORT(free(launder(page + 16)), line("invalid pointer", page + 16, "free"));
  CHECK_EQ(munmap(page, MiB_(4)), 0);
  EXPECT_ABORT(free(launder(page + 16)), line("invalid pointer", page + 16, "free"));
  EXPECT_ABORT(free(launder(slice)), line("invalid pointer", slice, "free"));
}

static const uintptr_t wild[] = {/* clang-format off */
  1, 8, 16, 4095, 4096, 65536, 0x10000000, (uintptr_t)1 << 30, (uintptr_t)3 << 30, 0x123456789ABC,
  0x123456789AB0, (uintptr_t)1 << 46, 0x7FFFFFFFF000, 0x7FFFFFFFFFF0, (uintptr_t)1 << 47,
  (uintptr_t)1 << 48, 0xDEAD000000000010u, 0xFFFF800000000000u, 0xFFFFFFFFFFFF0000u,
  0xFFFFFFFFFFFFF000u, UINTPTR_MAX - 15, UINTPTR_MAX
}; /* clang-format on */
enum { WILD = sizeof wild / sizeof wild[0] };

TEST(invalid, wild_pointers, "") {
  for (int i = 0; i < WILD; i++) {
    void *p = (void *)wild[i];
    EXPECT_ABORT(free(launder(p)), line("invalid pointer", p, "free"));
    EXPECT_ABORT(launder(realloc(launder(p), 100)), line("invalid pointer", p, "realloc"));
    EXPECT_ABORT(launder_size(malloc_usable_size(launder(p))),
                 line("invalid pointer", p, "malloc_usable_size"));
  }
}

TEST(invalid, pointers_near_live_blocks_and_into_what_manages_them, "") {
  char *p = (char *)new_block(112), *large = (char *)new_block(200000);
  char *slice = (char *)((uintptr_t)p & ~(uintptr_t)65535),
       *window = (char *)((uintptr_t)p & ~(((uintptr_t)1 << 30) - 1));
  char *wrong[] = {/* clang-format off */
    slice, slice + 1, p + 1, p + 48, window, window + 16, window + 4096, window + 65536, large - 8,
    large + 16, large + 262144 + 16, window + ((uintptr_t)1 << 30) - 16
  }; /* clang-format on */
  for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    if (wrong[i] == p) continue;
    EXPECT_ABORT(free(launder(wrong[i])), line(EITHER, wrong[i], "free"));
  }
}

/* ---- other calls ----------------------------------------------------------------------------- */

TEST(freed, realloc_of_freed_memory, "") {
  for (int i = 0; i < SIZES; i++) {
    void *p = new_block(sizes[i]);
    free(p);
    EXPECT_ABORT(launder(realloc(launder(p), 100)), line(EITHER, p, "realloc"));
    EXPECT_ABORT(launder(realloc(launder(p), 300000)), line(EITHER, p, "realloc"));
    EXPECT_ABORT(launder(reallocarray(launder(p), 100, 10)), line(EITHER, p, "realloc(array)?"));
  }
}

TEST(freed, usable_size_of_freed_memory, "") {
  for (int i = 0; i < SIZES; i++) {
    void *p = new_block(sizes[i]);
    free(p);
    EXPECT_ABORT(launder_size(malloc_usable_size(launder(p))),
                 line(EITHER, p, "malloc_usable_size"));
  }
}

TEST(freed, realloc_and_usable_size_of_interior_pointers, "") {
  for (int i = 2; i < SIZES; i++) {
    char *p = (char *)new_block(sizes[i]) + (sizes[i] > 16 ? 16 : 8);
    EXPECT_ABORT(launder(realloc(launder(p), 100)), line("invalid pointer", p, "realloc"));
    EXPECT_ABORT(launder_size(malloc_usable_size(launder(p))),
                 line("invalid pointer", p, "malloc_usable_size"));
  }
}

TEST(sized, free_with_an_absurd_size, "c23") {
  CHECK(free_sized != NULL && free_aligned_sized != NULL);
  static const size_t absurd[] = {SIZE_MAX, (size_t)PTRDIFF_MAX, (size_t)1 << 47, (size_t)1 << 40};
  for (int i = 0; i < SIZES; i++) {
    for (unsigned k = 0; k < sizeof absurd / sizeof absurd[0]; k++) {
      void *p = new_block(sizes[i]);
      EXPECT_ABORT(free_sized(p, absurd[k]), line("[a-z ]+", p, "free_sized"));
      EXPECT_ABORT(free_aligned_sized(p, 16, absurd[k]), line("[a-z ]+", p, "free_aligned_sized"));
      free(p);
    }
  }
}

TEST(sized, free_with_more_bytes_than_the_block_has_or_an_alignment_that_it_has_not, "c23") {
  CHECK(free_sized != NULL && free_aligned_sized != NULL);
  for (int i = 0; i < SIZES; i++) {
    char *p = (char *)aligned_alloc(64, sizes[i]);
    size_t more = 2 * sizes[i] + 8192;
    EXPECT_ABORT(free_sized(p, more), line("wrong size", p, "free_sized"));
    EXPECT_ABORT(free_aligned_sized(p, 64, more), line("wrong size", p, "free_aligned_sized"));
    size_t other = (uintptr_t)p & -(uintptr_t)p;
    EXPECT_ABORT(free_aligned_sized(p, 2 * other, sizes[i]),
                 line("wrong alignment", p, "free_aligned_sized"));
    free_aligned_sized(p, 64, sizes[i]);
  }
}

TEST(sized, free_of_what_is_no_block, "c23") {
  CHECK(free_sized != NULL && free_aligned_sized != NULL);
  char *p = (char *)new_block(100);
  EXPECT_ABORT(free_sized(launder(p + 16), 84), line("invalid pointer", p + 16, "free_sized"));
  EXPECT_ABORT(free_aligned_sized(launder(p + 16), 16, 84),
               line("invalid pointer", p + 16, "free_aligned_sized"));
  free(p);
  EXPECT_ABORT(free_sized(launder(p), 100), line("double free", p, "free_sized"));
  for (int i = 0; i < WILD; i++) {
    void *q = (void *)wild[i];
    EXPECT_ABORT(free_sized(launder(q), 100), line("invalid pointer", q, "free_sized"));
  }
}

TEST(first_use, a_wild_free_as_the_very_first_call_is_reported, "") {
  test_child_t child;
  test_program(&child, "first_use.program_that_frees_its_stack");
  CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
  CHECK(test_matches("^freehold: invalid pointer: 0x[0-9a-f]+ in free\\(\\)" TEST_BLOCK "$",
                     child.text));
}
TEST(first_use, program_that_frees_its_stack, "program") {
  char on_stack[64] __attribute__((aligned(16))) = {0};
  free(launder(on_stack + 16));
}

/* The report of an error is made without the memory that is broken or missing. */
TEST(report, it_is_written_when_no_memory_is_left, "") {
  void *p = new_block(100);
  free(p);
  struct rlimit none = {0, 0};
  EXPECT_ABORT((setrlimit(RLIMIT_AS, &none), free(launder(p))), line("double free", p, "free"));
}

TEST(report, it_tells_the_block_around_the_pointer, "") {
  static const size_t sizes[] = {40, 1000, 20000, 300000, (size_t)700 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    char *p = new_block(sizes[i]), text[160];
    snprintf(text, sizeof text, "^freehold: .*; its block has [0-9]+ bytes at 0x0*%llx$",
             (unsigned long long)(uintptr_t)p);
    EXPECT_ABORT(free(launder(p + 16)), text);
    free(p);
  }
}

TEST(report, with_a_profile_it_tells_who_called_and_who_allocated_the_block, "") {
  test_child_t child;
  setenv("FREEHOLD_OPTIONS", "profile_interval:1", 1);
  test_program(&child, "report.program_that_frees_inside_a_block");
  CHECK(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGABRT);
  CHECK(
    test_matches("; its block has .*; called by thread [0-9]+ at misuse_test[^ ]*[+]0x[0-9a-f]+ .*"
                 "; allocated by thread [0-9]+ at misuse_test[^ ]*[+]0x[0-9a-f]+ .*$",
                 child.text));
}
TEST(report, program_that_frees_inside_a_block, "program") {
  char *p = malloc(launder_size(20000));
  free(launder(p + 16));
}

static void handler_double_free(int signal) {
  (void)signal;
  void *p = malloc(launder_size(64));
  free(p);
  free(launder(p));
}
TEST(report, it_is_written_in_a_signal_handler_too, "") {
  signal(SIGUSR1, handler_double_free);
  EXPECT_ABORT(raise(SIGUSR1), "^freehold: double free: 0x[0-9a-f]+ in free\\(\\)" TEST_BLOCK "$");
}
