/* mman.h - as much of POSIX's memory calls as os_fake.c uses, by those of Windows
 * Owns:    nothing.   Called by: os_fake.c.   Calls: kernel32, psapi.
 * Threads: any. Addresses are reserved by mmap with PROT_NONE and have memory from the first
 *          mprotect that opens them; a range may lie in several reservations of 1 GiB. */
#ifndef TEST_WINDOWS_MMAN_H
#define TEST_WINDOWS_MMAN_H

#include <fcntl.h>
#include <io.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROT_NONE = 0, PROT_READ = 1, PROT_WRITE = 2 };
enum { MAP_PRIVATE = 2, MAP_SHARED = 1, MAP_FIXED = 16, MAP_ANONYMOUS = 32, MAP_NORESERVE = 64 };
enum { MAP_FIXED_NOREPLACE = 128, MADV_DONTNEED = 4, MADV_WIPEONFORK = 18, MFD_CLOEXEC = 1 };
#define MAP_FAILED ((void *)-1)
enum { O_CLOEXEC = 0, O_NONBLOCK = 0 };

/* Of <windows.h>, whose macros would be in the way of the tests. */
#ifdef __cplusplus
#define MMAN_CALL extern "C" __declspec(dllimport)
#else
#define MMAN_CALL __declspec(dllimport)
#endif
MMAN_CALL void *VirtualAlloc(void *at, size_t size, unsigned long how, unsigned long protection);
MMAN_CALL int VirtualFree(void *at, size_t size, unsigned long how);
MMAN_CALL int VirtualProtect(void *at, size_t size, unsigned long now, unsigned long *before);
MMAN_CALL size_t VirtualQuery(const void *at, void *about, size_t size);
MMAN_CALL int K32QueryWorkingSetEx(void *process, void *pages, unsigned long size);

/* Calls `part` for what of a range lies in each aligned GiB. */
typedef int mman_part_t(char *at, size_t size, int protection);
static inline int mman_each(void *at, size_t size, mman_part_t *part, int protection) {
  char *from = (char *)at, *end = from + size;
  while (from < end) {
    char *next = (char *)(((uintptr_t)from | (((size_t)1 << 30) - 1)) + 1);
    if (next > end) next = end;
    if (!part(from, (size_t)(next - from), protection)) return -1;
    from = next;
  }
  return 0;
}

static inline int mman_protect(char *at, size_t size, int protection) {
  unsigned long before, now = protection == PROT_NONE ? 1 : protection == PROT_READ ? 2 : 4;
  if (now == 4 && VirtualAlloc(at, size, 0x1000, now) == NULL) return 0;
  return VirtualProtect(at, size, now, &before);
}
static inline int mman_drop(char *at, size_t size, int protection) {
  (void)protection;
  return VirtualFree(at, size, 0x4000);
}
static inline int mman_renew(char *at, size_t size, int protection) {
  struct {
    void *base, *whole;
    uint32_t before, partition;
    size_t size;
    uint32_t state, protection, kind, room;
  } about = {0};
  VirtualQuery(at, &about, sizeof about);
  bool is_open = about.state == 0x1000 && about.protection != 1; /* else it stays closed */
  return VirtualFree(at, size, 0x4000) && (!is_open || mman_protect(at, size, protection));
}

static inline int mprotect(void *at, size_t size, int protection) {
  return mman_each(at, size, mman_protect, protection);
}
static inline int madvise(void *at, size_t size, int advice) {
  if (advice != MADV_DONTNEED) return 0;
  return mman_each(at, size, mman_renew, PROT_READ | PROT_WRITE);
}
static inline void *mmap(void *at, size_t size, int protection, int flags, int file, long offset) {
  (void)protection, (void)file, (void)offset;
  if ((flags & MAP_FIXED_NOREPLACE) != 0) return VirtualAlloc(at, size, 0x2000, 1);
  if ((flags & MAP_FIXED) != 0) return mman_each(at, size, mman_drop, 0) == 0 ? at : MAP_FAILED;
  void *got = at == NULL ? VirtualAlloc(NULL, size, 0x3000, 4) : NULL;
  return got == NULL ? MAP_FAILED : got;
}
static inline int munmap(void *at, size_t size) {
  return (void)size, VirtualFree(at, 0, 0x8000) ? 0 : -1;
}

static inline int mincore(void *at, size_t size, unsigned char *pages) {
  struct {
    void *page;
    uint64_t flags;
  } about[512];
  size_t n = size / 4096;
  for (size_t done = 0, part; done < n; done += part) {
    part = n - done < 512 ? n - done : 512;
    for (size_t i = 0; i < part; i++) about[i].page = (char *)at + (done + i) * 4096;
    if (!K32QueryWorkingSetEx((void *)-1, about, (unsigned long)(part * sizeof *about))) return -1;
    for (size_t i = 0; i < part; i++) pages[done + i] = about[i].flags & 1;
  }
  return 0;
}

static inline int memfd_create(const char *name, unsigned flags) {
  (void)name, (void)flags;
  char path[L_tmpnam + 8];
  if (tmpnam(path) == NULL) return -1;
  return open(path, _O_RDWR | _O_CREAT | _O_TEMPORARY | _O_BINARY, 0600);
}
static inline int posix_fallocate(int file, long from, long size) {
  return (void)file, (void)from, (void)size, -1;
}

#endif
