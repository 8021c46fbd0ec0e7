/* levels_test.c - at check level 2 state is looked at where a call leaves it. Each test breaks
 * something that no fast path looks at, and the next call that passes there dies of it */
#include "heaps.h"

#include "../../src/arena/map.h"

static slab_t *slab(void *p) { return slab_of(p); }

/* Any slow call. */
static void call(void) {
  heap_t *h = heap_enter();
  heap_exit(h);
}

TEST(levels, an_option_out_of_range_is_seen_when_another_is_set, "O1") {
  CHECK(option_set(OPTION_warnings, 1));
  EXPECT_ABORT((core_option(OPTION_purge_delay_ms, -5), option_set(OPTION_warnings, 1)),
               "invariant O1");
}

TEST(levels, a_text_without_room_for_its_end_is_seen_when_it_is_flushed, "T1") {
  char buffer[8];
  fmt_t f;
  fmt_start(&f, buffer, sizeof buffer, NULL, NULL);
  fmt_text(&f, "1234567890");
  fmt_flush(&f);
  EXPECT_ABORT((f.used = sizeof buffer, fmt_flush(&f)), "invariant T1");
}

TEST(levels, a_window_without_its_record_is_seen_when_it_is_set, "W1") {
  char *window = map_new(1, 65536);
  map_set(window, 1, window, TENANT_ARENA);
  EXPECT_ABORT(map_set(window, 1, NULL, TENANT_HUGE), "invariant W1");
}

TEST(levels, slices_that_an_arena_never_had_to_give_are_seen_when_they_come_back, "A2") {
  arena_t *a = arena_of(fast_malloc(1));
  EXPECT_ABORT(arena_release(arena_address(a, ARENA_FIRST_SLICE - 1), 1), "invariant A2");
}

TEST(levels, a_slab_that_is_owned_is_seen_when_it_is_published, "I6") {
  slab_t *s = slab_new(arena_claim(1, 1, &(bool){false}), 5, NULL, NULL);
  EXPECT_ABORT(partial_publish(s), "invariant I6");
}

TEST(levels, a_wrong_count_of_used_blocks_is_seen_by_the_next_slow_malloc, "I1") {
  void *p[200];
  for (int i = 0; i < 200; i++) p[i] = fast_malloc(100);
  CHECK(atomic_ptr_is_relaxed(&slab(p[199])->owner, my_heap()));
  EXPECT_ABORT((atomic32_add_relaxed(&slab(p[199])->used, 1), heap_malloc_slow(100)),
               "invariant I1");
}

TEST(levels, a_slice_with_a_kind_is_seen_when_a_block_takes_it, "I5") {
  char *p = large_malloc(my_heap(), 2 * SLICE_SIZE, 1);
  large_free(my_heap(), slab(p), p, "free");
  magazine_empty(my_heap());
  EXPECT_ABORT((atomic32_store_relaxed(&slab(p + SLICE_SIZE)->kind, 1),
                large_malloc(my_heap(), 2 * SLICE_SIZE, 1)),
               "invariant I5");
}

TEST(levels, a_miscounted_magazine_is_seen_when_a_slow_call_ends, "L2") {
  EXPECT_ABORT((my_heap()->run_slices++, call()), "invariant L2");
}

TEST(levels, a_large_block_with_too_many_slices_is_seen_when_it_is_resized, "L1") {
  char *p = fast_malloc(2 * SLICE_SIZE);
  EXPECT_ABORT((atomic32_store_relaxed(&slab(p)->slices, 40), resize_large(p, 3 * SLICE_SIZE)),
               "invariant L1");
}

TEST(levels, a_huge_block_whose_window_is_anothers_is_seen_when_it_is_resized, "U1") {
  char *p = fast_malloc(HUGE_MIN_SIZE);
  huge_t *b = map_record(map_find(p));
  EXPECT_ABORT((map_set(p, 1, NULL, TENANT_TAKEN), huge_resize(b, HUGE_MIN_SIZE + MiB(1))),
               "invariant U1");
}

/* ---- heaps ---- */

enum { CLASS = 7 };

