/* shrink.c - what a heap gives up: a little now and then, or everything              layer 5: stock
 * Contract: shrink.h. Only the classes that the heap has used are visited. */
#include "shrink.h"

#include "../support/pace.h"
#include "stock.h"

void heap_settle(heap_t *h) {
  tails_settle(h);
  runs_settle(h);
  pool_settle(h);
}

/* Puts a list's blocks back where they came from; returns how many there were. */
static size_t flush_list(heap_t *h, uintptr_t *list) {
  size_t n = 0;
  for (uintptr_t block; (block = *list) != 0; n++) { /* Bound: a bin, or a returned list */
    *list = block_next(block);
    if (!block_is_free(block)) fatal("heap corruption", (void *)block, "free");
    outbox_put(h, slab_of((void *)block), block);
  }
  return n;
}

static void flush_fresh(heap_t *h, unsigned c) {
  for (fresh_t f; (f = heap_fresh(h, c)).count != 0;) { /* Bound: a slab's blocks */
    block_set_free(f.first); /* from now on a visitor knows it by its key */
    heap_drop_fresh(h, c, f);
    outbox_put(h, slab_of((void *)f.first), f.first);
  }
}

static void flush_bin(heap_t *h, unsigned c) {
  size_t ready = flush_list(h, &h->bin[c]) + heap_fresh(h, c).count;
  if (unlikely(sample_was_started())) ready += flush_list(h, sample_return_bin(h, c));
  if (heap_tag(h) == NULL) slab_thread_count(0, 0 - (uint64_t)ready * class_size(c));
  flush_list(h, &h->aside->returned[c]);
  flush_fresh(h, c);
  returned_give_up(h, c); /* until the class is used again */
}

void heap_flush_bins(heap_t *h) {
  /* Bound: the classes, here and below */
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) flush_bin(h, c);
  outbox_flush(h);
}

/* Takes a step for each slab's slice that the heap has given back, even during these steps, or one
 * for each class (runs.c). A step gives back a class's bin and lists, and the frees that were put
 * off; from a wide outbox only a part. A heap that frees all it had goes through all classes and
 * keeps next to nothing. Then a heap that rests in the pool has its turn. Called at the end of a
 * call (heap_exit), where the stack is short. */
bool heap_trim(heap_t *h) {
  if (h->trims_due == 0) return false;
  bool has_gone_round = false, is_wide = h->put_off != 0 && outbox_is_wide(h);
  for (; h->trims_due != 0; h->trims_due--) { /* Bound: slabs with blocks in bins */
    h->trim_class = (uint8_t)(h->trim_class > 1 ? h->trim_class - 1 : CLASS_COUNT - 1);
    has_gone_round |= h->trim_class == 1;
    flush_bin(h, h->trim_class);
    if (!is_wide) outbox_flush(h);
  }
  if (is_wide) outbox_step(h);
  return has_gone_round;
}

static out_of_line void give_class_up(heap_t *h, unsigned c) {
  if (c < MEDIUM_CLASS) h->aside->given_up |= (uint64_t)1 << c;
  owned_disown(h, c);
  flush_bin(h, c);
  outbox_step(h);
}

void heap_watch_class(heap_t *h, uint8_t now) {
  unsigned c = h->watched;
  if (heap_tag(h) != NULL) return; /* nobody else can use a lane's slabs */
  bool rests = c != 0 && heap_binned(h, c) == h->watched_binned;
  h->watched_at = now;
  h->watched = (uint8_t)heap_next_class(h, c);
  h->watched_binned = (uint16_t)heap_binned(h, h->watched);
  if (rests) give_class_up(h, c);
}

/* Gives up the magazine at once, and all classes at the end of this call. */
void heap_answer_trim(heap_t *h) {
  h->trims_seen = (uint16_t)atomic32_load_relaxed(&heap_trims);
  outbox_flush(h);
  magazine_empty(h);
  h->trims_due = CLASS_COUNT;
}

enum { PAGE = 1 << TOUCHED_SHIFT };
enum {
  PARENTS_AT_ONCE = 32, /* the first places end at once, so that a chain of forks does not grow */
  PARENTS_MS = 4,       /* between the ends of two further parents' heaps */
};

/* The pages of its blocks in others' slabs. Takes a bin of these, with what was cut off it, to have
 * as many as may be kept, and fresh ones to be in memory. */
static size_t pages_at_rest(const heap_t *h, unsigned c) {
  bool in_bin = (h->bin[c] != 0 || sample_is_cut(h, c)) && h->own->slab_count[c] == 0;
  size_t blocks =
    returned_count(h, c) + (in_bin ? h->returned_most[c] : 0) + heap_fresh(h, c).count;
  return (blocks * class_size(c) + PAGE - 1) / PAGE;
}

