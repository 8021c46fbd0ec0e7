/* init.c - a thread's first call and its last                                         layer 5: heap
 * Owns:    heap_here.   Called by: heap.c, pool.c, api, os (thread exit).   Calls: pool, leave,
 *          slab, purge, support, os.
 * Threads: any; first use may happen in several threads, and in a signal handler, at once. A thread
 *          that has ended still may call anything: it gets a heap again when it allocates, and the
 *          system is asked to say once more when it has ended. Where it does not, because that was
 *          too late or the thread ended by a bare system call, others find the heap (pool.c). */
#include "../base/check.h"
#include "../os/os.h"
#include "../support/options.h"
#include "heap.h"

__thread heap_here_t heap_here __attribute__((tls_model("initial-exec")));

/* The system calls this when a thread ends, with the thread's heap. A heap whose operation never
 * ended (a signal handler left it by longjmp or ended the thread) stays as it is: its blocks can be
 * freed, its lists are not touched. A fast operation leaves nothing worse behind than a count. */
static void thread_leaves(void *heap) {
  bool was_fast = heap_is_marked(heap);
  heap_here.limit = 0; /* marked: a handler uses the next heap of the thread, until there is none */
  heap_here.window = 0;
  signal_fence();
  slab_choose_tally(TALLIES_OWN); /* the heap's is its next user's */
  heap_here.lone_frees = LONE_AT_END;
  atomic_ptr_store_relaxed(&heap_here.heap, NULL);
  signal_fence();
  pool_clear_user(heap);
  for (heap_t *h = heap, *next; h != NULL; h = next) { /* Bound: the depth of its handlers */
    next = atomic_ptr_load_relaxed(&h->nested);
    if (h->busy != 0) continue;
    h->busy = 1;
    if (was_fast && h == heap) heap_recount(h);
    if (h == heap && pool_rest(h, heap_prepare_rest(h))) continue;
    heap_end(h);
  }
}

heap_t *heap_attach(void) {
  heap_hooks.start();
  os_thread_set_leave(thread_leaves);
  heap_t *h = pool_claim();
  if (h == NULL) return NULL;
  void *none = NULL;
  pool_set_user(h);
  signal_fence(); /* should a handler jump away from here, others find the heap */
  if (!atomic_ptr_swap_relaxed(&heap_here.heap, &none, h)) { /* a signal handler was here first */
    pool_clear_user(h);
    pool_put_back(h);
    return none;
  }
  if (!option_get(OPTION_stats_detail)) {
    heap_here.window = WINDOW_NONE;
    heap_here.limit = SMALL_STEPS + 1;
  }
  slab_choose_tally(h->number);
  os_thread_watch(h);
  return h;
}

/* ---- upkeep ---------------------------------------------------------------------------------- */

static void collect_own(void) {
  heap_t *h = heap_enter_own();
  if (h == NULL) return;
  heap_let_go(h);
  heap_exit(h);
}

void heap_collect(bool force) {
  if (force) atomic32_add_relaxed(&heap_trims, 1); /* others do it with their next slow calls */
  collect_own();
  if (force) heap_end_dead();
  /* Bound: those that rest now; threads may go on ending */
  for (uint32_t n = pool_resting_pages(); n > 0 && heap_end_rest(); n--) continue;
  purge_tick();
  if (!force) return;
  firstclass_collect();
  pool_discard_kept();
  slab_collect_pages();
  purge_all();
}

enum {
  NAP_LEAST = 20, NAP_MOST = 1000, /* ms: so soon is a delay noticed that was made shorter */
  QUIET_MS = 10000,                /* so long no slab came, went or was let go of */
};

/* relaxed: it is compared with what it was. */
static uint64_t count_changes(void) {
  return atomic64_load_relaxed(&slab_counts.publications) +
         atomic64_load_relaxed(&arena_counts.purged) +
         atomic64_load_relaxed(&arena_counts.committed);
}

static void background(void) {
  uint64_t seen = 0;
  uint32_t since = os_now_ms();
  bool is_collected = false;
  for (;;) { /* Bound: none, it is a thread of its own */
    int64_t delay = option_get(OPTION_purge_delay_ms);
    bool may_purge = delay >= 0; /* never: until that is changed */
    if (!may_purge || is_collected) delay = NAP_MOST; /* a program that sleeps is seldom woken */
    os_sleep_ms((uint32_t)min_size(max_size((size_t)delay, NAP_LEAST), NAP_MOST));
    purge_tick();
    if (count_changes() != seen) {
      since = os_now_ms();
      is_collected = false;
    } else if (may_purge && !is_collected && os_now_ms() - since >= QUIET_MS) {
      heap_collect(true);
      is_collected = true;
    }
    seen = count_changes();
  }
}

void heap_start(void) {
  static atomic32_t started;
  uint32_t no = 0;
  ASSERT_VALID(class_is_valid());
  os_thread_set_leave(thread_leaves); /* some C libraries lock to make a key */
  if (option_get(OPTION_background) && atomic32_swap_relaxed(&started, &no, 1))
    os_thread_start(background);
}
