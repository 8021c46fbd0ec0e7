/* levels_test.c - at check level 2 state is looked at where a call leaves it. Each test breaks
 * something that no fast path looks at, and the next call that passes there dies of it */
#include "heaps.h"

#include "../../src/arena/map.h"

static slab_t *slab(void *p) { return slab_of(p); }

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
