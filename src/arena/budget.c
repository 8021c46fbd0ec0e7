/* budget.c - how much memory there is to be used, and how near that is               layer 3: arena
 * Contract: budget.h. */
#include "budget.h"

#include "../base/layout.h"
#include "../os/container.h"
#include "../support/pace.h"
#include "arena.h"

enum {
  LOOK_LEAST_SLICES = 128, /* a process that uses less does not look for a container */
  LOOK_MS = 4000,          /* from one look at the container to the next */
  LOOK_NEAR_MS = 500,      /* the same when less than half of its memory is left */
  LOOK_FREE_MS = 16000,    /* the same where no container limits us */
  GROWTH_MS = 250,         /* growth is measured over at least this long */
  REPEAT_MS = 1000,        /* under pressure the caches are given up this often */
  LEAST_PART = 64,         /* the least margin is this part of a bound: less left is NEAR */
  MOST_PART = 4,           /* the widest margin, however fast the process grows */
};

budget_t budget;
LAYOUT_VARIABLE(budget);

static pace_t container_looks, growths, repeats, requests;
static atomic64_t measured, used_at_look;

/* ---- bounds ---------------------------------------------------------------------------------- */

uint64_t budget_bytes(option_t option) {
  int64_t value = option_get(option);
  if (value >= 0) return (uint64_t)value;
  bool is_free = option_get(OPTION_container) == CONTAINER_IGNORE;
  return (is_free ? container_machine() : container_memory()) / 100 * (0 - (uint64_t)value);
}

static uint64_t bytes_in_use(void) {
  uint64_t slices = atomic64_load_relaxed(&arena_counts.committed) << SLICE_SHIFT;
  uint64_t absent = atomic64_load_relaxed(&arena_counts.absent_pages) << TOUCHED_SHIFT;
  return slices - min_size(slices, absent) + atomic64_load_relaxed(&arena_counts.huge_bytes);
}

bool budget_is_spent(size_t size) { return budget_is_spent_despite(0, size); }

bool budget_is_spent_despite(size_t room, size_t size) {
  if (likely(option_get(OPTION_memory_limit) == 0)) return false;
  uint64_t limit = budget_bytes(OPTION_memory_limit), in_use = bytes_in_use();
  return limit != 0 && in_use - min_size(in_use, room) + size > limit; /* 0: not known */
}

/* ---- the level ------------------------------------------------------------------------------- */

/* The highest recent growth; it fades by a quarter each time. */
static void learn_growth(uint64_t used, uint32_t now) {
  bool is_first = atomic32_load_relaxed(&growths.last) == 0;
  uint32_t passed = pace_passed(&growths, now);
  if (!pace_take(&growths, now, GROWTH_MS)) return;
  uint64_t before = atomic64_exchange_relaxed(&measured, used);
  uint64_t grown = !is_first && used > before ? (used - before) * 1000 / passed : 0;
  uint64_t growth = atomic64_load_relaxed(&budget.growth);
  atomic64_store_relaxed(&budget.growth, max_size(grown, growth - growth / 4));
}

static uint64_t margin_of(uint64_t bound) {
  uint64_t growth = atomic64_load_relaxed(&budget.growth);
  return min_size(max_size(growth, bound / LEAST_PART), bound / MOST_PART);
}

static pressure_t classify(int64_t left, uint64_t bound) {
  return left < 0                           ? PRESSURE_OVER
         : left < (int64_t)margin_of(bound) ? PRESSURE_NEAR
                                            : PRESSURE_NONE;
}

/* The level goes down again only if it would with a little more in use. */
static pressure_t level_of(int64_t left, uint64_t bound, pressure_t before) {
  pressure_t level = classify(left, bound);
  if (level >= before) return level;
  pressure_t with_more = classify(left - (int64_t)(bound / LEAST_PART), bound);
  return with_more < before ? with_more : before;
}

static bool uses_little(void) {
  return atomic64_load_relaxed(&arena_counts.committed) < LOOK_LEAST_SLICES &&
         atomic64_load_relaxed(&arena_counts.huge_bytes) == 0;
}

static void look_at_container(uint64_t used, uint32_t now) {
  if (uses_little() || !pace_take(&container_looks, now, 0)) return;
  pace_set_wait(&container_looks, LOOK_MS); /* a file may not answer */
  container_look(now);
  atomic64_store_relaxed(&used_at_look, used);
  uint64_t limit = atomic64_load_relaxed(&container.limit);
  bool is_free = limit == 0, is_close = atomic64_load_relaxed(&container.room) < limit / 2;
  pace_set_wait(&container_looks, is_free ? LOOK_FREE_MS : is_close ? LOOK_NEAR_MS : LOOK_MS);
  if (atomic32_load_relaxed(&container.state) >= CONTAINER_TORN)
    atomic32_store_relaxed(&budget.news, 1);
}

