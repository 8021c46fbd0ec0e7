/* trace_test.c - tests of support/trace: what is written is what is read */
#include "../../src/support/trace_file.h"
#include "traces.h"

#include <pthread.h>
#include <setjmp.h>

static trace_event_t event_of(uint64_t *state) {
  static const trace_kind_t kinds[] = {TRACE_MALLOC, TRACE_CALLOC, TRACE_ALIGNED, TRACE_FREE,
                                       TRACE_FROM,   TRACE_TO,     TRACE_EXPAND,  TRACE_DELETE};
  uint64_t n = core_next(state);
  trace_event_t e = {.kind = kinds[n % 8], .alignment = 1};
  e.failed = n >> 8 & 1 && trace_has_size(e.kind);
  e.address = e.failed ? 0 : (uintptr_t)(core_next(state) >> (16 + n % 40)) & ~(uintptr_t)15;
  if (trace_has_size(e.kind)) e.size = core_next(state) >> (n >> 16 & 63);
  if (e.kind == TRACE_ALIGNED) e.alignment = (size_t)1 << (n >> 24) % (8 * sizeof(size_t) - 1);
  if (trace_has_size(e.kind) && (n >> 9 & 1) != 0) e.heap = (core_next(state) >> 20 & ~15ul) + 16;
  return e;
}

static void check_same(const trace_event_t *a, const trace_event_t *b) {
  CHECK_EQ((int)a->kind, (int)b->kind);
  CHECK_EQ(a->failed, b->failed);
  CHECK_EQ(a->address, b->address);
  CHECK_EQ(a->size, b->size);
  CHECK_EQ(a->alignment, b->alignment);
  CHECK_EQ(a->heap, b->heap);
}

TEST(trace, what_is_recorded_is_read_again_over_many_chunks, "") {
  enum { N = 50000 };
  static trace_event_t events[N];
  uint64_t write = 1;
  size_t size;
  os_fake.thread = 77;
  CHECK(trace_start(make_path(), 0) && trace_open());
  for (int i = 0; i < N; i++) {
    trace_event_t e = event_of(&write);
    os_fake.now_ms += i % 3;
    trace_record(&e, i % 5 != 0); /* some by a thread that does not stay */
  }
  const char *bytes = take_file(&size);
  CHECK_EQ(memcmp(bytes, TRACE_MAGIC, 8), 0);
  CHECK_EQ(read_all(bytes, size, events, N), (size_t)N);
  CHECK_EQ(trace_lost(), (uint64_t)0);
}

TEST(trace, each_event_comes_back_as_it_was, "") {
  enum { N = 20000 };
  static trace_event_t events[N];
  uint64_t write = 5, read = 5;
  size_t size;
  os_fake.thread = 77;
  CHECK(trace_start(make_path(), 0));
  for (int i = 0; i < N; i++) {
    trace_event_t e = event_of(&write);
    trace_record(&e, true);
    os_fake.now_ms++;
  }
  const char *bytes = take_file(&size);
  CHECK_EQ(read_all(bytes, size, events, N), (size_t)N);
  for (int i = 0; i < N; i++) {
    trace_event_t e = event_of(&read);
    check_same(&events[i], &e);
    CHECK_EQ(events[i].time, (uint64_t)i * 1000000);
    CHECK_EQ(events[i].thread, 77u);
  }
}

TEST(trace, an_event_of_a_busy_program_takes_less_than_twelve_bytes, "") {
  enum { N = 100000 };
  uint64_t state = 1;
  size_t size, used = 0;
  CHECK(trace_start(make_path(), 0));
  for (int i = 0; i < N; i++) {
    uint64_t n = core_next(&state);
    trace_event_t e = {.kind = n & 1 ? TRACE_MALLOC : TRACE_FREE, .alignment = 1};
    e.address = 0x7f0000000000 + (n >> 8) % MiB(64) / 16 * 16;
    e.size = n >> 40 & 1023;
    os_fake.now_ms += i % 100 == 0;
    trace_record(&e, true);
  }
  const char *bytes = take_file(&size);
  for (size_t at = TRACE_CHUNK; at < size; at += TRACE_CHUNK)
    used += atomic32_load_relaxed(&((const trace_chunk_t *)(const void *)(bytes + at))->used);
  CHECK_LT(used, (size_t)N * 12);
}

TEST(trace, a_thread_that_leaves_hands_its_chunk_on, "") {
  size_t size;
  trace_event_t e = {.kind = TRACE_FREE, .address = 16, .alignment = 1}, events[20];
  CHECK(trace_start(make_path(), 0));
  for (unsigned i = 0; i < 10; i++) {
    os_fake.thread = i + 1;
    trace_record(&e, true);
    trace_leave();
  }
  const char *bytes = take_file(&size);
  CHECK_EQ(size, (size_t)2 * TRACE_CHUNK);
  CHECK_EQ(read_all(bytes, size, events, 20), (size_t)20);
  for (unsigned i = 0; i < 20; i++) {
    CHECK_EQ(events[i].thread, i / 2 + 1);
    CHECK_EQ((int)events[i].kind, i % 2 == 0 ? TRACE_FREE : TRACE_LEAVE);
  }
}

