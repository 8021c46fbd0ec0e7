/* pool_test.c - tests of stock/pool */
#include "heaps.h"

#include "../../src/arena/places.h"

#include <signal.h>
#if !defined(_WIN32)
#include <ucontext.h>
#endif

TEST(pool, a_claimed_heap_is_ready_and_owns_nothing, "") {
  heap_t *a = pool_claim(), *b = pool_claim();
  CHECK(a != NULL && b != NULL && a != b);
  CHECK_NE(heap_number(a), heap_number(b));
  CHECK_EQ((uintptr_t)a % 64, (uintptr_t)0);
  CHECK_EQ(a->busy, 0);
  for (unsigned c = 0; c < CLASS_COUNT; c++) {
    CHECK_EQ(a->bin[c], (uintptr_t)0);
    CHECK_EQ(a->own->slabs[c], 0u);
    CHECK_EQ(a->own->slab_count[c], 0);
  }
  CHECK_EQ(a->singles, 0u);
}

static uintptr_t page_of(const void *p, size_t offset) { return ((uintptr_t)p + offset) / KiB(4); }

TEST(pool, the_first_rows_of_tables_lie_on_few_pages, "") {
  static places_t places;
  size_t row = offsetof(places_t, chunks[PLACES_CHUNKS - 1]);
  CHECK_EQ(page_of(&places, row), page_of(&places, offsetof(places_t, free[1]) - 1));
  row = offsetof(slab_counts_t, partial_arenas[ARENA_MOST / 64 - 1]);
  size_t end = offsetof(slab_counts_t, tallies[1]);
  CHECK_EQ(page_of(&slab_counts, row), page_of(&slab_counts, end - 1));
}

TEST(pool, the_first_heap_has_all_that_it_needs_on_one_page, "") {
  heap_t *h = pool_claim();
  uintptr_t page = (uintptr_t)h / KiB(4);
  CHECK_EQ(heap_number(h), 0u);
  CHECK_EQ(((uintptr_t)(h + 1) - 1) / KiB(4), page);
  CHECK_EQ((uintptr_t)h->aside / KiB(4), page);
  CHECK_EQ((uintptr_t)h->own / KiB(4), page);
  size_t hints = offsetof(arena_maps_t, partial_groups);
  CHECK_EQ((offsetof(arena_maps_t, partial[1]) - 1) / KiB(4), hints / KiB(4)); /* likewise */
}

TEST(pool, a_heap_given_back_is_claimed_again_and_its_counts_are_kept_in_the_totals, "S-pool") {
  heap_t *a = pool_claim();
  bool is_claimed;
  uint32_t number = heap_number(a);
  heap_note_class(a, 5);
  atomic16_store_relaxed(&a->binned[5], 100);
  atomic_ptr_store_relaxed(&a->tag, a);
  atomic_ptr_store_relaxed(&a->nested, a);
  pool_release(a);
  CHECK_EQ(pool_at(number, &is_claimed), a);
  CHECK(!is_claimed);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.binned[5]), (uint64_t)100);
  CHECK_EQ(pool_claim(), a);
  CHECK_NULL(heap_tag(a));
  CHECK_NULL(atomic_ptr_load_relaxed(&a->nested));
  CHECK_EQ(heap_binned(a, 5), 0u);
}

TEST(pool, what_a_thread_has_left_is_not_made_a_lane_while_an_empty_heap_is_at_hand, "") {
  heap_t *a = pool_claim(), *b = pool_claim();
  CHECK_EQ(heap_number(pool_claim_lane()), heap_number(b) + 1); /* there was no lane before */
  atomic_ptr_store_relaxed(&b->tag, b);
  pool_release(b);
  CHECK(pool_rest(a, 10));
  CHECK_EQ(pool_claim_lane(), b);
  CHECK_EQ(pool_resting_pages(), 10u);
  CHECK_EQ(pool_claim_lane(), a); /* for want of another */
  CHECK_EQ(pool_resting_pages(), 0u);
}

TEST(pool, of_many_heaps_those_that_rest_are_found_and_no_others, "S-pool") {
  enum { COUNT = 1000 };
  static heap_t *h[COUNT];
  for (int i = 0; i < COUNT; i++) h[i] = pool_claim();
  CHECK_NULL(pool_claim_resting());
  for (int i = 0; i < COUNT; i++) {
    if (i % 300 == 100) CHECK(pool_rest(h[i], 2));
    else pool_release(h[i]);
  }
  CHECK_EQ(pool_resting_pages(), 6u);
  CHECK_EQ(pool_claim_resting(), h[100]);
  for (int i = 0; i < 401; i++) CHECK(pool_claim() != NULL); /* the lowest: one more that rests */
  CHECK_EQ(pool_claim_resting(), h[700]);
  CHECK_NULL(pool_claim_resting());
  CHECK_EQ(pool_resting_pages(), 0u);
}

