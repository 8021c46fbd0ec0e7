/* arena.c - windows of address space and their slices                                layer 3: arena
 * Contract: arena.h. */
#include "arena.h"

#include "../base/check.h"
#include "../os/os.h"
#include "../support/options.h"

arena_counts_t arena_counts;

static atomic_ptr_t arena_list[ARENA_MAX];
/* Slots that were claimed. relaxed: a slot's own word says if it is filled. */
static atomic32_t arena_list_length;

/* Ranges that are being mapped. relaxed: a hint; a thread that ends inside leaves it too high, and
 * steps are smaller from then on. */
static atomic32_t growing;

enum {
  FIRST_SLICES = 28, /* mapped with a new arena, behind its own */
  LEAST_STEP = 64,   /* slices mapped by each of many threads that grow at once */
  GROWTH_TRIES = 8,  /* ranges tried before a fresh arena, ... */
  JOIN_TRIES = 2,    /* ... and as often again for each try to join one with free slices below it */
};

size_t arena_count(void) { return min_size(atomic32_load_relaxed(&arena_list_length), ARENA_MAX); }
arena_t *arena_at(size_t number) {
  return atomic_ptr_load_acquire(&arena_list[number]); /* S-arena */
}

/* ---- what the bits say of a range ------------------------------------------------------------ */

/* relaxed, all three: the slices are claimed, A1; their release follows */
static void count_part(atomic64_t *word, uint64_t bits, void *count) {
  *(size_t *)count += bits_count(atomic64_load_relaxed(word) & bits);
}

static void take_part(atomic64_t *word, uint64_t bits, void *count) {
  uint64_t set = atomic64_load_relaxed(word) & bits;
  if (set == 0) return;
  atomic64_and_relaxed(word, ~set);
  *(size_t *)count += bits_count(set);
}

static void set_part(atomic64_t *word, uint64_t bits, void *context) {
  (void)context;
  if ((atomic64_load_relaxed(word) & bits) != bits) atomic64_or_relaxed(word, bits);
}

void arena_note_peak(void) {
  uint64_t committed = atomic64_load_relaxed(&arena_counts.committed) +
                       (atomic64_load_relaxed(&arena_counts.huge_bytes) >> SLICE_SHIFT);
  uint64_t peak = atomic64_load_relaxed(&arena_counts.peak_committed);
  while (committed > peak) /* Progress: a failed swap means that the peak rose */
    if (atomic64_swap_relaxed(&arena_counts.peak_committed, &peak, committed)) return;
}

/* Books `n` claimed slices; true if all of them read as zero. */
static bool take_over(arena_t *a, size_t first, size_t n) {
  size_t dirty = 0, purged = 0;
  bitmap_each_part(arena_maps(a)->dirty, first, n, count_part, &dirty);
  bitmap_each_part(arena_maps(a)->purged, first, n, take_part, &purged);
  if (purged != 0) purge_note_reuse(purged);
  if (dirty != 0) atomic64_add_relaxed(&arena_counts.dirty, (uint64_t)0 - dirty);
  atomic64_add_relaxed(&arena_counts.committed, n);
  arena_note_peak();
  return dirty == 0;
}

bool arena_is_over_limit(size_t size) {
  uint64_t limit = (uint64_t)option_get(OPTION_memory_limit);
  if (likely(limit == 0)) return false;
  uint64_t slices = atomic64_load_relaxed(&arena_counts.committed) << SLICE_SHIFT;
  return slices + atomic64_load_relaxed(&arena_counts.huge_bytes) + size > limit;
}

/* ---- claiming what is mapped ----------------------------------------------------------------- */

static size_t claim_free(arena_t *a, size_t n) {
  size_t low = atomic32_load_relaxed(&a->low_word); /* relaxed: a hint */
  size_t words = (atomic64_load_relaxed(&a->mapped) + 63) / 64;
  size_t slice = bitmap_claim_run(a->free, words, low, n);
  if (slice == BITMAP_NONE && low != 0) {
    low = 0;
    slice = bitmap_claim_run(a->free, words, 0, n);
  }
  if (n == 1) {
    size_t found = slice == BITMAP_NONE ? words : slice / 64;
    if (found != low) atomic32_store_relaxed(&a->low_word, (uint32_t)found);
  }
  return slice == BITMAP_NONE ? 0 : slice;
}

/* ---- growth ---------------------------------------------------------------------------------- */

static void advise_pages(void *at, size_t size, bool first) {
  int64_t thp = option_get(OPTION_thp);
  if (thp == THP_ALWAYS) os_advise_huge(at, size, true);
  else if (thp == THP_NEVER || first)
    os_advise_huge(at, size, false); /* auto: small processes stay small */
}

/* How many slices a thread maps that wants `n`, while `others` are at it: what they map may serve
 * it soon, but it does not wait for that. */
static size_t growth_step(size_t n, uint32_t others) {
  size_t step = min_size((size_t)option_get(OPTION_arena_step) >> SLICE_SHIFT,
                         atomic64_load_relaxed(&arena_counts.mapped) / 2);
  if (others != 0) step = min_size(step, max_size(step >> min_size(others, 16), LEAST_STEP));
  return max_size(n, step);
}

