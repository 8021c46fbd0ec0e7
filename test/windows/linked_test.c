/* linked_test.c - a program that is linked with freehold.dll, or with libfreehold.a: its malloc is
 * freehold's by the order of linking */
#include <malloc.h>
#include <pthread.h>

#include <freehold/freehold.h>

#include "plugin.h"

enum { THREADS = 4, BLOCKS = 2000 };

static fh_stats_t stats(void) {
  fh_stats_t now = {.struct_size = sizeof now};
  CHECK(fh_stats_get(&now));
  return now;
}

TEST(linked, the_programs_own_blocks_are_freeholds, "") {
  void *blocks[] = {malloc(10), calloc(3, 100), realloc(NULL, 70000), _aligned_malloc(100, 4096)};
  for (int i = 0; i < 4; i++) CHECK(blocks[i] != NULL && fh_owns(blocks[i]));
  CHECK_EQ((uintptr_t)blocks[3] % 4096, 0u);
  CHECK_GE(_msize(blocks[0]), (size_t)10);
  CHECK_BYTES(blocks[1], 0, 300);
  for (int i = 0; i < 3; i++) free(blocks[i]);
  _aligned_free(blocks[3]);
}

static void grow_and_shrink(size_t size, size_t more) {
  char *p = malloc(size);
  CHECK(p != NULL && fh_owns(p));
  p[0] = 7, p[size - 1] = 9;
  p = realloc(p, more);
  CHECK(p != NULL && fh_owns(p) && p[0] == 7 && p[size - 1] == 9);
  p[more - 1] = 1;
  p = realloc(p, size / 2);
  CHECK(fh_owns(p) && p[0] == 7);
  free(p);
}

TEST(linked, small_large_and_huge_blocks_keep_what_they_hold_when_they_grow, "") {
  for (size_t size = 100; size < (size_t)1 << 25; size *= 16) grow_and_shrink(size, 2 * size);
  grow_and_shrink((size_t)600 << 20, (size_t)900 << 20); /* within its window */
  grow_and_shrink((size_t)40 << 20, (size_t)520 << 20);  /* to windows of its own */
}

TEST(linked, calloc_gives_zeros_also_where_memory_was_used_before, "") {
  for (int i = 0; i < 40; i++) {
    size_t size = (size_t)1000 << i % 12;
    char *p = calloc(1, size);
    CHECK_BYTES(p, 0, size);
    memset(p, 1, size);
    free(p);
    if (i % 8 == 0) fh_collect(true);
  }
}

TEST(linked, memory_goes_back_when_it_is_asked_for, "") {
  enum { MANY = 64 };
  void *blocks[MANY];
  for (int i = 0; i < MANY; i++) memset(blocks[i] = malloc(1 << 20), 1, 1 << 20);
  uint64_t full = stats().resident;
  for (int i = 0; i < MANY; i++) free(blocks[i]);
  fh_collect(true);
  CHECK_LT(stats().resident, full / 2);
}

TEST(linked, a_block_of_the_runtime_goes_back_to_it, "") {
  char *theirs = _strdup("theirs");
  CHECK(!fh_owns(theirs));
  CHECK_GE(_msize(theirs), (size_t)7);
  free(theirs);
  theirs = realloc(_strdup("moves"), 1000);
  CHECK(fh_owns(theirs));
  CHECK_SAME_TEXT(theirs, "moves");
  free(theirs);
}

TEST(linked, what_goes_wrong_is_one_line, "") {
  static char no_block[64];
  char *p = malloc(100);
  EXPECT_ABORT((free(p), free(p)),
               "^freehold: double free: 0x[0-9a-f]+ in free\\(\\)" TEST_BLOCK "$");
  EXPECT_ABORT(free(p + 16),
               "^freehold: invalid pointer: 0x[0-9a-f]+ in free\\(\\)" TEST_BLOCK "$");
  EXPECT_ABORT(free(no_block + 16),
               "^freehold: invalid pointer: 0x[0-9a-f]+ in free\\(\\)" TEST_BLOCK "$");
}

TEST(linked, no_memory_is_NULL_and_ENOMEM, "") {
  errno = 0;
  CHECK_NULL(malloc((size_t)1 << 46));
  CHECK_EQ(errno, ENOMEM);
  errno = 0;
  CHECK_NULL(malloc(SIZE_MAX - 100));
  CHECK_EQ(errno, ENOMEM);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *handed_on[THREADS][BLOCKS];
static pthread_barrier_t meet;

/* Allocates, hands on, and frees what the neighbour has allocated. */
static void *take_part(void *number) {
  uintptr_t me = (uintptr_t)number;
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      size_t size = (size_t)(i * 37 + round) % 3000 + 1;
      handed_on[me][i] = memset(malloc(size), (int)me, size);
    }
    pthread_barrier_wait(&meet);
    for (int i = 0; i < BLOCKS; i++) free(handed_on[(me + 1) % THREADS][i]);
    pthread_barrier_wait(&meet);
  }
  return NULL;
}

