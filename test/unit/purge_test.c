/* purge_test.c - tests of arena/purge */
#include "core.h"

#include <sys/mman.h>

#include "../../src/arena/patience.h"
#include "../../src/arena/purge.h"
#include "../../src/arena/slices.h"

static size_t dirty(void) { return atomic64_load_relaxed(&arena_counts.dirty); }
static size_t purged(void) { return atomic64_load_relaxed(&arena_counts.purged) >> SLICE_SHIFT; }
static uint64_t discards(void) { return os_fake.calls[OS_FAKE_DISCARD]; }

static char *claim(size_t n) {
  bool clean;
  char *p = arena_claim(n, 1, &clean);
  CHECK(p != NULL);
  return p;
}

/* `n` slices that were written to and given back. */
static char *make_dirty(size_t n) {
  char *p = claim(n);
  memset(p, 0xEE, n * SLICE_SIZE);
  arena_release(p, n);
  return p;
}

/* The sum of the free slices' dirty bits is the count. */
static void check_dirty(void) {
  size_t n = 0;
  for (size_t i = 0; i < arena_count(); i++)
    for (size_t w = 0; w < ARENA_WORDS; w++) {
      uint64_t bits = atomic64_load_relaxed(&arena_maps(arena_at(i))->dirty[w]);
      n += bits_count(bits & atomic64_load_relaxed(&arena_at(i)->free[w]));
    }
  CHECK_EQ(n, dirty());
}

TEST(purge, memory_goes_back_when_it_has_been_idle_for_the_delay_and_not_before, "A1 A3") {
  char *p = make_dirty(10);
  CHECK_EQ(dirty(), 10u);
  os_fake.now_ms += 49;
  purge_tick();
  CHECK_EQ(dirty(), 10u);
  os_fake.now_ms += 20;
  purge_tick();
  CHECK_EQ(dirty(), 0u);
  CHECK_EQ(purged(), 10u);
  CHECK_EQ(discards(), 1u);
  check_dirty();
  bool clean;
  CHECK_EQ(arena_claim(10, 1, &clean), (void *)p);
  CHECK(clean);
  CHECK_BYTES(p, 0, 10 * SLICE_SIZE);
}

TEST(purge, a_release_in_the_same_group_starts_its_patience_anew, "") {
  char *wall = claim(1);
  make_dirty(3);
  os_fake.now_ms += 40;
  arena_release(wall, 1);
  os_fake.now_ms += 30;
  purge_tick();
  CHECK_EQ(dirty(), 4u);
  os_fake.now_ms += 30;
  purge_tick();
  CHECK_EQ(dirty(), 0u);
}

TEST(purge, what_another_thread_gave_back_by_a_later_clock_has_not_rested, "") {
  char *p = claim(3);
  os_fake.now_ms += 20;
  arena_release_dirty(p, 3);
  os_fake.now_ms -= 2;
  purge_tick();
  CHECK_EQ(dirty(), 3u);
}

TEST(purge, the_clock_may_wrap, "") {
  os_fake.now_ms = UINT32_MAX - 10;
  make_dirty(3);
  os_fake.now_ms += 30;
  purge_tick();
  CHECK_EQ(dirty(), 3u);
  os_fake.now_ms += 30;
  purge_tick();
  CHECK_EQ(dirty(), 0u);
}

TEST(purge, what_is_in_use_is_left_alone_between_what_goes, "A1") {
  char *p = claim(30);
  memset(p, 0x77, 30 * SLICE_SIZE);
  for (size_t i = 0; i < 30; i += 3) arena_release(p + i * SLICE_SIZE, 1);
  os_fake.now_ms += 100;
  purge_all();
  CHECK_EQ(dirty(), 0u);
  CHECK_EQ(purged(), 10u);
  for (size_t i = 0; i < 30; i++)
    CHECK_BYTES(p + i * SLICE_SIZE, i % 3 == 0 ? 0 : 0x77, SLICE_SIZE);
  check_dirty();
}

