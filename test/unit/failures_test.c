/* failures_test.c - each system call of a fixed script fails in turn: NULL or success, nothing
 * lost, and all well afterwards
 *
 * Two scripts: a mixture of all sizes, and a tour of what else asks the system for something. */
#include "heaps.h"

#include "../../src/arena/places.h"

enum { SLOTS = 24, STEPS = 1300 };
static struct {
  unsigned char *p;
  size_t n;
  unsigned char byte;
} slot[SLOTS];

/* The same calls each time, whatever of them fails. */
static size_t pick_size(uint64_t *state) {
  uint64_t kind = core_next(state) % 100;
  if (kind < 60) return 1 + core_next(state) % 2000;
  if (kind < 85) return 1 + core_next(state) % 60000;
  if (kind < 94) return 1 + core_next(state) % MiB(1);
  return HUGE_LEAST + core_next(state) % MiB(4);
}

static void check_slot(unsigned k, size_t n) {
  size_t head = min_size(n, 300);
  if (n == 0) return;
  CHECK_BYTES(slot[k].p, slot[k].byte, head);
  CHECK_EQ(slot[k].p[n - 1], slot[k].byte);
}

static void fill_slot(unsigned k, unsigned char byte) {
  slot[k].byte = byte;
  memset(slot[k].p, byte, min_size(slot[k].n, 300));
  slot[k].p[slot[k].n - 1] = byte;
}

static unsigned failed_calls;

typedef void script_t(bool must_succeed);

static void run_mixture(bool must_succeed) {
  uint64_t state = 11;
  for (int i = 0; i < STEPS; i++) {
    unsigned k = core_next(&state) % SLOTS;
    size_t n = pick_size(&state);
    unsigned what = core_next(&state) % 10;
    os_fake.now_ms += 3;
    if (slot[k].p != NULL && what < 3 && core_next(&state) % 2) {
      check_slot(k, slot[k].n);
      fast_free(slot[k].p);
      slot[k].p = NULL;
      continue;
    }
    size_t old = slot[k].p != NULL ? slot[k].n : 0;
    unsigned char *p = slot[k].p != NULL ? any_realloc(slot[k].p, n, "realloc")
                       : what == 0       ? heap_calloc(1, n)
                       : what == 1       ? fast_aligned(4096, n)
                                         : fast_malloc(n);
    failed_calls += p == NULL;
    if (must_succeed) CHECK(p != NULL);
    if (p == NULL) { /* the old block is untouched */
      if (slot[k].p != NULL) check_slot(k, slot[k].n);
      continue;
    }
    slot[k].p = p;
    if (old != 0) CHECK_BYTES(p, slot[k].byte, min_size(min_size(old, n), 300));
    else if (what == 0) CHECK_BYTES(p, 0, min_size(n, 5000));
    slot[k].n = n;
    fill_slot(k, (unsigned char)(i | 1));
  }
  for (unsigned k = 0; k < SLOTS; k++) {
    if (slot[k].p != NULL) check_slot(k, slot[k].n);
    fast_free(slot[k].p);
    slot[k].p = NULL;
  }
}

/* ---- the tour ---- */

/* NULL is an answer unless nothing may fail; memory that was had is written to. */
static void *answer(void *p, size_t n, bool must_succeed) {
  failed_calls += p == NULL;
  if (must_succeed) CHECK(p != NULL);
  if (p != NULL && n != 0) ((char *)p)[0] = ((char *)p)[n - 1] = 77;
  return p;
}
static void check_kept(const char *p, size_t n) {
  CHECK_EQ(p[0], 77);
  CHECK_EQ(p[n - 1], 77);
}

/* One block through every size, up by doubling and down again, with a wall behind it now and
 * then. */
static void grow_and_shrink(bool must_succeed) {
  size_t n = 100, most = MiB(30);
  char *p = answer(fast_malloc(n), n, must_succeed);
  for (int up = 1; up >= 0; up--)
    while (p != NULL && (up ? n < most : n > 200)) {
      size_t next = up ? n * 2 : n / 2;
      void *wall = up && bits_count(n) % 2 ? answer(fast_malloc(100000), 1, must_succeed) : NULL;
      char *moved = any_realloc(p, next, "realloc");
      check_kept(moved != NULL ? moved : p, moved != NULL ? 1 : n);
      if (moved == NULL && !up) break; /* a block that cannot shrink keeps its size */
      fast_free(wall);
      if (answer(moved, next, must_succeed) == NULL) break;
      p = moved;
      n = next;
    }
  fast_free(p);
}

