/* outbox_test.c - tests of stock/outbox */
enum { MANY = 4000 };
#include "kept.h"

#include "../../src/heap/bytes.h"
#include "../../src/heap/upkeep.h"

TEST(outbox, frees_of_one_foreign_slab_are_gathered_and_published_with_one_swap, "I3 S-anchor") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (int i = 0; i < BATCH_BLOCKS - 1; i++) fast_free(kept[i]);
  CHECK_EQ(swaps_of(h), 0u);
  CHECK_GT(h->put_off, 0u);
  outbox_flush(h);
  CHECK_EQ(swaps_of(h), 1u);
  CHECK_EQ(h->aside->slots, 0u);
  CHECK_EQ(anchor(slab_of(kept[0])).count, BATCH_BLOCKS - 1);
}

TEST(outbox, a_gathered_chain_is_published_when_its_bytes_are_worth_it, "") {
  size_t size = 2048;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (size_t i = 0; i < BATCH_BYTES / size - 1; i++) fast_free(kept[i]);
  CHECK_EQ(swaps_of(h), 0u);
  fast_free(kept[BATCH_BYTES / size - 1]);
  CHECK_EQ(swaps_of(h), 1u);
}

TEST(outbox, the_last_blocks_of_a_slab_do_not_wait_for_others, "S-anchor") {
  size_t size = 1024;
  core_option(OPTION_magazine, 0);
  in_thread(allocate, &size, true); /* slabs without an owner */
  uint64_t before = committed();
  for (int i = 0; i < MANY / 4; i++) fast_free(kept[i]); /* 15 slabs: each has its own batch */
  CHECK_LE(committed(), before - 12);                    /* the others: `returned` */
}

TEST(outbox, what_waits_to_be_published_is_on_the_next_slow_path, "") {
  size_t size = 64;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (int i = 0; i < 5; i++) fast_free(kept[i]);
  CHECK_EQ(swaps_of(h), 0u);
  fast_malloc(3000); /* an empty bin */
  CHECK_EQ(swaps_of(h), 1u);
  CHECK_EQ(h->put_off, 0u);
  CHECK_EQ(anchor(slab_of(kept[0])).count, 5u);
}

/* Blocks that were freed and wait in the heap. */
static unsigned count_waiting(const heap_t *h) {
  unsigned count = 0, slot = 0;
  for (batch_t *b; (b = outbox_next(h, &slot)) != NULL;) count += batch_count(b);
  return count;
}

/* `put_off` is exact between calls. */
static void check_held(const heap_t *h) {
  unsigned chains = 0, slot = 0;
  while (outbox_next(h, &slot) != NULL) chains++;
  CHECK_EQ(h->put_off, outbox_is_wide(h) ? 1u : chains);
}

static unsigned free_spread(size_t size) {
  unsigned most = 0;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (int i = 0; i < MANY; i++) {
    fast_free(kept[(i * 173) % MANY]); /* each of another slab */
    check_held(h);
    CHECK_LE(0u + h->aside->put_off_more, (uint32_t)PUT_OFF_MORE);
    most = (unsigned)max_size(most, count_waiting(h));
  }
  return most;
}

TEST(outbox, a_heap_that_frees_much_that_is_spread_holds_more_and_more_of_it_back, "") {
  CHECK_GT(free_spread(4000), 8u * PUT_OFF_LEAST);
  CHECK_GT(0u + my_heap()->aside->put_off_more, 4u * PUT_OFF_LEAST);
  outbox_flush(my_heap()); /* it got wide */
  my_heap()->aside->put_off_more = PUT_OFF_MORE;
  CHECK_GT(free_spread(4000), 8u * PUT_OFF_LEAST);
}

static void check_that_little_waits(size_t size) {
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (int i = 0; i < 48; i++) {
    fast_free(kept[(i * 173) % MANY]); /* each of another slab */
    CHECK_LE(count_waiting(h) * max_size(size, 4096), 98304u);
  }
}

TEST(outbox, a_thread_that_has_freed_little_holds_little_of_it_back, "") {
  check_that_little_waits(4000);
}
TEST(outbox, a_thread_that_has_freed_little_of_the_largest_class_holds_little_back, "") {
  check_that_little_waits(16000);
}