static void *free_and_leave(void *after) {
  trace_event_t e = {.kind = TRACE_FREE, .address = 16, .alignment = 1};
  trace_record(&e, after == NULL); /* of the other, by no stream of its own */
  trace_leave();
  if (after != NULL) trace_record(&e, false); /* as libc does when the thread's heap has gone */
  return NULL;
}

TEST(trace, threads_that_follow_each_other_under_one_number_are_told_apart, "") {
  static const trace_kind_t kinds[] = {TRACE_FREE, TRACE_LEAVE, TRACE_FREE};
  size_t size;
  trace_event_t events[20];
  char after;
  CHECK(trace_start(make_path(), 0));
  os_fake.thread = 77;
  for (unsigned i = 0; i < 6; i++) {
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, free_and_leave, i % 2 == 0 ? NULL : &after), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
  }
  trace_leave(); /* this thread has recorded nothing */
  const char *bytes = take_file(&size);
  CHECK_EQ(read_all(bytes, size, events, 20), (size_t)15);
  for (unsigned i = 0; i < 15; i++) {
    unsigned step = i % 5; /* two events of a thread, and three of the next */
    CHECK_EQ(events[i].thread, 77u);
    CHECK_EQ(events[i].serial, i / 5 * 2 + (step < 2 ? 1 : 2));
    CHECK_EQ((int)events[i].kind, (int)kinds[step < 2 ? step : step - 2]);
  }
}

TEST(trace, what_finds_no_room_is_counted_and_nothing_else_happens, "") {
  trace_event_t e = {.kind = TRACE_FREE, .address = 16, .alignment = 1};
  CHECK(trace_start(make_path(), 0) && trace_open());
  os_fake.no_room_in_file = true;
  for (int i = 0; i < 10; i++) trace_record(&e, i % 2 == 0);
  CHECK_EQ(trace_lost(), (uint64_t)10);
  unlink(path);
}

static void lose_two(void) {
  trace_event_t e = {.kind = TRACE_FREE, .address = 16, .alignment = 1};
  os_fake.at_file = NULL;
  for (int i = 0; i < 2; i++) trace_record(&e, true);
}
TEST(trace, what_is_lost_while_the_file_is_made_stands_in_the_file, "") {
  CHECK(trace_start(make_path(), 0));
  os_fake.at_file = lose_two;
  CHECK(trace_open());
  trace_head_t *head = atomic_ptr_load_relaxed(&trace_file()->head);
  CHECK_EQ(atomic64_load_relaxed(&head->lost), (uint64_t)2);
  CHECK_EQ(trace_lost(), (uint64_t)2);
  CHECK(!trace_is_full());
  unlink(path);
}

TEST(trace, a_file_that_cannot_be_made_is_told, "") {
  trace_event_t e = {.kind = TRACE_FREE, .address = 16, .alignment = 1};
  CHECK(trace_start("/no/such/folder/x", 0));
  CHECK(!trace_open());
  trace_record(&e, true);
  CHECK_EQ(trace_lost(), (uint64_t)1);
}

TEST(trace, a_ring_keeps_the_last_events_and_finds_who_freed, "") {
  trace_event_t found;
  trace_event_t e = {.kind = TRACE_FREE, .alignment = 1};
  uint64_t none = *trace_freeing();
  uintptr_t frames[6];
  CHECK(trace_start(NULL, 1));
  os_fake.thread = 5;
  os_fake.frames = frames;
  for (uintptr_t i = 1; i < 100000; i++) {
    e.address = i * 16;
    os_fake.frame_count = i % 7;
    for (unsigned k = 0; k < 6; k++) frames[k] = (i << 14) + (k % 2 == 0 ? k : 0 - i);
    trace_record(&e, true);
  }
  os_fake.now_ms += 3;
  *trace_freeing() = none;
  CHECK(trace_find_free(99999 * 16, &found));
  CHECK_EQ(found.thread, 5u);
  CHECK_EQ(found.time, (uint64_t)3000000);
  for (uintptr_t i = 99990; i < 100000; i++) {
    CHECK(trace_find_free(i * 16, &found));
    CHECK_EQ((size_t)found.frame_count, min_size(i % 7, TRACE_FRAMES));
    for (unsigned k = 0; k < found.frame_count; k++)
      CHECK_EQ(found.frames[k], (i << 14) + (k % 2 == 0 ? k : 0 - i));
  }
  CHECK(!trace_find_free(16, &found));
  CHECK_EQ(trace_lost(), (uint64_t)0);
  os_fake.thread = 6;
  e.address = 99999 * 16;
  trace_record(&e, false);
  *trace_freeing() = none;
  CHECK(trace_find_free(99999 * 16, &found));
  CHECK_EQ(found.thread, 6u);
}

