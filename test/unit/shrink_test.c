/* shrink_test.c - tests of stock/shrink */
enum { MANY = 4000 };
#include "../../src/stock/lanes.h"
#include "kept.h"

/* ---- a heap that has some of everything ---- */

enum { OWN = 64, MEDIUM = 2048, FRESH = 4096, WAITING = 5 };
static const unsigned own = 4, medium = 48; /* classes: see fill_heap */

static slab_t *own_slab(const heap_t *h) { return owned_first(h, own); }
static size_t kept_slices(const heap_t *h) { return h->singles + h->run_slices; }
static uint64_t large_of(const heap_t *h) { return atomic64_load_relaxed(&h->large_allocated); }

static void swing(size_t size, size_t n) {
  static void *p[600];
  for (size_t i = 0; i < n; i++) p[i] = fast_malloc(size);
  for (size_t i = 0; i < n; i++) fast_free(p[i]);
}

/* The calling thread's, marked. Other threads have slabs whose blocks are in `kept`. */
static heap_t *fill_heap(void) {
  size_t size = OWN;
  CHECK(class_of(OWN) == own && class_of(MEDIUM) == medium);
  in_thread(allocate, &size, false);
  for (int i = 0; i < MANY; i++) fast_malloc(OWN);
  for (int i = 0; i < 6; i++) swing(MEDIUM, 600);
  fast_malloc(MEDIUM);
  for (int i = 0; i < 3; i++) fast_malloc(FRESH);
  swing(200000, 60);
  for (int i = 0; i < WAITING; i++) fast_free(kept[i]);
  heap_t *h = heap_enter();
  CHECK(h->bin[own] != 0 && h->own->slab_count[own] != 0 && h->aside->returned[medium] != 0);
  CHECK_GT(heap_fresh(h, class_of(FRESH)).count, 0u);
  CHECK(h->own->lengthened[medium - MEDIUM_CLASS].doublings > 0);
  CHECK(kept_slices(h) != 0 && h->put_off != 0 && large_of(h) != 0);
  return h;
}

static void check_that_nothing_waits(const heap_t *h) {
  CHECK(h->put_off == 0 && h->aside->slots == 0);
  CHECK_EQ(anchor(slab_of(kept[0])).count, (unsigned)WAITING);
}

/* A thread that has a few blocks of that size and ends: its heap rests. */
static void *few[100];
static void rest_with_a_few(void *size) {
  for (size_t i = 0; i < ARRAY_LENGTH(few); i++) few[i] = fast_malloc(*(size_t *)size);
  os_fake_end_thread();
}

/* ---- shrinking ---- */

TEST(shrink, a_flush_puts_every_block_back_and_leaves_the_slabs, "I1") {
  heap_t *h = fill_heap();
  heap_flush_bins(h);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    CHECK(h->bin[c] == 0 && h->aside->returned[c] == 0 && h->returned_most[c] == 0 &&
          heap_fresh(h, c).count == 0);
  check_that_nothing_waits(h);
  CHECK(h->own->slab_count[own] != 0 && slab_is_valid(own_slab(h)));
}

TEST(shrink, an_own_slab_of_which_only_a_bin_had_blocks_goes_with_a_flush_or_is_idle, "I1") {
  size_t size = OWN;
  allocate(&size);
  release(NULL);
  heap_t *h = heap_enter();
  CHECK_EQ(h->own->slab_count[own], 2);
  CHECK_EQ(slab_of((void *)h->bin[own]), own_slab(h)->next);
  heap_flush_bins(h);
  CHECK_EQ(h->own->slab_count[own], 1);
  CHECK(own_slab(h)->idleness == SLAB_IDLE && h->idle == 1);
}

