/* huge.c - blocks with a mapping of their own                                         layer 5: heap
 * Owns:    the places of huge_t.   Called by: heap.   Calls: places, map, arena, support, os.
 * Threads: any; a huge block belongs to whoever holds it. Sync: S-window (map.h), S-bit (bitmap.h),
 *          S-huge  note_size (release) -> huge_at (acquire).
 * Holds:   U1 a huge block starts its first window, and no two blocks share a window */
#include "../arena/places.h"
#include "../base/check.h"
#include "../os/os.h"
#include "../support/options.h"
#include "heap.h"

enum { MAPPINGS_MOST = 100 }; /* a program should not run out of mappings on our account */

static places_t huge_blocks;
static const places_shape_t shape_of_huge = {
  .stride = sizeof(huge_t), .chunk_size = PLACES_IN_CHUNK * sizeof(huge_t)
};

bool huge_has_room(void) { return atomic64_load_relaxed(&heap_counts.huge_live) < MAPPINGS_MOST; }
size_t huge_pool_size(void) { return places_size(&huge_blocks); }
huge_t *huge_at(size_t number, bool *is_live) {
  huge_t *b = places_at(&huge_blocks, &shape_of_huge, number, is_live);
  *is_live = *is_live && b != NULL && atomic64_load_acquire(&b->mapped) != 0; /* S-huge */
  return b;
}

static size_t windows_for(size_t size) { return (size + WINDOW_SIZE - 1) >> WINDOW_SHIFT; }
static size_t mapping_for(size_t size) { return align_up(max_size(size, 1), os_page_size()); }

static void note_size(huge_t *b, size_t mapped) {
  atomic64_add_relaxed(&arena_counts.huge_bytes, mapped - atomic64_load_relaxed(&b->mapped));
  atomic64_store_relaxed(&b->size, mapped);
  atomic64_store_release(&b->mapped, mapped); /* S-huge */
  arena_note_peak();
}

static huge_t *new_record(void) {
  uint32_t number;
  huge_t *b = places_claim(&huge_blocks, &shape_of_huge, &number);
  if (b != NULL) b->number = number;
  return b;
}

/* The record stands for windows of which `mapped` bytes are mapped. */
static void *settle(huge_t *b, void *tag, void *base, size_t mapped) {
  atomic_ptr_store_relaxed(&b->base, base);
  b->windows = windows_for(mapped);
  atomic_ptr_store_relaxed(&b->tag, tag);
  note_size(b, mapped);
  map_set(base, b->windows, b, TENANT_HUGE);
  index_enter(tag, b, true);
  atomic64_add_relaxed(&heap_counts.huge_live, 1);
  atomic64_add_relaxed(&heap_counts.huge_allocated, 1);
  return base;
}

void *huge_malloc(void *tag, size_t size) {
  size_t mapped = mapping_for(size);
  huge_t *b = arena_is_over_limit(mapped) ? NULL : new_record();
  if (b == NULL) return NULL;
  void *base = map_new(windows_for(mapped), mapped);
  if (base == NULL) {
    places_release(&huge_blocks, b->number);
    return NULL;
  }
  if (option_get(OPTION_thp) != THP_AUTO)
    os_advise_huge(base, mapped, option_get(OPTION_thp) == THP_ALWAYS);
  return settle(b, tag, base, mapped);
}

void huge_free(huge_t *b, void *p, const char *call) {
  void *base = huge_base(b);
  size_t windows = b->windows;
  if (p != base) fatal("invalid pointer", p, call);
  /* relaxed: of two frees one sees the other */
  uint64_t mapped = atomic64_exchange_relaxed(&b->mapped, 0);
  if (mapped == 0) fatal("double free", p, call);
  index_leave(&b->tag);
  atomic64_add_relaxed(&arena_counts.huge_bytes, (uint64_t)0 - mapped);
  atomic64_add_relaxed(&heap_counts.huge_live, (uint64_t)-1);
  os_unmap(base, mapped);
  map_free(base, windows);
  places_release(&huge_blocks, b->number);
}

bool huge_resize_in_place(huge_t *b, size_t size) {
  size_t mapped = mapping_for(size), old = atomic64_load_relaxed(&b->mapped);
  if (mapped == old) return true;
  if (windows_for(mapped) > b->windows || (mapped > old && arena_is_over_limit(mapped - old)))
    return false;
  if (!os_resize(huge_base(b), old, mapped)) return false;
  note_size(b, mapped);
  return true;
}

/* Windows of its own for `size` bytes, filled with the pages at `pages`. All of it is mapped first,
 * so that the move replaces nothing of anybody else's. */
static void *move_pages(void *pages, size_t old_size, size_t mapped) {
  void *base = map_new(windows_for(mapped), mapped);
  if (base == NULL) return NULL;
  if (os_move(pages, old_size, base, mapped)) return base;
  os_unmap(base, mapped);
  map_free(base, windows_for(mapped));
  return NULL;
}

void *huge_from_pages(void *tag, void *pages, size_t old_size, size_t size) {
  size_t mapped = mapping_for(max_size(size, old_size));
  huge_t *b = arena_is_over_limit(mapped) ? NULL : new_record();
  if (b == NULL) return NULL;
  void *base = move_pages(pages, old_size, mapped);
  if (base != NULL) return settle(b, tag, base, mapped);
  places_release(&huge_blocks, b->number);
  return NULL;
}

void *huge_resize(huge_t *b, size_t size) {
  if (huge_resize_in_place(b, size)) return huge_base(b);
  size_t mapped = mapping_for(size), old = atomic64_load_relaxed(&b->mapped),
         old_windows = b->windows;
  if (mapped < old || arena_is_over_limit(mapped - old)) return NULL;
  void *old_base = huge_base(b), *base = move_pages(old_base, old, mapped);
  if (base == NULL) return NULL;
  atomic_ptr_store_relaxed(&b->base, base);
  b->windows = windows_for(mapped);
  note_size(b, mapped);
  map_set(base, b->windows, b, TENANT_HUGE);
  map_free(old_base, old_windows);
  return base;
}

bool huge_is_valid(const huge_t *b) {
  const char *base = huge_base(b);
  HOLDS(U1, (uintptr_t)base % WINDOW_SIZE == 0);
  HOLDS(U1, b->windows >= windows_for(atomic64_load_relaxed(&b->mapped)));
  for (size_t i = 0; i < b->windows; i++)
    HOLDS(U1, map_record(map_find(base + (i << WINDOW_SHIFT))) == b);
  return true;
}
