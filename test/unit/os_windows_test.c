/* os_windows_test.c - tests of os/os_windows, on the system itself */
#include "../test.h"

#include <pthread.h>

#include "../../src/base/bits.h"
#include "../../src/base/check.h"
#include "../../src/os/os.h"

enum { PAGES = 32 };

static size_t bytes(size_t pages) { return pages * os_page_size(); }
static uint64_t failures(void) { return atomic64_load_relaxed(&os_counts.failures); }

static void report(const char *what, const void *address, const char *call) {
  (void)address;
  test_say("%s in %s()\n", what, call);
  os_abort();
}

/* A window that nobody has, as the core finds them. */
static char *find_window(void) {
  char *at = os_find(2 * WINDOW_SIZE);
  CHECK(at != NULL);
  return (char *)align_up((uintptr_t)at, WINDOW_SIZE);
}

TEST(os_windows, a_mapping_is_zero_lies_at_pages_and_holds_no_memory_until_it_is_touched, "") {
  char *at = os_map(bytes(PAGES));
  CHECK(is_power_of_two(os_page_size()));
  CHECK_EQ((uintptr_t)at % os_page_size(), 0u);
  CHECK_EQ(os_resident(at, bytes(PAGES)), 0u);
  CHECK_BYTES(at, 0, 1);
  at[bytes(1)] = 7;
  CHECK_EQ(os_resident(at, bytes(PAGES)), bytes(2));
  CHECK(os_unmap(at, bytes(PAGES)));
  CHECK_EQ(os_resident(at, bytes(PAGES)), 0u);
  CHECK(!os_is_readable(at, 1));
  CHECK_EQ(atomic64_load_relaxed(&os_counts.maps), (uint64_t)1);
  CHECK_EQ(atomic64_load_relaxed(&os_counts.unmaps), (uint64_t)1);
  CHECK_EQ(failures(), (uint64_t)0);
}

TEST(os_windows, a_word_is_there_if_its_page_can_be_read, "") {
  uintptr_t *at = os_map(bytes(PAGES));
  CHECK(os_is_there(at) && os_is_there(at + bytes(1) / sizeof *at - 1));
  CHECK(os_unmap(at, bytes(PAGES)));
  CHECK(!os_is_there(at) && !os_is_there(NULL) && !os_is_there((void *)(UINTPTR_MAX - 7)));
}

TEST(os_windows, what_is_given_back_reads_as_zero_and_what_lies_beside_it_stays, "") {
  char *at = os_map(bytes(PAGES));
  memset(at, 7, bytes(PAGES));
  CHECK(os_discard(at, bytes(2)));
  CHECK_EQ(os_resident(at, bytes(PAGES)), bytes(PAGES - 2));
  CHECK_BYTES(at, 0, bytes(2));
  CHECK_BYTES(at + bytes(2), 7, bytes(PAGES - 2));
  os_zero(at + bytes(4), bytes(4));
  CHECK_BYTES(at + bytes(4), 0, bytes(4));
  CHECK_BYTES(at + bytes(8), 7, bytes(PAGES - 8));
}

static atomic32_t is_over, reads;
static void *read_on(void *at) {
  for (size_t i = 0; atomic32_load_relaxed(&is_over) == 0; i++) {
    char byte = *((volatile char *)at + i % PAGES * bytes(1)); /* the next look may see another */
    if (byte != 0 && byte != 7) FAIL("page %zu holds %d", i % PAGES, byte);
    atomic32_add_relaxed(&reads, 1);
  }
  return NULL;
}

/* Pages are not there for a moment then: the reader has them all the same. */
TEST(os_windows, who_reads_what_is_given_back_meanwhile_reads_what_was_there_or_zero, "") {
  pthread_t reader;
  char *at = os_map(bytes(PAGES));
  CHECK_EQ(pthread_create(&reader, NULL, read_on, at), 0);
  for (int i = 0; i < 500 || atomic32_load_relaxed(&reads) < 100000; i++) {
    memset(at, 7, bytes(PAGES));
    CHECK(os_discard(at, bytes(PAGES)));
    CHECK_BYTES(at, 0, bytes(PAGES));
  }
  atomic32_store_relaxed(&is_over, 1);
  CHECK_EQ(pthread_join(reader, NULL), 0);
  CHECK_EQ(failures(), (uint64_t)0);
}

