/* levels_test.c - at check level 1 a call looks at what its header asks of the caller, at level 2
 * also at the state that it leaves. Each test breaks something that no fast path looks at, and the
 * next call that passes there dies of it */
#include "heaps.h"

#include "../../src/api/pprof.h"
#include "../../src/arena/map.h"
#include "../../src/stock/large.h"
#include "../../src/stock/returned.h"
#include "../../src/support/poisson.h"

static slab_t *slab(void *p) { return slab_of(p); }

/* ---- level 1 --------------------------------------------------------------------------------- */

TEST(levels, a_call_to_an_arena_or_the_map_that_its_header_forbids_is_seen, "") {
  char *p = fast_malloc(1);
  EXPECT_ABORT(arena_claim_at(p, 0, &(bool){false}), "assertion n != 0");
  EXPECT_ABORT(arena_read_end(p), "assertion readers != 0");
  EXPECT_ABORT(lack_shape(LACK_RUN + 1, 1), "assertion n <= LACK_RUN");
  EXPECT_ABORT(map_set(p, 1, NULL, TENANT_FOREIGN), "assertion .*window % WINDOW_SIZE == 0");
}

TEST(levels, a_call_to_a_slab_that_its_header_forbids_is_seen, "") {
  enum { CLASS = 5 };
  unsigned count;
  slab_t *s = slab_new(arena_claim(1, 1, &(bool){false}), CLASS, my_heap(), NULL);
  uintptr_t list = slab_take_some(s, 2, &count);
  CHECK_EQ(count, 2u);
  EXPECT_ABORT(slab_take_some(s, 0, &count), "assertion most != 0");
  EXPECT_ABORT(slab_take_fresh(s, s->capacity - 1), "assertion .*carved.* <= s->capacity");
  EXPECT_ABORT((slab_put_back(s, list), slab_collect(s)), "assertion s->head == 0");
  EXPECT_ABORT(slab_push(s, list, list, 0, NULL), "assertion n != 0");
  EXPECT_ABORT(slab_push(s, list, list, 1, my_heap()), "assertion .*s->owner");
  EXPECT_ABORT(owned_note_empty(my_heap(), s), "assertion slab_used");
}

TEST(levels, a_call_for_a_heap_that_nobody_has_entered_is_seen, "") {
  heap_t *h = my_heap();
  EXPECT_ABORT(heap_exit(h), "assertion h->busy != 0");
  EXPECT_ABORT(heap_malloc_in(h, 100, 1), "assertion h->busy != 0");
}

TEST(levels, a_call_for_a_heap_that_its_header_forbids_is_seen, "") {
  enum { CLASS = 5 };
  heap_t *h = my_heap();
  char *p = fast_malloc(SLICE_SIZE), *small = fast_malloc(class_size(CLASS));
  EXPECT_ABORT((h->returned_room[CLASS] = 0, fast_keep(h, CLASS, (uintptr_t)small, false)),
               "assertion h->returned_room");
  h->aside->returned[CLASS] = (uintptr_t)small;
  EXPECT_ABORT((h->returned_room[CLASS] = 0, returned_missed(h, CLASS)), "assertion !returned_has");
  h->aside->returned[CLASS] = 0;
  EXPECT_ABORT(heap_set_fresh(h, CLASS, (fresh_t){0}), "assertion c >= MEDIUM_CLASS");
  EXPECT_ABORT(magazine_put_run(h, slab(p), 0, 0, 0), "assertion n != 0");
  EXPECT_ABORT(index_add_chunk(h, small + 16), "assertion .*block % INDEX_CHUNK_SIZE");
  EXPECT_ABORT(large_with_headroom(h, 2 * SLICE_SIZE, SLICE_SIZE), "assertion size <= roomy");
  EXPECT_ABORT((h->put_off = 1, pool_release(h)), "assertion h->put_off == 0");
}

TEST(levels, a_call_about_samples_that_its_header_forbids_is_seen, "") {
  enum { CLASS = 5 };
  heap_t *h = my_heap();
  char *small = fast_malloc(class_size(CLASS));
  EXPECT_ABORT(sample_find_point(h, CLASS, 1), "assertion sample_was_started");
  EXPECT_ABORT(callstack_intern(&(uintptr_t){1}, 1), "assertion .*find_table");
  CHECK(sample_start(GiB(1)));
  EXPECT_ABORT(callstack_intern(NULL, CALLSTACK_FRAMES + 1), "assertion count <= CALLSTACK_FRAMES");
  while (h->bin[CLASS] == 0) CHECK(fast_malloc(class_size(CLASS)) != NULL);
  EXPECT_ABORT(sample_renew_bin(h, CLASS), "assertion h->bin.c. == 0");
  EXPECT_ABORT(sample_cut_bin(h, CLASS, 0), "assertion .*count != 0");
  EXPECT_ABORT(sample_begin(h, CLASS, small, 1), "assertion .*SLAB_LARGE");
  EXPECT_ABORT(sampled_set(&(sampled_t){{0}}, UINT64_MAX, 1), "assertion blocks");
  EXPECT_ABORT(poisson_distance(&(uint64_t){1}, 0), "assertion mean != 0");
  EXPECT_ABORT(poisson_weight(0, 1), "assertion size != 0");
  EXPECT_ABORT(pprof_sample(pprof_begin(-1, 1), NULL, PPROF_FRAMES + 1, NULL, NULL, 0),
               "assertion count <= PPROF_FRAMES");
}

/* ---- level 2 --------------------------------------------------------------------------------- */

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
  EXPECT_ABORT((atomic16_store_relaxed(&slab(p)->slices, 40), resize_large(p, 3 * SLICE_SIZE)),
               "invariant L1");
}

TEST(levels, a_huge_block_whose_window_is_anothers_is_seen_when_it_is_resized, "U1") {
  char *p = fast_malloc(HUGE_LEAST);
  huge_t *b = map_record(map_find(p));
  EXPECT_ABORT((map_set(p, 1, NULL, TENANT_FOREIGN), huge_resize(b, HUGE_LEAST + MiB(1))),
               "invariant U1");
}
