/* faults.h - memory that cannot be touched, for unit tests */
#ifndef FAULTS_H
#define FAULTS_H

#include "../test.h"

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
