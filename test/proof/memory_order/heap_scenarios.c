/* heap_scenarios.c - the heap layer as a whole: malloc and free of several threads, huge
 * blocks, heaps of the program
 *
 * Threads allocate, free each other's blocks, and end; what a thread gets it writes to. In
 * the end all is given back. */
#include "../../../src/arena/places.h"
#include "../../../src/arena/purge.h"
#include "../../../src/heap/enter.h"
#include "../../../src/heap/fast.h"
#include "../../../src/heap/firstclass.h"
#include "../../../src/heap/upkeep.h"
#include "../../../src/heap/visit.h"
#include "../../../src/stock/empty.h"
#include "../../../src/stock/index.h"
#include "../../../src/stock/lanes.h"
#include "../../../src/stock/magazine.h"
#include "../../../src/stock/outbox.h"
#include "../../../src/stock/pool.h"
#include "../../../src/stock/shrink.h"
#include "checker.h"
#include "system.h"

enum { THREADS = 3, BIG = 16384, BLOCKS = 3, SLABS = 4 };

static void *block[THREADS][BLOCKS];

static void *allocate(size_t size) {
  uint64_t *p = fast_malloc(size);
  EXPECT(p != NULL);
  p[0] = p[1] = 0x5555555555555555;
  return p;
}

static void nothing_is_in_use(void) {
  bool is_claimed;
  while (heap_end_rest()) continue;
  EXPECT(atomic64_load_relaxed(&arena_counts.committed) == 0);
  EXPECT(atomic64_load_relaxed(&arena_counts.huge_bytes) == 0);
  for (size_t i = 0; i < pool_size(); i++)
    if (pool_at(i, &is_claimed) != NULL) EXPECT(!is_claimed);
}

static arena_t *first_arena(void) { return (arena_t *)((uintptr_t)4096 << WINDOW_SHIFT); }

static void keep_maps_together(arena_t *a) {
  checker_keep_together(&a->low_word, sizeof a->low_word);
  checker_keep_together(arena_maps(a), offsetof(arena_maps_t, partial));
}

/* One thread's blocks, a slab full of them; it has ended. */
static void before(void) {
  arena_t *a = first_arena();
  system_restart();
  keep_maps_together(a);
  for (size_t slice = ARENA_FIRST_SLICE; slice < ARENA_FIRST_SLICE + SLABS; slice++)
    checker_keep_together(slab_of(arena_address(a, slice)), offsetof(slab_t, anchor));
  for (int i = 0; i < BLOCKS; i++) block[i][0] = allocate(BIG);
  heap_t *h = heap_of_thread();
  checker_keep_together(h, PLACES_IN_CHUNK * sizeof *h);
  system_end_thread();
}

static void malloc_free_end(unsigned me) {
  void *p = allocate(BIG);
  fast_free(block[me][0]);
  if (me != 1) fast_free(p);
  else block[me][1] = p;
  system_end_thread();
}
static void after(void) {
  if (block[1][1] != NULL) fast_free(block[1][1]);
  system_end_thread();
  nothing_is_in_use();
}

/* ---- huge blocks ----------------------------------------------------------------------------- */

static void huge_thread(unsigned me) {
  if (me == 2) {
    bool is_live;
    for (size_t i = 0; i < huge_pool_size() && i < 2; i++) {
      huge_t *b = huge_at(i, &is_live);
      EXPECT(!is_live || atomic_ptr_load_relaxed(&b->base) != NULL);
    }
    return;
  }
  block[me][0] = huge_malloc(NULL, HUGE_LEAST);
  EXPECT(block[me][0] != NULL);
}
static void huge_again_thread(unsigned me) {
  uint64_t *p = huge_malloc(NULL, HUGE_LEAST + me);
  EXPECT(p != NULL);
  p[0] = me;
  heap_free(p, "free");
}
static void only_restart(void) { system_restart(); }
static void free_huge(void) {
  for (int i = 0; i < 2; i++)
    if (block[i][0] != NULL) heap_free(block[i][0], "free");
  nothing_is_in_use();
}

/* ---- a heap of the program ------------------------------------------------------------------- */

