/* start.c - what is needed before anything else                                        layer 7: api
 * Owns:    api_started.   Called by: api, at first use.   Calls: callback.c, support, os,
 *          base.
 * Threads: any. Starting is idempotent, not exclusive: two threads that start at once write the
 *          same things, and neither waits.
 * Sync:    S-options  api_start_now (release) -> api_start, which finds it done (acquire): the
 *          options. */
#include "api.h"

#include "../base/atomic.h"
#include "../base/check.h"
#include "../os/os.h"
#include "../support/options.h"

atomic32_t api_started;

cold void api_start_now(void) {
  os_start_clock();
  check_set_reporter(api_fatal);
  options_load(api_output);
  atomic32_store_release(&api_started, 1); /* S-options */
}
