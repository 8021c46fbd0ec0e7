/* runs.c - runs of pages without blocks that a heap keeps for itself                 layer 5: stock
 * Contract: runs.h. */
#include "runs.h"

#include "../arena/purge.h"

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

void runs_put(heap_t *h, void *p, unsigned n) {
  ASSERT(h->own->kept_runs < PAGE_RUNS_KEPT);
  h->own->page_runs[h->own->kept_runs++] = (uintptr_t)p | n;
  count_pages(h, n);
  ASSERT_VALID(runs_are_valid(h));
}

void *runs_take(heap_t *h, unsigned n) {
  for (unsigned i = h->keeps_pages ? h->own->kept_runs : 0; i-- > 0;) { /* Bound: PAGE_RUNS_KEPT */
    if (run_page_count(h->own->page_runs[i]) != n) continue;
    void *p = run_pages_at(take_at(h, i));
    span_renew_block(p, n);
    return p;
  }
  return NULL;
}

void runs_empty(heap_t *h) {
  while (h->keeps_pages) { /* Bound: PAGE_RUNS_KEPT */
    run_t run = take_at(h, h->own->kept_runs - 1u);
    slab_t *ended = span_free(run_pages_at(run), run_page_count(run));
    if (ended != NULL) arena_release((void *)slab_base(ended), SPAN_SLICES);
  }
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
  for (unsigned i = 0; i < PAGE_RUNS_KEPT; i++) {
    run_t run = h->own->page_runs[i];
    if (run == 0) continue;
    h->own->page_runs[i] = 0;
    h->own->page_runs[n++] = run;
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
    pages += run_page_count(run);
  }
  HOLDS(R3, !h->keeps_pages || pages == h->own->kept_pages);
  return true;
}
