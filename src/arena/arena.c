/* arena.c - windows of address space and their slices                                layer 3: arena
 * Contract: arena.h. */

#include "../os/os.h"
#include "budget.h"
#include "frames.h"
#include "grow.h"
#include "patience.h"

void arena_note_peak(void) {
  uint64_t committed =
    atomic64_load_relaxed(&arena_counts.committed) +
    ((atomic64_load_relaxed(&arena_counts.huge_bytes) + SLICE_SIZE - 1) >> SLICE_SHIFT);
  atomic64_raise_relaxed(&arena_counts.peak_committed, committed);
}

typedef struct {
  arena_maps_t *maps;
  size_t dirty, purged;
} booked_t;

static void take_over_part(atomic64_t *dirty, uint64_t bits, void *context) {
  booked_t *t = context;
  uint64_t set = atomic64_load_relaxed(dirty) & bits; /* relaxed: the slices are claimed, A1 */
  t->dirty += ~set == 0 ? 64 : bits_count(set);
  slices_take_bits(&t->maps->purged[dirty - t->maps->dirty], bits, &t->purged);
}

/* Books `n` claimed slices; true if all of them read as zero. */
static bool take_over(arena_t *a, size_t first, size_t n) {
  booked_t t = {.maps = arena_maps(a)};
  const atomic32_t *since = &t.maps->dirty_since[first / 64];
  bitmap_each_part(t.maps->dirty, first, n, take_over_part, &t);
  if (t.purged != 0)
    patience_note_reuse(t.purged, os_ms_between(atomic32_load_relaxed(since), os_now_ms()));
  if (t.dirty != 0 && !a->is_pinned)
    atomic64_add_relaxed(&arena_counts.dirty, (uint64_t)0 - t.dirty);
  memset(&t.maps->touched[first], TOUCHED_ALL, n - 1);
  atomic64_add_relaxed(&arena_counts.committed, n);
  arena_note_peak();
  return t.dirty == 0;
}

/* ---- claiming -------------------------------------------------------------------------------- */

/* Claims by `attempt` in the arenas from number `from` on, except where `lacks` says that a search
 * is in vain; NULL: in all. On failure `*slice` says why: NO_MEMORY, or NO_SLICES. */
static arena_t *try_each(slices_attempt_t *attempt, lacks_t *lacks, size_t from, size_t n,
                         size_t alignment, size_t *slice) {
  bool is_short = false;
  for (size_t i = from; i < arena_count(); i++) {
    if (lacks != NULL && slices_are_lacking(&lacks[i], n, alignment)) continue;
    arena_t *a = arena_at(i);
    if (a == NULL) continue;
    *slice =
      lacks != NULL ? slices_try(attempt, &lacks[i], a, n, alignment) : attempt(a, n, alignment);
    if (*slice == NO_MEMORY) is_short = true;
    else if (*slice != NO_SLICES && *slice != 0) return a;
  }
  *slice = is_short ? NO_MEMORY : NO_SLICES;
  return NULL;
}

/* Claims free slices, or else maps the rest of a window. */
static arena_t *claim_existing(size_t from, size_t n, size_t alignment, size_t *slice) {
  arena_t *a = try_each(slices_claim, lacks_free, from, n, alignment, slice);
  return a != NULL ? a : try_each(grow_claim, lacks_room, from, n, alignment, slice);
}

/* Before it adds a window it searches all, whatever the hints say. */
static arena_t *claim_anywhere(size_t n, size_t alignment, size_t *slice) {
  size_t slices, seen = arena_count();
  arena_t *a = claim_existing(0, n, alignment, slice);
  bool is_short = *slice == NO_MEMORY; /* one more window would take more of it */
  if (a == NULL) a = try_each(slices_claim, NULL, 0, n, alignment, slice);
  if (a != NULL || is_short) return a;
  arena_t *fresh = grow_map_window(n, alignment, &slices);
  if (fresh == NULL) return NULL;
  /* if many threads come here at once, few add an arena */
  a = claim_existing(seen, n, alignment, slice);
  if (a == NULL && (*slice = grow_publish_window(fresh, n, alignment, slices)) != NO_SLICES)
    return fresh;
  grow_unmap_window(fresh, slices);
  return a;
}

static void *claim_slices(size_t n, size_t alignment, bool *clean) {
  size_t slice, seen = 0;
  arena_t *a = NULL;
  /* Others that map the rest of the address space at this moment may have added an arena. */
  for (int tries = 0; tries < 3 && a == NULL; tries++) {
    if (tries != 0 && !arena_unmap_free() && arena_count() == seen) return NULL;
    seen = arena_count();
    a = claim_anywhere(n, alignment, &slice);
  }
  if (a == NULL) return NULL;
  *clean = take_over(a, slice, n);
  return arena_address(a, slice);
}

