/* slices.h - the slices of arenas that are mapped: finding, claiming, giving back    layer 3: arena
 * Owns:    the list of arenas, and what searches for free slices and for room did not find.
 * Called by: arena.c, grow.c, purge.c; what arena.h declares of it by all above.   Calls: bitmap,
 *          hint, os.
 * Threads: any. All bits of `free` go back here, so that no search or purge goes on
 *          missing them. Sync: S-bit (bitmap.h), S-room, S-group (hint.h), S-arena (arena.h). */
#pragma once

#include "arena.h"

#define NO_SLICES BITMAP_NONE
#define NO_MEMORY (NO_SLICES - 1) /* there is room, but the system has refused memory for it */

/* For each arena, by its number. Side by side, so that a search reads a few lines of them, and none
 * of an arena in which it would find nothing. */
extern hidden lacks_t lacks_free[ARENA_MOST], lacks_room[ARENA_MOST];

/* A hint: arenas with a bit in `dirty_groups`. */
extern hidden atomic64_t dirty_arenas[ARENA_MOST / 64];

/* Gives the arena its number on the list; false if there are ARENA_MOST. slices_publish makes it
 * known. */
hidden bool slices_reserve_number(arena_t *a);
hidden void slices_publish(arena_t *a);

/* Claims the lowest `n` free slices of the arena whose first is a multiple of `alignment`. If they
 * are few and may lie anywhere, those in the tightest run. NO_SLICES if there are none, 0 if there
 * were some but others were quicker. */
hidden size_t slices_claim(arena_t *a, size_t n, size_t alignment);
/* Exactly these, all or none. */
hidden bool slices_claim_at(arena_t *a, size_t first, size_t n);
hidden void slices_give_back(arena_t *a, size_t first, size_t n);
/* The invariants of slices that are at rest and free, or that the caller has claimed. */
hidden bool slices_are_valid(const arena_t *a, size_t first, size_t n, bool are_free);
/* Clears these bits of claimed slices in a map; `*count` grows by how many were set. */
hidden void slices_take_bits(atomic64_t *word, uint64_t bits, void *count);
/* Some free slices of these words are dirty. */
hidden void slices_note_dirty(arena_t *a, size_t word, size_t words);

static always_inline bool slices_are_lacking(const lacks_t *lacks, size_t n, size_t alignment) {
  return lack_covers(&lacks->run, n) ||
         (alignment != 1 && lack_covers(&lacks->aligned, lack_shape(n, alignment)));
}

/* Claims slices of the arena by `attempt`; if there are none, `lacks` says so afterwards. */
typedef size_t slices_attempt_t(arena_t *a, size_t n, size_t alignment);
static always_inline size_t slices_try(slices_attempt_t *attempt, lacks_t *lacks, arena_t *a,
                                       size_t n, size_t alignment) {
  size_t slice = attempt(a, n, alignment);
  if (slice != NO_SLICES) return slice;
  lack_t *lack = alignment == 1 ? &lacks->run : &lacks->aligned;
  lack_note(lack, lack_shape(n, alignment));
  slice = attempt(a, n, alignment); /* S-room */
  if (slice != NO_SLICES) lack_end(lack);
  return slice;
}
