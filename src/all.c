/* all.c - the release build: one translation unit, layer by layer, bottom up. A call upward does
 * not compile, for nothing above is declared yet. */
#define _GNU_SOURCE
#include "base/check.c"
#include "base/fmt.c"
#include "base/sizeclass.c"

/* Before the condition, so that the file without others has them once. */
#include "base/bits.h"
#include "base/layout.h"
#include "base/probe.h"
#include "os/linux/call.h"
#include "os/posix.c"
#if defined(_WIN32)
#include "os/windows/os_windows.c"
#include "os/windows/files_windows.c"
#elif !defined(__linux__)
#include "os/bsd/os_bsd.c"
#else
#include "os/linux/os_linux.c"
#include "os/linux/files.c"
#include "os/linux/cfi.c"
#include "os/linux/unwind.c"
#include "os/linux/images.c"
#include "os/linux/huge_pages.c"
#endif
#include "os/container.c"

#include "support/options.c"
#include "support/trace_file.c"
#include "support/trace.c"
#include "support/poisson.c"
#include "support/timing.c"
#include "support/callstack.c"

#include "arena/bitmap.c"
#include "arena/places.c"
#include "arena/map.c"
#include "arena/budget.c"
#include "arena/slices.c"
#include "arena/frames.c"
#include "arena/grow.c"
#include "arena/patience.c"
#include "arena/arena.c"
#include "arena/added.c"
#include "arena/purge.c"

#include "slab/tally.c"
#include "slab/holes.c"
#include "slab/partial.c"
#if FH_SECURE
#include "slab/secrets.c"
#include "slab/states.c"
#endif
#include "slab/slab.c"
#include "slab/sparse.c"

#include "stock/users.c"
#include "stock/surplus.c"
#include "stock/lanes.c"
#include "stock/magazine.c"
#include "stock/owned.c"
#include "stock/returned.c"
#include "stock/outbox.c"
#include "stock/pool.c"
#if FH_SECURE
#include "stock/quarantine.c"
#endif
#include "stock/sample.c"
#include "stock/held.c"
#include "stock/guard.c"
#include "stock/tails.c"
#include "stock/index.c"
#include "stock/empty.c"
#include "stock/huge.c"
#include "stock/large.c"
#include "stock/shrink.c"
#include "stock/heap.c"

#include "heap/enter.c"
#include "heap/free.c"
#include "heap/refill.c"
#include "heap/slow.c"
#include "heap/many.c"
#include "heap/resize.c"
#include "heap/visit.c"
#include "heap/stats.c"
#include "heap/firstclass.c"
#include "heap/upkeep.c"

#if FH_SECURE
#include "secure/checked.c"
#include "secure/last.c"
#include "secure/secure.c"
#endif

#include "api/callback.c"
#include "api/start.c"
#if defined(_WIN32)
#include "api/windows.c"
#elif defined(__APPLE__)
#include "api/macos.c"
#else
#include "api/foreign.c"
#endif
#include "api/tracing.c"
#include "api/closed.c"
#include "api/cold.c"
#include "api/malloc.c"
#include "api/heaps.c"
#if defined(__linux__)
#include "api/glibc.c"
#endif
#if defined(__ELF__) && !defined(_WIN32)
#include "api/new.c"
#endif
#include "api/freebsd.c"
#include "api/ext.c"
#include "api/variants.c"
#include "api/report.c"
#include "api/fault.c"
#include "api/pprof.c"
#include "api/profile.c"
#include "api/profile_file.c"
#include "api/layout.c"
#include "api/lifecycle.c"
#include "api/bounds.c"
