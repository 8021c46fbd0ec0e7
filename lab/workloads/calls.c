/* calls.c - a library to preload that counts the blocks a program asks libc for
 *
 * Threads: any; a relaxed counter of all.
 * When the process ends, one line with the number goes to the file that CALLS_FILE names. For the
 * test that compares a workload's operations with what it did; nothing is measured with it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static atomic_long calls;

static void count(void) { atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed); }

void *malloc(size_t size) {
  count();
  return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
  count();
  return __libc_calloc(number, size);
}

void *realloc(void *p, size_t size) {
  count();
  return __libc_realloc(p, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  count();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
  void *p = aligned_alloc(alignment, size);
  if (p == NULL) return ENOMEM;
  *result = p;
  return 0;
}

/* A workload looks for these where malloc is. */

int malloc_trim(size_t pad) {
  return ((int (*)(size_t))(uintptr_t)dlsym(RTLD_NEXT, "malloc_trim"))(pad);
}

struct mallinfo2 mallinfo2(void) {
  return ((struct mallinfo2(*)(void))(uintptr_t)dlsym(RTLD_NEXT, "mallinfo2"))();
}

__attribute__((destructor)) static void write_count(void) {
  const char *path = getenv("CALLS_FILE");
  int file = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  dprintf(file, "%ld\n", atomic_load(&calls));
  close(file);
}
