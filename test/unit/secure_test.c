/* secure_test.c - tests of secure/secure, in the secure grade */
#include "../../src/secure/secure.h"

#include "../../src/heap/firstclass.h"
#include "../../src/slab/states.h"
#include "../../src/stock/lanes.h"
#include "heaps.h"

static const size_t sizes[] = {0, 1, 7, 8, 9, 24, 100, 1000, 5000, 16376, 16377, 70000, MiB(3)};

static char *allocate(size_t size) {
  secure_start();
  return secure_allocate(NULL, 1, size, ORIGIN_MALLOC);
}

TEST(secure, a_block_is_zero_and_has_just_the_bytes_that_were_asked_for, "") {
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
    for (int round = 0; round < 300; round++) {
      char *p = allocate(sizes[i]);
      CHECK_BYTES(p, 0, sizes[i]);
      CHECK_EQ(secure_size(p, "test"), sizes[i]);
      memset(p, 0xA7, sizes[i]);
      secure_free(p, ORIGIN_MALLOC, "test");
    }
}

static void free_some(void *context) {
  for (size_t i = 1; i < ARRAY_LENGTH(sizes); i++)
    secure_free(allocate(sizes[i]), ORIGIN_MALLOC, "");
  *(char **)context = allocate(100);
  secure_free(*(char **)context, ORIGIN_MALLOC, "");
}
static uint64_t first_thread;
static bool all_others_have_ended(uint64_t thread) { return thread != first_thread; }

TEST(secure, what_a_dead_thread_held_back_is_free_once_its_heap_is_found, "") {
  char *rested;
  first_thread = os_thread();
  secure_free(allocate(100), ORIGIN_MALLOC, "");
  secure_end_quarantine();
  heap_collect(true);
  uint64_t before = atomic64_load_relaxed(&arena_counts.committed);
  for (int i = 0; i < 20; i++) in_thread(free_some, &rested, false);
  os_fake.has_ended = all_others_have_ended;
  CHECK_GT(atomic64_load_relaxed(&arena_counts.committed), before + 20);
  heap_collect(true);
  CHECK_LE(atomic64_load_relaxed(&arena_counts.committed), before + 1);
}

static void free_large(void *context) {
  (void)context;
  secure_free(allocate(KiB(200)), ORIGIN_MALLOC, "");
}

/* As at RLIMIT_DATA: then it goes without its pages. */
TEST(secure, a_large_block_of_a_dead_thread_that_the_system_does_not_open_is_not_read, "") {
  first_thread = os_thread();
  secure_free(allocate(100), ORIGIN_MALLOC, "");
  in_thread(free_large, NULL, false);
  os_fake.has_ended = all_others_have_ended;
  uint64_t before = atomic64_load_relaxed(&arena_counts.committed);
  os_fake_fail(1u << OS_FAKE_PROTECT, 1, true);
  heap_collect(true);
  os_fake_fail(1u << OS_FAKE_PROTECT, 0, false);
  CHECK_LE(atomic64_load_relaxed(&arena_counts.committed), before - 4);
}

static void write_to_a_dead_threads(void) {
  char *rested;
  first_thread = os_thread();
  allocate(100);
  in_thread(free_some, &rested, false);
  os_fake.has_ended = all_others_have_ended;
  rested[0] = 1;
  heap_collect(true);
}

TEST(secure, a_byte_written_to_what_a_dead_thread_held_back_is_found, "") {
  EXPECT_ABORT(write_to_a_dead_threads(), "write after free");
}

TEST(secure, a_byte_written_right_behind_a_block_is_found, "") {
  static const char values[] = {0, 'a', (char)0xFF};
  for (size_t i = 1; /* the first has no bytes: the write itself faults */ i < ARRAY_LENGTH(sizes);
       i++)
    for (size_t v = 0; v < sizeof values; v++) {
      char *p = allocate(sizes[i]);
      char before = p[sizes[i]];
      p[sizes[i]] = values[v];
      EXPECT_ABORT(secure_free(p, ORIGIN_MALLOC, "test"), "overflow behind");
      p[sizes[i]] = before;
      secure_free(p, ORIGIN_MALLOC, "test");
    }
}

