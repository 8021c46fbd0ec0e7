/* firstclass.c - heaps that the program makes                                         layer 6: heap
 * Contract: firstclass.h. A heap is a list of lanes, each a heap_t that one thread at a time uses.
 * Threads: any thread allocates and frees. A thread takes the first lane that nobody is in, or adds
 *          one: it never waits, and a thread that stops in a lane holds up only that. Delete and
 *          destroy are for a heap that nobody except a collection is using. If a collection is in a
 *          lane, the lane's state tells it that the heap has ended, and it ends the lane.
 * Sync:    S-lane  leaving a lane, or saying so (release) -> entering it, or reading it (acquire);
 *          S-lanes  adding a lane (release) -> walking (acquire).
 * Holds:   F1 a slab with a tag belongs to that heap, and never shares anything with others */
#include "firstclass.h"

#include "../arena/purge.h"
#include "../stock/stock.h"
#include "enter.h"
#include "fast.h"
#include "resize.h"

enum { SWEEP_CALLS = 16 }; /* a lane looks at a slab after 4 to so many calls */

static heap_t *add_lane(fh_heap_t *heap) {
  heap_t *lane = pool_claim_lane();
  if (lane == NULL) return NULL;
  held_add(lane);
  heap_empty(lane); /* a thread may have left something here */
  users_leave(heap_number(lane));
  atomic_ptr_store_relaxed(&lane->tag, heap);
  atomic32_store_relaxed(&lane->lane_state, LANE_BUSY);
  void *first = atomic_ptr_load_relaxed(&heap->lanes);
  do atomic_ptr_store_relaxed(&lane->next_lane, first);
  /* S-lanes. Progress: another thread added one */
  while (!atomic_ptr_cas_release(&heap->lanes, &first, lane));
  return lane;
}

static bool try_lane(heap_t *lane, lane_state_t as) {
  uint32_t state = LANE_FREE;
  return atomic32_cas_acquire(&lane->lane_state, &state, as); /* S-lane */
}

static heap_t *enter_lane(fh_heap_t *heap) {
  heap_t *first = atomic_ptr_load_acquire(&heap->lanes); /* S-lanes */
  /* Bound: the lanes, one for each thread that was inside at once */
  for (heap_t *lane = first; lane != NULL; lane = lanes_next(lane))
    if (try_lane(lane, LANE_BUSY)) return lane;
  return add_lane(heap);
}

static void leave_lane(heap_t *lane) {
  ASSERT(atomic32_load_relaxed(&lane->lane_state) == LANE_BUSY); /* and stays so until the end */
  heap_trim(lane);
  heap_tick(lane);
  if (lane->calls % SWEEP_CALLS == 0) owned_sweep(lane, 1);
  ASSERT_VALID(heap_is_valid(lane));
  atomic32_store_release(&lane->lane_state, LANE_FREE); /* S-lane */
}

static lane_visitor_t collect_slab;

fh_heap_t *firstclass_new_with(const char *name, size_t quota) {
  fh_heap_t *heap = heap_malloc_own(sizeof *heap);
  if (heap == NULL) return NULL;
  heap_on_lane_emptied(collect_slab);
  atomic_ptr_store_relaxed(&heap->lanes, NULL);
  atomic64_store_relaxed(&heap->quota, quota);
  size_t length = min_size(name != NULL ? strlen(name) : 0, sizeof heap->name - 1);
  memcpy(heap->name, name != NULL ? name : "", length);
  heap->name[length] = '\0';
  return heap;
}
fh_heap_t *firstclass_new(void) { return firstclass_new_with(NULL, 0); }

/* A chunk of the index is a small block of the thread's own heap. */
static bool prepare_index(heap_t *lane) {
  if (index_prepare(lane)) return true;
  void *chunk = heap_malloc_own(INDEX_CHUNK_SIZE);
  if (chunk != NULL) index_add_chunk(lane, chunk);
  return chunk != NULL;
}

/* Counts a small block that leaves its lane. Large ones are already counted; the block may be
 * NULL. */
static out_of_line void *counted(void *block) {
  if ((uint16_t)(uintptr_t)block == 0) return block;
  size_t size = class_size(slab_class(slab_of(block)));
  slab_thread_count(size, size);
  return block;
}

