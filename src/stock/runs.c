/* runs.c - runs of pages without blocks: what a heap keeps and what goes back        layer 5: stock
 * Contract: runs.h. */
#include "runs.h"

#include "../arena/budget.h"
#include "../arena/patience.h"
#include "../arena/purge.h"
#include "../support/options.h"
#include "../support/pace.h"

enum {
  FREE_STEP = 64,    /* pages that a heap counts alone while heaps are few */
  FREE_HEAPS = 16,   /* so many are few; if there are more, each counts less alone */
  FREE_TIMES = 8,    /* 10,000 heaps together count alone at most so many times what few do */
  LEAST_TO_GO = 8,   /* the fewest pages of a span worth a call, unless all must go */
  REST_MS = 4000,    /* after refusals the system is left alone for so long, */
  REFUSALS = 4,      /* if it refused so many spans in a row, or one span often */
  LOOK_TIMES = 16,   /* one free in so many checks how many pages are free */
  WALK_MS = 100,     /* from a walk over all spans that gained little to the next */
  MUCH_MISSED = 512, /* missed pages: at so many, twice, four times as many other things go */
  MUCH_DOUBLED = 7,  /* doublings, as pages are needed again; then it is never reached */
  CLAIMED_TIMES = 2, /* a claimed page offsets so many missed ones, so that chance makes few */
};

/* ---- how many are free ----------------------------------------------------------------------- */

static pace_t refusals;          /* when the last of REFUSALS refusals came */
static atomic64_t refused_pages; /* in memory then: so many may stay there whatever we ask */

/* relaxed, all of it: sums that heaps settle now and then. */
static int64_t pages_in_memory(void) {
  return (int64_t)(atomic64_load_relaxed(&arena_counts.free_pages) -
                   atomic64_load_relaxed(&arena_counts.absent_pages));
}

/* A sum of parts that other threads settle may be below 0 for a while. */
static uint64_t or_none(int64_t pages) { return pages > 0 ? (uint64_t)pages : 0; }

static int64_t pages_to_go(void) {
  int64_t pages = pages_in_memory(), refused = (int64_t)atomic64_load_relaxed(&refused_pages);
  if (likely(refused == 0)) return pages;
  if (pages < refused) atomic64_store_relaxed(&refused_pages, or_none(pages));
  return pages - refused;
}

/* From how many idle pages of a span on a free gives them to the system; 0: never. */
static unsigned least_to_go(void) {
  int64_t delay = option_get(OPTION_purge_delay_ms);
  if (delay < 0) return 0;
  if (delay == 0 || option_get(OPTION_purge_budget) == 0 || budget_is_spent(SLICE_SIZE)) return 1;
  return pages_to_go() > (int64_t)patience_free_pages() ? LEAST_TO_GO : 0;
}

static void add_free(int pages) {
  atomic64_add_relaxed(&arena_counts.free_pages, (uint64_t)(int64_t)pages);
}

static void settle_free(heap_t *h) {
  if (h->own->free_pages != 0) add_free(h->own->free_pages);
  h->own->free_pages = 0;
}

/* How many pages all heaps together count alone. */
static int64_t counted_alone(void) {
  return (int64_t)FREE_STEP * min_size((size_t)users_count(), FREE_HEAPS * FREE_TIMES);
}

void runs_count_free(heap_t *h, int pages) {
  if (h == NULL) return add_free(pages);
  int alone = h->own->free_pages + pages;
  int step = FREE_STEP * FREE_HEAPS / (int)max_size((size_t)users_count(), FREE_HEAPS);
  h->counts_pages = 1;
  h->own->free_pages = (int16_t)alone;
  if (alone >= step || alone <= -step) settle_free(h);
}

void runs_settle(heap_t *h) {
  if (!h->counts_pages) return; /* its page may be untouched */
  settle_free(h);
  h->own->least_to_go = h->own->looks_left = 0;
  h->counts_pages = 0;
}

