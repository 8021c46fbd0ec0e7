/* bytes_test.c - tests of heap/bytes and stock/held */
#include "heaps.h"

#include "../../src/heap/bytes.h"
#include "../../src/stock/held.h"

enum { PLACES = 4000 };

/* What one thread has done, by what the calls themselves say. */
typedef struct {
  uint64_t random;
  uint64_t allocated, freed;
} doings_t;

static uint64_t draw(doings_t *d, uint64_t below) {
  d->random = d->random * 6364136223846793005u + 1442695040888963407u;
  return (d->random >> 33) % below;
}

static size_t any_size(doings_t *d) {
  switch (draw(d, 40)) {
    case 0: return 16385 + draw(d, 300000);
    case 1: return 1024 + draw(d, 15000);
    case 2: return 100 + draw(d, 1000);
    default: return 1 + draw(d, 200);
  }
}

static void *allocate(doings_t *d, fh_heap_t *heap) {
  size_t size = any_size(d);
  void *p = heap == NULL ? fast_malloc(size) : firstclass_aligned(heap, 1, size);
  CHECK(p != NULL);
  d->allocated += heap_usable_size(p, "test");
  return p;
}

static void release(doings_t *d, void *p) {
  d->freed += heap_usable_size(p, "test");
  fast_free(p);
}

static void check_bytes(const doings_t *d) {
  thread_bytes_t bytes = heap_thread_bytes();
  CHECK_EQ(bytes.allocated, d->allocated);
  CHECK_EQ(bytes.freed, d->freed);
}

/* Fills and empties places that other threads use too. */
static void work(doings_t *d, atomic_ptr_t *places, fh_heap_t *heap, int rounds) {
  for (int i = 0; i < rounds; i++) {
    void *mine = draw(d, 2) == 0 ? allocate(d, draw(d, 8) == 0 ? heap : NULL) : NULL;
    void *old = atomic_ptr_exchange_own(&places[draw(d, PLACES)], mine);
    if (old != NULL) release(d, old);
    if (i % 501 == 0) check_bytes(d);
    if (i % 9001 == 0) heap_collect(i % 18002 == 0);
  }
}

static void release_all(doings_t *d, atomic_ptr_t *places) {
  for (int i = 0; i < PLACES; i++) {
    void *p = atomic_ptr_exchange_own(&places[i], NULL);
    if (p != NULL) release(d, p);
  }
}

static atomic_ptr_t shared[PLACES];

TEST(bytes, the_first_answer_is_zero_and_the_next_ones_are_exact_to_the_byte, "") {
  doings_t d = {.random = 7};
  void *before[1000];
  for (int i = 0; i < 1000; i++) before[i] = allocate(&d, NULL);
  d.allocated = d.freed = 0;
  check_bytes(&d);
  work(&d, shared, NULL, 100000);
  for (int i = 0; i < 1000; i++) release(&d, before[i]);
  release_all(&d, shared);
  check_bytes(&d);
  CHECK_GT(d.allocated, (uint64_t)MiB(100));
}

TEST(bytes, blocks_of_heaps_of_the_program_count_and_what_such_heaps_keep_does_not, "") {
  doings_t d = {.random = 8};
  check_bytes(&d);
  for (int round = 0; round < 4; round++) {
    fh_heap_t *heap = firstclass_new();
    work(&d, shared, heap, 30000);
    check_bytes(&d);
    release_all(&d, shared);
    check_bytes(&d);
    void *left[100];
    for (int i = 0; i < 100; i++) left[i] = allocate(&d, heap);
    if (round % 2 == 0) {
      firstclass_delete(heap);
      check_bytes(&d);
      for (int i = 0; i < 100; i++) release(&d, left[i]);
    } else { /* this frees them */
      for (int i = 0; i < 100; i++) d.freed += heap_usable_size(left[i], "test");
      firstclass_destroy(heap);
    }
    check_bytes(&d);
  }
}

static void *work_in_thread(void *context) {
  doings_t *d = context;
  check_bytes(d);
  for (int round = 0; round < 4; round++) work(d, shared, NULL, 10000);
  check_bytes(d);
  return NULL;
}

