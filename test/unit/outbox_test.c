/* outbox_test.c - tests of stock/outbox */
enum { MANY = 4000 };
#include "kept.h"

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
  unsigned count = 0;
  for (int i = 0; i < BATCH_SLOTS; i++)
    if (h->aside->batch[i].slab != NULL) count += batch_count(&h->aside->batch[i]);
  return count;
}

/* `put_off` is exact between calls. */
static void check_held(const heap_t *h) {
  unsigned chains = 0;
  for (int i = 0; i < BATCH_SLOTS; i++) chains += h->aside->batch[i].slab != NULL;
  CHECK_EQ(h->put_off, chains);
}

static unsigned free_spread(size_t size) {
  unsigned most = 0;
  in_thread(allocate, &size, false);
  heap_t *h = my_heap();
  for (int i = 0; i < MANY; i++) {
    fast_free(kept[(i * 173) % MANY]); /* each of another slab */
    check_held(h);
    CHECK_LE(h->put_off_more, (uint32_t)PUT_OFF_MORE);
    most = (unsigned)max_size(most, count_waiting(h));
  }
  return most;
}

TEST(outbox, a_heap_that_frees_much_that_is_spread_holds_more_and_more_of_it_back, "") {
  CHECK_GT(free_spread(4000), 8u * PUT_OFF_LEAST);
  CHECK_GT(my_heap()->put_off_more, 4u * PUT_OFF_LEAST);
  my_heap()->put_off_more = PUT_OFF_MORE;
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
