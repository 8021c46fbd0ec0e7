/* tails.c - what large blocks leave unused of slices that are in memory              layer 5: stock
 * Contract: tails.h.
 *
 * A block of 18 KiB in a slice that was wholly used before holds 64 KiB: the other 44 are its tail.
 * Tails may be a part of what large blocks use. Beyond that a block gives its tail back when it is
 * allocated or resized, and the longer its tail is for its size, the sooner. A page has 4 KiB
 * here. */
#include "tails.h"

#include "../arena/budget.h"
#include "../os/os.h"
#include "pool.h"

enum {
  TAILS_PART = 16,        /* tails may be this part of what large blocks use */
  TAILS_BUDGET_PART = 16, /* in addition, they may be this part of purge_budget */
  LARGE_LEAST = 8192,     /* pages, 32 MiB: while large blocks use less, all of purge_budget */
  TAIL = 1 << 20,      /* one page of a tail in a heap's word; its pages are below half of this */
  DISCARDS_MOST = 128, /* in a millisecond */
  DISCARDS_MS = 8,     /* milliseconds whose discards may be made at once */
};
enum { TAILS_STEP = 64, LARGE_STEP = TAILS_PART * TAILS_STEP }; /* pages that a heap counts alone */

static size_t pages_of(const slab_t *s) { return atomic64_load_relaxed(&s->size) >> TOUCHED_SHIFT; }
static size_t pages_in_last(size_t pages) { return (pages - 1) % TOUCHED_ALL + 1; }

