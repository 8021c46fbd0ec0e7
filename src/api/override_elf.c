/* override_elf.c - glibc's second names for malloc                                     layer 6: api
 * Owns:    nothing.   Called by: programs that look past `malloc`, and libc.a.   Calls: heap.
 * Threads: any. A program's own `malloc` may call these, so none of them calls a function that the
 *          program could have replaced. */
#include "api.h"

#if defined(__GLIBC__)

#include <errno.h>

#include "../../include/freehold/freehold.h"
#include "../heap/fast.h"
#include "../heap/heap.h"
#include "../os/os.h"

FH_API void *__libc_malloc(size_t size);
FH_API void *__libc_calloc(size_t count, size_t size);
FH_API void *__libc_realloc(void *p, size_t size);
FH_API void __libc_free(void *p);
FH_API void __libc_cfree(void *p);
FH_API void *__libc_memalign(size_t alignment, size_t size);
FH_API void *__libc_valloc(size_t size);
FH_API void *__libc_pvalloc(size_t size);
FH_API int __posix_memalign(void **p, size_t alignment, size_t size);

void *__libc_malloc(size_t size) { return fast_malloc(size); }
void *__libc_calloc(size_t count, size_t size) { return heap_calloc(count, size); }
void *__libc_realloc(void *p, size_t size) { return heap_realloc(p, size, "realloc"); }
void __libc_free(void *p) { fast_free(p); }
void __libc_cfree(void *p) { fast_free(p); }

/* As glibc's: an alignment that is no power of two counts as the next one. */
void *__libc_memalign(size_t alignment, size_t size) {
  size_t power = 16;
  while (power < alignment && power <= SIZE_MAX / 2) power *= 2;
  if (power < alignment) {
    errno = EINVAL;
    return NULL;
  }
  return heap_aligned(power, size);
}

void *__libc_valloc(size_t size) { return heap_aligned(os_page_size(), size); }

void *__libc_pvalloc(size_t size) {
  size_t page = os_page_size();
  return heap_aligned(page, size > SIZE_MAX - page ? size : align_up(size, page));
}

int __posix_memalign(void **p, size_t alignment, size_t size) {
  if (alignment < sizeof(void *) || !is_power_of_two(alignment)) return EINVAL;
  int before = errno;
  void *block = heap_aligned(alignment, size);
  errno = before;
  if (block == NULL) return ENOMEM;
  *p = block;
  return 0;
}

#endif
