/* resize.c - realloc, and the sizes of blocks                                         layer 6: heap
 * Contract: resize.h. */
#include "resize.h"

#include "../slab/holes.h"
#include "../stock/stock.h"
#include "enter.h"
#include "fits.h"

enum {
  STAYS_LEAST = 16 << 20, /* a huge block that shrinks by half stays huge from this size on */
  HASTY_LEAST = 4 << 20,  /* the least such size where such blocks die soon */
  HEADROOM_SHIFT = 2,     /* a large block copied to grow gets room for a quarter more */
  LITTLE_SHIFT = 4,       /* growing by less than a 16th is growing by little */
};

size_t fast_sized_steps = SMALL_STEPS;

typedef struct {
  slab_t *slab; /* of a small or large block */
  huge_t *huge; /* neither: the block cannot change its size in place, or is a run of pages */
  size_t usable;
  bool is_run;
} found_t;

/* Out of line, so that `find` is a leaf. */
static cold found_t find_beside_holes(slab_t *s, const void *p, const char *call) {
  if (slab_is_on_hole(s, (uintptr_t)p)) fatal("double free", p, call);
  return (found_t){s, NULL, class_size(slab_class(s)), false};
}

static cold found_t find_fixed(uintptr_t tenant, const void *p, const char *call) {
  if (map_kind(tenant) == TENANT_GUARDED)
    return (found_t){NULL, NULL, guard_size(map_record(tenant), p, call), false};
  if (map_kind(tenant) != TENANT_EMPTY) fatal("invalid pointer", p, call);
  empty_check(map_record(tenant), p, call);
  return (found_t){NULL, NULL, 0, false};
}

/* What `p` is; `fatal` if it is no live block. */
static found_t find(const void *p, const char *call) {
  uintptr_t tenant = map_find(p);
  if (map_kind(tenant) == TENANT_HUGE) {
    huge_t *b = map_record(tenant);
    if (p != huge_base(b)) fatal("invalid pointer", p, call);
    return (found_t){NULL, b, atomic64_load_relaxed(&b->size), false};
  }
  if (map_kind(tenant) != TENANT_ARENA) return find_fixed(tenant, p, call);
  slab_t *s = slab_of(p);
  switch (slab_kind_at(p)) {
    case SLAB_SMALL:
      if (!class_has_block_at((uint16_t)(uintptr_t)p, s->inverse))
        fatal("invalid pointer", p, call);
      if (block_is_free((uintptr_t)p) || fast_was_freed_last(p)) fatal("double free", p, call);
      /* relaxed: no live block ever lies on one */
      if (unlikely(atomic32_load_relaxed(&s->holes) != 0)) return find_beside_holes(s, p, call);
      return (found_t){s, NULL, class_size(slab_class(s)), false};
    case SLAB_LARGE:
      if ((uintptr_t)p % SLICE_SIZE != 0) fatal("invalid pointer", p, call);
      return (found_t){s, NULL, atomic64_load_relaxed(&s->size), false};
    default:
      if (span_around(p) == NULL) heap_refuse_pointer(s, p, call);
      return (found_t){.usable = (size_t)span_pages(p, call) << SPAN_PAGE_SHIFT, .is_run = true};
  }
}

static bool is_small(const found_t *f) {
  return f->slab != NULL && slab_kind(slab_word(f->slab)) == SLAB_SMALL;
}

static bool is_fixed(const found_t *f) { return f->slab == NULL && f->huge == NULL && !f->is_run; }

size_t heap_usable_size(const void *p, const char *call) {
  return p == NULL ? 0 : find(p, call).usable;
}

/* A large block may have an extra page, and so may one that stands for a small block. */
static bool has_pages_of(const found_t *f, size_t size, size_t alignment) {
  if (f->is_run) return paged_may_have(f->usable, size);
  return f->usable - size <= align_up(alignment, 2 * os_page_size());
}

/* Could realloc have left the block this long? */
static bool may_have(const found_t *f, size_t size, size_t alignment) {
  if (size > f->usable) return false;
  if (is_fixed(f) || atomic32_load_relaxed(&heap_longer) != 0) return true;
  if (is_small(f))
    return fast_fits(f->usable, size) || slab_class(f->slab) == class_of_request(size, alignment);
  return has_pages_of(f, size, alignment) ||
         (f->slab != NULL && (slab_word(f->slab) & SLAB_IS_SAMPLED) != 0);
}

