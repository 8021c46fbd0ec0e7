/* tracing.c - begins and ends a trace: at load, at exit, and when it is asked for      layer 8: api
 * Owns:    nothing.   Called by: the program, api.   Calls: start.c, callback.c, support.
 * Threads: any; functions that a signal handler may call wait for nobody. No heap is marked. */
#include "api.h"

#include <errno.h>

#include "../../include/freehold/freehold.h"
#include "../support/trace.h"

/* The file exists before any thread finds its fast paths closed. */
int api_trace_begin(const char *path) {
  static const uint8_t errors[] = {
    [TRACE_BEGUN] = 0, [TRACE_BUSY] = EALREADY, [TRACE_NO_FILE] = EIO, [TRACE_NO_ROOM] = ENOSPC};
  if (path == NULL || *path == '\0') return EINVAL;
  int error = trace_is_on() ? EALREADY : errors[trace_start_late(path)];
  if (error != 0) return error;
  api_close();
  if (!trace_is_on()) api_open(); /* somebody ended it before that */
  return 0;
}

/* Another trace begins only after trace_stopped. */
int api_trace_stop(void) {
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
  return set_errno(api_trace_begin(path));
}

FH_API bool fh_trace_stop(void) {
  api_start();
  return set_errno(api_trace_stop());
}

void api_trace_start(void) {
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
