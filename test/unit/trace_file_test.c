/* trace_file_test.c - tests of support/trace_file: a trace begins, ends, and begins again */
#include "traces.h"

#include <pthread.h>

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
    if (round % 2 == 0) trace_let_go();
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
