/* slab_test.c - tests of slab/slab: every row of the anchor's table, driven step by step */
#include "slabs.h"

enum { CLASS = 8, SIZE = 128, CAPACITY = 511 }; /* 128 bytes; the threshold is 64 */

static uintptr_t owner_of(const slab_t *s) { return (uintptr_t)atomic_ptr_load_relaxed(&s->owner); }

/* ---- the owner ---- */

TEST(slab, a_new_slab_gives_each_of_its_blocks_once_and_none_at_its_start, "I1 I2 I4") {
  for (unsigned c = 1; c < CLASS_COUNT; c++) {
    slab_t *s = new_slab(c, &heap_a);
    unsigned n = take_all(s);
    CHECK_EQ(n, class_info[c].capacity);
    CHECK_EQ(slab_used(s), n);
    for (unsigned i = 0; i < n; i++) CHECK_EQ(blocks[i], slab_base(s) + (i + 1) * class_size(c));
    CHECK_EQ(slab_class(s), c);
  }
}

TEST(slab, blocks_that_are_put_back_are_free_and_come_first, "I1") {
  slab_t *s = new_slab(CLASS, &heap_a);
  unsigned count;
  uintptr_t list = slab_take_list(s, 10, &count);
  CHECK_EQ(count, 10u);
  for (unsigned i = 10; i-- > 0;) put_back(s, list + i * SIZE);
  CHECK(slab_is_valid(s));
  CHECK_EQ(slab_used(s), 0u);
  CHECK_EQ(slab_take_list(s, 3, &count), list);
  CHECK_EQ(count, 10u); /* all that is free: `most` bounds what is carved */
  CHECK_EQ(slab_used(s), 10u);
}

TEST(slab, a_few_blocks_are_taken_from_the_list_then_from_others_then_fresh, "I1") {
  slab_t *s = new_slab(CLASS, &heap_a);
  unsigned count;
  uintptr_t list = slab_take_some(s, 6, &count), third = block_next(block_next(list));
  CHECK_EQ(count, 6u);
  CHECK(push_one(s, list, NULL) == SLAB_SHARED); /* others free two of them */
  CHECK(push_one(s, list + SIZE, NULL) == SLAB_SHARED);
  CHECK_EQ(slab_take_some(s, 1, &count), list + SIZE);
  CHECK_EQ(count, 1u);
  CHECK_EQ(slab_used(s), 5u);
  CHECK(slab_is_valid(s));
  CHECK_EQ(slab_take_some(s, 9, &count), list);
  CHECK_EQ(count, 1u);
  CHECK_EQ(slab_take_some(s, 2, &count), list + 6 * SIZE);
  CHECK_EQ(count, 2u);
  CHECK_EQ(third, list + 2 * SIZE);
  CHECK(slab_is_valid(s));
}

TEST(slab, as_much_as_would_be_carved_is_taken_from_what_others_freed_instead, "I1 I3") {
  slab_t *s = new_slab(CLASS, &heap_a);
  unsigned count;
  uintptr_t first = slab_take_list(s, 10, &count); /* ten blocks out, none beyond carved */
  for (unsigned i = 0; i < 8; i++) CHECK(push_one(s, first + i * SIZE, NULL) == SLAB_SHARED);
  put_back(s, first + 8 * SIZE);
  CHECK_EQ(slab_take_list(s, 9, &count), first + 8 * SIZE);
  CHECK_EQ(count, 1u); /* and the eight come next */
  CHECK_EQ(atomic32_load_relaxed(&s->carved), 10u);
  CHECK_EQ(anchor(s).count, 0u);
  CHECK(slab_is_valid(s));
  CHECK_EQ(slab_take_list(s, 9, &count), first + 10 * SIZE); /* one more is wanted: fresh */
  CHECK_EQ(count, 9u);
  CHECK_EQ(atomic32_load_relaxed(&s->carved), 11u);
}

