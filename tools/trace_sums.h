/* trace_sums.h - what the events of a trace come to: calls, bytes, sizes, lifetimes, threads
 * Owns:    the sums: one set for each run of the command.   Called by: trace.c.
 *          Calls: trace_file.h, trace_heaps.h, base/fmt.h, libc.
 * Memory:  at most four records of 48 bytes for each block that lives at one moment of the trace,
 *          six while their table grows. Two words more if it is a first-class heap's. And a record
 *          for each thread and heap. Without memory the command ends. */
#ifndef TOOLS_TRACE_SUMS_H
#define TOOLS_TRACE_SUMS_H

#include "trace_file.h"

/* In the order of time. */
void trace_sums_note(trace_file_t *f, const trace_event_t *e);
/* Once, when all have been noted: on standard output. */
void trace_sums_print(const trace_file_t *f, bool as_json);

#endif
