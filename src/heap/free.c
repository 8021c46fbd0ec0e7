/* free.c - giving blocks back                                                         layer 6: heap
 * Contract: free.h. A block of the heap's own slab comes here only if the fast path could not
 * recognise it. */
#include "free.h"

#include "../slab/holes.h"
#include "../stock/stock.h"
#include "enter.h"
#include "fast.h"

/* ---- what is no live block ------------------------------------------------------------------- */

/* A descriptor keeps its contents until its slice is used again. So does a freed block, unless its
 * memory is gone. */
_Noreturn cold void heap_refuse_pointer(const slab_t *s, const void *p, const char *call) {
  size_t slice = arena_slice(p);
  bool is_ours = arena_has_slice(p);
  const atomic64_t *unmapped = &arena_maps(arena_of(p))->unmapped[slice / 64];
  bool is_gone = atomic64_load_relaxed(unmapped) >> slice % 64 & 1;
  bool was_small = is_ours && (uint16_t)(uintptr_t)p != 0 && (uintptr_t)p % 16 == 0 &&
                   (is_gone || block_is_free((uintptr_t)p));
  bool was_large = is_ours && (uintptr_t)p % SLICE_SIZE == 0 &&
                   slab_kind(slab_word(s)) == SLAB_NONE && atomic64_load_relaxed(&s->size) != 0;
  bool was_run = is_ours && span_was_freed(p);
  fatal(was_small || was_large || was_run ? "double free" : "invalid pointer", p, call);
}

/* relaxed: code, set before there is a first-class heap */
static atomic_ptr_t lane_emptied;

void heap_on_lane_emptied(lane_visitor_t *call) {
  atomic_ptr_store_relaxed(&lane_emptied, (void *)call);
}

/* A block of a first-class heap: the lane keeps its slab. The end of the heap may free all its
 * blocks at once, so they do not wait. The lane is never unmapped. But anybody may have the slab as
 * soon as the block is back, so what we read of it then is a hint. */
static void free_tagged(heap_t *h, slab_t *s, uintptr_t block) {
  heap_t *lane = slab_owner(s);
  if (h != NULL) {
    outbox_push(h, s, block, block, 1);
    heap_exit(h);
  } else {
    slab_free_one(s, block);
  }
  if (lane == NULL || slab_others_freed(s) != slab_used(s)) return;
  lane_visitor_t *call = (lane_visitor_t *)atomic_ptr_load_relaxed(&lane_emptied);
  if (call != NULL) call(lane, s);
}

/* ---- small blocks ---------------------------------------------------------------------------- */

void heap_slab_emptied(slab_t *s) {
  heap_t *h = heap_enter_own();
  if (h == NULL) return; /* the slab stays on its list, and is used from there */
  if (atomic_ptr_load_relaxed(&s->owner) == h && slab_kind(slab_word(s)) == SLAB_SMALL &&
      slab_used(s) == 0)
    owned_note_empty(h, s); /* a handler may have changed this since the fast free looked */
  heap_exit(h);
}

/* The chain of the block's slab is due. */
static cold void publish_due(uintptr_t block) {
  heap_t *h = heap_enter_own();
  if (h == NULL) return;
  outbox_publish_due(h, block);
  heap_exit(h);
}

/* Marks the thread's heap as a fast free does; false if it is already marked. */
static bool begin_free(void) {
  if (heap_here.window == 0) return false;
  here_mark_free();
  return true;
}

static void end_free(const heap_t *h) { here_unmark_free(atomic64_load_relaxed(&h->home)); }

/* Does what a fast free does. FAST_OTHERS also if the heap is marked. The slab's owner is certain
 * only from the mark on: until then a handler may let go of the slab. */
static out_of_line fast_freed_t put_back(slab_t *s, uintptr_t block) {
  heap_t *h = heap_of_thread();
  if (!begin_free()) return FAST_OTHERS;
  fast_freed_t freed = fast_put_back(h, s, block, false);
  end_free(h);
  return freed;
}

/* The last step of a free. */
static void put_others(heap_t *h, slab_t *s, uintptr_t block) {
  outbox_put(h, s, block);
  if (unlikely(outbox_is_due(h))) outbox_tend(h);
  heap_exit(h);
}

/* A block that a wide outbox has fetched starts a chain. */
static out_of_line void free_fetched(slab_t *s, uintptr_t block) {
  heap_t *h = heap_enter_to_free();
  outbox_check_fetched(s, block);
  if (h == NULL) return slab_free_one(s, block);
  put_others(h, s, block);
}

/* Blocks of a first-class heap do not wait. If the heap is marked, even by a fast malloc, `slow`
 * finds another. */
static out_of_line void free_unchained(slab_t *s, void *p, void (*slow)(void *p)) {
  uintptr_t block = (uintptr_t)p;
  bool is_plain = atomic_ptr_is_relaxed(&s->tag, NULL) && !slab_is_on_hole(s, block);
  if (is_plain) block_set_next(block, 0);
  heap_t *h = is_plain && !block_is_free(block) ? heap_enter_own() : NULL;
  if (unlikely(h == NULL)) return slow(p);
  put_others(h, s, block);
}

