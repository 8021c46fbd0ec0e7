/* runs.c - runs of pages without blocks that a heap keeps for itself                 layer 5: stock
 * Contract: runs.h. */
#include "runs.h"

#include "../arena/purge.h"

static void count_pages(heap_t *h, unsigned n) { /* modulo 2^8 */
  h->own->kept_pages += (uint8_t)n;
  h->keeps_pages = h->own->kept_pages != 0;
}

/* Its place is empty afterwards. */
static run_t take_at(heap_t *h, unsigned at) {
  run_t run = h->own->page_runs[at];
  h->own->page_runs[at] = 0;
  count_pages(h, 0 - run_page_count(run));
  return run;
}

run_t runs_make_room(heap_t *h, unsigned n, size_t most) {
  unsigned at = h->own->next_page_run;
  bool is_full = h->own->page_runs[at] != 0 || h->own->kept_pages + n > most;
  for (unsigned i = 0; is_full && i < PAGE_RUNS_KEPT; i++, at++) /* the oldest first */
    if (h->own->page_runs[at % PAGE_RUNS_KEPT] != 0) return take_at(h, at % PAGE_RUNS_KEPT);
  return 0;
}

void runs_put(heap_t *h, void *p, unsigned n) {
  unsigned at = h->own->next_page_run;
  ASSERT(h->own->page_runs[at] == 0);
  h->own->next_page_run = (uint8_t)((at + 1) % PAGE_RUNS_KEPT);
  h->own->page_runs[at] = (uintptr_t)p | n;
  count_pages(h, n);
  ASSERT_VALID(runs_are_valid(h));
}

void *runs_take(heap_t *h, unsigned n) {
  for (unsigned i = 0; h->keeps_pages && i < PAGE_RUNS_KEPT; i++) {
    if (run_page_count(h->own->page_runs[i]) != n) continue;
    void *p = run_pages_at(take_at(h, i));
    span_renew_block(p, n);
    return p;
  }
  return NULL;
}

void runs_empty(heap_t *h) {
  for (unsigned i = 0; h->keeps_pages && i < PAGE_RUNS_KEPT; i++) {
    run_t run = take_at(h, i);
    slab_t *ended = run != 0 ? span_free(run_pages_at(run), run_page_count(run)) : NULL;
    if (ended != NULL) arena_release((void *)slab_base(ended), SPAN_SLICES);
  }
}

void runs_move(heap_t *to, heap_t *from) {
  ASSERT(!to->keeps_pages);
  if (!from->keeps_pages) return; /* its page may be untouched */
  memcpy(to->own->page_runs, from->own->page_runs, sizeof to->own->page_runs);
  memset(from->own->page_runs, 0, sizeof from->own->page_runs);
  count_pages(to, from->own->kept_pages);
  count_pages(from, 0u - from->own->kept_pages);
}

void runs_recount(heap_t *h) {
  unsigned pages = 0;
  for (unsigned i = 0; i < PAGE_RUNS_KEPT; i++) pages += run_page_count(h->own->page_runs[i]);
  count_pages(h, pages - h->own->kept_pages);
}

bool runs_are_valid(const heap_t *h) {
  unsigned pages = 0;
  for (unsigned i = 0; h->keeps_pages && i < PAGE_RUNS_KEPT; i++) {
    run_t run = h->own->page_runs[i];
    HOLDS(R3, run == 0 || span_was_freed(run_pages_at(run)));
    pages += run_page_count(run);
  }
  HOLDS(R3, !h->keeps_pages || pages == h->own->kept_pages);
  return true;
}