static void end_collecting(heap_t *lane);

/* At the quota: what all lanes keep may make room. The caller is in `mine`. */
static cold void clear_lanes(fh_heap_t *heap, heap_t *mine) {
  heap_t *lane = atomic_ptr_load_acquire(&heap->lanes); /* S-lanes */
  for (; lane != NULL; lane = lanes_next(lane)) {       /* Bound: as in enter_lane */
    bool is_mine = lane == mine;
    if (!is_mine && !try_lane(lane, LANE_COLLECTED)) continue;
    heap_clear_room(lane);
    if (!is_mine) end_collecting(lane);
  }
}

void *firstclass_aligned(fh_heap_t *heap, size_t alignment, size_t size) {
  heap_t *lane = size <= PTRDIFF_MAX ? enter_lane(heap) : NULL;
  if (lane == NULL) return NULL;
  bool needs_cell = class_of_request(size, alignment) == 0 || sample_has_stacks();
  bool is_ready = !needs_cell || prepare_index(lane);
  void *block = is_ready ? heap_malloc_in(lane, size, alignment) : NULL;
  if (unlikely(block == NULL) && is_ready && size < atomic64_load_relaxed(&heap->quota)) {
    clear_lanes(heap, lane);
    block = heap_malloc_in(lane, size, alignment);
  }
  leave_lane(lane);
  return counted(block);
}

/* Out of line for the stack's sake, like `move`. */
static out_of_line size_t bytes_behind(const void *p, const char *call) {
  return heap_usable_size(p, call);
}

static out_of_line void *move(fh_heap_t *heap, void *p, size_t size, const char *call) {
  size_t usable = bytes_behind(p, call);
  bool is_short = atomic64_load_relaxed(&heap->quota) != 0 || budget_is_spent(SLICE_SIZE);
  void *block = firstclass_aligned(heap, 1, is_short ? size : heap_with_headroom(usable, size));
  if (block == NULL) return heap_stay(p, size, call) ? p : NULL;
  memcpy(block, p, min_size(size, usable));
  heap_free(p, call);
  return block;
}

void *firstclass_realloc(fh_heap_t *heap, void *p, size_t size, const char *call) {
  void *block = heap_resize(p, size, heap, call);
  return block != NULL ? block : move(heap, p, size, call);
}

/* ---- looking, and the end of a heap ---------------------------------------------------------- */

/* A thread that stops in this leaves the lane between two steps. */
static void leave_visited(heap_t *lane) {
  /* relaxed: only for handlers and the dead */
  atomic32_store_relaxed(&lane->lane_state, LANE_BUSY);
  signal_fence();
  leave_lane(lane);
}

bool firstclass_visit(fh_heap_t *heap, const visitor_t *to) {
  if (heap == NULL) return heap_visit(to);
  heap_t *lane = atomic_ptr_load_acquire(&heap->lanes); /* S-lanes */
  for (; lane != NULL; lane = lanes_next(lane)) {       /* Bound: as in enter_lane */
    bool is_mine = try_lane(lane, LANE_BUSY);
    if (is_mine) atomic32_store_release(&lane->lane_state, LANE_VISITED); /* S-lane */
    bool goes_on = heap_visit_lane(lane, is_mine, to);
    if (is_mine) leave_visited(lane);
    if (!goes_on) return false;
  }
  return true;
}

static bool free_block(slab_t *large, huge_t *huge, void *context) {
  (void)context;
  if (huge != NULL) huge_free(huge, huge_base(huge), "fh_heap_destroy");
  else heap_free_large(large, (void *)slab_base(large), "fh_heap_destroy");
  return true;
}

/* Its blocks count as freed by the caller. What else it holds does not. */
static void drop_all(heap_t *lane) {
  held_t held = slab_thread.is_asked ? heap_held(lane) : (held_t){0, 0};
  index_each(lane, free_block, NULL);
  slab_thread_count(held.ready + held.freed, 0);
  heap_drop(lane);
}

static void end_lane(heap_t *lane, lane_state_t how) {
  if (how == LANE_DESTROYED) drop_all(lane);
  else heap_give_up_all(lane);
  index_end(lane);
  pool_release(lane);
}

/* A thread has stopped in the lane, or is not in this child of fork: the lists are between two
 * steps. All that they lead to belongs to the lane and may be dropped. Their counts may be wrong,
 * so it lets go of no slab, and the lane is not used again. */
