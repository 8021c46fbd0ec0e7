/* check.h - invariants and the one way to die                                         layer 0: base
 * Owns:    the reporter of fatal errors.     Called by: everyone.     Calls: what was installed.
 * Threads: any; `fatal` never returns and never allocates. The reporter is set once, before the
 *          first error can be found; without one a trap ends the process. */
#pragma once

#include "base.h"

#ifndef FH_CHECK
#define FH_CHECK 0 /* 0 release; 1 ASSERT; 2 ASSERT_VALID too */
#endif

/* Writes "freehold: <what>: <address> in <call>()" and aborts. */
_Noreturn hidden void fatal(const char *what, const void *address, const char *call);

/* What `fatal` calls; it must not return. */
typedef void check_reporter_t(const char *what, const void *address, const char *call);
hidden void check_set_reporter(check_reporter_t *reporter);

/* The condition is evaluated in the checked build only. */
#define ASSERT(condition)                                                                          \
  do {                                                                                             \
    if (FH_CHECK >= 1 && !(condition))                                                             \
      fatal("assertion " #condition " at " __FILE__ ":" TEXT_OF(__LINE__), NULL, __func__);        \
  } while (0)
/* Checks `*_is_valid` of the state that a slow path leaves, in a thread that may look at it. */
#define ASSERT_VALID(is_valid) ASSERT(FH_CHECK < 2 || (is_valid))
/* One line of a `*_is_valid` function: names the invariant that broke. */
#define HOLDS(name, condition)                                                                     \
  do {                                                                                             \
    if (!(condition)) fatal("invariant " #name ": " #condition, NULL, __func__);                   \
  } while (0)
