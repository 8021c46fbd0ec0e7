/* checked.h - a block, found by its address, and what is looked at in it           layer 7: secure
 * Owns:    nothing.   Called by: secure.c, last.c.   Calls: heap, stock, slab, arena, os.
 * Threads: any. Sync: S-state (states.h). */
#ifndef SECURE_CHECKED_H
#define SECURE_CHECKED_H

#include "../heap/fast.h"
#include "../slab/states.h"
#include "trailer.h"

enum { LEAST_SIZE = 17 }; /* bytes of the heap's block: more than the class of 16 has */

typedef struct {
  slab_t *slab; /* NULL: a huge one, or a guarded one */
  uintptr_t block;
  size_t usable, number; /* without the guard of a large block; the number: in its slab */
  size_t guard;          /* bytes up to the end of its slices, that nobody can touch */
  states_t *states;
  atomic8_t *state; /* NULL: of one without slab, whose window says what it is */
  bool is_small;
} checked_t;

/* "freehold: <what> a block of <size> bytes: <address> in <call>()" */
_Noreturn hidden void checked_refuse(const char *what, const void *p, size_t size,
                                     const char *call);
_Noreturn hidden void checked_refuse_state(uint8_t state, const void *p, const char *call);
/* It came by another kind of call. */
_Noreturn hidden void checked_refuse_origin(origin_t origin, const void *p, const char *call);

/* ---- which block it is ----------------------------------------------------------------------- */

/* A large, huge or guarded block of which the heap says that it has `usable` bytes. */
hidden checked_t checked_large(const void *p, size_t usable);

/* Block `number` of a slab with blocks of `usable` bytes. */
static always_inline checked_t checked_small(slab_t *s, const void *p, size_t usable,
                                             size_t number) {
  checked_t f = {.slab = s, .block = (uintptr_t)p, .usable = usable, .number = number};
  f.is_small = true;
  f.states = states_of(p);
  f.state = f.states != NULL ? states_at(f.states, p, number) : NULL;
  return f;
}

/* `fatal` if no block begins there. */
hidden checked_t checked_find(const void *p, const char *call);
/* What was there a moment ago, as the heap saw it; false: it is no block now. Says nothing of what
 * it will be in a moment. */
hidden bool checked_peek(const void *p, size_t usable, checked_t *f);

/* ---- is it as it was made? ------------------------------------------------------------------- */

/* A live block of the program's, with nothing written behind it. */
static always_inline trailer_t checked_read(const checked_t *f, uint8_t state, const char *call) {
  trailer_t t;
  const void *p = (const void *)f->block;
  uint64_t hash = trailer_hash(f->block);
  if (unlikely((state & STATE_IS) != STATE_LIVE)) checked_refuse_state(state, p, call);
  if (unlikely(!trailer_says(hash, f->block, f->usable, &t)))
    checked_refuse("overflow behind", p, f->usable - TRAILER_SIZE, call);
  if (unlikely(!trailer_is_filled(hash, f->block, f->usable, t.size)))
    checked_refuse("overflow behind", p, t.size, call);
  return t;
}
static always_inline uint8_t checked_state(const checked_t *f) {
  return f->state != NULL ? atomic8_load_acquire(f->state) : STATE_LIVE; /* S-state */
}

/* Another of the same slab. */
static always_inline checked_t checked_other(const checked_t *f, size_t number) {
  checked_t other = *f;
  other.block = f->block - (f->number - number) * f->usable;
  other.number = number;
  other.state = states_at(f->states, (void *)f->block, number);
  return other;
}

/* Trailer and filler of a block whose last `there` bytes, at least, are those before `bytes` and
 * `usable`. */
hidden bool checked_has_trailer(const checked_t *f, uintptr_t bytes, size_t there);

/* Is nothing written behind this block, if it is live? Its holder may free it meanwhile, and
 * somebody else may get it: its state changes then. */
hidden bool checked_is_whole(const checked_t *f);

/* Somebody may have written before this block. Before a slab's first one there is none, but a
 * trailer. */
static always_inline bool checked_is_whole_before(const checked_t *f) {
  trailer_t t;
  size_t before = f->number - 1;
  bool is_first = f->number == 0;
  atomic8_t *state = is_first ? NULL : states_at(f->states, (void *)f->block, before);
  uint8_t seen = is_first ? STATE_LIVE : atomic8_load_acquire(state); /* S-state */
  if ((seen & STATE_IS) != STATE_LIVE) return true;
  if (likely(trailer_read(f->block - f->usable, f->usable, &t))) return true;
  if (is_first) return false;
  checked_t other = checked_other(f, before); /* more than its trailer is looked at now */
  return checked_is_whole(&other);
}

#endif