/* How much is left until the container's limit, counting what this process has taken since the
 * look. If the kernel was short meanwhile, a part of the rest does not count. */
static int64_t left_in_container(uint64_t limit, uint64_t used) {
  int64_t left = (int64_t)atomic64_load_relaxed(&container.room);
  left -= (int64_t)(used - atomic64_load_relaxed(&used_at_look));
  if (atomic32_load_relaxed(&container.is_short) != 0) left -= (int64_t)margin_of(limit);
  return left;
}

void budget_ask(void) {
  uint64_t none = PRESSURE_NONE;
  pace_note(&requests, os_now_ms(), BUDGET_ASKED_MS);
  atomic32_store_relaxed(&budget.is_close, 1);
  if (!atomic64_cas_relaxed(&budget.level, &none, PRESSURE_NEAR)) return;
  atomic64_add_relaxed(&budget.raises, 1); /* the next tick goes on from there */
  atomic32_store_relaxed(&budget.news, 1);
}

/* Forgets a request that is over, unless another has come meanwhile: the clock wraps. */
static bool is_asked_for(uint32_t now) {
  uint32_t wait = atomic32_load_relaxed(&requests.wait);
  if (wait == 0) return false;
  if (!pace_is_due(&requests, now, 0)) return true;
  atomic32_cas_relaxed(&requests.wait, &wait, 0);
  bool is_asked = pace_passed(&requests, os_now_ms()) < BUDGET_ASKED_MS;
  if (is_asked) pace_set_wait(&requests, BUDGET_ASKED_MS);
  return is_asked;
}

static bool change_level(pressure_t level, pressure_t before, uint64_t over, uint32_t now) {
  uint64_t from = before;
  bool has_changed = level != before && atomic64_cas_relaxed(&budget.level, &from, level);
  if (has_changed && level > before) atomic64_add_relaxed(&budget.raises, 1);
  if (level != PRESSURE_NONE && pace_take(&repeats, now, REPEAT_MS)) has_changed = true;
  atomic64_store_relaxed(&budget.over, over);
  if (has_changed && (level != before || level == PRESSURE_OVER))
    atomic32_store_relaxed(&budget.news, 1);
  return has_changed && level != PRESSURE_NONE;
}

static out_of_line bool tick(uint32_t now) {
  if (now == 0) now = os_now_ms();
  uint64_t used = bytes_in_use() + (atomic64_load_relaxed(&arena_counts.dirty) << SLICE_SHIFT);
  uint64_t soft = budget_bytes(OPTION_memory_soft), limit = 0;
  if (option_get(OPTION_container) == CONTAINER_AUTO) {
    look_at_container(used, now);
    limit = atomic64_load_relaxed(&container.limit);
  }
  pressure_t before = (pressure_t)atomic64_load_relaxed(&budget.level), level = PRESSURE_NONE;
  bool is_asked = is_asked_for(now);
  if (likely((soft | limit | before) == 0) && !is_asked) return false;
  int64_t left = (int64_t)(soft - used);
  learn_growth(used, now);
  if (soft != 0) level = level_of(left, soft, before);
  bool is_close = soft != 0 && left < (int64_t)(soft / 2);
  if (limit != 0) {
    int64_t left_there = left_in_container(limit, used);
    pressure_t there = level_of(left_there, limit, before);
    is_close |= left_there < (int64_t)(limit / 2);
    if (there > level) level = there;
  }
  if (is_asked) {
    level = (pressure_t)max_size(level, PRESSURE_NEAR);
    is_close = true;
  }
  atomic32_store_relaxed(&budget.is_close, is_close);
  return change_level(level, before, soft != 0 && left < 0 ? (uint64_t)-left : 0, now);
}

/* A small program without a bound skips all of that, unless it was asked once. */
bool budget_tick(uint32_t now) {
  if (uses_little() && option_get(OPTION_memory_soft) == 0 &&
      (atomic64_load_relaxed(&container.limit) | atomic64_load_relaxed(&budget.level)) == 0 &&
      atomic32_load_relaxed(&requests.wait) == 0)
    return false;
  return tick(now);
}

bool budget_is_valid(void) {
  uint64_t now = atomic64_load_relaxed(&budget.level);
  HOLDS(B1, atomic64_load_relaxed(&budget.over) == 0 || now == PRESSURE_OVER);
  HOLDS(B2, atomic32_load_relaxed(&budget.is_close) != 0 || now == PRESSURE_NONE);
  return true;
}
