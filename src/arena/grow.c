/* grow.c - more mapped slices: the rest of a window, what was unmapped, a new window layer 3: arena
 * Contract: grow.h. */
#include "grow.h"

#include "../support/options.h"
#include "../support/pace.h"
#include "../support/timing.h"
#include "budget.h"
#include "frames.h"

/* Ranges that are being mapped. relaxed: a hint; a thread that ends inside leaves it too high,
 * which makes steps smaller from then on. Below 0 in a child of fork that was forked inside. */
static atomic32_t growing;

/* Slices in the maps `unmapped` of all arenas. relaxed: 0 spares a look. */
static atomic64_t unmapped_slices;

enum {
  FIRST_SLICES = 28, /* mapped with a new arena, behind its own */
  LEAST_STEP = 64,   /* slices that each of many threads maps at once, or where all is locked */
  GROWTH_TRIES = 8,  /* ranges to try before a fresh arena */
  GIVEN_TRIES = 3,   /* slices unmapped to see if the system gives them again */
  GIVEN_WAIT = 16,   /* ms until that is tried again, at first and at last */
  GIVEN_WAIT_MOST = 1024,
  JOIN_TRIES = 2, /* tries to join a range with free slices below it, of so many ranges each */
};

/* For a range just mapped. Only the used pages of a window's head should be in memory. Pressure
 * does not change the advice: it stays for good, and a block across two kinds could not move. */
static void prepare_pages(char *at, size_t size, bool first) {
  size_t head = arena_slice(at) == 0 ? ARENA_FIRST_SLICE << SLICE_SHIFT : 0;
  int64_t thp = option_get(OPTION_thp);
  if (thp == THP_ALWAYS) os_advise_huge(at, size, true);
  else if (thp == THP_NEVER || first)
    os_advise_huge(at, size, false); /* auto: small processes stay small */
  if (option_get(OPTION_arena_populate) && !budget_is_tight()) os_populate(at + head, size - head);
}

static bool is_slice(size_t slice) { return slice != 0 && slice < WINDOW_SLICES; }

/* ---- the rest of a window -------------------------------------------------------------------- */

/* 1: the last mapping could not be discarded, since the program locks all that it will map:
 * mappings are in memory at once. relaxed: a hint */
static atomic32_t is_locked;

static out_of_line void note_mapped(char *at, size_t slices) {
  uint32_t now = !os_discard(at + ((slices - 1) << SLICE_SHIFT), os_page_size());
  if (now != atomic32_load_relaxed(&is_locked)) atomic32_store_relaxed(&is_locked, now);
  atomic64_add_relaxed(&arena_counts.mapped, slices);
  prepare_pages(at, slices << SLICE_SHIFT, false);
}

/* How many slices a thread that wants `n` maps while `others` map too. Their slices may soon serve
 * it, but it does not wait for them. */
static size_t growth_step(size_t n, uint32_t others) {
  size_t step = min_size((size_t)option_get(OPTION_arena_step) >> SLICE_SHIFT,
                         atomic64_load_relaxed(&arena_counts.mapped) / 2);
  if (atomic32_load_relaxed(&is_locked) != 0) step = min_size(step, LEAST_STEP);
  if (others != 0) step = min_size(step, max_size(step >> min_size(others, 16), LEAST_STEP));
  return max_size(n, step);
}

/* The system mapped nothing in a claimed range. It goes back; or if another thread has claimed the
 * next range, it counts as unmapped. */
static void put_back_range(arena_t *a, uint64_t from, size_t n) {
  uint64_t end = from + n;
  if (!atomic64_cas_seq_cst(&a->mapped, &end, from)) { /* S-room */
    atomic64_add_relaxed(&unmapped_slices, n);
    bitmap_release(arena_maps(a)->unmapped, from, n);
  }
  lacks_forget(&lacks_room[a->number]);
}

/* Maps the next `step` slices of the window, keeps the first `n` for the caller and frees the rest.
 * NO_SLICES, NO_MEMORY, or 0: others were quicker. */
