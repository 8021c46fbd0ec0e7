/* partial_test.c - tests of slab/partial: the partial bit against EMPTY, in each order in
 * which two threads can meet */
#include "slabs.h"

enum { CLASS = 60 };                                         /* 5,632 bytes, 10 blocks */

static unsigned capacity(void) { return class_info[CLASS].capacity; }

/* A slab whose thread has made the anchor PARTIAL and come no further: all but `out`
 * blocks are back. */
static slab_t *just_made_partial(unsigned out) {
  slab_t *s = full_slab(CLASS);
  unsigned back = capacity() - out;
  for (unsigned i = 0; i < back; i++) block_link(blocks[i], i + 1 < back ? blocks[i + 1] : 0);
  atomic64_store_relaxed(&s->anchor,
                         anchor_pack(ANCHOR_PARTIAL, (uint16_t)blocks[0], back, capacity()));
  return s;
}
static slab_outcome_t free_last(slab_t *s) { return push_one(s, blocks[capacity() - 1], NULL); }

TEST(partial, empty_before_the_bit_is_found_by_the_thread_that_sets_the_bit, "S-partial") {
  slab_t *s = just_made_partial(1);
  CHECK(free_last(s) == SLAB_SHARED);                        /* no bit to clear: it walks away */
  CHECK(anchor(s).state == ANCHOR_EMPTY);
  CHECK(partial_publish(s));
  CHECK(!bit_is_set(s));
  CHECK(anchor(s).state == ANCHOR_OWNED);
  slab_release(s);
  CHECK_EQ(committed(), (uint64_t)0);
}

TEST(partial, empty_after_the_bit_is_found_by_the_thread_that_frees_last, "S-partial") {
  slab_t *s = just_made_partial(1);
  CHECK(!partial_publish(s));
  CHECK(bit_is_set(s));
  CHECK(free_last(s) == SLAB_IS_EMPTY);
  CHECK(!bit_is_set(s));
}

TEST(partial, an_empty_slab_whose_bit_a_third_thread_clears_is_the_third_threads, "S-partial") {
  slab_t *s = just_made_partial(1);
  CHECK(!partial_publish(s));
  /* the last free has swapped and not yet cleared the bit */
  block_link(blocks[capacity() - 1], slab_base(s) | anchor(s).avail);
  atomic64_store_relaxed(&s->anchor, anchor_pack(ANCHOR_EMPTY, (uint16_t)blocks[capacity() - 1],
                                                 capacity(), capacity()));
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
  CHECK_EQ(slab_used(s), 0u);
  CHECK(slab_is_valid(s));
  CHECK(!partial_unpublish(s));  /* it comes too late */
  CHECK(anchor(s).state == ANCHOR_OWNED);
  CHECK_EQ(take_all(s), capacity());
}

TEST(partial, who_clears_the_bit_of_a_slab_that_lives_again_puts_it_back, "S-partial") {
  slab_t *s = just_made_partial(1);
  CHECK(!partial_publish(s));
  CHECK(!partial_unpublish(s));  /* it meant an earlier life of the slab, which was empty */
  CHECK(bit_is_set(s));
  CHECK(anchor(s).state == ANCHOR_PARTIAL);
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
}

TEST(partial, a_slab_that_is_nobodys_any_more_is_not_touched_by_a_late_clearer, "S-partial") {
  slab_t *s = just_made_partial(1);
  CHECK(!partial_publish(s));
  CHECK(free_last(s) == SLAB_IS_EMPTY);
  slab_release(s);
  CHECK(!partial_unpublish(s));
  CHECK(anchor(s).state == ANCHOR_NONE);
}

TEST(partial, the_hint_of_a_group_comes_back_with_the_next_bit_and_goes_when_the_group_is_searched,
     "S-group") {
  slab_t *s = just_made_partial(2);
  size_t group = arena_slice((void *)slab_base(s)) / 64;
  atomic64_t *hint = &arena_maps(arena_of(s))->partial_groups[CLASS][group / 64];
  for (int round = 0; round < 3; round++) {
    CHECK_EQ(atomic64_load_relaxed(hint) >> group % 64 & 1, (uint64_t)0);
    if (round == 0) CHECK(!partial_publish(s));
    else CHECK(slab_let_go(s) == SLAB_SHARED);
    CHECK_EQ(atomic64_load_relaxed(hint) >> group % 64 & 1, (uint64_t)1);
    CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
    CHECK_NULL(slab_find_partial(CLASS, &heap_b));           /* finds the group empty */
  }
}

/* Slabs of the second arena, so that its number counts; the first one's are all in use. */
static slab_t *partial_in_another_arena(void) {
  bool clean;
  CHECK(arena_claim(8000, 1, &clean) != NULL);
  CHECK(arena_claim(8000, 1, &clean) != NULL);
  CHECK(arena_claim(8000, 1, &clean) != NULL);
  while (arena_of(arena_claim(1, 1, &clean)) == arena_at(0)) continue;
  slab_t *s = just_made_partial(2);
  CHECK_EQ(arena_of(s), arena_at(1));
  return s;
}

TEST(partial, a_slab_is_found_in_whichever_arena_and_an_arena_without_any_is_left_out, "S-group") {
  slab_t *s = partial_in_another_arena();
  size_t group = arena_slice((void *)slab_base(s)) / 64;
  arena_maps_t *maps = arena_maps(arena_of(s));
  CHECK(!partial_publish(s));
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
  CHECK_NULL(slab_find_partial(CLASS, &heap_b));             /* clears both hints */
  CHECK_EQ(atomic64_load_relaxed(&maps->partial_groups[CLASS][group / 64]), (uint64_t)0);
  atomic64_store_relaxed(&maps->partial_groups[CLASS][group / 64], ~(uint64_t)0);
  CHECK_NULL(slab_find_partial(CLASS, &heap_b));             /* nobody looks there */
  CHECK_NE(atomic64_load_relaxed(&maps->partial_groups[CLASS][group / 64]), (uint64_t)0);
  CHECK(slab_let_go(s) == SLAB_SHARED);                      /* until the next is published */
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
}

TEST(partial, a_slab_taken_over_brings_its_chain_its_count_and_no_neighbours, "I1") {
  slab_t *s = just_made_partial(3);
  s->next = s->prev = s;
  s->is_idle = 1;
  partial_publish(s);
  CHECK_EQ(slab_find_partial(CLASS, &heap_c), s);
  CHECK_EQ(atomic_ptr_load_relaxed(&s->owner), (void *)&heap_c);
  CHECK_NULL(s->next);
  CHECK_NULL(s->prev);
  CHECK_EQ(s->is_idle, 0);
  CHECK_EQ(slab_used(s), 3u);
  CHECK_EQ(take_all(s), capacity() - 3);
}
