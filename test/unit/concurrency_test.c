/* concurrency_test.c - every part of the core at once, in several threads, while
 * others count, visit and purge
 *
 * Under ThreadSanitizer these are the tests that find a word which one thread writes and another
 * reads without an atomic. */
#include "heaps.h"

enum { WORKERS = 3, ROUNDS = 20000, SHARED = 128, LEAST = 16 };

static atomic_ptr_t shared[SHARED]; /* blocks in any thread's reach */
static fh_heap_t *first_class;
static atomic32_t working;

static size_t pick_size(uint64_t *state) {
  uint64_t kind = core_next(state) % 1000;
  if (kind < 930) return LEAST + core_next(state) % 900;
  if (kind < 990) return LEAST + core_next(state) % 40000;
  if (kind < 999) return LEAST + core_next(state) % MiB(1);
  return HUGE_LEAST + MiB(1);
}

/* The size stands at both ends. */
static void sign(char *p, size_t size) {
  memcpy(p, &size, sizeof size);
  p[size - 1] = (char)(size | 1);
}
static size_t read_signature(const char *p) {
  size_t size;
  memcpy(&size, p, sizeof size);
  CHECK_EQ(p[size - 1], (char)(size | 1));
  return size;
}

static char *allocate(uint64_t *state, size_t size) {
  switch (core_next(state) % 8) {
    case 0: return firstclass_aligned(first_class, 1, size);
    case 1: return fast_aligned((size_t)16 << core_next(state) % 6, size);
    default: return fast_malloc(size);
  }
}

static void step(uint64_t *state) {
  size_t size = pick_size(state);
  char *p = allocate(state, size);
  CHECK(p != NULL);
  sign(p, size);
  char *old = atomic_ptr_exchange_acq_rel(&shared[core_next(state) % SHARED], p);
  if (old == NULL) return;
  size_t had = read_signature(old);
  if (core_next(state) % 8 != 0) return fast_free(old);
  char *moved = any_realloc(old, max_size(had / 2, LEAST) + core_next(state) % 2000, "realloc");
  CHECK(moved != NULL);
  fast_free(moved);
}

/* The last rounds come after the thread's end. */
static void work(uint64_t *state) {
  for (int i = 0; i < ROUNDS; i++) {
    step(state);
    if (i % (ROUNDS / 5) == 0) heap_collect(true);
    if (i == ROUNDS - ROUNDS / 8) os_fake_end_thread();
  }
  os_fake_end_thread(); /* a later round of destructors */
}

static void watch(void) {
  static fh_stats_t stats;
  while (atomic32_load_relaxed(&working) != 0) {
    heap_stats(&stats);
    CHECK_GT(stats.heaps, (uint64_t)0);
    purge_tick();
  }
}

static void work_or_watch(unsigned number) {
  uint64_t state = number + 1;
  if (number >= WORKERS) return watch();
  work(&state);
  atomic32_add_relaxed(&working, (uint32_t)-1);
}

/* Some workers and one that looks on; then everything comes back. */
static void run_all(void (*run)(unsigned number)) {
  first_class = firstclass_new();
  atomic32_store_relaxed(&working, WORKERS);
  core_threads(WORKERS + 1, run);
  for (int i = 0; i < SHARED; i++) fast_free(atomic_ptr_load_relaxed(&shared[i]));
  firstclass_delete(first_class);
  check_nothing_lost();
}

TEST(concurrency, threads_that_work_end_count_and_purge_at_once_spoil_nothing, "timeout=250") {
  run_all(work_or_watch);
}

/* ---- visitors ---- */

/* A visitor reads a word of each block of a slab, also one that the program writes
 * meanwhile, or that is part of a larger block by then. So here blocks are of one size, and
 * nothing is written at that word. */
static size_t visited_size; /* a class's */

static void churn_one_class(uint64_t *state) {
  for (int i = 0; i < 4 * ROUNDS; i++) {
    char *p = i % 3 ? fast_malloc(visited_size) : firstclass_aligned(first_class, 1, visited_size);
    memset(p + 16, 1, visited_size - 16);
    fast_free(atomic_ptr_exchange_acq_rel(&shared[core_next(state) % SHARED], p));
  }
  os_fake_end_thread();
}

static bool note_block(void *p, size_t size, void *context) {
  if (p == first_class) return true;
  CHECK_EQ(size, visited_size);
  CHECK((uintptr_t)p % SLICE_SIZE != 0 && (uintptr_t)p % SLICE_SIZE % visited_size == 0);
  ++*(size_t *)context;
  return true;
}

static void churn_or_visit(unsigned number) {
  uint64_t state = number + 1;
  size_t visited = 0;
  if (number < WORKERS) {
    churn_one_class(&state);
    atomic32_add_relaxed(&working, (uint32_t)-1);
    return;
  }
  for (bool is_last = false; !is_last;) { /* the last time all that the workers leave is there */
    is_last = atomic32_load_relaxed(&working) == 0;
    CHECK(heap_visit(&(visitor_t){.blocks = note_block, .context = &visited}));
    CHECK(firstclass_visit(first_class, &(visitor_t){.blocks = note_block, .context = &visited}));
  }
  CHECK_GT(visited, (size_t)0);
}

TEST(concurrency, blocks_that_come_and_go_are_visited_or_not_and_nothing_else_is, "timeout=250") {
  visited_size = 96;
  run_all(churn_or_visit);
}

TEST(concurrency, so_are_blocks_of_slabs_that_no_heap_keeps, "timeout=250") {
  visited_size = 1280;
  run_all(churn_or_visit);
}

/* ---- what one thread did with a block before it freed it is over when the slab's
 * slice is used again */

static slab_t *handed_over;
static uintptr_t last_block;
static atomic32_t is_freed; /* relaxed: it must not order what the anchor has to order */

static void free_last_block(void) {
  ((char *)last_block)[40] = 1;
  CHECK(slab_push(handed_over, last_block, last_block, 1, NULL) == SLAB_SHARED);
  atomic32_store_relaxed(&is_freed, 1);
}

static void let_go_of_empty_slab(void) {
  while (atomic32_load_relaxed(&is_freed) == 0) {}
  CHECK(slab_let_go(handed_over) == SLAB_IS_EMPTY);
  ((char *)last_block)[40] = 2;
}

static void free_or_let_go(unsigned number) {
  if (number == 0) free_last_block();
  else let_go_of_empty_slab();
}

TEST(concurrency, an_owner_that_finds_its_slab_empty_sees_what_the_last_free_saw, "S-anchor") {
  static int owner;
  bool is_clean;
  unsigned count;
  handed_over = slab_new(arena_claim(1, 1, &is_clean), class_of(96), &owner, NULL);
  last_block = slab_take_some(handed_over, 1, &count);
  core_threads(2, free_or_let_go);
}
