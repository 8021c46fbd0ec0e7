/* places.c - numbered places for records that are never unmapped                     layer 3: arena
 * Contract: places.h. */
#include "places.h"

#include "../os/os.h"
#include "arena.h"

/* Of `chunks`. */
static size_t chunk_slot(size_t chunk) { return PLACES_CHUNKS - 1 - chunk; }

static void *address(const places_t *places, size_t stride, size_t number) {
  size_t row = chunk_slot(number / PLACES_IN_CHUNK);
  char *chunk = atomic_ptr_load_acquire(&places->chunks[row]); /* S-chunk */
  return chunk == NULL ? NULL : chunk + number % PLACES_IN_CHUNK * stride;
}

/* ---- which chunks have room ------------------------------------------------------------------ */

static void note_room(places_t *places, size_t chunk) {
  uint64_t bit = (uint64_t)1 << chunk % 64;
  if ((atomic64_load_relaxed(&places->roomy[chunk / 64]) & bit) == 0)
    atomic64_or_relaxed(&places->roomy[chunk / 64], bit);
}

/* Reads one word for 64 chunks, and one chunk's, unless others have filled that one meanwhile. */
static size_t claim_roomy(places_t *places) {
  size_t count = atomic32_load_relaxed(&places->chunk_count);
  for (size_t i = 0; i * 64 < count; i++) /* Bound: the bits of a word */
    for (uint64_t w = atomic64_load_relaxed(&places->roomy[i]); w != 0; w &= w - 1) {
      size_t chunk = i * 64 + bits_lowest(w);
      size_t found = bitmap_claim_one(places->free, chunk + 1, chunk);
      if (found != BITMAP_NONE) return found;
      atomic64_and_relaxed(&places->roomy[i], ~((uint64_t)1 << chunk % 64));
      if (atomic64_load_relaxed(&places->free[chunk]) != 0) note_room(places, chunk);
    }
  return bitmap_claim_one(places->free, count, 0);
}

/* ---- claiming -------------------------------------------------------------------------------- */

/* Puts `chunk` in the first free row, and keeps its first place. */
static bool put_chunk(places_t *places, void *chunk, uint32_t from, uint32_t end,
                      uint32_t *number) {
  for (uint32_t i = from; i < end; i++) {
    void *none = NULL;
    if (!atomic_ptr_cas_release(&places->chunks[chunk_slot(i)], &none, chunk))
      continue; /* S-chunk */
    uint32_t count = atomic32_load_relaxed(&places->chunk_count);
    while (count <= i) /* Progress: a failed swap means that the count rose */
      if (atomic32_cas_relaxed(&places->chunk_count, &count, i + 1)) break;
    atomic64_or_release(&places->free[i], ~(uint64_t)1); /* S-bit */
    note_room(places, i);
    *number = i * PLACES_IN_CHUNK;
    return true;
  }
  return false;
}

/* Threads that come at once each add a chunk, or find the row taken and try the next. */
static void *add_chunk(places_t *places, const places_shape_t *shape, uint32_t *number) {
  uint32_t count = atomic32_load_relaxed(&places->chunk_count);
  if (count == 0 && shape->first != NULL && put_chunk(places, shape->first, 0, 1, number))
    return shape->first;
  void *chunk = os_map(shape->chunk_size);
  if (chunk == NULL && arena_unmap_free()) chunk = os_map(shape->chunk_size);
  if (chunk == NULL || put_chunk(places, chunk, count, PLACES_CHUNKS, number)) return chunk;
  os_unmap(chunk, shape->chunk_size);
  return NULL;
}

void *places_claim(places_t *places, const places_shape_t *shape, uint32_t *number) {
  size_t found = claim_roomy(places);
  if (found == BITMAP_NONE) return add_chunk(places, shape, number);
  *number = (uint32_t)found;
  return address(places, shape->stride, found);
}

bool places_claim_at(places_t *places, uint32_t number) {
  return bitmap_claim_at(places->free, number, 1);
}

void places_release(places_t *places, uint32_t number) {
  ASSERT(number < places_size(places));
  bitmap_release(places->free, number, 1);
  note_room(places, number / PLACES_IN_CHUNK);
}

void *places_at(const places_t *places, const places_shape_t *shape, size_t number,
                bool *is_claimed) {
  /* relaxed: true for a moment only */
  uint64_t free = atomic64_load_relaxed(&places->free[number / PLACES_IN_CHUNK]);
  *is_claimed = (free >> number % PLACES_IN_CHUNK & 1) == 0;
  return address(places, shape->stride, number);
}
