/* frames.c - huge pages, where they cost no memory                                   layer 3: arena
 * Contract: frames.h.
 *
 * A fresh frame becomes a huge page at once if a heap is about to fill it, which saves the heap the
 * page faults. Any other frame becomes one when seven eighths of its slices are in use. All its
 * pages must be in memory then, and shared with no parent or child of a fork, so that it takes no
 * more memory than before. The system copies it, which takes some tenths of a millisecond. Up to a
 * hundredth of the time may go into that. */
#include "frames.h"

#include "../support/pace.h"
#include "budget.h"

enum {
  COMMITTED_LEAST = MiB(64) >> SLICE_SHIFT, /* smaller heaps have few frames */
  USED_LEAST = FRAME_SLICES * 7 / 8,
  FRAMES_LOOKED = 16, /* frames that one tick looks at */
  TIME_PART = 100,    /* the pause after a look, as a multiple of the time that it took */
  SLOW_NS = 20000000, /* whatever takes longer counts as refused: the host has to find the memory */
  SLOW_FRESH_NS = 2000000, /* for a fresh frame: its pages would come faster one by one */
  PASS_WAIT = 1000,        /* ms between two passes over all frames */
  REFUSED_WAIT = 16,       /* ms to wait, doubled with each refusal in a row */
  REFUSED_DOUBLED = 12,    /* doublings at most */
};

_Static_assert(FRAME_SLICES *ARENA_FRAMES == WINDOW_SLICES, "frames of 2 MiB");

/* `refused`: times in a row. relaxed, all: hints */
typedef struct {
  pace_t pace;
  atomic32_t refused;
} tries_t;
/* A thread that takes a tick of `dense` looks at frames from `next` on, over all arenas. */
static struct {
  tries_t dense, fresh;
  atomic32_t next;
} frames;

static bool are_wanted(void) {
  return atomic64_load_relaxed(&arena_counts.committed) >= COMMITTED_LEAST &&
         option_get(OPTION_thp) == THP_AUTO && !budget_is_tight() &&
         os_page_size() << 9 == FRAME_SLICES << SLICE_SHIFT;
}

static atomic64_t *word_of(const arena_t *a, size_t frame) {
  return &arena_maps(a)->huge[frame / 64];
}
static uint64_t bit_of(size_t frame) { return (uint64_t)1 << frame % 64; }

/* relaxed: a frame that changes meanwhile is found dense, or not. */
static unsigned count_used(const arena_t *a, size_t frame) {
  size_t first = frame * FRAME_SLICES, word = first / 64;
  uint64_t idle =
    atomic64_load_relaxed(&a->free[word]) | atomic64_load_relaxed(&arena_maps(a)->unmapped[word]);
  unsigned used = 0;
  /* Bound: a frame's slices; no library function, for the stack's sake */
  for (uint64_t w = ~idle & bits_run(first % 64, FRAME_SLICES); w != 0; w &= w - 1) used++;
  return used;
}

static bool is_dense(const arena_t *a, size_t frame) {
  size_t size = FRAME_SLICES << SLICE_SHIFT;
  return count_used(a, frame) >= USED_LEAST && !a->is_pinned &&
         os_is_private(arena_address(a, frame * FRAME_SLICES), size);
}

/* In ms, after a look that took so many ns. */
static size_t pause_for(uint64_t took) { return took / (1000000 / TIME_PART) + 1; }

static void note_pause(tries_t *tries, size_t ms) {
  pace_set_wait(&tries->pace, min_size(ms, REFUSED_WAIT << REFUSED_DOUBLED));
}

static void note_result(tries_t *tries, bool is_good, size_t pause) {
  uint32_t times = is_good ? 0 : atomic32_load_relaxed(&tries->refused) + 1;
  atomic32_store_relaxed(&tries->refused, times);
  if (!is_good) pause = max_size(pause, (size_t)REFUSED_WAIT << min_size(times, REFUSED_DOUBLED));
  note_pause(tries, pause);
}