/* How the system has answered for the pages of a span. */
static void note_outcome(const slab_t *s, span_outcome_t outcome) {
  static atomic32_t in_row; /* relaxed, both: a guess */
  static atomic64_t last;
  uint32_t before = atomic32_load_relaxed(&in_row);
  uint64_t span = slab_base(s);
  bool is_refused = outcome == SPAN_REFUSED;
  if (outcome == SPAN_NOT_ASKED || (!is_refused && likely(before == 0))) return;
  uint32_t more = is_refused && atomic64_exchange_relaxed(&last, span) == span ? 1 : REFUSALS;
  atomic32_store_relaxed(&in_row, is_refused ? before + more : 0);
  if (!is_refused || before + more < REFUSALS * REFUSALS) return;
  pace_note(&refusals, os_now_ms(), REST_MS);
  atomic64_store_relaxed(&refused_pages, or_none(pages_in_memory()));
}

/* The answer stands for the next few frees. */
static unsigned least_of(heap_t *h) {
  if (h == NULL) return least_to_go();
  if (h->own->looks_left-- == 0) {
    settle_free(h);
    h->own->looks_left = LOOK_TIMES - 1;
    h->own->least_to_go = (uint8_t)least_to_go();
  }
  return h->own->least_to_go;
}

/* Pages of the span became free. */
static void purge_if_much(slab_t *s, unsigned least) {
  if (unlikely(least != 0) && !pace_is_waiting(&refusals))
    note_outcome(s, span_purge_near(s, least));
}

void runs_note_cut(slab_t *s) { purge_if_much(s, least_to_go()); }

static slab_t *give_pages_back(heap_t *h, span_part_t part, unsigned least) {
  slab_t *ended = span_free(part);
  runs_count_free(h, (int)bits_count(part.pages) - (ended != NULL ? SPAN_PAGES : 0));
  if (ended == NULL) purge_if_much(part.span, least);
  return ended;
}

slab_t *runs_give_back(heap_t *h, span_part_t part) {
  return give_pages_back(h, part, least_of(h));
}

void runs_release(slab_t *ended) {
  void *base = (void *)slab_base(ended);
  if (span_touched(ended) == 0) arena_release_clean(base, SPAN_SLICES);
  else arena_release(base, SPAN_SLICES);
}

/* ---- at the hard limit ----------------------------------------------------------------------- */

bool runs_may_give_room(const heap_t *h, size_t size) {
  if (option_get(OPTION_memory_limit) == 0) return false;
  int64_t pages = pages_in_memory() + counted_alone();
  size_t most = pages > 0 ? (size_t)pages << SPAN_PAGE_SHIFT : 0;
  if (h != NULL) most += (size_t)(h->singles + h->run_slices) << SLICE_SHIFT;
  if (h != NULL && h->keeps_pages) most += (size_t)h->own->kept_pages << SPAN_PAGE_SHIFT;
  return !budget_is_spent_despite(most, size);
}

static atomic64_t left_by_walk; /* pages in memory that the last walk could not give back */

/* Has enough been freed since the last walk? */
static bool is_enough_since(size_t size) {
  int64_t more = pages_in_memory() - (int64_t)atomic64_load_relaxed(&left_by_walk);
  return more > 0 && !budget_is_spent_despite((size_t)more << SPAN_PAGE_SHIFT, size);
}

/* It goes on where the last one stopped. True: all spans had their turn. */
static bool walk_until_room(size_t size) {
  static atomic32_t next; /* relaxed: two walks at once may look twice */
  size_t groups = arena_count() * ARENA_GROUPS, first = atomic32_load_relaxed(&next), n = 0;
  for (; n < groups && (n == 0 || budget_is_spent(size)); n++) {
    size_t group = (first + n) % groups;
    arena_t *a = arena_at(group / ARENA_GROUPS);
    if (a != NULL) span_purge(a, group % ARENA_GROUPS, true);
  }
  atomic32_store_relaxed(&next, (uint32_t)(first + n));
  return n == groups;
}