TEST(purge, a_range_that_the_system_refuses_stays_dirty_and_the_others_go, "A3") {
  char *p = claim(30);
  memset(p, 0x77, 30 * SLICE_SIZE);
  for (size_t i = 0; i < 30; i += 3) arena_release(p + i * SLICE_SIZE, 1);
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, false);
  purge_all();
  CHECK_EQ(dirty(), 1u);
  CHECK_EQ(purged(), 9u);
  check_dirty();
  purge_all();
  CHECK_EQ(dirty(), 0u);
}

TEST(purge, a_system_that_refuses_everything_is_not_asked_again_and_again, "") {
  char *p = claim(60);
  for (size_t i = 0; i < 60; i += 3) arena_release(p + i * SLICE_SIZE, 1);
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  os_fake.now_ms += 100;
  purge_tick();
  CHECK_EQ(dirty(), 20u);
  CHECK_LE(discards(), 2 * 4u); /* in two groups */
  uint64_t before = discards();
  purge_tick();
  CHECK_EQ(discards(), before);
  purge_all(); /* but who asks for it gets it tried */
  CHECK_EQ(discards(), before + 20);
}

/* As in a child of fork, if another thread was releasing them when the process was copied. */
TEST(purge, slices_that_are_only_counted_are_looked_for_once, "") {
  enum { MANY = 8000 };
  for (int i = 0; i < 3; i++) claim(MANY);
  CHECK_EQ(arena_count(), 2u);
  atomic64_add_relaxed(&arena_counts.dirty, MANY);
  make_dirty(1);
  uint64_t before = discards();
  CHECK_EQ(mprotect(arena_at(1), SLICE_SIZE, PROT_NONE), 0);
  for (int i = 0; i < 100; i++) make_dirty(1);
  CHECK_EQ(mprotect(arena_at(1), SLICE_SIZE, PROT_READ | PROT_WRITE), 0);
  CHECK_EQ(discards(), before);
  char *p = claim(1000);
  memset(p, 1, 1000 * SLICE_SIZE);
  arena_release(p, 1000); /* the budget is what it was */
  CHECK_LE(dirty(), (size_t)MANY + (size_t)(option_get(OPTION_purge_budget) >> SLICE_SHIFT));
}

TEST(purge, a_delay_of_nothing_gives_everything_back_at_once, "") {
  core_option(OPTION_purge_delay_ms, 0);
  make_dirty(100);
  CHECK_EQ(dirty(), 0u);
  CHECK_EQ(purged(), 100u);
}

TEST(purge, a_delay_of_never_keeps_everything_also_beyond_the_budget, "") {
  core_option(OPTION_purge_delay_ms, -1);
  core_option(OPTION_purge_budget, 0);
  make_dirty(200);
  os_fake.now_ms += 1000000;
  purge_tick();
  purge_over_budget(1);
  CHECK_EQ(dirty(), 200u);
  CHECK_EQ(discards(), 0u);
  purge_all(); /* but who asks for it gets it */
  CHECK_EQ(dirty(), 0u);
}

TEST(purge, what_is_beyond_the_budget_goes_at_once, "") {
  size_t budget = 64;
  core_option(OPTION_purge_budget, (int64_t)(budget * SLICE_SIZE));
  char *p = claim(1000);
  memset(p, 1, 1000 * SLICE_SIZE);
  for (size_t i = 0; i < 1000; i += 10) {
    arena_release(p + i * SLICE_SIZE, 10);
    CHECK_LE(dirty(), max_size(budget, atomic64_load_relaxed(&arena_counts.committed) / 16) + 1);
    check_dirty();
  }
  CHECK_LE(dirty(), budget);
  CHECK_GT(dirty(), 0u);
  CHECK_EQ(dirty() + purged(), 1000u);
}

