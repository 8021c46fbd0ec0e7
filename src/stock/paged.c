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
  GIVEN_AT_ONCE = 8,  /* runs that a heap gives back to make room for one of any length */
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
static void give_run_back(heap_t *h, void *p, unsigned n) {
  slab_t *ended = runs_give_back(h, p, n);
  if (ended == NULL) return;
  if (h == NULL || span_touched(ended) != SPAN_PAGES) runs_release(ended);
  else magazine_put_run(h, ended, SPAN_SLICES, SPAN_SLICES, TOUCHED_ALL);
}

/* Does it keep too many to add `n` pages? With 0: does it keep too many as it is? */
static bool keeps_too_many(const heap_t *h, unsigned n) {
  return n == 0 ? h->own->kept_pages > h->own->pages_most : !runs_have_room(h, n);
}

/* If so, gives some back. The rest goes by and by. */
static void give_some_back(heap_t *h, unsigned n) {
  for (int i = 0; i < GIVEN_AT_ONCE && h->keeps_pages && keeps_too_many(h, n); i++) {
    run_t run = runs_take_any(h);
    give_run_back(h, run_pages_at(run), run_page_count(run));
  }
}

/* Takes pages of an existing span. Those that went back to the system count anew for the limit. */
static void *claim_paged(heap_t *h, unsigned n) {
  void *p = span_claim(n, heap_number(h) * SPREAD);
  if (p == NULL) return NULL;
  runs_count_free(h, -(int)n);
  if (likely(!budget_is_spent(0))) return runs_note_claimed(h, n), p;
  span_forget_block(p);
  give_run_back(h, p, n);
  return NULL;
}

void *paged_malloc(heap_t *h, size_t size, size_t alignment) {
  if (heap_tag(h) != NULL || !paged_fits(size, alignment)) return NULL;
  unsigned n = (unsigned)pages_for(size);
  void *p = runs_take(h, &n);
  if (p == NULL) p = claim_paged(h, n);
  if (p == NULL) p = begin_span(h, n);
  if (p == NULL) return NULL;
  large_count(h, 1, bytes_in_pages(n));
  return p;
}

void paged_settle(heap_t *h) {
  size_t most = min_size(magazine_pages_most(h), PAGE_RUNS_KEPT * SPAN_MOST);
  h->own->pages_most = (uint16_t)most;
  give_some_back(h, 0);
}

/* Is there room for `n` pages, perhaps in place of others? */
static out_of_line bool make_page_room(heap_t *h, unsigned n) {
  runs_note_given(h, n);
  paged_settle(h);
  if (n <= h->own->pages_most) give_some_back(h, n);
  return runs_have_room(h, n);
}

void paged_free(heap_t *h, void *p, const char *call) {
  unsigned n = span_end_block(p, call);
  large_count(h, -1, 0 - bytes_in_pages(n));
  if (h == NULL) return give_run_back(h, p, n);
  if (unlikely(!runs_have_room(h, n)) && !make_page_room(h, n)) return give_run_back(h, p, n);
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
  slab_tally_change(more, 0);
  slab_thread_count(more, (int64_t)more > 0 ? more : 0);
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