static size_t map_next(arena_t *a, size_t n, size_t step) {
  for (int tries = 0; tries < GROWTH_TRIES; tries++) {
    /* relaxed: map_more, where a search for room begins, has read it; the swap reads again */
    uint64_t from = atomic64_load_relaxed(&a->mapped), rest = a->end - from;
    if (n > rest) return NO_SLICES;
    step = min_size(step, rest);
    /* Progress: another thread grows ... */
    if (!atomic64_cas_relaxed(&a->mapped, &from, from + step)) {
      size_t slice = slices_claim(a, n, 1); /* ... and may have left us some */
      if (is_slice(slice)) return slice;
      continue;
    }
    timing_mark(TIMING_GROW);
    os_map_result_t result = os_map_at(arena_address(a, from), step << SLICE_SHIFT);
    if (result == OS_MAPPED) {
      note_mapped(arena_address(a, from), step);
      if (step > n) slices_give_back(a, from + n, step - n);
      return from;
    }
    if (result == OS_OCCUPIED) continue; /* somebody's mapping lies here: pass over the range */
    put_back_range(a, from, step);
    if (step == n) return NO_MEMORY;
    step = max_size(n, step / 4);
  }
  return 0;
}

static always_inline size_t grow_by(arena_t *a, size_t n) {
  int32_t others = (int32_t)atomic32_add_relaxed(&growing, 1);
  size_t slice = map_next(a, n, growth_step(n, others > 0 ? (uint32_t)others : 0));
  atomic32_add_relaxed(&growing, (uint32_t)-1);
  return slice;
}

void arena_begin_in_child(void) { atomic32_store_relaxed(&growing, 0); }

/* Keeps the `n` of `have` claimed slices that begin at a multiple of `alignment`, frees others. */
static out_of_line size_t keep_aligned(arena_t *a, size_t slice, size_t have, size_t n,
                                       size_t alignment) {
  if (!is_slice(slice)) return slice;
  size_t first = align_up(slice, alignment), end = first + n;
  if (first > slice) slices_give_back(a, slice, first - slice);
  if (end < slice + have) slices_give_back(a, end, slice + have - end);
  return first;
}

/* The advice for the first arena's first range may differ from the next (prepare_pages): a block
 * across that border could not move without a copy. */
bool arena_is_first_end(const arena_t *a, size_t slice) {
  return a->number == 0 && slice == ARENA_FIRST_SLICE + FIRST_SLICES;
}

/* Free slices right below the end of the mapped ones become the first part of the `n`, so that only
 * missing ones are mapped. Not if others grow the window, or claim there, at the same moment. */
static always_inline size_t map_more(arena_t *a, size_t n, size_t alignment) {
  for (int tries = 0; tries < JOIN_TRIES; tries++) {
    size_t end = atomic64_load_seq_cst(&a->mapped); /* S-room; compared with what was mapped */
    size_t below = arena_is_first_end(a, end) ? 0 : bitmap_run_below(a->free, end, n - 1);
    size_t first = align_up(end - below, alignment), missing = first + n - end;
    if (first + n > a->end) return NO_SLICES;
    if (first == end && alignment == 1) break;
    size_t slice = grow_by(a, missing);
    if (!is_slice(slice)) return slice;
    if (slice == end && first >= end) return keep_aligned(a, end, missing, n, alignment);
    if (slice == end && slices_claim_at(a, first, end - first)) return first;
    slices_give_back(a, slice, missing);
  }
  size_t want = n + alignment - 1;
  return keep_aligned(a, grow_by(a, want), want, n, alignment);
}

/* Not across the border of the first range. Takes the slices above the end first, so that a thread
 * that stops then holds back no slice that others could have. */
bool grow_at(arena_t *a, size_t first, size_t n) {
  size_t end = atomic64_load_relaxed(&a->mapped); /* relaxed: compared with what was mapped */
  if (first > end || first + n <= end || first + n > a->end || arena_is_first_end(a, end))
    return false;
  size_t below = end - first, missing = n - below;
  if (bitmap_run_above(a->free, first, below) < below) return false;
  size_t slice = grow_by(a, missing);
  if (!is_slice(slice)) return false;
  if (slice == end && (below == 0 || slices_claim_at(a, first, below))) return true;
  slices_give_back(a, slice, missing);
  return false;
}

/* ---- what was unmapped ----------------------------------------------------------------------- */

/* Maps the first of so many slices again, if they were unmapped, and claims them. Returns how many,
 * or NO_MEMORY. Skips what somebody else has mapped there meanwhile. */
static size_t map_again(arena_t *a, size_t first, size_t most) {
  atomic64_t *unmapped = arena_maps(a)->unmapped;
  size_t n = bitmap_run_above(unmapped, first, most);
  if (n == 0) return 0;
  os_map_result_t result = OS_OCCUPIED;
  bool is_refused = false;
  if (bitmap_claim_at(unmapped, first, n)) {
    result = os_map_at(arena_address(a, first), n << SLICE_SHIFT);
    is_refused = result == OS_NO_MEMORY;
    if (is_refused) bitmap_release(unmapped, first, n);
    else atomic64_add_relaxed(&unmapped_slices, (uint64_t)0 - n);
  }
  if (result != OS_MAPPED) {
    lacks_forget(&lacks_room[a->number]); /* others may have missed what came back */
    return is_refused ? NO_MEMORY : 0;
  }
  atomic64_add_relaxed(&arena_counts.mapped, n);
  prepare_pages(arena_address(a, first), n << SLICE_SHIFT, false);
  return n;
}

