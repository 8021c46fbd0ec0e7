/* magazine.c - slices without blocks that a heap keeps for itself                     layer 5: heap
 * Owns:    the sum of all shares.   Called by: heap.   Calls: slab, arena, support.
 * Threads: the heap's own; the sum is a bound that may be passed by a few of them.
 * Holds:   L2 slices on a list of a magazine are claimed, of no kind, and as many as is counted
 *
 * What a thread has freed it often needs again soon, and the arena's bits and counts are words that
 * all threads share. So a few slices are kept: single ones, for slabs and for large blocks, and
 * runs of several, for large blocks. */
#include "../base/check.h"
#include "../support/options.h"
#include "heap.h"

static atomic32_t run_shares; /* of all heaps. relaxed */

static size_t singles_most(void) { return (size_t)option_get(OPTION_magazine) >> SLICE_SHIFT; }

static void count(heap_t *h, size_t n, int sign) {
  if (n == 1) h->singles += (uint32_t)sign;
  else h->run_slices += (uint16_t)((int)n * sign);
}

static void put(heap_t *h, slab_t *s, size_t n) {
  s->next = slab_numbered(h->magazine[n - 1]);
  h->magazine[n - 1] = slab_number(s);
  count(h, n, 1);
}

slab_t *heap_take_run(heap_t *h, size_t n) {
  if (n > RUN_MOST) return NULL;
  slab_t *s = slab_numbered(h->magazine[n - 1]);
  if (s == NULL) return NULL;
  h->magazine[n - 1] = slab_number(s->next);
  count(h, n, -1);
  return s;
}

static void release_run(slab_t *s, size_t n) { arena_release((void *)slab_base(s), n); }

void heap_put_slice(heap_t *h, slab_t *s) {
  slab_retire(s);
  if (h->singles < singles_most() && heap_tag(h) == NULL) {
    put(h, s, 1);
    return;
  }
  release_run(s, 1);
  if (h->trims_due < UINT8_MAX) h->trims_due++;
}

static size_t share_most(void) { return RUN_TIMES * singles_most(); }

/* A share grows with what its heap allocates. The first few slices are a heap's due; more it has
 * while the shares of all are a small part of what is in use. */
static void grow_share(heap_t *h, size_t earned) {
  size_t share = min_size(h->run_share + RUN_LEAST, min_size(earned, share_most()));
  uint64_t part = atomic64_load_relaxed(&arena_counts.committed) / RUN_PART;
  bool is_due = h->run_share < RUN_LEAST ||
                atomic32_load_relaxed(&run_shares) < max_size(part, RUN_TOTAL);
  if (share <= h->run_share || !is_due) return;
  atomic32_add_relaxed(&run_shares, (uint32_t)share - h->run_share);
  h->run_share = (uint16_t)share;
}

/* The longest of the others make room: they are the fewest. */
static bool make_room(heap_t *h, size_t n, size_t earned) {
  if (n == 1) return h->singles < min_size(earned, singles_most());
  if (n > RUN_MOST) return false;
  if (h->run_slices + n > h->run_share) grow_share(h, earned);
  size_t share = min_size(h->run_share, share_most());
  if (n > share) return false;
  for (size_t longest = RUN_MOST; h->run_slices + n > share;) { /* Bound: the runs */
    slab_t *s = heap_take_run(h, longest);
    if (s != NULL) release_run(s, longest);
    else longest--;
  }
  return true;
}

void heap_put_run(heap_t *h, slab_t *s, size_t n) {
  size_t earned = atomic64_load_relaxed(&h->large_allocated) / RUN_EARNED;
  if (make_room(h, n, earned)) put(h, s, n);
  else release_run(s, n);
}

size_t heap_claim_ahead(heap_t *h, char *at, size_t n) {
  bool clean;
  n = min_size(n, singles_most());
  if (n == 0 || heap_tag(h) != NULL || !arena_claim_at(at, n, &clean)) return 0;
  for (size_t i = n; i-- > 0;) put(h, slab_of(at + (i << SLICE_SHIFT)), 1); /* the lowest first */
  return clean ? n : 0;
}

void heap_empty_magazine(heap_t *h) {
  for (size_t n = 1; n <= RUN_MOST; n++)
    for (slab_t *s; (s = heap_take_run(h, n)) != NULL;) release_run(s, n); /* Bound: the runs */
  if (h->run_share != 0) atomic32_add_relaxed(&run_shares, 0u - h->run_share);
  h->run_share = 0;
}

static bool is_claimed(const slab_t *s) {
  size_t slice = arena_slice((void *)slab_base(s));
  return (atomic64_load_relaxed(&arena_of(s)->free[slice / 64]) >> slice % 64 & 1) == 0;
}

bool heap_magazine_is_valid(const heap_t *h) {
  size_t slices[2] = { 0 };
  for (size_t n = 1; n <= RUN_MOST; n++)
    for (slab_t *s = slab_numbered(h->magazine[n - 1]); s != NULL; s = s->next) { /* Bound: L2 */
      HOLDS(L2, slab_kind(slab_word(s)) == SLAB_NONE && is_claimed(s));
      slices[n > 1] += n;
    }
  HOLDS(L2, slices[0] == h->singles && slices[1] == h->run_slices);
  return true;
}
