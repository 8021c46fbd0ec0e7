/* magazine.c - slices without blocks that a heap keeps for itself                    layer 5: stock
 * Contract: magazine.h. */
#include "magazine.h"

#include "../arena/budget.h"
#include "../arena/purge.h"
#include "runs.h"
#include "surplus.h"

enum {
  LOOKS_MOST = 12,    /* runs to compare with a wish */
  PAGES_TIMES = 4,    /* in runs of pages so many times as much, less the singles, if missed */
  PAGES_SHARED = 512, /* slices that all heaps may keep in runs of pages; one each in any case */
  MUCH_EACH = 16,     /* two slow calls in so many check if the surplus is too large */
};

size_t magazine_singles_most(void) {
  return budget_is_tight() || users_are_many()
           ? 0
           : (uint64_t)option_get(OPTION_magazine) >> SLICE_SHIFT;
}

static void count_run(heap_t *h, size_t n, int sign) {
  if (n == 1) h->singles += (uint16_t)sign;
  else h->run_slices += (uint16_t)((int)n * sign);
}

static slab_t *next_in_magazine(const slab_t *s) { return slab_numbered(s->next_in_magazine); }

/* `touched`: of the last slice. The arena's byte for it lies among bytes that others change. */
static void put_run(heap_t *h, slab_t *s, size_t n, size_t touched) {
  ASSERT(n != 0 && n <= RUN_MOST);
  s->touched = (uint16_t)touched;
  s->next_in_magazine = h->magazine[n - 1];
  h->magazine[n - 1] = slab_number(s);
  count_run(h, n, 1);
  ASSERT_VALID(magazine_is_valid(h));
}

static slab_t *take_run(heap_t *h, size_t n) {
  if (n > RUN_MOST) return NULL;
  slab_t *s = slab_numbered(h->magazine[n - 1]);
  if (s == NULL) return NULL;
  h->magazine[n - 1] = s->next_in_magazine;
  count_run(h, n, -1);
  ASSERT_VALID(magazine_is_valid(h));
  return s;
}

/* Moves to the front the run, of the last few of `n` slices, that was touched closest to `wish`. */
static out_of_line void put_nearest_first(heap_t *h, size_t n, size_t wish) {
  uint32_t first = h->magazine[n - 1];
  slab_t *before_best = NULL, *s = slab_numbered(first);
  size_t least = TOUCHED_ALL + 1;
  unsigned looks = LOOKS_MOST;
  /* Bound: LOOKS_MOST */
  for (slab_t *before = NULL; s != NULL && looks-- != 0; before = s, s = next_in_magazine(s)) {
    size_t distance = max_size(s->touched, wish) - min_size(s->touched, wish);
    if (distance >= least) continue;
    least = distance;
    before_best = before;
  }
  if (before_best == NULL) return;
  slab_t *best = next_in_magazine(before_best);
  h->magazine[n - 1] = before_best->next_in_magazine;
  before_best->next_in_magazine = best->next_in_magazine;
  best->next_in_magazine = first;
  ASSERT_VALID(magazine_is_valid(h));
}

static void release_run(slab_t *s, size_t n) { arena_release((void *)slab_base(s), n); }

static void give_up_more_singles(heap_t *h) {
  uint32_t singles = h->own->more_singles;
  if ((singles | h->own->missed_singles) == 0) return; /* its page may be untouched */
  h->own->more_singles = h->own->missed_singles = 0;
  if (singles != 0) surplus_add(0u - singles);
}

static void set_run_most(heap_t *h, size_t most) {
  int32_t more = (int32_t)most - h->run_most;
  if (more > 0) surplus_add((uint32_t)more);
  h->run_most = (uint16_t)most;
  if (more < 0) surplus_add((uint32_t)more);
}

/* With more than two processors the heap may exceed its due: a slice that another thread has used
 * meanwhile would have to come out of that thread's caches. */