TEST(outbox, a_heap_takes_over_the_full_slabs_whose_blocks_it_frees_but_not_too_many,
     "I1 S-anchor") {
  size_t size = 512, own = 512;
  in_thread(allocate, &size, true);
  for (size_t i = 0; i < 40; i++) fast_malloc(own); /* it has earned slabs of this class */
  unsigned c = class_of(size);
  CHECK_GE(my_heap()->own->slab_count[c], 1);
  for (int i = 0; i < MANY; i += 2) fast_free(kept[i]);
  outbox_flush(my_heap());
  CHECK_GE(my_heap()->own->slab_count[c], 3);
  CHECK_LE(my_heap()->own->slab_count[c], OWNED_MOST);
  CHECK_GT(slab_tally_sum(TALLY_ADOPTIONS), (uint64_t)0);
  CHECK_GT(slab_tally_sum(TALLY_PUBLICATIONS), (uint64_t)0);
  for (int i = 1; i < MANY; i += 2) CHECK_BYTES(kept[i], i, size);
  uint64_t before = committed();
  for (int i = 0; i < MANY / 2; i++) fast_malloc(size); /* the freed half is used again */
  CHECK_LE(committed(), before + 1);
}

TEST(outbox, a_heap_that_has_not_earned_the_class_publishes_what_it_frees, "") {
  size_t size = 512;
  in_thread(allocate, &size, true);
  for (int i = 0; i < MANY; i += 2) fast_free(kept[i]);
  outbox_flush(my_heap());
  CHECK_EQ(my_heap()->own->slab_count[class_of(size)], 0);
  CHECK_EQ(slab_tally_sum(TALLY_ADOPTIONS), (uint64_t)0);
  CHECK_GT(slab_tally_sum(TALLY_PUBLICATIONS), (uint64_t)0);
}

TEST(outbox, a_heap_adopts_no_slab_of_a_class_whose_blocks_others_free, "S-anchor") {
  size_t size = 512;
  unsigned c = class_of(size);
  allocate(&size);
  heap_t *h = my_heap();
  in_thread(release, NULL, true);
  for (int i = 0; i < 200; i++) fast_malloc(size); /* it sees who freed them */
  in_thread(allocate, &size, true);                /* slabs without an owner */
  for (int i = 0; i < MANY; i += 2) fast_free(kept[i]);
  outbox_flush(h);
  CHECK(heap_knows_remote(h, c));
  CHECK_EQ(h->own->slab_count[c], 0);
  CHECK_EQ(slab_tally_sum(TALLY_ADOPTIONS), (uint64_t)0);
}

TEST(outbox, blocks_gathered_for_a_slab_that_the_heap_adopts_meanwhile_go_to_its_own_list, "I1") {
  size_t size = 64;
  in_thread(allocate, &size, true); /* FULL slabs without an owner */
  slab_t *s = slab_of(kept[MANY / 2]);
  CHECK_NULL(atomic_ptr_load_relaxed(&s->owner));
  for (int i = 0; i < 200; i++) fast_malloc(size);
  int freed = 0;
  for (int i = 0; i < MANY; i++)
    if (slab_of(kept[i]) == s) {
      fast_free(kept[i]);
      kept[i] = NULL;
      freed++;
    }
  CHECK_GT(freed, 500);
  CHECK(slab_kind(slab_word(s)) != SLAB_SMALL || atomic_ptr_load_relaxed(&s->owner) != my_heap() ||
        slab_is_valid(s));
  release(NULL);
}

/* ---- a wide outbox --------------------------------------------------------------------------- */

static size_t wide_size = 2000;
/* Frees blocks of 125 slabs, each of another one than the one before, until the outbox is wide, and
 * `more`. Returns how many. */
static int free_until_wide(int more) {
  int i = 0;
  if (kept[0] == NULL) in_thread(allocate, &wide_size, true);
  my_heap()->aside->put_off_more = PUT_OFF_MORE; /* it has freed as many before */
  for (; i < MANY && !outbox_is_wide(my_heap()); i++) fast_free(kept[i * 173 % MANY]);
  CHECK(outbox_is_wide(my_heap()));
  for (int end = i + more; i < end; i++) fast_free(kept[i * 173 % MANY]);
  check_held(my_heap());
  return i;
}
static void free_the_rest(int from) {
  for (int i = from; i < MANY; i++) fast_free(kept[i * 173 % MANY]);
}