TEST(slab, a_slab_with_nothing_left_says_so_with_an_end, "I2") {
  slab_t *s = new_slab(CLASS, &heap_a);
  unsigned count = 7;
  take_all(s);
  CHECK_EQ(slab_take_list(s, 5, &count), (uintptr_t)0);
  CHECK_EQ(count, 0u);
  CHECK_EQ(slab_take_some(s, 5, &count), (uintptr_t)0);
  CHECK_EQ(count, 0u);
  CHECK_EQ(slab_collect(s), 0u);
}

TEST(slab, a_list_longer_than_the_slab_can_hold_is_corruption, "I1") {
  slab_t *s = new_slab(CLASS, &heap_a);
  take_all(s);
  put_back(s, blocks[0]);
  put_back(s, blocks[1]);
  block_link(blocks[0], blocks[1]); /* a ring */
  EXPECT_ABORT(slab_let_go(s), "heap corruption");
}

TEST(slab, a_list_that_a_write_cut_short_or_led_astray_is_corruption, "I1 I3") {
  static const uintptr_t links[] = {0, 0x10, SLICE_SIZE * 5};
  slab_t *s = new_slab(8, &heap_a);
  unsigned count;
  take_all(s);
  for (int i = 0; i < 9; i++) put_back(s, blocks[i]);
  for (size_t i = 0; i < ARRAY_LENGTH(links); i++) {
    block_at(blocks[5])->next = links[i];
    EXPECT_ABORT(slab_let_go(s), "heap corruption: .* in free");
    EXPECT_ABORT(slab_sort(s), "heap corruption: .* in malloc");
    if (links[i] != 0) EXPECT_ABORT(slab_take_some(s, 8, &count), "heap corruption: .* in malloc");
  }
  block_at(blocks[5])->next = blocks[4];
  CHECK(slab_is_valid(s) && slab_let_go(s) == SLAB_SHARED);
}

/* ---- OWNED ---- */

TEST(slab, a_list_whose_first_block_was_written_to_does_not_leave_the_slab, "") {
  static const uintptr_t links[] = {0x41, (uintptr_t)0x4141414141414141, SLICE_SIZE * 5};
  slab_t *s = new_slab(8, &heap_a);
  unsigned count;
  take_all(s);
  put_back(s, blocks[3]);
  put_back(s, blocks[5]);
  for (size_t i = 0; i < ARRAY_LENGTH(links); i++) {
    block_at(blocks[5])->next = links[i];
    EXPECT_ABORT(slab_take_list(s, 1, &count), "heap corruption: .* in malloc");
  }
  block_at(blocks[5])->next = blocks[3];
  block_set_live(blocks[5]);
  EXPECT_ABORT(slab_take_list(s, 1, &count), "heap corruption: .* in malloc");
  block_set_free(blocks[5]);
  CHECK_EQ(slab_take_list(s, 1, &count), blocks[5]);
}

TEST(slab, owned_and_pushed_to_stays_owned_and_counts, "I3 S-anchor") {
  slab_t *s = new_slab(CLASS, &heap_a);
  take_all(s);
  for (unsigned i = 0; i < CAPACITY; i++) {
    CHECK(push_one(s, blocks[i], &heap_b) == SLAB_SHARED);
    CHECK(anchor(s).state == ANCHOR_OWNED);
    CHECK_EQ(anchor(s).count, i + 1);
    CHECK_EQ(anchor(s).avail, (uint16_t)blocks[i]);
    CHECK(slab_is_valid(s));
  }
  CHECK_EQ(owner_of(s), (uintptr_t)&heap_a);
}

TEST(slab, the_owner_takes_all_that_others_freed_with_one_swap, "I1 I3 S-anchor") {
  slab_t *s = new_slab(CLASS, &heap_a);
  take_all(s);
  for (unsigned i = 0; i < 100; i++) push_one(s, blocks[i], NULL);
  CHECK_EQ(slab_collect(s), 100u);
  CHECK(anchor(s).state == ANCHOR_OWNED);
  CHECK_EQ(anchor(s).count, 0u);
  CHECK_EQ(slab_used(s), (unsigned)CAPACITY - 100);
  CHECK(slab_is_valid(s));
}

