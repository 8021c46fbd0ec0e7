/* deepbind.c - plug-ins that would bypass the preloaded library                        layer 8: api
 * Owns:    the address of libc's dlopen.   Called by: the program.   Calls: support,
 *          libc.
 * Threads: any. Sync: none: the constructor writes the address before anybody can look; it is one
 *          word.
 *
 * A plug-in that is opened with RTLD_DEEPBIND finds libc's free before ours, and crashes when the
 * program hands it one of our blocks to free. php opens its extensions this way. Without the flag
 * it finds ours. In the shared library alone: a static program has a dlopen of its own. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../../include/freehold/freehold.h"
#include "../base/atomic.h"
#include "../support/options.h"

#if defined(FH_SHARED) && defined(__GLIBC__)
#include <dlfcn.h>

typedef void *libc_open_t(const char *file, int mode);
static atomic_ptr_t libc_open;

static __attribute__((constructor(101))) void find_libcs_dlopen(void) {
  atomic_ptr_store_relaxed(&libc_open, dlsym(RTLD_NEXT, "dlopen"));
}

/* A tail call: libc looks at the return address to find the search path of whoever called. */
FH_API void *dlopen(const char *file, int mode) {
  libc_open_t *open = (libc_open_t *)atomic_ptr_load_relaxed(&libc_open);
  if (open == NULL) open = (libc_open_t *)dlsym(RTLD_NEXT, "dlopen");
  if (option_get(OPTION_deepbind) == DEEPBIND_IGNORE) mode &= ~RTLD_DEEPBIND;
  return open(file, mode);
}
#endif
