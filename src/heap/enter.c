/* enter.c - how a thread comes to a heap and leaves it: marks, first call and last    layer 6: heap
 * Contract: enter.h. A thread that has ended may still call anything. When it allocates it gets a
 * heap again, and asks the system to report its end once more. If that is too late, or the thread
 * ends by a bare system call, others find the heap (pool.c). */
#include "enter.h"

#include "../arena/frames.h"
#include "../arena/purge.h"
#include "../slab/sparse.h"
#include "../stock/stock.h"
#include "../support/trace.h"
#include "sleepers.h"

enum {
  WATCH_MS = 16,                 /* how long a heap watches a class for use */
  LONE_AT_END = UINT32_MAX >> 1, /* the thread has ended, and gets no heap to free with */
};

__thread heap_here_t heap_here __attribute__((tls_model("initial-exec")));
atomic32_t heap_closed;

/* ---- marks ----------------------------------------------------------------------------------- */

/* While the fast paths are closed, only `busy` is the mark. */
static always_inline bool has_fast_paths(const heap_t *h) {
  return h == heap_of_thread() && likely(!heap_here.is_closed);
}

static always_inline bool is_marked(const heap_t *h, bool has_fast) {
  return h->busy != 0 || (has_fast && (heap_here.window == 0 || heap_here.limit == 0));
}

/* For the calling thread's heap, or a nested one. */
static bool is_any_marked(const heap_t *h) { return is_marked(h, has_fast_paths(h)); }

static always_inline void mark(heap_t *h, bool has_fast) {
  h->busy = 1;
  /* closed: a fast call that was interrupted when they closed goes on, and opens them again */
  if (!has_fast && likely(!heap_here.is_closed)) return;
  signal_fence();
  here_mark();
}

bool heap_stands_in(const heap_t *h) {
  const heap_t *own = heap_of_thread();
  return HEAPS_CAN_BE_TAKEN && h != own && own != NULL && !is_any_marked(own);
}

static always_inline void unmark(heap_t *h) {
  if (unlikely(heap_stands_in(h))) heap_give_up_all(h); /* nobody would take it from there */
  ASSERT_VALID(heap_is_valid(h));
  signal_fence();
  if (h == heap_of_thread()) {
    here_open(atomic64_load_relaxed(&h->home));
    signal_fence();
  }
  h->busy = 0;
}

/* ---- first call and last --------------------------------------------------------------------- */

/* The thread's own heap, if any, has no word yet: it is the process's first, or of a child of
 * fork. */
static void settle_own(void) {
  const heap_t *h = heap_of_thread();
  sleepers_end_parents();
  users_settle(h != NULL ? heap_number(h) : USERS_NO_HEAP);
  if (h != NULL) users_note_marks(heap_number(h), &heap_here);
}

/* What else a thread does before it leaves: secure grade. relaxed: code, set once */
static atomic_ptr_t before_leave;

void heap_before_leave(void (*call)(void)) {
  atomic_ptr_store_relaxed(&before_leave, (void *)call);
}

/* The system calls this when a thread ends, with the thread's heap. A heap whose operation never
 * ended (a handler left it by longjmp or ended the thread) stays as it is: its blocks can be freed,
 * its lists are not touched. A fast operation leaves at worst a wrong count. */
static void thread_leaves(void *heap) {
  void *before = SECURE ? atomic_ptr_load_relaxed(&before_leave) : NULL;
  if (before != NULL) ((void (*)(void))before)();
  bool was_fast = is_any_marked(heap);
  here_mark();                    /* a handler uses the thread's next heap, until there is none */
  slab_choose_tally(TALLIES_OWN); /* the heap's tally is for its next user */
  heap_here.lone_frees = LONE_AT_END;
  if (!users_are_settled(heap_number(heap))) settle_own();
  users_forget(heap_number(heap)); /* its word stays in case the thread dies here */
  signal_fence(); /* a handler that forks finds the heap, or nobody in its child does */
  atomic_ptr_store_relaxed(&heap_here.heap, NULL);
  signal_fence(); /* a handler's traces from now on stay in no stream of the thread's */
  trace_leave();
  for (heap_t *h = heap, *next; h != NULL; h = next) { /* Bound: the depth of its handlers */
    next = atomic_ptr_load_relaxed(&h->nested);
    if (h->busy != 0) {
      pool_abandon(h);
      continue;
    }
    h->busy = 1;
    signal_fence();
    if (unlikely(sleepers_leave(h))) continue;
    if (was_fast && h == heap) owned_recount(h);
    if (h == heap) {
      uint32_t pages = heap_prepare_rest(h);
      held_take_off_all(h);
      if (pool_rest(h, pages)) continue;
      held_add(h);
    }
    heap_end(h);
  }
}

static cold heap_t *attach(void) {
  os_thread_set_leave(thread_leaves);
  heap_t *h = pool_claim();
  if (h == NULL) return NULL;
  void *none = NULL;
  held_add(h);
  users_begin(heap_number(h));
  signal_fence(); /* if a handler jumps away from here, others find the heap */
  if (!atomic_ptr_cas_relaxed(&heap_here.heap, &none, h)) { /* a signal handler was here first */
    held_take_off_all(h);
    pool_return_unused(h);
    return none;
  }
  users_keep(heap_number(h)); /* only now: a child takes over a heap whose user it does not know */
  slab_choose_tally(heap_number(h));
  here_open(WINDOW_NONE);
  users_note_marks(heap_number(h), &heap_here); /* only now: others may close it from here on */
  os_thread_watch(h);
  return h;
}

static void begin_in_child(void) {
  os_begin_in_child(heap_of_thread() != NULL);
  arena_begin_in_child();
  settle_own();
}

