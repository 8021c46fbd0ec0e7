/* foreign.c - pointers that are not ours, and plug-ins that would make them            layer 8: api
 * Owns:    the addresses of libc's own functions.   Called by: cold.c, closed.c,
 *          lifecycle.c; dlopen by the program.   Calls: start.c, support, os, libc.
 * Threads: any. We call libc only for a block of its own heap; it takes its own locks there.
 * Sync:    none: the constructor writes the addresses before such a pointer can turn up; each is
 *          one word.
 *
 * A block of libc's heap comes from a plug-in opened with RTLD_DEEPBIND, or was allocated before
 * the library was loaded. The header that glibc keeps in front of it tells it from a wild pointer,
 * without touching memory that may not be there. A static program has no other heap, and no weak
 * dlsym either.
 *
 * A plug-in opened with RTLD_DEEPBIND finds libc's free before ours, and crashes when the program
 * hands it one of our blocks to free. php opens its extensions this way. Without the flag it finds
 * ours. Only in the shared library: a static program has its own dlopen. */
#if !defined(_WIN32) && !defined(__APPLE__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "api.h"

#include <dlfcn.h>
#include <errno.h>

#pragma weak dlsym

static atomic_ptr_t libc_free, libc_usable_size; /* relaxed: see Sync */

void api_foreign_start(void) {
#if defined(__GLIBC__) && defined(__LP64__)
  if (dlsym == NULL) return;
  atomic_ptr_store_relaxed(&libc_usable_size, dlsym(RTLD_NEXT, "malloc_usable_size"));
  atomic_ptr_store_relaxed(&libc_free, dlsym(RTLD_NEXT, "free"));
#endif
}

#if defined(FH_SHARED) && defined(__GLIBC__)
typedef void *libc_open_t(const char *file, int mode);
static atomic_ptr_t libc_open; /* NULL: not looked up yet */

/* A tail call: libc finds the caller's search path by the return address. */
FH_API void *dlopen(const char *file, int mode) {
  libc_open_t *open = (libc_open_t *)atomic_ptr_load_relaxed(&libc_open);
  if (open == NULL) atomic_ptr_store_relaxed(&libc_open, open = dlsym(RTLD_NEXT, "dlopen"));
  if (option_get(OPTION_deepbind) == DEEPBIND_IGNORE) mode &= ~RTLD_DEEPBIND;
  return open(file, mode);
}
#endif

/* ---- glibc's heap, as it is laid out in memory ----------------------------------------------- */

enum { CHUNK_BEFORE_IS_USED = 1, CHUNK_IS_MAPPED = 2, CHUNK_IS_OF_ARENA = 4, CHUNK_FLAGS = 7 };
enum { CHUNK_LEAST = 32 };
/* clang-format off */
/* Stands in front of the block. */
typedef struct { size_t before, size_and_flags; } foreign_chunk_t;

/* The start of a 64 MiB window in which an arena other than the main one keeps its chunks. */
#define FOREIGN_HEAP_SIZE MiB(64)
typedef struct { void *arena; uintptr_t previous; size_t size, writable_size; } foreign_heap_t;
/* clang-format on */

static size_t libc_chunk_size(const foreign_chunk_t *c) {
  return c->size_and_flags & ~(size_t)CHUNK_FLAGS;
}

/* A chunk with its own mapping: pages from the mapping's start to the chunk's end. The kernel
 * places it above the program and its brk heap. */
static bool is_mapped_chunk(const foreign_chunk_t *c) {
  uintptr_t from, to;
  os_break_range(&from, &to); /* even an empty range has an end */
  if ((uintptr_t)c < to) return false;
  size_t page = os_page_size(), size = libc_chunk_size(c);
  uintptr_t start = (uintptr_t)c - c->before, end = (uintptr_t)c + size;
  return c->before <= (uintptr_t)c && (uint64_t)size >> ADDRESS_BITS == 0 && start % page == 0 &&
         end % page == 0 && os_is_readable((const void *)(end - 1), 1);
}

/* A chunk between `from` and `to` is followed by another, which says that the first is in use. */
static bool is_chunk_between(const foreign_chunk_t *c, uintptr_t from, uintptr_t to) {
  uintptr_t at = (uintptr_t)c, size = libc_chunk_size(c);
  if (at < from || at >= to || size % 16 != 0 || size > to - at) return false;
  if (to - at - size < sizeof *c) return false;
  const foreign_chunk_t *next = (const foreign_chunk_t *)(at + size);
  return os_is_readable(next, sizeof *next) && (next->size_and_flags & CHUNK_BEFORE_IS_USED) != 0 &&
         libc_chunk_size(next) <= to - at - size;
}

static bool is_arena_chunk(const foreign_chunk_t *c) {
  const foreign_heap_t *heap = (const foreign_heap_t *)align_down((uintptr_t)c, FOREIGN_HEAP_SIZE);
  if (!os_is_readable(heap, sizeof *heap)) return false;
  return heap->arena != NULL && (uintptr_t)heap->arena % 16 == 0 &&
         heap->previous % FOREIGN_HEAP_SIZE == 0 && heap->size <= heap->writable_size &&
         heap->writable_size <= FOREIGN_HEAP_SIZE && heap->size % os_page_size() == 0 &&
         os_is_readable(heap->arena, 1) &&
         is_chunk_between(c, (uintptr_t)(heap + 1), (uintptr_t)heap + heap->size);
}

static bool is_libc_block(const void *p) {
  if (atomic_ptr_load_relaxed(&libc_free) == NULL || (uintptr_t)p % 16 != 0) return false;
  const foreign_chunk_t *c = (const foreign_chunk_t *)p - 1;
  if (!os_is_readable(c, sizeof *c) || libc_chunk_size(c) < CHUNK_LEAST) return false;
  if ((c->size_and_flags & CHUNK_IS_MAPPED) != 0) return is_mapped_chunk(c);
  if ((c->size_and_flags & CHUNK_IS_OF_ARENA) != 0) return is_arena_chunk(c);
  uintptr_t from, to;
  return os_break_range(&from, &to) && is_chunk_between(c, from, to);
}

/* ---- what is asked --------------------------------------------------------------------------- */

/* Out of line, like the next: this keeps the stack short on the paths to them. */
out_of_line void api_foreign_free(void *p, const char *call) {
  api_start();
  if (!is_libc_block(p)) fatal("invalid pointer", p, call);
  int error = errno; /* glibc before 2.33 does not keep it */
  ((void (*)(void *))atomic_ptr_load_relaxed(&libc_free))(p);
  errno = error;
}

out_of_line size_t api_foreign_size(const void *p, const char *call) {
  api_start();
  size_t (*usable_size)(const void *) =
    (size_t(*)(const void *))atomic_ptr_load_relaxed(&libc_usable_size);
  if (usable_size == NULL || !is_libc_block(p)) fatal("invalid pointer", p, call);
  return usable_size(p);
}
#endif
