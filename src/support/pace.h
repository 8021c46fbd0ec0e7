/* pace.h - what is done now and then, by one of the threads that come by           layer 2: support
 * Owns:    nothing: a pace_t is the caller's.   Called by: arena, slab, stock, heap.   Calls: os.
 * Threads: any. Nobody waits: of the threads that find it due, the one whose swap succeeds does it.
 *          relaxed, all of it: these words decide only when something is done. */
#pragma once

#include "../os/os.h"

typedef struct {
  atomic32_t last, wait; /* os_now_ms when it was done; ms until it is due again */
} pace_t;

static inline uint32_t pace_passed(const pace_t *p, uint32_t now) {
  return os_ms_between(atomic32_load_relaxed(&p->last), now);
}
/* Have both `wait` ms and `least` ms passed? */
static inline bool pace_is_due(const pace_t *p, uint32_t now, size_t least) {
  return pace_passed(p, now) >= max_size(least, atomic32_load_relaxed(&p->wait));
}
/* Is it still waiting? Reads the clock only if it has a wait. */
static inline bool pace_is_waiting(const pace_t *p) {
  return atomic32_load_relaxed(&p->wait) != 0 && !pace_is_due(p, os_now_ms(), 0);
}
/* Is it due, and is the caller the one to do it? */
static inline bool pace_take(pace_t *p, uint32_t now, size_t least) {
  uint32_t last = atomic32_load_relaxed(&p->last);
  return os_ms_between(last, now) >= max_size(least, atomic32_load_relaxed(&p->wait)) &&
         atomic32_cas_relaxed(&p->last, &last, now);
}
static inline void pace_set_wait(pace_t *p, size_t ms) {
  atomic32_store_relaxed(&p->wait, (uint32_t)ms);
}
/* Notes that it was done at `now`. */
static inline void pace_note(pace_t *p, uint32_t now, size_t wait) {
  atomic32_store_relaxed(&p->last, now);
  pace_set_wait(p, wait);
}
