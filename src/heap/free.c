/* free.c - giving blocks back                                                         layer 5: heap
 * Contract: heap.h. A free of the heap's own block has passed by here only if the fast path could
 * not tell.
 *
 * A block of a slab that another heap owns, or nobody, goes back by a compare-and-swap on the
 * slab's anchor. That is dear twice: the swap itself, and that it waits for every load and store
 * before it, among them those of a block that is in no cache. So such blocks are put off
 * (`pending`), chained by slab (`batch`), and published many at a time. */
#include "fast.h"

#include "../base/check.h"

/* ---- what is no live block ------------------------------------------------------------------- */

/* A descriptor keeps what it said until its slice is used again, and so does a freed block. */
_Noreturn cold void heap_bad_pointer(const slab_t *s, const void *p, const char *call) {
  size_t slice = arena_slice(p);
  bool is_ours = slice >= ARENA_FIRST_SLICE && slice < atomic64_load_relaxed(&arena_of(p)->mapped);
  bool was_small = is_ours && (uint16_t)(uintptr_t)p != 0 && (uintptr_t)p % 16 == 0 &&
                   block_is_free((uintptr_t)p);
  bool was_large = is_ours && (uintptr_t)p % SLICE_SIZE == 0 &&
                   slab_kind(slab_word(s)) == SLAB_NONE && atomic64_load_relaxed(&s->size) != 0;
  fatal(was_small || was_large ? "double free" : "invalid pointer", p, call);
}

static void check_start(const slab_t *s, const void *p, const char *call) {
  uint16_t offset = (uint16_t)(uintptr_t)p;
  if (!class_is_multiple(offset, s->inverse)) fatal("invalid pointer", p, call);
}

static void check_live(uintptr_t block, const char *call) {
  if (block_is_free(block)) fatal("double free", (void *)block, call);
}

void heap_check_block(const slab_t *s, const void *p, const char *call) {
  check_start(s, p, call);
  check_live((uintptr_t)p, call);
}

/* ---- others' --------------------------------------------------------------------------------- */

static void take_outcome(heap_t *h, slab_t *s, slab_outcome_t outcome) {
  if (outcome == SLAB_OWNED_NOW) heap_own(h, s);
  if (outcome == SLAB_IS_EMPTY) heap_put_slice(h, s);
}

/* Is a slab of this class worth having for the heap? */
static bool wants(const heap_t *h, unsigned c) {
  return h->owned[c] < OWNED_MAX && heap_has_earned(h, c);
}

static void push(heap_t *h, slab_t *s, uintptr_t first, uintptr_t last, unsigned count) {
  atomic64_bump(&h->swaps, 1);
  slab_outcome_t outcome = slab_push(s, first, last, count, NULL, PUSH_ASK);
  if (likely(outcome == SLAB_SHARED)) return;
  if (outcome == SLAB_IS_WORTH)
    outcome =
        slab_push(s, first, last, count, h, wants(h, slab_class(s)) ? PUSH_ADOPT : PUSH_PUBLISH);
  take_outcome(h, s, outcome);
}

/* The slab is not the heap's own: it was not when the batch began, and a heap takes slabs only once
 * its batches are empty (refill), or while it publishes the one of that slab. */
static void publish(heap_t *h, batch_t *b) {
  slab_t *s = b->slab;
  uintptr_t base = slab_base(s);
  ASSERT(!atomic_ptr_is_relaxed(&s->owner, h));
  b->slab = NULL;
  push(h, s, base | b->first, base | b->last, b->count);
}

static bool is_due(const batch_t *b) {
  return b->count >= BATCH_BLOCKS || b->count * class_size(slab_class(b->slab)) >= BATCH_BYTES ||
         slab_would_be_empty(b->slab, b->count);
}

/* Chains the block with others of its slab, unless that is the heap's own by now. */
static void gather(heap_t *h, slab_t *s, uintptr_t block) {
  if (atomic_ptr_is_relaxed(&s->owner, h)) {
    if (fast_put_back(s, block)) heap_note_empty(h, s);
    return;
  }
  size_t slot = arena_slice((void *)block) % BATCH_SLOTS;
  batch_t *b = &h->freed->batch[slot];
  if (b->slab != s) {
    if (b->slab != NULL) publish(h, b);
    h->freed->slots |= (uint64_t)1 << slot;
    block_link(block, 0);
    *b = (batch_t){ s, (uint16_t)block, (uint16_t)block, 1, 0 };
  } else {
    block_link(block, slab_base(s) | b->first);
    b->first = (uint16_t)block;
    b->count++;
  }
  if (is_due(b)) publish(h, b);
}

void heap_give_back(heap_t *h, slab_t *s, uintptr_t block) {
  if (!atomic_ptr_is_relaxed(&s->owner, h)) {
    atomic64_bump(&h->remote_frees, 1);
    h->has_shared = 1;
  }
  gather(h, s, block);
}

enum { PENDING_KEYED = 1 }; /* in the low bit: the block was looked at, and marked as free */

static void gather_pending(heap_t *h) {
  unsigned count = h->pending_count;
  h->pending_count = 0;
  for (unsigned i = 0; i < count; i++) {
    uintptr_t entry = h->freed->pending[i], block = entry & ~(uintptr_t)PENDING_KEYED;
    if (entry == block) check_live(block, "free");
    gather(h, slab_of((void *)block), block);
  }
}

