/* sleepers_test.c - tests of heap/sleepers */
#include "heaps.h"

#include <semaphore.h>

#include "../../src/heap/bytes.h"
#include "../../src/heap/sleepers.h"
#include "../../src/stock/held.h"

/* ---- a thread that does what it is told to, and sleeps --------------------------------------- */

static sem_t go, done;
static void (*next_work)(void);
static heap_t *its_heap;
static pthread_t sleeper;

static void *work_and_sleep(void *none) {
  (void)none;
  for (;;) {
    while (sem_wait(&go) != 0) continue;
    void (*work)(void) = next_work;
    if (work != NULL) work();
    CHECK_EQ(sem_post(&done), 0);
    if (work == NULL) return NULL;
  }
}
static void let_it(void (*work)(void)) {
  next_work = work;
  sem_post(&go);
  while (sem_wait(&done) != 0) continue;
}

enum { SIZES = 40, EACH = 60 };
static void *blocks[SIZES][EACH];
static size_t size_of(int i) { return 16 + (size_t)(i * i * 10); }
static void take_blocks(void) {
  for (int i = 0; i < SIZES; i++)
    for (int k = 0; k < EACH; k++) {
      blocks[i][k] = fast_malloc(size_of(i));
      memset(blocks[i][k], i, size_of(i));
    }
  its_heap = heap_of_thread();
}
static void check_and_free(int from, int to) {
  for (int i = 0; i < SIZES; i++)
    for (int k = from; k < to; k++) {
      for (size_t at = 0; at < size_of(i); at++) CHECK_EQ(((uint8_t *)blocks[i][k])[at], i);
      fast_free(blocks[i][k]);
    }
}
static void free_half(void) { check_and_free(0, EACH / 2); }
static void free_other_half(void) { check_and_free(EACH / 2, EACH); }
static void use_and_free(void) {
  take_blocks();
  free_half();
  free_other_half();
}

/* So bins of some sizes are not empty. */
static void *more[SIZES];
static void take_more(void) {
  for (int i = 0; i < SIZES; i++) more[i] = fast_malloc(size_of(i));
}
static void free_more(void) {
  for (int i = 0; i < SIZES; i++) fast_free(more[i]);
}

static bool succeed(unsigned number) { return number > 0; }

/* A thread whose heap keeps something of each kind, and blocks of others put off. */
enum { OTHERS = 200 };
static void *others[OTHERS];
static void free_others(void) {
  for (int i = OTHERS / 2; i < OTHERS; i++) fast_free(others[i]);
}
static void begin(bool (*at_fence)(unsigned number)) {
  sem_init(&go, 0, 0);
  sem_init(&done, 0, 0);
  for (int i = 0; i < OTHERS; i++) others[i] = fast_malloc(100); /* of slabs that this heap owns */
  CHECK_EQ(pthread_create(&sleeper, NULL, work_and_sleep, NULL), 0);
  let_it(use_and_free);
  let_it(take_blocks);
  let_it(free_half);
  let_it(take_more);
  let_it(free_others);
  os_fake.at_fence = at_fence;
}
static void end(void) {
  let_it(free_other_half);
  let_it(free_more);
  let_it(os_fake_end_thread);
  let_it(NULL);
  pthread_join(sleeper, NULL);
  os_fake.at_fence = NULL;
  for (int i = 0; i < OTHERS / 2; i++) fast_free(others[i]);
  check_nothing_lost();
}

static bool keeps_nothing(const heap_t *h) {
  held_t held = heap_held(h);
  bool has_any = h->put_off != 0 || h->singles + h->run_slices != 0 || h->idle != 0;
  has_any |= h->keeps_pages;
  for (unsigned c = 1; c < CLASS_COUNT; c++) has_any |= h->own->slabs[c] != 0 || h->bin[c] != 0;
  return !has_any && held.ready + held.freed == 0;
}

/* ---- what is taken --------------------------------------------------------------------------- */

