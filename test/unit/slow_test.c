/* slow_test.c - tests of heap/slow */
enum { MANY = 4000 };
#include "kept.h"

#include "../../src/heap/bytes.h"

TEST(slow, blocks_of_every_size_are_apart_aligned_and_come_back, "I1 I4") {
  for (size_t size = 0; size <= SMALL_MOST + 3000; size += size < 600 ? 7 : 333) {
    char *p[40];
    for (int i = 0; i < 40; i++) {
      p[i] = fast_malloc(size);
      CHECK(p[i] != NULL && (uintptr_t)p[i] % 16 == 0);
      CHECK_GE(heap_usable_size(p[i], "t"), size);
      memset(p[i], i + 1, size);
    }
    for (int i = 0; i < 40; i++) {
      CHECK_BYTES(p[i], i + 1, size);
      fast_free(p[i]);
    }
  }
  check_nothing_lost();
}

TEST(slow, random_use_of_all_sizes_keeps_every_byte_and_loses_none, "I1 timeout=120") {
  enum { SLOTS = 500 };
  struct {
    unsigned char *p;
    size_t n;
    unsigned char byte;
  } slot[SLOTS] = {0};
  uint64_t state = 42;
  for (int i = 0; i < 60000; i++) {
    unsigned k = core_next(&state) % SLOTS;
    if (slot[k].p != NULL) {
      CHECK_BYTES(slot[k].p, slot[k].byte, slot[k].n);
      fast_free(slot[k].p);
    }
    uint64_t kind = core_next(&state) % 100;
    slot[k].n = core_next(&state) % (kind < 80 ? 300 : kind < 97 ? 9000 : 300000);
    slot[k].byte = (unsigned char)i;
    slot[k].p =
      i % 3 ? fast_malloc(slot[k].n) : fast_aligned(16u << core_next(&state) % 6, slot[k].n);
    CHECK(slot[k].p != NULL);
    memset(slot[k].p, slot[k].byte, slot[k].n);
  }
  for (unsigned k = 0; k < SLOTS; k++) fast_free(slot[k].p);
  check_nothing_lost();
}

TEST(slow, an_aligned_block_is_aligned_for_every_alignment_up_to_a_window, "") {
  for (size_t alignment = 1; alignment <= WINDOW_SIZE; alignment *= 2)
    for (int i = 0; i < 5; i++) {
      static const size_t sizes[] = {0, 1, 100, 5000, 200000};
      char *p = fast_aligned(alignment, sizes[i]);
      CHECK(p != NULL);
      CHECK_EQ((uintptr_t)p % alignment, (uintptr_t)0);
      memset(p, 1, sizes[i]);
      fast_free(p);
    }
  CHECK_NULL(fast_aligned(WINDOW_SIZE * 2, 1));
  check_nothing_lost();
}

TEST(slow, calloc_gives_zeros_also_where_others_wrote_and_knows_an_overflow, "A3") {
  static const size_t sizes[] = {1, 100, 4000, SMALL_MOST, SMALL_MOST + 1, 300000, MiB(3)};
  for (int round = 0; round < 3; round++)
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
      char *p = heap_calloc(1, sizes[i]), *q = heap_calloc(sizes[i], 1);
      CHECK_BYTES(p, 0, sizes[i]);
      CHECK_BYTES(q, 0, sizes[i]);
      memset(p, 0xFF, sizes[i]);
      memset(q, 0xFF, sizes[i]);
      fast_free(p);
      fast_free(q);
      if (round == 1) heap_collect(true);
    }
  CHECK_NULL(heap_calloc(SIZE_MAX / 2, 3));
  CHECK_NULL(heap_calloc(SIZE_MAX / 2 + 1, 2));
  check_nothing_lost();
}

TEST(slow, sizes_beyond_all_memory_are_refused_and_said_to_be, "") {
  CHECK_NULL(fast_malloc(SIZE_MAX));
  CHECK_NULL(fast_malloc((size_t)PTRDIFF_MAX + 1));
  CHECK_NULL(fast_malloc(PTRDIFF_MAX));
  CHECK_NULL(fast_aligned(4096, SIZE_MAX - 100));
  void *p = fast_malloc(10);
  CHECK(p != NULL);
  fast_free(p);
  check_nothing_lost();
}