void heap_check_size(const void *p, size_t size, size_t alignment, const char *call) {
  if (p == NULL || heap_is_foreign(p)) return;
  found_t f = find(p, call);
  if (!may_have(&f, size, alignment)) fatal("wrong size", p, call);
}

void heap_check_class(const void *p, size_t size, size_t alignment, const char *call) {
  found_t f = find(p, call);
  bool is_right = size <= f.usable;
  if (atomic32_load_relaxed(&heap_longer) == 0)
    is_right &= is_small(&f) ? slab_class(f.slab) == class_of_request(size, alignment)
                             : has_pages_of(&f, size, alignment);
  if (!is_right) fatal("wrong size", p, call);
}

size_t heap_good_size(size_t size, size_t alignment) {
  if (size > os_space_end()) return size;
  unsigned c = class_of_request(size, alignment);
  if (c == 0)
    return align_up(max_size(size, 1), paged_fits(size, alignment) ? SPAN_PAGE : os_page_size());
  return size == 0 && alignment <= CLASS_STEP ? 0 : class_size(c);
}

bool heap_owns(const void *p) {
  uintptr_t tenant = map_find(p);
  if (map_kind(tenant) == TENANT_HUGE) {
    const huge_t *b = map_record(tenant);
    return (uintptr_t)p - (uintptr_t)huge_base(b) < atomic64_load_relaxed(&b->mapped);
  }
  if (map_kind(tenant) == TENANT_GUARDED) return guard_owns(map_record(tenant), p);
  if (map_kind(tenant) == TENANT_EMPTY) return empty_owns(map_record(tenant), p);
  return map_kind(tenant) == TENANT_ARENA && arena_has_slice(p);
}

static bool resize_large(slab_t *s, void *p, size_t size) {
  heap_t *h = heap_enter_own();
  bool is_done = large_resize(h, s, p, size);
  if (unlikely(sample_was_started()) && is_done && h != NULL) sample_note_resized(h, p);
  if (h != NULL) heap_exit(h);
  return is_done;
}

/* A block that must be sampled is a new block. */
static bool resize_run(const found_t *f, void *p, size_t size) {
  if (size > SMALL_MOST && size <= f->usable && paged_may_have(f->usable, size)) return true;
  heap_t *h = unlikely(sample_was_started()) ? heap_enter_own() : NULL;
  size_t counted = align_up(size, os_page_size());
  bool may_stay = h == NULL || !sample_find_point(h, SAMPLE_LARGE, counted);
  bool is_done = size > SMALL_MOST && may_stay && paged_resize(p, f->usable, size);
  if (h == NULL) return is_done;
  if (is_done) sample_pass_bytes(h, SAMPLE_LARGE, counted);
  heap_exit(h);
  return is_done;
}

/* A huge block has a new size. */
static void note_resized(void *p) {
  heap_t *h = unlikely(sample_was_started()) ? heap_enter_own() : NULL;
  if (h == NULL) return;
  sample_note_resized(h, p);
  heap_exit(h);
}
/* `p` has become `moved`, or stays where it is. Its sample has ended in either case. */
static void *moved_to(void *p, void *moved) {
  note_resized(moved != NULL ? moved : p);
  return moved;
}

static bool resize_huge(huge_t *b, size_t size) {
  bool is_done = huge_resize_in_place(b, size);
  if (is_done) note_resized(huge_base(b));
  return is_done;
}

static void *allocate_with_headroom(size_t size, size_t roomy) {
  heap_t *h = heap_enter();
  if (h == NULL) return NULL;
  void *block = large_with_headroom(h, size, roomy);
  if (unlikely(sample_was_started()) && block != NULL) sample_note_large(h, block);
  heap_exit(h);
  return block;
}

/* Should the block, once shrunk, become a run of pages? In place it would keep whole slices, and
 * leave a hole behind it. */
static bool becomes_run(const found_t *f, size_t size) {
  return f->slab != NULL && size < f->usable / 2 && paged_fits(size, 1) &&
         atomic_ptr_is_relaxed(&f->slab->cell, NULL);
}

/* A block of whole pages stays where it is. */
static always_inline bool keep_pages(const found_t *f, void *p, size_t size) {
  return f->is_run         ? resize_run(f, p, size)
         : f->huge != NULL ? resize_huge(f->huge, size)
                           : resize_large(f->slab, p, size);
}

