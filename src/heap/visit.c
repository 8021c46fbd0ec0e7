/* visit.c - every slab and every live block, without stopping anyone                  layer 5: heap
 * Owns:    nothing.   Called by: stats.c, firstclass.c, api.   Calls: pool, slab,
 *          arena, huge.
 * Threads: any. What others do meanwhile may or may not be seen; descriptors are never unmapped,
 *          and a free block is known by the key that it carries, or as fresh (fresh.h). */
#include "visit.h"

bool visit_slabs(visit_slab_t *visit, void *context) {
  for (size_t i = 0, arenas = arena_count(); i < arenas; i++) {
    arena_t *a = arena_at(i);
    if (a == NULL) continue;
    size_t mapped = min_size(atomic64_load_relaxed(&a->mapped), WINDOW_SLICES);
    for (size_t slice = ARENA_FIRST_SLICE; slice < mapped; slice++) {
      if (slice % 64 == 0 && ~atomic64_load_relaxed(&a->free[slice / 64]) == 0) {
        slice += 63; /* all free: nothing is there */
        continue;
      }
      void *base = arena_address(a, slice);
      slab_t *s = slab_of(base);
      uint32_t word = slab_word(s);
      if (slab_kind(word) != SLAB_NONE && !visit(s, word, base, context)) return false;
    }
  }
  return true;
}

typedef struct {
  void *tag, *context;
  fh_visitor_t *visitor;
} blocks_visit_t;

/* The slice may become another slab's at any moment: its class is what `word` says, and however
 * many blocks the next slab has, no more of them than lie in the slice. A block is among a heap's
 * fresh ones or has a key before `carved` counts it, and has a key before it goes from the fresh
 * ones to its slab (S-visit): read in that order it is seen as one of both, or is the program's. */
static bool visit_blocks_of(slab_t *s, uint32_t word, void *base, void *context) {
  const blocks_visit_t *v = context;
  if (v->tag != NULL && atomic_ptr_load_relaxed(&s->tag) != v->tag) return true;
  if (slab_kind(word) == SLAB_LARGE)
    return v->visitor(base, atomic64_load_relaxed(&s->size), v->context);
  size_t size = class_size(word);
  size_t carved = min_size(atomic32_load_acquire(&s->carved), class_info[word].capacity);
  uint64_t fresh = v->tag == NULL ? pool_fresh_of(base, word) : 0;
  uintptr_t block = (uintptr_t)base + size;
  for (; carved > 0; carved--, block += size, fresh >>= 1) {
    if ((fresh & 1) != 0 || slab_block_is_free(s, block)) continue;
    if (block_is_free(block)) continue; /* a hole was filled since */
    if (!v->visitor((void *)block, size, v->context)) return false;
  }
  return true;
}

/* Blocks that this thread has freed and not looked at since carry no key yet (free.c). Those of a
 * first-class heap are never put off. */
static void finish_own_frees(void) {
  heap_t *h = heap_enter_own();
  if (h == NULL) return;
  heap_flush_shared(h);
  heap_exit(h);
}

bool heap_visit(void *tag, fh_visitor_t *visitor, void *context) {
  blocks_visit_t visit = { tag, context, visitor };
  if (tag == NULL) finish_own_frees();
  if (!visit_slabs(visit_blocks_of, &visit)) return false;
  for (size_t i = 0; i < huge_pool_size(); i++) {
    bool is_live;
    huge_t *b = huge_at(i, &is_live);
    if (!is_live || (tag != NULL && atomic_ptr_load_relaxed(&b->tag) != tag)) continue;
    if (!visitor(huge_base(b), atomic64_load_relaxed(&b->size), context)) return false;
  }
  return true;
}