static size_t fill_to_limit(void **p, size_t most) {
  size_t n = 0;
  core_option(OPTION_memory_limit, (int64_t)MiB(2));
  while (n < most && (p[n] = fast_malloc(900)) != NULL) n++;
  CHECK(n > 1500 && n < most);
  CHECK_EQ(committed() * SLICE_SIZE, (uint64_t)MiB(2));
  return n;
}
static size_t count_more(size_t size, size_t most) {
  size_t n = 0;
  while (n < most && fast_malloc(size) != NULL) n++;
  return n;
}

static void use_each_class(void *context) {
  (void)context;
  void *p[64];
  for (size_t size = 16; size <= 1024; size += 16) p[size / 16 - 1] = fast_malloc(size);
  for (size_t i = 0; i < ARRAY_LENGTH(p); i++) fast_free(p[i]);
}

TEST(slow, at_the_limit_what_heaps_at_rest_keep_makes_room, "") {
  in_thread_t t = {use_each_class, NULL, true};
  pthread_t thread[20];
  my_heap();
  for (size_t i = 0; i < ARRAY_LENGTH(thread); i++) {
    CHECK_EQ(pthread_create(&thread[i], NULL, in_thread_run, &t), 0);
    CHECK_EQ(pthread_join(thread[i], NULL), 0);
  }
  CHECK_GT(pool_resting_pages(), 0u);
  size_t kept = committed();
  CHECK_GT(kept, (size_t)16);
  core_option(OPTION_memory_limit, (int64_t)(kept * SLICE_SIZE));
  CHECK(heap_aligned_slow(1, kept * SLICE_SIZE / 2) != NULL);
}

TEST(slow, a_thread_that_the_limit_refused_may_have_a_slab_of_1_KiB_blocks_once, "") {
  static void *p[4000];
  size_t n = fill_to_limit(p, 4000);
  CHECK_NULL(fast_malloc(1025));
  CHECK_NULL(fast_aligned(64, 64));
  CHECK_GE(count_more(200, 1000), (size_t)48); /* the last few of a slab are not lent out */
  CHECK_EQ(committed() * SLICE_SIZE, (uint64_t)(MiB(2) + SLICE_SIZE));
  CHECK_EQ(count_more(200, 1000), (size_t)0);
  for (size_t i = 0; i < n; i++) fast_free(p[i]); /* below the limit again */
  heap_give_up_all(my_heap());
  for (int i = 0; i < 8; i++) heap_do_due(my_heap());
  CHECK_EQ((int)my_heap()->reserve, RESERVE_DENIED);
  n = fill_to_limit(p, 4000);
  CHECK_GE(count_more(1000, 1000), (size_t)16);
}

TEST(slow, a_block_of_the_reserve_may_be_freed_with_the_size_that_was_asked_for, "") {
  static void *p[4000];
  fill_to_limit(p, 4000);
  void *block = fast_malloc(100);
  CHECK_GT(heap_usable_size(block, "t"), (size_t)1000);
  heap_check_size(block, 100, 1, "free_sized");
  heap_check_class(block, 100, 1, "delete");
  EXPECT_ABORT(heap_check_class(block, 2000, 1, "delete"), "wrong size: .* in delete");
}

TEST(slow, what_freehold_takes_for_itself_counts_for_no_thread_at_the_limit_either, "") {
  static void *p[4000];
  fill_to_limit(p, 4000);
  CHECK_GE(count_more(1000, 4), (size_t)4);
  uint64_t before = heap_thread_bytes().allocated;
  fh_heap_t *heap = firstclass_new();
  CHECK(heap != NULL && heap_usable_size(heap, "t") > 1000);
  CHECK_EQ(heap_thread_bytes().allocated, before);
  firstclass_delete(heap);
}

TEST(slow, a_handler_that_interrupted_a_call_at_the_limit_has_its_slab_at_once, "") {
  static void *p[4000];
  fill_to_limit(p, 4000);
  heap_t *h = heap_enter();
  CHECK_GE(count_more(300, 16), (size_t)16);
  heap_exit(h);
  CHECK_EQ((int)h->reserve, RESERVE_GRANTED);
}

TEST(slow, a_refusal_that_is_not_the_limits_opens_nothing, "") {
  my_heap();
  core_option(OPTION_memory_limit, (int64_t)MiB(64));
  CHECK_NULL(fast_malloc((size_t)PTRDIFF_MAX));
  CHECK_NULL(fast_malloc(MiB(80)));
  CHECK_EQ((int)my_heap()->reserve, RESERVE_DENIED);
}
