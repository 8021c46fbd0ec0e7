/* huge.c - blocks with a mapping of their own                                        layer 5: stock
 * Contract: huge.h. Sync: S-window (map.h), S-bit (bitmap.h), S-huge  note_size (release) ->
 *          huge_at (acquire). */
#include "huge.h"

#include "../arena/places.h"
#include "../base/layout.h"
#include "../support/pace.h"
#include "stock.h"

enum {
  MAPPINGS_MOST = 4096, /* huge blocks: a program may have 65,530 mappings */
  SPACE_PARTS = 16,     /* there must be room for so many times their windows */
  MAPPINGS_ANYWAY = 16, /* fewer huge blocks than this have room in any case */
  PIECE_SIZE = 4 << 20, /* bytes moved at a time when memory is short */
};

static large_table places_t huge_blocks;
LAYOUT_VARIABLE(huge_blocks);
static const places_shape_t shape_of_huge = {.stride = sizeof(huge_t),
                                             .chunk_size = PLACES_IN_CHUNK * sizeof(huge_t)};

bool huge_has_room(void) {
  uint64_t live = atomic64_load_relaxed(&heap_counts.huge_live);
  return live < MAPPINGS_ANYWAY ||
         (live < MAPPINGS_MOST && os_find(live * SPACE_PARTS << WINDOW_SHIFT) != NULL);
}
size_t huge_pool_size(void) { return places_size(&huge_blocks); }
huge_t *huge_at(size_t number, bool *is_live) {
  huge_t *b = places_at(&huge_blocks, &shape_of_huge, number, is_live);
  *is_live = *is_live && b != NULL && atomic64_load_acquire(&b->mapped) != 0; /* S-huge */
  return b;
}

huge_t *huge_next(size_t *number) {
  bool is_live;
  while (*number < huge_pool_size()) { /* Bound: all that were ever alive at once */
    huge_t *b = huge_at((*number)++, &is_live);
    if (is_live) return b;
  }
  return NULL;
}

/* At least a slice at their end stays unmapped, so that a block that overflows does not reach the
 * next window. */
static size_t windows_for(size_t size) {
  return (size + SLICE_SIZE + WINDOW_SIZE - 1) >> WINDOW_SHIFT;
}
static size_t mapping_for(size_t size) { return align_up(max_size(size, 1), os_page_size()); }

static void note_size(huge_t *b, size_t mapped) {
  uint64_t before = atomic64_load_relaxed(&b->mapped), more = mapped - before;
  atomic64_add_relaxed(&arena_counts.huge_bytes, more);
  slab_thread_count(more, mapped > before ? more : 0);
  index_count(atomic_ptr_load_relaxed(&b->cell), more);
  atomic64_store_relaxed(&b->size, mapped);
  atomic64_store_release(&b->mapped, mapped); /* S-huge */
  arena_note_peak();
}

/* A block that grew until it got its own mapping loses its pages when it is freed. If that happens
 * often, it is better to copy the next blocks to slices. All relaxed: a bad guess only costs
 * time. */
enum { LOST_MOST = 4 << 20, LOST_MS = 1000, HASTY_MS = 4000 };
static atomic32_t bytes_lost, hasty_since; /* bytes; os_now_ms or 0 */
static pace_t losses;

static void note_lost(uint64_t mapped) {
  if (mapped >= HUGE_COPIED_MOST) return;
  uint32_t now = os_now_ms();
  if (pace_take(&losses, now, LOST_MS + 1)) atomic32_store_relaxed(&bytes_lost, 0);
  if (atomic32_add_relaxed(&bytes_lost, (uint32_t)mapped) + mapped < LOST_MOST) return;
  atomic32_store_relaxed(&bytes_lost, 0);
  atomic32_store_relaxed(&hasty_since, max_size(now, 1));
}

bool huge_are_short_lived(void) {
  uint32_t since = atomic32_load_relaxed(&hasty_since);
  return since != 0 && os_ms_between(since, os_now_ms()) < HASTY_MS;
}

/* The record now stands for windows with `mapped` bytes mapped. */
static void *settle(huge_t *b, void *cell, void *base, size_t mapped) {
  atomic_ptr_store_relaxed(&b->base, base);
  b->windows = windows_for(mapped);
  atomic_ptr_store_relaxed(&b->cell, cell);
  note_size(b, mapped);
  map_set(base, b->windows, b, TENANT_HUGE);
  index_set(cell, b, true);
  atomic64_add_relaxed(&heap_counts.huge_live, 1);
  if (COUNTED) atomic64_add_relaxed(&heap_counts.huge_allocated, 1);
  ASSERT_VALID(huge_is_valid(b));
  return base;
}

