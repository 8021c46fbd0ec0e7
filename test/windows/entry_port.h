/* entry_port.h - what entry.h has of Linux and of glibc, on Windows
 * Owns:    nothing.   Called by: entry.h.   Calls: kernel32, freehold. */
#ifndef TEST_WINDOWS_ENTRY_PORT_H
#define TEST_WINDOWS_ENTRY_PORT_H

#include "sys/mman.h"
#include "sys/resource.h"

#ifdef __cplusplus
extern "C" {
#endif
void *aligned_alloc(size_t alignment, size_t size);
int posix_memalign(void **p, size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size);
void *valloc(size_t size);
void *pvalloc(size_t size);
void *reallocarray(void *p, size_t count, size_t size);
size_t malloc_usable_size(void *p);
void fh_collect(bool force);
MMAN_CALL int K32GetProcessMemoryInfo(void *process, void *about, unsigned long size);
#ifdef __cplusplus
}
#endif

static inline int malloc_trim(size_t pad) { return (void)pad, fh_collect(true), 1; }

enum { _SC_PAGESIZE };
static inline long sysconf(int name) { return (void)name, 4096; }

static inline size_t resident_bytes(void) {
  struct {
    uint32_t size, faults;
    size_t peak, resident, others[6];
  } about = {0};
  if (!K32GetProcessMemoryInfo((void *)-1, &about, sizeof about)) FAIL("no working set");
  return about.resident;
}

#ifndef PTHREAD_STACK_MIN
#define PTHREAD_STACK_MIN 65536
#endif

#endif
