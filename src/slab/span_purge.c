/* span_purge.c - free pages of spans go back to the system                           layer 4: slab
 * Contract: span.h. */
#include "../arena/purge.h"
#include "../os/os.h"
#include "span.h"

enum {
  GROUP_SPANS = 64 / SPAN_SLICES, /* of a group of slices */
  DISCARD_LOOKS = 8,              /* a look that gives pages back counts as so many */
};

/* Runs of claimed pages, of several spans, that one call shall give back. */
typedef struct {
  os_range_t runs[OS_RANGES_MOST];
  unsigned n, all;       /* runs: in hand, and so far */
  const slab_t *refused; /* the first of which the system keeps some */
} leaving_t;

static span_part_t part_of(const os_range_t *run) {
  return span_part(run->at, (unsigned)(run->size >> SPAN_PAGE_SHIFT));
}

/* Writing its words does no harm if the span has ended meanwhile. */
static atomic64_t *look_of(const slab_t *s) { return span_word(s, SPAN_SEEN); }
static atomic64_t *refusal_of(const slab_t *s) { return span_word(s, SPAN_KEPT); }

/* Has the system kept some, and are the same pages free as then? */
static bool was_refused(const slab_t *s) {
  return atomic64_load_relaxed(refusal_of(s)) == atomic64_load_relaxed(&s->pages);
}

/* Notes a look. Are the same pages free as at the last one, and was none refused? */
static bool note_rest(const slab_t *s) {
  uint64_t w = atomic64_load_relaxed(&s->pages), seen = atomic64_load_relaxed(look_of(s));
  if (w == 0 || was_refused(s)) return false;
  if (atomic64_load_relaxed(refusal_of(s)) != 0) atomic64_store_relaxed(refusal_of(s), 0);
  if (seen != w) atomic64_store_relaxed(look_of(s), w);
  return seen == w;
}

static void count_as_free(int pages) {
  atomic64_add_relaxed(&arena_counts.free_pages, (uint64_t)(int64_t)pages);
}

/* This thread has ended the span, and no heap counts that. */
static void release_slices(slab_t *ended) {
  count_as_free(-SPAN_PAGES);
  if (span_touched(ended) == 0) arena_release_clean((void *)slab_base(ended), SPAN_SLICES);
  else arena_release_dirty((void *)slab_base(ended), SPAN_SLICES);
}

static void put_run_back(const os_range_t *run, bool is_gone) {
  span_part_t part = part_of(run);
  if (is_gone) span_note_gone(part);
  slab_t *ended = span_free(part);
  count_as_free((int)bits_count(part.pages));
  if (ended != NULL) release_slices(ended);
}

static void note_refusal(leaving_t *l, const slab_t *s) {
  if (l->refused == NULL) l->refused = s;
  atomic64_store_relaxed(refusal_of(s), atomic64_load_relaxed(look_of(s)));
}

static void let_runs_leave(leaving_t *l) {
  for (size_t i = 0, end; i < l->n;) { /* Bound: `n` */
    size_t gone = os_discard_some(&l->runs[i], l->n - i);
    if (gone == 0) note_refusal(l, part_of(&l->runs[i]).span);
    for (end = i + max_size(gone, 1); i < end; i++) put_run_back(&l->runs[i], gone != 0);
  }
  l->n = 0;
}

/* False: the span has fewer idle pages than `least`. They count as free only once they are back: a
 * thread may die on the way. Inline to save stack. */
static always_inline bool add_idle(leaving_t *l, slab_t *s, unsigned least) {
  if (l->n == OS_RANGES_MOST)
    let_runs_leave(l); /* so a thread has pages of so many spans at most */
  uint64_t idle = span_claim_idle(s, least), rest = idle;
  if (idle == 0) return false;
  count_as_free(-(int)bits_count(idle));
  atomic64_store_relaxed(look_of(s), atomic64_load_relaxed(&s->pages) | idle);
  for (; rest != 0; rest &= ~bits_lowest_run(rest), l->all++) { /* Bound: bits */
    if (l->n == OS_RANGES_MOST) let_runs_leave(l);
    l->runs[l->n++] = os_range_of((void *)slab_base(s), SPAN_PAGE, rest);
  }
  return true;
}

/* The spans of a group, a bit for each. relaxed: one that is missed began just now */
static uint64_t spans_in(arena_t *a, size_t group) {
  size_t first = group * GROUP_SPANS;
  return atomic64_load_relaxed(&a->spans[first / 64]) >> first % 64 & bits_run(0, GROUP_SPANS);
}

span_outcome_t span_purge_near(slab_t *s, unsigned least) {
  leaving_t l = {.n = 0};
  if (!add_idle(&l, s, least)) return SPAN_NOT_ASKED;
  size_t group = span_number(s) / GROUP_SPANS;
  uint64_t spans = least > 1 ? spans_in(arena_of(s), group) : 0;
  /* Bound: the bits of a word */
  for (; spans != 0 && l.all < os_ranges_at_once(); spans &= spans - 1) {
    slab_t *near = span_numbered(arena_of(s), group * GROUP_SPANS + bits_lowest(spans));
    if (!was_refused(near)) add_idle(&l, near, least / 2);
  }
  let_runs_leave(&l);
  return l.refused == s ? SPAN_REFUSED : SPAN_GIVEN; /* its runs were the first */
}

size_t span_purge(arena_t *a, size_t group, bool is_at_once) {
  leaving_t l = {.n = 0};
  size_t looks = 0;
  for (uint64_t spans = spans_in(a, group); spans != 0; spans &= spans - 1) { /* Bound: as above */
    slab_t *s = span_numbered(a, group * GROUP_SPANS + bits_lowest(spans));
    bool is_leaving = (is_at_once || note_rest(s)) && add_idle(&l, s, 1);
    looks += is_leaving ? DISCARD_LOOKS : 1;
  }
  let_runs_leave(&l);
  return looks;
}