TEST(purge, a_tick_discards_a_few_megabytes_and_leaves_the_rest_to_the_next, "") {
  core_option(OPTION_purge_budget, (int64_t)GiB(1));
  make_dirty(1000);
  os_fake.now_ms += 100;
  purge_tick();
  size_t ticks = 0;
  for (size_t before = dirty(); before > 0; before = dirty(), ticks++) {
    os_fake.now_ms += 13;
    purge_tick();
    CHECK_LT(dirty(), before);
    CHECK_LE(before - dirty(), 128u);
    CHECK_LT(ticks, 100u);
  }
  CHECK_GE(ticks, 3u);
}

TEST(purge, a_tick_that_comes_late_does_what_others_would_have_done_up_to_eight_of_them, "") {
  core_option(OPTION_purge_budget, (int64_t)GiB(1));
  make_dirty(1000);
  os_fake.now_ms += 60000;
  purge_tick();
  CHECK_LE(dirty(), 1000u - 8 * 64);
  CHECK_GE(dirty(), 1000u - 9 * 64);
}

/* Four purges in a row found their pages wanted again within a second, and so on. */
static void be_patient(void) {
  for (int i = 0; i < 13; i++) patience_note_reuse(64, UINT32_MAX);
}

TEST(purge, patience_that_nothing_has_renewed_is_gone_at_the_first_look_however_late, "") {
  be_patient();
  make_dirty(10);
  os_fake.now_ms += 3000;
  purge_tick();
  CHECK_EQ(dirty(), 10u); /* 64 times as long is 3.2 seconds */
  os_fake.now_ms += 300;
  purge_tick();
  CHECK_EQ(dirty(), 0u);
  os_fake.now_ms += 24000;
  purge_tick(); /* nothing is dirty: it does not look */
  make_dirty(1);
  os_fake.now_ms += 60;
  purge_tick();
  CHECK_EQ(dirty(), 0u);
}

TEST(purge, memory_that_is_locked_costs_a_call_now_and_then_not_four_for_each_release, "") {
  core_option(OPTION_purge_budget, 0);
  char *p = claim(60);
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  for (size_t i = 0; i < 60; i += 2) arena_release(p + i * SLICE_SIZE, 1);
  CHECK_LE(discards(), 4u);
  for (int ms = 0; ms < 20000; ms++, os_fake.now_ms++) arena_release(claim(1), 1);
  CHECK_GE(discards(), 10u); /* it may have been unlocked */
  CHECK_LE(discards(), 4u * 12);
  os_fake_fail(0, 0, false);
  for (int ticks = 0; ticks < 2; ticks++) { /* the rest of a group has its turn after a part */
    os_fake.now_ms += 4200;
    purge_tick();
  }
  CHECK_EQ(dirty(), 0u);
  arena_release(claim(1), 1); /* and all is as before */
  CHECK_EQ(dirty(), 0u);
}

/* The program has locked what lies between the two. */
static char *locked, *locked_end;
static uint64_t refused;
static void refuse_locked(os_fake_call_t call, void *at, size_t size) {
  if (call != OS_FAKE_DISCARD || (char *)at + size <= locked || (char *)at >= locked_end) return;
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, false);
  refused++;
}
static void tick_for(uint32_t ms) {
  for (uint32_t i = 0; i < ms; i += 10) {
    os_fake.now_ms += 10;
    purge_tick();
  }
}

TEST(purge, where_only_a_part_is_locked_what_lies_below_goes_as_soon_as_ever, "") {
  enum { GROUPS = 100, FREE_GROUPS = 10, GROUP = 64 };
  core_option(OPTION_purge_budget, (int64_t)GiB(1));
  char *p = claim(GROUPS * GROUP);
  locked = p + FREE_GROUPS * GROUP * SLICE_SIZE;
  locked_end = p + GROUPS * GROUP * SLICE_SIZE;
  os_fake.before = refuse_locked;
  arena_release(p, GROUPS * GROUP);
  tick_for(1500);
  CHECK_LE(dirty(), (size_t)(GROUPS - FREE_GROUPS + 2) * GROUP);
  core_option(OPTION_purge_budget, 0);
  char *low = claim(GROUP);
  CHECK_EQ(low, p);
  os_fake.now_ms += 100;
  size_t before = dirty();
  arena_release(low, GROUP);
  CHECK_LE(dirty(), before);
  refused = 0;
  tick_for(20000);
  CHECK_LE(refused, 20 * 110u);
  os_fake.before = NULL;
  tick_for(6000);
  CHECK_EQ(dirty(), 0u);
}

