/* secrets.h - numbers that only this process knows: secure grade                      layer 4: slab
 * Owns:    secrets_t (block.h), and pages that a child of fork finds empty.
 *          Called by: quarantine.c, secure.   Calls: os.
 * Threads: any. Nobody waits: of several that start, or renew, one makes the number that holds.
 * Sync:    S-secrets  a number, and then how many threads are starting (release) -> who starts
 *                     later (acquire): the page may be closed to writes by then. A parent's number,
 *                     and then the child's own (release) -> checked_seal (acquire).
 *
 * Secrets are set before the first block. From then on their page can only be read. What is covered
 * by `cover` stays so, because a link and a key are written one after the other. A child
 * of fork has a new `trailer`, and knows its parents'. */
#pragma once

#include "slab.h"

hidden void secrets_start(void);
/* In a child of fork that has not called it: a new `trailer`, unless the system says nothing of
 * forks or SECRETS_OLDER parents are known. Else it does nothing. */
hidden void secrets_renew(void);
/* A word for the heap of that number, which is 0 in a new child. Heaps may share it. NULL: none. */
hidden atomic64_t *secrets_word(size_t number);