/* Maps the next `step` slices of the window, keeps the first `n` for the caller and frees the rest.
 * 0: no memory, or no room (slice 0 is never anybody's). A range whose mmap fails goes back, or is
 * lost if another thread has claimed the next. */
static size_t map_next(arena_t *a, size_t n, size_t step) {
  for (int tries = 0; tries < GROWTH_TRIES; tries++) {
    uint64_t from = atomic64_load_relaxed(&a->mapped); /* relaxed: the swap reads again */
    if (from + n > WINDOW_SLICES) return 0;
    step = min_size(step, WINDOW_SLICES - from);
    /* Progress: another thread grows ... */
    if (!atomic64_swap_relaxed(&a->mapped, &from, from + step)) {
      size_t slice = claim_free(a, n); /* ... and may have left us some */
      if (slice != 0) return slice;
      continue;
    }
    os_map_result_t result = os_map_at(arena_address(a, from), step << SLICE_SHIFT);
    if (result == OS_MAPPED) {
      atomic64_add_relaxed(&arena_counts.mapped, step);
      advise_pages(arena_address(a, from), step << SLICE_SHIFT, false);
      if (step > n) bitmap_release(a->free, from + n, step - n);
      return from;
    }
    if (result == OS_TAKEN) continue; /* somebody's mapping lies here: pass over the range */
    uint64_t end = from + step;
    atomic64_swap_relaxed(&a->mapped, &end, from);
    if (step == n) return 0;
    step = max_size(n, step / 4);
  }
  return 0;
}

static size_t grow_by(arena_t *a, size_t n) {
  uint32_t others = atomic32_add_relaxed(&growing, 1);
  size_t slice = map_next(a, n, growth_step(n, others));
  atomic32_add_relaxed(&growing, (uint32_t)-1);
  return slice;
}

/* The first arena's first range may be advised otherwise than what follows (advise_pages): a block
 * on both sides of that border could not move without a copy. */
static bool is_end_of_first(const arena_t *a, size_t end) {
  return a->number == 0 && end == ARENA_FIRST_SLICE + FIRST_SLICES;
}

/* What is free right below the end of what is mapped becomes the first part of the `n` slices, so
 * that no more is mapped than is missing; unless others grow the window, or claim there, at the
 * same moment. */
static size_t grow(arena_t *a, size_t n) {
  for (int tries = 0; tries < JOIN_TRIES; tries++) {
    size_t end = atomic64_load_relaxed(&a->mapped); /* relaxed: compared with what was mapped */
    size_t below = is_end_of_first(a, end) ? 0 : bitmap_run_below(a->free, end, n - 1);
    if (end + n - below > WINDOW_SLICES) return 0;
    if (below == 0) break;
    size_t slice = grow_by(a, n - below);
    if (slice == 0) return 0;
    if (slice == end && bitmap_claim_at(a->free, end - below, below)) return end - below;
    bitmap_release(a->free, slice, n - below);
  }
  return grow_by(a, n);
}

/* ---- a new arena ----------------------------------------------------------------------------- */

/* Its window, with `*slices` mapped, or none but `n` if memory is short. */
static arena_t *map_window(size_t n, size_t *slices) {
  *slices = ARENA_FIRST_SLICE + max_size(n, FIRST_SLICES);
  arena_t *a = map_new(1, *slices << SLICE_SHIFT);
  if (a != NULL || *slices == ARENA_FIRST_SLICE + n) return a;
  *slices = ARENA_FIRST_SLICE + n;
  return map_new(1, *slices << SLICE_SHIFT);
}

static void unmap_window(arena_t *a, size_t slices) {
  os_unmap(a, slices << SLICE_SHIFT);
  map_free(a, 1);
}

/* Its first `n` slices are the caller's. False: there are ARENA_MAX of them. */
static bool publish_window(arena_t *a, size_t n, size_t slices) {
  if (atomic32_load_relaxed(&arena_list_length) >= ARENA_MAX) return false;
  uint32_t number = atomic32_add_relaxed(&arena_list_length, 1);
  if (number >= ARENA_MAX) return false;
  advise_pages(a, slices << SLICE_SHIFT, number == 0 && n <= FIRST_SLICES);
  a->number = number;
  atomic64_store_relaxed(&a->mapped, slices);
  if (slices > ARENA_FIRST_SLICE + n)
    bitmap_release(a->free, ARENA_FIRST_SLICE + n, slices - ARENA_FIRST_SLICE - n);
  atomic64_add_relaxed(&arena_counts.mapped, slices);
  map_set(a, 1, a, TENANT_ARENA);
  atomic_ptr_store_release(&arena_list[number], a); /* S-arena */
  return true;
}

/* ---- claiming anything ----------------------------------------------------------------------- */

/* In the arenas from number `from` on: the lowest free slices; else the rest of a window is
 * mapped. */