/* For the slice in which the block ends: more may follow, its headroom. */
static always_inline uint8_t *touched_of(const slab_t *s, size_t pages) {
  size_t slice = (uintptr_t)s % WINDOW_SIZE >> DESCRIPTOR_SHIFT;
  return &arena_maps(arena_of(s))->touched[slice + (pages - 1) / TOUCHED_ALL];
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* relaxed, all of them: unsettled counts of heaps may pass the bound. */
static int64_t large_pages(void) {
  return (int64_t)atomic64_load_relaxed(&heap_counts.large_pages);
}
static int64_t all_tails(void) { return (int64_t)atomic64_load_relaxed(&heap_counts.tails); }

static int64_t pages_anyway(void) {
  int64_t budget = budget_is_tight() ? 0 : option_get(OPTION_purge_budget) >> TOUCHED_SHIFT;
  return large_pages() < LARGE_LEAST ? budget : budget / TAILS_BUDGET_PART;
}

/* `pages_anyway` when a sum last changed. */
static atomic64_t anyway;

static int32_t pages_in(int32_t sums) { return ((sums + TAIL / 2) & (TAIL - 1)) - TAIL / 2; }

static void add(int32_t sums) {
  int32_t pages = pages_in(sums), tails = (sums - pages) / TAIL;
  if (tails != 0) atomic64_add_relaxed(&heap_counts.tails, (uint64_t)tails);
  if (pages != 0) atomic64_add_relaxed(&heap_counts.large_pages, (uint64_t)pages);
  uint64_t now = (uint64_t)pages_anyway();
  if (now != atomic64_load_relaxed(&anyway)) atomic64_store_relaxed(&anyway, now);
}

void tails_settle(heap_t *h) {
  if (h->tails != 0) add(h->tails);
  h->tails = 0;
}

static bool is_far(int32_t sums) {
  uint32_t near = (2 * LARGE_STEP - 1) | (uint32_t)(2 * TAILS_STEP - 1) * TAIL;
  return (((uint32_t)sums + LARGE_STEP + TAILS_STEP * TAIL) & ~near) != 0;
}

/* One of the two is far. The other is added only if it is far, too. */
static out_of_line void settle_far(heap_t *h) {
  int32_t pages = pages_in(h->tails), part = is_far(h->tails - pages) ? h->tails : pages;
  add(part);
  h->tails -= part;
}

static always_inline void count(heap_t *h, int32_t sums) {
  if (unlikely(h == NULL)) return add(sums);
  h->tails += sums;
  if (unlikely(is_far(h->tails))) settle_far(h);
}

size_t tails_wish(size_t size) {
  if (likely(all_tails() <= (int64_t)atomic64_load_relaxed(&anyway))) return 0;
  if (option_get(OPTION_purge_delay_ms) < 0) return 0;
  return pages_in_last(size >> TOUCHED_SHIFT);
}

/* ---- a block's tail -------------------------------------------------------------------------- */

static bool is_too_long(size_t tail, size_t pages) {
  int64_t most = pages_anyway() + large_pages() / TAILS_PART, rest = most - all_tails();
  return (int64_t)tail * most > 2 * rest * (int64_t)pages;
}

/* os_now_ms at the last discard, how many more are allowed, and BUSY. relaxed: nothing is handed
 * over. */
static struct {
  atomic64_t word;
} aligned_to(64) discards; /* a line of its own: all threads write to it */
enum { BUSY = 1, LEFT_SHIFT = 1, AT_SHIFT = 32 };

/* DISCARDS_MOST in a millisecond: a program that replaces its blocks faster has them in its caches,
 * and a system that refuses is not asked again and again. With more than two processors only one
 * thread at a time: if several change page tables at once, each call makes all processors forget
 * what they know of them. No thread waits: it goes on with its tail. A thread that stops here keeps
 * others out until the clock moves. */
static bool begin_discard(void) {
  uint64_t word = atomic64_load_relaxed(&discards.word);
  uint32_t now = os_now_ms(), passed = os_ms_between((uint32_t)(word >> AT_SHIFT), now);
  size_t left = (uint32_t)word >> LEFT_SHIFT;
  if (passed != 0) left = min_size(passed, DISCARDS_MS) * DISCARDS_MOST;
  if (left == 0 || (passed == 0 && (word & BUSY) != 0 && users_running() > 2)) return false;
  uint64_t next = (uint64_t)now << AT_SHIFT | (left - 1) << LEFT_SHIFT | BUSY;
  return atomic64_cas_relaxed(&discards.word, &word, next); /* not tried again */
}
static void end_discard(void) { atomic64_and_relaxed(&discards.word, ~(uint64_t)BUSY); }

static bool discard(const slab_t *s, size_t tail) {
  size_t bytes = tail << TOUCHED_SHIFT, size = atomic64_load_relaxed(&s->size);
  if (!is_too_long(tail, pages_of(s)) || !begin_discard()) return false;
  bool is_done = arena_discard((char *)slab_base(s) + size, bytes);
  end_discard();
  if (is_done) atomic64_add_relaxed(&arena_counts.purged, bytes);
  return is_done;
}

/* A block of `pages` pages with `tail` more behind it. */
static always_inline void count_tail(heap_t *h, slab_t *s, size_t pages, size_t tail) {
  s->counted = (int32_t)(tail * TAIL + pages);
  count(h, s->counted);
}

static cold void enter_or_discard(heap_t *h, slab_t *s, size_t tail) {
  size_t pages = pages_of(s);
  if (discard(s, tail)) {
    *touched_of(s, pages) = (uint8_t)pages_in_last(pages);
    tail = 0;
  }
  count_tail(h, s, pages, tail);
}

void tails_count(heap_t *h, slab_t *s, size_t wish) {
  size_t pages = pages_of(s), used = pages_in_last(pages);
  uint8_t *touched = touched_of(s, pages);
  size_t tail = *touched - min_size(used, *touched);
  if (tail == 0 && *touched != used) *touched = (uint8_t)used; /* if need be: others' lie beside */
  if (tail != 0 && unlikely(wish != 0)) return enter_or_discard(h, s, tail);
  count_tail(h, s, pages, tail);
}

void tails_uncount(heap_t *h, const slab_t *s) { count(h, -s->counted); }

size_t tails_end(heap_t *h, const slab_t *s) {
  int32_t pages = pages_in(s->counted), tail = (s->counted - pages) / TAIL;
  tails_uncount(h, s);
  return pages_in_last((size_t)pages) + (size_t)tail;
}

bool tails_are_valid(const slab_t *s) {
  size_t pages = pages_of(s), touched = *touched_of(s, pages);
  HOLDS(L3, touched >= pages_in_last(pages) && touched <= TOUCHED_ALL);
  HOLDS(L3, (size_t)s->counted == (touched - pages_in_last(pages)) * TAIL + pages);
  return true;
}
