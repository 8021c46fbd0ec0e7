/* paged.c - blocks of a few pages                                                    layer 5: stock
 * Contract: paged.h. */
#include "paged.h"

#include "../arena/budget.h"
#include "../arena/purge.h"
#include "../support/pace.h"
#include "stock.h"

enum {
  SPREAD = 7,         /* spans from heap to heap, so that threads seldom meet at one word */
  SPANS_WAIT_MS = 16, /* after there was no memory for a span */
  MANY_RUNS = 16,     /* a heap that keeps so many gives back a part of them to make room */
};

static size_t pages_for(size_t size) { return (size + SPAN_PAGE - 1) >> SPAN_PAGE_SHIFT; }
static uint64_t bytes_in_pages(unsigned pages) { return (uint64_t)pages << SPAN_PAGE_SHIFT; }

/* A block for which a new span would pass the limit gets slices of its own, usually one. So does
 * every block for a while after the system refused a span: each attempt costs system calls. */
static out_of_line void *begin_span(heap_t *h, unsigned n) {
  static pace_t refusals;
  bool clean;
  if (budget_is_spent(SPAN_SIZE) || pace_is_waiting(&refusals)) return NULL;
  void *base = magazine_claim(h, SPAN_SLICES, SPAN_SLICES, 0, &clean);
  if (base == NULL) return pace_note(&refusals, os_now_ms(), SPANS_WAIT_MS), NULL;
  runs_count_free(h, SPAN_PAGES - (int)n);
  runs_note_claimed(h, n);
  return span_begin(base, clean, n);
}

/* A limit counts those pages of a span that are in memory, but all pages of other slices. So the
 * heap keeps a span's slices only if both are the same. */
static void give_part_back(heap_t *h, span_part_t part) {
  slab_t *ended = runs_give_back(h, part);
  if (ended == NULL) return;
  if (h == NULL || span_touched(ended) != SPAN_PAGES) runs_release(ended);
  else magazine_put_run(h, ended, SPAN_SLICES, SPAN_SLICES, TOUCHED_ALL);
}

/* Makes room for `n` pages. Of many runs a quarter goes, as the next frees will need room too. Runs
 * that lie in one span cost one operation. */
static void give_some_back(heap_t *h, unsigned n) {
  unsigned kept = bits_count(h->own->kept_runs), least = kept >= MANY_RUNS ? kept / 4 : 0;
  for (unsigned given = 0; given < RUNS_AT_ONCE && h->keeps_pages;) { /* Bound: that */
    if (given >= least && runs_have_room(h, n)) return;
    give_part_back(h, runs_take_some(h, given < least ? least - given : 1));
    given = kept - bits_count(h->own->kept_runs);
  }
}

/* Takes pages of an existing span. Those that went back to the system count anew for the limit. */
static void *claim_paged(heap_t *h, unsigned n) {
  void *p = span_claim(n, heap_number(h) * SPREAD);
  if (p == NULL) return NULL;
  runs_count_free(h, -(int)n);
  if (likely(!budget_is_spent(0))) return runs_note_claimed(h, n), p;
  span_forget_block(p);
  give_part_back(h, span_part(p, n));
  return NULL;
}

/* Where bursts come and go, the heap also claims what the next blocks will need. */
static out_of_line void claim_more(heap_t *h, char *p, unsigned n) {
  unsigned most = runs_to_claim(h, n), runs = most != 0 ? span_claim_behind(p, n, most) : 0;
  if (runs == 0) return;
  runs_count_free(h, -(int)(runs * n));
  if (unlikely(budget_is_spent(0)))
    return give_part_back(h, span_part(p + bytes_in_pages(n), runs * n));
  runs_note_claimed(h, runs * n);
  for (unsigned i = 1; i <= runs; i++) runs_put(h, p + bytes_in_pages(i * n), n);
}

void *paged_malloc_kept(heap_t *h, size_t size) {
  unsigned n = (unsigned)pages_for(size);
  void *p = runs_take(h, &n);
  if (likely(p != NULL)) large_count(h, 1, bytes_in_pages(n));
  return p;
}

void *paged_malloc(heap_t *h, size_t size, size_t alignment) {
  if (heap_tag(h) != NULL || !paged_fits(size, alignment)) return NULL;
  void *p = paged_malloc_kept(h, size);
  if (p != NULL) return p;
  unsigned n = (unsigned)pages_for(size);
  p = claim_paged(h, n);
  if (p == NULL) p = begin_span(h, n);
  if (p == NULL) return NULL;
  claim_more(h, p, n);
  large_count(h, 1, bytes_in_pages(n));
  return p;
}

void paged_settle(heap_t *h) {
  size_t most = min_size(magazine_pages_most(h), PAGE_RUNS_KEPT * SPAN_MOST);
  h->own->pages_most = (uint16_t)most;
  /* What is too much goes by and by. */
  for (int i = 0; i < RUNS_AT_ONCE && h->keeps_pages && h->own->kept_pages > most; i++)
    give_part_back(h, runs_take_some(h, 1));
}

/* Is there room for `n` pages, perhaps in place of others? */
static out_of_line bool make_page_room(heap_t *h, unsigned n) {
  paged_settle(h);
  unsigned before = h->own->kept_pages;
  if (n <= h->own->pages_most) give_some_back(h, n);
  bool has_room = runs_have_room(h, n);
  runs_note_given(h, before - h->own->kept_pages + (has_room ? 0 : n));
  return has_room;
}

void paged_free(heap_t *h, void *p, const char *call) {
  unsigned n = span_end_block(p, call);
  large_count(h, -1, 0 - bytes_in_pages(n));
  bool has_room = h != NULL && (likely(runs_have_room(h, n)) || make_page_room(h, n));
  if (unlikely(!has_room)) return give_part_back(h, span_part(p, n));
  runs_put(h, p, n);
}

/* The most bytes that a block for `size` may have. */
static size_t most_for(size_t size) {
  size_t n = pages_for(size);
  return (n + n / RUN_MORE_PART) << SPAN_PAGE_SHIFT;
}

bool paged_may_have(size_t usable, size_t size) { return usable <= most_for(size); }

bool paged_resize(void *p, size_t usable, size_t size) {
  size_t n = pages_for(size);
  if (n > SPAN_MOST) return false;
  unsigned anew = span_untouched_behind(p, (unsigned)n); /* the limit counts these */
  if (anew != 0 && budget_is_spent(bytes_in_pages(anew))) return false;
  if (!span_resize(p, (unsigned)n)) return false;
  uint64_t more = bytes_in_pages((unsigned)n) - usable; /* or less */
  runs_count_free(NULL, -((int)((int64_t)more >> SPAN_PAGE_SHIFT)));
  slab_tally_live(more);
  slab_thread_count(more, (int64_t)more > 0 ? more : 0);
  if ((int64_t)more < 0) runs_note_cut(span_around(p));
  return true;
}

/* A kept run may be longer still. */
void *paged_malloc_roomy(heap_t *h, size_t size) {
  size_t most = min_size(most_for(size), SPAN_MOST << SPAN_PAGE_SHIFT);
  void *p = paged_malloc(h, most, 1);
  if (p == NULL) return NULL;
  size_t usable = (size_t)span_pages(p, "realloc") << SPAN_PAGE_SHIFT;
  if (usable > most) paged_resize(p, usable, most);
  return p;
}
