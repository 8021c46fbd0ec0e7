/* container.h - how much the container has, and whether it is running out               layer 1: os
 * Owns:    where the container's files lie, and what they last said.   Called by: budget.c,
 *          users.c, callback.c; stats.c, by way of the table in support.   Calls: the kernel.
 * Threads: any. One thread reads at a time, the others pass by. While one does not come back from a
 *          file the figures stay as they were; one that has died there is not waited for.
 * Sync:    S-container  container_look, at its end (release) -> the next thread that reads
 *          (acquire): what `container.c` remembers. The figures are relaxed words, each a hint.
 *
 * A container is a control group (cgroup), version 1 or 2, or nested ones: the least of all that
 * can be seen from here counts. */
#pragma once

#include "../base/atomic.h"

/* What the text of its files came to: there is no container with a limit; there is one; nonsense; a
 * file did not answer. */
typedef enum { /* clang-format off */
  CONTAINER_UNREAD, CONTAINER_NONE, CONTAINER_LIMITED, CONTAINER_TORN, CONTAINER_SILENT
} container_state_t; /* clang-format on */

typedef struct {
  atomic64_t limit;      /* bytes; 0: none was found, or none below what the machine has */
  atomic64_t room;       /* bytes until the limit, without what the kernel can drop at once */
  atomic32_t state;      /* container_state_t */
  atomic32_t is_short;   /* since the look before, the limit was met or tasks waited for memory */
  atomic32_t processors; /* whose time it may use, rounded up; 0: there is no quota */
} container_t;
extern hidden container_t container;

/* Reads the files now, unless another thread is at it. */
hidden void container_look(uint32_t now_ms);
/* What a percentage is a part of: the container's limit, else the machine's memory. */
hidden uint64_t container_memory(void);
/* The machine's memory, as it was at the last look; 0: the system does not say. */
hidden uint64_t container_machine(void);
