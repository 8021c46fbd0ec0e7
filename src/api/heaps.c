/* heaps.c - first-class heaps, by their public names                                   layer 8: api
 * Owns:    nothing.   Called by: the program.
 *          Calls: cold.c, closed.c, callback.c, start.c, secure, heap, stock, arena.
 * Threads: any; contracts in freehold.h. */
#include "api.h"

#include "../heap/enter.h"
#include "../heap/firstclass.h"
#include "../stock/lanes.h"

static void *of_heap(void *block) {
  api_look_for_news();
  if (likely(block != NULL)) return block;
  api_deferred(false); /* the next call may get what it frees */
  return api_no_memory();
}

FH_API fh_heap_t *fh_heap_new(void) {
  api_start();
  return of_heap(firstclass_new());
}
FH_API fh_heap_t *fh_heap_new_with(const fh_heap_options_t *options) {
  api_start();
  if (options != NULL && options->struct_size == sizeof *options)
    return of_heap(firstclass_new_with(options->name, options->quota));
  return api_invalid();
}
FH_API void fh_heap_set_quota(fh_heap_t *heap, size_t bytes) {
  atomic64_store_relaxed(&heap->quota, bytes);
}
FH_API bool fh_heap_stats_get(fh_heap_t *heap, fh_heap_stats_t *stats) {
  if (stats == NULL || stats->struct_size != sizeof *stats) return false;
  firstclass_stats(heap, stats);
  return true;
}
FH_API fh_heap_t *fh_heap_set_default(fh_heap_t *heap) {
  api_start();
  return heap_choose(heap);
}
FH_API void fh_heap_collect(fh_heap_t *heap) { firstclass_collect_one(heap); }
FH_API fh_heap_t *fh_heap_of(const void *p) {
  return p == NULL || heap_is_foreign(p) ? NULL : heap_of_block(p, "fh_heap_of");
}
static void *allocate_in(fh_heap_t *heap, size_t alignment, size_t size, bool is_calloc,
                         const char *call) {
  if (unlikely(SECURE || api_is_closed()))
    return api_closed_allocate(heap, alignment, size, ORIGIN_MALLOC, is_calloc, call);
  return of_heap(firstclass_aligned(heap, alignment, size));
}
FH_API void *fh_heap_malloc(fh_heap_t *heap, size_t size) {
  return allocate_in(heap, 1, size, false, "fh_heap_malloc");
}
FH_API void *fh_heap_calloc(fh_heap_t *heap, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes))
    return api_no_memory_for(SIZE_MAX, "fh_heap_calloc");
  void *block = allocate_in(heap, 1, bytes, true, "fh_heap_calloc");
  return SECURE ? block : heap_clear(block, bytes); /* already zero there */
}
/* As in api_realloc. */
static cold void *take_foreign_into(fh_heap_t *heap, void *p, size_t size, const char *call) {
  return api_foreign_move(p, of_heap(firstclass_aligned(heap, 1, size)), size, call);
}
FH_API void *fh_heap_realloc(fh_heap_t *heap, void *p, size_t size) {
  const char *call = "fh_heap_realloc";
  if (p == NULL) return allocate_in(heap, 1, size, false, call);
  if (size == 0) {
    api_free(p, call);
    return NULL;
  }
  if (unlikely(SECURE || api_is_closed())) return api_closed_realloc(heap, p, size, call);
  if (unlikely(heap_is_foreign(p))) return take_foreign_into(heap, p, size, call);
  return of_heap(firstclass_realloc(heap, p, size, call));
}
FH_API void fh_heap_delete(fh_heap_t *heap) {
  if (unlikely(api_is_closed())) api_closed_heap_ends(heap, false);
  firstclass_delete(heap);
}
FH_API void fh_heap_destroy(fh_heap_t *heap) {
  if (unlikely(api_is_closed())) api_closed_heap_ends(heap, true);
  if (SECURE) secure_heap_ends(heap);
  firstclass_destroy(heap);
}
static bool visit_checked(void *p, size_t usable, void *context) {
  const visitor_t *to = context;
  size_t size = usable;
  return !secure_visited(p, &size) || to->blocks(p, size, to->context);
}
FH_API bool fh_heap_visit(fh_heap_t *heap, fh_visitor_t *visitor, void *context) {
  visitor_t to = {.blocks = visitor, .context = context};
  return firstclass_visit(heap,
                          SECURE ? &(visitor_t){.blocks = visit_checked, .context = &to} : &to);
}
FH_API bool fh_heap_visit_areas(fh_heap_t *heap, fh_area_visitor_t *visitor, void *context) {
  return firstclass_visit(heap, &(visitor_t){.areas = visitor, .context = context});
}

FH_API void *fh_heap_aligned_alloc(fh_heap_t *heap, size_t alignment, size_t size) {
  return likely(is_power_of_two(alignment))
           ? allocate_in(heap, alignment, size, false, "fh_heap_aligned_alloc")
           : api_invalid();
}
