/* places_test.c - tests of arena/places */
#include "core.h"

#include "../../src/arena/places.h"

static places_t places;
static const places_shape_t shape = {192, PLACES_IN_CHUNK * 192, NULL};

TEST(places, each_claim_gives_another_place_of_zeros_and_its_number, "M1") {
  char *seen[200];
  for (uint32_t i = 0; i < 200; i++) {
    uint32_t number = 77777;
    bool is_claimed;
    seen[i] = places_claim(&places, &shape, &number);
    CHECK(seen[i] != NULL);
    CHECK_EQ(number, i);
    CHECK_BYTES(seen[i], 0, 192);
    memset(seen[i], 0xA5, 192);
    CHECK_EQ(places_at(&places, &shape, i, &is_claimed), (void *)seen[i]);
    CHECK(is_claimed);
  }
  for (uint32_t i = 0; i < 200; i++) CHECK_BYTES(seen[i], 0xA5, 192);
  CHECK_EQ(places_size(&places), 256u);
  CHECK_EQ(os_fake.calls[OS_FAKE_MAP], 4u);
}

TEST(places, a_place_given_back_is_the_next_one_and_holds_what_was_left_in_it, "M1") {
  uint32_t number, again;
  bool is_claimed;
  for (int i = 0; i < 100; i++) places_claim(&places, &shape, &number);
  char *p = places_at(&places, &shape, 70, &is_claimed);
  strcpy(p, "left");
  places_release(&places, 70);
  places_at(&places, &shape, 70, &is_claimed);
  CHECK(!is_claimed);
  CHECK_EQ(places_claim(&places, &shape, &again), (void *)p);
  CHECK_EQ(again, 70u);
  CHECK_SAME_TEXT(p, "left");
}

TEST(places, without_memory_there_is_no_place_nothing_is_lost_and_later_there_is_one, "") {
  uint32_t number;
  os_fake_fail(OS_FAKE_MAPPING, 1, true);
  CHECK_NULL(places_claim(&places, &shape, &number));
  CHECK_EQ(places_size(&places), 0u);
  os_fake_fail(0, 0, false);
  CHECK(places_claim(&places, &shape, &number) != NULL);
  CHECK_EQ(number, 0u);
  for (int i = 1; i < 64; i++) CHECK(places_claim(&places, &shape, &number) != NULL);
  os_fake_fail(OS_FAKE_MAPPING, 1, false);
  CHECK_NULL(places_claim(&places, &shape, &number));
  CHECK(places_claim(&places, &shape, &number) != NULL);
  CHECK_EQ(number, 64u);
}

TEST(places, when_every_chunk_is_taken_the_map_made_for_one_more_goes_back, "") {
  uint32_t number;
  static char somebody[1];
  for (int i = 0; i < PLACES_CHUNKS; i++) atomic_ptr_store_relaxed(&places.chunks[i], somebody);
  atomic32_store_relaxed(&places.chunk_count, PLACES_CHUNKS);
  CHECK_NULL(places_claim(&places, &shape, &number));
  CHECK_EQ(os_fake.mapped, 0u);
  CHECK_EQ(os_fake.calls[OS_FAKE_UNMAP], 1u);
}

/* In the middle of the mmap of one chunk, another thread makes one: the hook stands for it. */
static uint32_t other_number;
static void another_makes_one(os_fake_call_t call, void *at, size_t size) {
  (void)at, (void)size;
  if (call != OS_FAKE_MAP) return;
  os_fake.before = NULL;
  CHECK(places_claim(&places, &shape, &other_number) != NULL);
}

TEST(places, two_threads_that_add_a_chunk_at_once_both_keep_theirs, "S-chunk") {
  uint32_t number;
  os_fake.before = another_makes_one;
  CHECK(places_claim(&places, &shape, &number) != NULL);
  CHECK_EQ(other_number, 0u);
  CHECK_EQ(number, 64u);
  CHECK_EQ(places_size(&places), 128u);
  for (int i = 0; i < 126; i++) places_claim(&places, &shape, &number);
  CHECK_EQ(os_fake.calls[OS_FAKE_MAP], 2u);
}

TEST(places, a_thread_that_stops_while_it_adds_a_chunk_holds_back_that_chunk_alone, "S-chunk") {
  uint32_t number;
  bool is_claimed;
  static char stopped[64 * 192];
  /* it has set the address and come no further */
  atomic_ptr_store_relaxed(&places.chunks[PLACES_CHUNKS - 1], stopped);
  CHECK(places_claim(&places, &shape, &number) != NULL);
  CHECK_EQ(number, 64u);
  CHECK_EQ(places_at(&places, &shape, 0, &is_claimed), (void *)stopped);
  CHECK(is_claimed);
}

TEST(places, the_first_chunk_may_lie_in_memory_of_its_own_and_the_next_is_mapped, "") {
  static char memory[64 * 192];
  places_shape_t with = {192, PLACES_IN_CHUNK * 192, memory};
  uint32_t number;
  bool is_claimed;
  for (uint32_t i = 0; i < 64; i++)
    CHECK_EQ(places_claim(&places, &with, &number), (void *)&memory[i * 192]);
  CHECK_EQ(os_fake.calls[OS_FAKE_MAP], 0u);
  CHECK(places_claim(&places, &with, &number) != NULL);
  CHECK_EQ(number, 64u);
  CHECK_EQ(os_fake.calls[OS_FAKE_MAP], 1u);
  places_release(&places, 3);
  CHECK_EQ(places_claim(&places, &with, &number), (void *)&memory[3 * 192]);
  CHECK_EQ(places_at(&places, &with, 3, &is_claimed), (void *)&memory[3 * 192]);
}

TEST(places, a_chunk_fills_whole_pages_of_any_size, "") {
  uint32_t number;
  for (size_t page = 4096; page <= 65536; page *= 4) {
    os_fake.page_size = page;
    places_t fresh = {0};
    CHECK(places_claim(&fresh, &(places_shape_t){100, PLACES_IN_CHUNK * 100, NULL}, &number) !=
          NULL);
  }
}

/* ---- threads ---- */

static void claim_and_leave(unsigned number) {
  uint64_t state = number;
  struct {
    uint32_t number;
    atomic64_t *place;
  } held[40];
  size_t count = 0;
  for (int i = 0; i < 20000; i++) {
    if (count < 40 && core_next(&state) % 2) {
      held[count].place = places_claim(&places, &shape, &held[count].number);
      CHECK(held[count].place != NULL);
      CHECK_EQ(atomic64_exchange_acq_rel(held[count].place, number + 1), (uint64_t)0);
      count++;
    } else if (count > 0) {
      size_t at = core_next(&state) % count;
      CHECK_EQ(atomic64_exchange_acq_rel(held[at].place, 0), (uint64_t)number + 1);
      places_release(&places, held[at].number);
      held[at] = held[--count];
    }
  }
  for (size_t i = 0; i < count; i++) {
    atomic64_store_relaxed(held[i].place, 0);
    places_release(&places, held[i].number);
  }
}

TEST(places, threads_never_share_a_place_and_all_come_back, "M1 S-bit S-chunk") {
  core_threads(4, claim_and_leave);
  bool is_claimed;
  for (size_t i = 0; i < places_size(&places); i++) {
    CHECK(places_at(&places, &shape, i, &is_claimed) != NULL);
    CHECK(!is_claimed);
  }
  CHECK_LE(places_size(&places), 4 * 64u + 160);
}

TEST(places, a_place_that_was_never_made_is_not_given_back, "") {
  static places_t none;
  EXPECT_ABORT(places_release(&none, 0), "assertion number <");
}