TEST(slab, a_chain_of_several_blocks_is_one_push_and_keeps_what_was_there, "I3") {
  slab_t *s = new_slab(CLASS, &heap_a);
  unsigned count;
  take_all(s);
  push_one(s, blocks[9], NULL);
  block_link(blocks[1], blocks[2]);
  block_link(blocks[2], blocks[3]);
  CHECK(slab_push(s, blocks[1], blocks[3], 3, NULL) == SLAB_SHARED);
  uintptr_t list = slab_take_list(s, 1, &count);
  CHECK_EQ(count, 4u);
  CHECK(list == blocks[1] && block_next(list) == blocks[2]);
  CHECK_EQ(block_next(blocks[3]), blocks[9]);
  CHECK_EQ(block_next(blocks[9]), (uintptr_t)0);
}

TEST(slab, a_slab_that_is_let_go_with_all_blocks_out_is_full, "") {
  slab_t *s = full_slab(CLASS);
  CHECK_EQ(owner_of(s), (uintptr_t)0);
  CHECK_EQ(anchor(s).carved, (unsigned)CAPACITY);
  CHECK(!bit_is_set(s));
}

/* Let go of with so many free blocks, of which the owner had collected 40. */
static slab_t *let_go_with(unsigned free) {
  slab_t *s = new_slab(CLASS, &heap_a);
  take_all(s);
  for (unsigned i = 0; i < 40; i++) push_one(s, blocks[i], NULL);
  slab_collect(s);
  for (unsigned i = 40; i < free; i++) push_one(s, blocks[i], NULL);
  CHECK(slab_let_go(s) == SLAB_SHARED);
  return s;
}

TEST(slab, a_slab_that_is_let_go_with_less_than_the_threshold_free_is_full_and_keeps_the_chain,
     "I3") {
  slab_t *s = let_go_with(63);
  CHECK(anchor(s).state == ANCHOR_FULL);
  CHECK_EQ(anchor(s).count, 63u);
  CHECK(push_one(s, blocks[63], &heap_b) == SLAB_OWNED_NOW);
  unsigned count;
  slab_take_list(s, 1, &count);
  CHECK_EQ(count, 64u);
}

TEST(slab, a_slab_that_is_let_go_with_more_free_is_partial_with_both_chains_joined,
     "I1 I3 S-partial") {
  slab_t *s = let_go_with(64);
  CHECK(anchor(s).state == ANCHOR_PARTIAL);
  CHECK_EQ(anchor(s).count, 64u);
  CHECK(bit_is_set(s));
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
  CHECK(!bit_is_set(s));
  CHECK_EQ(slab_used(s), (unsigned)CAPACITY - 64);
  CHECK(slab_is_valid(s));
  CHECK_EQ(take_all(s), 64u);
}

TEST(slab, a_slab_with_blocks_never_used_is_partial_even_if_none_is_free, "I2") {
  slab_t *s = new_slab(CLASS, &heap_a);
  unsigned count;
  slab_take_list(s, 5, &count);
  CHECK(slab_let_go(s) == SLAB_SHARED);
  CHECK(anchor(s).state == ANCHOR_PARTIAL);
  CHECK_EQ(anchor(s).count, 0u);
  CHECK_EQ(anchor(s).carved, 5u);
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
  CHECK_EQ(take_all(s), (unsigned)CAPACITY - 5);
}

