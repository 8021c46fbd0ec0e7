/* patience.h - how much may stay dirty, as the program has taught it                 layer 3: arena
 * Owns:    the doublings.   Called by: arena.c, purge.c, runs.c; slab.   Calls: support, os.
 * Threads: any. relaxed, all of it: a bad guess costs time only. */
#pragma once

#include "../base/base.h"

enum { PURGE_STEP = 64 }; /* slices: 4 MiB, so that few calls discard much, and none takes long */

hidden size_t patience_budget(void);            /* slices */
hidden uint32_t patience_delay(uint32_t delay); /* ms, from the option's value */
/* `n` claimed slices had been purged; they were freed at least `age` ms ago. */
hidden void patience_note_reuse(size_t n, uint32_t age);
/* How many pages of spans, of 4 KiB, may be free and in memory. */
hidden uint64_t patience_free_pages(void);
/* `n` of them had gone to the system and are claimed again. */
hidden void patience_note_pages(unsigned n);
hidden void patience_calm(uint32_t now); /* os_now_ms: has it been quiet? */
