/* timing.h - how long the slow paths took                                          layer 2: support
 * Owns:    a histogram for each kind.   Called by: arena, api.   Calls: options, os.
 * Threads: any, also in signal handlers. No lock: a sum of each bucket, and a maximum.
 *
 * Off without the option stats_detail. With it, every call is timed (api/closed.c). */
#pragma once

#include "../base/base.h"

/* name  in the text; what it is */
#define TIMING_KINDS(K)                                                                            \
  K(REFILL, "refill", "malloc that had to fill a bin")                                             \
  K(LARGE, "large", "malloc of more than 16 KiB")                                                  \
  K(GROW, "grow", "of these: what mapped more of an arena")                                        \
  K(PURGE, "purge", "of any: what gave slices back to the system")                                 \
  K(FREE, "free", "free, of which each is slow while `stats_detail` is on")
#define TIMING_KIND(name, text, what) TIMING_##name,
typedef enum { TIMING_KINDS(TIMING_KIND) TIMING_KIND_COUNT } timing_kind_t;

/* When a call began; 0: nobody wants to know. Clears the marks. */
hidden uint64_t timing_begin(void);
/* Counts the call as one of that kind, if `began` is not 0. */
hidden void timing_end(timing_kind_t kind, uint64_t began);
/* Counts it as one of each kind marked meanwhile. */
hidden void timing_end_marked(uint64_t began);
/* Marks the thread's call as one of that kind too. Always stored, beside a system call: at that
 * depth the stack has no room for reading a clock. */
extern hidden __thread uint32_t timing_marks __attribute__((tls_model("initial-exec")));
static inline void timing_mark(timing_kind_t kind) { timing_marks |= 1u << kind; }

/* ns. A quantile is the end of its bucket, a power of two: less than twice the true value. */
typedef struct {
  uint64_t count, p50, p90, p99, most;
} timing_t;
hidden timing_t timing_of(timing_kind_t kind);
hidden const char *timing_name(timing_kind_t kind);