TEST(shrink, each_step_of_a_trim_takes_a_class_and_after_all_of_them_a_heap_at_rest_ends, "") {
  size_t size = OWN;
  heap_t *h = fill_heap();
  in_thread(rest_with_a_few, &size, false);
  CHECK_GT(pool_resting_pages(), 0u);
  h->trim_class = (uint8_t)(medium + 1);
  h->trims_due = 1;
  CHECK(!heap_trim(h));
  CHECK(h->aside->returned[medium] == 0 && h->bin[medium] == 0 && h->bin[own] != 0);
  check_that_nothing_waits(h);
  CHECK(h->trim_class <= medium && h->trim_class > own); /* a step more for each slice */
  h->trim_class = 3;
  h->trims_due = 3;
  CHECK(heap_trim(h)); /* classes 2, 1 and the highest */
  CHECK(h->trims_due == 0 && h->trim_class == CLASS_COUNT - 1);
  h->trims_due = CLASS_COUNT;
  heap_exit(h);
  CHECK_EQ(pool_resting_pages(), 0u);
}

TEST(shrink, of_a_class_that_it_does_not_use_a_heap_keeps_nothing_and_adopts_no_slab, "H1") {
  heap_t *h = fill_heap();
  h->watched = own;
  h->watched_binned = (uint16_t)heap_binned(h, own);
  heap_watch_class(h, (uint8_t)os_fake.now_ms);
  CHECK(h->own->slab_count[own] == 0 && h->bin[own] == 0 && h->aside->returned[own] == 0);
  check_that_nothing_waits(h);
  CHECK_EQ((unsigned)h->watched, medium);
  CHECK(h->aside->returned[medium] != 0);
  heap_exit(h);
  int from = WAITING;
  release(&from);
  CHECK_EQ((int)h->own->slab_count[own], 0);
  fast_malloc(OWN);
  CHECK_EQ(h->aside->given_up, (uint64_t)0);
  h->watched_binned = (uint16_t)(heap_binned(h, medium) - 1); /* used since */
  heap_enter();
  heap_watch_class(h, (uint8_t)os_fake.now_ms);
  CHECK(h->aside->returned[medium] != 0);
  heap_exit(h);
}

TEST(shrink, slow_calls_watch_class_after_class_by_the_clock, "") {
  CHECK(fast_malloc(MiB(4)) != NULL); /* a small program does not */
  size_t size = OWN;
  allocate(&size);
  heap_t *h = my_heap();
  for (int i = 0; i < 100; i++) {
    CHECK_GT((int)h->own->slab_count[own], 0); /* no time passes */
    fast_free(fast_malloc(100000));
  }
  for (int i = 0; i < 100; i++) {
    os_fake.now_ms += 16;
    for (int calls = 0; calls < 32; calls++) fast_free(fast_malloc(100000));
  }
  CHECK_EQ((int)h->own->slab_count[own], 0);
}

static void spoil(heap_t *h, uintptr_t block) {
  block_set_live(block);
  heap_flush_bins(h);
}

TEST(shrink, a_free_block_that_was_written_to_is_found_when_it_is_put_back, "") {
  heap_t *h = fill_heap();
  EXPECT_ABORT(spoil(h, h->bin[own]), "heap corruption: .* in free");
  EXPECT_ABORT(spoil(h, h->aside->returned[medium]), "heap corruption: .* in free");
}

TEST(shrink, used_blocks_are_counted_anew_where_a_fast_free_was_cut_short, "I1") {
  heap_t *h = fill_heap();
  slab_t *s = own_slab(h);
  uint32_t used = slab_used(s);
  atomic32_store_relaxed(&s->used, used - 1);
  owned_recount(h);
  CHECK_EQ(slab_used(s), used);
}

TEST(shrink, blocks_that_were_never_used_go_back_with_the_others, "") {
  for (size_t size = class_size(MEDIUM_CLASS); size <= SMALL_MOST; size *= 2) {
    for (int i = 0; i < 2; i++) kept[i] = fast_malloc(size);
    CHECK_GT(heap_fresh(my_heap(), class_of(size)).count, 0u);
    for (int i = 0; i < 2; i++) fast_free(kept[i]);
    check_nothing_lost();
    CHECK_EQ(heap_fresh(my_heap(), class_of(size)).count, 0u);
  }
}

