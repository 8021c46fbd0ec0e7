/* visit.c - every slab and every live block, without stopping anyone                  layer 6: heap
 * Contract: visit.h.
 * Threads: any. A visit may or may not see what others do meanwhile. Descriptors are never
 *          unmapped, and blocks are not while their keys are read (S-read). A free block has a key,
 *          is fresh (fresh.h) or lies on a hole (S-visit). A live block has a word of the program's
 *          in place of the key: docs/concurrency.md says why it may be read. Large and huge blocks
 *          are not read. */
#include "visit.h"

#include "../slab/holes.h"
#include "../stock/stock.h"
#include "enter.h"

bool visit_slabs(visit_slab_t *visit, void *context) {
  for (size_t i = 0, arenas = arena_count(); i < arenas; i++) {
    arena_t *a = arena_at(i);
    if (a == NULL) continue;
    size_t mapped = min_size(atomic64_load_relaxed(&a->mapped), WINDOW_SLICES);
    for (size_t slice = a->first; slice < mapped; slice++) {
      if (slice % 64 == 0 && ~atomic64_load_relaxed(&a->free[slice / 64]) == 0) {
        slice += 63; /* all free: nothing is there */
        continue;
      }
      slab_t *s = slab_of(arena_address(a, slice));
      uint32_t word = slab_word(s);
      if (slab_kind(word) != SLAB_NONE && !visit(s, word, context)) return false;
    }
  }
  return true;
}

typedef struct {
  const heap_t *lane; /* only its slabs are visited; or NULL */
  visitor_t to;
} blocks_visit_t;

static bool show_block(const visitor_t *to, void *block, size_t size) {
  if (to->areas == NULL) return to->blocks(block, size, to->context);
  return to->areas(&(fh_area_t){block, size, size, 1}, to->context);
}

enum { AT_ONCE = 64 };

/* A bit for each of a slab's next `n` blocks that is not free. None if the slice has become
 * something else, as it may be in no memory then. */
static uint64_t live_mask(const slab_t *s, uint32_t word, uintptr_t block, size_t n) {
  uint64_t live = 0, fresh = atomic64_load_acquire(&s->fresh); /* S-visit */
  arena_read_begin(arena_described(s));
  for (size_t i = 0; i < n && slab_word(s) == word; i++, block += class_size(word)) {
    if ((fresh & fresh_bit(block)) != 0 || slab_block_is_free(s, block)) continue;
    if (!block_is_free(block)) live |= (uint64_t)1 << i; /* else a hole has been filled since */
  }
  arena_read_end(arena_described(s));
  return live;
}

static bool visit_span(const slab_t *s, const visitor_t *to) {
  char *base = (char *)slab_base(s);
  unsigned pages;
  for (size_t at = 0; at < SPAN_SIZE; at += SPAN_PAGE) { /* Bound: its pages */
    void *run = span_find(base + at, &pages);
    if (slab_word(s) != SLAB_IS_SPAN) return true; /* and what was read belongs to something else */
    if (run == base + at && !show_block(to, run, (size_t)pages << SPAN_PAGE_SHIFT)) return false;
  }
  return true;
}

/* The slice may become another slab's at any moment. Its class is what `word` says, and it has no
 * more blocks than fit the slice. A block is among a heap's fresh ones or has a key before `carved`
 * counts it, and it has a key before it leaves the fresh ones (S-visit). So reading in that order
 * shows it as one of the two, unless the program has it. */
