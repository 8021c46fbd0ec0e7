/* failures_test.c - each system call of a fixed script fails in turn: NULL or success, nothing lost, and all well afterwards */
#include "heaps.h"

enum { SLOTS = 24, STEPS = 1300 };
static struct { unsigned char *p; size_t n; unsigned char byte; } slot[SLOTS];

/* The same calls each time, whatever of them fails. */
static size_t pick_size(uint64_t *state) {
  uint64_t kind = core_next(state) % 100;
  if (kind < 60) return 1 + core_next(state) % 2000;
  if (kind < 85) return 1 + core_next(state) % 60000;
  if (kind < 94) return 1 + core_next(state) % MiB(1);
  return MiB(32) + core_next(state) % MiB(4);
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

static void run_script(bool must_succeed) {
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
    unsigned char *p = slot[k].p != NULL ? heap_realloc(slot[k].p, n, "realloc")
                       : what == 0 ? heap_calloc(1, n)
                       : what == 1 ? heap_aligned(4096, n)
                                   : fast_malloc(n);
    failed_calls += p == NULL;
    if (must_succeed) CHECK(p != NULL);
    if (p == NULL) {                                          /* the old block is untouched */
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

/* Slices that a failed mmap over a moved block's place has cost: known, and the only loss that is allowed. */
static void check_loss(uint64_t allowed) {
  heap_collect(true);
  CHECK_LE(committed(), allowed);
  CHECK_EQ(atomic64_load_relaxed(&arena_counts.huge_bytes), (uint64_t)0);
  CHECK_EQ(atomic64_load_relaxed(&heap_counts.large_live) + atomic64_load_relaxed(&heap_counts.huge_live), (uint64_t)0);
}

static uint64_t count_calls(uint32_t kinds) {
  uint64_t n = 0;
  for (int i = 0; i < OS_FAKE_CALLS; i++)
    if (kinds >> i & 1) n += os_fake.calls[i];
  return n;
}

static void fail_one(uint32_t kinds, uint64_t k, bool all_after) {
  os_fake_fail(kinds, k, all_after);
  run_script(false);
  bool was_reached = all_after ? os_fake.fail_at == 1 : os_fake.fail_at == 0;
  os_fake_fail(0, 0, false);
  check_loss(kinds & 1u << OS_FAKE_MAP_AT ? os_fake.calls[OS_FAKE_MOVE] * 64 : 0);
  uint64_t lost = committed();
  failed_calls = 0;
  run_script(true);
  check_loss(lost);
  _exit(was_reached ? 0 : 50);
}

/* Fails call 1, 2, 3 ... of these kinds until the script makes no more. */
static void fail_each(uint32_t kinds, bool all_after, uint64_t step) {
  uint64_t k = 1;
  for (;; k += step) {
    test_child_t c;
    if (test_fork(&c, 60)) fail_one(kinds, k, all_after);
    test_reap(&c);
    if (WIFEXITED(c.status) && WEXITSTATUS(c.status) == 50) break;
    if (!WIFEXITED(c.status) || WEXITSTATUS(c.status) != 0) FAIL("call %d failed, and then: %s", (int)k, c.text);
  }
  CHECK_GE(k, 4u);
}

TEST(failures, without_any_the_script_succeeds_and_loses_nothing, "") {
  run_script(true);
  check_nothing_lost();
  CHECK_GT(count_calls(OS_FAKE_MAPPING), (uint64_t)20);
  CHECK_GT(count_calls(OS_FAKE_CHANGING), (uint64_t)3);
  CHECK_GT(count_calls(OS_FAKE_ADVISING), (uint64_t)5);
}

TEST(failures, whichever_mmap_fails_calls_return_null_or_succeed_and_nothing_is_lost, "timeout=200") {
  fail_each(OS_FAKE_MAPPING, false, 1);
}
TEST(failures, from_whichever_mmap_on_all_fail_calls_return_null_or_succeed_and_nothing_is_lost, "timeout=200") {
  fail_each(OS_FAKE_MAPPING, true, 2);
}
TEST(failures, whichever_mremap_fails_the_blocks_stay_whole_and_nothing_is_lost, "timeout=200") {
  fail_each(OS_FAKE_CHANGING, false, 1);
}
TEST(failures, whichever_madvise_fails_the_blocks_stay_whole_and_nothing_is_lost, "timeout=200") {
  fail_each(OS_FAKE_ADVISING | 1u << OS_FAKE_ADVISE_HUGE, false, 3);
}
TEST(failures, if_every_madvise_fails_memory_is_used_and_freed_all_the_same, "") {
  os_fake_fail(OS_FAKE_ADVISING | 1u << OS_FAKE_ADVISE_HUGE, 1, true);
  run_script(true);
  check_loss(0);
  os_fake_fail(0, 0, false);
  check_nothing_lost();
}
TEST(failures, from_whichever_call_on_all_fail_nothing_is_lost, "timeout=200") {
  fail_each(OS_FAKE_ANY & ~(1u << OS_FAKE_UNMAP), true, 5);
}