static void collect_all(void *unused_context) {
  (void)unused_context;
  heap_collect(true);
}

TEST(shrink, what_it_keeps_goes_with_its_next_slow_calls_if_another_thread_has_asked, "L2") {
  enum { BLOCKS = 200, CALLS = 2 * TICK_MOST };
  static void *large[BLOCKS], *medium[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) large[i] = fast_malloc(100000);
  for (int i = 0; i < BLOCKS; i++) fast_free(large[i]);
  for (int i = 0; i < BLOCKS; i++) medium[i] = fast_malloc(2000);
  for (int i = 0; i < BLOCKS; i++) fast_free(medium[i]);
  heap_t *h = my_heap();
  unsigned c = class_of(2000);
  CHECK(h->singles + h->run_slices > 0 && h->aside->returned[c] != 0);
  for (int i = 0; i < CALLS; i++) fast_free(fast_malloc(WINDOW_SIZE / 2)); /* huge ones */
  CHECK(h->singles + h->run_slices > 0 && h->aside->returned[c] != 0);
  in_thread(collect_all, NULL, true);
  for (int i = 0; i < CALLS; i++) fast_free(fast_malloc(WINDOW_SIZE / 2));
  CHECK_EQ(h->run_slices, 0);
  CHECK(h->bin[c] == 0 && h->aside->returned[c] == 0);
  CHECK_EQ(h->trims_seen, atomic32_load_relaxed(&heap_trims)); /* once is enough */
}

/* ---- resting ---- */

TEST(shrink, a_heap_at_rest_keeps_no_slices_and_nothing_that_waits, "") {
  heap_t *h = fill_heap();
  heap_prepare_rest(h);
  check_that_nothing_waits(h);
  CHECK(kept_slices(h) == 0 && h->own->lengthened[medium - MEDIUM_CLASS].doublings == 0 &&
        large_of(h) == 0);
  CHECK_GE(atomic64_load_relaxed(&heap_counts.large_allocated), (uint64_t)60);
}

TEST(shrink, the_heap_of_a_thread_that_ends_with_little_is_the_next_threads_until_somebody_collects,
     "S-pool") {
  size_t size = 64;
  heap_t *first = NULL;
  for (int round = 0; round < 3; round++) {
    in_thread(rest_with_a_few, &size, false);
    slab_t *s = slab_of(few[99]);
    if (round == 0) first = atomic_ptr_load_relaxed(&s->owner);
    CHECK(first != NULL);
    CHECK_EQ(atomic_ptr_load_relaxed(&s->owner), first);
  }
  CHECK(heap_end_rest());
  CHECK_NULL(atomic_ptr_load_relaxed(&slab_of(few[99])->owner));
  CHECK(!heap_end_rest());
  CHECK_EQ(pool_claim(), first);
}

TEST(shrink, of_a_resting_heaps_own_slabs_what_was_ever_used_counts, "") {
  size_t size = OWN, pages = 1;
  allocate(&size);
  heap_t *h = my_heap();
  for (slab_t *s = own_slab(h); s != NULL; s = s->next)
    pages += atomic32_load_relaxed(&s->carved) * OWN / 4096 + 1;
  CHECK_GT(pages, (size_t)16);
  CHECK_EQ(heap_prepare_rest(h), pages);
}

TEST(shrink, what_a_resting_heap_would_keep_of_others_slabs_counts_too, "") {
  heap_t *h = my_heap();
  unsigned c = class_of(512);
  uint32_t pages = heap_prepare_rest(h);
  heap_note_class(h, c);
  heap_note_class(h, class_of(4096));
  h->returned_most[c] = 64;
  h->returned_room[c] = 0;
  CHECK_EQ(heap_prepare_rest(h), pages + 8);
  h->returned_room[c] = 64;
  h->bin[c] = 16; /* a bin of medium blocks was as long a list */
  CHECK_EQ(heap_prepare_rest(h), pages + 8);
  h->own->slab_count[c] = 1; /* of owned ones it counts with the slab */
  CHECK_EQ(heap_prepare_rest(h), pages);
  h->own->slab_count[c] = 0;
  h->bin[c] = 0;
  CHECK_EQ(heap_prepare_rest(h), pages);
  CHECK(sample_start(GiB(1)));
  sample_of(h)->behind[c] = 16; /* cut off such a bin, which is used up */
  CHECK_EQ(heap_prepare_rest(h), pages + 8);
  sample_of(h)->behind[c] = 0;
  h->returned_most[c] = h->returned_room[c] = 0;
  heap_set_fresh(h, class_of(4096), (fresh_t){SLICE_SIZE, 5});
  CHECK_EQ(heap_prepare_rest(h), pages + 5);
  heap_set_fresh(h, class_of(4096), (fresh_t){0});
}