static size_t renew_singles_most(heap_t *h) {
  size_t due = magazine_singles_most();
  if (h->own->more_singles != 0 && (due == 0 || surplus_is_too_much())) give_up_more_singles(h);
  return due + h->own->more_singles;
}

/* The heap needs a slice of the arena's. If it has given one back, it should have kept that. */
static void keep_one_more(heap_t *h) {
  if (h->own->missed_singles == 0) return;
  h->own->missed_singles--;
  if (h->own->more_singles == SURPLUS_EACH || !surplus_has_spare()) return;
  surplus_add(1);
  h->own->more_singles++;
}

void *magazine_claim(heap_t *h, size_t n, size_t alignment, size_t wish, bool *clean) {
  if (unlikely(wish != 0) && n <= RUN_MOST) put_nearest_first(h, n, wish);
  bool suits = alignment == 1 || (n <= RUN_MOST && h->magazine[n - 1] % alignment == 0);
  slab_t *kept = suits ? take_run(h, n) : NULL;
  *clean = false;
  if (kept != NULL) return (void *)slab_base(kept);
  if (n == 1) keep_one_more(h);
  return arena_claim(n, alignment, clean);
}

void magazine_put_slab(heap_t *h, slab_t *s) {
  size_t most = renew_singles_most(h);
  s = slab_retire(s);
  if (h->singles < min_size(h->slabs_made, most) && heap_tag(h) == NULL) {
    put_run(h, s, 1, TOUCHED_ALL);
    return;
  }
  if (h->singles > most) release_run(take_run(h, 1), 1); /* the excess goes by and by */
  if (heap_tag(h) == NULL && h->own->missed_singles < UINT16_MAX) h->own->missed_singles++;
  release_run(s, 1);
  if (h->trims_due < UINT8_MAX) h->trims_due++;
}

static size_t earned_slices(const heap_t *h) {
  return atomic64_load_relaxed(&h->large_allocated) / RUN_EARNED;
}

size_t magazine_pages_most(const heap_t *h) {
  size_t most = PAGES_TIMES * magazine_singles_most(), left = most - min_size(h->singles, most);
  size_t share = max_size(PAGES_SHARED / max_size((size_t)users_count(), 1), 1);
  size_t all = min_size(min_size(left, share), earned_slices(h)) * TOUCHED_ALL;
  return min_size(all, left * TOUCHED_ALL / PAGES_TIMES + h->own->more_pages);
}

static bool may_have_more_runs(size_t most, size_t singles) {
  if (most < RUN_LEAST) return true;
  return most < RUN_TIMES * singles ? surplus_has_room() : surplus_has_spare();
}

/* Settles how many slices the heap may keep in runs, now that `n` more are free. The first few are
 * its due, if earned. It gets more while the surplus has room, and loses them when the surplus is
 * too large. All threads write the surplus, so it is read only now and then: in two calls in a row,
 * so that one is a free. */
static void renew_run_most(heap_t *h, size_t n) {
  size_t most = h->run_most, singles = magazine_singles_most();
  if (h->calls % MUCH_EACH < 2 && surplus_is_too_much()) most = min_size(most, RUN_LEAST);
  bool wants = n <= RUN_MOST && h->run_slices + n > most;
  if (wants && may_have_more_runs(most, singles)) most += RUN_LEAST;
  most = min_size(most, min_size(earned_slices(h), RUN_SPARE * singles));
  set_run_most(h, most);
}

/* May the heap keep a run of `n` slices? The longest runs make room: they are the fewest. */
static bool make_room(heap_t *h, size_t n) {
  renew_run_most(h, n);
  bool has_room = n <= min_size(h->run_most, RUN_MOST);
  size_t most = h->run_most - (has_room ? n : 0);
  for (size_t longest = RUN_MOST; longest > 1 && h->run_slices > most;) { /* Bound: the runs */
    slab_t *s = take_run(h, longest);
    if (s != NULL) release_run(s, longest);
    else longest--;
  }
  return has_room;
}