static bool visit_blocks_of(slab_t *s, uint32_t word, void *context) {
  const blocks_visit_t *v = context;
  char *base = (char *)slab_base(s);
  if (v->lane != NULL && !atomic_ptr_is_relaxed(&s->owner, v->lane)) return true;
  if (slab_kind(word) == SLAB_SPAN) return visit_span(s, &v->to);
  if (slab_kind(word) == SLAB_LARGE)
    return show_block(&v->to, base, atomic64_load_relaxed(&s->size));
  size_t size = class_size(word);
  if (v->to.areas != NULL)
    return v->to.areas(&(fh_area_t){base, SLICE_SIZE, size, slab_live(s)}, v->to.context);
  for (size_t done = 0, carved;; done += AT_ONCE) { /* Bound: its blocks. A visitor may be slow */
    carved = min_size(atomic32_load_acquire(&s->carved), class_info[word].capacity); /* S-visit */
    if (done >= carved || (v->lane != NULL && !atomic_ptr_is_relaxed(&s->owner, v->lane))) break;
    char *block = base + (done + 1) * size;
    uint64_t live = live_mask(s, word, (uintptr_t)block, min_size(carved - done, AT_ONCE));
    for (; live != 0; live &= live - 1) /* Bound: AT_ONCE */
      if (!show_block(&v->to, block + bits_lowest(live) * size, size)) return false;
  }
  return true;
}

static bool visit_one(slab_t *large, huge_t *huge, void *context) {
  const blocks_visit_t *v = context;
  if (huge != NULL) return show_block(&v->to, huge_base(huge), atomic64_load_relaxed(&huge->size));
  return show_block(&v->to, (void *)slab_base(large), atomic64_load_relaxed(&large->size));
}

/* Lists of somebody else's lane may change: looks for the lane's slabs among all slabs instead. */
bool heap_visit_lane(const heap_t *lane, bool is_mine, const visitor_t *to) {
  blocks_visit_t visit = {lane, *to};
  if (!index_each(lane, visit_one, &visit)) return false;
  if (!is_mine) return visit_slabs(visit_blocks_of, &visit);
  for (unsigned c = 0; (c = heap_next_class(lane, c)) != 0;)
    for (slab_t *s = owned_first(lane, c); s != NULL; s = s->next) /* Bound: owned slabs */
      if (!visit_blocks_of(s, c, &visit)) return false;
  return true;
}

/* Marks as free what the calling thread freed last. */
static void put_last_frees(void) {
  heap_t *h = heap_enter_own();
  if (h == NULL) return;
  outbox_put_fetched(h);
  heap_exit(h);
}

bool heap_visit(const visitor_t *to) {
  blocks_visit_t visit = {NULL, *to};
  put_last_frees();
  if (!visit_slabs(visit_blocks_of, &visit)) return false;
  huge_t *b;
  const guard_slot_t *s;
  for (size_t i = 0; (b = huge_next(&i)) != NULL;) /* Bound: huge_pool_size(); below, GUARD_SLOTS */
    if (!visit_one(NULL, b, &visit)) return false;
  for (size_t i = 0; (s = guard_next(&i)) != NULL;) {
    void *block = atomic_ptr_load_relaxed(&s->block);
    if (!show_block(to, block, atomic64_load_relaxed(&s->size))) return false;
  }
  return to->areas != NULL || empty_visit(to->blocks, to->context);
}

/* ---- sampled blocks -------------------------------------------------------------------------- */

typedef struct {
  sampled_visitor_t *visitor;
  void *context;
} sampled_visit_t;

static bool visit_sampled(slab_t *s, uint32_t word, void *context) {
  const sampled_visit_t *v = context;
  if ((word & SLAB_IS_SAMPLED) != 0) v->visitor(&s->sampled, v->context);
  return true;
}

void heap_visit_sampled(sampled_visitor_t *visitor, void *context) {
  sampled_visit_t visit = {visitor, context};
  visit_slabs(visit_sampled, &visit);
  huge_t *b;
  const guard_slot_t *s;
  for (size_t i = 0; (b = huge_next(&i)) != NULL;) /* Bound: huge_pool_size(); below, GUARD_SLOTS */
    if (sampled_blocks(&b->sampled) != 0) visitor(&b->sampled, context);
  for (size_t i = 0; (s = guard_next(&i)) != NULL;)
    if (sampled_blocks(&s->sampled) != 0) visitor(&s->sampled, context);
}