static bool make_huge(const arena_t *a, size_t frame) {
  atomic64_or_relaxed(word_of(a, frame), bit_of(frame)); /* pages that go meanwhile clear it */
  bool is_made = os_collapse(arena_address(a, frame * FRAME_SLICES), FRAME_SLICES << SLICE_SHIFT);
  if (is_made) atomic64_add_relaxed(&arena_counts.collapsed, 1);
  else frames_break(a, frame * FRAME_SLICES, 1);
  return is_made;
}

bool frames_begins(const void *slice) {
  return arena_slice(slice) % FRAME_SLICES == 0 && are_wanted() && !arena_of(slice)->is_pinned &&
         !pace_is_waiting(&frames.fresh.pace) && os_has_huge_pages();
}

/* The system requires one page of the frame to be there. */
bool frames_fill(void *first) {
  uint64_t began = os_spent_ns();
  *(volatile char *)first = 0;
  bool is_made = make_huge(arena_of(first), arena_slice(first) / FRAME_SLICES);
  atomic32_store_relaxed(&frames.fresh.pace.last, os_now_ms());
  note_result(&frames.fresh, is_made && os_spent_ns() - began < SLOW_FRESH_NS, 0);
  if (is_made) memset(arena_touched_last(first, 1), TOUCHED_ALL, FRAME_SLICES);
  return is_made;
}

/* The next dense frame that is not huge yet, at `*at` or behind it; NULL: none among those that it
 * looked at. */
static arena_t *find_dense(size_t *at) {
  for (int looks = 0; looks < FRAMES_LOOKED; looks++, ++*at) {
    size_t number = *at / ARENA_FRAMES, frame = *at % ARENA_FRAMES;
    arena_t *a = number < ARENA_MOST ? arena_at(number) : NULL;
    if (number >= arena_count()) {
      note_pause(&frames.dense, PASS_WAIT);
      *at = 0;
      return NULL;
    }
    /* relaxed: the next pass looks at frames that are mapped behind it */
    size_t end = a == NULL ? 0 : atomic64_load_relaxed(&a->mapped);
    bool is_mapped = (frame + 1) * FRAME_SLICES <= end;
    if (!is_mapped) *at = (number + 1) * ARENA_FRAMES - 1;
    else if ((atomic64_load_relaxed(word_of(a, frame)) & bit_of(frame)) == 0 && is_dense(a, frame))
      return a;
  }
  return NULL;
}

void frames_tick(void) {
  if (!are_wanted()) return;
  if (!pace_take(&frames.dense.pace, os_now_ms(), 0) || !os_has_huge_pages()) return;
  size_t at = atomic32_load_relaxed(&frames.next);
  note_pause(&frames.dense, REFUSED_WAIT);
  uint64_t began = os_spent_ns();
  arena_t *a = find_dense(&at);
  bool is_made = a != NULL && make_huge(a, at++ % ARENA_FRAMES);
  uint64_t took = os_spent_ns() - began;
  size_t wait = atomic32_load_relaxed(&frames.dense.pace.wait); /* find_dense may have set it */
  if (a != NULL) note_result(&frames.dense, is_made && took < SLOW_NS, pause_for(took));
  else note_pause(&frames.dense, max_size(pause_for(took), wait));
  atomic32_store_relaxed(&frames.next, (uint32_t)at);
}

uint64_t frames_spared(const arena_t *a, size_t word) {
  uint64_t spared = 0;
  for (size_t frame = word * 2; frame < word * 2 + 2; frame++)
    if ((atomic64_load_relaxed(word_of(a, frame)) & bit_of(frame)) != 0 &&
        count_used(a, frame) > FRAME_SLICES / 2)
      spared |= bits_run(frame % 2 * FRAME_SLICES, FRAME_SLICES);
  return spared;
}

void frames_break(const arena_t *a, size_t first, size_t n) {
  size_t end = first + n;
  for (size_t frame = first / FRAME_SLICES; frame * FRAME_SLICES < end; frame++)
    if ((atomic64_load_relaxed(word_of(a, frame)) & bit_of(frame)) != 0)
      atomic64_and_relaxed(word_of(a, frame), ~bit_of(frame));
}
