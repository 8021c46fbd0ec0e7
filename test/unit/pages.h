/* pages.h - blocks of a few pages, for the tests of span.c, runs.c and paged.c */
#ifndef PAGES_H
#define PAGES_H

#include "heaps.h"

#include "../../src/stock/magazine.h"
#include "../../src/stock/runs.h"

enum { PAGE = SPAN_PAGE };

unused static char *of_pages(unsigned n) { return fast_malloc((size_t)n * PAGE - 7); }
unused static bool is_paged(const void *p) { return map_find(p) != 0 && span_around(p) != NULL; }
unused static uint64_t free_pages(const void *p) {
  return atomic64_load_relaxed(&slab_of((void *)align_down((uintptr_t)p, SPAN_SIZE))->pages);
}
unused static bool is_free_page(const void *p) {
  return (free_pages(p) >> (uintptr_t)p % SPAN_SIZE / PAGE & 1) != 0;
}
/* What the heap keeps goes back, but no slices do to the system. */
unused static void keep_nothing(void) {
  heap_t *h = heap_enter();
  runs_empty(h);
  heap_exit(h);
}
/* The heap may keep as much as it ever may. */
unused static heap_t *may_keep_pages(void) {
  for (int i = 0; i < 100; i++) fast_free(of_pages(5));
  keep_nothing();
  my_heap()->own->more_pages = PAGE_RUNS_KEPT * SPAN_MOST;
  return my_heap();
}
/* The same of one that claims no more than it needs. */
unused static heap_t *may_keep_pages_later(void) {
  may_keep_pages()->own->more_pages = 0;
  return my_heap();
}

#endif
