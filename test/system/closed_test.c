/* closed_test.c - the options that want to see every call: fill, realloc_moves, abort_on_oom,
 * caches. Each group runs with the options that CMakeLists.txt gives it. */
#include "entry.h"

#include <pthread.h>

#include "../../include/freehold/freehold.h"

#pragma weak fh_malloc_batch
#pragma weak fh_on_deferred_free
#pragma weak fh_option_set

/* ---- fill ------------------------------------------------------------------------------------ */

enum { FILLED_NEW = 0xD0, FILLED_FREED = 0x5A };
static const size_t sizes[] = {1, 16, 100, 1000, 16384, 16385, 100000, 1000000, MiB_(40)};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void check_bytes(const unsigned char *p, unsigned char byte, size_t from, size_t to) {
  for (size_t i = from; i < to; i += i < from + 5000 || i + 5000 > to ? 1 : 997)
    if (p[i] != byte) FAIL("byte %zu of %zu is %02x, not %02x", i, to, p[i], byte);
}

TEST(fill, new_blocks_are_filled_also_where_memory_is_used_again, "") {
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < SIZES; i++) {
      unsigned char *p = malloc(launder_size(sizes[i])), *q = aligned_alloc(64, sizes[i]);
      check_bytes(p, FILLED_NEW, 0, malloc_usable_size(p));
      check_bytes(q, FILLED_NEW, 0, malloc_usable_size(q));
      memset(p, 1, 1);
      free(launder(p));
      free(launder(q));
    }
}

TEST(fill, calloc_is_not_filled, "") {
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < SIZES; i++) {
      unsigned char *p = calloc(1, launder_size(sizes[i]));
      check_bytes(p, 0, 0, sizes[i]);
      memset(p, 1, sizes[i] < 1000 ? sizes[i] : 1000);
      free(launder(p));
    }
}

TEST(fill, what_realloc_adds_is_filled_and_what_was_there_stays, "") {
  for (int i = 0; i < SIZES - 1; i++) {
    unsigned char *p = malloc(launder_size(sizes[i]));
    size_t before = malloc_usable_size(p);
    memset(p, 7, before);
    p = realloc(p, before * 3 + 1);
    check_bytes(p, 7, 0, before);
    check_bytes(p, FILLED_NEW, before, malloc_usable_size(p));
    p = realloc(p, before / 2 + 1);
    check_bytes(p, 7, 0, before / 2 + 1);
    free(p);
  }
}

/* A free block's link and key take its first 16 bytes. */
TEST(fill, freed_blocks_are_filled_behind_their_link, "") {
  enum { N = 40, SIZE = 700 };
  unsigned char *p[N];
  for (int i = 0; i < N; i++) memset(p[i] = malloc(launder_size(SIZE)), 1, SIZE);
  for (int i = 0; i < N; i += 2) {
    free(launder(p[i]));
    check_bytes(launder(p[i]), FILLED_FREED, 16, SIZE);
  }
  unsigned char *moved = realloc(p[1], 9000);
  check_bytes(launder(p[1]), FILLED_FREED, 16, SIZE);
  check_bytes(moved, 1, 0, SIZE);
}

TEST(fill, a_double_free_is_still_a_double_free, "") {
  char *p = malloc(launder_size(100));
  free(launder(p));
  EXPECT_ABORT(free(launder(p)), "^freehold: double free: 0x[0-9a-f]+ in free\\(\\)");
}

/* ---- realloc_moves --------------------------------------------------------------------------- */

TEST(moves, realloc_never_returns_the_same_address_and_keeps_what_was_there, "") {
  for (int i = 0; i < SIZES; i++) {
    unsigned char *p = malloc(launder_size(sizes[i])), *q;
    size_t usable = malloc_usable_size(p), part = usable < 5000 ? usable : 5000;
    memset(p, 9, part);
    uintptr_t before = (uintptr_t)p;
    q = realloc(p, sizes[i]);
    CHECK_NE((uintptr_t)q, before);
    check_bytes(q, 9, 0, part < sizes[i] ? part : sizes[i]);
    before = (uintptr_t)q;
    q = realloc(q, sizes[i] / 2 + 1);
    CHECK_NE((uintptr_t)q, before);
    free(q);
  }
}

TEST(moves, without_memory_a_block_does_not_grow_and_realloc_says_so, "") {
  static const size_t few[] = {100, 40000, 6000000};
  for (int i = 0; i < 3; i++) {
    unsigned char *p = malloc(launder_size(few[i]));
    memset(p, 9, few[i]);
    CHECK(fh_option_set("memory_limit", 1));
    while (malloc(few[i]) != NULL) continue;
    unsigned char *q = realloc(p, launder_size(few[i] + 10));
    CHECK(q == NULL || malloc_usable_size(q) >= few[i] + 10);
    CHECK(fh_option_set("memory_limit", 0));
    if (q != NULL) p = q;
    check_bytes(p, 9, 0, few[i]);
    free(p);
  }
}