static bool is_new(const heap_t *h) { return atomic64_load_relaxed(&h->home) == 0; }

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(_WIN32)
/* In single steps of pool_claim_resting, once that has read where a heap rests and not yet claimed
 * it: another thread ends that heap, and the chunk is given back. */
static heap_t *resting;
static volatile unsigned steps_left;

static void on_trap(int signal, siginfo_t *info, void *context) {
  enum { TRAP_FLAG = 0x100 };
  greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
  (void)signal, (void)info;
  if (steps_left == 0) *flags &= ~(greg_t)TRAP_FLAG;
  if (steps_left == 0 || --steps_left != 0) return;
  if (pool_claim_resting() == resting) pool_release(resting);
  pool_discard_kept();
}

static heap_t *claim_resting_after(unsigned steps) {
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
  steps_left = steps;
  __asm__ volatile("subq $128, %%rsp; pushfq; orl $0x100, (%%rsp); popfq; addq $128, %%rsp" ::
                     : "memory", "cc");
  heap_t *h = pool_claim_resting();
  steps_left = 0;
  return h;
}

TEST(pool, a_heap_that_rested_a_moment_ago_is_passed_over_though_its_chunk_is_gone, "S-pool") {
  enum { COUNT = 2 * PLACES_IN_CHUNK };
  static heap_t *h[COUNT];
  bool is_claimed;
  for (int i = 0; i < COUNT; i++) h[i] = pool_claim();
  for (int i = COUNT; i-- > 2;) pool_release(h[i]);
  for (unsigned steps = 1; steps < 400; steps++) {
    for (int i = 2; i < COUNT; i++) CHECK((h[i] = pool_claim()) != NULL);
    resting = pool_at(COUNT - 1, &is_claimed);
    CHECK(pool_rest(resting, 1));
    for (int i = COUNT; i-- > 2;)
      if (h[i] != resting) pool_release(h[i]);
    heap_t *mine = claim_resting_after(steps);
    if (mine != NULL) pool_release(mine);
    for (int i = 0; i < 2; i++) {
      CHECK_EQ(pool_at((size_t)i, &is_claimed), h[i]);
      CHECK(is_claimed);
    }
  }
}
#endif

TEST(pool, a_chunk_whose_heaps_are_all_free_is_given_back_unless_one_rests, "S-bit") {
  enum { COUNT = 4 * PLACES_IN_CHUNK };
  static heap_t *h[COUNT];
  for (int i = 0; i < COUNT; i++) h[i] = pool_claim();
  atomic64_add_own(&h[100]->remote_frees, 5);
  atomic64_add_own(&h[100]->swaps, 3);
  atomic64_add_own(&h[100]->shared_frees, 7);
  for (int i = 0; i < COUNT; i++) {
    if (i == 130) CHECK(pool_rest(h[i], 2));
    else pool_release(h[i]);
  }
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], (uint64_t)2);
  CHECK(!is_new(h[0]) && is_new(h[64]) && is_new(h[127]) && !is_new(h[128]) && is_new(h[255]));
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.remote_frees), (uint64_t)5);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.swaps), (uint64_t)3);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.shared_frees), (uint64_t)7);
  heap_t *rested = pool_claim_resting();
  CHECK_EQ(rested, h[130]);
  pool_release(rested);
  CHECK(is_new(h[128]));
  for (int i = 0; i < COUNT; i++) CHECK_EQ(pool_claim(), h[i]); /* all are there */
}

static heap_t *many[4 * PLACES_IN_CHUNK];
static void claim_many(int count) {
  for (int i = 0; i < count; i++) many[i] = pool_claim();
}

TEST(pool, a_chunk_of_which_heaps_are_made_and_ended_in_turn_is_not_given_back_each_time, "S-bit") {
  claim_many(PLACES_IN_CHUNK);
  for (int i = 0; i < 1000; i++) {
    heap_t *h = i % 2 == 0 ? pool_claim() : pool_claim_lane();
    CHECK_EQ(heap_number(h), (uint32_t)PLACES_IN_CHUNK);
    atomic_ptr_store_relaxed(&h->tag, i % 2 == 0 ? NULL : h);
    pool_release(h);
  }
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], (uint64_t)0);
  for (int i = 0; i < 100; i++) { /* some more and some fewer than a chunk has */
    for (int k = 0; k < 15; k++) pool_release(many[PLACES_IN_CHUNK - 1 - k]);
    for (int k = 0; k < 20; k++) many[PLACES_IN_CHUNK - 15 + k] = pool_claim();
    for (int k = 0; k < 5; k++) pool_release(many[PLACES_IN_CHUNK + k]);
  }
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], (uint64_t)0);
  heap_collect(true);
  CHECK(is_new(many[PLACES_IN_CHUNK]));
}

