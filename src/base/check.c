/* check.c - invariants and the one way to die                                         layer 0: base
 * Contract: check.h. */
#include "check.h"
#include "atomic.h"

static atomic_ptr_t check_reporter;

void check_set_reporter(check_reporter_t *reporter) {
  /* relaxed: the code it points to is constant */
  atomic_ptr_store_relaxed(&check_reporter, (void *)reporter);
}

_Noreturn cold void fatal(const char *what, const void *address, const char *call) {
  check_reporter_t *reporter = (check_reporter_t *)atomic_ptr_load_relaxed(&check_reporter);
  if (reporter != NULL) reporter(what, address, call);
  __builtin_trap();
}
