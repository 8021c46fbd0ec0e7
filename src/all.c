/* all.c - the release build: one translation unit, layer by layer, bottom up. A call upward does
 * not compile, for nothing above is declared yet; the exceptions are the hooks (heap.h) that the
 * top layer fills. */
#define _GNU_SOURCE
#include "base/check.c"
#include "base/fmt.c"
#include "base/sizeclass.c"

#include "os/os_linux.c"

#include "support/options.c"

#include "arena/bitmap.c"
#include "arena/places.c"
#include "arena/map.c"
#include "arena/slices.c"
#include "arena/grow.c"
#include "arena/purge.c"
#include "arena/arena.c"

#include "slab/partial.c"
#include "slab/slab.c"
#include "slab/holes.c"

#include "heap/pool.c"
#include "heap/huge.c"
#include "heap/magazine.c"
#include "heap/returned.c"
#include "heap/tails.c"
#include "heap/large.c"
#include "heap/visit.c"
#include "heap/stats.c"
#include "heap/check.c"
#include "heap/init.c"
#include "heap/heap.c"
#include "heap/free.c"
#include "heap/leave.c"
#include "heap/resize.c"
#include "heap/index.c"
#include "heap/firstclass.c"

#include "api/malloc.c"
#include "api/glibc.c"
#include "api/new.c"
#include "api/ext.c"
#include "api/callback.c"
#include "api/deepbind.c"
#include "api/foreign.c"
#include "api/report.c"
#include "api/lifecycle.c"