/* Counts what was ever touched of the heap's own slabs, and its blocks in other slabs. */
uint32_t heap_prepare_rest(heap_t *h) {
  size_t pages = 1;
  outbox_flush(h);
  magazine_empty(h);
  returned_forget(h);
  heap_settle(h);
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) {
    pages += pages_at_rest(h, c);
    for (slab_t *s = owned_first(h, c); s != NULL; s = s->next) /* Bound: owned slabs */
      pages += atomic32_load_relaxed(&s->carved) * class_size(c) / PAGE + 1;
  }
  return (uint32_t)pages;
}

void heap_sweep_all(heap_t *h) {
  heap_flush_bins(h);
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;)
    for (slab_t *s = owned_first(h, c), *next; s != NULL; s = next) { /* Bound: its slabs */
      next = s->next;
      if (!slab_is_all_free(s)) continue;
      owned_remove(h, s);
      slab_release(s);
    }
  h->trims_due = 0;
}

/* A program may go on at a quota, where each call comes here. A lane that may have many slabs knows
 * if some are empty. */
void heap_clear_room(heap_t *h) {
  heap_flush_bins(h);
  if (heap_tag(h) == NULL || h->idle != 0) heap_sweep_all(h);
}

void heap_end_another(heap_t *h) {
  held_add(h);
  heap_end(h);
}

bool heap_end_rest(void) {
  heap_t *h = pool_claim_resting();
  if (h != NULL) heap_end_another(h);
  return h != NULL;
}

static out_of_line bool parents_are_due(void) {
  static pace_t ends;
  return users_parents_sought() < PARENTS_AT_ONCE || pace_take(&ends, os_now_ms(), PARENTS_MS);
}

void heap_end_parents(void) {
  heap_t *h = parents_are_due() ? pool_claim_parents() : NULL;
  if (h != NULL) heap_end_another(h);
}

void heap_end_dead(void) {
  size_t words = pool_size() * POOL_ASK_WORDS; /* Bound: all heaps */
  for (heap_t *h; (h = pool_claim_dead(&words)) != NULL;) heap_end_another(h);
}

/* No thread counts the free blocks of a first-class heap's slab yet. */
static out_of_line void untag(slab_t *s) {
  if (atomic_ptr_is_relaxed(&s->tag, NULL)) return;
  slab_thread_count(slab_private_count(s) * class_size(slab_class(s)), 0);
  atomic_ptr_store_relaxed(&s->tag, NULL);
}

void heap_give_up_all(heap_t *h) {
  heap_flush_bins(h);
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;)
    for (slab_t *s; (s = owned_first(h, c)) != NULL;) { /* Bound: owned slabs */
      owned_remove(h, s);
      untag(s);
      if (slab_let_go(s) == SLAB_IS_EMPTY) slab_release(s);
    }
  magazine_empty(h);
  returned_forget(h);
  heap_settle(h);
  h->aside->put_off_more = 0;
  h->aside->remote = 0; /* the heap may become a lane, which keeps its slabs */
  h->trims_seen = (uint16_t)atomic32_load_relaxed(&heap_trims);
  h->trims_due = 0;
}

/* Empties a dead thread's quarantine (secure grade). That thread, not the caller, freed the
 * blocks. */
static void end_quarantine(heap_t *h) {
  size_t slot = 0;
  for (void *p; (p = quarantine_take(heap_quarantine(h), &slot)) != NULL;) { /* Bound: its slots */
    slab_t *s = slab_of(p);
    bool is_large = slab_kind(slab_word(s)) == SLAB_LARGE;
    slab_thread_count(is_large ? atomic64_load_relaxed(&s->size) : class_size(slab_class(s)), 0);
    if (is_large) {
      large_free(h, s, p, "free"); /* its pages may be gone */
      continue;
    }
    if (!bits_are_zero(p, sizeof(free_block_t))) fatal("write after free", p, "free");
    outbox_put(h, s, (uintptr_t)p);
  }
}

void heap_empty(heap_t *h) {
  uint8_t busy = h->busy;
  h->busy = 1; /* if the caller dies here, a finder leaves the heap alone */
  signal_fence();
  if (SECURE) end_quarantine(h);
  heap_give_up_all(h);
  signal_fence();
  h->busy = busy;
}

void heap_end(heap_t *h) {
  heap_empty(h);
  pool_release(h);
}

/* The caller frees the blocks of a first-class heap. */
static out_of_line void count_dropped(const slab_t *s) {
  size_t taken = atomic32_load_relaxed(&s->carved) - slab_others_freed(s);
  slab_thread_count(0 - (uint64_t)taken * class_size(slab_class(s)), 0);
}

void heap_drop(heap_t *h) {
  outbox_flush(h);
  heap_settle(h);
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) {
    h->bin[c] = 0;
    if (unlikely(sample_was_started())) *sample_return_bin(h, c) = 0;
    for (slab_t *s; (s = owned_first(h, c)) != NULL;) { /* Bound: owned slabs */
      count_dropped(s);
      owned_remove(h, s);
      slab_release(s);
    }
  }
  h->idle = 0;
}
