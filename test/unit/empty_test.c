/* empty_test.c - tests of stock/empty */
#include "faults.h"
#include "heaps.h"

#include "../../src/stock/empty.h"

enum { SOME = 10000, ALL = EMPTY_WORDS * 64, ROUND = ALL / EMPTY_STEP };

TEST(empty, a_block_of_no_bytes_is_unique_aligned_and_can_be_freed, "") {
  static void *p[SOME];
  for (size_t i = 0; i < ARRAY_LENGTH(p); i++) {
    p[i] = i % 3 == 0 ? fast_malloc(0) : i % 3 == 1 ? heap_calloc(i, 0) : fast_aligned(16, 0);
    CHECK(p[i] != NULL && (uintptr_t)p[i] % 16 == 0);
    CHECK_EQ(heap_usable_size(p[i], "t"), 0u);
    CHECK(heap_owns(p[i]) && !heap_is_foreign(p[i]));
    CHECK(map_kind(map_find(p[i])) == TENANT_EMPTY);
  }
  CHECK_EQ(empty_count(), ARRAY_LENGTH(p));
  for (size_t i = 0; i < ARRAY_LENGTH(p); i++) fast_free(p[i]); /* one that is there twice aborts */
  CHECK(empty_visit(NULL, NULL) && empty_count() == 0);         /* none is left to be shown */
  check_nothing_lost();
}

TEST(empty, it_is_aligned_as_was_asked_for_up_to_a_kibibyte, "") {
  for (size_t alignment = 16; alignment <= 4096; alignment *= 2)
    for (int i = 0; i < 200; i++) {
      void *p = fast_aligned(alignment, 0);
      CHECK(p != NULL && (uintptr_t)p % alignment == 0);
      CHECK_EQ(map_kind(map_find(p)) == TENANT_EMPTY, alignment <= EMPTY_ALIGNED);
      if (i % 3 == 0) fast_free(p);
    }
}

TEST(empty, any_access_faults, "") {
  volatile char *p = fast_malloc(0);
  for (int at = 0; at < 16; at++) CHECK(faults(p + at, false) && faults(p + at, true));
}

TEST(empty, what_is_freed_twice_or_was_never_handed_out_is_known_for_certain, "") {
  char *p = fast_malloc(0), *q = fast_malloc(0);
  fast_free(p);
  EXPECT_ABORT(fast_free(p), "double free: .* in free");
  EXPECT_ABORT(heap_usable_size(p, "t"), "double free: .* in t");
  EXPECT_ABORT(heap_realloc(p, 10, "t"), "double free: .* in t");
  for (int i = 1; i < 16; i++) EXPECT_ABORT(fast_free(q + i), "invalid pointer: .* in free");
  EXPECT_ABORT(heap_usable_size(q + 1, "t"), "invalid pointer: .* in t");
  char *record = map_record(map_find(q));
  EXPECT_ABORT(fast_free(record), "invalid pointer");
  EXPECT_ABORT(fast_free(record + WINDOW_SIZE - 16), "invalid pointer");
  EXPECT_ABORT(fast_free(q + MiB(3)), "double free"); /* it is not live */
  CHECK_EQ(empty_count(), (size_t)1);
  CHECK(heap_owns(q + MiB(3)) && !heap_owns(record) && !heap_owns(record + WINDOW_SIZE - 16));
  fast_free(q);
}

TEST(empty, an_address_rests_before_it_is_used_again, "") {
  void *first = fast_malloc(0);
  fast_free(first);
  for (int i = 1; i < ROUND; i++) {
    void *p = fast_malloc(0);
    CHECK(p != first);
    fast_free(p);
  }
}

TEST(empty, realloc_moves_it_and_nothing_expands_it, "") {
  char *p = fast_malloc(0);
  CHECK(heap_expand(p, 0, "t") && !heap_expand(p, 1, "t") && !heap_expand(p, 100000, "t"));
  CHECK_NULL(heap_resize(p, 100, NULL, "t"));
  for (size_t size = 1; size < MiB(1); size *= 10) {
    char *q = any_realloc(fast_malloc(0), size, "t");
    CHECK(q != NULL && map_kind(map_find(q)) == TENANT_ARENA);
    memset(q, 1, size);
    fast_free(q);
  }
  fast_free(p);
  fh_heap_t *heap = firstclass_new();
  char *q = firstclass_realloc(heap, fast_malloc(0), 50, "t");
  CHECK(q != NULL && firstclass_realloc(heap, q, 70, "t") != NULL);
  firstclass_destroy(heap);
  check_nothing_lost();
}

TEST(empty, larger_alignments_and_first_class_heaps_have_blocks_as_before, "") {
  fh_heap_t *heap = firstclass_new();
  for (size_t alignment = 2 * EMPTY_ALIGNED; alignment <= MiB(1); alignment *= 2) {
    char *p = fast_aligned(alignment, 0), *q = firstclass_aligned(heap, 1, 0);
    CHECK(map_kind(map_find(p)) == TENANT_ARENA && map_kind(map_find(q)) == TENANT_ARENA);
    *p = *q = 1;
    fast_free(p);
  }
  firstclass_destroy(heap);
  check_nothing_lost();
}

