/* pool.c - where heaps come from, and what is left of those that are gone            layer 5: stock
 * Contract: pool.h. Sync: S-bit (bitmap.h): the next user sees what the last one left. */
#include "pool.h"

#include "../arena/places.h"
#include "../base/layout.h"
#include "stock.h"

_Static_assert(sizeof(heap_t) <= 1216, "what a thread costs that has a few blocks");
_Static_assert(sizeof(heap_t) + sizeof(heap_aside_t) + sizeof(heap_own_t) <= 4096 + SECURE * 64,
               "... at most");

heap_counts_t heap_counts;
atomic32_t heap_trims;

static large_table places_t heaps;
LAYOUT_VARIABLE(heap_counts);
LAYOUT_VARIABLE(heaps);

typedef struct {
  heap_t heaps[PLACES_IN_CHUNK];
  heap_aside_t aside[PLACES_IN_CHUNK];
  heap_own_t own[PLACES_IN_CHUNK];
  heap_sampled_t sampled[PLACES_IN_CHUNK];
  quarantine_t quarantine[SECURE ? PLACES_IN_CHUNK : 0];
} heap_chunk_t;
/* Most programs need no mapping for their heaps: the first heap has all it needs on one page. */
static large_table struct {
  heap_own_t own;
  heap_aside_t aside;
  heap_chunk_t chunk;
} aligned_to(4096) first_heap;
static const places_shape_t shape_of_heaps = {sizeof(heap_t), sizeof(heap_chunk_t),
                                              &first_heap.chunk};
LAYOUT_SIZE(heap_chunk_t);
_Static_assert(offsetof(heap_chunk_t, sampled) == SAMPLED_AT, "sample_of finds it");

/* A bit for each place whose heap rests; the place's holder changes it. relaxed: a hint; the claim
 * decides. */
static large_table atomic64_t rests[PLACES_CHUNKS];

/* What all resting heaps hold. relaxed: a bound that a few heaps may pass. */
static atomic32_t resting_pages;

uint32_t pool_resting_pages(void) { return atomic32_load_relaxed(&resting_pages); }

/* The caller uses the heap from now on. True if it rested. */
static bool wake(heap_t *h) {
  uint32_t pages = atomic32_load_relaxed(&h->resting_pages);
  if (pages == 0) return false;
  atomic32_store_relaxed(&h->resting_pages, 0);
  atomic32_add_relaxed(&resting_pages, 0 - pages);
  atomic64_and_relaxed(&rests[heap_number(h) / 64], ~((uint64_t)1 << heap_number(h) % 64));
  h->busy = 0;
  return true;
}

static heap_chunk_t *chunk_with(const heap_t *h, size_t number) {
  return (heap_chunk_t *)(h - number % PLACES_IN_CHUNK);
}

/* Readies the heap at a place that the caller has claimed. It rested, or has nothing in it. */
static heap_t *ready(heap_t *h, uint32_t number) {
  if (wake(h)) return h;
  atomic32_store_relaxed(&h->number, number);
  bool is_first = h == first_heap.chunk.heaps;
  h->aside = is_first ? &first_heap.aside : &chunk_with(h, number)->aside[number % PLACES_IN_CHUNK];
  h->own = is_first ? &first_heap.own : &chunk_with(h, number)->own[number % PLACES_IN_CHUNK];
  if (SECURE) {
    h->aside->quarantine[0] = &chunk_with(h, number)->quarantine[number % PLACES_IN_CHUNK];
    quarantine_begin(heap_quarantine(h), number);
  }
  atomic64_store_relaxed(&h->home, WINDOW_NONE);
  h->trims_seen = (uint16_t)atomic32_load_relaxed(&heap_trims);
  h->busy = 0;
  return h;
}

static heap_t *at_place(size_t number) { return pool_at(number, &(bool){false}); }

/* The number of the last heap that was a lane, plus 1. That heap is empty. relaxed: a hint */
static atomic32_t last_lane;

heap_t *pool_claim_lane(void) {
  uint32_t last = atomic32_load_relaxed(&last_lane);
  if (last == 0 || !places_claim_at(&heaps, last - 1)) return pool_claim();
  return ready(at_place(last - 1), last - 1);
}

/* The first use of a place checks some others. So heaps that dead threads left are found as they
 * become many, and no thread checks all places. */