static fh_heap_t *heap, *other;

/* The heaps that need no mapping are all taken: a lane lies in memory that only those know of
 * to whom it was handed on. */
static void heap_before(void) {
  system_restart();
  heap = firstclass_new();
  for (int i = 1; i < PLACES_IN_CHUNK; i++) EXPECT(pool_claim() != NULL);
}
static void heap_thread(unsigned me) {
  uint64_t *p = firstclass_aligned(heap, 1, BIG);
  EXPECT(p != NULL);
  p[0] = me;
}
static void heap_after(void) {
  firstclass_destroy(heap);
  system_end_thread();
}

/* A slice that the heap has given back is another thread's block while the heap ends. */
static void stale_before(void) {
  system_restart();
  heap = firstclass_new();
  heap_free(firstclass_aligned(heap, 1, SLICE_SIZE), "free");
}
static void stale_thread(unsigned me) {
  if (me == 0) firstclass_destroy(heap);
  else block[0][0] = heap_aligned_slow(SLICE_SIZE, SLICE_SIZE);
  system_end_thread();
}
static void stale_after(void) {
  EXPECT(slab_kind(slab_word(slab_of(block[0][0]))) == SLAB_LARGE);
  heap_free(block[0][0], "free");
  system_end_thread();
}

/* Its large blocks: one is freed while the heap takes another, or is deleted. */
static void freed_before(void) {
  system_restart();
  heap = firstclass_new();
  block[0][0] = firstclass_aligned(heap, 1, SLICE_SIZE);
  block[0][1] = firstclass_aligned(heap, 1, SLICE_SIZE);
  system_end_thread();
}
static void freed_thread(unsigned me) {
  if (me == 0) block[1][0] = firstclass_aligned(heap, 1, SLICE_SIZE);
  else heap_free(block[0][0], "free");
  system_end_thread();
}
static void freed_after(void) {
  EXPECT(slab_kind(slab_word(slab_of(block[1][0]))) == SLAB_LARGE);
  firstclass_destroy(heap);
  system_end_thread();
  nothing_is_in_use();
}
static void deleted_thread(unsigned me) {
  if (me == 2) firstclass_delete(heap);
  else heap_free(block[0][me], "free");
  system_end_thread();
}

/* A later heap has the lane of one that is deleted while its block is freed. */
static void reused_thread(unsigned me) {
  if (me == 0) heap_free(block[0][0], "free");
  else {
    firstclass_delete(heap);
    heap = firstclass_new();
    block[1][0] = firstclass_aligned(heap, 1, SLICE_SIZE);
  }
  system_end_thread();
}
static void only_the_later_one_counts(void) {
  EXPECT(lanes_use(heap).bytes == SLICE_SIZE);
  heap_free(block[0][1], "free");
  firstclass_destroy(heap);
  system_end_thread();
  nothing_is_in_use();
}

/* A collection is in its lane, in which all is free but one block, while it takes another or ends;
 * what it gives back is used again. */
static void collected_before(void) {
  system_restart();
  heap = firstclass_new();
  block[0][0] = firstclass_aligned(heap, 1, BIG);
  heap_free(firstclass_aligned(heap, 1, BIG / 2), "free");
  system_end_thread();
}
static void used_or_collected(unsigned me) {
  if (me == 0) firstclass_collect();
  else if ((block[0][1] = firstclass_aligned(heap, 1, BIG)) != NULL) *(uint64_t *)block[0][1] = 1;
  system_end_thread();
}
/* Another heap's record lies in the slab of this one's, which so does not go back with it: that
 * would put the two threads in an order. */
