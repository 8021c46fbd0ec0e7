/* lifecycle.c - the library's first and last moments                                        layer 6: api
 * Owns:    what the core calls up for.     Called by: the core at first use, the loader.     Calls: heap, support, base.
 * Threads: any. Starting is idempotent, not exclusive: two threads that start at once write the same things, and neither
 *          waits. There is no atfork handler: a child finds no lock held, because there is none.
 * Sync:    none: what is written here are words that depend on nothing else.                          */
#include "api.h"

#include "../../include/freehold/freehold.h"
#include "../base/atomic.h"
#include "../base/check.h"
#include "../heap/heap.h"
#include "../support/options.h"

/* Linked in, not installed: the first use may come before any code of the library has run. */
heap_hooks_t heap_hooks = {
  .start = api_start,
  .no_memory = api_no_memory,
  .deferred = api_deferred,
  .foreign_free = api_foreign_free,
  .foreign_size = api_foreign_size,
  .foreign_realloc = api_foreign_realloc,
};

cold void api_start(void) {
  static atomic32_t started;               /* relaxed: see Sync */
  if (atomic32_load_relaxed(&started)) return;
  check_set_reporter(api_fatal);
  options_load(api_output);
  atomic32_store_relaxed(&started, 1);
}

/* 101 is the first priority that is not the compiler's own: before the constructors of the program. */
__attribute__((constructor(101))) static void lifecycle_load(void) {
  api_start();
  api_foreign_start();
  if (option_get(OPTION_background)) heap_start_background();
}

/* Runs after the program's own destructors. */
__attribute__((destructor(101))) static void lifecycle_unload(void) {
  int64_t stats = option_get(OPTION_stats);
  if (stats != STATS_NONE) fh_stats_print(stats == STATS_JSON);
}
