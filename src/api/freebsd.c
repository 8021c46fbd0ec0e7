/* freebsd.c - the names that only FreeBSD's malloc has                                 layer 8: api
 * Owns:    nothing.   Called by: the program.   Calls: the public functions.
 * Threads: any. Compiled, but never run. libc's own functions would hand out blocks of libc's heap,
 *          of which free knows nothing. mallctl stays libc's, and reports that heap. */
#if defined(__FreeBSD__)
#include "api.h"

enum { FLAGS_ALIGNMENT = 63, FLAG_ZERO = 64 }; /* the low six bits: the alignment's logarithm */
static size_t alignment_of(int flags) { return (size_t)1 << (flags & FLAGS_ALIGNMENT); }

FH_API void *mallocx(size_t size, int flags);
FH_API void *rallocx(void *p, size_t size, int flags);
FH_API size_t xallocx(void *p, size_t size, size_t extra, int flags);
FH_API size_t sallocx(const void *p, int flags);
FH_API void dallocx(void *p, int flags);

FH_API void *mallocx(size_t size, int flags) {
  if ((flags & FLAG_ZERO) != 0) return fh_calloc_aligned(alignment_of(flags), 1, size);
  return fh_aligned_alloc(alignment_of(flags), size);
}
FH_API void *rallocx(void *p, size_t size, int flags) {
  size_t before = fh_usable_size(p);
  char *block = fh_realloc_aligned(p, alignment_of(flags), size);
  if (block != NULL && (flags & FLAG_ZERO) != 0 && size > before)
    memset(block + before, 0, size - before);
  return block;
}
FH_API size_t xallocx(void *p, size_t size, size_t extra, int flags) {
  (void)flags;
  if (size + extra < size || !fh_expand(p, size + extra)) fh_expand(p, size);
  return fh_usable_size(p);
}
FH_API size_t sallocx(const void *p, int flags) { return (void)flags, fh_usable_size(p); }
FH_API void dallocx(void *p, int flags) {
  (void)flags;
  fh_free(p);
}
#endif
