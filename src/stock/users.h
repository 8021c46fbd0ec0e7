/* users.h - which thread uses which heap                                             layer 5: stock
 * Owns:    a word for each of the pool's places, and how many of these have a thread.
 * Called by: stock, heap.   Calls: support, os.
 * Threads: any. The thread that uses a heap writes its word, and the one that takes it over when
 *          that has ended. relaxed, all of it: the system says when a dead thread's work is seen. A
 *          child of fork finds nobody: the copies of other threads' heaps are not of one moment.
 * Holds:   P1 as many words have a thread as are counted, while no thread begins or ends */
#pragma once

#include "../base/base.h"

/* Makes the words; until then nobody is known. */
hidden void users_make(void);
hidden bool users_are_known(void);
/* `number`: the heap's; `thread`: os_thread, 0: nobody. */
hidden void users_note(size_t number, uint64_t thread);
hidden uint64_t users_thread(size_t number);
/* The thread that used it, if that has ended: nobody uses it from now on. Or 0. `caller`: os_thread
 * of the one that asks. */
hidden uint64_t users_end_dead(size_t number, uint64_t caller);
hidden int32_t users_count(void);
/* Are they more than the option caching_threads says? Then none keeps what was its due. Of ten
 * thousand threads few run at a time, and what the others keep nobody can take. */
hidden bool users_are_many(void);
hidden bool users_are_valid(size_t places); /* of so many */
