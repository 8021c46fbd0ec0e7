/* system.h - the system under the code under test */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <stdbool.h>

bool system_start(void);               /* once; false: no address space */
void system_restart(void);             /* at the start of each execution */
void system_end_thread(void);          /* the calling thread ends, as far as the heaps see */
extern unsigned system_maps_that_fail; /* the next so many */
extern bool system_refuses_last_page;  /* of what is discarded; the others go */
extern bool system_has_users;          /* words for them can be made */

#endif