/* ... if it can have `size` bytes there without waste. */
static bool resize_in_place(const found_t *f, void *p, size_t size) {
  if (f->is_run) return resize_run(f, p, size);
  if (f->slab != NULL) return !becomes_run(f, size) && resize_large(f->slab, p, size);
  size_t least = huge_are_short_lived() ? HASTY_LEAST : MOVED_LEAST;
  bool stays = size >= STAYS_LEAST || size > f->usable / 2 || (size >= least && huge_has_room());
  return stays && resize_huge(f->huge, size);
}

static void *resize_by_moving_pages(const found_t *f, void *p, size_t size) {
  if (size < f->usable || f->is_run) return NULL;
  if (f->huge != NULL) {
    if (unlikely(sample_was_started())) sample_end(p); /* at this address */
    return moved_to(p, huge_resize(f->huge, size));
  }
  if (f->usable < MOVED_LEAST || !huge_has_room()) return NULL;
  return moved_to(p, large_move_to_huge(f->slab, p, size));
}

/* Does it stand for small blocks that would stay where they are? An aligned one may have less than
 * a block of its class. */
static bool stays_sampled(const found_t *f, size_t size) {
  if (f->slab == NULL || (slab_word(f->slab) & SLAB_IS_SAMPLED) == 0) return false;
  size_t of_class = atomic64_load_relaxed(&f->slab->sampled.size);
  return size <= f->usable && of_class <= SMALL_MOST && fast_fits(of_class, size);
}

static always_inline void *resize_here(const found_t *f, void *p, size_t size) {
  if (is_small(f)) return fast_fits(f->usable, size) ? p : NULL;
  if (is_fixed(f)) return size == f->usable ? p : NULL;
  return stays_sampled(f, size) || resize_in_place(f, p, size) ? p : NULL;
}

/* relaxed: the block's holder calls */
static void *firstclass_of(const found_t *f) {
  if (is_fixed(f) || f->is_run) return NULL;
  if (is_small(f)) return atomic_ptr_load_relaxed(&f->slab->tag);
  return index_heap(atomic_ptr_load_relaxed(f->huge != NULL ? &f->huge->cell : &f->slab->cell));
}

void *heap_of_block(const void *p, const char *call) { /* a lane that was left may still name it */
  found_t f = find(p, call);
  void *heap = firstclass_of(&f);
  const heap_t *lane = heap != NULL && is_small(&f) ? slab_owner(f.slab) : NULL;
  return lane != NULL && heap_tag(lane) != heap ? NULL : heap;
}

void *heap_resize(void *p, size_t size, const void *heap, const char *call) {
  found_t f = find(p, call);
  if (size > PTRDIFF_MAX) return NULL;
  /* blocks of first-class heaps are never runs */
  if (heap != NULL && becomes_run(&f, size) && resize_large(f.slab, p, size)) return p;
  void *block = resize_here(&f, p, size);
  if (block != NULL || is_small(&f) || is_fixed(&f) || firstclass_of(&f) != heap) return block;
  return resize_by_moving_pages(&f, p, size);
}

/* Where blocks with their own mapping die soon, a block that realloc grows by much is copied to
 * slices: its pages stay at hand when it dies. A block that grows by less is copied with headroom,
 * but only while it is short; one that grows by little would be copied too often. A block that ends
 * the first range is copied out of it once: from there it grows in place. Returns the copy's bytes;
 * 0: its pages are moved. */
static out_of_line size_t leap_to(const found_t *f, size_t size) {
  if (f->slab == NULL || f->usable < MOVED_LEAST || size >= HUGE_COPIED_MOST) return 0;
  size_t leap = f->usable + (f->usable >> HEADROOM_SHIFT);
  bool is_short = f->usable < HASTY_LEAST && size > f->usable + (f->usable >> LITTLE_SHIFT);
  bool leaps = huge_are_short_lived() && (size >= leap || is_short);
  size_t end = arena_slice((void *)slab_base(f->slab)) + atomic16_load_relaxed(&f->slab->slices);
  if (size <= f->usable || (!leaps && !arena_is_first_end(arena_of(f->slab), end))) return 0;
  return max_size(size, leap);
}

/* A large block gets addresses behind it as room to grow. */
static size_t with_headroom(const found_t *f, size_t size) {
  if (is_small(f)) return heap_with_headroom(f->usable, size);
  size_t roomy = f->usable + (f->usable >> HEADROOM_SHIFT);
  return size > f->usable && size < roomy && roomy < HUGE_LEAST / 2 ? roomy : size;
}