static arena_t *claim_existing(size_t n, size_t from, size_t *slice) {
  for (int may_grow = 0; may_grow <= 1; may_grow++)
    for (size_t i = from; i < arena_count(); i++) {
      arena_t *a = arena_at(i);
      if (a == NULL) continue;
      *slice = may_grow ? grow(a, n) : claim_free(a, n);
      if (*slice != 0) return a;
    }
  return NULL;
}

static arena_t *claim_anywhere(size_t n, size_t *slice) {
  size_t slices, seen = arena_count();
  arena_t *a = claim_existing(n, 0, slice);
  if (a != NULL) return a;
  arena_t *fresh = map_window(n, &slices);
  if (fresh == NULL) return NULL;
  a = claim_existing(n, seen, slice); /* of many threads that come here at once few add an arena */
  if (a == NULL && publish_window(fresh, n, slices)) {
    *slice = ARENA_FIRST_SLICE;
    return fresh;
  }
  unmap_window(fresh, slices);
  return a;
}

void *arena_claim(size_t n, size_t alignment, bool *clean) {
  size_t slice, want = n + alignment - 1;
  if (arena_is_over_limit(n << SLICE_SHIFT)) return NULL;
  arena_t *a = claim_anywhere(want, &slice);
  if (a == NULL) return NULL;
  size_t first = align_up(slice, alignment);
  if (first > slice) bitmap_release(a->free, slice, first - slice);
  if (first + n < slice + want) bitmap_release(a->free, first + n, slice + want - first - n);
  *clean = take_over(a, first, n);
  return arena_address(a, first);
}

bool arena_claim_at(void *at, size_t n, bool *clean) {
  arena_t *a = arena_of(at);
  size_t first = arena_slice(at);
  if (first == 0 || first + n > WINDOW_SLICES || arena_is_over_limit(n << SLICE_SHIFT))
    return false;
  if (!bitmap_claim_at(a->free, first, n)) return false;
  *clean = take_over(a, first, n);
  return true;
}

/* ---- giving back ----------------------------------------------------------------------------- */

static void put_free(arena_t *a, size_t first, size_t n) {
  atomic64_add_relaxed(&arena_counts.committed, (uint64_t)0 - n);
  bitmap_release(a->free, first, n);
  if (first / 64 < atomic32_load_relaxed(&a->low_word))
    atomic32_store_relaxed(&a->low_word, (uint32_t)(first / 64)); /* a hint */
}

void arena_release_clean(void *at, size_t n) {
  arena_t *a = arena_of(at);
  size_t first = arena_slice(at), were_dirty = 0;
  bitmap_each_part(arena_maps(a)->dirty, first, n, take_part, &were_dirty);
  put_free(a, first, n);
}

/* relaxed: for purge's patience alone. Written only if it is news to the other threads. */
static void note_time(atomic32_t *since, uint32_t now) {
  if (atomic32_load_relaxed(since) != now) atomic32_store_relaxed(since, now);
}

void arena_release(void *at, size_t n) {
  arena_t *a = arena_of(at);
  arena_maps_t *maps = arena_maps(a);
  size_t first = arena_slice(at);
  uint32_t now = os_now_ms();
  bitmap_each_part(maps->dirty, first, n, set_part, NULL);
  for (size_t word = first / 64; word <= (first + n - 1) / 64; word++)
    note_time(&maps->dirty_since[word], now);
  atomic64_add_relaxed(&arena_counts.dirty, n);
  put_free(a, first, n);
  purge_over_budget(n);
  purge_tick();
}

bool arena_unmap_free(void) { return false; }

/* Pages that are not in memory are not touched, and 64 slices asked for at a time: most of a window
 * never was in memory. */
static bool is_present(const arena_t *a, size_t first, size_t n) {
  return os_resident(arena_address(a, first), n << SLICE_SHIFT) != 0;
}

static bool reads_as_zero(const arena_t *a, size_t slice) {
  const uint64_t *words = arena_address(a, slice);
  if (!is_present(a, slice, 1)) return true;
  for (size_t i = 0; i < SLICE_SIZE / sizeof *words; i++)
    if (words[i] != 0) return false;
  return true;
}

bool arena_is_valid(const arena_t *a) {
  size_t mapped = atomic64_load_relaxed(&a->mapped);
  for (size_t first = 0; first < WINDOW_SLICES; first += 64) {
    uint64_t free = atomic64_load_relaxed(&a->free[first / 64]);
    uint64_t clean = free & ~atomic64_load_relaxed(&arena_maps(a)->dirty[first / 64]);
    for (uint64_t left = free; left != 0; left &= left - 1) { /* Bound: the bits of a word */
      size_t slice = first + bits_lowest(left);
      HOLDS(A2, slice >= ARENA_FIRST_SLICE && slice < mapped);
    }
    if (clean == 0 || !is_present(a, first, min_size(64, mapped - first))) continue;
    for (; clean != 0; clean &= clean - 1)     /* Bound: likewise */
      HOLDS(A3, reads_as_zero(a, first + bits_lowest(clean)));
  }
  return true;
}
