/* callstack_test.c - tests of support/callstack */
#include "core.h"

#include <pthread.h>

#include "../../src/support/callstack.h"

static const uintptr_t *frames_of(uint32_t number, uint32_t *count) {
  const uintptr_t *frames = NULL;
  const callstack_t *s = callstack_at(number, &frames);
  *count = s == NULL ? 0 : callstack_length(s);
  return frames;
}

TEST(callstack, the_same_stack_has_the_same_number_and_another_one_another, "S-stack") {
  uintptr_t a[] = {0x401000, 0x402000, 0x403000}, b[] = {0x401000, 0x402000, 0x403001};
  CHECK(callstack_start() && callstack_start());
  uint32_t first = callstack_intern(a, 3), count;
  CHECK(first != CALLSTACK_UNKNOWN);
  CHECK_EQ(callstack_intern(a, 3), first);
  CHECK(callstack_intern(a, 2) != first && callstack_intern(b, 3) != first);
  CHECK(memcmp(frames_of(first, &count), a, sizeof a) == 0);
  CHECK_EQ(count, 3u);
}

TEST(callstack, one_without_frames_is_not_known, "") {
  uint32_t count;
  CHECK(callstack_start());
  CHECK_EQ(callstack_intern(NULL, 0), (uint32_t)CALLSTACK_UNKNOWN);
  CHECK(frames_of(CALLSTACK_UNKNOWN, &count) != NULL);
  CHECK_EQ(count, 0u);
  CHECK_EQ(callstack_unknown(), (uint64_t)1);
}

TEST(callstack, before_the_start_there_is_none, "") {
  uint32_t count;
  CHECK(frames_of(CALLSTACK_UNKNOWN, &count) == NULL);
  CHECK(frames_of(CALLSTACKS - 1, &count) == NULL);
}

TEST(callstack, what_finds_no_place_is_counted_and_nothing_is_overwritten, "") {
  enum { MANY = 2 * CALLSTACKS };
  static uint32_t numbers[MANY];
  uint64_t unknown = 0;
  CHECK(callstack_start());
  for (uintptr_t i = 0; i < MANY; i++) {
    uintptr_t frames[] = {0x400000 + i, 0x500000 + i};
    numbers[i] = callstack_intern(frames, 2);
    unknown += numbers[i] == CALLSTACK_UNKNOWN;
  }
  CHECK(unknown > CALLSTACKS && unknown < CALLSTACKS + CALLSTACKS / 10);
  CHECK_EQ(callstack_unknown(), unknown);
  for (uintptr_t i = 0; i < MANY; i++) {
    uint32_t count;
    const uintptr_t *frames = frames_of(numbers[i], &count);
    CHECK(numbers[i] == CALLSTACK_UNKNOWN || (count == 2 && frames[0] == 0x400000 + i));
    uintptr_t again[] = {0x400000 + i, 0x500000 + i};
    CHECK_EQ(callstack_intern(again, 2), numbers[i]);
  }
}

TEST(callstack, no_memory_for_the_table_is_reported_and_the_next_start_may_have_it, "") {
  os_fake_fail(OS_FAKE_ANY, 1, false);
  CHECK(!callstack_start());
  CHECK(callstack_start());
}

static void *enter_all(void *context) {
  uint32_t *numbers = context;
  for (uintptr_t i = 0; i < 1000; i++) {
    uintptr_t frames[] = {0x400000 + i % 100};
    numbers[i] = callstack_intern(frames, 1);
  }
  return NULL;
}

TEST(callstack, threads_that_enter_the_same_stacks_find_them_whole, "S-stack") {
  static uint32_t numbers[4][1000];
  pthread_t threads[4];
  CHECK(callstack_start());
  for (int t = 0; t < 4; t++) CHECK_EQ(pthread_create(&threads[t], NULL, enter_all, numbers[t]), 0);
  for (int t = 0; t < 4; t++) CHECK_EQ(pthread_join(threads[t], NULL), 0);
  for (int t = 0; t < 4; t++)
    for (uintptr_t i = 0; i < 1000; i++) {
      uint32_t count;
      CHECK_EQ(frames_of(numbers[t][i], &count)[0], 0x400000 + i % 100);
    }
}

/* So it may be where a command reads another process. */
TEST(callstack, a_count_that_somebody_spoilt_is_no_longer_than_a_stack, "") {
  uintptr_t code[] = {0x401000};
  CHECK(callstack_start());
  callstack_t *s = callstack_at(callstack_intern(code, 1), NULL);
  atomic32_store_relaxed(&s->count, UINT32_MAX);
  CHECK_EQ(callstack_length(s), (uint32_t)CALLSTACK_FRAMES);
}

TEST(callstack, a_pair_is_two_numbers_and_is_no_stack, "S-stack") {
  uintptr_t code[] = {3, 7};
  const uintptr_t *frames;
  CHECK_EQ(callstack_pairs_end(), 0u);
  CHECK(callstack_start());
  CHECK_EQ(callstack_pairs_end(), (uint32_t)CALLSTACKS);
  uint32_t pair = callstack_pair(3, CALLSTACKS - 1);
  CHECK(callstack_at(pair, &frames) != NULL && frames[0] == 3 && frames[1] == CALLSTACKS - 1);
  CHECK_EQ(callstack_pair(3, CALLSTACKS - 1), pair);
  CHECK(callstack_pair(CALLSTACKS - 1, 3) != pair && callstack_intern(code, 1) < CALLSTACKS);
  CHECK(callstack_at(callstack_pairs_end(), &frames) == NULL);
}

TEST(callstack, pairs_take_no_room_from_stacks_and_what_has_none_is_the_stacks, "") {
  uint32_t full = 0;
  CHECK(callstack_start());
  for (uint32_t i = 0; i < 2 * CALLSTACKS; i++) {
    uint32_t n = callstack_pair(i % CALLSTACKS, i / CALLSTACKS);
    CHECK(n == i % CALLSTACKS || (n >= CALLSTACKS && n < callstack_pairs_end()));
    full += n < CALLSTACKS;
  }
  CHECK(full >= CALLSTACKS && full < CALLSTACKS + CALLSTACKS / 10);
  CHECK_EQ(callstack_unknown(), (uint64_t)0);
  for (uintptr_t i = 1; i < CALLSTACKS; i++) {
    uintptr_t frames[] = {0x400000 + i, 0x500000 + i};
    CHECK(callstack_intern(frames, 2) != CALLSTACK_UNKNOWN);
  }
}
