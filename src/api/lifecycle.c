/* lifecycle.c - the library's first and last moments                                   layer 7: api
 * Owns:    nothing.   Called by: the loader.   Calls: start.c, report.c, foreign.c, heap, support,
 *          os.
 * Threads: the one that loads the library. There is no atfork handler: a child finds no lock held,
 *          because there is none. */
#include "api.h"

#include "../../include/freehold/freehold.h"
#include "../heap/upkeep.h"
#include "../os/os.h"
#include "../support/options.h"

/* Many programs close standard error before they end, to see whether all was written. When
 * statistics are wanted at the end a second descriptor is kept for that case, under a number that
 * programs seldom reach. */
enum { LIFECYCLE_KEPT_LEAST = 100 };
static int lifecycle_kept = -1; /* written by the constructor alone, as is the next */
static uint64_t lifecycle_kept_identity;

static void keep_output(void) {
  lifecycle_kept = os_duplicate(2, LIFECYCLE_KEPT_LEAST);
  lifecycle_kept_identity = os_file_identity(lifecycle_kept);
}

/* Nothing is reopened if the program has used the number for a file of its own. */
static void reopen_output(void) {
  if (lifecycle_kept < 0 || os_file_identity(2) != 0) return;
  if (os_file_identity(lifecycle_kept) == lifecycle_kept_identity) os_duplicate(lifecycle_kept, 2);
}

/* 101 is the first priority that is not the compiler's own: before the constructors of the
 * program. */
__attribute__((constructor(101))) static void lifecycle_load(void) {
  api_start();
  api_foreign_start();
  if (option_get(OPTION_stats) != STATS_NONE) keep_output();
  heap_start();
}

/* Runs after the program's own destructors. */
__attribute__((destructor(101))) static void lifecycle_unload(void) {
  int64_t stats = option_get(OPTION_stats);
  if (stats == STATS_NONE) return;
  reopen_output();
  fh_stats_print(stats == STATS_JSON);
}
