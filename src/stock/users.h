/* users.h - which thread uses which heap                                             layer 5: stock
 * Owns:    a word for each of the pool's places, how many of these have a thread, and which places
 *          a thread has, whichever process it is of.
 * Called by: stock, heap.   Calls: support, os.
 * Threads: any. The thread that uses a heap writes its word, and the one that takes it over when
 *          that has ended. The words are relaxed: the system says when a dead one's work is seen.
 *          In a child of fork all words are 0. The thread that forked is there, and it alone has a
 *          heap without a word: it notes that. From then on each other heap that a thread had, and
 *          whose word is 0, is one of a parent's thread, which does not exist here. Whoever notes a
 *          heap changes a word that is 0 by a swap, as does whoever takes such a heap: one of the
 *          two does.
 * Sync:    S-users  the words' pages (release) -> any use of them (acquire): their stage
 * Holds:   P1 as many words have a thread as are counted, while no thread begins or ends */
#pragma once

#include "../base/base.h"

/* Makes the words; until then nobody is known. */
hidden void users_make(void);
/* The calling thread is to use the heap of that number. A process's first one makes no words. */
hidden void users_begin(size_t number);
/* One thread at a time takes what others' heaps keep. False: another does. Once users are known. In
 * a child of fork none does. */
hidden bool users_begin_taking(void);
hidden void users_end_taking(void);
hidden bool users_are_taking(void);
/* Where the thread has its marks whose own heap it is. NULL: nobody's, or somebody ends it. */
hidden void users_note_marks(size_t number, const void *marks);
hidden const void *users_marks(size_t number);
hidden bool users_are_known(void);
/* `number`: the heap's; `thread`: os_thread, 0: nobody. */
hidden void users_note(size_t number, uint64_t thread);
/* A child of fork is to know that a thread had it, or not any more. */
hidden void users_keep(size_t number);
hidden void users_forget(size_t number);
/* Nobody uses it from now on, if a thread did. */
hidden void users_leave(size_t number);
/* `number`: of the calling thread's own heap, which gets its word if it has none, or
 * USERS_NO_HEAP. If the thread forked, all other heaps without a word are its parent's. */
#define USERS_NO_HEAP SIZE_MAX
hidden void users_settle(size_t number);
hidden bool users_are_settled(size_t number); /* is there nothing left of that to do? */
hidden uint64_t users_thread(size_t number);
/* Its word, which is never again what it was once another thread uses the heap, or none. */
hidden uint64_t users_word(size_t number);
/* The thread that used it, if that has ended, or USERS_PARENTS: the calling thread uses it from now
 * on, so that others find the heap if that ends too. Or 0. `caller`: its os_thread. */
#define USERS_PARENTS UINT64_MAX
hidden uint64_t users_take_dead(size_t number, uint64_t caller);
/* Are heaps of a parent's other threads to be looked for? Not in a child with one thread: to end
 * them writes to pages that it shares with its parent. */
hidden bool users_have_strays(void);
/* The next place, below `places`, with such a heap, which the calling thread uses from now on.
 * False: not among those that were looked at. */
hidden bool users_take_parents(size_t places, size_t *number);
/* How many places were looked at for that in this process. */
hidden size_t users_parents_sought(void);
/* The heap of a handler of `thread`, as that said: it is found by itself from now on. */
hidden void users_leave_behind(size_t number, uint64_t thread);
hidden int32_t users_count(void);
/* How many of the threads that have a heap can run at a time; two at least. */
hidden size_t users_running(void);
/* Are they more than the option caching_threads says? Then none keeps what was its due. Of ten
 * thousand threads few run at a time. */
hidden bool users_are_many(void);
hidden bool users_are_valid(size_t places); /* of so many */
