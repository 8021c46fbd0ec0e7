/* users.h - which thread uses which heap                                             layer 5: stock
 * Owns:    a word for each of the pool's places, how many of these have a thread, and which places
 *          a thread of any process has.
 * Called by: stock, heap.   Calls: support, os.
 * Threads: any. A heap's word is written by the thread that uses it, and by the one that takes it
 *          over once that thread has ended. The words are relaxed: the system says when a dead
 *          thread's work is seen. In a child of fork all words are 0. Only the thread that forked
 *          is there, and it notes its own heap. From then on each other heap that a thread had, and
 *          whose word is 0, is one of a parent's thread, which does not exist here. A thread that
 *          notes a heap changes a word that is 0 by a swap, and so does one that takes such a heap:
 *          only one of the two succeeds.
 * Sync:    S-users  the words' pages (release) -> any use of them (acquire): their stage
 * Holds:   P1 the count of words with a thread is right, while no thread begins or ends */
#pragma once

#include "../base/base.h"

/* Makes the words; until then no user is known. */
hidden void users_make(void);
/* The calling thread will use the heap of that number. A process's first heap makes no words. */
hidden void users_begin(size_t number);
/* Only one thread at a time takes what others' heaps keep. False: another is taking. Only once
 * users are known. In a child of fork no thread is taking. */
hidden bool users_begin_taking(void);
hidden void users_end_taking(void);
hidden bool users_are_taking(void);
/* Where the user has its marks, if the heap is that thread's own. NULL: it is not, or it ends. */
hidden void users_note_marks(size_t number, const void *marks);
hidden const void *users_marks(size_t number);
hidden bool users_are_known(void);
/* `number`: the heap's; `thread`: os_thread, 0: nobody. */
hidden void users_note(size_t number, uint64_t thread);
/* Notes for a child of fork that a thread had the heap, or no longer has. */
hidden void users_keep(size_t number);
hidden void users_forget(size_t number);
/* From now on nobody uses it, if a thread did. */
hidden void users_leave(size_t number);
/* `number`: of the calling thread's own heap, which gets its word if it has none; or USERS_NO_HEAP.
 * If the thread forked, all other heaps without a word are its parent's. */
#define USERS_NO_HEAP SIZE_MAX
hidden void users_settle(size_t number);
hidden bool users_are_settled(size_t number); /* is nothing left to do? */
hidden uint64_t users_thread(size_t number);
/* The heap's word, which never has the same value again once the heap's user changes. */
hidden uint64_t users_word(size_t number);
/* If the heap's thread has ended, returns it, or USERS_PARENTS; else 0. The caller uses the heap
 * from now on, so that others find it if the caller ends too. `caller`: its os_thread. */
#define USERS_PARENTS UINT64_MAX
hidden uint64_t users_take_dead(size_t number, uint64_t caller);
/* Should we look for heaps of a parent's other threads? Not in a child with one thread: ending them
 * writes to pages that it shares with its parent. */
hidden bool users_have_strays(void);
/* The next place, below `places`, with such a heap, which the calling thread uses from now on.
 * False: none among those it checked. */
hidden bool users_take_parents(size_t places, size_t *number);
/* How many places were checked for that in this process. */
hidden size_t users_parents_sought(void);
/* The heap of a handler of `thread`, as that said: it is found by itself from now on. */
hidden void users_leave_behind(size_t number, uint64_t thread);
hidden int32_t users_count(void);
/* How many of the threads that have a heap can run at a time; two at least. */
hidden size_t users_running(void);
/* Are there more than option caching_threads says? Then none keeps its due: of ten thousand threads
 * few run at a time. */
hidden bool users_are_many(void);
hidden bool users_are_valid(size_t places); /* of so many */
