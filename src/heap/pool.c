/* pool.c - where heaps come from, and what is left of those that are gone             layer 5: heap
 * Owns:    the places of all heaps; totals.   Called by: heap.   Calls: places.
 * Threads: any. Sync: S-bit (bitmap.h): what the last user left is seen by the next one. */
#include "../arena/places.h"
#include "heap.h"

_Static_assert(sizeof(heap_t) + sizeof(heap_freed_t) <= 3648, "what a thread costs at most");

static places_t heaps;

typedef struct {
  heap_t heaps[PLACES_IN_CHUNK];
  heap_freed_t freed[PLACES_IN_CHUNK];
} heap_chunk_t;
static heap_chunk_t first_heaps; /* most programs need no mapping for their heaps */
static const places_shape_t shape_of_heaps = { sizeof(heap_t), sizeof(heap_chunk_t), &first_heaps };
static atomic64_t taken_before[CLASS_COUNT], requested[CLASS_COUNT]; /* relaxed: sums */

/* Of all heaps that rest. relaxed: a bound that may be passed by a few heaps. */
static atomic32_t resting_pages;

uint32_t pool_resting_pages(void) { return atomic32_load_relaxed(&resting_pages); }

/* It is the caller's: true if it rested. */
static bool wake(heap_t *h) {
  uint32_t pages = atomic32_load_relaxed(&h->resting_pages);
  if (pages == 0) return false;
  atomic32_store_relaxed(&h->resting_pages, 0);
  atomic32_add_relaxed(&resting_pages, 0 - pages);
  h->busy = 0;
  return true;
}

static heap_freed_t *freed_of(heap_t *h, size_t number) {
  heap_chunk_t *chunk = (heap_chunk_t *)(h - number % PLACES_IN_CHUNK);
  return &chunk->freed[number % PLACES_IN_CHUNK];
}

/* The last heap that was a lane, its number and 1: there is nothing in it. relaxed: a hint */
static atomic32_t last_lane;

heap_t *pool_claim_lane(void) {
  uint32_t last = atomic32_load_relaxed(&last_lane);
  bool is_claimed;
  if (last == 0 || !places_claim_at(&heaps, last - 1)) return pool_claim();
  heap_t *h = pool_at(last - 1, &is_claimed);
  if (!wake(h)) h->busy = 0; /* a thread may have had it meanwhile */
  return h;
}

heap_t *pool_claim(void) {
  uint32_t number;
  heap_t *h = places_claim(&heaps, &shape_of_heaps, &number);
  if (h == NULL || wake(h)) return h;
  h->number = number;
  h->freed = freed_of(h, number);
  atomic64_store_relaxed(&h->home, WINDOW_NONE);
  h->busy = 0;
  return h;
}

bool pool_rest(heap_t *h, uint32_t pages) {
  if (pages > RESTING_PAGES_EACH || pool_resting_pages() + pages > RESTING_PAGES) return false;
  atomic32_add_relaxed(&resting_pages, pages);
  atomic32_store_relaxed(&h->resting_pages, pages);
  atomic_ptr_store_relaxed(&h->nested, NULL);
  places_release(&heaps, h->number);
  return true;
}

heap_t *pool_claim_resting(void) {
  for (uint32_t i = 0; i < pool_size() && pool_resting_pages() != 0; i++) {
    bool is_claimed;
    heap_t *h = pool_at(i, &is_claimed);
    if (h == NULL || is_claimed || atomic32_load_relaxed(&h->resting_pages) == 0) continue;
    if (!places_claim_at(&heaps, i)) continue;
    if (wake(h)) return h;
    pool_release(h); /* another thread has used it meanwhile */
  }
  return NULL;
}

void pool_release(heap_t *h) {
  if (heap_tag(h) != NULL) atomic32_store_relaxed(&last_lane, h->number + 1);
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) { /* Bound: the classes */
    pool_note_taken(c, heap_taken(h, c));
    atomic16_store_relaxed(&h->taken[c], 0);
    h->allowance[c] = h->room[c] = 0;
  }
  memset(h->classes, 0, sizeof h->classes);
  atomic_ptr_store_relaxed(&h->tag, NULL);
  h->is_borrowed = h->slabs_made = 0;
  atomic_ptr_store_relaxed(&h->nested, NULL);
  atomic32_store_relaxed(&h->lane_busy, 0);
  places_release(&heaps, h->number);
}

size_t pool_size(void) { return places_size(&heaps); }
heap_t *pool_at(size_t number, bool *is_claimed) {
  return places_at(&heaps, &shape_of_heaps, number, is_claimed);
}

uint64_t pool_fresh_of(const void *base, unsigned c) {
  uint64_t bits = 0;
  for (size_t i = 0; c >= SHARED_CLASS && i < pool_size(); i++) {
    bool is_claimed;
    heap_t *h = pool_at(i, &is_claimed);
    if (h == NULL) continue;
    atomic64_t *fresh = &freed_of(h, i)->fresh[c - SHARED_CLASS];
    bits |= fresh_bits(fresh_unpack(atomic64_load_acquire(fresh)), c, base); /* S-visit */
  }
  return bits;
}

void pool_note_taken(unsigned c, uint64_t blocks) {
  if (blocks != 0) atomic64_add_relaxed(&taken_before[c], blocks);
}
void pool_note_requested(unsigned c, size_t bytes) { atomic64_add_relaxed(&requested[c], bytes); }
uint64_t pool_taken(unsigned c) { return atomic64_load_relaxed(&taken_before[c]); }
uint64_t pool_requested(unsigned c) { return atomic64_load_relaxed(&requested[c]); }