heap_t *pool_claim(void) {
  enum { WORDS = 8 * POOL_ASK_WORDS, WORDS_AT_END = 128 * WORDS };
  uint32_t number;
  heap_t *h = places_claim(&heaps, &shape_of_heaps, &number), *dead = NULL;
  bool is_new = h != NULL && !heap_was_used(h);
  size_t words = is_new ? WORDS : WORDS_AT_END;
  if ((h == NULL || is_new) && users_are_known()) dead = pool_claim_dead(&words);
  if (dead != NULL && is_new) places_release(&heaps, number);
  if (dead != NULL) return dead;
  return h == NULL ? NULL : ready(h, number);
}

void pool_abandon(heap_t *h) {
  magazine_forget(h);
  returned_forget(h);
  users_leave(heap_number(h));
}

heap_t *pool_claim_nested(void) {
  heap_t *h = pool_claim();
  if (h != NULL && users_thread(heap_number(h)) != 0) pool_abandon(h);
  return h;
}

static void rest(heap_t *h, uint32_t pages) {
  users_leave(heap_number(h));
  atomic32_add_relaxed(&resting_pages, pages);
  atomic32_store_relaxed(&h->resting_pages, pages);
  atomic_ptr_store_relaxed(&h->nested, NULL);
  atomic64_or_relaxed(&rests[heap_number(h) / 64], (uint64_t)1 << heap_number(h) % 64);
  places_release(&heaps, heap_number(h));
}

/* The more chunks lie below a heap, the less it may rest with. So if heaps are very many, the lower
 * ones rest, and the chunks of the others can go back. */
bool pool_rest(heap_t *h, uint32_t pages) {
  size_t below = heap_number(h) / PLACES_IN_CHUNK * PLACES_IN_CHUNK;
  if (budget_is_tight() || pages > RESTING_PAGES_EACH ||
      pool_resting_pages() + 2 * below + pages > RESTING_PAGES)
    return false;
  rest(h, pages);
  return true;
}

void pool_return_unused(heap_t *h) { rest(h, 1); }

/* Reads one word for 64 heaps, and skips heaps that other threads have just claimed. */
heap_t *pool_claim_resting(void) {
  for (size_t i = 0; i < pool_size() / 64 && pool_resting_pages() != 0; i++)
    for (uint64_t w = atomic64_load_relaxed(&rests[i]); w != 0; w &= w - 1) { /* Bound: 64 */
      uint32_t number = (uint32_t)(i * 64 + bits_lowest(w));
      if (!places_claim_at(&heaps, number)) continue;
      heap_t *h = at_place(number);
      if (wake(h)) {
        users_begin(number); /* so that others find it if this thread ends halfway */
        return h;
      }
      places_release(&heaps, number); /* others had it meanwhile: its chunk may be discarded */
    }
  return NULL;
}

/* ---- who uses a heap ------------------------------------------------------------------------- */

/* The caller has taken over a dead thread's heap. The heap that its handlers used counts as left
 * behind by itself from now on. False if an operation in the heap never ended: it stays as it is.
 * False too if a third thread is taking what it keeps: it is then found again later. */
static bool repair(heap_t *h, uint64_t thread) {
  if (unlikely(heap_is_taken(h))) {
    if (thread != USERS_PARENTS) users_leave_behind(heap_number(h), thread);
    return false;
  }
  heap_t *nested = atomic_ptr_load_relaxed(&h->nested);
  atomic_ptr_store_relaxed(&h->nested, NULL);
  if (nested != NULL) users_leave_behind(heap_number(nested), thread);
  if (h->busy != 0) pool_abandon(h);
  else owned_recount(h);
  return h->busy == 0;
}

heap_t *pool_claim_dead(size_t *words) {
  static atomic32_t last; /* relaxed: callers look at different heaps */
  uint64_t caller = *words > 0 && users_are_known() ? os_thread() : 0;
  while (caller != 0 && *words > 0) { /* Bound: `*words` */
    size_t number = atomic32_add_relaxed(&last, 1) % pool_size();
    *words -= users_thread(number) != 0 ? min_size(*words, POOL_ASK_WORDS) : 1;
    uint64_t thread = users_take_dead(number, caller);
    if (thread == 0) continue;
    heap_t *h = at_place(number);
    if (repair(h, thread)) return h;
  }
  return NULL;
}

heap_t *pool_claim_parents(void) {
  size_t number;
  if (!users_take_parents(pool_size(), &number)) return NULL;
  heap_t *h = at_place(number);
  return repair(h, USERS_PARENTS) ? h : NULL;
}

/* An idle chunk that was kept, or 0. relaxed, like what it is compared with: a hint */
static atomic32_t kept_chunk;

/* Are enough lower places free that the next few heaps need none of this chunk? */
static bool has_room_below(size_t chunk) {
  enum { ROOM = 16 };
  unsigned room = 0;
  for (size_t i = 0; i < chunk && room < ROOM; i++)
    room += bits_count(atomic64_load_relaxed(&heaps.free[i]));
  return room >= ROOM;
}