TEST(sleepers, all_that_a_sleeping_thread_keeps_is_taken_and_it_goes_on, "V2 V3") {
  begin(succeed);
  CHECK(its_heap->put_off != 0 && !keeps_nothing(its_heap));
  sleepers_take_all();
  CHECK_EQ(os_fake.fences, 3u);
  CHECK(keeps_nothing(its_heap) && !heap_is_taken(its_heap));
  let_it(free_other_half);
  let_it(use_and_free);
  CHECK(!keeps_nothing(its_heap) && pool_is_valid());
  heap_collect(true);
  CHECK(keeps_nothing(its_heap));
  let_it(take_blocks);
  let_it(free_half);
  end();
}

enum { SPREAD = 4000 };
static void *spread[SPREAD]; /* in more slabs than a narrow outbox has slots */
static void free_spread(int from, int to) {
  for (int i = from; i < to; i++) fast_free(spread[i * 173 % SPREAD]);
}
static void free_first_spread(void) {
  its_heap = heap_of_thread();
  its_heap->aside->put_off_more = PUT_OFF_MORE;
  free_spread(0, SPREAD / 2);
}
static void free_other_spread(void) { free_spread(SPREAD / 2, SPREAD); }
static bool free_at_any(unsigned number) {
  if (number == 3) let_it(free_other_spread);
  return true;
}
static void close_outbox(void) { outbox_note_refill(its_heap); }
static void check_wide(void (*then)(void), bool (*at_fence)(unsigned number)) {
  begin(at_fence);
  for (int i = 0; i < SPREAD; i++) spread[i] = fast_malloc(2000);
  users_leave(heap_number(my_heap())); /* so the other one is alone */
  let_it(free_first_spread);
  users_begin(heap_number(my_heap()));
  if (then != NULL) let_it(then);
  CHECK(outbox_is_wide(its_heap) && heap_held(its_heap).freed != 0);
  sleepers_take_all();
  CHECK(!heap_is_taken(its_heap) && its_heap->aside->wide == 0 && its_heap->put_off == 0);
  if (at_fence == succeed) let_it(free_other_spread);
  end();
}
TEST(sleepers, the_wide_outbox_of_a_sleeping_thread_is_taken, "H6 H8") {
  check_wide(NULL, succeed);
}
TEST(sleepers, so_is_one_that_was_about_to_end, "H6 H8") { check_wide(close_outbox, succeed); }
TEST(sleepers, what_a_thread_with_a_wide_outbox_frees_when_it_wakes_up_is_freed, "H6") {
  check_wide(NULL, free_at_any);
}

/* A thread whose heap keeps what `work` leaves there, and nothing else. */
static void begin_with(void (*work)(void)) {
  sem_init(&go, 0, 0);
  sem_init(&done, 0, 0);
  my_heap();
  CHECK_EQ(pthread_create(&sleeper, NULL, work_and_sleep, NULL), 0);
  let_it(work);
  os_fake.at_fence = succeed;
}
static void end_alone(void) {
  let_it(os_fake_end_thread);
  let_it(NULL);
  pthread_join(sleeper, NULL);
  check_nothing_lost();
}

static void keep_one_run(void) {
  for (int i = 0; i < 100; i++) fast_free(fast_malloc(20000));
  its_heap = heap_of_thread();
}
TEST(sleepers, a_thread_that_keeps_nothing_but_a_run_of_pages_loses_it, "") {
  begin_with(keep_one_run);
  CHECK(its_heap->keeps_pages);
  sleepers_take_all();
  CHECK(!its_heap->keeps_pages);
  end_alone();
}

static void take_two_of_a_medium_class(void) {
  others[0] = fast_malloc(2000);
  others[1] = fast_malloc(2000);
  its_heap = heap_of_thread();
}
static void free_these_two(void) {
  fast_free(others[0]);
  fast_free(others[1]);
}
TEST(sleepers, a_thread_that_keeps_nothing_but_blocks_never_used_loses_them, "") {
  unsigned c = class_of(2000);
  begin_with(take_two_of_a_medium_class);
  CHECK(its_heap->bin[c] == 0 && heap_fresh(its_heap, c).count != 0);
  sleepers_take_all();
  CHECK_EQ(heap_fresh(its_heap, c).count, 0u);
  let_it(free_these_two);
  end_alone();
}

TEST(sleepers, whoever_takes_keeps_its_own_heap, "") {
  begin(succeed);
  void *mine = fast_malloc(100);
  size_t held = heap_held(my_heap()).ready;
  sleepers_take_all();
  CHECK_EQ(heap_held(my_heap()).ready, held);
  fast_free(mine);
  end();
}

