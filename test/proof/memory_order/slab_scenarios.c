/* slab_scenarios.c - slab.c and partial.c: every transition of the anchor, by two and three threads
 *
 * Each scenario starts with slabs whose blocks some threads hold. What a thread gets it
 * writes to, as a program would; what it does not give back is given back in `settle`, and
 * then no slice is in use. */
#include "../../../src/arena/purge.h"
#include "../../../src/base/check.h"
#include "../../../src/slab/holes.h"
#include "../../../src/slab/partial.h"
#include "../../../src/slab/sparse.h"
#include "checker.h"
#include "system.h"

enum { THREADS = 3, HELD_MOST = 12, SLABS_MOST = 4, FEW_BLOCKS = 16384, EIGHT_BLOCKS = 7168 };

static char heaps[THREADS + 1]; /* a heap is but an address here */
#define HEAP(number) ((void *)&heaps[number])

static uintptr_t held[THREADS][HELD_MOST];
static unsigned held_count[THREADS];
static slab_t *mine[THREADS]; /* the slab that a thread owns */

/* ---- steps ----------------------------------------------------------------------------------- */

static void hold(unsigned me, uintptr_t block) {
  uint64_t *words = (uint64_t *)block;
  words[0] = words[1] = 0x5555555555555555; /* the program's */
  held[me][held_count[me]++] = block;
}

static void hold_list(unsigned me, uintptr_t list) {
  while (list != 0) {
    uintptr_t next = block_next(list);
    hold(me, list);
    list = next;
  }
}

static void restart(void) {
  arena_t *a = (arena_t *)((uintptr_t)4096 << WINDOW_SHIFT);
  system_restart();
  checker_keep_together(&a->low_word, sizeof a->low_word);
  checker_keep_together(arena_maps(a), offsetof(arena_maps_t, partial));
}

/* The owner's words. A late thread may read the class. */
static void keep_together(const slab_t *s) {
  checker_keep_together(s, offsetof(slab_t, kind));
  checker_keep_together(&s->tag, offsetof(slab_t, anchor) - offsetof(slab_t, tag));
}

/* A slab of thread `owner`, who holds `count` blocks of it. */
static slab_t *make_slab(unsigned owner, size_t size, unsigned count) {
  bool clean;
  unsigned taken;
  void *base = arena_claim(1, 1, &clean);
  keep_together(slab_of(base));
  slab_t *s = slab_new(base, class_of(size), HEAP(owner), NULL);
  hold_list(owner, slab_take_list(s, count, &taken));
  EXPECT(taken == count);
  mine[owner] = s;
  return s;
}

static void pass_block(unsigned from, unsigned to) {
  held[to][held_count[to]++] = held[from][--held_count[from]];
}

/* By the owner. */
static void put_back(slab_t *s, uintptr_t first, uintptr_t last, unsigned count) {
  block_link(last, s->head);
  s->head = first;
  atomic32_store_relaxed(&s->used, slab_used(s) - count);
}

static void note_outcome(unsigned me, slab_t *s, slab_outcome_t outcome) {
  if (outcome == SLAB_OWNED_NOW) mine[me] = s;
  if (outcome == SLAB_IS_EMPTY) slab_release(s);
}

/* Gives the last `count` blocks back that `me` holds, all of one slab. */
static void give_back(unsigned me, unsigned count, bool wanted) {
  uintptr_t last = held[me][--held_count[me]], first = last;
  slab_t *s = slab_of((void *)last);
  block_link(last, 0);
  for (unsigned i = 1; i < count; i++) {
    uintptr_t block = held[me][--held_count[me]];
    block_link(block, first);
    first = block;
  }
  if (atomic_ptr_load_relaxed(&s->owner) == HEAP(me)) return put_back(s, first, last, count);
  note_outcome(me, s, slab_push(s, first, last, count, wanted ? HEAP(me) : NULL));
}

static void let_go(unsigned me) {
  slab_t *s = mine[me];
  mine[me] = NULL;
  note_outcome(me, s, slab_let_go(s));
}

