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

/* A descriptor keeps what it said until its slice is used again, and so does a freed block, unless
 * its memory is gone. */
_Noreturn cold void heap_bad_pointer(const slab_t *s, const void *p, const char *call) {
  size_t slice = arena_slice(p);
  bool is_ours = slice >= ARENA_FIRST_SLICE && slice < atomic64_load_relaxed(&arena_of(p)->mapped);
  const atomic64_t *unmapped = &arena_maps(arena_of(p))->unmapped[slice / 64];
  bool is_gone = atomic64_load_relaxed(unmapped) >> slice % 64 & 1;
  bool was_small = is_ours && (uint16_t)(uintptr_t)p != 0 && (uintptr_t)p % 16 == 0 &&
                   (is_gone || block_is_free((uintptr_t)p));
  bool was_large = is_ours && (uintptr_t)p % SLICE_SIZE == 0 &&
                   slab_kind(slab_word(s)) == SLAB_NONE && atomic64_load_relaxed(&s->size) != 0;
  fatal(was_small || was_large ? "double free" : "invalid pointer", p, call);
}

static void check_start(const slab_t *s, const void *p, const char *call) {
  uint16_t offset = (uint16_t)(uintptr_t)p;
  if (!class_is_multiple(offset, s->inverse)) fatal("invalid pointer", p, call);
}

/* Of a block that is about to be linked. */
static bool is_free_already(uintptr_t block) {
  block_set_next(block, 0);
  return block_is_free(block);
}

static void check_freed(uintptr_t block, const char *call) {
  if (is_free_already(block)) fatal("double free", (void *)block, call);
}

/* ---- others' --------------------------------------------------------------------------------- */

static void take_outcome(heap_t *h, slab_t *s, slab_outcome_t outcome) {
  if (outcome == SLAB_OWNED_NOW) heap_own(h, s);
  if (outcome == SLAB_IS_EMPTY) heap_put_slice(h, s);
}

/* Is a slab of this class worth having for the heap? */
static bool wants(heap_t *h, unsigned c) {
  return h->own->owned[c] < OWNED_MAX && heap_has_earned(h, c) && !heap_is_remote(h, c);
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
  h->freed->held--;
  push(h, s, base | batch_first(b), base | batch_last(b), batch_count(b));
}

static always_inline bool is_due(const batch_t *b) {
  unsigned count = batch_count(b);
  return count >= BATCH_BLOCKS || count * class_size(slab_class(b->slab)) >= BATCH_BYTES ||
         slab_would_be_empty(b->slab, count);
}

static batch_t *batch_for(heap_t *h, uintptr_t block) {
  return &h->freed->batch[arena_slice((void *)block) % BATCH_SLOTS];
}

/* Adds the block to the batch, which is for its slab or for none. */
static always_inline void chain(heap_t *h, batch_t *b, slab_t *s, uintptr_t block) {
  enum { ONE_SHIFT = 32, LAST_SHIFT = 16 };
  uint64_t one = (uint64_t)1 << ONE_SHIFT | (uint16_t)block;
  if (b->slab == s) {
    block_link(block, slab_base(s) | batch_first(b));
    signal_fence();
    b->chain = b->chain - batch_first(b) + one;
    return;
  }
  block_link(block, 0);
  h->freed->held++;
  h->freed->slots |= (uint64_t)1 << (b - h->freed->batch);
  b->chain = one | (uint64_t)(uint16_t)block << LAST_SHIFT;
  signal_fence();
  b->slab = s;
}

/* Chains the block with others of its slab, unless that is the heap's own by now. */
static void gather(heap_t *h, slab_t *s, uintptr_t block) {
  if (atomic_ptr_is_relaxed(&s->owner, h)) {
    if (fast_put_back(s, block)) heap_note_empty(h, s);
    return;
  }
  batch_t *b = batch_for(h, block);
  if (b->slab != NULL && b->slab != s) publish(h, b);
  chain(h, b, s, block);
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
  if (count == 0) return;
  h->pending_count = 0;
  h->freed->held -= count * HELD_PENDING;
  for (unsigned i = 0; i < count; i++) {
    uintptr_t block = h->freed->pending[i];
    if ((block & PENDING_KEYED) == 0) check_freed(block, "free");
    block &= ~(uintptr_t)PENDING_KEYED;
    gather(h, slab_of((void *)block), block);
  }
}

void heap_flush_shared(heap_t *h) {
  h->has_shared = 0;
  gather_pending(h);
  uint64_t slots = h->freed->slots;
  if (slots == 0) return; /* perhaps no page of it was ever touched */
  for (uint64_t w = slots; w != 0; w &= w - 1) { /* Bound: the bits of a word */
    batch_t *b = &h->freed->batch[bits_lowest(w)];
    if (b->slab != NULL) publish(h, b);
  }
  h->freed->slots = 0;
  h->freed->held = 0;
}

/* So much is held back that all of it is due. It may be more from then on: a heap that frees much
 * of others', spread over many slabs, does so with few swaps, and one that freed a little holds
 * next to nothing back, should its thread sleep then. */
static bool is_much(const heap_t *h) {
  return h->freed->held > HELD_LEAST + h->freed->held_more;
}

