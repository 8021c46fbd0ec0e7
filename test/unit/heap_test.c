/* heap_test.c - tests of stock/heap: each breaks something of a heap that no fast path looks at,
 * and the next slow call dies of it */
#include "heaps.h"

/* Any slow call. */
static void call(void) {
  heap_t *h = heap_enter();
  heap_exit(h);
}

enum { CLASS = 7 };

/* A heap that owns a slab, has something to put back, and keeps blocks of nobody's slabs. */
static heap_t *busy_heap(void) {
  for (int i = 0; i < 300; i++) fast_malloc(class_size(CLASS));
  heap_t *h = my_heap();
  CHECK_GT(h->own->slab_count[CLASS], 0);
  CHECK(heap_is_valid(h));
  return h;
}

TEST(heap, a_heap_that_miscounts_its_slabs_is_seen, "H1") {
  heap_t *h = busy_heap();
  EXPECT_ABORT((h->own->slab_count[CLASS]++, call()), "invariant H1");
  EXPECT_ABORT((owned_first(h, CLASS)->prev = NULL, call()), "invariant H1");
}

TEST(heap, a_heap_with_a_slab_that_is_not_its_own_is_seen, "H2") {
  slab_t *s = owned_first(busy_heap(), CLASS);
  EXPECT_ABORT((atomic_ptr_store_relaxed(&s->owner, NULL), call()), "invariant H2");
  EXPECT_ABORT((atomic32_store_relaxed(&s->kind, CLASS + 1), call()), "invariant H2");
  EXPECT_ABORT((atomic64_store_relaxed(&s->anchor, anchor_pack(ANCHOR_FULL, 0, 0, 9)), call()),
               "invariant H2");
}

TEST(heap, a_heap_that_takes_a_slab_in_use_for_idle_is_seen, "H3") {
  heap_t *h = busy_heap();
  EXPECT_ABORT((owned_first(h, CLASS)->idleness = SLAB_IDLE, call()), "invariant H3");
  EXPECT_ABORT((h->idle++, call()), "invariant H3");
}

TEST(heap, a_heap_that_forgets_a_class_that_it_uses_is_seen, "H4") {
  heap_t *h = busy_heap();
  EXPECT_ABORT((h->classes[0] = 0, call()), "invariant H4");
}

TEST(heap, a_heap_that_forgets_a_class_of_which_a_bin_was_cut_is_seen, "H4") {
  heap_t *h = my_heap();
  CHECK(sample_start(GiB(1)));
  call();
  EXPECT_ABORT((sample_of(h)->behind[CLASS] = 16, call()), "invariant H4");
}

TEST(heap, a_returned_list_shorter_than_its_count_is_seen, "H5") {
  heap_t *h = busy_heap();
  EXPECT_ABORT((h->returned_most[CLASS] = (uint16_t)(h->returned_room[CLASS] + 60), call()),
               "invariant H5");
}

TEST(heap, a_miscounted_magazine_is_seen_when_a_slow_call_ends, "L2") {
  EXPECT_ABORT((my_heap()->run_slices++, call()), "invariant L2");
}

static void *others[40];
static void allocate_others(void *context) {
  (void)context;
  for (size_t i = 0; i < ARRAY_LENGTH(others); i++) others[i] = fast_malloc(class_size(CLASS));
}

TEST(heap, frees_put_off_that_no_flush_would_find_are_seen, "H6") {
  in_thread(allocate_others, NULL, false);
  heap_t *h = busy_heap();
  for (int i = 0; i < 3; i++) fast_free(others[i]);
  CHECK(h->put_off != 0);
  call();
  EXPECT_ABORT((h->put_off = 0, call()), "invariant H6");
  EXPECT_ABORT((h->aside->slots = 0, call()), "invariant H6");
}

TEST(heap, a_block_in_a_bin_that_is_none_of_its_class_or_not_free_is_seen, "H7") {
  heap_t *h = busy_heap();
  uintptr_t block = h->bin[CLASS];
  CHECK_NE(block, (uintptr_t)0);
  EXPECT_ABORT((h->bin[CLASS] += CLASS_STEP, call()), "invariant H7");
  EXPECT_ABORT((block_set_live(block), call()), "invariant H7");
  EXPECT_ABORT((h->bin[CLASS + 1] = block, heap_note_class(h, CLASS + 1), call()), "invariant H7");
}

TEST(heap, frees_put_off_that_are_more_or_fewer_than_was_noted_are_seen, "H8") {
  in_thread(allocate_others, NULL, false);
  heap_t *h = busy_heap();
  for (int i = 0; i < 3; i++) fast_free(others[i]);
  batch_t *b = &h->aside->batch[bits_lowest(h->aside->slots)];
  CHECK_EQ(batch_count(b), 3u);
  EXPECT_ABORT((atomic64_add_own(&b->word, (uint64_t)1 << 32), call()), "invariant H8");
  EXPECT_ABORT((atomic64_add_own(&b->word, 0 - ((uint64_t)1 << 32)), call()), "invariant H8");
  EXPECT_ABORT((block_set_live((uintptr_t)others[1]), call()), "invariant H8");
}

TEST(heap, a_never_used_block_that_a_visitor_would_take_for_live_is_seen, "H9") {
  fresh_t f = {0};
  for (int i = 0; i < 300 && f.count == 0; i++) {
    CHECK(fast_malloc(class_size(MEDIUM_CLASS)) != NULL);
    f = heap_fresh(my_heap(), MEDIUM_CLASS);
  }
  CHECK_GT(f.count, 0u);
  EXPECT_ABORT((atomic64_store_relaxed(&slab_of((void *)f.first)->fresh, 0), call()),
               "invariant H9");
}

TEST(heap, a_heap_of_the_program_is_looked_at_too, "H1 F1") {
  fh_heap_t *heap = firstclass_new();
  CHECK(firstclass_aligned(heap, 1, 100) != NULL);
  heap_t *lane = atomic_ptr_load_relaxed((atomic_ptr_t *)heap); /* the lanes are its first field */
  unsigned c = class_of(100);
  EXPECT_ABORT((lane->own->slab_count[c]++, firstclass_aligned(heap, 1, 100)), "invariant H1");
  EXPECT_ABORT(
    (atomic_ptr_store_relaxed(&owned_first(lane, c)->tag, NULL), firstclass_aligned(heap, 1, 100)),
    "invariant F1");
}
