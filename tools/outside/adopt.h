/* adopt.h - the target's freehold, as this process's own
 * Owns:    nothing; the variables that it fills are the library's.   Called by: tools/outside.
 *          Calls: target.h, the library. */
#ifndef OUTSIDE_ADOPT_H
#define OUTSIDE_ADOPT_H

#include <stdbool.h>
#include <stdint.h>

/* Finds freehold in the target, and fills each variable of layout.h with the target's. False: there
 * is none, or one of another layout; one line on standard error says which. */
bool adopt_open(void);
/* Anew, with what is there now. False: the target has ended, or cannot be read any more. */
bool adopt_renew(void);
/* Runs `work` on what was adopted; if the target changes too much meanwhile, again, anew. The last
 * of a few times it does without the pages that are not there, and a line says how many. False: it
 * never came to an end; a line says so. `work` begins from nothing each time. */
bool adopt_run(void (*work)(void *context), void *context);
/* Where the target has that part of a variable of layout.h, or of what lies at its addresses. */
uintptr_t adopt_address(const void *mine);
/* The file in which the target's freehold is. */
const char *adopt_library(void);

#endif