TEST(pool, an_idle_chunk_is_given_back_once_there_is_room_below_it, "S-bit") {
  claim_many(3 * PLACES_IN_CHUNK);
  for (int i = 2 * PLACES_IN_CHUNK; i < 3 * PLACES_IN_CHUNK; i++) pool_release(many[i]);
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], (uint64_t)0);
  for (int i = 0; i < 15; i++) pool_release(many[i]);
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], (uint64_t)0);
  pool_release(many[100]);
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], (uint64_t)1);
  for (int i = 15; i < 2 * PLACES_IN_CHUNK; i++)
    if (i != 100) pool_release(many[i]);
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], (uint64_t)2);
  CHECK(is_new(many[64]) && is_new(many[191]) && !is_new(many[0]));
}

TEST(pool, the_next_lane_is_none_of_a_chunk_that_was_given_back, "S-bit") {
  claim_many(PLACES_IN_CHUNK);
  for (int i = 0; i < 100; i++) {
    heap_t *h = pool_claim_lane();
    atomic_ptr_store_relaxed(&h->tag, h);
    for (int k = 0; i == 50 && k < 16; k++) pool_release(many[k]);
    pool_release(h);
  }
  CHECK_EQ(os_fake.calls[OS_FAKE_DISCARD], (uint64_t)1);
}

TEST(pool, the_more_heaps_there_are_the_fewer_may_rest, "") {
  enum { COUNT = RESTING_PAGES / 2 + PLACES_IN_CHUNK };
  static heap_t *h[COUNT];
  for (int i = 0; i < COUNT; i++) h[i] = pool_claim();
  CHECK(!pool_rest(h[COUNT - 1], 2));
  CHECK(pool_rest(h[COUNT / 2], 2));
}

TEST(pool, when_address_space_is_short_a_chunk_of_heaps_finds_room_by_unmapping_free_slices, "") {
  for (int i = 0; i < PLACES_IN_CHUNK - 1; i++) CHECK(pool_claim() != NULL);
  fast_free(fast_malloc(MiB(100))); /* in the last of the first chunk */
  os_fake.most_mapped = os_fake.mapped;
  CHECK(pool_claim() != NULL);
}

TEST(pool, there_are_as_many_heaps_as_memory_gives_and_each_has_its_number, "") {
  enum { COUNT = 1000 };
  bool is_claimed;
  static heap_t *h[COUNT];
  for (int i = 0; i < COUNT; i++) CHECK((h[i] = pool_claim()) != NULL);
  for (int i = 0; i < COUNT; i++) CHECK_EQ(pool_at(heap_number(h[i]), &is_claimed), h[i]);
  CHECK_LE(pool_size(), (size_t)COUNT + 64);
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  int more = 0;
  while (pool_claim() != NULL) more++;
  CHECK_LT(more, 64);
  pool_release(h[500]);
  CHECK_EQ(pool_claim(), h[500]);
}

TEST(pool, heaps_rest_as_long_as_they_hold_little_together, "") {
  enum { HEAPS = RESTING_PAGES / RESTING_PAGES_EACH };
  heap_t *h[HEAPS + 1];
  for (int i = 0; i <= HEAPS; i++) h[i] = pool_claim();
  CHECK(!pool_rest(h[0], RESTING_PAGES_EACH + 1));
  for (int i = 0; i < HEAPS; i++) CHECK(pool_rest(h[i], RESTING_PAGES_EACH));
  CHECK(!pool_rest(h[HEAPS], 1));
  for (int i = 0; i < HEAPS; i++) CHECK(heap_end_rest());
  CHECK(!heap_end_rest());
}

TEST(pool, a_heap_that_rests_without_its_pages_in_the_sum_is_found, "P2") {
  heap_t *h = pool_claim();
  CHECK(pool_is_valid());
  CHECK(pool_rest(h, 3) && pool_is_valid());
  atomic32_store_relaxed(&h->resting_pages, 4);
  EXPECT_ABORT(pool_is_valid(), "invariant P2");
  atomic32_store_relaxed(&h->resting_pages, 0);
  EXPECT_ABORT(pool_is_valid(), "invariant P2");
}
