/* closed.c - every call, when an option wants to see all of them                       layer 8: api
 * Owns:    nothing.   Called by: api.
 *          Calls: foreign.c, callback.c, answer.c, start.c, heap, slab, arena, support.
 * Threads: any; no heap is marked while a callback runs.
 *
 * The fast paths are then closed (here.h), so each call comes here, and such options need no test
 * elsewhere. In the secure grade rare cases always come here. The process's first call comes here
 * too, to find out. Calls that freehold makes for its own memory do not. */
#include "api.h"

#include "../heap/enter.h"
#include "../heap/firstclass.h"
#include "../support/timing.h"
#include "../support/trace.h"

/* What the call asks for. */
typedef struct {
  struct fh_heap *heap; /* NULL: the thread's own */
  size_t alignment, size;
  origin_t origin;
  const char *call;
  trace_kind_t kind;
} request_t;

/* ---- what is recorded ------------------------------------------------------------------------ */

static always_inline void record_event(trace_event_t *e) {
  if (!trace_is_on()) return;
  heap_close_own();
  trace_record(e, heap_of_thread() != NULL);
}

static out_of_line void record(trace_kind_t kind, const void *p, const request_t *r, bool failed) {
  trace_event_t e = {.kind = kind, .failed = failed, .address = (uintptr_t)p};
  if (r != NULL) e.size = r->size, e.alignment = r->alignment, e.heap = (uintptr_t)r->heap;
  record_event(&e);
}

/* Returns the free that is already under way, if any. */
static out_of_line uint64_t record_free(trace_kind_t kind, const void *p, void *caller) {
  trace_event_t e = {.kind = kind, .address = (uintptr_t)p, .frames = {(uintptr_t)caller}};
  uint64_t before = *trace_freeing();
  record_event(&e);
  return before;
}

void api_closed_expanded(void *p, size_t size, bool is_done) {
  record(TRACE_EXPAND, p, &(request_t){NULL, 1, size, ORIGIN_MALLOC, NULL, TRACE_EXPAND}, !is_done);
}

void api_closed_heap_ends(struct fh_heap *heap, bool is_destroyed) {
  record(is_destroyed ? TRACE_DESTROY : TRACE_DELETE, heap, NULL, false);
}

/* ---- the heap, or the layer that checks its blocks ------------------------------------------- */

static void *allocate_any(const request_t *r) {
  if (SECURE) return secure_allocate(r->heap, r->alignment, r->size, r->origin);
  if (r->heap != NULL) return firstclass_aligned(r->heap, r->alignment, r->size);
  return r->alignment == 1 ? heap_malloc_slow(r->size) : heap_aligned_slow(r->alignment, r->size);
}
static size_t usable_of(const void *p, const char *call) {
  return SECURE ? secure_size(p, call) : heap_usable_size(p, call);
}
static void give_back(void *p, origin_t origin, const char *call) {
  if (SECURE) secure_free(p, origin, call);
  else heap_free(p, call);
}

/* ---- what is filled -------------------------------------------------------------------------- */

enum { FILLED_NEW = 0xD0, FILLED_FREED = 0x5A };

static bool fills(int64_t what) { return (option_get(OPTION_fill) & what) != 0; }

static void let_go_if_asked(void) {
  if (option_get(OPTION_caches)) return;
  if (SECURE) secure_end_quarantine();
  heap_give_up_own();
}

static void fill_new(char *block, size_t from) {
  size_t usable = usable_of(block, "malloc");
  if (usable > from) memset(block + from, FILLED_NEW, usable - from);
}

/* `fatal` if `p` is no live block. */
static void fill_freed(void *p, const char *call) {
  if (fills(FILL_FREE)) memset(p, FILLED_FREED, usable_of(p, call));
}

static void *refuse(const request_t *r) { return api_no_memory_for(r->size, r->call); }