TEST(slab, a_slab_that_is_let_go_with_all_blocks_free_stays_its_owners, "I1") {
  slab_t *s = new_slab(CLASS, &heap_a);
  unsigned count;
  uintptr_t list = slab_take_list(s, 4, &count);
  CHECK(push_one(s, list, NULL) == SLAB_SHARED); /* one by another, the rest by the owner */
  for (unsigned i = 1; i < 4; i++) put_back(s, list + i * SIZE);
  CHECK(slab_let_go(s) == SLAB_IS_EMPTY);
  CHECK_EQ(owner_of(s), (uintptr_t)&heap_a);
  slab_release(s);
  CHECK_EQ(committed(), (uint64_t)0);
  slab_t *untouched = new_slab(CLASS, &heap_a);
  CHECK(slab_let_go(untouched) == SLAB_IS_EMPTY);
}

/* ---- FULL ---- */

TEST(slab, full_below_the_threshold_stays_full_whoever_frees, "I3") {
  slab_t *s = full_slab(CLASS);
  for (unsigned i = 0; i + 1 < worth_having(CLASS); i++) {
    CHECK(push_one(s, blocks[i], i % 2 ? &heap_b : NULL) == SLAB_SHARED);
    CHECK(anchor(s).state == ANCHOR_FULL);
    CHECK_EQ(anchor(s).count, i + 1);
  }
  CHECK(!bit_is_set(s));
  CHECK_NULL(slab_find_partial(CLASS, &heap_b));
}

TEST(slab, the_free_that_reaches_the_threshold_adopts_the_slab_with_its_chain, "I1 I3 S-anchor") {
  for (unsigned c = 1; c < CLASS_COUNT; c += 3) {
    slab_t *s = full_slab(c);
    unsigned n = worth_having(c);
    if (n == class_info[c].capacity) continue;
    for (unsigned i = 0; i + 1 < n; i++) CHECK(push_one(s, blocks[i], &heap_b) == SLAB_SHARED);
    uint64_t adoptions = slab_tally_sum(TALLY_ADOPTIONS);
    CHECK(push_one(s, blocks[n - 1], &heap_b) == SLAB_OWNED_NOW);
    CHECK(anchor(s).state == ANCHOR_OWNED);
    CHECK_EQ(owner_of(s), (uintptr_t)&heap_b);
    CHECK_EQ(slab_used(s), class_info[c].capacity - n);
    CHECK(slab_is_valid(s));
    CHECK_EQ(slab_tally_sum(TALLY_ADOPTIONS), adoptions + 1);
    CHECK(push_one(s, blocks[n], &heap_c) == (SLAB_SHARED));
    CHECK_EQ(take_all(s), n + 1);
  }
}

TEST(slab, the_free_that_reaches_the_threshold_and_does_not_want_the_slab_publishes_it,
     "S-partial") {
  slab_t *s = full_slab(CLASS);
  for (unsigned i = 0; i < worth_having(CLASS); i++)
    CHECK(push_one(s, blocks[i], NULL) == SLAB_SHARED);
  CHECK(anchor(s).state == ANCHOR_PARTIAL);
  CHECK(bit_is_set(s));
  CHECK_EQ(slab_tally_sum(TALLY_PUBLICATIONS), (uint64_t)1);
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), s);
  CHECK_EQ(owner_of(s), (uintptr_t)&heap_b);
}

/* A chain of `count` blocks from number `from` on. */
static slab_outcome_t push_chain(slab_t *s, unsigned from, unsigned count, void *heap) {
  for (unsigned i = from; i + 1 < from + count; i++) block_link(blocks[i], blocks[i + 1]);
  return slab_push(s, blocks[from], blocks[from + count - 1], count, heap);
}

