/* malloc.c - the family of malloc, as standards name it and as fh_*                    layer 8: api
 * Owns:    nothing.   Called by: the program.   Calls: cold.c, callback.c, heap, stock, os.
 * Threads: any; contracts in freehold.h, and for the standard names in C23 7.24.3, POSIX and
 *          glibc's manual. Only this layer sets errno. */
#include "api.h"

#include <errno.h>

/* The fast paths themselves: heap/fast.h. */
FH_API void *malloc(size_t size) {
  if (!SECURE) return fast_malloc_or(size, api_malloc_slow);
  return secure_malloc(size, ORIGIN_MALLOC, api_malloc_slow);
}
FH_API void free(void *p) {
  if (!SECURE) return fast_free_or(p, false, api_free_slow);
  slab_t *s = fast_slab_here(p);
  if (unlikely(s == NULL)) return api_closed_free(p, ORIGIN_MALLOC, "free");
  secure_free_plain(s, p);
}
FH_API void *realloc(void *p, size_t size) { return api_realloc(p, size, "realloc"); }

static cold void *calloc_slow(size_t bytes) { return heap_clear(api_calloc_slow(bytes), bytes); }
static cold void *calloc_beyond(void) { return api_no_memory_for(SIZE_MAX, "calloc"); }
FH_API void *calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return calloc_beyond();
  if (SECURE) return secure_malloc(bytes, ORIGIN_MALLOC, api_calloc_slow); /* its blocks are zero */
  void *block = fast_malloc_or_null(bytes);
  if (unlikely(block == NULL)) return calloc_slow(bytes);
  return memset(block, 0, bytes);
}

FH_API void *reallocarray(void *p, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes))
    return api_no_memory_for(SIZE_MAX, "reallocarray");
  return api_realloc(p, bytes, "reallocarray");
}

static void free_sized_slow(void *p) { api_free(p, "free_sized"); }
static void free_aligned_sized_slow(void *p) { api_free(p, "free_aligned_sized"); }

/* The block's own size is at hand, so the given one is only checked. */
static always_inline void check_size(void *p, size_t size, size_t alignment, const char *call) {
  if (SECURE && p != NULL && !heap_is_foreign(p)) secure_check_size(p, size, call);
  if (!SECURE && unlikely(!fast_has_bytes(p, size))) heap_check_size(p, size, alignment, call);
}
FH_API void free_sized(void *p, size_t size) {
  check_size(p, size, 1, "free_sized");
  api_free_or(p, ORIGIN_MALLOC, "free_sized", free_sized_slow);
}
FH_API void free_aligned_sized(void *p, size_t alignment, size_t size) {
  api_check_alignment(p, alignment, "free_aligned_sized");
  check_size(p, size, alignment, "free_aligned_sized");
  api_free_or(p, ORIGIN_MALLOC, "free_aligned_sized", free_aligned_sized_slow);
}

/* jemalloc's name for the first; the flags' low six bits are the alignment's logarithm. */
FH_API void sdallocx(void *p, size_t size, int flags);
static void sdallocx_slow(void *p) { api_free(p, "sdallocx"); }
FH_API void sdallocx(void *p, size_t size, int flags) {
  size_t alignment = (size_t)1 << (flags & 63);
  api_check_alignment(p, alignment, "sdallocx");
  check_size(p, size, alignment, "sdallocx");
  api_free_or(p, ORIGIN_MALLOC, "sdallocx", sdallocx_slow);
}

static always_inline void *allocate_aligned(size_t alignment, size_t size,
                                            void *(*slow)(size_t alignment, size_t size)) {
  return api_aligned_or(alignment, size, ORIGIN_MALLOC, slow);
}

static cold void *aligned_alloc_slow(size_t alignment, size_t size) {
  return api_aligned_slow(alignment, size, ORIGIN_MALLOC, "aligned_alloc");
}
FH_API void *aligned_alloc(size_t alignment, size_t size) {
  if (unlikely(!is_power_of_two(alignment))) return api_invalid();
  return allocate_aligned(alignment, size, aligned_alloc_slow);
}

static cold int posix_memalign_slow(void **p, size_t alignment, size_t size) {
  int before = errno;
  void *block = api_aligned_slow(alignment, size, ORIGIN_MALLOC, "posix_memalign");
  errno = before;
  if (block == NULL) return ENOMEM;
  *p = block;
  return 0;
}

FH_API int posix_memalign(void **p, size_t alignment, size_t size) {
  if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0) return EINVAL;
  void *block =
    SECURE ? secure_aligned(alignment, size, ORIGIN_MALLOC) : fast_aligned_or_null(alignment, size);
  if (unlikely(block == NULL)) return posix_memalign_slow(p, alignment, size);
  *p = block;
  return 0;
}

FH_API size_t malloc_usable_size(void *p) { return api_usable_size(p, "malloc_usable_size"); }

static cold void *memalign_slow(size_t alignment, size_t size) {
  return api_aligned_slow(alignment, size, ORIGIN_MALLOC, "memalign");
}
/* glibc rounds an alignment that is no power of two up to the next one; EINVAL if there is none. */
FH_API void *memalign(size_t alignment, size_t size) {
  size_t power = 16;
  while (power < alignment && power != 0) power *= 2; /* Bound: the bits of a word */
  return likely(power != 0) ? allocate_aligned(power, size, memalign_slow) : api_invalid();
}

static cold void *valloc_slow(size_t alignment, size_t size) {
  return api_aligned_slow(alignment, size, ORIGIN_MALLOC, "valloc");
}
FH_API void *valloc(size_t size) { return allocate_aligned(os_page_size(), size, valloc_slow); }

static cold void *pvalloc_slow(size_t alignment, size_t size) {
  return api_aligned_slow(alignment, size, ORIGIN_MALLOC, "pvalloc");
}
FH_API void *pvalloc(size_t size) {
  size_t page = os_page_size();
  size_t whole = size > PTRDIFF_MAX ? size : align_up(max_size(size, 1), page);
  return allocate_aligned(page, whole, pvalloc_slow);
}

TWIN(malloc) void *fh_malloc(size_t size);
TWIN(calloc) void *fh_calloc(size_t count, size_t size);
TWIN(realloc) void *fh_realloc(void *p, size_t size);
TWIN(reallocarray) void *fh_reallocarray(void *p, size_t count, size_t size);
TWIN(free) void fh_free(void *p);
TWIN(free) void cfree(void *p);
TWIN(free_sized) void fh_free_sized(void *p, size_t size);
TWIN(free_aligned_sized) void fh_free_aligned_sized(void *p, size_t alignment, size_t size);
TWIN(aligned_alloc) void *fh_aligned_alloc(size_t alignment, size_t size);
TWIN(posix_memalign) int fh_posix_memalign(void **p, size_t alignment, size_t size);
#if !defined(__APPLE__)
TWIN(malloc_usable_size) size_t malloc_size(void *p); /* gperftools */
#endif

/* glibc's second names, for programs that look past `malloc`, and for libc.a. */
#if defined(__GLIBC__)
TWIN(malloc) void *__libc_malloc(size_t size);
TWIN(calloc) void *__libc_calloc(size_t count, size_t size);
TWIN(realloc) void *__libc_realloc(void *p, size_t size);
TWIN(free) void __libc_free(void *p);
TWIN(free) void __libc_cfree(void *p);
TWIN(memalign) void *__libc_memalign(size_t alignment, size_t size);
TWIN(valloc) void *__libc_valloc(size_t size);
TWIN(pvalloc) void *__libc_pvalloc(size_t size);
TWIN(posix_memalign) int __posix_memalign(void **p, size_t alignment, size_t size);
#endif