static void leave_behind(heap_t *lane, lane_state_t how) {
  if (how == LANE_DESTROYED) drop_all(lane);
  index_end(lane);
}

/* False: a collection is in the lane, and will end it. */
static bool take_lane(heap_t *lane, lane_state_t how) {
  uint32_t state = atomic32_load_relaxed(&lane->lane_state); /* relaxed: the swap reads again */
  while (state != LANE_BUSY) { /* Progress: a collection has entered or left */
    uint32_t to = state == LANE_COLLECTED ? (uint32_t)how : LANE_BUSY;
    if (atomic32_cas_acq_rel(&lane->lane_state, &state, to)) return to == LANE_BUSY; /* S-lane */
  }
  return true;
}

static void end_lanes(fh_heap_t *heap, lane_state_t how) {
  /* Bound: the heap's lanes. relaxed: nobody else uses the heap */
  for (heap_t *lane = atomic_ptr_load_relaxed(&heap->lanes), *next; lane != NULL; lane = next) {
    next = lanes_next(lane);
    index_forget_heap(lane); /* now: a lane that a collection ends may outlive the heap's address */
    atomic_ptr_store_relaxed(&lane->tag, lane); /* no heap's and no thread's */
    bool is_left = atomic32_load_relaxed(&lane->lane_state) == LANE_BUSY;
    if (is_left) leave_behind(lane, how);
    else if (take_lane(lane, how)) end_lane(lane, how);
  }
}

static void end_heap(fh_heap_t *heap, lane_state_t how, const char *call) {
  if (heap_usable_size(heap, call) == 0) return; /* NULL; `fatal` unless it lives */
  end_lanes(heap, how);
  slab_thread_count(class_size(slab_class(slab_of(heap))), 0); /* no block of the program's */
  heap_free(heap, call);
}
void firstclass_delete(fh_heap_t *heap) { end_heap(heap, LANE_DELETED, "fh_heap_delete"); }
void firstclass_destroy(fh_heap_t *heap) { end_heap(heap, LANE_DESTROYED, "fh_heap_destroy"); }

/* ---- collecting ------------------------------------------------------------------------------ */

static void end_collecting(heap_t *lane) {
  uint32_t state = LANE_COLLECTED;
  if (atomic32_cas_release(&lane->lane_state, &state, LANE_FREE)) return; /* S-lane */
  end_lane(lane, (lane_state_t)atomic32_load_acquire(&lane->lane_state)); /* S-lane */
}

static void collect_lane(heap_t *lane) {
  if (!try_lane(lane, LANE_COLLECTED)) return;
  heap_sweep_all(lane);
  end_collecting(lane);
}

/* A thread now in the lane will look at its slabs later. */
static void collect_slab(heap_t *lane, slab_t *s) {
  if (!try_lane(lane, LANE_COLLECTED)) return;
  bool belongs = slab_kind(slab_word(s)) == SLAB_SMALL && atomic_ptr_is_relaxed(&s->owner, lane);
  if (belongs && slab_is_all_free(s)) owned_note_empty(lane, s);
  end_collecting(lane);
}

void firstclass_collect_one(fh_heap_t *heap) {
  heap_t *lane = atomic_ptr_load_acquire(&heap->lanes);             /* S-lanes */
  for (; lane != NULL; lane = lanes_next(lane)) collect_lane(lane); /* Bound: as in enter_lane */
  purge_tick();
}

void firstclass_collect(void) {
  for (size_t i = 0; i < pool_size(); i++) { /* relaxed: the swap decides */
    bool is_claimed;
    heap_t *h = pool_at(i, &is_claimed);
    if (is_claimed && h != NULL && atomic32_load_relaxed(&h->lane_state) == LANE_FREE)
      collect_lane(h);
  }
}

void firstclass_stats(const fh_heap_t *heap, fh_heap_stats_t *stats) {
  lanes_counts_t use = lanes_use(heap);
  stats->slab_bytes = use.slabs << SLICE_SHIFT;
  stats->large_bytes = use.bytes;
  stats->quota = atomic64_load_relaxed(&heap->quota);
  memcpy(stats->name, heap->name, sizeof stats->name);
}
