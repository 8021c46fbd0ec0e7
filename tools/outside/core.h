/* core.h - the core file of a dead process: its ranges, and what there is of their bytes
 * Owns:    the file: one for each run of the command.   Called by: target.c.
 *          Calls: target.h for a type, libc. */
#ifndef OUTSIDE_CORE_H
#define OUTSIDE_CORE_H

#include "target.h"

/* NULL, or what is wrong with the file. */
const char *core_open(const char *path);
pid_t core_pid(void);        /* 0: not known */
const char *core_name(void); /* of its program; "?": not known */

/* In the order of addresses. */
size_t core_range_count(void);
const target_range_t *core_range(size_t number);

size_t core_read(uintptr_t from, void *to, size_t size); /* as target_read() */
/* Bytes in memory of a part of a range. */
size_t core_resident(uintptr_t from, size_t size);

#endif