static void run_threads(void *(*run)(void *)) {
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK_EQ(pthread_create(&threads[i], NULL, run, (void *)i), 0);
  for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

TEST(threads, blocks_go_from_thread_to_thread_and_all_come_back, "") {
  pthread_barrier_init(&meet, NULL, THREADS);
  run_threads(take_part);
  uint64_t live = stats().live_bytes;
  run_threads(take_part);
  CHECK_LE(stats().live_bytes, live + 10000);
}

static void *allocate_a_little(void *unused) {
  void *blocks[100];
  (void)unused;
  for (int i = 0; i < 100; i++) blocks[i] = malloc(64);
  for (int i = 0; i < 100; i++) free(blocks[i]);
  return NULL;
}

TEST(threads, the_heap_of_one_that_has_ended_is_the_next_ones, "") {
  run_threads(allocate_a_little);
  uint64_t heaps = stats().heaps;
  for (int i = 0; i < 50; i++) run_threads(allocate_a_little);
  CHECK_LE(stats().heaps, heaps + THREADS);
  CHECK_LE(stats().threads, (uint64_t)2);
}

/* ---- threads that end in other ways ---------------------------------------------------------- */

__declspec(dllimport) void *CreateThread(void *security, size_t stack, uint32_t (*run)(void *),
                                         void *context, uint32_t flags, uint32_t *number);
__declspec(dllimport) _Noreturn void ExitThread(uint32_t code);
__declspec(dllimport) int TerminateThread(void *thread, uint32_t code);
__declspec(dllimport) uint32_t WaitForSingleObject(void *thread, uint32_t ms);
__declspec(dllimport) int CloseHandle(void *thread);

static volatile int has_allocated;
static uint32_t allocate_and_exit(void *unused) {
  allocate_a_little(unused);
  ExitThread(0);
}
static uint32_t allocate_and_hang(void *unused) {
  allocate_a_little(unused);
  has_allocated = 1;
  for (;;) WaitForSingleObject((void *)-1, 1000); /* for this process */
}

static void run_system_thread(uint32_t (*run)(void *), bool is_terminated) {
  void *thread = CreateThread(NULL, 0, run, NULL, 0, NULL);
  CHECK(thread != NULL);
  while (is_terminated && !has_allocated) WaitForSingleObject(thread, 1);
  if (is_terminated) CHECK(TerminateThread(thread, 0));
  CHECK_EQ(WaitForSingleObject(thread, 60000), 0u);
  has_allocated = 0;
  CloseHandle(thread);
}

TEST(threads, the_heap_of_one_that_leaves_at_once_is_the_next_ones, "") {
  for (int i = 0; i < 100; i++) run_system_thread(allocate_and_exit, false);
  CHECK_LE(stats().heaps, (uint64_t)4);
}

/* No callback tells of it: its heap is found by the thread's number. */
TEST(threads, the_heap_of_one_that_was_terminated_is_found, "") {
  for (int i = 0; i < 300; i++) run_system_thread(allocate_and_hang, true);
  CHECK_LT(stats().heaps, (uint64_t)150);
}

/* ---- statistics ------------------------------------------------------------------------------ */

static char told[1 << 16];
static size_t told_length;
static void keep_text(const char *text, size_t length, void *unused) {
  (void)unused;
  if (told_length + length < sizeof told) memcpy(told + told_length, text, length);
  told_length += length;
}

TEST(statistics, they_count_what_the_program_has, "") {
  uint64_t before = stats().live_bytes;
  void *p = malloc(1 << 20);
  CHECK_GE(stats().live_bytes, before + (1 << 20));
  CHECK_GE(stats().mapped, stats().committed);
  CHECK_GE(stats().resident, (uint64_t)4096);
  free(p);
  CHECK_LT(stats().live_bytes, before + (1 << 20));
}

TEST(statistics, they_are_text_for_the_programs_callback, "") {
  fh_on_output(keep_text, NULL);
  fh_stats_print(true);
  CHECK(told_length > 0 && told_length < sizeof told);
  CHECK(told[0] == '{' && strstr(told, "\"live_bytes\"") != NULL);
}

__declspec(dllimport) void *VirtualAlloc(void *at, size_t size, uint32_t how, uint32_t protection);

/* Of its window nothing is reserved but the memory itself; the head is mapped beside it. */
TEST(linked, memory_that_the_program_brings_is_used_and_goes_back, "") {
  enum { MINE = 64 << 20, BLOCK = 1 << 20, MANY = 40 };
  char *window = (char *)((size_t)40 << 40), *blocks[MANY];
  char *mine = VirtualAlloc(window + (100 << 20), MINE, 0x3000, 4);
  CHECK(mine != NULL);
  CHECK_EQ(fh_arena_add(mine, MINE, FH_ARENA_ZERO | FH_ARENA_PURGE), (size_t)MINE);
  int inside = 0;
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < MANY; i++) {
      blocks[i] = malloc(BLOCK);
      inside += blocks[i] >= mine && blocks[i] < mine + MINE;
      memset(blocks[i], 7, BLOCK);
    }
    uint64_t full = stats().resident;
    for (int i = 0; i < MANY; i++) free(blocks[i]);
    fh_collect(true);
    CHECK_LT(stats().resident, full / 2);
  }
  CHECK_GT(inside, MANY);
}

TEST(heaps, a_first_class_heap_ends_with_its_blocks, "") {
  fh_heap_t *heap = fh_heap_new();
  for (int i = 0; i < 1000; i++) CHECK(fh_heap_malloc(heap, 100) != NULL);
  uint64_t live = stats().live_bytes;
  fh_heap_destroy(heap);
  CHECK_LE(stats().live_bytes, live - 100000);
}
