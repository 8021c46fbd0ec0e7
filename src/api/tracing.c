/* tracing.c - begins and ends a trace: at load, at exit, and when it is asked for      layer 8: api
 * Owns:    nothing.   Called by: the program, api.   Calls: start.c, callback.c, support, os.
 * Threads: any; what a signal handler may call waits for nobody. No heap is marked.
 * Sync:    S-trace: a wish of the command `freehold`, and its answer (trace.h). */
#include "api.h"

#include <errno.h>

#include "../../include/freehold/freehold.h"
#include "../support/trace.h"

/* The file is there before any thread finds its fast paths closed. 0, or errno. */
static int start_tracing(const char *path) {
  static const uint8_t errors[] = {
    [TRACE_BEGUN] = 0, [TRACE_BUSY] = EALREADY, [TRACE_NO_FILE] = EIO, [TRACE_NO_ROOM] = ENOSPC};
  if (path == NULL || *path == '\0') return EINVAL;
  int error = trace_is_on() ? EALREADY : errors[trace_start_late(path)];
  if (error != 0) return error;
  api_close();
  if (!trace_is_on()) api_open(); /* it was ended before that */
  return 0;
}

/* Another trace begins only after trace_stopped. */
static int stop_tracing(void) {
  if (!trace_stop()) return ESRCH;
  api_open();
  trace_stopped();
  trace_drop_stale();
  return 0;
}

static bool set_errno(int error) {
  if (error != 0) errno = error;
  return error == 0;
}

FH_API bool fh_trace_start(const char *path) {
  api_start();
  return set_errno(start_tracing(path));
}

FH_API bool fh_trace_stop(void) {
  api_start();
  return set_errno(stop_tracing());
}

/* One of the threads that find it answers. */
static void answer_wish(void) {
  trace_wish_t *w = &trace_wish;
  uint32_t wanted = atomic32_load_relaxed(&w->wanted); /* relaxed: the swap reads again */
  if (wanted == TRACE_WANT_NOTHING) return;
  if (!atomic32_cas_acquire(&w->wanted, &wanted, TRACE_WANT_NOTHING)) return; /* S-trace */
  if (atomic32_load_relaxed(&w->process) != os_process()) return;
  uint32_t number = atomic32_load_relaxed(&w->number);
  w->path[sizeof w->path - 1] = '\0';
  int error = os_is_raised()               ? EPERM
              : wanted == TRACE_WANT_BEGIN ? start_tracing(w->path)
                                           : stop_tracing();
  atomic32_store_relaxed(&w->error, (uint32_t)error);
  atomic32_store_release(&w->answered, number); /* S-trace */
}

cold void api_news(void) {
  if (api_report_news()) answer_wish();
}

void api_trace_start(void) {
  if (option_get(OPTION_trace_ring) != 0) os_backtrace_start();
  if (option_text(OPTION_trace) != NULL && !trace_open())
    api_report_mistake(OPTION_trace, option_text(OPTION_trace), "the file cannot be made");
}

void api_trace_end(void) {
  char text[64];
  fmt_t f;
  if (trace_lost() == 0 || trace_path() == NULL) return;
  const char *why = trace_is_full() ? "no room" : "the file was being made";
  if (trace_is_on() && !trace_open()) why = "no file";
  fmt_start(&f, text, sizeof text, NULL, NULL);
  fmt_print(&f, "%lu events are lost: %s", trace_lost(), why);
  api_report_mistake(OPTION_trace, trace_path(), fmt_end(&f));
}
