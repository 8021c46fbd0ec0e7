/* states_test.c - tests of slab/states, in the secure grade */
#include "../../src/slab/states.h"

#include "../../src/slab/slab.h"
#include "core.h"

enum { BLOCK_CLASS = 4 }; /* 64 bytes */

static slab_t *fresh_slab(void) {
  bool clean;
  return slab_new(arena_claim(1, 1, &clean), BLOCK_CLASS, NULL, NULL);
}
static void *block_of(const slab_t *s, size_t number) {
  return (void *)(slab_base(s) + (number + 1) * class_size(BLOCK_CLASS));
}

TEST(states, each_block_of_each_slice_has_a_place_of_its_own, "") {
  slab_t *a = fresh_slab(), *b = fresh_slab();
  states_t *states = states_of(block_of(a, 0));
  CHECK(states != NULL && states == states_of(block_of(b, 0)));
  for (size_t i = 0; i < a->capacity; i++) {
    atomic8_t *state = states_at(states, block_of(a, i));
    CHECK_EQ(atomic8_load_relaxed(state), STATE_FRESH);
    atomic8_store_relaxed(state, STATE_LIVE);
  }
  for (size_t i = 0; i < b->capacity; i++)
    CHECK_EQ(atomic8_load_relaxed(states_at(states, block_of(b, i))), STATE_FRESH);
}

TEST(states, a_slice_that_becomes_a_slab_has_fresh_blocks_alone, "") {
  slab_t *s = fresh_slab();
  states_t *states = states_of(block_of(s, 0));
  void *base = (void *)slab_base(s);
  for (size_t i = 0; i < s->capacity; i++)
    atomic8_store_relaxed(states_at(states, block_of(s, i)), STATE_RESTED);
  slab_release(s);
  bool clean;
  CHECK(arena_claim_at(base, 1, &clean));
  slab_new(base, BLOCK_CLASS, NULL, NULL);
  for (size_t i = 0; i < s->capacity; i++)
    CHECK_EQ(atomic8_load_relaxed(states_at(states, block_of(s, i))), STATE_FRESH);
}

TEST(states, blocks_of_a_slice_that_is_zero_are_clean_until_the_library_takes_one, "") {
  slab_t *s = fresh_slab();
  states_t *states = states_of(block_of(s, 0));
  states_set_clean((void *)slab_base(s));
  states_forget(block_of(s, 1));
  for (size_t i = 0; i < s->capacity; i++)
    CHECK_EQ(atomic8_load_relaxed(states_at(states, block_of(s, i))),
             i == 1 ? STATE_FRESH : STATE_CLEAN);
}

TEST(states, a_block_that_the_library_takes_for_itself_is_fresh, "") {
  slab_t *s = fresh_slab();
  states_t *states = states_of(block_of(s, 5));
  atomic8_store_relaxed(states_at(states, block_of(s, 5)), STATE_RESTED);
  states_forget(block_of(s, 5));
  CHECK_EQ(atomic8_load_relaxed(states_at(states, block_of(s, 5))), STATE_FRESH);
}

TEST(states, a_link_that_was_written_over_is_no_link, "") {
  slab_t *s = fresh_slab();
  uintptr_t block = (uintptr_t)block_of(s, 1), next = (uintptr_t)block_of(s, 2);
  atomic64_store_relaxed(&secrets.cover, 12345);
  block_link(block, next);
  CHECK_EQ(block_next(block), next);
  CHECK(block_is_free(block) && block_at(block)->next != next);
  block_at(block)->next = next;
  EXPECT_ABORT(block_next(block), "write after free");
}

TEST(states, a_write_to_a_free_block_is_found_when_its_slab_goes, "") {
  slab_t *s = fresh_slab();
  unsigned count;
  uintptr_t list = slab_take_list(s, 20, &count), last = list;
  for (uintptr_t b = list; b != 0; b = block_next(b)) {
    memset((char *)b + 16, 0, class_size(BLOCK_CLASS) - 16);
    atomic8_store_relaxed(states_at(states_of((void *)b), (void *)b), STATE_RESTED);
    last = b;
  }
  states_look(s);
  char *written = (char *)last + 40;
  *written = 1;
  EXPECT_ABORT(states_look(s), "write after free");
  *written = 0;
  states_look(s);
}