TEST(slab, many_blocks_that_come_back_together_make_a_full_slab_worth_having_before_the_threshold,
     "I1 I3") {
  enum { SMALLEST = 1, RUSH = RUSH_BLOCKS };
  slab_t *s = full_slab(SMALLEST);
  CHECK_GT(worth_having(SMALLEST), 4u * RUSH);
  CHECK(!slab_is_worth(s, RUSH - 1) && slab_is_worth(s, RUSH));
  CHECK(push_chain(s, 0, RUSH - 1, &heap_b) == SLAB_SHARED);
  /* not wanted: too few for others */
  CHECK(push_chain(s, RUSH, RUSH, NULL) == SLAB_SHARED);
  CHECK(anchor(s).state == ANCHOR_FULL);
  CHECK(push_chain(s, 2 * RUSH, RUSH, &heap_b) == SLAB_OWNED_NOW);
  CHECK_EQ(slab_used(s), class_info[SMALLEST].capacity - 3u * RUSH + 1u);
  CHECK(slab_is_valid(s));
}

TEST(slab, full_and_all_freed_at_once_is_the_last_freers_to_release, "I3") {
  for (int with = 0; with < 2; with++) {
    slab_t *s = full_slab(72); /* three blocks of 16 KiB */
    block_link(blocks[0], blocks[1]);
    block_link(blocks[1], blocks[2]);
    CHECK(slab_push(s, blocks[0], blocks[2], 3, with ? &heap_b : NULL) == SLAB_IS_EMPTY);
    slab_release(s);
    CHECK_EQ(committed(), (uint64_t)0);
  }
}

/* ---- PARTIAL and EMPTY ---- */

static slab_t *partial_slab(void) {
  slab_t *s = full_slab(CLASS);
  for (unsigned i = 0; i < worth_having(CLASS); i++) push_one(s, blocks[i], NULL);
  return s;
}

TEST(slab, partial_counts_frees_and_stays_findable, "I3") {
  slab_t *s = partial_slab();
  for (unsigned i = worth_having(CLASS); i + 1 < CAPACITY; i++) {
    CHECK(push_one(s, blocks[i], &heap_b) == SLAB_SHARED);
    CHECK(anchor(s).state == ANCHOR_PARTIAL);
    CHECK_EQ(anchor(s).count, i + 1);
  }
  CHECK(bit_is_set(s));
}

TEST(slab, the_thread_that_frees_the_last_block_of_a_partial_slab_gets_it_to_release, "S-partial") {
  slab_t *s = partial_slab();
  for (unsigned i = worth_having(CLASS); i + 1 < CAPACITY; i++) push_one(s, blocks[i], NULL);
  CHECK(push_one(s, blocks[CAPACITY - 1], NULL) == SLAB_IS_EMPTY);
  CHECK(!bit_is_set(s));
  CHECK(anchor(s).state == ANCHOR_OWNED);
  slab_release(s);
  CHECK(anchor(s).state == ANCHOR_NONE);
  CHECK_EQ(committed(), (uint64_t)0);
}

TEST(slab, a_slab_is_empty_when_all_blocks_ever_handed_out_are_back, "I3") {
  slab_t *s = new_slab(CLASS, &heap_a);
  unsigned count;
  uintptr_t list = slab_take_list(s, 5, &count), block[5];
  for (unsigned i = 0; i < 5; i++, list = block_next(list)) block[i] = list;
  slab_let_go(s);
  for (unsigned i = 0; i < 4; i++) CHECK(push_one(s, block[i], NULL) == SLAB_SHARED);
  CHECK(push_one(s, block[4], NULL) == SLAB_IS_EMPTY);
}

TEST(slab, a_partial_slab_that_is_found_may_be_let_go_again_and_again, "I1 I3") {
  slab_t *s = partial_slab();
  for (unsigned i = worth_having(CLASS); i < CAPACITY; i++) {
    CHECK_EQ(slab_find_partial(CLASS, i % 2 ? &heap_a : &heap_b), s);
    CHECK(slab_is_valid(s));
    CHECK(push_one(s, blocks[i], &heap_c) == SLAB_SHARED);
    CHECK(slab_let_go(s) == (i + 1 < CAPACITY ? SLAB_SHARED : SLAB_IS_EMPTY));
  }
}

