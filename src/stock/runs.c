/* runs.c - runs of pages without blocks: what a heap keeps and what goes back        layer 5: stock
 * Contract: runs.h. */
#include "runs.h"

#include "../arena/budget.h"
#include "../arena/patience.h"
#include "../arena/purge.h"
#include "../support/options.h"
#include "../support/pace.h"

enum {
  FREE_STEP = 64,  /* pages that a heap counts alone */
  FREE_PART = 6,   /* this part of what spans have may be free and in memory, besides the budget */
  LEAST_TO_GO = 8, /* pages of a span for which the system is asked, unless all are to go */
  REST_MS = 4000,  /* after the system has kept some it is asked for no more for so long */
  LOOK_TIMES = 16, /* one free in so many looks how many pages are free */
  WALK_MS = 100,   /* from a walk over all spans that was hardly worth it to the next */
};

/* ---- how many are free ----------------------------------------------------------------------- */

static pace_t refusals; /* when it was last noticed */

/* relaxed, all of it: sums, which heaps settle now and then. */
static int64_t pages_in_memory(void) {
  return (int64_t)(atomic64_load_relaxed(&arena_counts.free_pages) -
                   atomic64_load_relaxed(&arena_counts.absent_pages));
}

/* For how many idle pages of a span a free asks the system to take them; 0: for none. */
static unsigned least_to_go(void) {
  int64_t delay = option_get(OPTION_purge_delay_ms);
  if (delay < 0) return 0;
  if (delay == 0 || option_get(OPTION_purge_budget) == 0 || budget_is_spent(SLICE_SIZE)) return 1;
  size_t part = atomic64_load_relaxed(&arena_counts.spans) * SPAN_PAGES / FREE_PART;
  size_t most = part + patience_budget() * TOUCHED_ALL;
  return pages_in_memory() > (int64_t)most ? LEAST_TO_GO : 0;
}

static bool was_refused(void) {
  return atomic32_load_relaxed(&refusals.wait) != 0 && !pace_is_due(&refusals, os_now_ms(), 0);
}

static void add_free(int pages) {
  atomic64_add_relaxed(&arena_counts.free_pages, (uint64_t)(int64_t)pages);
}

static void settle_free(heap_t *h) {
  if (h->own->free_pages != 0) add_free(h->own->free_pages);
  h->own->free_pages = 0;
}

void runs_count_free(heap_t *h, int pages) {
  if (h == NULL) return add_free(pages);
  h->counts_pages = 1;
  h->own->free_pages += (int16_t)pages;
  if (h->own->free_pages >= FREE_STEP || h->own->free_pages <= -FREE_STEP) settle_free(h);
}

void runs_settle(heap_t *h) {
  if (!h->counts_pages) return; /* its page may be untouched */
  settle_free(h);
  h->own->least_to_go = h->own->looks_left = 0;
  h->counts_pages = 0;
}

static out_of_line slab_t *give_to_system(void *p, unsigned n, unsigned least) {
  bool is_refused;
  if (was_refused()) return span_free(p, n);
  slab_t *ended = span_free_to_system(p, n, least, &is_refused);
  if (is_refused) pace_note(&refusals, os_now_ms(), REST_MS);
  return ended;
}

/* It is known until some frees later. */
static unsigned least_of(heap_t *h) {
  if (h == NULL) return least_to_go();
  if (h->own->looks_left-- == 0) {
    settle_free(h);
    h->own->looks_left = LOOK_TIMES - 1;
    h->own->least_to_go = (uint8_t)least_to_go();
  }
  return h->own->least_to_go;
}

slab_t *runs_give_back(heap_t *h, void *p, unsigned n) {
  unsigned least = least_of(h);
  slab_t *ended = unlikely(least != 0) ? give_to_system(p, n, least) : span_free(p, n);
  runs_count_free(h, (int)n - (ended != NULL ? SPAN_PAGES : 0));
  return ended;
}

void runs_release(slab_t *ended) {
  void *base = (void *)slab_base(ended);
  if (span_touched(ended) == 0) arena_release_clean(base, SPAN_SLICES);
  else arena_release(base, SPAN_SLICES);
}

/* ---- at the hard limit ----------------------------------------------------------------------- */

/* So that a walk over all spans is worth it. */
static bool is_much_free(void) {
  return pages_in_memory() > (int64_t)atomic64_load_relaxed(&arena_counts.spans);
}

bool runs_may_give_room(const heap_t *h, size_t size) {
  if (option_get(OPTION_memory_limit) == 0) return false;
  int64_t pages = pages_in_memory() + (int64_t)FREE_STEP * users_count();
  size_t most = pages > 0 ? (size_t)pages << SPAN_PAGE_SHIFT : 0;
  if (h != NULL) most += (size_t)(h->singles + h->run_slices) << SLICE_SHIFT;
  if (h != NULL && h->keeps_pages) most += (size_t)h->own->kept_pages << SPAN_PAGE_SHIFT;
  return !budget_is_spent_despite(most, size);
}

static atomic64_t left_by_walk; /* pages in memory that the last walk could not give back */

/* Is what has been freed since the last walk enough? */
static bool is_enough_since(size_t size) {
  int64_t more = pages_in_memory() - (int64_t)atomic64_load_relaxed(&left_by_walk);
  return more > 0 && !budget_is_spent_despite((size_t)more << SPAN_PAGE_SHIFT, size);
}