/* In a heap of the program's own, which then ends in one of its two ways. */
static void use_first_class(bool must_succeed, void (*end)(fh_heap_t *heap)) {
  static const size_t sizes[] = {50, 3000, 100000, MiB(2), HUGE_LEAST};
  fh_heap_t *heap = answer(firstclass_new(), 0, must_succeed);
  if (heap == NULL) return;
  for (size_t i = 0; i < 4 * ARRAY_LENGTH(sizes); i++) {
    size_t n = sizes[i / 4];
    char *p = i % 4 == 0 ? heap_clear(firstclass_aligned(heap, 1, n), n)
                         : firstclass_aligned(heap, i % 4 == 1 ? 4096 : 1, n);
    if (answer(p, n, must_succeed) == NULL) continue;
    char *q =
      i % 4 == 3 && n < MiB(1) ? firstclass_realloc(heap, p, 2 * n, "fh_heap_realloc") : NULL;
    if (q != NULL) check_kept(q, 1);
    else check_kept(p, n);
    if (i % 4 == 2 || end == firstclass_delete) fast_free(q != NULL ? q : p);
  }
  end(heap);
}

static void use_and_end(void *must_succeed) {
  enum { MANY = 70 }; /* more than the first chunk of heaps is for */
  char *small[MANY];
  for (int i = 0; i < MANY; i++) small[i] = answer(fast_malloc(1000), 1000, must_succeed != NULL);
  for (int i = 0; i < MANY; i++) fast_free(small[i]);
}

static void claim_many_heaps(bool must_succeed) {
  enum { MANY = PLACES_IN_CHUNK + 5 };
  heap_t *heaps[MANY];
  for (int i = 0; i < MANY; i++) heaps[i] = answer(pool_claim(), 0, must_succeed);
  for (int i = 0; i < MANY; i++)
    if (heaps[i] != NULL) pool_release(heaps[i]);
}

static void make_dirty_and_purge(bool must_succeed) {
  enum { MANY = 12 };
  void *large[MANY];
  for (int i = 0; i < MANY; i++) large[i] = answer(fast_malloc(MiB(3)), MiB(3), must_succeed);
  for (int i = 0; i < MANY; i++) fast_free(large[i]);
  os_fake.now_ms += 1000;
  purge_tick();
  heap_collect(true);
}

static void run_tour(bool must_succeed) {
  bool huge_pages = option_get(OPTION_thp) != THP_AUTO;
  core_option(OPTION_thp, huge_pages ? THP_AUTO : THP_ALWAYS);
  grow_and_shrink(must_succeed);
  use_first_class(must_succeed, firstclass_delete);
  use_first_class(must_succeed, firstclass_destroy);
  in_thread(use_and_end, must_succeed ? &must_succeed : NULL, true);
  claim_many_heaps(must_succeed);
  make_dirty_and_purge(must_succeed);
  fast_free(answer(fast_aligned(GiB(1), 100), 100, must_succeed));
  fast_free(answer(fast_aligned(MiB(1), MiB(5)), MiB(5), must_succeed));
}

/* ---- each call in turn ---- */

/* `allowed`: slices that a failed mmap over a moved block's place has cost, the only
 * loss there may be. */
static void check_loss(uint64_t allowed) {
  heap_collect(true);
  CHECK_LE(committed(), allowed);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.huge_bytes), (uint64_t)0);
  CHECK_EQ(
    atomic64_load_relaxed(&heap_counts.large_live) + atomic64_load_relaxed(&heap_counts.huge_live),
    (uint64_t)0);
}

static void fail_one(script_t *script, uint32_t kinds, uint64_t k, bool all_after) {
  os_fake_fail(kinds, k, all_after);
  script(false);
  bool was_reached = all_after ? os_fake.fail_at == 1 : os_fake.fail_at == 0;
  os_fake_fail(0, 0, false);
  check_loss(kinds & 1u << OS_FAKE_MAP_AT ? os_fake.calls[OS_FAKE_MOVE] * 2048 : 0);
  uint64_t lost = committed();
  failed_calls = 0;
  script(true);
  check_loss(lost);
  _exit(was_reached ? 0 : 50);
}

