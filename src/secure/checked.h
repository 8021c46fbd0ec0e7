/* checked.h - a block, found by its address, and what is looked at in it           layer 7: secure
 * Owns:    nothing.   Called by: secure, api.   Calls: heap, stock, slab, arena, support, os,
 *          base.
 * Threads: any. Sync: S-state (states.h), S-secrets (secrets.h). */
#pragma once

#include "../heap/fast.h"
#include "../slab/states.h"
#include "trailer.h"

enum { CHECKED_LEAST = 17 }; /* bytes of the heap's block: more than the class of 16 has */

typedef struct {
  slab_t *slab; /* NULL: a huge or guarded block */
  uintptr_t block;
  size_t usable; /* without the guard of a large block */
  states_t *states;
  atomic8_t *state; /* NULL: no slab; the window says what the block is */
  bool is_small, has_guard;
} checked_t;

/* A block of no bytes has nothing to check: it is only an address. */
static always_inline bool checked_is_empty(const void *p) {
  return unlikely(map_kind(map_find(p)) == TENANT_EMPTY);
}

/* Has a block of so many bytes of the heap's a page at its end that nobody can touch?
 */
static always_inline bool checked_has_guard(size_t usable) { return usable > SMALL_MOST; }

/* "freehold: <what> a block of <size> bytes: <address> in <call>()" */
_Noreturn hidden void checked_refuse(const char *what, const void *p, size_t size,
                                     const char *call);
_Noreturn hidden void checked_refuse_state(uint8_t state, const void *p, const char *call);
/* The block came by another kind of call. */
_Noreturn hidden void checked_refuse_origin(origin_t origin, const void *p, const char *call);

/* ---- which block it is ----------------------------------------------------------------------- */

/* A large, huge or guarded block that has `usable` bytes, according to the heap. */
hidden checked_t checked_large(const void *p, size_t usable);

/* A block of a slab with blocks of `usable` bytes. `states`: states_of or states_found. */
static always_inline checked_t checked_small(slab_t *s, const void *p, size_t usable,
                                             states_t *states) {
  checked_t f = {.slab = s, .block = (uintptr_t)p, .usable = usable, .states = states};
  f.state = states != NULL ? states_at(states, p) : NULL;
  f.is_small = true;
  return f;
}
/* Is it the first block of its slab? Then only a trailer lies before it. */
static always_inline bool checked_is_first(const checked_t *f) {
  return (uint16_t)f->block == f->usable;
}

/* `fatal` if no block begins there. */
hidden checked_t checked_find(const void *p, const char *call);
/* The block that the heap saw there a moment ago; false: it is no block now. Says nothing of what
 * it will be a moment later. */
hidden bool checked_peek(const void *p, size_t usable, checked_t *f);

/* ---- is it as it was made? ------------------------------------------------------------------- */

static always_inline uint8_t checked_state(const checked_t *f) {
  return f->state != NULL ? atomic8_load_acquire(f->state) : STATE_LIVE; /* S-state */
}

/* The seal of a block whose bytes lie at `bytes`: this process's, or a parent's. If neither fits:
 * this process's. */
hidden uint64_t checked_seal(const checked_t *f, uintptr_t bytes);

/* Is it a live block of the program, with nothing written behind it? False also for a parent's. */
static always_inline bool checked_reads(const checked_t *f, uint8_t state, trailer_t *t) {
  uint64_t seal = trailer_seal(f->block);
  return likely((state & STATE_IS) == STATE_LIVE) &&
         likely(trailer_says(seal, f->block, f->usable, t)) &&
         likely(trailer_is_filled(seal, f->block, f->usable, t->size));
}
/* Likewise, but `fatal` if it is not. */
static inline trailer_t checked_read(const checked_t *f, uint8_t state, const char *call) {
  trailer_t t;
  const void *p = (const void *)f->block;
  if (unlikely((state & STATE_IS) != STATE_LIVE)) checked_refuse_state(state, p, call);
  uint64_t seal = checked_seal(f, f->block);
  if (unlikely(!trailer_says(seal, f->block, f->usable, &t)))
    checked_refuse("overflow behind", p, f->usable - TRAILER_SIZE, call);
  if (unlikely(!trailer_is_filled(seal, f->block, f->usable, t.size)))
    checked_refuse("overflow behind", p, t.size, call);
  return t;
}

/* Another block of the same slab. */
static inline checked_t checked_other(const checked_t *f, uintptr_t block) {
  checked_t other = *f;
  other.block = block;
  other.state = states_at(f->states, (void *)block);
  return other;
}

/* Are the trailer and the filler intact? The block, or a copy of it, is at `bytes`. */
hidden bool checked_has_trailer(const checked_t *f, uintptr_t bytes);

/* If the block is live, is nothing written behind it? Its holder may free it meanwhile, and
 * somebody else may get it; then its state changes. */
hidden bool checked_is_whole(const checked_t *f);

/* Is the trailer before this block intact? Another block's is checked only if that block is live.
 * False also for a parent's. */
static always_inline bool checked_reads_before(const checked_t *f) {
  trailer_t t;
  uintptr_t before = f->block - f->usable;
  uint8_t seen = STATE_LIVE;
  if (likely(!checked_is_first(f)))
    seen = atomic8_load_acquire(states_at(f->states, (void *)before)); /* S-state */
  return (seen & STATE_IS) != STATE_LIVE || likely(trailer_read(before, f->usable, &t));
}
