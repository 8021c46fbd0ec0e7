/* kept.h - many blocks of one size, as several tests of the heap layer allocate and free them
 *
 * The file that includes it says how many: enum { MANY = 4000 }. */
#ifndef KEPT_H
#define KEPT_H

#include "heaps.h"

static char *kept[MANY];
static fh_heap_t *heap; /* whose blocks; NULL: the calling thread's */

/* As many blocks of that size, each with bytes of its own. */
unused static void allocate(void *size) {
  for (int i = 0; i < MANY; i++) {
    size_t n = *(size_t *)size;
    kept[i] = heap != NULL ? firstclass_aligned(heap, 1, n) : fast_malloc(n);
    CHECK(kept[i] != NULL);
    memset(kept[i], i, n);
  }
}

/* Frees those that are still there, all or from the `*from`th on. */
unused static void release(void *from) {
  for (int i = from != NULL ? *(int *)from : 0; i < MANY; i++) {
    if (kept[i] != NULL) fast_free(kept[i]);
    kept[i] = NULL;
  }
}

unused static uint64_t swaps_of(const heap_t *h) { return atomic64_load_relaxed(&h->swaps); }

static bool count_block(void *p, size_t size, void *count) {
  (void)p, (void)size;
  ++*(unsigned *)count;
  return true;
}
/* How many live blocks a visit finds. */
unused static unsigned visited(fh_heap_t *h) {
  unsigned count = 0;
  CHECK(firstclass_visit(h, &(visitor_t){.blocks = count_block, .context = &count}));
  return count;
}

#endif
