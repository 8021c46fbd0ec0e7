/* upkeep.c - memory that goes back on request, and in the background                  layer 6: heap
 * Contract: upkeep.h. */
#include "upkeep.h"

#include "../arena/frames.h"
#include "../arena/purge.h"
#include "../slab/sparse.h"
#include "../stock/stock.h"
#include "../support/pace.h"
#include "enter.h"
#include "firstclass.h"
#include "sleepers.h"

void heap_collect(bool force) {
  if (force) atomic32_add_relaxed(&heap_trims, 1); /* others answer with their next slow calls */
  heap_give_up_own();
  if (force) heap_end_dead();
  if (force) sleepers_take_all();
  /* Bound: heaps that rest now; threads may go on ending */
  for (uint32_t n = pool_resting_pages(); n > 0 && heap_end_rest(); n--) continue;
  purge_tick();
  frames_tick();
  sparse_tick();
  if (!force) return;
  firstclass_collect();
  pool_discard_kept();
  sparse_collect();
  purge_all();
  if (os_is_space_limited()) arena_unmap_free(); /* the limit counts what others map, too */
}

enum {
  NAP_LEAST = 20, /* ms */
  NAP_MOST = 1000,
  QUIET_MS = 10000,   /* no slice or slab came, went or was let go of for so long */
  COLLECT_TIMES = 16, /* under pressure: the pause is so many times as long as the work */
  COLLECT_MS = 60000, /* and no longer than this */
};

/* relaxed: only compared with its last value. */
static uint64_t count_changes(void) {
  return slab_tally_sum(TALLY_PUBLICATIONS) + atomic64_load_relaxed(&arena_counts.purged) +
         atomic64_load_relaxed(&arena_counts.committed);
}

/* Takes time in proportion to the process. */
static void collect_now_and_then(void) {
  static pace_t collections;
  uint32_t began = os_now_ms(), now;
  if (!pace_is_due(&collections, began, 0)) return;
  heap_collect(true);
  now = os_now_ms();
  pace_note(&collections, now, min_size((size_t)(now - began) * COLLECT_TIMES, COLLECT_MS));
}

static void background(void) {
  uint64_t seen = 0;
  uint32_t since = os_now_ms();
  bool is_collected = false;
  for (;;) { /* Bound: none, this has its own thread */
    int64_t delay = option_get(OPTION_purge_delay_ms);
    bool may_purge = delay >= 0;                      /* never, until the option changes */
    if (!may_purge || is_collected) delay = NAP_MOST; /* a program that sleeps is seldom woken */
    os_sleep_ms((uint32_t)min_size(max_size((size_t)delay, NAP_LEAST), NAP_MOST));
    if (budget_tick(purge_tick()) && may_purge) collect_now_and_then();
    frames_tick();
    sparse_tick();
    if (may_purge) sleepers_look();
    if (count_changes() != seen) {
      since = os_now_ms();
      is_collected = false;
    } else if (may_purge && !is_collected && os_ms_between(since, os_now_ms()) >= QUIET_MS) {
      heap_collect(true);
      is_collected = true;
    }
    seen = count_changes();
  }
}

void heap_start(void) {
  static atomic32_t started;
  uint32_t no = 0;
  ASSERT_VALID(class_is_valid());
  heap_watch_threads();
  if (option_get(OPTION_background) && atomic32_cas_relaxed(&started, &no, 1))
    os_thread_start(background);
}

/* ---- at exit --------------------------------------------------------------------------------- */

enum { LAST_LOOKS = 1 << 14 }; /* free blocks to look at */

static void look_at_list(uintptr_t block, size_t *looks) {
  for (uintptr_t next; block != 0 && *looks > 0; block = next, --*looks) { /* Bound: LAST_LOOKS */
    next = block_next(block);
    if (!block_is_free(block) || !block_may_be_next(next))
      fatal("heap corruption", (void *)block, "exit");
  }
}

void heap_check_last(void) {
  size_t looks = LAST_LOOKS;
  heap_t *h = heap_enter_own();
  if (h == NULL) return;
  outbox_put_fetched(h);
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) {
    look_at_list(h->bin[c], &looks);
    look_at_list(h->aside->returned[c], &looks);
    /* Bound: OWNED_MOST */
    for (slab_t *s = owned_first(h, c); s != NULL; s = s->next) look_at_list(s->head, &looks);
  }
  heap_exit(h);
}