typedef struct {
  size_t seen, most;
} count_t;
static bool count_one(void *block, size_t usable, void *context) {
  count_t *c = context;
  CHECK(usable == 0 && heap_usable_size(block, "t") == 0);
  return ++c->seen < c->most;
}

TEST(empty, a_visit_shows_each_that_lives, "") {
  void *p[100];
  count_t all = {0, SIZE_MAX}, some = {0, 7};
  CHECK(heap_visit(&(visitor_t){.blocks = count_one, .context = &all}) && all.seen == 0);
  for (int i = 0; i < 100; i++) p[i] = fast_malloc(0);
  for (int i = 0; i < 100; i += 2) fast_free(p[i]);
  CHECK(heap_visit(&(visitor_t){.blocks = count_one, .context = &all}) && all.seen == 50);
  CHECK(!heap_visit(&(visitor_t){.blocks = count_one, .context = &some}) && some.seen == 7);
  for (int i = 1; i < 100; i += 2) fast_free(p[i]);
}

TEST(empty, when_all_are_used_a_small_block_will_do, "timeout=120") {
  static void *p[ALL];
  for (size_t i = 0; i < ALL; i++) {
    p[i] = fast_malloc(0);
    CHECK_EQ(heap_usable_size(p[i], "t"), 0u);
  }
  void *more = fast_malloc(0);
  CHECK(map_kind(map_find(more)) == TENANT_ARENA && heap_usable_size(more, "t") != 0);
  fast_free(p[1000]);
  do fast_free(more), more = fast_malloc(0);
  while (more != p[1000]);
  for (size_t i = 0; i < ALL; i++) fast_free(p[i]);
  check_nothing_lost();
}

TEST(empty, a_call_looks_at_few_words_and_the_next_one_goes_on_behind_them, "timeout=120") {
  static void *p[ALL];
  for (size_t i = 0; i < ALL; i++) p[i] = fast_malloc(0);
  fast_free(p[ALL - 1]); /* in the word before the one where the next search begins, or in that */
  unsigned calls = 1;
  for (void *q; (q = fast_malloc(0)) != p[ALL - 1]; calls++) {
    CHECK(map_kind(map_find(q)) == TENANT_ARENA);
    fast_free(q);
  }
  CHECK_EQ(calls, (unsigned)EMPTY_WORDS / EMPTY_LOOKS);
  for (size_t i = 0; i < ALL; i++) fast_free(p[i]);
  check_nothing_lost();
}

static void take_one(void *p) { *(void **)p = fast_malloc(0); }

TEST(empty, threads_begin_far_from_each_other, "") {
  char *mine = fast_malloc(0), *p[10];
  for (int i = 0; i < 10; i++) {
    in_thread(take_one, &p[i], false);
    for (int k = -1; k < i; k++) {
      ptrdiff_t apart = p[i] - (k < 0 ? mine : p[k]);
      CHECK(apart > 512 * EMPTY_ALIGNMENT || -apart > 512 * EMPTY_ALIGNMENT);
    }
  }
  for (int i = 0; i < 10; i++) fast_free(p[i]);
  fast_free(mine);
}

TEST(empty, where_there_is_no_room_for_them_a_small_block_will_do_and_nobody_asks_again, "") {
  fast_free(fast_malloc(1));
  os_fake_fail(1u << OS_FAKE_PROTECT, 1, false);
  void *p = fast_malloc(0);
  CHECK(map_kind(map_find(p)) == TENANT_ARENA);
  uint64_t calls = count_calls(~0u);
  void *q = fast_malloc(0);
  CHECK(map_kind(map_find(q)) == TENANT_ARENA);
  CHECK_EQ(count_calls(~0u), calls);
  fast_free(p), fast_free(q);
  check_nothing_lost();
}

enum { THREADS = 4, ROUNDS = 20000 };
static void take_and_free(unsigned number) {
  void *kept[16] = {NULL};
  for (unsigned i = 0; i < ROUNDS; i++) {
    void **p = &kept[(i * 7 + number) % 16];
    if (*p != NULL) fast_free(*p);
    *p = fast_malloc(0);
    CHECK_EQ(heap_usable_size(*p, "t"), 0u);
  }
  for (int k = 0; k < 16; k++)
    if (kept[k] != NULL) fast_free(kept[k]);
  os_fake_end_thread();
}

TEST(empty, threads_that_allocate_and_free_at_once_never_have_the_same, "") {
  count_t left = {0, SIZE_MAX};
  core_threads(THREADS, take_and_free);
  CHECK(empty_visit(count_one, &left) && left.seen == 0 && empty_count() == 0);
}