static void take_from_owned(unsigned me, unsigned most) {
  unsigned count;
  hold_list(me, slab_take_list(mine[me], most, &count));
  EXPECT(slab_is_valid(mine[me]));
}

static void find(unsigned me, size_t size) {
  slab_t *s = slab_find_partial(class_of(size), HEAP(me));
  if (s == NULL) return;
  mine[me] = s;
  EXPECT(slab_is_valid(s));
}

/* ---- the end --------------------------------------------------------------------------------- */

static unsigned count_partial(void) {
  arena_t *a = arena_at(0);
  unsigned count = 0;
  for (size_t slice = ARENA_FIRST_SLICE; slice < ARENA_FIRST_SLICE + SLABS_MOST; slice++) {
    slab_t *s = slab_of(arena_address(a, slice));
    count += anchor_unpack(atomic64_load_relaxed(&s->anchor)).state == ANCHOR_PARTIAL;
  }
  return count;
}

/* Every slab that has room and no owner is found; everything goes back; no slice is in use. */
static void settle(void) {
  slab_t *found[SLABS_MOST];
  unsigned count = 0;
  for (unsigned t = 0; t < THREADS; t++)
    if (mine[t] != NULL) let_go(t);
  unsigned partial = count_partial();
  for (slab_t *s; (s = slab_find_partial(class_of(FEW_BLOCKS), HEAP(THREADS))) != NULL;)
    found[count++] = s;
  for (slab_t *s; (s = slab_find_partial(class_of(EIGHT_BLOCKS), HEAP(THREADS))) != NULL;)
    found[count++] = s;
  EXPECT(count == partial);
  for (unsigned t = 0; t < THREADS; t++)
    while (held_count[t] > 0) give_back(t, 1, false);
  while (count > 0) {
    slab_t *s = found[--count];
    EXPECT(slab_is_valid(s));
    if (slab_let_go(s) == SLAB_IS_EMPTY) slab_release(s);
  }
  EXPECT(atomic64_load_relaxed(&arena_counts.committed) == 0);
}

/* ---- OWNED: others push, the owner takes ----------------------------------------------------- */

static void owned_before(void) {
  restart();
  make_slab(0, FEW_BLOCKS, 3);
  pass_block(0, 1);
  pass_block(0, 2);
}
static void owned_thread(unsigned me) {
  if (me != 0) return give_back(me, 1, false);
  take_from_owned(0, 1);
  take_from_owned(0, 1);
}

/* ---- OWNED: the owner lets go while others push ---------------------------------------------- */

/* All blocks were handed out: FULL, or empty. */
static void leaving_before(void) {
  restart();
  make_slab(0, FEW_BLOCKS, 3);
  pass_block(0, 1);
  pass_block(0, 2);
}
static void leaving_thread(unsigned me) {
  if (me == 0 && held_count[0] != 0) give_back(0, 1, false);
  if (me == 0) return let_go(0);
  give_back(me, 1, me == 1);
}

/* Fresh blocks are left: PARTIAL at once, and the others make it EMPTY. */
static void leaving_fresh_before(void) {
  restart();
  make_slab(0, FEW_BLOCKS, 2);
  pass_block(0, 1);
  pass_block(0, 2);
}
static void leaving_fresh_thread(unsigned me) {
  if (me == 0) return let_go(0);
  give_back(me, 1, false);
}
static void leaving_fresh_and_found_before(void) {
  restart();
  make_slab(0, FEW_BLOCKS, 1);
  pass_block(0, 1);
}
static void leaving_fresh_and_found_thread(unsigned me) {
  if (me == 0) return let_go(0);
  if (me == 1) return give_back(1, 1, false);
  find(2, FEW_BLOCKS);
  if (mine[2] != NULL) take_from_owned(2, 1);
}

/* ---- FULL: below the threshold, adopted, published, empty ------------------------------------ */