/* The exchange of places is by one processor's instruction without a lock: threads take turns. */
static atomic32_t turn;
static void *work_in_turn(void *context) {
  doings_t *d = context;
  uint32_t me = (uint32_t)(d->random % 16);
  check_bytes(d);
  for (uint32_t round = 0; round < 6; round++) {
    while (atomic32_load_acquire(&turn) != round * 16 + me) sched_yield();
    work(d, shared, NULL, 3000);
    check_bytes(d);
    atomic32_store_release(&turn, round * 16 + me + 1);
  }
  return NULL;
}

TEST(bytes, what_sixteen_threads_allocate_and_others_of_them_free_adds_up, "") {
  pthread_t threads[16];
  doings_t d[16] = {{0}}, mine = {.random = 1};
  uint64_t allocated = 0, freed = 0;
  check_bytes(&mine);
  for (unsigned i = 0; i < 16; i++) {
    d[i].random = 160000 + i;
    CHECK_EQ(pthread_create(&threads[i], NULL, work_in_turn, &d[i]), 0);
  }
  for (unsigned i = 0; i < 16; i++) {
    CHECK_EQ(pthread_join(threads[i], NULL), 0);
    allocated += d[i].allocated;
    freed += d[i].freed;
  }
  release_all(&mine, shared);
  check_bytes(&mine);
  CHECK_EQ(mine.allocated, 0u);
  CHECK_EQ(allocated, freed + mine.freed);
}

/* Its heap rests with what it has in bins and lists, and the next thread gets that. */
TEST(bytes, a_thread_does_not_count_what_it_finds_in_the_heap_of_one_that_ended, "") {
  for (unsigned i = 0; i < 20; i++) {
    pthread_t thread;
    doings_t d = {.random = i};
    CHECK_EQ(pthread_create(&thread, NULL, work_in_thread, &d), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
  }
  CHECK_LE(pool_size(), (size_t)64);
}

TEST(bytes, sampled_and_guarded_blocks_count_as_what_can_be_used_of_them, "") {
  doings_t d = {.random = 12};
  check_bytes(&d);
  CHECK(sample_start(10000));
  work(&d, shared, NULL, 30000);
  sample_start(0);
  sample_start_guards(10000);
  work(&d, shared, NULL, 30000);
  release_all(&d, shared);
  check_bytes(&d);
}

TEST(bytes, realloc_counts_what_it_adds_or_takes_away_where_the_block_stays, "") {
  doings_t d = {.random = 9};
  check_bytes(&d);
  size_t sizes[] = {100000, 150000, 120000, 600000, 20000, 70000000, 700000000, 900000000, 30000};
  void *p = fast_malloc(50000);
  uint64_t most = heap_usable_size(p, "test"), least = most;
  for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
    size_t had = heap_usable_size(p, "test");
    p = heap_realloc(p, sizes[i], "test");
    size_t has = heap_usable_size(p, "test");
    most += has;
    least += has > had ? has - had : 0;
    thread_bytes_t bytes = heap_thread_bytes();
    CHECK_EQ(bytes.allocated - bytes.freed, (uint64_t)has);
    CHECK(bytes.allocated >= least && bytes.allocated <= most);
  }
  fast_free(p);
  thread_bytes_t bytes = heap_thread_bytes();
  CHECK_EQ(bytes.allocated, bytes.freed);
}

static void *in_handler[50];
static void handle(int number) {
  (void)number;
  for (int i = 0; i < 50; i++) in_handler[i] = fast_malloc(64);
  fast_free(in_handler[0]);
}

TEST(bytes, what_handlers_do_in_the_middle_of_a_call_counts_when_the_call_is_over, "") {
  doings_t d = {.random = 10};
  check_bytes(&d);
  signal(SIGUSR1, handle);
  heap_t *h = heap_enter();
  raise(SIGUSR1);
  heap_exit(h);
  d.allocated += 50 * 64, d.freed += 64;
  check_bytes(&d);
  for (int i = 1; i < 50; i++) release(&d, in_handler[i]);
  work(&d, shared, NULL, 5000);
  check_bytes(&d);
}

TEST(bytes, asking_changes_nothing_for_a_thread_that_has_no_heap, "") {
  thread_bytes_t bytes = heap_thread_bytes();
  CHECK_EQ(bytes.allocated + bytes.freed, 0u);
  CHECK_EQ(pool_size(), (size_t)0);
}