TEST(secure, a_byte_written_right_before_a_block_is_found, "") {
  for (size_t i = 1; i < ARRAY_LENGTH(sizes) && sizes[i] <= 5000; i++) {
    char *p[8];
    size_t step = class_size(class_of(max_size(sizes[i] + 8, 17)));
    for (int k = 0; k < 8; k++) p[k] = allocate(sizes[i]);
    for (int k = 0; k < 8; k++) {
      bool is_first = (uintptr_t)p[k] % SLICE_SIZE == step;
      if (!is_first && (k == 0 || p[k] != p[k - 1] + step)) continue;
      char before = p[k][-1];
      p[k][-1] = 'a';
      EXPECT_ABORT(secure_free(p[k], ORIGIN_MALLOC, "test"), "underflow before");
      p[k][-1] = before;
    }
  }
}

TEST(secure, a_second_free_is_found_also_when_it_comes_late, "") {
  char *p = allocate(40);
  secure_free(p, ORIGIN_MALLOC, "test");
  EXPECT_ABORT(secure_free(p, ORIGIN_MALLOC, "test"), "double free");
  for (int i = 0; i < 5000; i++) secure_free(allocate(100), ORIGIN_MALLOC, "test");
  EXPECT_ABORT(secure_free(p, ORIGIN_MALLOC, "test"), "double free");
}

static void *resized;
static void free_meanwhile(os_fake_call_t call, void *at, size_t size) {
  (void)at, (void)size;
  if (call != OS_FAKE_PROTECT) return;
  os_fake.before = NULL;
  secure_free(resized, ORIGIN_MALLOC, "test");
}
TEST(secure, a_free_that_comes_while_a_large_block_is_about_to_be_resized_is_found, "") {
  resized = allocate(200000);
  os_fake.before = free_meanwhile;
  EXPECT_ABORT(secure_resize(NULL, resized, 150000, "test"), "double free");
}

static void use_all_of_the_class(size_t size) {
  for (int i = 0; i < 20000; i++) secure_free(allocate(size), ORIGIN_MALLOC, "test");
}
TEST(secure, a_write_to_a_freed_block_is_found_when_the_block_is_used_again, "") {
  static const size_t places[] = {0, 8, 20, 90};
  for (size_t i = 0; i < ARRAY_LENGTH(places); i++) {
    char *p = allocate(100);
    secure_free(p, ORIGIN_MALLOC, "test");
    p[places[i]] = 1;
    EXPECT_ABORT(use_all_of_the_class(100), "write after free");
    p[places[i]] = 0;
  }
}

TEST(secure, a_block_is_freed_by_the_call_that_goes_with_the_one_it_came_by, "") {
  secure_start();
  for (int from = ORIGIN_MALLOC; from <= ORIGIN_NEW_ARRAY; from++)
    for (int to = ORIGIN_MALLOC; to <= ORIGIN_NEW_ARRAY; to++) {
      void *p = secure_allocate(NULL, 1, 64, (origin_t)from);
      if (from != to) EXPECT_ABORT(secure_free(p, (origin_t)to, "test"), "wrong call");
      secure_free(p, (origin_t)from, "test");
    }
}

TEST(secure, what_is_no_block_is_refused, "") {
  char *p = allocate(64), *large = allocate(100000);
  EXPECT_ABORT(secure_free(p + 16, ORIGIN_MALLOC, "test"), "invalid pointer");
  EXPECT_ABORT(secure_free(p + 80, ORIGIN_MALLOC, "test"), "invalid pointer");
  EXPECT_ABORT(secure_free(large + 16, ORIGIN_MALLOC, "test"), "invalid pointer");
  EXPECT_ABORT(secure_free(large + SLICE_SIZE, ORIGIN_MALLOC, "test"), "invalid pointer");
  EXPECT_ABORT(secure_check_size(p, 63, "test"), "wrong size");
}

TEST(secure, realloc_keeps_the_contents_and_zeroes_what_it_adds, "") {
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
    for (size_t j = 0; j < ARRAY_LENGTH(sizes); j++) {
      size_t from = sizes[i], to = max_size(sizes[j], 1);
      char *p = allocate(from);
      memset(p, 3, from);
      p = secure_resize(NULL, p, to, "test");
      CHECK_EQ(secure_size(p, "test"), to);
      CHECK_BYTES(p, 3, min_size(from, to));
      if (to > from) CHECK_BYTES(p + from, 0, to - from);
      memset(p, 4, to);
      secure_free(p, ORIGIN_MALLOC, "test");
    }
}