static void ended_before(void) {
  collected_before();
  other = firstclass_new();
  system_end_thread();
}
static void ended_or_collected(unsigned me) {
  bool is_clean;
  if (me == 1) {
    *(uint64_t *)block[0][0] = 2;
    return firstclass_destroy(heap);
  }
  firstclass_collect();
  uint64_t *slice = arena_claim(1, 1, &is_clean); /* where the block was, if the heap has ended */
  slice[BIG / sizeof *slice] = 1;
  arena_release(slice, 1);
}
static void ended_after(void) {
  firstclass_destroy(other);
  nothing_is_in_use();
}
static void freed_or_collected(unsigned me) {
  if (me == 0) {
    firstclass_collect();
    heap_free(allocate(BIG), "free"); /* where the freed block was, if it saw that */
  } else {
    *(uint64_t *)block[0][0] = 2;
    heap_free(block[0][0], "free");
  }
  system_end_thread();
}
static void collected_after(void) {
  firstclass_destroy(heap);
  system_end_thread();
  nothing_is_in_use();
}

/* They are looked at while they are made, in a lane that lies in memory of its own. */
static bool show_large(void *p, size_t size, void *context) {
  (void)context;
  EXPECT(p != NULL && (size == SLICE_SIZE || size == HUGE_LEAST));
  return true;
}
static void shown_thread(unsigned me) {
  if (me == 1) firstclass_visit(heap, &(visitor_t){.blocks = show_large});
  else EXPECT(firstclass_aligned(heap, 1, SLICE_SIZE) != NULL);
}
static void shown_huge_thread(unsigned me) {
  if (me == 1) firstclass_visit(heap, &(visitor_t){.blocks = show_large});
  else EXPECT(firstclass_aligned(heap, 1, HUGE_LEAST) != NULL);
}
static void shown_after(void) {
  firstclass_destroy(heap);
  EXPECT(atomic64_load_relaxed(&arena_counts.huge_bytes) == 0);
}

/* ---- visits ---------------------------------------------------------------------------------- */

/* A size whose fresh blocks are linked, and one whose are counted; of each a few are handed out,
 * and the others go back when the thread ends. */
enum { LINKED = 400, BLOCKS_COUNTED = 8192, HANDED_OUT = 2, SEEN = 2 * HANDED_OUT };
static const void *shown[SEEN];
static unsigned shown_count;

static bool show(void *p, size_t size, void *context) {
  (void)size, (void)context;
  EXPECT(shown_count < SEEN);
  shown[shown_count++] = p;
  return true;
}

static void visit_before(void) {
  arena_t *a = first_arena();
  system_restart();
  keep_maps_together(a);
  checker_keep_together(a, offsetof(arena_t, free) + sizeof a->free);
  for (size_t slice = ARENA_FIRST_SLICE; slice < ARENA_FIRST_SLICE + SLABS; slice++) {
    slab_t *s = slab_of(arena_address(a, slice));
    checker_keep_together(s, offsetof(slab_t, carved));
    checker_keep_together(&s->kind, offsetof(slab_t, fresh) - offsetof(slab_t, kind));
  }
  shown_count = 0;
}
static void visit_thread(unsigned me) {
  if (me == 1) {
    heap_visit(&(visitor_t){.blocks = show});
    return;
  }
  for (int i = 0; i < HANDED_OUT; i++) block[0][i] = fast_malloc(BLOCKS_COUNTED);
  for (int i = 0; i < HANDED_OUT; i++) block[1][i] = fast_malloc(LINKED);
  heap_t *h = heap_enter();
  heap_flush_bins(h);
  heap_exit(h);
}
static void visit_after(void) {
  for (unsigned i = 0; i < shown_count; i++) {
    bool was_handed_out = false;
    for (int j = 0; j < HANDED_OUT; j++)
      was_handed_out |= shown[i] == block[0][j] || shown[i] == block[1][j];
    EXPECT(was_handed_out);
  }
}

/* A slab's group of slices is given back and unmapped meanwhile, or used for a block that moves. */
enum { GROUP = 64 };
static slab_t *alone;