/* Claims slices that are free or were unmapped. Slices mapped again in vain stay free. */
static out_of_line size_t claim_joined(arena_t *a, size_t n, size_t alignment) {
  size_t first = bitmap_find_joined(a->free, arena_maps(a)->unmapped, ARENA_WORDS, n, alignment);
  if (first == BITMAP_NONE) return NO_SLICES;
  for (size_t have = 0; have < n;) { /* Bound: the slices */
    size_t at = first + have, part = bitmap_run_above(a->free, at, n - have);
    if (part == 0) part = map_again(a, at, n - have);
    else if (!slices_claim_at(a, at, part)) part = 0;
    bool has_failed = part == 0 || part == NO_MEMORY;
    if (has_failed && have != 0) slices_give_back(a, first, have);
    if (has_failed) return part;
    have += part;
  }
  return first;
}

/* Nothing is mapped at these claimed slices any more. `*dirty` grows by how many were dirty. */
static void note_unmapped(arena_t *a, size_t first, size_t n, size_t *dirty) {
  arena_maps_t *maps = arena_maps(a);
  size_t purged = 0;
  bitmap_each_part(maps->dirty, first, n, slices_take_bits, dirty);
  bitmap_each_part(maps->purged, first, n, slices_take_bits, &purged);
  memset(&maps->touched[first], 0, n);
  frames_break(a, first, n);
  atomic64_add_relaxed(&arena_counts.mapped, (uint64_t)0 - n);
  atomic64_add_relaxed(&unmapped_slices, n);
  bitmap_release(maps->unmapped, first, n);
  lacks_forget(&lacks_room[a->number]);
}

bool grow_map_again(void *at, size_t n) {
  if (os_map_at(at, n << SLICE_SHIFT) != OS_MAPPED) {
    size_t were_dirty = 0; /* does not count while they are in use */
    note_unmapped(arena_of(at), arena_slice(at), n, &were_dirty);
    return false;
  }
  prepare_pages(at, n << SLICE_SHIFT, false);
  atomic64_add_relaxed(&arena_counts.committed, n);
  return true;
}

size_t grow_claim(arena_t *a, size_t n, size_t alignment) {
  if (unlikely(atomic64_load_relaxed(&unmapped_slices) != 0)) {
    size_t slice = claim_joined(a, n, alignment);
    if (slice != NO_SLICES) return slice;
  }
  return map_more(a, n, alignment);
}

static uint32_t count_reader(const void *p, uint32_t more) {
  /* S-read */
  return atomic32_add_acq_rel(&arena_maps(arena_of(p))->readers[arena_slice(p) / 64], more);
}
void arena_read_begin(const void *p) { count_reader(p, 1); }
void arena_read_end(const void *p) {
  uint32_t readers = count_reader(p, (uint32_t)-1);
  ASSERT(readers != 0);
}
bool arena_is_read(const void *first, size_t n) {
  const char *p = first, *end = p + (n << SLICE_SHIFT);
  for (; p < end; p = (char *)align_down((uintptr_t)p, 64 << SLICE_SHIFT) + (64 << SLICE_SHIFT))
    if (count_reader(p, 0) != 0) return true; /* S-read */
  return false;
}

/* The free slices of a word, if no others are mapped there. relaxed, all: a claim decides. */
static uint64_t group_to_unmap(const arena_t *a, size_t word) {
  uint64_t gone = atomic64_load_relaxed(&arena_maps(a)->unmapped[word]);
  uint64_t free = atomic64_load_relaxed(&a->free[word]), mapped = atomic64_load_relaxed(&a->mapped);
  if (a->is_added) return 0;
  if (mapped < (word + 1) * 64)
    gone |= mapped <= word * 64 ? ~UINT64_C(0) : ~UINT64_C(0) << mapped % 64;
  return ~(free | gone) == 0 ? free : 0;
}