static void advise_mapping(void *at, size_t size) {
  if (option_get(OPTION_thp) != THP_AUTO)
    os_advise_huge(at, size, option_get(OPTION_thp) == THP_ALWAYS);
}

/* Would it fit once all free memory of arenas is unmapped? If not, that memory is better kept. */
static bool may_fit_then(size_t mapped, bool without_memory) {
  uint64_t in_use = atomic64_load_relaxed(&arena_counts.committed);
  size_t free = (atomic64_load_relaxed(&arena_counts.mapped) - in_use) << SLICE_SHIFT;
  return mapped <= free || map_try_room(mapped - free, without_memory);
}

static void *map_once(size_t mapped, bool without_memory) {
  size_t n = windows_for(mapped);
  return without_memory ? map_reserve(n, mapped) : map_new(n, mapped);
}

/* The block's own windows, with fresh memory or for os_move. `missing` bytes may be enough. */
static void *map_windows(size_t mapped, size_t missing, bool without_memory) {
  if (mapped > os_space_end()) return NULL;
  void *base = map_once(mapped, without_memory);
  bool is_again = base == NULL && may_fit_then(missing, without_memory) && arena_unmap_free();
  if (is_again) base = map_once(mapped, without_memory);
  if (base != NULL && !without_memory) advise_mapping(base, mapped);
  return base;
}

void huge_free(huge_t *b, void *p, const char *call) {
  void *base = huge_base(b);
  size_t windows = b->windows;
  if (p != base) fatal("invalid pointer", p, call);
  /* relaxed: of two frees one sees the other */
  uint64_t mapped = atomic64_exchange_relaxed(&b->mapped, 0);
  if (mapped == 0) fatal("double free", p, call);
  index_count(atomic_ptr_load_relaxed(&b->cell), 0 - mapped);
  index_clear(&b->cell);
  sample_end(p);
  atomic64_add_relaxed(&arena_counts.huge_bytes, (uint64_t)0 - mapped);
  slab_thread_count(0 - mapped, 0);
  atomic64_add_relaxed(&heap_counts.huge_live, (uint64_t)-1);
  os_unmap(base, mapped);
  map_free(base, windows);
  places_release(&huge_blocks, b->number);
  note_lost(mapped);
}

/* A block of several mappings cannot grow as one: the rest is mapped behind it. */
static bool resize_mapping(char *base, size_t old, size_t mapped) {
  if (os_resize(base, old, mapped)) return true;
  if (mapped < old || os_is_one_mapping(base, old)) return false;
  if (os_map_at(base + old, mapped - old) != OS_MAPPED) return false;
  advise_mapping(base + old, mapped - old);
  return true;
}

bool huge_resize_in_place(huge_t *b, size_t size) {
  size_t mapped = mapping_for(size), old = atomic64_load_relaxed(&b->mapped);
  size_t had = b->windows, want = windows_for(mapped), more = want > had ? want - had : 0;
  char *base = huge_base(b), *behind = base + (min_size(had, want) << WINDOW_SHIFT);
  if (mapped == old) return true;
  if (mapped > old && budget_is_spent(mapped - old)) return false;
  if (!map_claim_behind(base, had, more)) return false;
  if (!resize_mapping(base, old, mapped)) {
    map_free(behind, more);
    return false;
  }
  map_set(behind, more, b, TENANT_HUGE);
  map_free(behind, had + more - want);
  b->windows = want;
  if (mapped < old) note_lost(old - mapped);
  note_size(b, mapped);
  ASSERT_VALID(huge_is_valid(b));
  return true;
}

/* Moves only to free addresses, which it reserves first. If there is no memory for that on the way
 * back, it still moves: a moment ago only our pages lay there. `from` is one mapping, unless the
 * program changes the block meanwhile: then the first pages may have moved already. */
static bool move_piece(char *from, char *to, size_t size, bool is_back) {
  os_map_result_t result = os_reserve_at(to, size);
  if (result == OS_OCCUPIED || (result == OS_NO_MEMORY && !is_back)) return false;
  if (os_move(from, size, to, size)) return true;
  if (!os_is_one_mapping(from, size)) fatal("lost pages", from, "realloc");
  if (result == OS_MAPPED) os_unmap(to, size);
  return false;
}

/* For when even the way back would split more mappings than the system allows. */
static bool copy_piece(const char *from, char *to, size_t size) {
  if (os_map_at(to, size) != OS_MAPPED) return false;
  memcpy(to, from, size);
  return os_unmap((void *)from, size);
}

