/* large.c - blocks of whole slices                                                   layer 5: stock
 * Contract: large.h. */
#include "large.h"

#include "../arena/purge.h"
#include "../slab/span.h"
#include "stock.h"

enum {
  NEW_PAGES_LEAST = 128 << 10,   /* bytes; below this, writing is as fast */
  MAPPED_BEHIND_MOST = 64 << 20, /* bytes; a block growing beyond this is moved sooner */
};

static size_t slices_for(size_t size) { return (size + SLICE_SIZE - 1) >> SLICE_SHIFT; }
static size_t usable_for(size_t size) { return align_up(size, os_page_size()); }

/* Each heap has its own count, so that threads do not meet at one word for each block. */
static void count_live(heap_t *h, uint64_t n) {
  if (!COUNTED) return;
  if (h != NULL) atomic64_add_own(&h->large_live, n);
  else atomic64_add_relaxed(&heap_counts.large_live, n);
}

void large_count(heap_t *h, int n, uint64_t bytes) {
  slab_tally_live(bytes);
  slab_thread_count(bytes, n > 0 ? bytes : 0);
  count_live(h, (uint64_t)n);
  if (n > 0)
    atomic64_add_own(&h->large_allocated, 1); /* even if not COUNTED: magazine.c reads it */
}

bool large_is_clean(const void *p) {
  if (map_kind(map_find(p)) == TENANT_HUGE) return true;
  if (span_around(p) != NULL) return span_is_clean(p);
  return (slab_word(slab_of(p)) & SLAB_IS_CLEAN) != 0;
}

bool large_is_huge(size_t size, size_t alignment) {
  size_t n = max_size(slices_for(size), 1), step = max_size(alignment >> SLICE_SHIFT, 1);
  return n + step > HUGE_LEAST >> SLICE_SHIFT;
}

void *large_malloc(heap_t *h, size_t size, size_t alignment) {
  if (size > PTRDIFF_MAX || alignment > WINDOW_SIZE) return NULL;
  size_t n = max_size(slices_for(size), 1), step = max_size(alignment >> SLICE_SHIFT, 1);
  if (unlikely(!lanes_may_take(h, size))) return NULL;
  if (large_is_huge(size, alignment)) return huge_malloc(index_cell(h), size);
  bool clean;
  size_t usable = usable_for(max_size(size, 1)), wish = tails_wish(usable);
  void *p = magazine_claim(h, n, step, wish, &clean);
  if (unlikely(p == NULL)) return NULL;
  slab_t *s = slab_of(p);
  s->inverse = 0;
  atomic_ptr_store_relaxed(&s->owner, NULL);
  void *cell = index_cell(h);
  atomic_ptr_store_relaxed(&s->cell, cell);
  atomic16_store_relaxed(&s->slices, (uint16_t)n);
  atomic64_store_relaxed(&s->size, usable);
  atomic32_store_relaxed(&s->kind, SLAB_IS_LARGE | (clean ? SLAB_IS_CLEAN : 0));
  tails_count(h, s, wish);
  index_set(cell, s, false);
  index_count(cell, usable);
  large_count(h, 1, usable);
  ASSERT_VALID(large_is_valid(s) && slab_slices_are_valid(s));
  return p;
}

static void *cell_of_large(const slab_t *s) { return atomic_ptr_load_relaxed(&s->cell); }

/* A block that grows now uses all of the slice in which it ended. */
static void set_size(slab_t *s, size_t size) {
  size_t before = atomic64_load_relaxed(&s->size), used = slices_for(before);
  uint8_t *touched = arena_touched_last((void *)slab_base(s), used);
  if (slices_for(size) > used) memset(touched, TOUCHED_ALL, slices_for(size) - used);
  uint64_t more = (uint64_t)usable_for(size) - before; /* or less */
  slab_tally_live(more);
  slab_thread_count(more, usable_for(size) > before ? more : 0);
  index_count(cell_of_large(s), more);
  atomic64_store_relaxed(&s->size, usable_for(size));
}

/* The block is new, and shorter than its allocation. */
static out_of_line void set_first_size(slab_t *s, size_t size) {
  slab_thread_count(0, (uint64_t)usable_for(size) - atomic64_load_relaxed(&s->size));
  set_size(s, size);
}

void *large_with_headroom(heap_t *h, size_t size, size_t roomy) {
  ASSERT(size <= roomy);
  size_t used = slices_for(size), more = slices_for(roomy) - used;
  void *p = large_malloc(h, roomy, 1);
  if (p != NULL) {
    slab_t *s = slab_of(p);
    uint8_t *touched = arena_touched_last(p, used);
    tails_uncount(h, s);
    set_first_size(s, size);
    if (large_is_clean(p)) memset(touched, 0, more + 1);
    else if (more != 0 && arena_discard((char *)p + (used << SLICE_SHIFT), more << SLICE_SHIFT))
      memset(touched + 1, 0, more);
    tails_count(h, s, tails_wish(usable_for(size)));
    ASSERT_VALID(large_is_valid(s));
  }
  return p;
}

static cold void release_unmapped(void *p, size_t n) {
  atomic64_add_relaxed(&arena_counts.committed, (uint64_t)0 - n);
  arena_release_moved(p, n);
}