/* ---- the end ---- */

static void learn_of_others(void *size) {
  allocate(size);
  in_thread(release, NULL, true);
  allocate(size);
  CHECK(heap_knows_remote(my_heap(), class_of(*(size_t *)size)));
  release(NULL);
}

TEST(shrink, the_next_user_of_a_heap_does_not_take_it_that_others_free_its_blocks, "") {
  size_t size = 512;
  in_thread(learn_of_others, &size, true);
  for (size_t i = 0; i < pool_size(); i++) {
    bool is_claimed;
    heap_t *h = pool_at(i, &is_claimed);
    CHECK(h == NULL || h->aside == NULL || !heap_knows_remote(h, class_of(size)));
  }
}

TEST(shrink, a_thread_that_ends_leaves_its_blocks_to_be_freed_and_its_free_memory_to_all,
     "S-anchor S-pool") {
  for (size_t size = 16; size <= SMALL_MOST; size = size * 3 + 16) {
    in_thread(allocate, &size, true);
    for (int i = 0; i < MANY; i++) CHECK_BYTES(kept[i], i, size);
    release(NULL);
    check_nothing_lost();
  }
}

TEST(shrink, a_heap_that_lets_go_has_nothing_and_has_learned_nothing, "") {
  heap_t *h = fill_heap();
  slab_t *s = own_slab(h)->next; /* used up: it is in nobody's partial map */
  atomic_ptr_store_relaxed(&s->tag, h);
  h->trims_due = 7;
  h->aside->put_off_more = 7;
  h->aside->remote = 1;
  atomic32_add_relaxed(&heap_trims, 1);
  heap_give_up_all(h);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    CHECK(h->bin[c] == 0 && h->aside->returned[c] == 0 && h->own->slab_count[c] == 0);
  check_that_nothing_waits(h);
  CHECK(kept_slices(h) == 0 && h->own->lengthened[medium - MEDIUM_CLASS].doublings == 0 &&
        large_of(h) == 0);
  CHECK(h->aside->put_off_more == 0 && h->aside->remote == 0 && h->trims_due == 0);
  CHECK_EQ(h->trims_seen, atomic32_load_relaxed(&heap_trims));
  CHECK(atomic_ptr_is_relaxed(&s->owner, NULL) && atomic_ptr_is_relaxed(&s->tag, NULL));
}

TEST(shrink, a_heap_that_lets_go_has_no_idle_slabs, "") {
  size_t size = OWN;
  allocate(&size);
  release(NULL);
  heap_t *h = heap_enter();
  heap_flush_bins(h);
  CHECK_EQ((int)h->idle, 1);
  heap_give_up_all(h);
  CHECK_EQ((int)h->idle, 0);
  CHECK_EQ(committed(), 0u);
}

TEST(shrink, a_heap_that_is_dropped_takes_the_live_blocks_of_its_slabs_with_it, "") {
  size_t size = OWN;
  heap_t *h = fill_heap();
  unsigned slabs = 0;
  for (unsigned c = 1; c < CLASS_COUNT; c++) slabs += h->own->slab_count[c];
  h->idle = 1;
  uint64_t before = committed();
  heap_drop(h);
  CHECK_EQ(committed(), before - slabs);
  for (unsigned c = 1; c < CLASS_COUNT; c++) CHECK(h->bin[c] == 0 && h->own->slab_count[c] == 0);
  check_that_nothing_waits(h);
  CHECK(h->idle == 0 && large_of(h) == 0);
  heap_exit(h);
  allocate(&size); /* it can be used */
}

