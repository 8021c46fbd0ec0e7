/* cold.c - what the entry points do where the fast path ends                           layer 8: api
 * Owns:    nothing.   Called by: api.   Calls: closed.c, heap, arena, foreign.c, callback.c.
 * Threads: any; no heap is marked while a callback runs. */
#include "api.h"

/* Is there nothing between the call and the thread's heap? */
static always_inline bool is_plain(void) {
  return !SECURE && likely(api_is_open() && heap_chosen() == NULL);
}

static out_of_line void *finish(void *block) {
  api_look_for_news();
  api_deferred(false); /* even if memory is short: the next call may get what it frees */
  return likely(block != NULL) ? block : api_no_memory();
}

/* A request for some pages often finds a run that the heap keeps. */
static always_inline void *allocate_slowly(size_t alignment, size_t size, origin_t origin,
                                           bool is_zero, const char *call) {
  if (unlikely(!is_plain()))
    return api_closed_allocate(heap_chosen(), alignment, size, origin, is_zero, call);
  void *kept = likely(!api_has_news()) ? heap_malloc_kept(alignment, size) : NULL;
  if (kept != NULL) return kept;
  return finish(alignment == 1 ? heap_malloc_slow(size) : heap_aligned_slow(alignment, size));
}

cold void *api_malloc_slow(size_t size) {
  return allocate_slowly(1, size, ORIGIN_MALLOC, false, "malloc");
}
cold void *api_calloc_slow(size_t size) {
  return allocate_slowly(1, size, ORIGIN_MALLOC, true, "calloc");
}
cold void *api_aligned_slow(size_t alignment, size_t size, origin_t origin, const char *call) {
  return allocate_slowly(alignment, size, origin, false, call);
}

void api_free(void *p, const char *call) {
  if (unlikely(SECURE || api_is_closed())) return api_closed_free(p, ORIGIN_MALLOC, call);
  if (p != NULL && unlikely(heap_is_foreign(p))) return api_foreign_free(p, call);
  heap_free(p, call);
}

void api_free_slow(void *p) { api_free(p, "free"); }

size_t api_usable_size(const void *p, const char *call) {
  if (p != NULL && unlikely(heap_is_foreign(p))) return api_foreign_size(p, call);
  if (SECURE && p != NULL) return secure_size(p, call);
  return heap_usable_size(p, call);
}

/* The block moves to our heap. Out of line, for the stack's sake. */
static cold void *take_foreign(void *p, size_t size, const char *call) {
  return api_foreign_move(p, api_malloc_or(size, ORIGIN_MALLOC, api_malloc_slow), size, call);
}

void *api_realloc(void *p, size_t size, const char *call) {
  if (p == NULL) return api_malloc_or(size, ORIGIN_MALLOC, api_malloc_slow);
  if (unlikely(size == 0)) {
    api_free(p, call);
    return NULL;
  }
  void *resized = SECURE ? secure_resize_small(p, size, call) : NULL;
  if (SECURE && likely(resized != NULL)) return resized;
  if (!SECURE && likely(fast_fits_here(p, size))) return p;
  if (unlikely(SECURE || api_is_closed() || heap_chosen() != NULL))
    return api_closed_realloc(heap_chosen(), p, size, call);
  if (unlikely(heap_is_foreign(p))) return take_foreign(p, size, call);
  api_look_for_news();
  api_deferred(false); /* before anything moves: the callback may jump away */
  void *block = heap_realloc(p, size, call);
  return likely(block != NULL) ? block : api_no_memory();
}