void *arena_claim(size_t n, size_t alignment, bool *clean) {
  ASSERT(n != 0 && is_power_of_two(alignment) && n + alignment <= WINDOW_SLICES / 2);
  return budget_is_spent(n << SLICE_SHIFT) ? NULL : claim_slices(n, alignment, clean);
}
void *arena_claim_beyond(bool *clean) { return claim_slices(1, 1, clean); }

static bool claim_at(void *at, size_t n, bool may_grow, bool *clean) {
  arena_t *a = arena_of(at);
  size_t first = arena_slice(at);
  ASSERT(n != 0);
  if (first == 0 || first + n > ARENA_END || budget_is_spent(n << SLICE_SHIFT)) return false;
  bool is_free = bitmap_has(a->free, first); /* most often not: then nobody misses anything */
  if (!(is_free && slices_claim_at(a, first, n)) && !(may_grow && grow_at(a, first, n)))
    return false;
  *clean = take_over(a, first, n);
  return true;
}
bool arena_claim_at(void *at, size_t n, bool *clean) { return claim_at(at, n, false, clean); }
bool arena_grow_at(void *at, size_t n, bool *clean) { return claim_at(at, n, true, clean); }

/* ---- giving back ----------------------------------------------------------------------------- */

static void put_free(arena_t *a, size_t first, size_t n) {
  ASSERT(n != 0 && first + n <= WINDOW_SLICES);
  atomic64_add_relaxed(&arena_counts.committed, (uint64_t)0 - n);
  slices_give_back(a, first, n);
}

void arena_release_clean(void *at, size_t n) {
  arena_t *a = arena_of(at);
  size_t first = arena_slice(at), were_dirty = 0;
  bitmap_each_part(arena_maps(a)->dirty, first, n, slices_take_bits, &were_dirty);
  memset(&arena_maps(a)->touched[first], 0, n);
  put_free(a, first, n);
}

typedef struct {
  arena_maps_t *maps;
  uint32_t now;
} left_t;

/* relaxed: only purge's patience needs the time. Written only if it changes. */
static void leave_dirty_part(atomic64_t *dirty, uint64_t bits, void *context) {
  const left_t *l = context;
  atomic32_t *since = &l->maps->dirty_since[dirty - l->maps->dirty];
  if ((atomic64_load_relaxed(dirty) & bits) != bits) atomic64_or_relaxed(dirty, bits);
  if (atomic32_load_relaxed(since) != l->now) atomic32_store_relaxed(since, l->now);
}

/* Out of line, because it needs more of the stack than the code that follows. */
static out_of_line void put_dirty(arena_t *a, size_t first, size_t n) {
  left_t l = {arena_maps(a), os_now_ms()};
  bitmap_each_part(l.maps->dirty, first, n, leave_dirty_part, &l);
  if (!a->is_pinned) atomic64_add_relaxed(&arena_counts.dirty, n);
  put_free(a, first, n);
}

void arena_release_dirty(void *at, size_t n) { put_dirty(arena_of(at), arena_slice(at), n); }

static void note_discarded(void *at, size_t size) {
  size_t first = arena_slice(at), last = arena_slice((char *)at + size - 1);
  if (map_kind(map_find(at)) == TENANT_ARENA) frames_break(arena_of(at), first, last - first + 1);
}

bool arena_discard(void *at, size_t size) {
  if (arena_is_pinned(at) || !os_discard(at, size)) return false;
  return note_discarded(at, size), true;
}

/* The lowest runs, as many as one call takes. Returns those that went; 0: the lowest is refused. */
static uint64_t discard_lowest(void *base, size_t unit, uint64_t units) {
  os_range_t ranges[OS_RANGES_MOST];
  size_t n = 0;
  uint64_t rest = units, gone;
  for (; rest != 0 && n < OS_RANGES_MOST; rest &= ~bits_lowest_run(rest)) /* Bound: that */
    ranges[n++] = os_range_of(base, unit, rest);
  n = os_discard_some(ranges, n);
  for (gone = 0; n > 0; n--) gone |= bits_lowest_run(units & ~gone); /* Bound: as above */
  return gone;
}

uint64_t arena_discard_runs(void *base, size_t unit, uint64_t units) {
  uint64_t gone = 0, rest = arena_is_pinned(base) ? 0 : units;
  while (rest != 0) { /* Bound: bits */
    uint64_t now = discard_lowest(base, unit, rest);
    rest &= now != 0 ? ~now : ~bits_lowest_run(rest);
    gone |= now;
  }
  if (gone != 0) note_discarded(base, (bits_highest(gone) + 1) * unit);
  return gone;
}

void arena_release_moved(void *at, size_t n) {
  frames_break(arena_of(at), arena_slice(at), n);
  if (grow_map_again(at, n)) arena_release_clean(at, n);
}