TEST(slab, only_slabs_of_the_class_are_found_in_any_group_of_any_arena, "S-group") {
  slab_t *far[3];
  for (int i = 0; i < 3; i++) {
    bool clean;
    far[i] = full_slab(CLASS + (i == 1));
    for (unsigned k = 0; k < worth_having(CLASS + (i == 1)); k++) push_one(far[i], blocks[k], NULL);
    CHECK(arena_claim(HALF_WINDOW, 1, &clean) != NULL);
    while (i == 1 && arena_count() == 1) CHECK(arena_claim(1, 1, &clean) != NULL);
  }
  CHECK_GT(arena_count(), 1u);
  CHECK_NULL(slab_find_partial(CLASS - 1, &heap_b));
  CHECK_EQ(slab_find_partial(CLASS + 1, &heap_b), far[1]);
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), far[0]);
  CHECK_EQ(slab_find_partial(CLASS, &heap_b), far[2]);
  CHECK_NULL(slab_find_partial(CLASS, &heap_b));
}

/* ---- what must not be ---- */

TEST(slab, a_double_free_that_the_anchor_can_tell_is_fatal_in_every_state, "I3") {
  slab_t *s = new_slab(CLASS, &heap_a);
  take_all(s);
  for (unsigned i = 0; i < CAPACITY; i++) push_one(s, blocks[i], NULL);
  EXPECT_ABORT(push_one(s, blocks[0], NULL), "double free");
  slab_collect(s);
  CHECK(slab_let_go(s) == SLAB_IS_EMPTY);
  slab_release(s);
  EXPECT_ABORT(push_one(s, blocks[0], NULL), "double free");
  atomic32_store_relaxed(&s->kind, SLAB_IS_LARGE); /* the slice is a large block's */
  EXPECT_ABORT(push_one(s, blocks[0], NULL), "double free");
  atomic32_store_relaxed(&s->kind, CLASS);
  atomic64_store_relaxed(&s->anchor,
                         anchor_pack(ANCHOR_EMPTY, (uint16_t)blocks[0], CAPACITY, CAPACITY));
  EXPECT_ABORT(push_one(s, blocks[0], NULL), "double free");
  atomic64_store_relaxed(&s->anchor, anchor_pack(ANCHOR_PARTIAL, (uint16_t)blocks[0], 5, 5));
  EXPECT_ABORT(push_one(s, blocks[0], NULL), "double free");
}

static bool check_slab(slab_t *s) { return slab_is_valid(s); }

TEST(slab, each_broken_invariant_is_found_by_its_name, "I1 I2 I3 I4 I7") {
  slab_t *s = new_slab(CLASS, &heap_a);
  take_all(s);
  put_back(s, blocks[0]);
  uint64_t word = atomic64_load_relaxed(&s->anchor);
  CHECK(check_slab(s));
  EXPECT_ABORT((atomic32_store_relaxed(&s->holes, UINT32_MAX), check_slab(s)), "invariant I7");
  atomic32_store_relaxed(&s->used, 3);
  EXPECT_ABORT(check_slab(s), "invariant I1");
  atomic32_store_relaxed(&s->used, CAPACITY - 1);
  s->head += 8;
  EXPECT_ABORT(check_slab(s), "invariant I4");
  s->head -= 8;
  atomic64_store_relaxed(&s->anchor, anchor_pack(ANCHOR_OWNED, 0, CAPACITY, 0));
  EXPECT_ABORT(check_slab(s), "invariant I3");
  atomic64_store_relaxed(&s->anchor, word);
  slab_push(s, blocks[1], blocks[1], 1, NULL);
  atomic64_store_relaxed(&s->anchor, atomic64_load_relaxed(&s->anchor) + anchor_pack(0, 0, 1, 0));
  EXPECT_ABORT((s->head = 0, slab_collect(s)), "invariant I3");
  atomic64_store_relaxed(&s->anchor, word);
  s->capacity = 9;
  EXPECT_ABORT(check_slab(s), "invariant I2");
}