TEST(outbox, a_thread_that_only_frees_needs_few_swaps_however_many_slabs_there_are, "H6 H8") {
  int freed = free_until_wide(0);
  CHECK_LE(freed, CROWDED_MOST + MANY / 4);
  uint64_t before = swaps_of(my_heap());
  free_the_rest(freed);
  CHECK_LE(swaps_of(my_heap()) - before, (uint64_t)(MANY - freed) * 2 / 3);
}

/* Frees all blocks at random. Every so many frees there is a refill, or a larger malloc. */
static bool gets_wide(int frees, bool is_large) {
  in_thread(allocate, &wide_size, true);
  my_heap()->aside->put_off_more = PUT_OFF_MORE;
  my_heap()->aside->crowded = CROWDED_MOST / 2;
  bool is_wide = false;
  for (int i = 0; i < MANY; i++) {
    fast_free(kept[i * 173 % MANY]);
    if (i % frees == 0 && is_large) fast_malloc(20000);
    else if (i % frees == 0) heap_malloc_class(my_heap(), class_of(100 + (size_t)i));
    is_wide |= outbox_is_wide(my_heap());
  }
  return is_wide;
}

TEST(outbox, a_thread_that_allocates_for_every_eight_frees_at_random_keeps_its_64_slots, "") {
  CHECK(!gets_wide(ROUND_STEP, false));
  CHECK(!gets_wide(ROUND_STEP, true));
}
TEST(outbox, a_thread_that_replaces_blocks_at_random_gets_a_wide_outbox, "") {
  CHECK(gets_wide(16 * ROUND_STEP, false));
}
TEST(outbox, a_thread_that_replaces_blocks_by_large_ones_gets_a_wide_outbox, "") {
  CHECK(gets_wide(16 * ROUND_STEP, true));
}

TEST(outbox, a_slab_whose_last_block_a_wide_outbox_gets_goes_back_at_once, "S-anchor") {
  core_option(OPTION_magazine, 0);
  uint64_t none = committed();
  free_the_rest(free_until_wide(0));
  CHECK_LE(committed(), none + 16); /* its slots, the returned list, blocks just fetched */
  outbox_flush(my_heap());
  CHECK(!outbox_is_wide(my_heap()));
  check_nothing_lost();
}

static void go_round(heap_t *h) {
  size_t refills = outbox_slot_count(h) / ROUND_STEP;
  for (; refills != 0 && outbox_is_wide(h); refills--) {
    unsigned waiting = count_waiting(h);
    outbox_note_refill(h);
    CHECK_LE(waiting, count_waiting(h) + ROUND_STEP * BATCH_BLOCKS);
  }
}

TEST(outbox, refills_empty_all_slots_of_a_wide_outbox_in_turn, "") {
  free_until_wide(900);
  heap_t *h = my_heap();
  go_round(h);
  CHECK_EQ(count_waiting(h), 0u);
  CHECK(outbox_is_wide(h) && !h->aside->is_closing && heap_is_valid(h));
}

TEST(outbox, a_wide_outbox_ends_after_a_round_that_finds_few_chains, "") {
  int freed = free_until_wide(900);
  heap_t *h = my_heap();
  go_round(h);
  for (int end = freed + 8; freed < end; freed++) fast_free(kept[freed * 173 % MANY]);
  go_round(h);
  CHECK(h->aside->is_closing);
  for (unsigned i = 0; i < outbox_slot_count(h) / WIDE_STEP; i++) outbox_note_refill(h);
  CHECK(!outbox_is_wide(h));
  CHECK_EQ(count_waiting(h), 0u);
  CHECK(h->put_off == 0 && heap_is_valid(h));
}

TEST(outbox, a_wide_outbox_with_too_few_slots_closes_in_one_go, "") {
  int freed = free_until_wide(0);
  heap_t *h = my_heap();
  go_round(h); /* all slots are empty */
  h->aside->is_closing = true;
  h->aside->wide_last = WIDE_LEAST / 2 - 1;
  h->aside->wide_at = WIDE_LEAST / 2 - 2 * ROUND_STEP;
  h->aside->crowded = CROWDED_MOST - 1;
  for (int end = freed + 4 * FETCHES; freed < end; freed++) fast_free(kept[freed * 173 % MANY]);
  CHECK(!outbox_is_wide(h));
}

