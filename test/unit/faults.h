/* faults.h - memory that cannot be touched, for unit tests */
#ifndef FAULTS_H
#define FAULTS_H

#include "../test.h"

#if defined(_WIN32) /* it has no fork: asked */
__declspec(dllimport) size_t VirtualQuery(const void *at, void *about, size_t size);
static inline bool faults(const volatile char *p, bool writes) {
  enum { COMMITTED = 0x1000, READABLE = 0xEE, WRITABLE = 0xCC };
  struct {
    void *base, *whole;
    uint32_t protection_before, partition;
    size_t size;
    uint32_t state, protection, kind, room;
  } about = {0};
  VirtualQuery((const void *)p, &about, sizeof about);
  return about.state != COMMITTED || (about.protection & (writes ? WRITABLE : READABLE)) == 0;
}
#else
/* Does a child that reads, or writes, the byte at `p`, and no more, end by SIGSEGV? A sanitizer's
 * handler would report it and exit instead. */
static inline bool faults(volatile char *p, bool writes) {
  test_child_t child;
  if (test_fork(&child, 60)) {
    signal(SIGSEGV, SIG_DFL);
    if (writes) *p = 1;
    else (void)*p;
    _exit(0);
  }
  test_reap(&child);
  return WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGSEGV;
}
#endif

#endif