void heap_watch_threads(void) {
  os_thread_set_leave(thread_leaves);
  os_on_fork(begin_in_child);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* The heap that stands in for `h` while `h` is marked. */
static heap_t *nested_of(heap_t *h) {
  heap_t *nested = atomic_ptr_load_relaxed(&h->nested); /* relaxed: this thread's, its handlers' */
  if (nested != NULL) return nested;
  heap_t *fresh = pool_claim_nested();
  void *none = NULL;
  if (fresh == NULL) return NULL;
  if (atomic_ptr_cas_relaxed(&h->nested, &none, fresh)) {
    held_add(fresh);
    return fresh;
  }
  pool_return_unused(fresh); /* a handler came first, between the two lines above */
  return none;
}

cold void heap_take_mark_away(heap_t *h, bool has_fast) {
  if (has_fast) here_open(atomic64_load_relaxed(&h->home));
  signal_fence();
  h->busy = 0;
}

/* Marks the heap, which is not marked; false if another thread is taking what it keeps. That taker
 * looks for the mark after a fence for all threads (sleepers.c), so one of the two sees the
 * other. */
static always_inline bool mark_unless_taken(heap_t *h, bool has_fast) {
  mark(h, has_fast);
  signal_fence();
  bool is_taken = heap_is_taken(h);
  signal_fence();
  if (unlikely(is_taken)) heap_take_mark_away(h, has_fast);
  return likely(!is_taken);
}

/* Enters the heap, or the one that stands in for it. */
static cold heap_t *enter_any(heap_t *h) {
  for (; h != NULL; h = nested_of(h)) { /* Bound: handlers that interrupt each other, and a taker */
    if (!is_any_marked(h) && mark_unless_taken(h, has_fast_paths(h))) return h;
    if (COUNTED) atomic64_add_relaxed(&heap_counts.nested, 1);
  }
  return NULL;
}

/* `h` is the thread's own. */
static always_inline heap_t *enter(heap_t *h) {
  bool has_fast = likely(!heap_here.is_closed);
  bool is_entered = likely(!is_marked(h, has_fast)) && mark_unless_taken(h, has_fast);
  return likely(is_entered) ? h : enter_any(h);
}

heap_t *heap_enter(void) {
  heap_t *h = heap_of_thread();
  return likely(h != NULL) ? enter(h) : enter_any(attach());
}

heap_t *heap_enter_own(void) {
  heap_t *h = heap_of_thread();
  return likely(h != NULL) ? enter(h) : NULL;
}

/* A thread that only waits, and frees its last few blocks when it ends, needs no heap. And nobody
 * would take back a heap that it got after its end. */
heap_t *heap_enter_to_free(void) {
  if (heap_of_thread() == NULL) {
    if (heap_here.lone_frees == LONE_AT_END || ++heap_here.lone_frees <= LONE_MOST) return NULL;
    heap_here.lone_frees = 0;
  }
  return heap_enter();
}

/* `now` as in budget_tick. True: the budget needs frequent looks. */
static bool watch_budget(uint32_t now) {
  if (budget_tick(now)) atomic32_add_relaxed(&heap_trims, 1);
  return atomic32_load_relaxed(&budget.is_close) != 0;
}

void heap_do_due(heap_t *h) {
  uint32_t time = purge_tick();
  uint8_t now = (uint8_t)time;
  uint8_t clock = h->watched_at; /* nothing is watched while little is in use */
  if (time != 0 || !arena_is_small()) {
    frames_tick();
    clock = (uint8_t)sparse_tick();
  }
  bool is_watched = watch_budget(time) || users_have_strays();
  size_t more = now == h->looked_at && !is_watched ? 2u * h->wait : 0;
  h->wait = (uint8_t)min_size(more + TICK_CALLS, TICK_MOST);
  if ((uint8_t)(clock - h->watched_at) >= WATCH_MS) heap_watch_class(h, clock);
  h->looked_at = now;
  h->calls = h->wait - 1;
  trace_drop_stale();
  heap_t *own = heap_of_thread();
  if (own != NULL && unlikely(!users_are_settled(heap_number(own)))) settle_own();
  if (h->keeps_pages || h->counts_pages) paged_settle(h);
  if (unlikely(h->trims_seen != (uint16_t)atomic32_load_relaxed(&heap_trims))) heap_answer_trim(h);
  if (unlikely(h->reserve != RESERVE_DENIED) && !budget_is_spent(2 * SLICE_SIZE))
    h->reserve = RESERVE_DENIED;
}

/* True if all classes had their turn, or memory is short: a heap at rest is next. */
static cold bool exit_slowly(heap_t *h) {
  bool has_gone_round = heap_trim(h);
  heap_tick(h);
  unmark(h);
  return has_gone_round || budget_is_tight();
}

void heap_exit(heap_t *h) {
  ASSERT(h->busy != 0);
  if (unlikely(h->trims_due != 0 || h->calls == 0)) {
    if (exit_slowly(h)) heap_end_rest();
    if (unlikely(users_have_strays())) heap_end_parents();
    return;
  }
  h->calls--;
  unmark(h);
}

void heap_close_own(void) {
  if (likely(heap_here.is_closed)) return;
  heap_t *h = heap_enter_own();
  if (h != NULL) heap_exit(h);
}

struct fh_heap *heap_choose(struct fh_heap *heap) {
  struct fh_heap *before = heap_chosen();
  atomic_ptr_store_relaxed(&heap_here.chosen, heap);
  heap_t *h = heap_enter_own(); /* closes the fast paths, or opens them */
  if (h != NULL) heap_exit(h);
  return before;
}

void heap_give_up_own(void) {
  heap_t *h = heap_enter_own();
  if (h == NULL) return;
  heap_give_up_all(h);
  heap_exit(h);
}
