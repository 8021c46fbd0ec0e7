/* threads.h - the names of the target's threads
 * Owns:    the list.   Called by: tools/outside.   Calls: target.h. */
#ifndef OUTSIDE_THREADS_H
#define OUTSIDE_THREADS_H

#include <stdint.h>

typedef struct {
  uint32_t number; /* as the target itself knows it: it may be in a container */
  char name[16];
  char state; /* of /proc: R, S, D, T ... */
} thread_t;

void threads_read(void);                       /* those that there are now; none of a core file */
uint32_t threads_main(void);                   /* the first one's number: the process's */
const thread_t *threads_find(uint32_t number); /* NULL: not known, or it has ended */

#endif
