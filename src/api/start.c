/* start.c - what is needed before anything else                                        layer 8: api
 * Owns:    api_started.   Called by: api, at first use.   Calls: callback.c, heap, support,
 *          base.
 * Threads: any. Starting is idempotent, not exclusive: two threads that start at once write the
 *          same values, and neither waits.
 * Sync:    S-options  api_start_now, api_close, api_open (release) -> api_start, which finds it
 *          done (acquire): the options, and the trace. api_close and api_open (acq_rel): the last
 *          to come knows if there is a trace. */
#include "api.h"

#include "../support/trace.h"

atomic32_t api_started;

static bool wants_every_call(void) {
  return trace_is_on() || option_get(OPTION_fill) != FILL_OFF || option_get(OPTION_realloc_moves) ||
         option_get(OPTION_abort_on_oom) || !option_get(OPTION_caches) ||
         option_get(OPTION_stats_detail);
}

void api_open(void) {
  if (wants_every_call()) return;
  atomic32_exchange_acq_rel(&heap_closed, 0);     /* S-options */
  atomic32_store_release(&api_started, API_OPEN); /* S-options */
}

/* From now on each slow call goes through closed.c, and closes its thread's fast paths. */
void api_close(void) {
  atomic32_exchange_acq_rel(&heap_closed, 1);       /* S-options */
  atomic32_store_release(&api_started, API_CLOSED); /* S-options */
}

cold void api_start_now(void) {
  check_set_reporter(api_fatal);
  options_load(api_output);
  const char *trace = option_text(OPTION_trace);
  size_t ring = (size_t)option_get(OPTION_trace_ring);
  if (trace != NULL || ring != 0) trace_start(trace, ring);
  bool is_closed = wants_every_call();
  if (SECURE) secure_start();
  if (is_closed) api_close();
  else atomic32_store_release(&api_started, API_OPEN); /* S-options */
}