static void full_before(void) {
  restart();
  make_slab(0, EIGHT_BLOCKS, 8);
  for (int i = 0; i < 3; i++) pass_block(0, 1);
  for (int i = 0; i < 3; i++) pass_block(0, 2);
  let_go(0);
}
static void full_thread(unsigned me) {
  if (me == 0) return give_back(0, 2, false);
  give_back(me, 1, true);
  give_back(me, me == 1 ? 2 : 1, true);
  if (mine[me] != NULL) take_from_owned(me, 1);
}
static void full_empties_thread(unsigned me) {
  give_back(me, held_count[me], me != 0);
  if (mine[me] != NULL) let_go(me);
}

/* ---- PARTIAL: pushed to, emptied, found ------------------------------------------------------ */

static void partial_before(void) {
  restart();
  make_slab(0, FEW_BLOCKS, 3);
  pass_block(0, 1);
  give_back(0, 1, false);
  let_go(0);
}
static void partial_thread(unsigned me) {
  if (me != 2) return give_back(me, 1, false);
  find(2, FEW_BLOCKS);
  if (mine[2] == NULL) return;
  take_from_owned(2, 1);
  let_go(2);
}
static void found_twice_thread(unsigned me) {
  if (me == 0) return give_back(0, 1, false);
  find(me, FEW_BLOCKS);
  if (mine[me] != NULL) let_go(me);
}

/* ---- a slice becomes another slab ------------------------------------------------------------ */

static void reborn_before(void) {
  restart();
  make_slab(0, FEW_BLOCKS, 1);
  let_go(0);
}
static void reborn_thread(unsigned me) {
  if (me == 0) return give_back(0, 1, false);
  if (me == 1) make_slab(1, FEW_BLOCKS, 2);
  else find(2, FEW_BLOCKS);
  if (mine[me] != NULL) let_go(me);
}

/* The slice becomes a slab of another class, or a large block, which a thread reads that looks for
 * the bit too late. Were such a block's kind taken for a class, it would lead to the bit of another
 * slab, far behind. */
static void reborn_as_other_thread(unsigned me) {
  if (me != 1) return reborn_thread(me);
  make_slab(1, EIGHT_BLOCKS, 2);
  let_go(1);
}

static void *large;

static atomic64_t *word_beside(void) {
  arena_maps_t *maps = arena_maps(arena_at(0));
  size_t group = ARENA_FIRST_SLICE / 64;
  return &maps->partial[group + SLAB_IS_LARGE / CLASS_COUNT][SLAB_IS_LARGE % CLASS_COUNT];
}
static uint64_t bits_beside(void) { return bits_run(ARENA_FIRST_SLICE % 64, SLABS_MOST); }

static void reborn_as_large_before(void) {
  reborn_before();
  atomic64_or_relaxed(word_beside(), bits_beside());
}
/* As large_malloc does. */
static void reborn_as_large_thread(unsigned me) {
  bool clean;
  if (me != 1) return reborn_thread(me);
  large = arena_claim(1, 1, &clean);
  EXPECT(slab_kind(slab_word(slab_of(large))) == SLAB_NONE);
  atomic32_store_relaxed(&slab_of(large)->kind, SLAB_IS_LARGE);
}
static void nothing_beside_changed(void) {
  EXPECT(atomic64_load_relaxed(word_beside()) == bits_beside());
  atomic64_store_relaxed(word_beside(), 0);
  EXPECT(slab_kind(atomic32_exchange_relaxed(&slab_of(large)->kind, 0)) == SLAB_LARGE);
  arena_release(large, 1);
  settle();
}

/* ---- the hint to a group of 64 slices -------------------------------------------------------- */

static void hint_before(void) {
  restart();
  make_slab(0, FEW_BLOCKS, 1);
  let_go(0);
  make_slab(0, FEW_BLOCKS, 2);
}
static void hint_thread(unsigned me) {
  if (me == 0) return let_go(0);
  find(me, FEW_BLOCKS);
}
static void hint_searched_twice_thread(unsigned me) {
  if (me == 0) return let_go(0);
  find(1, FEW_BLOCKS);
  slab_t *first = mine[1];
  find(1, FEW_BLOCKS);
  if (first != NULL && first != mine[1]) note_outcome(1, first, slab_let_go(first));
}

