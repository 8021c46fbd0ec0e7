/* secrets.h - numbers that only this process knows: secure grade                      layer 4: slab
 * Owns:    secrets_t (block.h), and pages that a child of fork finds empty.
 *          Called by: quarantine.c, secure.   Calls: os.
 * Threads: any. Nobody waits: if several start, or renew, one makes the number that counts.
 * Sync:    S-secrets  a number, and then how many threads are starting (release) -> a thread that
 *                     starts later (acquire): by then the page may be closed to writes. A parent's
 *                     number, and then the child's own (release) -> checked_seal (acquire).
 *
 * Secrets are set before the first block. From then on their page can only be read. `cover` never
 * changes, because a link and a key are written one after the other. A child of fork has a new
 * `trailer`, and knows its parents'. */
#pragma once

#include "slab.h"

hidden void secrets_start(void);
/* In a child of fork that has not called it: makes a new `trailer`, unless the system does not
 * report forks or SECRETS_OLDER parents are known. Else it does nothing. */
hidden void secrets_renew(void);
/* A word for the heap of that number; it is 0 in a new child. Heaps may share one. NULL: none. */
hidden atomic64_t *secrets_word(size_t number);