/* Discards a chunk if none of its heaps is in use or rests: they are then as if never used.
 * `also_next`: even if one of the next few heaps may come from it; else the chunk stays then. */
static void discard_idle(size_t chunk, bool also_next) {
  size_t first = chunk * PLACES_IN_CHUNK;
  if (chunk == 0 || ~atomic64_load_relaxed(&heaps.free[chunk]) != 0) return;
  if (!also_next && !has_room_below(chunk)) return atomic32_store_relaxed(&kept_chunk, chunk);
  if (!bitmap_claim_at(heaps.free, first, PLACES_IN_CHUNK)) return;
  if (atomic64_load_relaxed(&rests[chunk]) == 0)
    os_discard(at_place(first), align_up(sizeof(heap_chunk_t), os_page_size()));
  bitmap_release(heaps.free, first, PLACES_IN_CHUNK);
  if (atomic32_load_relaxed(&kept_chunk) == chunk) atomic32_store_relaxed(&kept_chunk, 0);
  if (atomic32_load_relaxed(&last_lane) > first) atomic32_store_relaxed(&last_lane, 0);
}

void pool_discard_kept(void) { discard_idle(atomic32_load_relaxed(&kept_chunk), true); }

static void add_to_sum(atomic64_t *sum, atomic64_t *count) {
  atomic64_add_relaxed(sum, atomic64_load_relaxed(count));
  atomic64_store_relaxed(count, 0);
}

void pool_release(heap_t *h) {
  ASSERT(h->put_off == 0);
  users_leave(heap_number(h));
  if (heap_tag(h) != NULL) atomic32_store_relaxed(&last_lane, heap_number(h) + 1);
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) { /* Bound: the classes */
    atomic64_add_relaxed(&heap_counts.binned[c], heap_binned(h, c));
    atomic16_store_relaxed(&h->binned[c], 0);
    h->returned_most[c] = h->returned_room[c] = 0;
  }
  memset(h->classes, 0, sizeof h->classes);
  if (heap_tag(h) != NULL) { /* no other heap's pages are touched */
    atomic32_store_relaxed(&h->own->lane_slabs, 0);
    atomic64_store_relaxed(&h->own->lane_bytes, 0);
  }
  atomic_ptr_store_relaxed(&h->tag, NULL);
  h->calls = h->reserve = h->slabs_made = 0;
  atomic_ptr_store_relaxed(&h->nested, NULL);
  atomic32_store_relaxed(&h->lane_state, LANE_NONE);
  add_to_sum(&heap_counts.remote_frees, &h->remote_frees);
  add_to_sum(&heap_counts.shared_frees, &h->shared_frees);
  add_to_sum(&heap_counts.swaps, &h->swaps);
  size_t chunk = heap_number(h) / PLACES_IN_CHUNK, kept = atomic32_load_relaxed(&kept_chunk);
  places_release(&heaps, heap_number(h));
  discard_idle(chunk, false);
  if (kept != chunk) discard_idle(kept, false);
}

size_t pool_size(void) { return places_size(&heaps); }
size_t pool_metadata(void) { return pool_size() / PLACES_IN_CHUNK * sizeof(heap_chunk_t); }
heap_t *pool_at(size_t number, bool *is_claimed) {
  return places_at(&heaps, &shape_of_heaps, number, is_claimed);
}

void pool_settle(heap_t *h) {
  uint64_t live = atomic64_load_relaxed(&h->large_live);
  /* all threads share the words of the sums */
  if ((live | atomic64_load_relaxed(&h->large_allocated)) == 0) return;
  add_to_sum(&heap_counts.large_live, &h->large_live);
  add_to_sum(&heap_counts.large_allocated, &h->large_allocated);
}

bool pool_is_valid(void) {
  uint64_t pages = 0, kept = 0;
  for (size_t i = 0; i < pool_size(); i++) {
    bool is_claimed, has_bit = bitmap_has(rests, i);
    const heap_t *h = pool_at(i, &is_claimed);
    uint32_t rests_with = h != NULL ? atomic32_load_relaxed(&h->resting_pages) : 0;
    HOLDS(P2, has_bit == (rests_with != 0) && !(has_bit && is_claimed));
    pages += rests_with;
    if (h != NULL && heap_was_used(h))
      kept += h->run_most + h->own->more_singles + returned_surplus(h);
  }
  HOLDS(P2, pages == pool_resting_pages());
  return users_are_valid(pool_size()) && surplus_is_valid(kept);
}