typedef enum { CHAIN_NONE, CHAIN_DUE, CHAIN_LONGER } chained_t;

/* Adds a block to its slab's chain, if the heap has one. The heap is marked as by a fast free. */
static always_inline chained_t add_to_chain(const heap_t *h, const slab_t *s, uintptr_t block) {
  batch_t *b = outbox_batch(h, block);
  if (b->slab != s || atomic32_load_relaxed(&s->holes) != 0) return CHAIN_NONE;
  block_set_next(block, 0);
  if (unlikely(block_is_free(block))) return CHAIN_NONE;
  return unlikely(outbox_add(b, block)) ? CHAIN_DUE : CHAIN_LONGER;
}

/* The outbox is wide: it keeps the block for a while, and puts back an earlier one instead. */
static out_of_line void free_wide(slab_t *s, uintptr_t block) {
  uintptr_t window = heap_here.window;
  here_mark_free();
  heap_t *h = heap_of_thread();
  if (outbox_is_wide(h)) block = outbox_fetch(h, &s, block);
  bool may_be = block != 0 && class_has_block_at((uint16_t)block, s->inverse);
  chained_t chained = may_be ? add_to_chain(h, s, block) : CHAIN_NONE;
  here_unmark_free(window);
  if (chained == CHAIN_DUE) return publish_due(block);
  if (chained == CHAIN_NONE && block != 0) return free_fetched(s, block);
}

/* A block of another heap's slab, or one for which this heap has no room. Most often the heap has a
 * chain for the slab. Out of line, so that a fast free stays a leaf. */
out_of_line void heap_free_others(slab_t *s, void *p, void (*slow)(void *p)) {
  uintptr_t block = (uintptr_t)p, window = heap_here.window;
  chained_t chained = CHAIN_NONE;
  if (likely(heap_here.limit != 0 && window != 0)) {
    if (outbox_is_wide(heap_of_thread()) && atomic_ptr_is_relaxed(&s->tag, NULL))
      return free_wide(s, block);
    here_mark_free();
    chained = add_to_chain(heap_of_thread(), s, block);
    here_unmark_free(window);
  }
  if (unlikely(chained == CHAIN_DUE)) return publish_due(block);
  if (unlikely(chained == CHAIN_NONE)) return free_unchained(s, p, slow);
}

/* Out of line, so that freeing a large block saves no registers for it. */
static out_of_line void free_small(slab_t *s, void *p, const char *call) {
  uintptr_t block = (uintptr_t)p;
  bool is_tagged = !atomic_ptr_is_relaxed(&s->tag, NULL);
  if (!class_has_block_at((uint16_t)block, s->inverse)) fatal("invalid pointer", p, call);
  if (slab_is_on_hole(s, block)) fatal("double free", p, call);
  if (heap_here.window != 0) {
    atomic64_store_relaxed(&heap_of_thread()->home, window_of(block)); /* for the next fast free */
    fast_freed_t freed = is_tagged ? FAST_REFUSED : put_back(s, block);
    if (freed == FAST_EMPTIED) return heap_slab_emptied(s);
    if (freed == FAST_FREED) return;
    if (freed == FAST_OTHERS && heap_here.limit != 0 && outbox_is_wide(heap_of_thread()))
      return free_wide(s, block);
  }
  heap_t *h = heap_enter_to_free();
  block_refuse_double_free(block, call);
  if (is_tagged) return free_tagged(h, s, block);
  if (h == NULL) return slab_free_one(s, block);
  put_others(h, s, block);
}

/* ---- any block ------------------------------------------------------------------------------- */

out_of_line void heap_free_large(slab_t *s, void *p, const char *call) {
  heap_t *h = heap_enter_own();
  large_free(h, s, p, call);
  if (h != NULL) heap_exit(h);
}

static out_of_line void free_run(void *p, const char *call) {
  heap_t *quick = heap_enter_quickly(), *h = likely(quick != NULL) ? quick : heap_enter_own();
  paged_free(h, p, call);
  if (likely(quick != NULL)) heap_exit_quickly(h);
  else if (h != NULL) heap_exit(h);
}

static always_inline void free_in_arena(void *p, const char *call) {
  slab_t *s = slab_of(p);
  slab_kind_t kind = slab_kind_at(p);
  if (kind == SLAB_SMALL) return free_small(s, p, call);
  if (span_around(p) != NULL) return free_run(p, call);
  if (kind == SLAB_LARGE) return heap_free_large(s, p, call);
  heap_refuse_pointer(s, p, call);
}

/* Out of line, so that a fast free stays a leaf. */
out_of_line void heap_free(void *p, const char *call) {
  if (p == NULL) return;
  uintptr_t tenant = map_find(p);
  if (likely(map_kind(tenant) == TENANT_ARENA)) return free_in_arena(p, call);
  switch (map_kind(tenant)) {
    case TENANT_HUGE: return huge_free(map_record(tenant), p, call);
    case TENANT_EMPTY: return empty_free(map_record(tenant), p, call);
    case TENANT_GUARDED: return guard_free(map_record(tenant), p, call);
    default: fatal("invalid pointer", p, call);
  }
}

void heap_free_slow(void *p) { heap_free(p, "free"); }