/* ---- abort_on_oom ---------------------------------------------------------------------------- */

#define OUT "^freehold: out of memory; bytes asked for: "
TEST(oom, an_allocation_that_fails_ends_the_program_with_its_size, "") {
  size_t much = (size_t)1 << 60;
  EXPECT_ABORT(launder(malloc(launder_size(much))), OUT "0x1000000000000000 in malloc");
  EXPECT_ABORT(launder(calloc(1, launder_size(much))), OUT "0x1000000000000000 in calloc");
  EXPECT_ABORT(launder(aligned_alloc(64, launder_size(much))),
               OUT "0x1000000000000000 in aligned_alloc");
  EXPECT_ABORT(launder(memalign(64, launder_size(much))), OUT "0x1000000000000000 in memalign");
  EXPECT_ABORT(launder(valloc(launder_size(much))), OUT "0x1000000000000000 in valloc");
  EXPECT_ABORT(launder(pvalloc(launder_size(much))), OUT "0x1000000000000000 in pvalloc");
  void *p;
  EXPECT_ABORT((void)posix_memalign(&p, 64, launder_size(much)),
               OUT "0x1000000000000000 in posix_memalign");
  EXPECT_ABORT(launder(realloc(malloc(1), launder_size(much))),
               OUT "0x1000000000000000 in realloc");
  EXPECT_ABORT(launder(calloc(launder_size(much), 64)), OUT "0xf+ in calloc");
  EXPECT_ABORT(launder(reallocarray(NULL, launder_size(much), 64)), OUT "0xf+ in reallocarray");
  if (fh_malloc_batch != NULL)
    EXPECT_ABORT(launder((void *)fh_malloc_batch(launder_size(much), 1, &p)),
                 OUT "0x1000000000000000 in fh_malloc_batch");
  EXPECT_SURVIVAL(free(launder(malloc(1000))));
}

static void tell(bool force, uint64_t heartbeat, void *context) {
  (void)force, (void)heartbeat, (void)context;
  CHECK_EQ(write(2, "called\n", 7), 7);
}

TEST(oom, no_callback_comes_between_and_a_size_is_no_address, "") {
  fh_on_deferred_free(tell, NULL);
  EXPECT_ABORT(launder(malloc(launder_size((size_t)1 << 60))), OUT "0x1000000000000000 in malloc");
  fh_on_deferred_free(NULL, NULL);
  uintptr_t p = (uintptr_t)launder(malloc(100));
  CHECK(fh_option_set("memory_limit", 1 << 30));
  EXPECT_ABORT(launder(malloc(p)), OUT "0x[0-9a-f]+ in malloc\\(\\)(\n$|; called)");
  CHECK(fh_option_set("memory_limit", 0));
}

/* The library's; the program has no C++ runtime. */
__attribute__((weak)) void *operator_new(size_t size) __asm__("_Znwm");
__attribute__((weak)) void *operator_new_array(size_t size) __asm__("_Znam");
__attribute__((weak)) void *operator_new_aligned(size_t size,
                                                 size_t alignment) __asm__("_ZnwmSt11align_val_t");

TEST(oom, it_says_which_operator_was_called, "") {
  size_t much = (size_t)1 << 60;
  EXPECT_ABORT(launder(operator_new(launder_size(much))),
               OUT "0x1000000000000000 in operator new\\(\\)");
  EXPECT_ABORT(launder(operator_new_array(launder_size(much))),
               OUT "0x1000000000000000 in operator new\\[\\]\\(\\)");
  EXPECT_ABORT(launder(operator_new_aligned(launder_size(much), 64)),
               OUT "0x1000000000000000 in operator new\\(\\)");
}

/* ---- caches ---------------------------------------------------------------------------------- */

static void *volatile handed;
static void *free_handed(void *context) {
  free(handed);
  return context;
}
static void *take_same_size(void *context) {
  handed = malloc(launder_size(3000));
  return context;
}
static void in_thread(void *(*run)(void *)) {
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, run, NULL), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* With caches a thread keeps what it has freed for itself. */
TEST(caches, what_a_thread_frees_is_at_once_any_threads, "") {
  enum { ROUNDS = 20 };
  int same = 0;
  for (int i = 0; i < ROUNDS; i++) {
    void *p = malloc(launder_size(3000));
    free(launder(p));
    in_thread(take_same_size);
    same += handed == p;
    free(handed);
  }
  CHECK_GE(same, ROUNDS - 2); /* the first blocks of a class come from a slab apart */
}

TEST(caches, blocks_of_every_size_come_and_go, "") {
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < SIZES; i++) {
      handed = memset(malloc(launder_size(sizes[i])), 3, 1);
      in_thread(free_handed);
      handed = calloc(1, sizes[i]);
      free(realloc((void *)handed, sizes[i] + 5000));
    }
}