/* Needs no more memory than what is missing and PIECE_SIZE. The last piece goes first, and grows:
 * if that works, the rest will. The pieces become one mapping again, because each lies beside its
 * old neighbour. False: nothing has moved. */
static bool move_pieces(char *from, size_t old_size, char *to, size_t mapped) {
  size_t left = old_size, n, last = (old_size - 1) % PIECE_SIZE + 1;
  bool has_grown = false;
  for (n = last; left > 0 && (has_grown || left == old_size); n = PIECE_SIZE) {
    /* Bound: the pieces */
    if (!move_piece(from + left - n, to + left - n, n, false)) break;
    left -= n;
    if (!has_grown) has_grown = os_resize(to + left, n, n + mapped - old_size);
  }
  if (left == 0 && has_grown) return true;
  if (has_grown) os_unmap(to + old_size, mapped - old_size);
  for (; left < old_size; left += n) { /* Bound: the pieces */
    n = min_size(old_size - left, PIECE_SIZE);
    if (!move_piece(to + left, from + left, n, true) && !copy_piece(to + left, from + left, n))
      fatal("lost pages", from, "realloc");
  }
  return false;
}

/* For pages of several mappings. The copy is one mapping, and can move and grow as a whole. */
static void *copy_pages(void *pages, size_t old_size, size_t mapped) {
  void *base = map_windows(mapped, mapped, false);
  if (base == NULL) return NULL;
  memcpy(base, pages, old_size);
  os_unmap(pages, old_size);
  return base;
}

/* New windows for `mapped` bytes, filled with the pages at `pages`. */
static void *move_pages(void *pages, size_t old_size, size_t mapped) {
  if (!os_is_one_mapping(pages, old_size)) return copy_pages(pages, old_size, mapped);
  size_t windows = windows_for(mapped);
  void *base = map_windows(mapped, mapped - old_size + PIECE_SIZE, true);
  if (base != NULL) {
    if (os_move(pages, old_size, base, mapped)) return base;
    os_unmap(base, mapped);
  } else { /* memory is short, but may be enough for what is missing */
    if (map_may_fit(windows, mapped - old_size, false)) base = map_reserve(windows, os_page_size());
    if (base == NULL) return NULL;
    os_unmap(base, os_page_size());
  }
  if (move_pieces(pages, old_size, base, mapped)) return base;
  map_free(base, windows);
  return NULL;
}

/* `pages` NULL: with fresh memory. */
static void *make(void *cell, void *pages, size_t old_size, size_t mapped) {
  uint32_t number;
  huge_t *b = budget_is_spent(mapped) ? NULL : places_claim(&huge_blocks, &shape_of_huge, &number);
  if (b == NULL) return NULL;
  b->number = number;
  void *base =
    pages != NULL ? move_pages(pages, old_size, mapped) : map_windows(mapped, mapped, false);
  if (base != NULL) return settle(b, cell, base, mapped);
  places_release(&huge_blocks, b->number);
  return NULL;
}
void *huge_malloc(void *cell, size_t size) { return make(cell, NULL, 0, mapping_for(size)); }
void *huge_from_pages(void *cell, void *pages, size_t old_size, size_t size) {
  return make(cell, pages, old_size, mapping_for(max_size(size, old_size)));
}

void *huge_resize(huge_t *b, size_t size) {
  if (huge_resize_in_place(b, size)) return huge_base(b);
  size_t mapped = mapping_for(size), old = atomic64_load_relaxed(&b->mapped),
         old_windows = b->windows;
  if (mapped < old || budget_is_spent(mapped - old)) return NULL;
  void *old_base = huge_base(b), *base = move_pages(old_base, old, mapped);
  if (base == NULL) return NULL;
  atomic_ptr_store_relaxed(&b->base, base);
  b->windows = windows_for(mapped);
  note_size(b, mapped);
  map_set(base, b->windows, b, TENANT_HUGE);
  map_free(old_base, old_windows);
  ASSERT_VALID(huge_is_valid(b));
  return base;
}

bool huge_is_valid(const huge_t *b) {
  const char *base = huge_base(b);
  HOLDS(U1, (uintptr_t)base % WINDOW_SIZE == 0);
  HOLDS(U1, b->windows == windows_for(atomic64_load_relaxed(&b->mapped)));
  for (size_t i = 0; i < b->windows; i++)
    HOLDS(U1, map_record(map_find(base + (i << WINDOW_SHIFT))) == b);
  return true;
}