TEST(sleepers, without_fences_nothing_is_taken, "") {
  begin(NULL);
  held_t before = heap_held(its_heap);
  sleepers_take_all();
  CHECK(heap_held(its_heap).freed == before.freed && heap_held(its_heap).ready == before.ready);
  CHECK(!heap_is_taken(its_heap));
  end();
}

TEST(sleepers, a_thread_that_runs_is_not_disturbed, "") {
  begin(succeed);
  os_fake.awake = (uint32_t)users_thread(heap_number(its_heap));
  sleepers_take_all();
  CHECK(!keeps_nothing(its_heap));
  CHECK_EQ(os_fake.fences, 1u); /* whether there are any */
  end();
}

/* ---- what is not ----------------------------------------------------------------------------- */

typedef struct {
  uintptr_t bin[CLASS_COUNT];
  uint16_t room[CLASS_COUNT];
  batch_t batch[BATCH_SLOTS];
} words_t;
static words_t words_of(const heap_t *h) {
  words_t w;
  memset(&w, 0, sizeof w);
  memcpy(w.bin, h->bin, sizeof w.bin);
  memcpy(w.room, h->returned_room, sizeof w.room);
  memcpy(w.batch, h->aside->batch, sizeof w.batch);
  return w;
}
static bool owns_its_slabs(const heap_t *h) {
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    for (slab_t *s = owned_first(h, c); s != NULL; s = s->next)
      if (slab_owner(s) != h) return false;
  return true;
}
/* All is as it was, except `h`'s first bin of class `c`. */
static void check_is_open(const heap_t *h, const words_t *before) {
  words_t now = words_of(h);
  CHECK(memcmp(&now, before, sizeof now) == 0 && owns_its_slabs(h) && !heap_is_taken(h));
}

static void set_mark_of_malloc(void) { heap_here.limit = 0; }
static void set_mark_of_free(void) { heap_here.window = 0; }
static void take_marks_away(void) { here_open(atomic64_load_relaxed(&its_heap->home)); }

TEST(sleepers, a_heap_in_a_fast_call_stays_as_it_is, "") {
  static void (*const marks[])(void) = {set_mark_of_malloc, set_mark_of_free};
  begin(succeed);
  for (size_t i = 0; i < ARRAY_LENGTH(marks); i++) {
    let_it(marks[i]);
    words_t before = words_of(its_heap);
    sleepers_take_all();
    CHECK_EQ(os_fake.fences, 4u * (unsigned)i + 4u);
    check_is_open(its_heap, &before);
    let_it(take_marks_away);
  }
  end();
}

TEST(sleepers, a_heap_in_a_slow_call_stays_as_it_is, "") {
  begin(succeed);
  words_t before = words_of(its_heap);
  its_heap->busy = 1;
  sleepers_take_all();
  its_heap->busy = 0;
  check_is_open(its_heap, &before);
  end();
}

/* A fast call that began before the words were closed ends after that. */
static unsigned used_class;
static uintptr_t popped;
static bool pop_at_the_second(unsigned number) {
  uintptr_t *bin = &its_heap->bin[used_class];
  if (number != 3) return true;
  popped = *bin & ~BIN_CLOSED;
  *bin = block_next(popped);
  return true;
}
TEST(sleepers, what_its_thread_took_out_of_a_bin_meanwhile_is_its_own, "") {
  begin(pop_at_the_second);
  words_t before = words_of(its_heap);
  while (before.bin[used_class] == 0 || block_next(before.bin[used_class]) == 0) used_class++;
  before.bin[used_class] = block_next(before.bin[used_class]);
  sleepers_take_all();
  check_is_open(its_heap, &before);
  its_heap->bin[used_class] = popped;
  end();
}
static bool use_room_at_the_second(unsigned number) {
  if (number == 3) its_heap->returned_room[used_class] = 1;
  return true;
}
TEST(sleepers, a_list_that_its_thread_lengthened_meanwhile_is_its_own, "") {
  begin(use_room_at_the_second);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    if (its_heap->returned_room[c] > 1) used_class = c;
  words_t before = words_of(its_heap);
  uint16_t room = before.room[used_class];
  before.room[used_class] = 1;
  sleepers_take_all();
  check_is_open(its_heap, &before);
  its_heap->returned_room[used_class] = room;
  end();
}