/* A heap that owns a slab, has something to put back, and keeps blocks of nobody's slabs. */
static heap_t *busy_heap(void) {
  for (int i = 0; i < 300; i++) fast_malloc(class_size(CLASS));
  heap_t *h = my_heap();
  CHECK_GT(h->own->owned[CLASS], 0);
  CHECK(heap_is_valid(h));
  return h;
}

TEST(levels, a_heap_that_miscounts_its_slabs_is_seen, "H1") {
  heap_t *h = busy_heap();
  EXPECT_ABORT((h->own->owned[CLASS]++, call()), "invariant H1");
  EXPECT_ABORT((owned_first(h, CLASS)->prev = NULL, call()), "invariant H1");
}

TEST(levels, a_heap_with_a_slab_that_is_not_its_own_is_seen, "H2") {
  slab_t *s = owned_first(busy_heap(), CLASS);
  EXPECT_ABORT((atomic_ptr_store_relaxed(&s->owner, NULL), call()), "invariant H2");
  EXPECT_ABORT((atomic32_store_relaxed(&s->kind, CLASS + 1), call()), "invariant H2");
  EXPECT_ABORT((atomic64_store_relaxed(&s->anchor, anchor_pack(ANCHOR_FULL, 0, 0, 9)), call()),
               "invariant H2");
}

TEST(levels, a_heap_that_takes_a_slab_in_use_for_idle_is_seen, "H3") {
  heap_t *h = busy_heap();
  EXPECT_ABORT((owned_first(h, CLASS)->is_idle = SLAB_IDLE, call()), "invariant H3");
  EXPECT_ABORT((h->idle++, call()), "invariant H3");
}

TEST(levels, a_heap_that_forgets_a_class_that_it_uses_is_seen, "H4") {
  heap_t *h = busy_heap();
  EXPECT_ABORT((h->classes[0] = 0, call()), "invariant H4");
}

TEST(levels, a_returned_list_shorter_than_its_count_is_seen, "H5") {
  heap_t *h = busy_heap();
  EXPECT_ABORT((h->allowance[CLASS] = (uint16_t)(h->room[CLASS] + 60), call()), "invariant H5");
}

static void *others[40];
static void allocate_others(void *context) {
  (void)context;
  for (size_t i = 0; i < ARRAY_LENGTH(others); i++) others[i] = fast_malloc(class_size(CLASS));
}

TEST(levels, frees_put_off_that_no_flush_would_find_are_seen, "H6") {
  in_thread(allocate_others, NULL, false);
  heap_t *h = busy_heap();
  for (int i = 0; i < 3; i++) fast_free(others[i]);
  CHECK(h->held != 0);
  call();
  EXPECT_ABORT((h->held = 0, call()), "invariant H6");
  EXPECT_ABORT((h->freed->slots = 0, call()), "invariant H6");
}

TEST(levels, what_is_held_back_is_counted_down_where_it_goes_to_slabs_of_the_heap, "H6") {
  heap_t *h = busy_heap();
  void *p = fast_malloc(class_size(CLASS));
  CHECK(atomic_ptr_is_relaxed(&slab(p)->owner, h));
  outbox_flush(h);
  CHECK_EQ(h->held, 0u);
  h->freed->pending[h->pending_count++] = (uintptr_t)p; /* the heap has adopted its slab since */
  h->held += HELD_PENDING;
  call();
  outbox_flush(h);
  CHECK_EQ(h->held, 0u);
}

TEST(levels, a_heap_of_the_program_is_looked_at_too, "H1 F1") {
  fh_heap_t *heap = firstclass_new();
  CHECK(firstclass_aligned(heap, 1, 100) != NULL);
  heap_t *lane = atomic_ptr_load_relaxed((atomic_ptr_t *)heap); /* the lanes are its first field */
  unsigned c = class_of(100);
  EXPECT_ABORT((lane->own->owned[c]++, firstclass_aligned(heap, 1, 100)), "invariant H1");
  EXPECT_ABORT(
    (atomic_ptr_store_relaxed(&owned_first(lane, c)->tag, NULL), firstclass_aligned(heap, 1, 100)),
    "invariant F1");
}