TEST(purge, what_lies_behind_locked_slices_of_the_same_group_goes_after_a_while, "") {
  enum { LOCKED = 8, FREE = 20 };
  char *p = claim(2 * FREE);
  for (size_t i = 0; i < 2 * FREE; i += 2) arena_release(p + i * SLICE_SIZE, 1);
  locked = p;
  locked_end = p + 2 * LOCKED * SLICE_SIZE;
  os_fake.before = refuse_locked;
  tick_for(60000);
  CHECK_EQ(dirty(), (size_t)LOCKED);
  CHECK_LE(refused, 16 * (size_t)LOCKED);
}

TEST(purge, who_asks_for_a_purge_of_all_gets_it_tried_also_after_refusals, "") {
  core_option(OPTION_purge_budget, 0);
  char *p = claim(60);
  os_fake_fail(1u << OS_FAKE_DISCARD, 1, true);
  for (size_t i = 0; i < 60; i += 2) arena_release(p + i * SLICE_SIZE, 1);
  os_fake_fail(0, 0, false);
  purge_all();
  CHECK_EQ(dirty(), 0u);
}

TEST(purge, slices_that_were_dirty_are_clean_if_they_were_mapped_anew_and_dirty_if_not, "A3") {
  bool clean;
  char *p = make_dirty(4);
  CHECK_EQ(arena_claim(4, 1, &clean), (void *)p);
  CHECK(!clean);
  CHECK_EQ(dirty(), 0u);
  check_dirty();
  memset(p, 0, 2 * SLICE_SIZE);
  arena_release_clean(p, 2);
  CHECK_EQ(dirty(), 0u);
  arena_release(p + 2 * SLICE_SIZE, 2);
  CHECK_EQ(dirty(), 2u);
  check_dirty();
  CHECK(arena_is_valid(arena_at(0)));
  CHECK_EQ(arena_claim(2, 1, &clean), (void *)p);
  CHECK(clean);
}

TEST(purge, two_looks_close_together_are_one, "") {
  make_dirty(3);
  os_fake.now_ms += 100;
  char *wall = claim(1);
  purge_tick();
  CHECK_EQ(dirty(), 0u);
  memset(wall, 1, SLICE_SIZE);
  arena_release_clean(wall, 1);
  make_dirty(2);
  atomic32_store_relaxed(&arena_maps(arena_at(0))->dirty_since[arena_slice(wall) / 64],
                         os_fake.now_ms - 1000);
  purge_tick();
  CHECK_EQ(dirty(), 2u);
  os_fake.now_ms += 13;
  purge_tick();
  CHECK_EQ(dirty(), 0u);
}

TEST(purge, what_cannot_be_discarded_stays_dirty_usable_and_counted, "A3") {
  char *p = make_dirty(10), *wall = claim(1);
  os_fake_fail(OS_FAKE_ADVISING, 1, true);
  purge_all();
  CHECK_GE(discards(), 1u);
  CHECK_EQ(purged(), 0u);
  check_dirty();
  CHECK_EQ(dirty(), 9u); /* `wall` is the lowest of the ten */
  CHECK_EQ(wall, p);
  bool clean = true;
  CHECK(arena_claim_at(p + SLICE_SIZE, 1, &clean));
  CHECK(!clean);
  os_fake_fail(0, 0, false);
  purge_all();
  CHECK_EQ(dirty(), 0u);
}

