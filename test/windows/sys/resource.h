/* resource.h - what tests ask of POSIX's limits and of what a process has used, on Windows
 * Owns:    nothing.   Called by: entry_port.h, resize_test.c.   Calls: nothing. */
#ifndef TEST_WINDOWS_RESOURCE_H
#define TEST_WINDOWS_RESOURCE_H

#include "../../test.h"

/* A test that wants to be short of memory is not for Windows. */
struct rlimit {
  size_t rlim_cur, rlim_max;
};
enum { RLIMIT_AS, RLIMIT_NPROC };
#define RLIM_INFINITY SIZE_MAX
static inline int setrlimit(int what, const struct rlimit *limit) {
  (void)what, (void)limit;
  SKIP("Windows has no such limit");
  return -1;
}

struct rusage {
  long ru_minflt;
};
enum { RUSAGE_SELF };
static inline int getrusage(int who, struct rusage *usage) {
  (void)who, (void)usage;
  SKIP("faults are not counted one by one");
  return -1;
}

#endif
