/* lifecycle.c - the library's first and last moments                                   layer 8: api
 * Owns:    nothing.   Called by: the loader.   Calls: start.c, report.c, foreign.c,
 *          profile_file.c, fault.c, heap, arena, support, os.
 * Threads: the one that loads the library. A child of fork finds no lock held, as there is none. */
#include "api.h"

#include "../arena/added.h"
#include "../heap/upkeep.h"

/* Many programs close standard error before they end, to see whether all was written. So if
 * statistics are wanted at the end, we keep a second descriptor under a number that programs seldom
 * reach. */
enum { KEPT_LEAST = 100 };
static int kept_output = -1; /* only the constructor writes this and the next */
static uint64_t kept_identity;

static void keep_output(void) {
  kept_output = os_duplicate(2, KEPT_LEAST);
  kept_identity = os_file_identity(kept_output);
}

/* Reopens nothing if the program has used the number for its own file. */
static void reopen_output(void) {
  if (kept_output < 0 || os_file_identity(2) != 0) return;
  if (os_file_identity(kept_output) == kept_identity) os_duplicate(kept_output, 2);
}

/* 101 is the first priority that a program may use: it comes before its other constructors. */
static __attribute__((constructor(101))) void load(void) {
  api_start();
  api_foreign_start();
  api_operators_start();
  os_backtrace_start(); /* it may lock, so later is too late */
  if (option_get(OPTION_reserve_huge_pages) != 0)
    added_reserve((size_t)option_get(OPTION_reserve_huge_pages),
                  (int)option_get(OPTION_reserve_node));
  if (option_get(OPTION_verbose)) api_report_at_load();
  if (option_get(OPTION_stats) != STATS_NONE) keep_output();
  heap_start();
  api_guard_start();
  api_profile_start();
  api_trace_start();
}

/* Runs after the program's own destructors. */
static __attribute__((destructor(101))) void unload(void) {
  int64_t stats = option_get(OPTION_stats);
  if (SECURE) secure_end();
  else heap_check_last();
  api_profile_end();
  api_trace_end();
  if (stats == STATS_NONE) return;
  reopen_output();
  api_report(stats == STATS_JSON, true);
}