static bool show_any(void *p, size_t size, void *context) {
  (void)p, (void)size, (void)context;
  return true;
}
static void unmapped_before(void) {
  arena_t *a = first_arena();
  bool is_clean;
  unsigned count;
  system_restart();
  checker_keep_together(a, offsetof(arena_t, free) + sizeof a->free);
  keep_maps_together(a);
  slab_t *s = slab_of(arena_address(a, GROUP));
  checker_keep_together((char *)a + sizeof *a, (size_t)((char *)s - (char *)a) - sizeof *a);
  checker_keep_together(s + 1, (GROUP - 1) * sizeof *s);
  EXPECT(arena_claim(2 * GROUP - ARENA_FIRST_SLICE, 1, &is_clean) != NULL);
  char *group = arena_address(a, GROUP);
  arena_release_clean(group, GROUP);
  EXPECT(arena_unmap_free() && arena_claim(GROUP, 1, &is_clean) == group);
  alone = slab_new(group, class_of(BLOCKS_COUNTED), NULL, NULL);
  EXPECT(slab_take_list(alone, 1, &count) != 0);
  arena_release_clean(group + SLICE_SIZE, GROUP - 1);
}
static void unmapped_thread(unsigned me) {
  if (me == 1) {
    heap_visit(&(visitor_t){.blocks = show_any});
    return;
  }
  slab_release(alone);
  arena_unmap_free();
}
static void unmapped_after(void) {}

/* ---- blocks of no bytes ---------------------------------------------------------------------- */

static void *nothing;     /* where both threads' searches begin */
static uint64_t its_uses; /* its holder writes there */
static void use_nothing(unsigned me) {
  static heap_t heaps[THREADS];
  for (int i = 0; i < 2; i++) {
    atomic16_store_relaxed(&heaps[me].empty_steps, 0);
    void *p = empty_malloc(&heaps[me], 1);
    if (p == NULL) continue; /* another thread is just making the region */
    if (p == nothing) its_uses++;
    empty_free(map_record(map_find(p)), p, "free");
  }
}
static void nothing_before(void) {
  static heap_t heap;
  system_restart();
  atomic16_store_relaxed(&heap.empty_steps, 0);
  nothing = empty_malloc(&heap, 1);
  EXPECT(nothing != NULL);
  empty_free(map_record(map_find(nothing)), nothing, "free");
}
static void nothing_at_all(void) {
  system_restart();
  nothing = NULL;
}
static void nothing_after(void) { EXPECT(empty_count() == 0); }

const scenario_t heap_scenarios[] = {
  {"heap: threads allocate, free each other's blocks, and end", 3, 2, before, malloc_free_end,
   after},
  {"heap: huge blocks are looked at while they are made", 3, 1, only_restart, huge_thread,
   free_huge},
  {"heap: a huge block's window and record are used again", 3, 1, only_restart, huge_again_thread,
   nothing_is_in_use},
  {"heap: threads allocate from one heap of the program", 3, 2, heap_before, heap_thread,
   heap_after},
  {"heap: one ends while a slice that it had is another's block", 2, 0, stale_before, stale_thread,
   stale_after},
  {"heap: one's large block is freed while it takes another", 2, 0, freed_before, freed_thread,
   freed_after},
  {"heap: one is deleted while others free its large blocks", 3, 1, freed_before, deleted_thread,
   nothing_is_in_use},
  {"heap: the next one has its lane while a large block of it is freed", 2, 0, freed_before,
   reused_thread, only_the_later_one_counts},
  {"heap: one takes a block while a collection is in it", 2, 0, collected_before, used_or_collected,
   collected_after},
  {"heap: one's last block is freed while a collection is in it", 2, 1, collected_before,
   freed_or_collected, collected_after},
  {"heap: one ends while a collection is in it", 2, 1, ended_before, ended_or_collected,
   ended_after},
  {"heap: one's large block is looked at while it is made", 2, 0, heap_before, shown_thread,
   shown_after},
  {"heap: one's huge block is looked at while it is made", 2, 0, heap_before, shown_huge_thread,
   shown_after},
  {"heap: a visitor is shown no block that was never handed out", 2, 1, visit_before, visit_thread,
   visit_after},
  {"heap: a visitor reads no block whose memory another thread unmaps", 2, 1, unmapped_before,
   unmapped_thread, unmapped_after},
  {"heap: the address of a block of no bytes is used again", 2, 0, nothing_before, use_nothing,
   nothing_after},
  {"heap: threads ask for the first blocks of no bytes at once", 2, 0, nothing_at_all, use_nothing,
   nothing_after},
  {NULL, 0, 0, NULL, NULL, NULL}};