/* After a free that was put off: enough of them wait. */
static cold __attribute__((noinline)) void publish_some(uintptr_t block) {
  heap_t *h = heap_enter_own();
  if (h == NULL) return;
  batch_t *b = batch_for(h, block);
  if (b->slab != NULL && is_due(b)) publish(h, b);
  if (h->pending_count == PENDING_BLOCKS) gather_pending(h);
  if (is_much(h)) {
    if (h->freed->held_more < HELD_MORE) h->freed->held_more++;
    heap_flush_shared(h);
  }
  heap_exit(h);
}

/* Marks the thread's heap as a fast free does; false if it is marked already. */
static bool begin_free(void) {
  if (heap_here.window == 0) return false;
  heap_here.window = 0;
  signal_fence();
  return true;
}

static void end_free(const heap_t *h) {
  signal_fence();
  heap_here.window = atomic64_load_relaxed(&h->home);
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
  check_freed(block, call);
  if (!begin_free()) return false;
  if (atomic_ptr_is_relaxed(&s->owner, h)) {
    is_empty = fast_put_back(s, block);
    is_done = true;
  } else if (!is_of_another(s, h) && h->room[slab_class(s)] != 0) {
    is_done = fast_keep(h, slab_class(s), block);
  }
  end_free(h);
  if (is_empty) heap_slab_emptied(s);
  return is_done;
}

/* Remembers the block, if there is room: a handler may have left none. The heap is marked. */
static bool remember(heap_t *h, uintptr_t block, bool is_looked_at) {
  if (h->pending_count == PENDING_BLOCKS) return false;
  h->freed->held += HELD_PENDING;
  if (is_looked_at) block_set_free(block);
  h->freed->pending[h->pending_count] = block | (is_looked_at ? PENDING_KEYED : 0);
  h->pending_count++;
  return true;
}

/* A block of another heap's slab, or one for which there is no room here. In a small heap it is at
 * hand: it is looked at now, and chained with others of its slab unless another slab's batch is in
 * the way. In a large heap it is fetched, and looked at when it is gathered. False if the heap is
 * marked, also by a fast malloc, for then it is another that publishes what is due; if a handler
 * has left no room; or if the block is free already. */
static bool put_off(slab_t *s, uintptr_t block) {
  heap_t *h = heap_of_thread();
  if (heap_here.limit == 0 || slab_is_on_hole(s, block)) return false;
  bool is_near = atomic64_load_relaxed(&arena_counts.committed) < LARGE_HEAP_SLICES;
  if (!is_near) __builtin_prefetch((void *)block, 1);
  else if (is_free_already(block)) return false;
  __builtin_prefetch(&s->anchor, 1);
  if (!begin_free()) return false;
  batch_t *b = batch_for(h, block);
  bool is_done = true, is_enough;
  bool is_own = atomic_ptr_is_relaxed(&s->owner, h); /* by what a handler has done meanwhile */
  if (is_near && !is_own && (b->slab == s || b->slab == NULL)) {
    chain(h, b, s, block);
    is_enough = is_due(b);
  } else {
    is_done = remember(h, block, is_near);
    is_enough = h->pending_count == PENDING_BLOCKS;
  }
  is_enough |= is_much(h);
  h->has_shared = 1;
  atomic64_bump(&h->remote_frees, is_done);
  end_free(h);
  if (unlikely(is_enough)) publish_some(block);
  return is_done;
}

/* Blocks of a first-class heap do not wait. Out of line, so that a fast free stays a leaf. */
__attribute__((noinline)) void heap_free_others(slab_t *s, void *p, void (*slow)(void *p)) {
  bool is_tagged = !atomic_ptr_is_relaxed(&s->tag, NULL);
  if (is_tagged || !put_off(s, (uintptr_t)p)) slow(p);
}

/* The block goes to its slab by itself. */
static void free_without_heap(slab_t *s, uintptr_t block) {
  if (slab_push(s, block, block, 1, NULL, PUSH_PUBLISH) == SLAB_IS_EMPTY) slab_release(s);
}

/* Out of line, so that the free of a large block saves no registers for it. */
static __attribute__((noinline)) void free_small(slab_t *s, void *p, const char *call) {
  uintptr_t block = (uintptr_t)p;
  bool is_tagged = !atomic_ptr_is_relaxed(&s->tag, NULL);
  check_start(s, p, call);
  if (slab_is_on_hole(s, block)) fatal("double free", p, call);
  if (heap_here.window != 0) {
    atomic64_store_relaxed(&heap_of_thread()->home, window_of(block));
    if (!is_tagged && (keep(s, block, call) || put_off(s, block))) return;
  }
  heap_t *h = heap_enter_to_free();
  check_freed(block, call);
  if (h == NULL) return free_without_heap(s, block);
  /* The end of a first-class heap may free all its blocks at once: they do not wait. */
  if (is_tagged) push(h, s, block, block, 1);
  else heap_give_back(h, s, block);
  heap_exit(h);
}

/* ---- any block ------------------------------------------------------------------------------- */

static cold __attribute__((noinline)) void free_foreign(void *p, const char *call) {
  if (!heap_hooks.foreign_free(p, call)) fatal("invalid pointer", p, call);
}

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
    default: free_foreign(p, call);
  }
}

void heap_free_slow(void *p) { heap_free(p, "free"); }
void heap_free_sized_slow(void *p) { heap_free(p, "free_sized"); }
void heap_free_aligned_sized_slow(void *p) { heap_free(p, "free_aligned_sized"); }
