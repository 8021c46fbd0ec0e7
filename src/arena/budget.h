/* budget.h - how much memory there is to be used, and how near that is               layer 3: arena
 * Owns:    the level of pressure, and the growth that was learned.   Called by: arena, slab, stock,
 *          heap, api.   Calls: options, pace, container, os.
 * Threads: any. All words are relaxed: hints, on which each reader acts by itself.
 *
 * There are three bounds: the hard one (option memory_limit), at which allocation fails; the soft
 * one (memory_soft); and the container's. Memory in use or dirty counts against the soft one. The
 * level follows the bound of which the least is left:
 *   NONE   more is left than a second of growth needs, as learned: speed wins.
 *   NEAR   less: all heaps give up what they keep, purging is immediate, no huge pages are wanted.
 *   OVER   nothing is left, or almost nothing and the kernel is short. The program hears of it too.
 * It goes down again only when a 64th of the bound more is left than when it rose.
 *
 * Holds:   B1 with more than the soft bound in use the level is OVER
 *          B2 under pressure less than half of a bound is left, or somebody asked for pressure */
#pragma once

#include "../support/options.h"

typedef enum { PRESSURE_NONE, PRESSURE_NEAR, PRESSURE_OVER } pressure_t; /* as in freehold.h */

typedef struct {
  atomic64_t level;    /* pressure_t */
  atomic32_t is_close; /* less than half of a bound is left, or memory is wanted: look often */
  atomic32_t news;     /* not 0: the level or the container's files must be reported, or the command
                          has a request (asked.h) */
  atomic64_t over;     /* bytes beyond the bound */
  atomic64_t growth;   /* bytes a second */
  atomic64_t raises;   /* how often the level rose */
} budget_t;
extern hidden budget_t budget;

/* Memory matters more than speed now. */
static inline bool budget_is_tight(void) {
  return unlikely(atomic64_load_relaxed(&budget.level) != PRESSURE_NONE);
}

/* The bytes for an option of type share; 0: none. */
hidden uint64_t budget_bytes(option_t option);
/* Would `size` more bytes pass the hard limit? Likewise, once `room` bytes have gone back? */
hidden bool budget_is_spent(size_t size);
hidden bool budget_is_spent_despite(size_t room, size_t size);
/* Updates the level; `now`: os_now_ms, or 0 if that is not known. True, now and then under
 * pressure: all heaps should give up what they keep. */
hidden bool budget_tick(uint32_t now);
/* Somebody wants memory: for a while the level is at least NEAR, whatever the bounds are. */
enum { BUDGET_ASKED_MS = 4000 };
hidden void budget_ask(void);
hidden bool budget_is_valid(void); /* while no thread ticks */