/* ---- who wakes up ---------------------------------------------------------------------------- */

static unsigned wake_at;
static bool wake(unsigned number) {
  if (number == wake_at) let_it(use_and_free);
  return true;
}
TEST(sleepers, a_thread_that_wakes_up_at_any_of_the_fences_uses_its_next_heap, "") {
  for (wake_at = 2; wake_at <= 3; wake_at++) {
    os_fake.fences = 0;
    begin(wake);
    let_it(free_other_half);
    sleepers_take_all();
    CHECK(atomic_ptr_load_relaxed(&its_heap->nested) != NULL && !heap_is_taken(its_heap));
    CHECK(pool_is_valid());
    let_it(take_blocks);
    let_it(free_half);
    end();
  }
}

/* Its fast calls, closed in the middle of all. */
static bool free_at_the_second(unsigned number) {
  if (number == 3) let_it(free_other_half);
  return true;
}
TEST(sleepers, what_it_frees_when_it_wakes_up_is_freed, "") {
  begin(free_at_the_second);
  sleepers_take_all();
  CHECK(!heap_is_taken(its_heap) && pool_is_valid());
  let_it(take_blocks);
  let_it(free_half);
  end();
}

static bool end_it(unsigned number) {
  if (number != wake_at) return true;
  let_it(os_fake_end_thread);
  CHECK_EQ(users_thread(heap_number(its_heap)), (uint64_t)0); /* nobody finds it by a dead thread */
  return true;
}
TEST(sleepers, the_heap_of_one_that_ends_meanwhile_is_ended_by_whoever_takes, "") {
  for (wake_at = 2; wake_at <= 3; wake_at++) {
    os_fake.fences = 0;
    begin(end_it);
    size_t number = heap_number(its_heap);
    let_it(free_other_half);
    let_it(free_more);
    sleepers_take_all();
    CHECK(!heap_is_taken(its_heap) && users_thread(number) == 0);
    let_it(NULL);
    pthread_join(sleeper, NULL);
    os_fake.at_fence = NULL;
    for (int i = 0; i < OTHERS / 2; i++) fast_free(others[i]);
    check_nothing_lost();
  }
}

/* A fast free that has seen that a list has room when it is closed, and then takes it. */
static bool take_room_at_the_third(unsigned number) {
  if (number == 3) its_heap->returned_room[used_class]--;
  return true;
}
TEST(sleepers, a_free_that_is_overtaken_leaves_the_room_that_there_is, "") {
  begin(take_room_at_the_third);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    if (its_heap->returned_room[c] > 1) used_class = c;
  size_t count = returned_count(its_heap, used_class);
  let_it(set_mark_of_free);
  sleepers_take_all();
  CHECK_EQ(returned_count(its_heap, used_class), count + 1);
  its_heap->returned_room[used_class]++;
  let_it(take_marks_away);
  end();
}
/* It has read the closed room, and stores what is left once the heap is open again. */
static bool store_late(unsigned number) {
  static uint16_t seen;
  if (number == 3) seen = its_heap->returned_room[used_class];
  if (number == 4) its_heap->returned_room[used_class] = (uint16_t)(seen - 1);
  return true;
}
TEST(sleepers, no_list_stays_closed, "V1") {
  begin(store_late);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    if (its_heap->returned_room[c] > 1) used_class = c;
  uint16_t room = its_heap->returned_room[used_class];
  let_it(set_mark_of_free);
  sleepers_take_all();
  CHECK_EQ(its_heap->returned_room[used_class], room - 1);
  its_heap->returned_room[used_class]++;
  let_it(take_marks_away);
  end();
}

/* ---- its bytes ------------------------------------------------------------------------------- */

static thread_bytes_t bytes;
static void ask(void) { bytes = heap_thread_bytes(); }
TEST(sleepers, what_is_taken_is_no_call_of_its_thread, "") {
  begin(succeed);
  let_it(ask);
  let_it(free_other_half);
  let_it(use_and_free);
  let_it(ask);
  thread_bytes_t before = bytes, mine = heap_thread_bytes();
  sleepers_take_all();
  let_it(ask);
  CHECK(bytes.allocated == before.allocated && bytes.freed == before.freed);
  thread_bytes_t now = heap_thread_bytes();
  CHECK(now.allocated == mine.allocated && now.freed == mine.freed);
  let_it(take_blocks);
  let_it(ask);
  CHECK_GT(bytes.allocated, before.allocated);
  let_it(free_half);
  end();
}