/* A run gets pages of its own as room, if these are at hand and the block need not be sampled. */
static out_of_line void *allocate_run_with_headroom(size_t size) {
  heap_t *h = unlikely(sample_was_started()) ? NULL : heap_enter();
  if (h == NULL) return NULL;
  void *block = paged_malloc_roomy(h, size);
  heap_exit(h);
  return block;
}

static always_inline void *room_to_copy(const found_t *f, size_t size) {
  bool is_short = unlikely(budget_is_spent(SLICE_SIZE)); /* then it gets what it asks for */
  size_t roomy = is_short ? size : with_headroom(f, size);
  if (roomy <= SMALL_MOST) return fast_malloc(roomy);
  void *block = NULL;
  if (roomy != size && paged_fits(size, 1)) block = allocate_run_with_headroom(size);
  else if (roomy != size) block = allocate_with_headroom(size, roomy);
  return block != NULL ? block : fast_malloc(size);
}

/* What this heap keeps may make room, and so may free pages of spans. */
static out_of_line bool give_room_to_grow(size_t more) {
  heap_t *h = budget_is_spent(more) ? heap_enter_own() : NULL;
  if (h != NULL && runs_may_give_room(h, more)) heap_clear_room(h), magazine_empty(h);
  if (h != NULL) heap_exit(h);
  return option_get(OPTION_memory_limit) != 0 && runs_give_room(more);
}

/* At the hard limit there is no room for a copy, but perhaps for the growth alone. The attempt to
 * copy may have made that room. */
static cold void *grow_at_limit(const found_t *f, void *p, size_t size) {
  if (is_small(f) || is_fixed(f) || size <= f->usable) return NULL;
  size_t more = align_up(size - f->usable, f->is_run ? SPAN_PAGE : SLICE_SIZE);
  if (!give_room_to_grow(more)) return NULL;
  return resize_in_place(f, p, size) ? p : resize_by_moving_pages(f, p, size);
}

/* There is no memory for a shorter block: this one keeps as few pages as it can. */
static cold void stay_longer(const found_t *f, void *p, size_t size) {
  size_t least = max_size(size, SMALL_MOST + 1);
  bool has_pages = !is_small(f) && !is_fixed(f) && least <= f->usable;
  if (!has_pages || !keep_pages(f, p, least) || size <= SMALL_MOST) heap_note_longer();
}

bool heap_stay(void *p, size_t size, const char *call) {
  found_t f = find(p, call);
  if (size <= f.usable) stay_longer(&f, p, size);
  return size <= f.usable;
}

typedef struct {
  void *block;
  bool is_copied; /* false: the old block has moved, or is this one */
} resized_t;

/* A block that shrinks stays if there is no memory for another. */
static always_inline resized_t resize_elsewhere(const found_t *f, void *p, size_t size) {
  void *block = NULL;
  if (!is_small(f) && !is_fixed(f)) {
    size_t leap = leap_to(f, size);
    if (leap != 0) block = allocate_with_headroom(size, leap);
    void *moved = block == NULL ? resize_by_moving_pages(f, p, size) : NULL;
    if (moved != NULL) return (resized_t){moved, false};
  }
  if (block == NULL) block = room_to_copy(f, size);
  if (block == NULL && size > f->usable) return (resized_t){grow_at_limit(f, p, size), false};
  if (block == NULL) return stay_longer(f, p, size), (resized_t){p, false};
  memcpy(block, p, min_size(size, f->usable));
  return (resized_t){block, true};
}

/* Out of line: its stack is free again when the old block is freed. */
static out_of_line resized_t resize(void *p, size_t size, const char *call) {
  found_t f = find(p, call);
  if (size > PTRDIFF_MAX) return (resized_t){NULL, false};
  void *block = resize_here(&f, p, size);
  return block != NULL ? (resized_t){block, false} : resize_elsewhere(&f, p, size);
}

static out_of_line void *free_old(void *p, void *block) { /* for the stack's sake */
  fast_free(p);
  return block;
}

void *heap_realloc(void *p, size_t size, const char *call) {
  resized_t r = resize(p, size, call);
  return r.is_copied ? free_old(p, r.block) : r.block;
}

bool heap_expand(void *p, size_t size, const char *call) {
  if (size > PTRDIFF_MAX || heap_is_foreign(p)) return false;
  found_t f = find(p, call);
  bool has_pages = !is_small(&f) && !is_fixed(&f) && size > SMALL_MOST;
  if (has_pages && keep_pages(&f, p, size)) return true;
  if (size > f.usable) return false;
  if (!may_have(&f, size, 1)) heap_note_longer(); /* also if the system refuses to shorten it */
  return true;
}