void magazine_put_run(heap_t *h, slab_t *s, size_t n, size_t used, size_t touched) {
  size_t singles = min_size(earned_slices(h), magazine_singles_most());
  if (!(n == 1 ? h->singles < singles : make_room(h, n))) return release_run(s, n);
  if (unlikely(used < n)) { /* the last slice may be touched less; `touched` only guides a choice */
    touched = TOUCHED_ALL;
    memset(arena_touched_last((void *)slab_base(s), used), TOUCHED_ALL, n - used);
  }
  put_run(h, s, n, touched);
}

size_t magazine_claim_ahead(heap_t *h, char *at, size_t n) {
  bool clean;
  if (n == 0 || heap_tag(h) != NULL || !arena_claim_at(at, n, &clean)) return 0;
  for (size_t i = n; i-- > 0;) { /* the lowest ends up on top */
    char *slice = at + (i << SLICE_SHIFT);
    put_run(h, slab_of(slice), 1, *arena_touched_last(slice, 1));
  }
  return clean ? n : 0;
}

bool magazine_add_reserve(heap_t *h) {
  bool clean;
  void *at = arena_claim_beyond(&clean);
  if (at != NULL) put_run(h, slab_of(at), 1, *arena_touched_last(at, 1));
  return at != NULL;
}

void magazine_empty(heap_t *h) {
  runs_empty(h);
  for (size_t n = 1; n <= RUN_MOST && h->singles + h->run_slices != 0; n++)
    for (slab_t *s; (s = take_run(h, n)) != NULL;) release_run(s, n); /* Bound: the runs */
  magazine_forget(h);
}

void magazine_forget(heap_t *h) {
  give_up_more_singles(h);
  set_run_most(h, 0);
}

void magazine_move(heap_t *to, heap_t *from) {
  ASSERT(to->singles + to->run_slices + to->run_most + to->own->more_singles == 0);
  memcpy(to->magazine, from->magazine, sizeof to->magazine);
  memset(from->magazine, 0, sizeof from->magazine);
  to->singles = from->singles;
  to->run_slices = from->run_slices;
  to->run_most = from->run_most;
  from->singles = from->run_slices = from->run_most = 0;
  runs_move(to, from);
  if (from->own->more_singles == 0) return; /* its page may be untouched */
  to->own->more_singles = from->own->more_singles;
  from->own->more_singles = 0;
}

void magazine_recount(heap_t *h) {
  h->singles = h->run_slices = 0;
  for (size_t n = 1; n <= RUN_MOST; n++) /* Bound: L2 */
    for (slab_t *s = slab_numbered(h->magazine[n - 1]); s != NULL; s = next_in_magazine(s))
      count_run(h, n, 1);
  runs_recount(h);
}

static bool are_touched(const slab_t *s, size_t n) {
  size_t touched = 0;
  for (size_t i = 1; i < n; i++) touched += *arena_touched_last((void *)slab_base(s), i);
  return touched == (n - 1) * TOUCHED_ALL;
}

static bool are_claimed(const slab_t *s, size_t n) {
  arena_t *a = arena_of(s);
  size_t free = 0, first = arena_slice((void *)slab_base(s));
  for (size_t i = first; i < first + n; i++) free += bitmap_has(a->free, i);
  return free == 0;
}

bool magazine_is_valid(const heap_t *h) {
  size_t singles = 0, run_slices = 0;
  for (size_t n = 1; n <= RUN_MOST; n++) /* Bound: L2 */
    for (slab_t *s = slab_numbered(h->magazine[n - 1]); s != NULL; s = next_in_magazine(s)) {
      HOLDS(L2, slab_kind(slab_word(s)) == SLAB_NONE && are_claimed(s, n));
      HOLDS(L2, are_touched(s, n));
      if (n == 1) singles++;
      else run_slices += n;
      HOLDS(L2, singles <= h->singles && run_slices <= h->run_slices);
    }
  HOLDS(L2, singles == h->singles && run_slices == h->run_slices);
  return true;
}