/* If more was put into bins, a bin was filled. For a lane nobody knows. */
static void *allocate_timed(const request_t *r) {
  uint64_t binned = atomic64_load_relaxed(&slab_thread.binned), began = timing_begin();
  void *block = allocate_any(r);
  bool is_large = class_of_request(r->size, r->alignment) == 0;
  bool is_filled = r->heap == NULL && !atomic64_is_relaxed(&slab_thread.binned, binned);
  if (is_large || is_filled) timing_end(is_large ? TIMING_LARGE : TIMING_REFILL, began);
  timing_end_marked(began);
  return block;
}

static void *serve(const request_t *r) {
  void *block = allocate_timed(r);
  if (block != NULL && r->kind != TRACE_CALLOC && fills(FILL_ALLOC)) fill_new(block, 0);
  record(r->kind, block, r, block == NULL);
  if (block == NULL && option_get(OPTION_abort_on_oom)) return refuse(r); /* without callbacks */
  let_go_if_asked();
  api_look_for_news();
  api_deferred(false);
  return likely(block != NULL) ? block : refuse(r);
}

cold void *api_closed_allocate(struct fh_heap *heap, size_t alignment, size_t size, origin_t origin,
                               bool is_calloc, const char *call) {
  trace_kind_t kind = is_calloc ? TRACE_CALLOC : alignment == 1 ? TRACE_MALLOC : TRACE_ALIGNED;
  api_start();
  return serve(&(request_t){heap, alignment, size, origin, call, kind});
}

cold void api_closed_free(void *p, origin_t origin, const char *call) {
  if (p == NULL) return;
  if (unlikely(heap_is_foreign(p))) return api_foreign_free(p, call);
  uint64_t before = record_free(TRACE_FREE, p, __builtin_return_address(0));
  fill_freed(p, call);
  uint64_t began = timing_begin();
  give_back(p, origin, call);
  timing_end(TIMING_FREE, began);
  timing_end_marked(began);
  let_go_if_asked();
  *trace_freeing() = before;
}

/* As the heap does it, but a block that was copied is freed here. */
static out_of_line void *resize_and_fill(const request_t *r, void *p) {
  size_t before = usable_of(p, r->call), from = before;
  bool moves = option_get(OPTION_realloc_moves) != 0;
  char *block = moves || SECURE ? NULL : heap_resize(p, r->size, r->heap, r->call);
  if (block == NULL) {
    block = allocate_any(r);
    if (block == NULL) {
      if (SECURE) return r->size <= before ? secure_resize(r->heap, p, r->size, r->call) : NULL;
      return heap_stay(p, r->size, r->call) ? p : NULL;
    }
    from = min_size(r->size, before);
    memcpy(block, p, from);
    fill_freed(p, r->call);
    give_back(p, r->origin, r->call);
  }
  if (fills(FILL_ALLOC)) fill_new(block, from);
  return block;
}

static void *resize_plainly(const request_t *r, void *p) {
  if (SECURE) return secure_resize(r->heap, p, r->size, r->call);
  return r->heap != NULL ? firstclass_realloc(r->heap, p, r->size, r->call)
                         : heap_realloc(p, r->size, r->call);
}

void *api_foreign_move(void *p, void *block, size_t size, const char *call) {
  size_t old_size = api_foreign_size(p, call);
  if (block == NULL) return NULL;
  memcpy(block, p, min_size(size, old_size));
  api_foreign_free(p, call);
  return block;
}

cold void *api_closed_realloc(struct fh_heap *heap, void *p, size_t size, const char *call) {
  request_t r = {heap, 1, size, ORIGIN_MALLOC, call, TRACE_MALLOC};
  if (unlikely(heap_is_foreign(p))) return api_foreign_move(p, serve(&r), size, call);
  api_look_for_news();
  api_deferred(false); /* before anything moves: the callback may jump away */
  bool is_plain = option_get(OPTION_fill) == FILL_OFF && !option_get(OPTION_realloc_moves);
  uint64_t before = record_free(TRACE_FROM, p, __builtin_return_address(0));
  void *block = is_plain ? resize_plainly(&r, p) : resize_and_fill(&r, p);
  *trace_freeing() = before;
  record(TRACE_TO, block, &r, block == NULL);
  let_go_if_asked();
  return likely(block != NULL) ? block : refuse(&r);
}
