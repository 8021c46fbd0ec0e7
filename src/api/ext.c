/* ext.c - the public functions that no standard has                                    layer 8: api
 * Owns:    nothing.   Called by: the program, api.   Calls: callback.c, cold.c, start.c, heap,
 *          arena, support, os.
 * Threads: any; contracts in freehold.h. */
#include "api.h"

#include <errno.h>

#include "../arena/added.h"
#include "../heap/bytes.h"
#include "../heap/stats.h"
#include "../heap/upkeep.h"

FH_API int fh_version(void) {
  return FH_VERSION_MAJOR * 10000 + FH_VERSION_MINOR * 100 + FH_VERSION_PATCH;
}

#if FH_SECURE
#define GRADE "-secure"
#else
#define GRADE ""
#endif

#define VERSION                                                                                    \
  TEXT_OF(FH_VERSION_MAJOR) "." TEXT_OF(FH_VERSION_MINOR) "." TEXT_OF(FH_VERSION_PATCH) GRADE
FH_API const char *fh_version_string(void) { return FH_CHECK > 0 ? VERSION "-debug" : VERSION; }

/* ---- blocks ---------------------------------------------------------------------------------- */

FH_API size_t fh_usable_size(const void *p) {
  return p == NULL ? 0 : api_usable_size(p, "fh_usable_size");
}

FH_API size_t fh_good_size(size_t size) { return SECURE ? size : heap_good_size(size, 1); }

FH_API bool fh_expand(void *p, size_t size) {
  const char *call = "fh_expand";
  bool is_done = p != NULL && (SECURE ? secure_expand(p, size, call) : heap_expand(p, size, call));
  if (unlikely(api_is_closed())) api_closed_expanded(p, size, is_done);
  return is_done;
}

FH_API bool fh_owns(const void *p) { return p != NULL && heap_owns(p); }

FH_API uint64_t fh_thread_allocated(void) { return heap_thread_bytes().allocated; }
FH_API uint64_t fh_thread_freed(void) { return heap_thread_bytes().freed; }

FH_API void fh_collect(bool force) {
  api_start();
  api_deferred(force);
  if (SECURE && force) secure_end_quarantine();
  heap_collect(force);
}

FH_API size_t fh_arena_add(void *address, size_t size, unsigned flags) {
  uintptr_t at = (uintptr_t)address, end = os_space_end();
  api_start();
  if ((flags & ~(FH_ARENA_ZERO | FH_ARENA_PURGE)) != 0 || at == 0 || size > end || at > end - size)
    return api_invalid(), 0;
  size_t added =
    added_put(address, size, (flags & FH_ARENA_ZERO) != 0, (flags & FH_ARENA_PURGE) == 0);
  if (added == 0) errno = ENOMEM;
  return added;
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void callback_set(callback_t which, void *function, void *context) {
  api_start();
  api_callback_set(which, function, context);
}

FH_API void fh_on_output(fh_output_t *callback, void *context) {
  callback_set(CALLBACK_OUTPUT, (void *)callback, context);
}
FH_API void fh_on_error(fh_error_t *callback, void *context) {
  callback_set(CALLBACK_ERROR, (void *)callback, context);
}
FH_API void fh_on_deferred_free(fh_deferred_t *callback, void *context) {
  callback_set(CALLBACK_DEFERRED, (void *)callback, context);
}

FH_API void fh_pressure_set(fh_pressure_callback_t *callback, void *context) {
  callback_set(CALLBACK_PRESSURE, (void *)callback, context);
}

/* ---- options --------------------------------------------------------------------------------- */

FH_API bool fh_option_get(const char *name, int64_t *value) {
  api_start();
  option_t option = name == NULL ? OPTION_COUNT : option_find(name, strlen(name));
  if (option == OPTION_COUNT) return false;
  if (value != NULL) *value = option_get(option);
  return true;
}

FH_API bool fh_option_set(const char *name, int64_t value) {
  api_start();
  option_t option = name == NULL ? OPTION_COUNT : option_find(name, strlen(name));
  if (option != OPTION_COUNT && option_set(option, value)) return true;
  api_error(EINVAL);
  return false;
}
