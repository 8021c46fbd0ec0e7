/* trace_file_test.c - tests of support/trace_file: a trace begins, ends, and begins again */
#include "traces.h"

#include <pthread.h>
#include <sys/syscall.h>

static void record_free(uintptr_t address) {
  trace_event_t e = {.kind = TRACE_FREE, .address = address, .alignment = 1};
  trace_record(&e, true);
}
static void *record_one_and_leave(void *address) {
  record_free((uintptr_t)address);
  trace_leave();
  return NULL;
}

TEST(trace_file, one_that_was_ended_gets_no_more_events_and_another_begins_with_none_of_its_chunks,
     "") {
  trace_event_t events[20];
  size_t size;
  record_free(16);
  CHECK(!trace_stop());
  for (uintptr_t round = 1; round < 5; round++) {
    CHECK_EQ((int)trace_start_late(make_path()), TRACE_BEGUN);
    CHECK_EQ((int)trace_start_late("/tmp/another"), TRACE_BUSY);
    record_free(round << 8);
    pthread_t thread; /* its chunk is handed on */
    CHECK_EQ(pthread_create(&thread, NULL, record_one_and_leave, (void *)(round << 9)), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(trace_stop());
    CHECK(!trace_stop());
    CHECK_EQ((int)trace_start_late(make_path()), TRACE_BUSY); /* calls are still slow */
    trace_stopped();
    record_free(16);
    if (round % 2 == 0) trace_drop_stale();
    const char *bytes = take_file(&size);
    CHECK_EQ(size, (size_t)3 * TRACE_CHUNK);
    CHECK_EQ(read_all(bytes, size, events, 20), (size_t)3); /* a leave, too */
    CHECK_EQ(events[0].address + events[1].address, 3 * (round << 8));
  }
  CHECK_EQ(trace_lost(), (uint64_t)0);
}

TEST(trace_file, one_that_cannot_begin_says_why_and_another_may, "") {
  CHECK_EQ((int)trace_start_late("/no/such/folder/x"), TRACE_NO_FILE);
  os_fake.no_room_in_file = true;
  CHECK_EQ((int)trace_start_late(make_path()), TRACE_NO_ROOM);
  CHECK(access(path, F_OK) != 0);
  os_fake.no_room_in_file = false;
  CHECK(!trace_is_on() && !trace_stop());
  CHECK_EQ((int)trace_start_late(make_path()), TRACE_BEGUN);
  CHECK(trace_is_on());
  unlink(path);
}

enum { DEAD = 77 };
static int calls_left;
static void die_in_time(void) {
  while (--calls_left == 0) syscall(SYS_exit, 0);
}
static bool is_dead(uint64_t thread) { return thread == DEAD; }
static void *begin_one(void *none) {
  trace_start_late(path);
  return none;
}
static void *end_one(void *none) {
  if (trace_stop()) trace_stopped();
  return none;
}
/* True: it died, at that call about the file. */
static bool die_at(int call, void *(*work)(void *)) {
  pthread_t thread;
  calls_left = call;
  os_fake.thread = DEAD, os_fake.at_file = die_in_time;
  CHECK_EQ(pthread_create(&thread, NULL, work, (void *)16), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  os_fake.thread = 0, os_fake.at_file = NULL;
  return calls_left == 0;
}

TEST(trace_file, a_thread_that_dies_at_work_on_one_keeps_no_other_from_the_next, "") {
  static void *(*const works[])(void *) = {begin_one, record_one_and_leave, end_one};
  trace_event_t events[2];
  size_t size;
  bool has_died = true;
  os_fake.has_ended = is_dead;
  for (size_t i = 0; i < 3; i++)
    for (int call = 1; call == 1 || has_died; call++) {
      make_path();
      if (i > 0) CHECK_EQ((int)trace_start_late(path), TRACE_BEGUN);
      has_died = die_at(call, works[i]);
      CHECK(has_died || call > 1);
      end_one(NULL);
      CHECK_EQ((int)trace_start_late(path), TRACE_BEGUN);
      record_free(32);
      CHECK(trace_stop());
      trace_stopped();
      trace_drop_stale();
      const char *bytes = take_file(&size);
      CHECK_EQ(read_all(bytes, size, events, 2), (size_t)1);
      CHECK_EQ(events[0].address, (uintptr_t)32);
    }
  CHECK_EQ(trace_lost(), (uint64_t)0);
}

TEST(trace_file, what_a_dead_thread_was_to_begin_is_begun_by_the_next_event, "") {
  size_t size;
  trace_event_t e;
  os_fake.has_ended = is_dead;
  CHECK(trace_start(make_path(), 0));
  CHECK(die_at(1, record_one_and_leave));
  record_free(32);
  const char *bytes = take_file(&size);
  CHECK_EQ(read_all(bytes, size, &e, 1), (size_t)1);
  CHECK_EQ(trace_lost(), (uint64_t)0);
}

TEST(trace_file, rings_are_not_ended, "") {
  CHECK(trace_start(make_path(), 1) && trace_open());
  CHECK(!trace_stop());
  unlink(path);
}

TEST(trace_file, without_zero_pages_for_a_child_there_is_none, "") {
  os_fake.no_unshared = true;
  CHECK(!trace_start(make_path(), 0));
  CHECK(!trace_is_on());
}
