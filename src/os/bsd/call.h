/* call.h - a system call through libc: its result, or an error below zero               layer 1: os
 * Owns:    nothing.   Called by: posix.c, os_bsd.c.   Calls: libc; posix.c for call_open.
 * Threads: any. errno stays as it was. posix.c uses the names that Linux has for these calls. */
#pragma once

#include "../os.h"

#if defined(__FreeBSD__) || defined(__APPLE__)
#include <errno.h>
#include <sys/resource.h>
#include <time.h>

#define OS_CALL(name, ...)                                                                         \
  __extension__({                                                                                  \
    int before_ = errno;                                                                           \
    long got_ = (long)(name(__VA_ARGS__)), result_ = got_ == -1 ? -errno : got_;                   \
    errno = before_;                                                                               \
    result_;                                                                                       \
  })
#define newfstatat fstatat
#define renameat2(from_at, from, at, to, flags) renameat(from_at, from, at, to)
#define stat_of_kernel stat

#if defined(__APPLE__)
enum { CALL_FINE = CLOCK_MONOTONIC_RAW, CALL_COARSE = CLOCK_MONOTONIC_RAW_APPROX };
#else
enum { CALL_FINE = CLOCK_MONOTONIC, CALL_COARSE = CLOCK_MONOTONIC_FAST };
#endif

static inline bool call_succeeded(atomic64_t *count, long result) {
  if (COUNTED) atomic64_add_relaxed(count, 1);
  if (result < 0) atomic64_add_relaxed(&os_counts.failures, 1);
  return result >= 0;
}
/* A limit on the size of files would end the program by a signal. */
static inline bool call_is_within_limit(uint64_t end) {
  struct rlimit most;
  return getrlimit(RLIMIT_FSIZE, &most) != 0 || end <= (uint64_t)most.rlim_cur;
}
hidden int call_open(const char *path, int flags); /* -1: it cannot be opened */
static inline void call_note_thread(void) {}       /* nobody asks */
#endif