/* Another thread in the middle of a discard. */
static char *taken;
static char *given;
static void another_in_between(os_fake_call_t call, void *at, size_t size) {
  if (call != OS_FAKE_DISCARD) return;
  os_fake.before = NULL;
  bool clean;
  CHECK(!arena_claim_at(at, 1, &clean)); /* what is being discarded is nobody else's */
  taken = claim(1);
  CHECK(taken < (char *)at || taken >= (char *)at + size);
  arena_release(given, 1);
}

TEST(purge, what_is_being_discarded_is_nobodys_and_what_others_do_meanwhile_is_kept,
     "A1 M1 S-bit") {
  core_option(OPTION_purge_budget, (int64_t)GiB(1));
  given = claim(1);
  memset(given, 5, SLICE_SIZE);
  make_dirty(8);
  os_fake.before = another_in_between;
  purge_all();
  CHECK(taken != NULL);
  check_dirty();
  CHECK_EQ(dirty(), 1u);
  CHECK_EQ((unsigned char)given[100], 5u);
  arena_release(taken, 1);
  purge_all();
  CHECK_EQ(dirty(), 0u);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.committed), (uint64_t)0);
}

/* ---- dirty slices that somebody holds for a moment ---- */

/* Others purge while a thread has claimed free slices for a call that will be refused. */
static os_fake_call_t to_refuse;
static void purge_meanwhile(os_fake_call_t call, void *at, size_t size) {
  (void)at, (void)size;
  if (call != to_refuse) return;
  os_fake.before = NULL;
  os_fake_fail(0, 0, false);
  purge_all();
  os_fake_fail(1u << to_refuse, 1, true);
}
static void refuse(os_fake_call_t call) {
  core_option(OPTION_purge_budget, (int64_t)GiB(1));
  to_refuse = call;
  os_fake.before = purge_meanwhile;
}
static void check_all_is_found(void) {
  os_fake_fail(0, 0, false);
  CHECK_GT(dirty(), 0u);
  purge_all();
  CHECK_EQ(dirty(), 0u);
}

TEST(purge, what_could_not_be_unmapped_while_others_purged_is_purged_later, "S-group") {
  refuse(OS_FAKE_UNMAP);
  make_dirty(300);
  CHECK(!arena_unmap_free());
  check_all_is_found();
}

TEST(purge, what_was_refused_while_others_purged_is_purged_later, "S-group") {
  make_dirty(3);
  refuse(OS_FAKE_DISCARD);
  purge_all();
  check_all_is_found();
}

TEST(purge, what_was_claimed_for_a_moment_while_others_purged_is_purged_later, "S-group") {
  char *p = make_dirty(100);
  arena_t *a = arena_of(p);
  CHECK(slices_claim_at(a, arena_slice(p), 100));
  purge_all();
  CHECK_EQ(dirty(), 100u);
  slices_give_back(a, arena_slice(p), 100);
  check_all_is_found();
}

/* The claim of the first word's part has succeeded, and a purge has looked. */
TEST(purge, what_a_claim_of_more_took_before_it_retreated_is_purged_later, "S-group") {
  char *p = claim(300);
  arena_t *a = arena_of(p);
  size_t word = arena_slice(p) / 64 + 1, first = word * 64;
  memset(arena_address(a, first), 1, 64 * SLICE_SIZE);
  arena_release(arena_address(a, first), 64);
  hint_clear(arena_maps(a)->dirty_groups, word);
  CHECK(!slices_claim_at(a, first, 65));
  check_all_is_found();
}

TEST(purge, discarding_needs_no_call_that_splits_a_mapping, "") {
  char *p = claim(200);
  size_t mappings = os_fake.mappings;
  for (size_t i = 0; i < 200; i += 2) arena_release(p + i * SLICE_SIZE, 1);
  purge_all();
  CHECK_EQ(os_fake.mappings, mappings);
  CHECK_EQ(os_fake.calls[OS_FAKE_UNMAP], 0u);
}