TEST(trace, the_call_under_way_is_not_taken_for_the_one_before, "") {
  trace_event_t found;
  trace_event_t e = {.kind = TRACE_FREE, .address = 160, .alignment = 1};
  CHECK(trace_start(NULL, 1));
  os_fake.thread = 5;
  trace_record(&e, true);
  CHECK(!trace_find_free(160, &found));
  os_fake.now_ms += 2;
  trace_record(&e, true);
  CHECK(trace_find_free(160, &found));
  CHECK_EQ(found.time, (uint64_t)2000000);
  os_fake.thread = 6;
  os_fake.now_ms += 3;
  trace_record(&e, false); /* of a thread without a stream of its own */
  CHECK(trace_find_free(160, &found));
  CHECK_EQ(found.thread, 5u);
  CHECK_EQ(found.time, (uint64_t)3000000);
}

TEST(trace, a_call_that_was_not_recorded_finds_the_last_free, "") {
  trace_event_t found;
  trace_event_t e = {.kind = TRACE_FREE, .address = 160, .alignment = 1};
  uint64_t none = *trace_freeing();
  CHECK(trace_start(NULL, 1));
  trace_record(&e, true);
  *trace_freeing() = none; /* it has ended */
  CHECK(trace_find_free(160, &found));
}

TEST(trace, rings_of_many_threads_that_ended_are_used_again, "") {
  enum { MANY = 1500 };
  static trace_chunk_t *chunks[MANY], *first;
  CHECK(trace_start(NULL, 1) && trace_open());
  trace_file_t *s = trace_file();
  uint32_t generation = atomic32_load_relaxed(&s->generation);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < MANY; i++) {
      chunks[i] = trace_take_chunk(s, generation, &first);
      CHECK(chunks[i] != NULL);
    }
    for (int i = 0; i < MANY; i++) trace_hand_on(s, chunks[i]);
    CHECK_EQ(atomic64_load_relaxed(&s->rings), (uint64_t)MANY);
  }
}

/* A chunk may become full with the last event before it is handed on. */
TEST(trace, a_ring_is_handed_on_wherever_its_thread_stopped, "") {
  trace_event_t e = {.kind = TRACE_FREE, .alignment = 1};
  CHECK(trace_start(NULL, 1));
  for (uintptr_t i = 1; i < 100000; i++) {
    e.address = i * 16;
    trace_record(&e, false); /* by a thread that keeps none */
  }
  CHECK_EQ(atomic64_load_relaxed(&trace_file()->rings), (uint64_t)1);
  CHECK_EQ(trace_lost(), (uint64_t)0);
}

static jmp_buf outside;
static void jump_away(void) { longjmp(outside, 1); }
TEST(trace, a_thread_that_a_jump_took_out_of_a_record_hands_its_ring_on, "") {
  trace_event_t e = {.kind = TRACE_MALLOC, .address = 160, .alignment = 1};
  CHECK(trace_start(NULL, 1));
  trace_record(&e, true);
  os_fake.at_fine_clock = jump_away;
  if (setjmp(outside) == 0) trace_record(&e, true);
  os_fake.at_fine_clock = NULL;
  trace_leave();
  trace_record(&e, false); /* another one's */
  CHECK_EQ(atomic64_load_relaxed(&trace_file()->rings), (uint64_t)1);
}

/* What the calling thread does with the block at 160, seen by another call of it afterwards. */
static void record_of(uint32_t thread, trace_kind_t kind, bool stays) {
  trace_event_t e = {.kind = kind, .address = 160, .size = 100, .alignment = 1};
  os_fake.thread = thread;
  os_fake.now_ms++;
  trace_record(&e, stays);
  *trace_freeing() = 0;
}
TEST(trace, only_a_free_after_which_the_block_was_nobodys_is_named, "") {
  trace_event_t found;
  CHECK(trace_start(NULL, 1));
  record_of(5, TRACE_FREE, true);
  CHECK(trace_find_free(160, &found) && found.thread == 5 && !found.failed);
  record_of(6, TRACE_MALLOC, false);
  CHECK(!trace_find_free(160, &found));
  record_of(6, TRACE_FROM, false);
  record_of(6, TRACE_TO, false);
  CHECK(!trace_find_free(160, &found));
  record_of(6, TRACE_FREE, false);
  CHECK(trace_find_free(160, &found) && found.thread == 6 && !found.failed);
}

TEST(trace, a_free_is_named_with_a_doubt_if_later_ones_may_be_gone, "") {
  trace_event_t found, e = {.kind = TRACE_FREE, .address = 320, .alignment = 1};
  CHECK(trace_start(NULL, 1));
  record_of(5, TRACE_FREE, true);
  record_of(6, TRACE_MALLOC, false);
  record_of(6, TRACE_FREE, false);
  for (int i = 0; i < 100000; i++) trace_record(&e, false); /* and its ring goes round */
  CHECK(trace_find_free(160, &found) && found.thread == 5 && found.failed);
}