/* A slab with whole free pages. Thread 1 looks at a block on one of them, as a visitor does. Thread
 * 0 is giving them back then, or has done so and finds the slab. */
static uintptr_t sunk;
static void free_pages_before(void) {
  restart();
  bool clean;
  unsigned taken;
  void *base = arena_claim(1, 1, &clean);
  checker_keep_together(slab_of(base), offsetof(slab_t, holes));
  slab_t *s = slab_new(base, class_of(EIGHT_BLOCKS), HEAP(0), NULL);
  hold_list(0, slab_take_list(s, 8, &taken));
  sunk = held[0][held_count[0] - 1];
  mine[0] = s;
  let_go(0);
  give_back(0, 4, false);
}
static void look_at_sunk(void) {
  const slab_t *s = slab_of((void *)sunk);
  EXPECT(slab_block_is_free(s, sunk) || block_is_free(sunk));
}
static void holes_before(void) {
  free_pages_before();
  sparse_collect();
  EXPECT(slab_is_on_hole(slab_of((void *)sunk), sunk));
}
static void holes_thread(unsigned me) {
  if (me == 0) find(0, EIGHT_BLOCKS);
  else look_at_sunk();
}
static void discarded_thread(unsigned me) {
  if (me == 0) sparse_collect();
  else look_at_sunk();
}

/* The system takes the block's key, but not the last page. */
static void refused_before(void) {
  free_pages_before();
  system_refuses_last_page = true;
}
static void refused_after(void) {
  EXPECT(!slab_is_on_hole(slab_of((void *)sunk), sunk));
  settle();
}

const scenario_t slab_scenarios[] = {
  {"slab: the owner takes what others freed, links and contents", 3, 0, owned_before, owned_thread,
   settle},
  {"slab: two threads, the owner takes what the other freed", 2, 0, owned_before, owned_thread,
   settle},
  {"slab: an owner lets go while others free", 3, 0, leaving_before, leaving_thread, settle},
  {"slab: an owner lets go of a slab that others empty", 3, 0, leaving_fresh_before,
   leaving_fresh_thread, settle},
  {"slab: a slab let go of is emptied and found", 3, 0, leaving_fresh_and_found_before,
   leaving_fresh_and_found_thread, settle},
  {"slab: a full slab is adopted or published once", 3, 0, full_before, full_thread, settle},
  {"slab: a full slab that chains empty is released once", 3, 0, full_before, full_empties_thread,
   settle},
  {"slab: a partial slab is emptied, or found and let go again", 3, 0, partial_before,
   partial_thread, settle},
  {"slab: two threads find a slab that a third fills up with free blocks", 3, 0, partial_before,
   found_twice_thread, settle},
  {"slab: a slice becomes another slab while its bit is looked at", 3, 0, reborn_before,
   reborn_thread, settle},
  {"slab: a slice becomes a slab of another class while its bit is looked at", 3, 0, reborn_before,
   reborn_as_other_thread, settle},
  {"slab: a slice becomes a large block while its bit is looked at", 3, 0, reborn_as_large_before,
   reborn_as_large_thread, nothing_beside_changed},
  {"slab: two threads, the hint leads to a slab just published", 2, 0, hint_before,
   hint_searched_twice_thread, settle},
  {"slab: the hint leads to a slab just published", 3, 0, hint_before, hint_thread, settle},
  {"slab: a block is seen as free before and after its page comes back", 2, 0, holes_before,
   holes_thread, settle},
  {"slab: a block is seen as free while its page is given back", 2, 0, free_pages_before,
   discarded_thread, settle},
  {"slab: a block is seen as free while the system takes a part of its pages", 2, 0, refused_before,
   discarded_thread, refused_after},
  {NULL, 0, 0, NULL, NULL, NULL}};