bool runs_give_room(size_t size) {
  static pace_t walks;
  uint32_t now = os_now_ms();
  if (runs_may_give_room(NULL, size) && budget_is_spent(size) &&
      (is_enough_since(size) || pace_is_due(&walks, now, 0))) {
    bool is_worth_it = is_much_free();
    for (size_t i = 0; i < arena_count(); i++) {
      arena_t *a = arena_at(i);
      for (size_t group = 0; a != NULL && group < ARENA_GROUPS; group++) span_rest(a, group, true);
    }
    int64_t left = pages_in_memory();
    atomic64_store_relaxed(&left_by_walk, left > 0 ? (uint64_t)left : 0);
    if (!is_worth_it || budget_is_spent(size)) pace_note(&walks, now, WALK_MS);
  }
  return !budget_is_spent(size); /* another thread may have made room */
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static void count_pages(heap_t *h, unsigned n) { /* modulo 2^16 */
  h->own->kept_pages += (uint16_t)n;
  h->keeps_pages = h->own->kept_pages != 0;
}

/* The last one takes its place. */
static run_t take_at(heap_t *h, unsigned at) {
  run_t *runs = h->own->page_runs, run = runs[at];
  unsigned last = --h->own->kept_runs;
  runs[at] = runs[last];
  runs[last] = 0;
  count_pages(h, 0 - run_page_count(run));
  return run;
}

run_t runs_make_room(heap_t *h, unsigned n, size_t most) {
  unsigned kept = h->own->kept_runs;
  if (kept == 0 || (kept < PAGE_RUNS_KEPT && h->own->kept_pages + n <= most)) return 0;
  return take_at(h, h->own->next_page_run++ % kept);
}

/* The bits of `kept_lengths` for `n` pages and for up to `more` above that. */
static uint32_t length_bits(unsigned n, unsigned more) {
  return (uint32_t)bits_run(n - SPAN_LEAST, more + 1);
}

void runs_put(heap_t *h, void *p, unsigned n) {
  ASSERT(h->own->kept_runs < PAGE_RUNS_KEPT);
  h->own->page_runs[h->own->kept_runs++] = (uintptr_t)p | n;
  h->own->kept_lengths |= length_bits(n, 0);
  count_pages(h, n);
  ASSERT_VALID(runs_are_valid(h));
}

/* One of just so many pages. If there is none any more its bit goes. */
static void *take_long(heap_t *h, unsigned n) {
  for (unsigned i = h->own->kept_runs; i-- > 0;) { /* Bound: PAGE_RUNS_KEPT */
    if (run_page_count(h->own->page_runs[i]) != n) continue;
    void *p = run_pages_at(take_at(h, i));
    span_renew_block(p, n);
    return p;
  }
  h->own->kept_lengths &= ~length_bits(n, 0);
  return NULL;
}

void *runs_take(heap_t *h, unsigned *n) {
  if (!h->keeps_pages) return NULL; /* its page may be untouched */
  uint32_t lengths = h->own->kept_lengths & length_bits(*n, *n / RUN_MORE_PART);
  for (; lengths != 0; lengths &= lengths - 1) { /* Bound: SPAN_MOST / RUN_MORE_PART */
    unsigned length = SPAN_LEAST + bits_lowest(lengths);
    void *p = take_long(h, length);
    if (p != NULL) return *n = length, p;
  }
  return NULL;
}

void runs_empty(heap_t *h) {
  while (h->keeps_pages) { /* Bound: PAGE_RUNS_KEPT */
    run_t run = take_at(h, h->own->kept_runs - 1u);
    slab_t *ended = runs_give_back(h, run_pages_at(run), run_page_count(run));
    if (ended != NULL) runs_release(ended);
  }
  runs_settle(h); /* who looks for free pages next sees these */
}

void runs_move(heap_t *to, heap_t *from) {
  ASSERT(!to->keeps_pages);
  if (!from->keeps_pages) return; /* its page may be untouched */
  memcpy(to->own->page_runs, from->own->page_runs, sizeof to->own->page_runs);
  memset(from->own->page_runs, 0, sizeof from->own->page_runs);
  runs_recount(to);
  runs_recount(from);
}

void runs_recount(heap_t *h) {
  unsigned pages = 0, n = 0;
  h->own->kept_lengths = 0;
  for (unsigned i = 0; i < PAGE_RUNS_KEPT; i++) {
    run_t run = h->own->page_runs[i];
    if (run == 0) continue;
    h->own->page_runs[i] = 0;
    h->own->page_runs[n++] = run;
    h->own->kept_lengths |= length_bits(run_page_count(run), 0);
    pages += run_page_count(run);
  }
  h->own->kept_runs = (uint8_t)n;
  count_pages(h, pages - h->own->kept_pages);
}

bool runs_are_valid(const heap_t *h) {
  unsigned pages = 0;
  for (unsigned i = 0; h->keeps_pages && i < h->own->kept_runs; i++) {
    run_t run = h->own->page_runs[i];
    HOLDS(R3, span_was_freed(run_pages_at(run)));
    HOLDS(R4, (h->own->kept_lengths & length_bits(run_page_count(run), 0)) != 0);
    pages += run_page_count(run);
  }
  HOLDS(R3, !h->keeps_pages || pages == h->own->kept_pages);
  return true;
}
