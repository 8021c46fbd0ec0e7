/* slices.c - the slices of arenas that are mapped: finding, claiming, giving back    layer 3: arena
 * Contract: slices.h. */
#include "slices.h"

#include "../base/layout.h"
#include "../os/os.h"

enum {
  RETREATS = 16,   /* tries to claim a run when others take part of it first */
  TIGHT_MOST = 16, /* slices, 1 MiB: runs up to here go where the least is left over */
  LONG_RUN = 129,  /* slices: runs from here on begin a group if possible */
};

large_table lacks_t lacks_free[ARENA_MOST], lacks_room[ARENA_MOST];

atomic64_t dirty_arenas[ARENA_MOST / 64];
arena_counts_t arena_counts;

static first_table atomic_ptr_t arena_list[ARENA_MOST];
/* Claimed slots. relaxed: a slot's own word says if it is filled. */
static atomic32_t arena_list_length;
LAYOUT_VARIABLE(arena_counts);
LAYOUT_VARIABLE(arena_list);
LAYOUT_VARIABLE(arena_list_length);

size_t arena_count(void) { return min_size(atomic32_load_relaxed(&arena_list_length), ARENA_MOST); }
arena_t *arena_at(size_t number) {
  return atomic_ptr_load_acquire(&arena_list[number]); /* S-arena */
}

bool slices_reserve_number(arena_t *a) {
  if (atomic32_load_relaxed(&arena_list_length) >= ARENA_MOST) return false;
  a->number = atomic32_add_relaxed(&arena_list_length, 1);
  return a->number < ARENA_MOST;
}

void slices_publish(arena_t *a) {
  atomic_ptr_store_release(&arena_list[a->number], a); /* S-arena */
}

/* ---- giving back ----------------------------------------------------------------------------- */

void slices_note_dirty(arena_t *a, size_t word, size_t words) {
  if (a->is_pinned) return; /* no purge should look there */
  bitmap_each_part(arena_maps(a)->dirty_groups, word, words, hint_set_part, NULL); /* S-group */
  hint_set(dirty_arenas, a->number);
}

/* While a thread held the slices, a purge may have missed them and cleared the hint. relaxed, both:
 * if another thread has claimed or cleaned them meanwhile, it notes that itself. */
static always_inline void note_dirty(arena_t *a, size_t first, size_t n) {
  size_t last = (first + n - 1) / 64;
  for (size_t word = first / 64; word <= last; word++)
    if ((atomic64_load_relaxed(&arena_maps(a)->dirty[word]) &
         atomic64_load_relaxed(&a->free[word])) != 0)
      return slices_note_dirty(a, word, last - word + 1);
}

/* A lack of room always ends here: what came back may lie at the end of the mapped slices. */
static void review_lacks(arena_t *a, size_t first, size_t n) {
  lack_review(&lacks_free[a->number].run, a->free, first, n);
  lack_review(&lacks_free[a->number].aligned, a->free, first, n);
  lacks_forget(&lacks_room[a->number]);
}

static void note_low(arena_t *a, size_t word) {
  if (word < atomic32_load_relaxed(&a->low_word))
    atomic32_store_relaxed(&a->low_word, (uint32_t)word); /* a hint */
}

void slices_give_back(arena_t *a, size_t first, size_t n) {
  ASSERT_VALID(slices_are_valid(a, first, n, false));
  bitmap_release(a->free, first, n);
  note_dirty(a, first, n);
  review_lacks(a, first, n);
  note_low(a, first / 64);
}

void arena_put_back(arena_t *a, size_t word, uint64_t bits) {
  atomic64_or_seq_cst(&a->free[word], bits); /* S-bit, S-room */
  /* relaxed: as in note_dirty */
  if ((atomic64_load_relaxed(&arena_maps(a)->dirty[word]) & bits) != 0)
    slices_note_dirty(a, word, 1);
  lacks_forget(&lacks_free[a->number]); /* they may be several runs */
  lacks_forget(&lacks_room[a->number]);
  note_low(a, word);
}

/* relaxed, both: the slices are claimed, A1; their release follows */
void slices_take_bits(atomic64_t *word, uint64_t bits, void *count) {
  uint64_t set = atomic64_load_relaxed(word) & bits;
  if (set == 0) return;
  atomic64_and_relaxed(word, ~set);
  *(size_t *)count += bits_count(set);
}