TEST(os_windows, a_window_is_mapped_piece_by_piece_and_goes_as_a_whole, "") {
  char *window = find_window();
  CHECK(os_map_at(window, bytes(PAGES)) == OS_MAPPED);
  CHECK(os_map_at(window + bytes(PAGES), bytes(1)) == OS_MAPPED);
  memset(window, 7, bytes(PAGES + 1));
  CHECK(!os_is_readable(window + bytes(PAGES + 1), 1));
  CHECK(os_map_at(window, bytes(1)) == OS_OCCUPIED);
  CHECK(os_reserve_at(window, bytes(1)) == OS_OCCUPIED);
  CHECK(os_unmap(window + bytes(2), bytes(2)));
  CHECK(!os_is_readable(window + bytes(2), 1) && os_is_readable(window + bytes(4), 1));
  CHECK(os_map_at(window + bytes(2), bytes(2)) == OS_MAPPED);
  CHECK_BYTES(window + bytes(2), 0, bytes(2));
  CHECK_BYTES(window + bytes(4), 7, bytes(PAGES - 3));
  CHECK(os_unmap(window, bytes(PAGES + 1)));
  CHECK(os_map_at(window, bytes(1)) == OS_MAPPED);
}

TEST(os_windows, what_others_have_reserved_is_left_alone, "") {
  char *theirs = find_window();
  CHECK(os_reserve_at(theirs, bytes(1)) == OS_MAPPED);
  CHECK(os_map_at(theirs, bytes(1)) == OS_OCCUPIED);
  CHECK(!os_is_readable(theirs, 1));
  CHECK(os_map_at((void *)(uintptr_t)os_space_end(), bytes(1)) == OS_NO_MEMORY);
}

TEST(os_windows, a_mapping_grows_to_the_end_of_its_windows_and_no_further, "") {
  char *window = find_window();
  CHECK(os_map_at(window, bytes(1)) == OS_MAPPED);
  *window = 7;
  CHECK(os_resize(window, bytes(1), bytes(3)));
  CHECK_BYTES(window + bytes(1), 0, bytes(2));
  CHECK(os_resize(window, bytes(3), bytes(1)));
  CHECK(*window == 7 && !os_is_readable(window + bytes(1), 1));
  CHECK(!os_resize(window, bytes(1), WINDOW_SIZE + bytes(1)));
  CHECK(os_resize(window, bytes(1), WINDOW_SIZE));
  CHECK(!os_resize(window, WINDOW_SIZE, WINDOW_SIZE + bytes(1)));
  CHECK(!os_is_one_mapping(window, bytes(1)) && !os_move(window, bytes(1), window, bytes(2)));
  CHECK(os_unmap(window, WINDOW_SIZE));
}

TEST(os_windows, a_block_of_several_reservations_goes_as_one, "") {
  char *at = os_find(3 * WINDOW_SIZE);
  at = (char *)align_up((uintptr_t)at, WINDOW_SIZE);
  CHECK(os_map_at(at, WINDOW_SIZE) == OS_MAPPED);
  CHECK(os_map_at(at + WINDOW_SIZE, bytes(1)) == OS_MAPPED);
  CHECK(os_unmap(at, WINDOW_SIZE + bytes(1)));
  CHECK(os_map_at(at, 2 * WINDOW_SIZE) == OS_MAPPED);
}

TEST(os_windows, closed_pages_cannot_be_read_and_keep_what_they_hold, "") {
  char *at = os_map(bytes(2));
  at[0] = 7;
  CHECK(os_protect(at, bytes(1), false));
  CHECK(!os_is_readable(at, 1) && os_is_readable(at + bytes(1), 1));
  CHECK(os_protect(at, bytes(1), true));
  CHECK_EQ(at[0], 7);
  CHECK(os_protect(at, bytes(1), false) && os_discard(at, bytes(1)));
  CHECK(!os_is_readable(at, 1));
  CHECK(os_protect(at, bytes(1), true));
  CHECK_EQ(at[0], 0);
  CHECK(os_seal(at, bytes(1), true) && os_is_readable(at, 1));
  CHECK(os_seal(at, bytes(1), false));
  at[0] = 8;
}

TEST(os_windows, no_more_is_reserved_than_was_asked_for, "") {
  char *window = find_window();
  CHECK(os_reserve_at(window + WINDOW_SIZE / 2, bytes(PAGES)) == OS_MAPPED);
  CHECK(os_map_at(window, bytes(1)) == OS_OCCUPIED);
  CHECK(os_reserve_at(window, bytes(PAGES)) == OS_MAPPED);
  CHECK(os_protect(window, bytes(PAGES), true));
  CHECK_BYTES(window, 0, bytes(PAGES));
  CHECK(os_unmap(window, bytes(PAGES)) && !os_is_readable(window, 1));
}

TEST(os_windows, what_is_reserved_can_be_opened_in_part, "") {
  char *window = find_window();
  CHECK(os_reserve_at(window, bytes(PAGES)) == OS_MAPPED);
  CHECK(os_protect(window + bytes(1), bytes(1), true));
  CHECK_BYTES(window + bytes(1), 0, bytes(1));
  CHECK(!os_is_readable(window, 1) && !os_is_readable(window + bytes(2), 1));
}