TEST(purge, every_arena_is_looked_at, "") {
  core_option(OPTION_purge_budget, (int64_t)GiB(4));
  char *p[3];
  for (int i = 0; i < 3; i++) p[i] = claim(HALF_WINDOW + 100);
  for (int i = 0; i < 3; i++) {
    p[i][0] = 1;
    arena_release(p[i] + 8099 * SLICE_SIZE, 1);
  }
  CHECK_EQ(arena_count(), 2u);
  os_fake.now_ms += 1000;
  for (int i = 0; i < 10 && dirty() > 0; i++) {
    purge_tick();
    os_fake.now_ms += 100;
  }
  CHECK_EQ(dirty(), 0u);
}

/* ---- heaps of several windows ---- */

enum { FAR_APART = 9 };
static char *far_apart[FAR_APART];

/* A slice of each of so many windows. */
static void fill_windows(void) {
  for (size_t i = 0; i < FAR_APART;) {
    char *p = claim(HALF_WINDOW / 2);
    if (arena_count() == i + 1) far_apart[i++] = p;
  }
}

TEST(purge, what_is_dirty_in_any_window_goes_when_its_time_has_come, "S-group A3") {
  fill_windows();
  for (size_t i = 0; i < FAR_APART; i++) {
    memset(far_apart[i], 1, SLICE_SIZE);
    arena_release(far_apart[i], 1);
  }
  CHECK_EQ(dirty(), (size_t)FAR_APART);
  os_fake.now_ms += 1000;
  for (int tick = 0; tick < 3; tick++) {
    purge_tick();
    os_fake.now_ms += 20;
  }
  CHECK_EQ(dirty(), 0u);
  check_dirty();
}

TEST(purge, the_groups_that_have_not_rested_yet_do_not_hide_those_that_have, "") {
  fill_windows();
  arena_release(far_apart[0], 1);
  os_fake.now_ms += 60;
  for (size_t i = 1; i < FAR_APART; i++) arena_release(far_apart[i], 1);
  os_fake.now_ms += 20;
  purge_tick();
  CHECK_EQ(dirty(), (size_t)FAR_APART - 1);
  bool clean;
  CHECK(arena_claim_at(far_apart[0], 1, &clean) && clean);
}

TEST(purge, where_nothing_is_dirty_any_more_nobody_looks, "S-group") {
  fill_windows();
  arena_maps_t *maps = arena_maps(arena_of(far_apart[1]));
  size_t word = arena_slice(far_apart[1]) / 64;
  arena_release(far_apart[1], 1);
  CHECK_EQ(maps->dirty_groups[word / 64].value, (uint64_t)1 << word % 64);
  purge_all();
  CHECK_EQ(maps->dirty_groups[word / 64].value, (uint64_t)0);
  CHECK_EQ(dirty(), 0u);
}

TEST(purge, a_tick_that_has_looked_at_much_leaves_the_rest_to_the_next, "") {
  fill_windows();
  arena_release(far_apart[0], 1); /* the only one that is due */
  os_fake.now_ms += 60;
  for (size_t i = 1; i < arena_count(); i++) { /* 256 groups each that are not */
    arena_maps_t *maps = arena_maps(arena_at(i));
    for (size_t word = 0; word < ARENA_GROUPS; word++) {
      atomic32_store_relaxed(&maps->dirty_since[word], os_fake.now_ms);
      slices_note_dirty(arena_at(i), word, 1);
    }
  }
  int ticks = 0;
  for (; dirty() != 0 && ticks < 10; ticks++) {
    os_fake.now_ms += 13;
    for (size_t i = 1; i < arena_count(); i++)
      for (size_t word = 0; word < ARENA_GROUPS; word++)
        atomic32_store_relaxed(&arena_maps(arena_at(i))->dirty_since[word], os_fake.now_ms);
    purge_tick();
  }
  CHECK_EQ(dirty(), 0u);
  CHECK_GT(ticks, 1);
}