TEST(secure, realloc_in_place_leaves_zeros_and_a_trailer_behind_any_step, "") {
  for (size_t from = 1; from < 700; from += from < 90 ? 1 : 37)
    for (size_t to = 1; to < 700; to += to < 90 ? 1 : 41) {
      char *p = allocate(from), before;
      memset(p, 0xA7, from);
      char *q = secure_resize_small(p, to, "test"); /* NULL: it would not be a short way */
      if (q == NULL) q = secure_resize(NULL, p, to, "test");
      CHECK_EQ(secure_size(q, "test"), to);
      CHECK_BYTES(q, 0xA7, min_size(from, to));
      if (to > from) CHECK_BYTES(q + from, 0, to - from);
      before = q[to];
      q[to] = 'a';
      if (from == to) EXPECT_ABORT(secure_free(q, ORIGIN_MALLOC, "test"), "overflow behind");
      q[to] = before;
      secure_free(q, ORIGIN_MALLOC, "test");
    }
}

TEST(secure, what_is_visited_is_live_and_has_its_own_size, "") {
  char *p = allocate(50);
  size_t size = 0;
  CHECK(secure_visited(p, &size) && size == 50);
  secure_free(p, ORIGIN_MALLOC, "test");
  CHECK(!secure_visited(p, &size));
}

TEST(secure, a_large_block_that_rests_is_not_visited, "") {
  char *p = allocate(200000);
  size_t size = 0;
  CHECK(secure_visited(p, &size) && size == 200000);
  secure_free(p, ORIGIN_MALLOC, "test");
  CHECK(!secure_visited(p, &size));
}

TEST(secure, what_realloc_adds_to_a_large_block_is_zero_where_others_have_written_before, "") {
  static const size_t from[] = {20000, 60000, 100000, 600000}, to[] = {900000, MiB(2), MiB(600)};
  for (size_t i = 0; i < ARRAY_LENGTH(from); i++)
    for (size_t j = 0; j < ARRAY_LENGTH(to); j++) {
      enum { BEFORE = 24 };
      char *before[BEFORE];
      for (int k = 0; k < BEFORE; k++) {
        before[k] = allocate(from[i] + 50000);
        memset(before[k], 'S', from[i] + 50000);
      }
      for (int k = 0; k < BEFORE; k++) secure_free(before[k], ORIGIN_MALLOC, "test");
      char *p = allocate(from[i]);
      p = secure_resize(NULL, p, to[j], "test");
      CHECK_BYTES(p, 0, min_size(to[j], MiB(4)));
      secure_free(p, ORIGIN_MALLOC, "test");
    }
}

TEST(secure, a_block_that_realloc_leaves_rests_and_a_large_one_cannot_be_touched, "") {
  char *p = allocate(100000), *behind = allocate(100000);
  char *q = secure_resize(NULL, p, 5000, "test");
  CHECK(q != p && behind != NULL);
  EXPECT_ABORT(secure_free(p, ORIGIN_MALLOC, "test"), "double free");
  size_t size = 0;
  CHECK(!secure_visited(p, &size));
}

TEST(secure, a_large_block_that_expands_to_less_has_that_size, "") {
  static const size_t sizes[] = {MiB(9), MiB(5), 100, 0};
  char *p = allocate(MiB(10));
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
    CHECK(secure_expand(p, sizes[i], "test"));
    CHECK_EQ(secure_size(p, "test"), sizes[i]);
  }
  secure_free(p, ORIGIN_MALLOC, "free");
}

TEST(secure, a_block_that_the_system_does_not_open_is_as_long_as_before, "") {
  char *p = allocate(KiB(200));
  os_fake_fail(1u << OS_FAKE_PROTECT, 1, true);
  CHECK(secure_expand(p, KiB(100), "test"));
  CHECK(!secure_expand(p, KiB(300), "test"));
  os_fake_fail(1u << OS_FAKE_PROTECT, 0, false);
  CHECK_EQ(secure_size(p, "test"), (size_t)KiB(200));
  secure_free(p, ORIGIN_MALLOC, "free");
}

