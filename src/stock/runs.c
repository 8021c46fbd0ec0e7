/* runs.c - runs of pages without blocks that a heap keeps for itself                 layer 5: stock
 * Contract: runs.h. */
#include "runs.h"

#include "../arena/purge.h"

run_t runs_put(heap_t *h, void *p, unsigned n) {
  unsigned at = h->own->next_run;
  run_t before = h->own->runs[at];
  h->own->next_run = (uint8_t)((at + 1) % RUNS_KEPT);
  h->has_runs = 1;
  h->own->runs[at] = (uintptr_t)p | n;
  ASSERT_VALID(runs_are_valid(h));
  return before;
}

void *runs_take(heap_t *h, unsigned n) {
  for (unsigned i = 0; h->has_runs != 0 && i < RUNS_KEPT; i++) {
    run_t run = h->own->runs[i];
    if (run_page_count(run) != n) continue;
    h->own->runs[i] = 0;
    span_renew_block(run_pages_at(run), n);
    return run_pages_at(run);
  }
  return NULL;
}

void runs_empty(heap_t *h) {
  for (unsigned i = 0; h->has_runs != 0 && i < RUNS_KEPT; i++) {
    run_t run = h->own->runs[i];
    h->own->runs[i] = 0;
    slab_t *ended = run != 0 ? span_free(run_pages_at(run), run_page_count(run)) : NULL;
    if (ended != NULL) arena_release((void *)slab_base(ended), SPAN_SLICES);
  }
  h->has_runs = 0;
}

void runs_move(heap_t *to, heap_t *from) {
  ASSERT(to->has_runs == 0);
  if (from->has_runs == 0) return; /* its page may be untouched */
  memcpy(to->own->runs, from->own->runs, sizeof to->own->runs);
  memset(from->own->runs, 0, sizeof from->own->runs);
  to->has_runs = 1;
  from->has_runs = 0;
}

bool runs_are_valid(const heap_t *h) {
  for (unsigned i = 0; h->has_runs != 0 && i < RUNS_KEPT; i++)
    HOLDS(R3, h->own->runs[i] == 0 || span_was_freed(run_pages_at(h->own->runs[i])));
  return true;
}