/* Unmaps these free slices of the group; returns how many. */
static always_inline size_t unmap_group(arena_t *a, size_t word, uint64_t free) {
  uint64_t claimed = bitmap_claim_some(&a->free[word], free);
  if (claimed == 0) return 0;
  bool is_whole = claimed == free && !arena_is_read(arena_address(a, word * 64), 64);
  size_t unmapped = 0, dirty = 0;
  for (uint64_t rest = is_whole ? claimed : 0; rest != 0;) { /* Bound: a word's runs */
    unsigned at = bits_lowest(rest), n = bits_ones_below(rest >> at);
    rest &= ~bits_run(at, n);
    if (!os_unmap(arena_address(a, word * 64 + at), (size_t)n << SLICE_SHIFT)) continue;
    claimed &= ~bits_run(at, n);
    note_unmapped(a, word * 64 + at, n, &dirty);
    unmapped += n;
  }
  if (claimed != 0) arena_put_back(a, word, claimed);
  atomic64_add_relaxed(&arena_counts.dirty, (uint64_t)0 - dirty);
  return unmapped;
}

/* Unmaps one slice of the group, and maps it again. REFUSED: the system does not give back what it
 * gets, so unmapping more would gain nothing. */
typedef enum { NOT_TRIED, GIVEN, REFUSED } trial_t;
static trial_t try_one(arena_t *a, size_t word) {
  uint64_t bit = bits_lowest_one(group_to_unmap(a, word));
  if (unmap_group(a, word, bit) == 0) return NOT_TRIED;
  size_t slice = word * 64 + bits_lowest(bit), again = map_again(a, slice, 1);
  if (again == 1) slices_give_back(a, slice, 1);
  return again != NO_MEMORY ? GIVEN : REFUSED;
}

/* After a refusal it waits some ms before it tries again, twice as many each time. */
static pace_t unmap_trials;

static void note_in_vain(void) {
  uint32_t wait = atomic32_load_relaxed(&unmap_trials.wait);
  pace_note(&unmap_trials, os_now_ms(),
            wait == 0 ? GIVEN_WAIT : min_size(2 * wait, GIVEN_WAIT_MOST));
}

bool arena_unmap_free(void) {
  size_t unmapped = 0;
  unsigned refusals = 0;
  trial_t trial = NOT_TRIED;
  if (pace_is_waiting(&unmap_trials)) return false;
  for (size_t i = 0; i < arena_count(); i++) {
    arena_t *a = arena_at(i);
    for (size_t word = 0; a != NULL && word < ARENA_WORDS; word++) {
      if (group_to_unmap(a, word) == 0) continue;
      if (trial != GIVEN) trial = try_one(a, word);
      if (trial == GIVEN) unmapped += unmap_group(a, word, group_to_unmap(a, word));
      if (trial == REFUSED && ++refusals == GIVEN_TRIES) return note_in_vain(), false;
    }
  }
  if (trial == GIVEN) pace_set_wait(&unmap_trials, 0);
  return unmapped != 0;
}

/* ---- a new window ---------------------------------------------------------------------------- */

arena_t *grow_map_window(size_t n, size_t alignment, size_t *slices) {
  size_t least = align_up(ARENA_FIRST_SLICE, alignment) + n;
  *slices = max_size(least, ARENA_FIRST_SLICE + FIRST_SLICES);
  arena_t *a = map_new(1, *slices << SLICE_SHIFT);
  if (a != NULL || *slices == least) return a;
  *slices = least;
  return map_new(1, least << SLICE_SHIFT);
}

void grow_unmap_window(arena_t *a, size_t slices) {
  os_unmap(a, slices << SLICE_SHIFT);
  map_free(a, 1);
}

/* A page that nobody can touch, between the maps and the first slice, where there is room. */
static void guard_head(arena_t *a) {
  size_t page = os_page_size(), end = ARENA_FIRST_SLICE << SLICE_SHIFT;
  bool has_room = sizeof(arena_maps_t) + page <= ARENA_MAP_SLICES * SLICE_SIZE;
  if (has_room) os_protect((char *)a + end - page, page, false);
}

size_t grow_publish_window(arena_t *a, size_t n, size_t alignment, size_t slices) {
  if (!slices_reserve_number(a)) return NO_SLICES;
  prepare_pages((char *)a, slices << SLICE_SHIFT, a->number == 0 && n <= FIRST_SLICES);
  a->first = ARENA_FIRST_SLICE;
  a->end = ARENA_END;
  atomic64_store_relaxed(&a->mapped, slices);
  atomic64_add_relaxed(&arena_counts.mapped, slices);
  size_t have = slices - ARENA_FIRST_SLICE;
  size_t slice = keep_aligned(a, ARENA_FIRST_SLICE, have, n, alignment);
  guard_head(a);
  map_set(a, 1, a, TENANT_ARENA);
  ASSERT_VALID(arena_is_valid(a));
  slices_publish(a);
  return slice;
}
