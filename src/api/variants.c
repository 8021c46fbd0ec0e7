/* variants.c - what bindings of other languages would otherwise build on malloc        layer 8: api
 * Owns:    nothing.   Called by: the program.   Calls: cold.c, malloc.c, heaps.c, ext.c, heap,
 *          stock, os.
 * Threads: any; contracts in freehold.h. */
#include "api.h"

/* `*actual`, unless `actual` is NULL: the bytes that the block has. */
static void *with_actual(void *p, size_t *actual, const char *call) {
  if (actual != NULL) *actual = p == NULL ? 0 : api_usable_size(p, call);
  return p;
}

/* ---- zero ------------------------------------------------------------------------------------ */

/* The block is fresh: makes `bytes` bytes of it zero, or all that it has if `actual` asks for
 * these. A block that an option has filled no longer looks fresh. */
static void *cleared(void *p, size_t bytes, size_t *actual, const char *call) {
  with_actual(p, actual, call);
  if (p == NULL) return NULL;
  if (actual != NULL) bytes = *actual;
  if (unlikely(api_is_closed())) return memset(p, 0, bytes);
  return SECURE ? p : heap_clear(p, bytes);
}

FH_API void *fh_calloc_at_least(size_t count, size_t size, size_t *actual) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX; /* no system has so much */
  void *p = api_malloc_or(bytes, ORIGIN_MALLOC, api_calloc_slow);
  return cleared(p, bytes, actual, "fh_calloc_at_least");
}

FH_API void *fh_calloc_aligned_at_least(size_t alignment, size_t count, size_t size,
                                        size_t *actual) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
  void *p = fh_aligned_alloc(alignment, bytes);
  return cleared(p, bytes, actual, "fh_calloc_aligned_at_least");
}
FH_API void *fh_calloc_aligned(size_t alignment, size_t count, size_t size) {
  return fh_calloc_aligned_at_least(alignment, count, size, NULL);
}

/* The first `from` bytes stay as they are. In the secure grade nothing beyond the block's old size
 * needs clearing; elsewhere pages that nobody wrote stay as they are. */
static void *resize_and_clear(void *p, size_t from, size_t size, size_t *actual, const char *call) {
  if (p == NULL)
    return cleared(api_malloc_or(size, ORIGIN_MALLOC, api_calloc_slow), size, actual, call);
  size_t before = api_usable_size(p, call);
  if (from > before) fatal("wrong size", p, call);
  char *block = with_actual(api_realloc(p, size, call), actual, "fh_realloc_zeroed_at_least");
  if (block == NULL) return NULL;
  size_t end = actual != NULL ? *actual : size;
  if (SECURE && !api_is_closed()) end = min_size(end, before);
  if (end > from) large_clear_from(block, from, end);
  return block;
}
FH_API void *fh_realloc_zeroed(void *p, size_t old_size, size_t size) {
  return resize_and_clear(p, old_size, size, NULL, "fh_realloc_zeroed");
}
FH_API void *fh_realloc_zeroed_at_least(void *p, size_t old_size, size_t size, size_t *actual) {
  return resize_and_clear(p, old_size, size, actual, "fh_realloc_zeroed_at_least");
}

/* ---- aligned, and at least ------------------------------------------------------------------- */

/* Is it worthwhile to keep a block of `usable` bytes for `size`? */
static bool is_right(size_t usable, size_t size) {
  return fast_fits(usable, size) || (usable > SMALL_MOST && size > SMALL_MOST);
}

/* Does the block stay aligned whatever realloc does? Moved pages begin at a slice. */
static out_of_line bool stays_aligned(void *p, size_t alignment, size_t size, const char *call) {
  if (alignment <= CLASS_STEP || size == 0) return true;
  return alignment <= SLICE_SIZE && (uintptr_t)p % alignment == 0 &&
         min_size(api_usable_size(p, call), size) >= MOVED_LEAST;
}

static out_of_line void *copy_aligned(void *p, size_t alignment, size_t size, const char *call) {
  size_t usable = api_usable_size(p, call);
  bool is_aligned = (uintptr_t)p % alignment == 0;
  if (is_aligned && is_right(usable, size) && fh_expand(p, size)) return p;
  void *block = fh_aligned_alloc(alignment, size);
  if (block == NULL) return is_aligned && size <= usable && fh_expand(p, size) ? p : NULL;
  memcpy(block, p, min_size(size, usable));
  api_free(p, call);
  return block;
}

