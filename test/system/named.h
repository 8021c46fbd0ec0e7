/* named.h - in front of a test's first line: what it calls malloc is fh_malloc, and
 * libc's own malloc stays libc's
 *
 * So the system tests run in a process whose malloc belongs to a sanitizer. */
#ifndef TEST_SYSTEM_NAMED_H
#define TEST_SYSTEM_NAMED_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <malloc.h>
#include <stdlib.h>

#include "../../include/freehold/freehold.h"

#define malloc fh_malloc
#define calloc fh_calloc
#define realloc fh_realloc
#define reallocarray fh_reallocarray
#define free fh_free
#define free_sized fh_free_sized
#define free_aligned_sized fh_free_aligned_sized
#define aligned_alloc fh_aligned_alloc
#define posix_memalign fh_posix_memalign
#define malloc_usable_size fh_usable_size
#define memalign fh_aligned_alloc
#define valloc(size) fh_aligned_alloc(4096, size)
#define pvalloc(size) fh_aligned_alloc(4096, ((size) + 4095) & ~(size_t)4095)
#define malloc_trim(pad) fh_collect((pad) == 0)
#define mallinfo2() named_statistics() /* libc's own starts libc's heap, which no handler may do */

static inline bool named_statistics(void) {
  fh_stats_t stats = {.struct_size = sizeof stats};
  return fh_stats_get(&stats);
}

#endif