/* It asks at each of the fences, and gets the same answer. */
static bool ask_at_each(unsigned number) {
  thread_bytes_t before = bytes;
  if (number > 1) let_it(ask);
  CHECK(bytes.allocated == before.allocated && bytes.freed == before.freed);
  return true;
}
TEST(sleepers, its_bytes_are_those_of_its_calls_while_another_takes, "") {
  begin(NULL);
  let_it(ask);
  let_it(free_other_half);
  let_it(use_and_free);
  let_it(ask);
  os_fake.at_fence = ask_at_each;
  sleepers_take_all();
  CHECK(!keeps_nothing(its_heap)); /* who asks keeps it */
  os_fake.at_fence = succeed;
  sleepers_take_all();
  CHECK(keeps_nothing(its_heap));
  let_it(take_blocks);
  let_it(free_half);
  end();
}
static void end_and_ask(void) {
  thread_bytes_t before = bytes;
  os_fake_end_thread();
  ask();
  CHECK(bytes.allocated == before.allocated && bytes.freed == before.freed);
}
TEST(sleepers, its_bytes_stay_when_it_ends_after_that, "") {
  begin(succeed);
  let_it(free_other_half);
  let_it(free_more);
  let_it(ask);
  let_it(use_and_free);
  let_it(ask);
  sleepers_take_all();
  let_it(end_and_ask);
}

/* ---- in the background ----------------------------------------------------------------------- */

static uint64_t spent = 1000;
static uint64_t spent_ns(uint32_t thread) { return (void)thread, spent; }

TEST(sleepers, in_the_background_those_are_taken_that_have_not_run_for_a_while, "") {
  begin(succeed);
  os_fake.spent_ns = spent_ns;
  sleepers_look();
  os_fake.now_ms += 20000;
  spent += 1000;
  sleepers_look();
  CHECK(!keeps_nothing(its_heap));
  os_fake.now_ms += 5000;
  sleepers_look();
  CHECK(!keeps_nothing(its_heap));
  os_fake.now_ms += 6000;
  sleepers_look();
  CHECK(keeps_nothing(its_heap));
  os_fake.spent_ns = NULL;
  end();
}

/* ---- who takes ------------------------------------------------------------------------------- */

static bool take_again(unsigned number) {
  unsigned fences = os_fake.fences;
  sleepers_take_all();
  CHECK_EQ(os_fake.fences, fences);
  return number > 0;
}
TEST(sleepers, one_takes_at_a_time, "") {
  begin(take_again);
  sleepers_take_all();
  CHECK(keeps_nothing(its_heap));
  end();
}

static bool stop_here(unsigned number) {
  if (number == 3) pthread_exit(NULL);
  return true;
}
static void *take_and_stop(void *none) {
  sleepers_take_all();
  return none;
}
static words_t closed;
/* Which may have its parent's number, in a namespace of its own. */
static void open_in_a_child(void) {
  sleepers_end_parents();
  check_is_open(its_heap, &closed);
  os_fake.at_fence = succeed;
  os_fake.fences = 0;
  sleepers_take_all();
  CHECK_EQ(os_fake.fences, 1u); /* another may take now */
}
TEST(sleepers, a_child_of_fork_opens_what_its_parent_had_closed, "") {
  pthread_t other;
  begin(stop_here);
  words_t before = words_of(its_heap);
  CHECK_EQ(pthread_create(&other, NULL, take_and_stop, NULL), 0);
  pthread_join(other, NULL);
  CHECK(heap_is_taken(its_heap) && !owns_its_slabs(its_heap));
  os_fake.thread = (uint64_t)1 << OS_THREAD_BITS / 2 | 1; /* one of vfork shares all memory */
  sleepers_end_parents();
  os_fake.thread = 0;
  CHECK(heap_is_taken(its_heap));
  closed = before;
  EXPECT_SURVIVAL(open_in_a_child());
}