/* Fails call 1, 2, 3 ... of these kinds until the script makes no more. */
static void fail_each(script_t *script, uint32_t kinds, bool all_after, uint64_t step) {
  uint64_t k = 1;
  for (;; k += step) {
    test_child_t c;
    if (test_fork(&c, 60)) fail_one(script, kinds, k, all_after);
    test_reap(&c);
    if (WIFEXITED(c.status) && WEXITSTATUS(c.status) == 50) break;
    if (!WIFEXITED(c.status) || WEXITSTATUS(c.status) != 0)
      FAIL("call %d failed, and then: %s", (int)k, c.text);
  }
  CHECK_GE(k, 4u);
}

enum { MADVISE = OS_FAKE_ADVISING | 1u << OS_FAKE_ADVISE_HUGE, MUNMAP = 1u << OS_FAKE_UNMAP };

static void succeed_with(script_t *script) {
  script(true);
  check_nothing_lost();
  CHECK_GT(count_calls(OS_FAKE_MAPPING), (uint64_t)15);
  CHECK_GT(count_calls(OS_FAKE_CHANGING), (uint64_t)3);
  CHECK_GT(count_calls(OS_FAKE_ADVISING), (uint64_t)5);
}
TEST(failures, without_any_the_mixture_succeeds_and_loses_nothing, "") {
  succeed_with(run_mixture);
}
TEST(failures, without_any_the_tour_succeeds_and_loses_nothing, "") { succeed_with(run_tour); }

#define FAIL_EACH(name, ...)                                                                       \
  TEST(failures, name, "timeout=200") { fail_each(__VA_ARGS__); }
FAIL_EACH(whichever_mmap_fails_calls_return_null_or_succeed_and_nothing_is_lost, run_mixture,
          OS_FAKE_MAPPING, false, 1)
FAIL_EACH(from_whichever_mmap_on_all_fail_calls_return_null_or_succeed_and_nothing_is_lost,
          run_mixture, OS_FAKE_MAPPING, true, 2)
FAIL_EACH(whichever_mremap_fails_the_blocks_stay_whole_and_nothing_is_lost, run_mixture,
          OS_FAKE_CHANGING, false, 1)
FAIL_EACH(whichever_madvise_fails_the_blocks_stay_whole_and_nothing_is_lost, run_mixture, MADVISE,
          false, 3)
TEST(failures, if_every_madvise_fails_memory_is_used_and_freed_all_the_same, "") {
  os_fake_fail(MADVISE, 1, true);
  run_mixture(true);
  check_loss(0);
  os_fake_fail(0, 0, false);
  check_nothing_lost();
}
FAIL_EACH(from_whichever_call_on_all_fail_nothing_is_lost, run_mixture, OS_FAKE_ANY & ~MUNMAP, true,
          5)

FAIL_EACH(whichever_mmap_of_the_tour_fails_nothing_is_lost, run_tour, OS_FAKE_MAPPING, false, 1)
FAIL_EACH(from_whichever_mmap_of_the_tour_on_all_fail_nothing_is_lost, run_tour, OS_FAKE_MAPPING,
          true, 1)
FAIL_EACH(whichever_mremap_of_the_tour_fails_nothing_is_lost, run_tour, OS_FAKE_CHANGING, false, 1)
FAIL_EACH(from_whichever_mremap_of_the_tour_on_all_fail_nothing_is_lost, run_tour, OS_FAKE_CHANGING,
          true, 1)
FAIL_EACH(whichever_madvise_of_the_tour_fails_nothing_is_lost, run_tour, MADVISE, false, 1)
FAIL_EACH(whichever_munmap_of_the_tour_fails_nothing_but_its_range_is_lost, run_tour, MUNMAP, false,
          1)
FAIL_EACH(from_whichever_call_of_the_tour_on_all_fail_nothing_is_lost, run_tour, OS_FAKE_ANY, true,
          3)

TEST(failures, a_huge_block_that_cannot_shrink_is_large_enough_all_the_same, "U1") {
  char *p = huge_malloc(NULL, MiB(64));
  p[MiB(64) - 1] = 5;
  os_fake_fail(OS_FAKE_CHANGING, 1, true);
  CHECK(heap_expand(p, MiB(40), "t"));
  CHECK_EQ(heap_usable_size(p, "t"), MiB(64));
  CHECK_EQ(p[MiB(64) - 1], 5);
  CHECK(!heap_expand(p, MiB(70), "t"));
  os_fake_fail(0, 0, false);
  CHECK(heap_expand(p, MiB(40), "t"));
  CHECK_EQ(heap_usable_size(p, "t"), MiB(40));
  fast_free(p);
  check_nothing_lost();
}