TEST(os_windows, a_call_for_less_than_whole_pages_is_seen_or_rounded_up, "") {
  char *at = os_map(bytes(1) + 1);
  check_set_reporter(report);
  at[bytes(2) - 1] = 1;
  EXPECT_ABORT(os_map_at(at + 8, bytes(1)), "assertion are_pages");
  EXPECT_ABORT(os_unmap(at + 8, bytes(1)), "assertion are_pages");
  EXPECT_ABORT(os_resize(at, bytes(2), bytes(1) + 1), "assertion are_pages");
}

TEST(os_windows, windows_lie_in_the_lower_part_of_the_space, "") {
  CHECK_EQ(os_space_start() % WINDOW_SIZE, 0u);
  CHECK_EQ(os_space_start(), os_space_start());
  CHECK_LE(os_space_start(), os_space_end() / 4);
  CHECK_LE((uintptr_t)&failures, os_space_end());
  CHECK(is_power_of_two(os_space_end()));
}

TEST(os_windows, each_random_number_is_another, "") { CHECK(os_random() != os_random()); }

TEST(os_windows, the_clocks_go_on_while_the_thread_sleeps, "") {
  uint32_t before = os_now_ms();
  uint64_t before_ns = os_now_ns();
  os_sleep_ms(60);
  CHECK_GE(os_now_ms() - before, 40u);
  CHECK_GE(os_now_ns() - before_ns, (uint64_t)40000000);
}

TEST(os_windows, what_the_process_has_used_grows_with_what_it_does, "") {
  enum { MORE = 4000 };
  os_usage_t before, after;
  os_usage(&before);
  char *at = os_map(bytes(MORE));
  memset(at, 1, bytes(MORE));
  do {
    memset(at, 2, bytes(MORE));
    os_usage(&after);
  } while (after.user_ms + after.system_ms < before.user_ms + before.system_ms + 20);
  CHECK_GE(after.elapsed_ms, before.elapsed_ms + 5); /* what runs is counted in whole ticks */
  CHECK_GE(after.peak_resident, bytes(MORE));
  CHECK_GE(os_memory(), bytes(MORE));
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *left;
static uint64_t number;
static void leave(void *heap) { left = heap; }

static void *watch(void *heap) {
  number = os_thread();
  CHECK(!os_thread_has_ended(number, number));
  return (void *)(uintptr_t)os_thread_watch(heap);
}

TEST(os_windows, the_end_of_a_thread_is_told_and_found, "") {
  pthread_t thread;
  void *is_watched;
  CHECK(!os_thread_watch(NULL)); /* nobody wants to know yet */
  os_thread_set_leave(leave);
  CHECK_EQ(pthread_create(&thread, NULL, watch, &left), 0);
  CHECK_EQ(pthread_join(thread, &is_watched), 0);
  CHECK(is_watched != NULL);
  CHECK_EQ(left, (void *)&left);
  for (int i = 0; i < 1000 && !os_thread_has_ended(number, os_thread()); i++) os_sleep_ms(1);
  CHECK(os_thread_has_ended(number, os_thread()));
  CHECK(!os_thread_has_ended(os_thread(), os_thread()));
  CHECK(!os_thread_has_ended(0, os_thread()));
  CHECK(!os_thread_has_ended(number, 0));
}

static atomic32_t has_run;
static void run(void) { atomic32_store_release(&has_run, 1); }

TEST(os_windows, a_thread_that_it_starts_runs, "") {
  CHECK(os_thread_start(run));
  for (int i = 0; i < 1000 && atomic32_load_acquire(&has_run) == 0; i++) os_sleep_ms(1);
  CHECK_EQ(atomic32_load_acquire(&has_run), 1u);
}

/* ---- the environment, faults ----------------------------------------------------------------- */

TEST(os_windows, a_variable_of_the_environment_is_found_by_its_whole_name, "") {
  CHECK_EQ(_putenv("FREEHOLD_TEST=some:text"), 0);
  CHECK_SAME_TEXT(os_environment("FREEHOLD_TEST"), "some:text");
  CHECK_NULL(os_environment("FREEHOLD_TES"));
  CHECK_NULL(os_environment("FREEHOLD_TEST_"));
}

static char *closed_page;
static bool is_of_page(const void *address) {
  bool is_it = address == closed_page + 5;
  os_write(2, is_it ? "ours\n" : "theirs\n", is_it ? 5 : 7);
  return is_it;
}

TEST(os_windows, a_fault_is_told_with_its_address_and_ends_the_program, "") {
  closed_page = os_map(bytes(1));
  CHECK(os_protect(closed_page, bytes(1), false) && os_on_fault(is_of_page));
  CHECK(os_on_fault(is_of_page));
  EXPECT_ABORT(*(volatile char *)(closed_page + 5) = 1, "^ours$");
  EXPECT_ABORT(*(volatile char *)(closed_page + 6) = 1, "^theirs$");
}