static void *resize_aligned(void *p, size_t alignment, size_t size, const char *call) {
  if (p == NULL || !is_power_of_two(alignment)) return fh_aligned_alloc(alignment, size);
  return stays_aligned(p, alignment, size, call) ? api_realloc(p, size, call)
                                                 : copy_aligned(p, alignment, size, call);
}

FH_API void *fh_realloc_aligned(void *p, size_t alignment, size_t size) {
  return resize_aligned(p, alignment, size, "fh_realloc_aligned");
}
FH_API void *fh_realloc_aligned_at_least(void *p, size_t alignment, size_t size, size_t *actual) {
  const char *call = "fh_realloc_aligned_at_least";
  return with_actual(resize_aligned(p, alignment, size, call), actual, call);
}
FH_API void *fh_aligned_alloc_at_least(size_t alignment, size_t size, size_t *actual) {
  return with_actual(fh_aligned_alloc(alignment, size), actual, "fh_aligned_alloc_at_least");
}
FH_API void *fh_malloc_at_least(size_t size, size_t *actual) {
  return with_actual(api_malloc_or(size, ORIGIN_MALLOC, api_malloc_slow), actual,
                     "fh_malloc_at_least");
}
FH_API void *fh_realloc_at_least(void *p, size_t size, size_t *actual) {
  const char *call = "fh_realloc_at_least";
  return with_actual(api_realloc(p, size, call), actual, call);
}

/* ---- strings --------------------------------------------------------------------------------- */

static char *copy_into(char *to, const char *text, size_t length) {
  if (to == NULL) return NULL;
  memcpy(to, text, length);
  to[length] = '\0';
  return to;
}
static size_t length_within(const char *text, size_t most) {
  const char *end = memchr(text, '\0', min_size(most, PTRDIFF_MAX));
  return end != NULL ? (size_t)(end - text) : most;
}

FH_API char *fh_strdup(const char *text) {
  size_t length = strlen(text);
  return copy_into(api_malloc_or(length + 1, ORIGIN_MALLOC, api_malloc_slow), text, length);
}
FH_API char *fh_strndup(const char *text, size_t most) {
  size_t length = length_within(text, most);
  return copy_into(api_malloc_or(length + 1, ORIGIN_MALLOC, api_malloc_slow), text, length);
}
FH_API char *fh_heap_strdup(fh_heap_t *heap, const char *text) {
  size_t length = strlen(text);
  return copy_into(fh_heap_malloc(heap, length + 1), text, length);
}
FH_API char *fh_heap_strndup(fh_heap_t *heap, const char *text, size_t most) {
  size_t length = length_within(text, most);
  return copy_into(fh_heap_malloc(heap, length + 1), text, length);
}

/* ---- batches --------------------------------------------------------------------------------- */

static cold void *malloc_batch_slow(size_t size) {
  if (likely(!api_is_closed())) return api_malloc_slow(size);
  return api_closed_allocate(heap_chosen(), 1, size, ORIGIN_MALLOC, false, "fh_malloc_batch");
}

/* Takes what the bin has, then one more block by a call that refills the bin. */
FH_API size_t fh_malloc_batch(size_t size, size_t count, void **blocks) {
  size_t n = 0;
  while (n < count) { /* Bound: the caller's blocks */
    if (!SECURE) n += heap_take_many(size, count - n, blocks + n);
    if (n == count) break;
    void *p = api_malloc_or(size, ORIGIN_MALLOC, malloc_batch_slow);
    if (p == NULL) break;
    blocks[n++] = p;
  }
  return n;
}

static void free_batch_slow(void *p) { api_free(p, "fh_free_batch"); }

FH_API void fh_free_batch(void *const *blocks, size_t count) {
  size_t n = 0;
  while (n < count) { /* Bound: the caller's blocks */
    if (!SECURE) n += heap_free_many(blocks + n, count - n);
    if (n < count) api_free_or(blocks[n++], ORIGIN_MALLOC, "fh_free_batch", free_batch_slow);
  }
}

/* ---- names that programs look for ------------------------------------------------------------ */

/* jemalloc's flags: the low six bits are the alignment's logarithm. */
enum { NALLOCX_ALIGNMENT = 63 };

FH_API size_t nallocx(size_t size, int flags);
FH_API size_t nallocx(size_t size, int flags) {
  size_t alignment = (size_t)1 << (flags & NALLOCX_ALIGNMENT);
  if (size > (size_t)PTRDIFF_MAX - os_page_size() || alignment > WINDOW_SIZE) return 0;
  return SECURE ? size : heap_good_size(size, alignment);
}