bool runs_give_room(size_t size) {
  static pace_t walks;
  uint32_t now = os_now_ms();
  if (runs_may_give_room(NULL, size) && budget_is_spent(size) &&
      (is_enough_since(size) || pace_is_due(&walks, now, 0))) {
    bool is_worth_it = pages_in_memory() > (int64_t)atomic64_load_relaxed(&arena_counts.spans);
    bool is_round = walk_until_room(size);
    int64_t left = pages_in_memory(), before = (int64_t)atomic64_load_relaxed(&left_by_walk);
    if (is_round || left < before) atomic64_store_relaxed(&left_by_walk, or_none(left));
    if (is_round && (!is_worth_it || budget_is_spent(size))) pace_note(&walks, now, WALK_MS);
  }
  return !budget_is_spent(size); /* another thread may have made room */
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/* `slot`: a bit. The page of `own` may be untouched while `keeps_pages` is 0. */
static always_inline run_t take_from_slot(heap_t *h, unsigned level, uint32_t slot) {
  heap_own_t *own = h->own;
  run_t run = own->page_runs[bits_lowest(slot)];
  own->runs_of[level] ^= slot;
  if (own->runs_of[level] == 0) own->kept_lengths ^= (uint32_t)1 << level;
  own->kept_pages -= (uint16_t)run_page_count(run);
  own->kept_runs ^= slot;
  if (own->kept_runs == 0) h->keeps_pages = 0;
  return run;
}

static always_inline run_t take_of_length(heap_t *h, unsigned level) {
  return take_from_slot(h, level, (uint32_t)bits_lowest_one(h->own->runs_of[level]));
}

static always_inline void put_in_slot(heap_t *h, uint32_t slot, run_t run) {
  heap_own_t *own = h->own;
  unsigned level = run_page_count(run) - SPAN_LEAST;
  own->page_runs[bits_lowest(slot)] = run;
  own->runs_of[level] |= slot;
  own->kept_lengths |= (uint32_t)1 << level;
  own->kept_pages += (uint16_t)run_page_count(run);
  own->kept_runs |= slot;
  if (!h->keeps_pages) h->keeps_pages = 1;
}

/* Takes the slots in turn. */
out_of_line span_part_t runs_take_some(heap_t *h, unsigned most) {
  span_part_t all = {NULL, 0};
  for (; most != 0 && h->own->kept_runs != 0; most--) { /* Bound: PAGE_RUNS_KEPT */
    uint32_t from_next = h->own->kept_runs & ALL_RUNS << h->own->next_run_slot;
    unsigned at = bits_lowest(from_next != 0 ? from_next : h->own->kept_runs);
    run_t run = h->own->page_runs[at];
    span_part_t part = run_part(run);
    if (all.pages != 0 && part.span != all.span) break;
    h->own->next_run_slot = (uint8_t)((at + 1) % PAGE_RUNS_KEPT);
    take_from_slot(h, run_page_count(run) - SPAN_LEAST, (uint32_t)1 << at);
    all = (span_part_t){part.span, all.pages | part.pages};
  }
  return all;
}

static unsigned much_missed(const heap_t *h) {
  return (unsigned)MUCH_MISSED << h->own->missed_doublings;
}

void runs_note_given(heap_t *h, unsigned n) {
  unsigned before = h->own->missed_pages, now = (unsigned)min_size(before + n, UINT16_MAX);
  h->own->missed_pages = (uint16_t)now;
  if (now < much_missed(h) || (now ^ before) <= before) return; /* no more bits than before */
  h->own->more_pages = 0;
  h->trims_due = CLASS_COUNT;
}

/* If the heap has given up other things for missed pages, it does so less readily from now on. */
void runs_note_claimed(heap_t *h, unsigned n) {
  heap_own_t *own = h->own;
  unsigned before = own->missed_pages, much = much_missed(h);
  if (before == 0) return;
  own->missed_pages -= (uint16_t)min_size(before, CLAIMED_TIMES * n);
  own->more_pages = (uint16_t)min_size(own->more_pages + n, PAGE_RUNS_KEPT * SPAN_MOST);
  if (before >= much && own->missed_pages < much && own->missed_doublings < MUCH_DOUBLED)
    own->missed_doublings++;
}

/* Near a limit none: the limit would count pages that had gone back, and that nobody uses yet. */
unsigned runs_to_claim(const heap_t *h, unsigned n) {
  size_t pages = min_size(h->own->missed_pages + h->own->more_pages, h->own->pages_most);
  if (pages < 2 * n || h->keeps_pages || budget_is_tight() || budget_is_spent(SPAN_SIZE)) return 0;
  return (unsigned)min_size(RUNS_AT_ONCE, pages / n) - 1;
}

void runs_put(heap_t *h, void *p, unsigned n) {
  ASSERT(h->own->kept_runs != ALL_RUNS);
  put_in_slot(h, (uint32_t)bits_lowest_one(~h->own->kept_runs), (uintptr_t)p | n);
  ASSERT_VALID(runs_are_valid(h));
}

void *runs_take(heap_t *h, unsigned *n) {
  if (!h->keeps_pages) return NULL; /* its page may be untouched */
  unsigned level = *n - SPAN_LEAST;
  if (h->own->runs_of[level] == 0) {
    uint64_t will_do = bits_run(level, *n / RUN_MORE_PART + 1);
    uint32_t lengths = h->own->kept_lengths & (uint32_t)will_do;
    if (lengths == 0) return NULL;
    level = bits_lowest(lengths);
  }
  run_t run = take_of_length(h, level);
  *n = run_page_count(run);
  span_renew_block(run_pages_at(run));
  return run_pages_at(run);
}

static void give_all_pages_back(heap_t *h) {
  unsigned least = least_to_go();
  while (h->keeps_pages) { /* Bound: PAGE_RUNS_KEPT */
    run_t run = take_of_length(h, bits_lowest(h->own->kept_lengths));
    slab_t *ended = give_pages_back(h, run_part(run), least);
    if (ended != NULL) runs_release(ended);
  }
}

/* Forgets what its user has learned. The page may be untouched. */
static void forget_most(heap_own_t *own) {
  if ((own->pages_most | own->more_pages | own->missed_pages) == 0) return;
  own->pages_most = own->more_pages = own->missed_pages = own->missed_doublings = 0;
}

void runs_empty(heap_t *h) {
  if (h->keeps_pages) give_all_pages_back(h);
  forget_most(h->own);
  runs_settle(h); /* so that the next search for free pages counts these */
}

void runs_move(heap_t *to, heap_t *from) {
  ASSERT(!to->keeps_pages);
  runs_settle(from);
  forget_most(from->own);
  if (!from->keeps_pages) return; /* its page may be untouched */
  to->own->kept_runs = from->own->kept_runs;
  memcpy(to->own->page_runs, from->own->page_runs, sizeof to->own->page_runs);
  signal_fence(); /* a child of fork finds the runs in `from` or not at all: it forgets `to` */
  from->own->kept_runs = 0;
  runs_recount(to);
  runs_recount(from);
}

void runs_recount(heap_t *h) {
  uint32_t runs = h->own->kept_runs;
  memset(h->own->runs_of, 0, sizeof h->own->runs_of);
  h->own->kept_lengths = h->own->kept_runs = h->own->kept_pages = 0;
  h->keeps_pages = 0;
  for (; runs != 0; runs &= runs - 1) /* Bound: PAGE_RUNS_KEPT */
    put_in_slot(h, (uint32_t)bits_lowest_one(runs), h->own->page_runs[bits_lowest(runs)]);
}

static unsigned pages_of_length(const heap_t *h, unsigned level) {
  unsigned pages = 0;
  for (uint32_t slots = h->own->runs_of[level]; slots != 0; slots &= slots - 1) { /* Bound: bits */
    run_t run = h->own->page_runs[bits_lowest(slots)];
    HOLDS(R3, span_was_freed(run_pages_at(run)));
    HOLDS(R4, run_page_count(run) == level + SPAN_LEAST);
    pages += run_page_count(run);
  }
  return pages;
}

bool runs_are_valid(const heap_t *h) {
  unsigned pages = 0;
  uint32_t seen = 0;
  if (!h->keeps_pages) return true; /* its page may be untouched */
  for (unsigned level = 0; level < SPAN_LEVELS; level++) {
    bool has_any = h->own->runs_of[level] != 0;
    HOLDS(R4, has_any == (h->own->kept_lengths >> level & 1));
    seen |= h->own->runs_of[level];
    pages += pages_of_length(h, level);
  }
  HOLDS(R3, pages == h->own->kept_pages);
  HOLDS(R4, seen == h->own->kept_runs);
  return true;
}