void large_free(heap_t *h, slab_t *s, void *p, const char *call) {
  if ((uintptr_t)p % SLICE_SIZE != 0) fatal("invalid pointer", p, call);
  /* relaxed: of two threads that free the same block one sees the other; nothing is handed over */
  uint32_t word = atomic32_exchange_relaxed(&s->kind, 0);
  if (slab_kind(word) != SLAB_LARGE) fatal("double free", p, call);
  if (unlikely((word & SLAB_IS_SAMPLED) != 0)) sample_end(p);
  size_t n = atomic16_load_relaxed(&s->slices);
  uint64_t size = atomic64_load_relaxed(&s->size);
  index_count(cell_of_large(s), 0 - size);
  index_clear(&s->cell); /* before the slices go: F2 */
  large_count(h, -1, 0 - size);
  size_t touched = tails_end(h, s);
  if (SECURE && (word & SLAB_IS_UNMAPPED) != 0) return release_unmapped(p, n);
  if (SECURE && (word & SLAB_IS_GONE) != 0) return arena_release_clean(p, n);
  if (h == NULL) return arena_release(p, n);
  magazine_put_run(h, s, n, slices_for(size), touched);
}

static bool is_guarded(const void *p) { return map_kind(map_find(p)) == TENANT_GUARDED; }

/* Writing to pages in memory is faster than getting new ones. If many are not in memory, all become
 * new if the system allows it: the last user needed few, and so may the next. */
void large_clear_from(void *p, size_t from, size_t end) {
  size_t page = os_page_size(), first = align_up(from, page), last = align_down(end, page);
  char *bytes = p;
  bool is_long = end - from >= NEW_PAGES_LEAST && !is_guarded(p);
  size_t all = is_long ? last - first : 0;
  if (is_long && os_resident(bytes + first, all) < all - all / 4 &&
      arena_discard(bytes + first, all)) {
    atomic64_add_relaxed(&arena_counts.purged, all);
    memset(bytes + from, 0, first - from);
    from = last;
  }
  memset(bytes + from, 0, end - from);
}

void large_clear(void *p, size_t size) {
  bool is_ours = !is_guarded(p);
  if (is_ours && large_is_clean(p)) return;
  if (SECURE && is_ours && size >= NEW_PAGES_LEAST && !arena_is_pinned(p))
    return os_zero(p, usable_for(size));
  if (SECURE && is_ours) return bits_clear_all(p, usable_for(size));
  large_clear_from(p, 0, size);
}

bool large_resize(heap_t *h, slab_t *s, void *p, size_t size) {
  size_t have = atomic16_load_relaxed(&s->slices), want = slices_for(size);
  void *behind = (char *)p + (have << SLICE_SHIFT);
  bool clean;
  if (size <= SMALL_MOST) return false;
  if (usable_for(size) == atomic64_load_relaxed(&s->size)) return true; /* nor does its headroom */
  if (want > have && !(size < MAPPED_BEHIND_MOST ? arena_grow_at(behind, want - have, &clean)
                                                 : arena_claim_at(behind, want - have, &clean)))
    return false;
  if (size > atomic64_load_relaxed(&s->size)) want = max_size(want, have); /* its headroom stays */
  tails_uncount(h, s);
  atomic16_store_relaxed(&s->slices, (uint16_t)want);
  set_size(s, size);
  tails_count(h, s, tails_wish(usable_for(size)));
  ASSERT_VALID(large_is_valid(s) && slab_slices_are_valid(s));
  if (want < have) arena_release((char *)p + (want << SLICE_SHIFT), have - want);
  return true;
}

/* The pages move, without a copy, and the new block counts them. The slices that they leave are
 * mapped again, at once or when the arena grows. NULL also while a visitor reads there, or if the
 * memory is not ours to move. */
void *large_move_to_huge(slab_t *s, void *p, size_t size) {
  size_t n = atomic16_load_relaxed(&s->slices), old_size = n << SLICE_SHIFT;
  if (arena_of(p)->is_added || arena_is_read(p, n)) return NULL;
  if ((slab_word(s) & SLAB_IS_SAMPLED) != 0) sample_end(p); /* while its bytes are there */
  void *cell = atomic_ptr_load_relaxed(&s->cell);
  atomic64_add_relaxed(&arena_counts.committed, (uint64_t)0 - n);
  void *moved = huge_from_pages(cell, p, old_size, size);
  if (moved == NULL) {
    atomic64_add_relaxed(&arena_counts.committed, n);
    return NULL;
  }
  uint64_t size_before = atomic64_load_relaxed(&s->size);
  slab_tally_live(0 - size_before);
  slab_thread_count(0 - size_before, 0 - size_before);
  index_count(cell, 0 - size_before);
  atomic32_store_relaxed(&s->kind, 0);
  atomic_ptr_store_relaxed(&s->cell, NULL); /* the huge block has the cell now */
  count_live(NULL, (uint64_t)-1);
  tails_uncount(NULL, s);
  arena_release_moved(p, n);
  return moved;
}

bool large_is_valid(const slab_t *s) {
  size_t size = atomic64_load_relaxed(&s->size), slices = atomic16_load_relaxed(&s->slices);
  HOLDS(L1, slices >= slices_for(size) && slices <= slices_for(size + size / 4));
  HOLDS(L1, size == usable_for(size));
  return tails_are_valid(s);
}