/* ---- slabs of lanes that others have emptied ---- */

/* A lane with many slabs of one class; all their blocks but one were freed while somebody was in
 * the lane, so that none of the slabs went. */
static heap_t *emptied_lane(void) {
  size_t size = 1000;
  heap = firstclass_new();
  allocate(&size);
  heap_t *lane = atomic_ptr_load_relaxed(&heap->lanes);
  char *stays = kept[MANY / 2];
  kept[MANY / 2] = NULL;
  uint32_t state = LANE_FREE;
  CHECK(atomic32_cas_relaxed(&lane->lane_state, &state, LANE_BUSY));
  release(NULL);
  atomic32_store_relaxed(&lane->lane_state, LANE_FREE);
  kept[0] = stays;
  return lane;
}
static unsigned count_seen(const heap_t *lane) {
  unsigned seen = 0;
  for (slab_t *s = owned_first(lane, class_of(1000)); s != NULL; s = s->next)
    seen += s->idleness == SLAB_SEEN_EMPTY;
  return seen;
}

TEST(shrink, a_sweep_takes_a_slab_that_was_empty_twice_and_goes_on_where_the_last_one_ended, "") {
  heap_t *lane = emptied_lane();
  unsigned owned = lane->own->slab_count[class_of(1000)], seen = count_seen(lane);
  CHECK_GT(owned, 40u);
  for (unsigned i = 0; count_seen(lane) + 4 < owned; i++) {
    CHECK_LT(i, 2 * owned);
    owned_sweep(lane, 1);
    CHECK_LE(count_seen(lane), seen + 1);
    seen = count_seen(lane);
    CHECK_EQ(lane->own->slab_count[class_of(1000)], owned);
  }
  owned_sweep(lane, 2 * owned);
  CHECK_LE(lane->own->slab_count[class_of(1000)], 4u);
  CHECK(atomic_ptr_is_relaxed(&slab_of(kept[0])->owner, lane));
}

TEST(shrink, a_sweep_begins_anew_if_the_slab_where_it_ended_has_left_the_lane, "") {
  heap_t *lane = emptied_lane();
  slab_t *s = owned_first(lane, class_of(1000))->next;
  owned_remove(lane, s);
  slab_release(s);
  slab_t *other = slab_of(fast_malloc(1000)); /* the same one, in another's hands */
  CHECK_EQ(other, s);
  s->idleness = SLAB_SEEN_EMPTY;
  lane->own->sweep_at = slab_number(s);
  lane->own->sweep_class = 0;
  unsigned owned = lane->own->slab_count[class_of(1000)];
  owned_sweep(lane, 1);
  CHECK_EQ(lane->own->sweep_class, class_of(1000));
  CHECK_EQ(lane->own->slab_count[class_of(1000)], owned);
}

TEST(shrink, a_sweep_of_all_leaves_the_slabs_with_live_blocks_and_nothing_to_do, "") {
  heap_t *lane = emptied_lane();
  heap_flush_bins(lane);
  owned_note_empty(lane, owned_first(lane, class_of(1000)));
  CHECK_EQ((int)lane->idle, 1);
  for (int i = 0; i < 20; i++) firstclass_aligned(heap, 1, 100);
  CHECK_NE(lane->bin[class_of(100)], (uintptr_t)0);
  uint64_t others = committed() - lane->own->slab_count[class_of(1000)];
  lane->trims_due = 5;
  heap_sweep_all(lane);
  CHECK_EQ(lane->own->slab_count[class_of(1000)], 1);
  CHECK_EQ(committed(), others + 1);
  CHECK(lane->idle == 0 && lane->trims_due == 0 && lane->bin[class_of(100)] == 0);
  CHECK(atomic_ptr_is_relaxed(&slab_of(kept[0])->owner, lane));
}