TEST(outbox, blocks_of_any_size_end_it, "") {
  static const size_t sizes[] = {3000, 20000, 200000, 20 << 20};
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
    int freed = free_until_wide(0), most = 100 * WIDE_LEAST / ROUND_STEP;
    while (outbox_is_wide(my_heap()) && --most != 0) {
      void *p = fast_malloc(sizes[i]);
      if (sizes[i] > SMALL_MOST) fast_free(p);
    }
    CHECK(!outbox_is_wide(my_heap()));
    free_the_rest(freed);
    kept[0] = NULL;
  }
}

TEST(outbox, the_slices_of_a_wide_outbox_count_as_touched, "A4") {
  free_until_wide(0);
  batch_t *slots = outbox_slots(my_heap());
  size_t n = (outbox_slot_count(my_heap()) * sizeof *slots) >> SLICE_SHIFT;
  CHECK_EQ(*arena_touched_last(slots, n), TOUCHED_ALL);
}

TEST(outbox, a_wide_outbox_that_ends_takes_no_new_chains_and_goes_on_if_nothing_is_allocated, "") {
  int freed = free_until_wide(0);
  heap_t *h = my_heap();
  h->aside->is_closing = true;
  unsigned waiting = count_waiting(h);
  for (int end = freed + 100; freed < end; freed++) fast_free(kept[freed * 173 % MANY]);
  CHECK_LE(count_waiting(h), waiting + FETCHES);
  h->aside->crowded = CROWDED_MOST - 1;
  free_the_rest(freed);
  CHECK(!h->aside->is_closing);
}

TEST(outbox, a_slab_that_is_refilled_from_gets_what_waits_for_it, "I1") {
  int freed = free_until_wide(900);
  heap_t *h = my_heap();
  slab_t *s = NULL;
  batch_t *b = NULL;
  heap_note_class(h, class_of(wide_size));
  while (s == NULL || b->slab != s) { /* as a refill does, until one has a chain */
    s = slab_find_partial(class_of(wide_size), h);
    CHECK(s != NULL);
    owned_add(h, s);
    b = outbox_batch(h, slab_base(s));
  }
  unsigned count = batch_count(b);
  outbox_reclaim(h, s);
  CHECK_NULL(b->slab);
  CHECK_GE(slab_private_count(s), count);
  CHECK(slab_is_valid(s) && heap_is_valid(h));
  free_the_rest(freed);
}

TEST(outbox, what_a_wide_outbox_was_given_is_no_live_block, "") {
  static const int between[] = {0, 1, FETCHES - 1, FETCHES, 3 * FETCHES};
  free_until_wide(0);
  int last = MANY;
  for (size_t i = 0; i < ARRAY_LENGTH(between); i++) {
    char *p = kept[--last * 173 % MANY];
    fast_free(p);
    for (int k = 0; k < between[i]; k++) fast_free(kept[--last * 173 % MANY]);
    EXPECT_ABORT((fast_free(p), outbox_step(my_heap())), "double free");
    EXPECT_ABORT((fast_free(p), heap_check_last()), "double free"); /* at exit */
    if (between[i] < FETCHES)                                       /* a slow free's */
      EXPECT_ABORT(outbox_put(my_heap(), slab_of(p), (uintptr_t)p), "double free");
    EXPECT_ABORT(heap_realloc(p, 100, "realloc"), "double free.*realloc");
    EXPECT_ABORT(heap_usable_size(p, "malloc_usable_size"), "double free");
  }
}

TEST(outbox, a_block_freed_twice_whose_slab_is_gone_is_noticed, "") {
  free_until_wide(0);
  char *p = kept[(MANY - 1) * 173 % MANY];
  slab_t *s = slab_of(p);
  fast_free(p);
  EXPECT_ABORT((atomic32_store_relaxed(&s->kind, 0), outbox_step(my_heap())), "double free");
  s->inverse = UINT64_MAX; /* another class's */
  EXPECT_ABORT(outbox_step(my_heap()), "double free");
  EXPECT_ABORT(
    {
      for (int i = 0; i < FETCHES; i++) fast_free(kept[(MANY - 2 - i) * 173 % MANY]);
    },
    "double free");
}

