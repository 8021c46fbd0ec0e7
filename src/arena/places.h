/* places.h - numbered places for records that are never unmapped                     layer 3: arena
 * Owns:    nothing: a places_t is the caller's.   Called by: stock, sleepers.c.
 *          Calls: bitmap, grow, os.
 * Threads: any. Progress: as bitmap.h; a thread that stops while it adds a chunk holds back only
 *          that chunk.
 * Sync:    S-bit (bitmap.h) from places_release to the next places_claim; S-chunk  a chunk's
 *                address (release -> acquire). */
#pragma once

#include "bitmap.h"

enum { PLACES_CHUNKS = 4096, PLACES_IN_CHUNK = 64 };

typedef struct {
  size_t stride;     /* bytes of a place */
  size_t chunk_size; /* bytes of PLACES_IN_CHUNK places, and of what follows them */
  void *first;       /* memory for the first chunk, or NULL: it is mapped like the others */
} places_shape_t;

/* The words about the first chunk lie in the middle, on one page. */
typedef struct {
  uint8_t apart[KiB(2)];
  atomic_ptr_t chunks[PLACES_CHUNKS]; /* from the last to the first */
  atomic32_t chunk_count;
  /* a bit for each chunk that has free places. relaxed: a hint; a thread that finds no place by it
   * looks at all chunks before it adds one */
  atomic64_t roomy[PLACES_CHUNKS / 64];
  atomic64_t free[PLACES_CHUNKS];
} aligned_to(4096) places_t;

/* A place that nobody has, and its number; NULL: no memory, or all taken. A place is zero at first,
 * and later holds what its last holder left. */
hidden void *places_claim(places_t *places, const places_shape_t *shape, uint32_t *number);
/* Exactly this place, if nobody has it. */
hidden bool places_claim_at(places_t *places, uint32_t number);
hidden void places_release(places_t *places, uint32_t number);

/* Numbers are below this. */
static inline size_t places_size(const places_t *places) {
  /* relaxed: places_at looks again */
  return (size_t)atomic32_load_relaxed(&places->chunk_count) * PLACES_IN_CHUNK;
}
/* NULL if there never was such a place; `*is_claimed` may change at once. */
hidden void *places_at(const places_t *places, const places_shape_t *shape, size_t number,
                       bool *is_claimed);
