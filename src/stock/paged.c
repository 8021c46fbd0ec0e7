/* paged.c - blocks of a few pages                                                    layer 5: stock
 * Contract: paged.h. */
#include "paged.h"

#include "../arena/budget.h"
#include "../arena/purge.h"
#include "stock.h"

enum { SPREAD = 7 }; /* spans from heap to heap, so that threads rarely meet at one word */

static size_t pages_for(size_t size) { return (size + SPAN_PAGE - 1) >> SPAN_PAGE_SHIFT; }
static uint64_t paged_bytes(unsigned pages) { return (uint64_t)pages << SPAN_PAGE_SHIFT; }

/* Near the limit a block has slices that are its own: they are fewer. */
static out_of_line void *begin_span(heap_t *h, unsigned n) {
  bool clean;
  void *base = budget_is_tight() ? NULL : magazine_claim(h, SPAN_SLICES, SPAN_SLICES, 0, &clean);
  return base != NULL ? span_begin(base, clean, n) : NULL;
}

/* A run of so many pages that the heap has freed. */
static void *take_kept(heap_t *h, unsigned n) {
  for (unsigned i = 0; h->has_pages != 0 && i < PAGES_KEPT; i++) {
    uintptr_t run = h->own->pages[i];
    if ((run & PAGES_MASK) != n) continue;
    h->own->pages[i] = 0;
    span_renew_block((void *)(run & ~(uintptr_t)PAGES_MASK), n);
    return (void *)(run & ~(uintptr_t)PAGES_MASK);
  }
  return NULL;
}

static bool may_be_paged(const heap_t *h, size_t size, size_t alignment) {
  return !SECURE && size <= SPAN_MOST << SPAN_PAGE_SHIFT && alignment <= SPAN_PAGE &&
         heap_tag(h) == NULL;
}

void *paged_malloc(heap_t *h, size_t size, size_t alignment) {
  if (!may_be_paged(h, size, alignment)) return large_malloc(h, size, alignment);
  unsigned n = (unsigned)pages_for(size), spread = users_running() > 1 ? heap_number(h) : 0;
  void *p = take_kept(h, n);
  if (p == NULL) p = span_claim(n, spread * SPREAD);
  if (p == NULL) p = begin_span(h, n);
  if (p == NULL) return large_malloc(h, size, alignment);
  large_count(h, 1, paged_bytes(n));
  return p;
}

static void give_back_kept(heap_t *h, void *p, unsigned n) {
  slab_t *ended = span_free(p, n);
  if (ended == NULL) return;
  if (h == NULL) arena_release((void *)slab_base(ended), SPAN_SLICES);
  else magazine_put_run(h, ended, SPAN_SLICES, SPAN_SLICES, TOUCHED_ALL);
}

/* One that was kept before goes if there is no room for this one. */
static void keep(heap_t *h, void *p, unsigned n) {
  unsigned next = h->own->next_pages;
  uintptr_t *at = &h->own->pages[next], before = *at;
  h->own->next_pages = (uint8_t)((next + 1) % PAGES_KEPT);
  h->has_pages = 1;
  *at = (uintptr_t)p | n;
  if (before != 0) give_back_kept(h, (void *)(before & ~(uintptr_t)PAGES_MASK), before & PAGES_MASK);
}

void paged_free(heap_t *h, void *p, const char *call) {
  unsigned n = span_end_block(p, call);
  large_count(h, -1, 0 - paged_bytes(n));
  if (h == NULL || magazine_singles_most() == 0) give_back_kept(h, p, n);
  else keep(h, p, n);
}

void paged_empty(heap_t *h) {
  for (unsigned i = 0; h->has_pages != 0 && i < PAGES_KEPT; i++) {
    uintptr_t run = h->own->pages[i];
    h->own->pages[i] = 0;
    if (run != 0) give_back_kept(NULL, (void *)(run & ~(uintptr_t)PAGES_MASK), run & PAGES_MASK);
  }
  h->has_pages = 0;
}

bool paged_resize(void *p, size_t size) {
  size_t n = pages_for(size);
  uint64_t before = paged_bytes(span_pages(p, "realloc"));
  if (n > SPAN_MOST || !span_resize(p, (unsigned)n)) return false;
  uint64_t more = paged_bytes((unsigned)n) - before; /* or less */
  slab_tally_change(more, 0);
  slab_thread_count(more, (int64_t)more > 0 ? more : 0);
  return true;
}