TEST(outbox, a_block_of_a_first_class_heap_does_not_wait_in_a_wide_outbox, "") {
  free_until_wide(0);
  heap = firstclass_new();
  char *p = firstclass_aligned(heap, 1, 100);
  uintptr_t fetched[FETCHES];
  memcpy(fetched, my_heap()->aside->fetched, sizeof fetched);
  fast_free(p);
  CHECK(memcmp(fetched, my_heap()->aside->fetched, sizeof fetched) == 0);
  firstclass_destroy(heap);
}

TEST(outbox, a_thread_beside_another_that_allocates_keeps_its_64_slots, "") {
  in_thread(allocate, &wide_size, false);
  for (int i = 0; i < MANY; i++) fast_free(kept[i * 173 % MANY]);
  CHECK(!outbox_is_wide(my_heap()));
}

static void wait_for(void *gone) {
  (void)gone;
  fast_free(fast_malloc(100));
}
TEST(outbox, a_wide_outbox_ends_once_there_is_another_thread, "") {
  int freed = free_until_wide(0);
  in_thread(wait_for, NULL, false);
  my_heap()->aside->crowded = CROWDED_MOST - 2;
  free_the_rest(freed);
  CHECK(!outbox_is_wide(my_heap()) || my_heap()->aside->is_closing);
}

TEST(outbox, a_wide_outbox_ends_at_refills_once_there_is_another_thread, "") {
  free_until_wide(900);
  heap_t *h = my_heap();
  in_thread(wait_for, NULL, false);
  for (unsigned i = 0; i < outbox_slot_count(h) / WIDE_STEP; i++) outbox_note_refill(h);
  CHECK(!outbox_is_wide(h));
}

/* The free that made it due had no stack left to make it so. */
TEST(outbox, one_that_is_to_get_wide_does_not_once_there_is_another_thread, "") {
  in_thread(allocate, &wide_size, true);
  heap_t *h = my_heap();
  h->aside->crowded = CROWDED_MOST;
  in_thread(wait_for, NULL, false);
  fast_free(kept[0]);
  CHECK_EQ(h->aside->crowded, 0);
  CHECK(!outbox_is_wide(h));
}

/* The first one has no word before there are others. */
TEST(outbox, a_taker_finds_the_heap_of_a_process_s_first_thread_once_its_outbox_is_wide, "") {
  allocate(&wide_size);
  CHECK(!users_are_known());
  free_the_rest(free_until_wide(0));
  CHECK_NE(users_thread(heap_number(my_heap())), (uint64_t)0);
  CHECK(users_marks(heap_number(my_heap())) != NULL);
}

TEST(outbox, a_thread_that_asks_for_its_bytes_has_no_wide_outbox, "") {
  int freed = free_until_wide(0);
  heap_thread_bytes();
  CHECK(!outbox_is_wide(my_heap()));
  my_heap()->aside->crowded = CROWDED_MOST - 1;
  free_the_rest(freed);
  CHECK(!outbox_is_wide(my_heap()));
}

TEST(outbox, a_wide_outbox_is_emptied_when_another_thread_has_memory_trimmed, "") {
  free_until_wide(900);
  heap_answer_trim(my_heap());
  CHECK_EQ(count_waiting(my_heap()), 0u);
  CHECK(!outbox_is_wide(my_heap()));
}

TEST(outbox, a_heap_that_stands_in_for_a_thread_s_own_has_no_wide_outbox, "") {
  in_thread(allocate, &wide_size, true);
  my_heap();
  heap_here.window = 0; /* as in a handler that has interrupted a fast free */
  for (int i = 0; i < MANY / 2; i++) heap_free(kept[i * 173 % MANY], "free");
  heap_t *h = atomic_ptr_load_relaxed(&heap_of_thread()->nested);
  CHECK(h != NULL);
  h->aside->crowded = CROWDED_MOST - 1;
  h->aside->put_off_more = PUT_OFF_MORE;
  for (int i = MANY / 2; i < MANY; i++) heap_free(kept[i * 173 % MANY], "free");
  CHECK(!outbox_is_wide(h));
}