/* ---- threads: blocks pass between heaps that take, adopt, borrow, let go and release ---- */

/* 4,096 bytes, 15 blocks, threshold 2 */
enum { THREADS = 4, OWNED_MOST = 3, EXCHANGE = 64, STRESS_CLASS = 56 };
static atomic64_t exchange[EXCHANGE];
static int heaps[THREADS];
typedef struct {
  slab_t *slabs[OWNED_MOST + 2];
  unsigned count, number;
  uint64_t state;
} worker_t;

static void let_go(slab_t *s) {
  if (slab_let_go(s) == SLAB_IS_EMPTY) slab_release(s);
}

static void give(worker_t *w, uintptr_t block) {
  slab_t *s = slab_of((void *)block);
  /* it was out, once */
  CHECK_EQ(atomic64_exchange_acq_rel((atomic64_t *)(block + 16), 0), (uint64_t)1);
  void *adopter = w->count < OWNED_MOST && core_next(&w->state) % 2 ? &heaps[w->number] : NULL;
  if (atomic_ptr_load_relaxed(&s->owner) == &heaps[w->number]) {
    put_back(s, block);
    return;
  }
  slab_outcome_t outcome = push_one(s, block, adopter);
  if (outcome == SLAB_IS_EMPTY) slab_release(s);
  if (outcome == SLAB_OWNED_NOW) w->slabs[w->count++] = s;
}

static void swap_out(worker_t *w, uintptr_t list) {
  while (list != 0) {
    uintptr_t next = block_next(list);
    /* nobody else has it */
    CHECK_EQ(atomic64_exchange_acq_rel((atomic64_t *)(list + 16), 1), (uint64_t)0);
    uintptr_t old = atomic64_exchange_acq_rel(&exchange[core_next(&w->state) % EXCHANGE], list);
    if (old != 0) give(w, old);
    list = next;
  }
}

static void work(unsigned number) {
  worker_t w = {.number = number, .state = number};
  void *me = &heaps[number];
  for (int i = 0; i < 30000; i++) {
    unsigned count;
    uint64_t dice = core_next(&w.state) % 16;
    if (w.count < OWNED_MOST && dice < 4) {
      slab_t *s = slab_find_partial(STRESS_CLASS, me);
      if (s == NULL) s = new_slab(STRESS_CLASS, me);
      if (dice == 0) { /* borrow: take one, let go at once */
        uintptr_t list = slab_take_some(s, 1, &count);
        let_go(s);
        swap_out(&w, list);
        continue;
      }
      w.slabs[w.count++] = s;
    }
    if (w.count == 0) continue;
    slab_t *s = w.slabs[dice % w.count];
    uintptr_t list = dice % 3 ? slab_take_some(s, 3, &count) : slab_take_list(s, 3, &count);
    if (list == 0 || dice == 15) {
      for (unsigned k = 0; k < w.count; k++)
        if (w.slabs[k] == s) w.slabs[k] = w.slabs[--w.count];
      let_go(s);
    }
    swap_out(&w, list);
  }
  while (w.count > 0) let_go(w.slabs[--w.count]);
}

TEST(slab, threads_that_pass_blocks_around_never_get_one_twice_and_lose_no_slab,
     "I1 I3 S-anchor S-partial S-group") {
  core_threads(THREADS, work);
  worker_t last = {.count = OWNED_MOST}; /* adopts nothing */
  for (int i = 0; i < EXCHANGE; i++)
    if (atomic64_load_relaxed(&exchange[i]) != 0) give(&last, atomic64_load_relaxed(&exchange[i]));
  CHECK_NULL(slab_find_partial(STRESS_CLASS, &heap_a));
  CHECK_EQ(committed(), (uint64_t)0);
  CHECK_GT(slab_tally_sum(TALLY_ADOPTIONS), (uint64_t)10);
  CHECK_GT(slab_tally_sum(TALLY_PUBLICATIONS), (uint64_t)10);
}