/* ---- claiming -------------------------------------------------------------------------------- */

/* Others may have missed slices claimed for a moment. Of one word all or none are claimed. */
static out_of_line bool retreat(arena_t *a, size_t first, size_t n) {
  if (n <= 64 - first % 64) return false;
  note_low(a, first / 64);
  lacks_forget(&lacks_free[a->number]);
  lacks_forget(&lacks_room[a->number]);
  note_dirty(a, first, n);
  return false;
}

bool slices_claim_at(arena_t *a, size_t first, size_t n) {
  return bitmap_claim_at(a->free, first, n) || retreat(a, first, n);
}

static always_inline size_t find_run(arena_t *a, size_t words, size_t from, size_t n,
                                     size_t alignment) {
  size_t first = NO_SLICES;
  if (n >= LONG_RUN && alignment < 64) first = bitmap_find_run(a->free, words, from, n, 64);
  return first != NO_SLICES ? first : bitmap_find_run(a->free, words, from, n, alignment);
}

static always_inline size_t claim_run(arena_t *a, size_t words, size_t from, size_t n,
                                      size_t alignment) {
  for (int retreats = 0; retreats < RETREATS; retreats++) {
    bool is_tight = alignment == 1 && n <= TIGHT_MOST;
    size_t first = is_tight ? bitmap_find_tight(a->free, words, from, n)
                            : find_run(a, words, from, n, alignment);
    if (first == NO_SLICES || slices_claim_at(a, first, n)) return first;
  }
  return 0;
}

/* relaxed, both: hints */
static size_t low_of(const arena_t *a) { return atomic32_load_relaxed(&a->low_word); }
static size_t words_of(const arena_t *a) { return (atomic64_load_relaxed(&a->mapped) + 63) / 64; }

static out_of_line size_t claim_runs(arena_t *a, size_t n, size_t alignment) {
  size_t low = low_of(a), words = words_of(a);
  size_t slice = claim_run(a, words, low, n, alignment);
  return slice == NO_SLICES && low != 0 ? claim_run(a, words, 0, n, alignment) : slice;
}

size_t slices_claim(arena_t *a, size_t n, size_t alignment) {
  if (n != 1 || alignment != 1) return claim_runs(a, n, alignment);
  size_t low = low_of(a), words = words_of(a);
  size_t slice = bitmap_claim_one(a->free, words, low);
  if (slice == NO_SLICES && low != 0) slice = bitmap_claim_one(a->free, words, 0);
  size_t found = slice == NO_SLICES ? words : slice / 64;
  if (found != low) atomic32_store_relaxed(&a->low_word, (uint32_t)found);
  return slice;
}

/* ---- what holds ------------------------------------------------------------------------------ */

bool slices_are_valid(const arena_t *a, size_t first, size_t n, bool are_free) {
  for (size_t i = first; i < first + n; i++) {
    bool is_dirty = bitmap_has(arena_maps(a)->dirty, i);
    HOLDS(A1, bitmap_has(a->free, i) == are_free);
    HOLDS(A2, i >= a->first && i < atomic64_load_relaxed(&a->mapped));
    HOLDS(A4, is_dirty || arena_maps(a)->touched[i] == 0);
  }
  return true;
}

/* Does not touch pages that are not in memory. Asks about 64 slices at a time: most of a window was
 * never in memory. */
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
    HOLDS(A5, (atomic64_load_relaxed(&arena_maps(a)->unmapped[first / 64]) & free) == 0);
    HOLDS(A6, (atomic64_load_relaxed(&arena_maps(a)->purged[first / 64]) & free & ~clean) == 0);
    for (uint64_t left = free; left != 0; left &= left - 1) /* Bound: the bits of a word */
      slices_are_valid(a, first + bits_lowest(left), 1, true);
    if (clean == 0 || !is_present(a, first, min_size(64, mapped - first))) continue;
    for (; clean != 0; clean &= clean - 1) /* Bound: likewise */
      HOLDS(A3, reads_as_zero(a, first + bits_lowest(clean)));
  }
  return true;
}