void heap_flush_shared(heap_t *h) {
  h->has_shared = 0;
  gather_pending(h);
  for (uint64_t w = h->freed->slots; w != 0; w &= w - 1) { /* Bound: the bits of a word */
    batch_t *b = &h->freed->batch[bits_lowest(w)];
    if (b->slab != NULL) publish(h, b);
  }
  h->freed->slots = 0;
}

static cold __attribute__((noinline)) void pending_is_full(void) {
  heap_t *h = heap_enter();
  if (h == NULL) return;
  if (h->pending_count == PENDING_BLOCKS) gather_pending(h);
  heap_exit(h);
}

/* Marks the thread's heap as a fast free does; false if it is marked already. */
static bool begin_free(void) {
  if (heap_here.window == 0) return false;
  heap_here.window = 0;
  signal_fence();
  return true;
}

static void end_free(void) {
  signal_fence();
  heap_here.window = atomic64_load_relaxed(&heap_of_thread()->home);
}

static bool is_of_another(const slab_t *s, const heap_t *h) {
  return !atomic_ptr_is_relaxed(&s->owner, h) && !atomic_ptr_is_relaxed(&s->owner, NULL);
}

/* A block of a slab that is the heap's own goes back there; one of a slab that is nobody's, and so
 * not in another thread's hands, onto the list that becomes the next bin of its class. False if
 * that has no room, or if the slab is another's. Whose it is counts once the heap is marked: until
 * then a handler may let go of the slab. */
static bool keep(slab_t *s, uintptr_t block, const char *call) {
  heap_t *h = heap_of_thread();
  bool is_empty = false, is_done = false;
  if (is_of_another(s, h)) return false;
  check_live(block, call);
  if (!begin_free()) return false;
  if (atomic_ptr_is_relaxed(&s->owner, h)) {
    is_empty = fast_put_back(s, block);
    is_done = true;
  } else if (!is_of_another(s, h)) {
    is_done = fast_keep(h, slab_class(s), block);
  }
  end_free();
  if (is_empty) heap_slab_emptied(s);
  return is_done;
}

/* A block of another heap's slab, or one for which there is no room here: it is remembered, no
 * more. In a small heap the block is at hand, and is looked at now; in a large one it is fetched,
 * and looked at when it is gathered. False if the heap is marked, or a handler has left no room. */
static bool put_off(slab_t *s, uintptr_t block, const char *call) {
  heap_t *h = heap_of_thread();
  bool is_near = atomic64_load_relaxed(&arena_counts.committed) < LARGE_HEAP_SLICES;
  if (is_near) check_live(block, call);
  else __builtin_prefetch((void *)block, 1);
  __builtin_prefetch(&s->anchor, 1);
  if (!begin_free()) return false;
  unsigned count = h->pending_count;
  bool has_room = count < PENDING_BLOCKS;
  if (likely(has_room)) {
    if (is_near) block_set_free(block);
    h->freed->pending[count] = block | (is_near ? PENDING_KEYED : 0);
    h->pending_count = (uint8_t)(count + 1);
    h->has_shared = 1;
    atomic64_bump(&h->remote_frees, 1);
  }
  end_free();
  if (unlikely(count + 1 >= PENDING_BLOCKS)) pending_is_full();
  return has_room;
}

/* No heap to be had: the block goes to its slab by itself. */
static void free_without_heap(slab_t *s, uintptr_t block) {
  if (slab_push(s, block, block, 1, NULL, PUSH_PUBLISH) == SLAB_IS_EMPTY) slab_release(s);
}

static void free_small(slab_t *s, void *p, const char *call) {
  uintptr_t block = (uintptr_t)p;
  bool is_tagged = !atomic_ptr_is_relaxed(&s->tag, NULL);
  check_start(s, p, call);
  if (heap_here.window != 0) {
    atomic64_store_relaxed(&heap_of_thread()->home, window_of(block));
    if (!is_tagged && (keep(s, block, call) || put_off(s, block, call))) return;
  }
  heap_t *h = heap_enter();
  check_live(block, call);
  if (h == NULL) return free_without_heap(s, block);
  /* The end of a first-class heap may free all its blocks at once: they do not wait. */
  if (is_tagged) push(h, s, block, block, 1);
  else heap_give_back(h, s, block);
  heap_exit(h);
}

/* ---- any block ------------------------------------------------------------------------------- */

/* Out of line, so that a fast free stays a leaf. */
__attribute__((noinline)) void heap_free(void *p, const char *call) {
  if (p == NULL) return;
  uintptr_t tenant = map_find(p);
  switch (map_kind(tenant)) {
    case TENANT_ARENA: {
      slab_t *s = slab_of(p);
      slab_kind_t kind = arena_slice(p) >= ARENA_FIRST_SLICE ? slab_kind(slab_word(s)) : SLAB_NONE;
      if (kind == SLAB_NONE) heap_bad_pointer(s, p, call);
      if (kind == SLAB_LARGE) return large_free(s, p, call);
      return free_small(s, p, call);
    }
    case TENANT_HUGE: return huge_free(map_record(tenant), p, call);
    default:
      if (!heap_hooks.foreign_free(p, call)) fatal("invalid pointer", p, call);
  }
}

void heap_free_slow(void *p) { heap_free(p, "free"); }
void heap_free_sized_slow(void *p) { heap_free(p, "free_sized"); }
void heap_free_aligned_sized_slow(void *p) { heap_free(p, "free_aligned_sized"); }