TEST(secure, a_sampled_block_that_expands_to_less_does_not_grow, "") {
  char *p = NULL;
  CHECK(sample_start(1));
  for (int i = 0; i < 100 && (p == NULL || (slab_word(slab_of(p)) & SLAB_IS_SAMPLED) == 0); i++)
    p = allocate(100);
  CHECK((slab_word(slab_of(p)) & SLAB_IS_SAMPLED) != 0);
  size_t usable = heap_usable_size(p, "test");
  CHECK(secure_expand(p, 50, "test"));
  CHECK_EQ(secure_size(p, "test"), (size_t)50);
  CHECK_EQ(heap_usable_size(p, "test"), usable);
  CHECK((slab_word(slab_of(p)) & SLAB_IS_SAMPLED) != 0);
  sample_start(0);
}

TEST(secure, at_the_end_of_a_heap_each_block_is_looked_at_and_none_is_left_live, "") {
  static const size_t ends[] = {100, 100000, MiB(600)};
  for (size_t i = 0; i < ARRAY_LENGTH(ends); i++) {
    secure_start();
    struct fh_heap *heap = firstclass_new();
    char *p = secure_allocate(heap, 1, ends[i], ORIGIN_MALLOC);
    p[ends[i]] ^= 1;
    EXPECT_ABORT(secure_heap_ends(heap), "overflow behind");
    p[ends[i]] ^= 1;
    secure_heap_ends(heap);
    size_t size = 0;
    CHECK(i == 2 || !secure_visited(p, &size));
    firstclass_destroy(heap);
  }
}

TEST(secure, what_the_library_has_for_itself_is_not_taken_for_a_write_after_free, "") {
  static char *p[600]; /* of the size of a heap's record and a trailer */
  fh_heap_t *heap = NULL;
  for (int round = 0; round < 20; round++) {
    for (size_t i = 0; i < ARRAY_LENGTH(p); i++) p[i] = allocate(sizeof(fh_heap_t) - 8);
    for (size_t i = 0; i < ARRAY_LENGTH(p); i++) secure_free(p[i], ORIGIN_MALLOC, "test");
    if (heap != NULL) firstclass_delete(heap);
    heap = firstclass_new_with("a name that fills its record", 1);
  }
  secure_end();
  firstclass_delete(heap);
}

enum { GENERATIONS = 10 };
static char *of_generation[GENERATIONS][ARRAY_LENGTH(sizes)];
static int generation;
static void allocate_as(int number) {
  for (size_t i = 1; i < ARRAY_LENGTH(sizes); i++)
    of_generation[number][i] = memset(allocate(sizes[i]), number + 1, sizes[i]);
}
/* Blocks of all parents are checked, resized and freed. */
static void live_in_child(void) {
  secure_free(allocate(30), ORIGIN_MALLOC, "test");
  allocate_as(++generation);
  for (int g = 0; g < GENERATIONS && g <= generation; g++)
    for (size_t i = 1; i < ARRAY_LENGTH(sizes); i++) {
      char *p = of_generation[g][i];
      CHECK_EQ(secure_size(p, "test"), sizes[i]);
      CHECK_BYTES(p, g + 1, sizes[i]);
      p[sizes[i]] ^= 1;
      EXPECT_ABORT(secure_free(p, ORIGIN_MALLOC, "test"), "overflow behind");
      p[sizes[i]] ^= 1;
      if (i % 2 == 0) p = secure_resize(NULL, p, sizes[i] + 100, "test");
      secure_free(p, ORIGIN_MALLOC, "test");
    }
  secure_end();
}
static void live_and_fork(void) {
  int live = in_child(live_in_child);
  CHECK_EQ(live, 0);
  secure_free(allocate(30), ORIGIN_MALLOC, "test");
  allocate_as(++generation);
  if (generation + 2 < GENERATIONS) CHECK_EQ(in_child(live_and_fork), 0);
}

TEST(secure, a_child_of_fork_checks_what_its_parents_sealed_before, "") {
  os_fake.is_random = true;
  allocate_as(0);
  CHECK_EQ(in_child(live_and_fork), 0);
}

static uintptr_t of_parent;
static uint64_t sealed;
static void seal_anew(void) {
  secure_free(allocate(100), ORIGIN_MALLOC, "test");
  CHECK(trailer_seal(of_parent) != sealed);
}

TEST(secure, what_a_child_of_fork_allocates_has_another_seal_than_its_parent_s, "") {
  os_fake.is_random = true;
  of_parent = (uintptr_t)allocate(100);
  sealed = trailer_seal(of_parent);
  CHECK_EQ(in_child(seal_anew), 0);
  CHECK_EQ(trailer_seal(of_parent), sealed);
}
