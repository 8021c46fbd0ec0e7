/* container.h - how much the container has, and whether it is running out               layer 1: os
 * Owns:    where the container's files lie, and what they last said.   Called by: budget.c,
 *          users.c, callback.c; stats.c, by way of the table in support.   Calls: the kernel.
 * Threads: any. One thread reads at a time; the others skip the look. While a read does not return,
 *          the figures stay as they were. Nobody waits for a reader that has died.
 * Sync:    S-container  container_look, at its end (release) -> the next thread that reads
 *          (acquire): what `container.c` remembers. The figures are relaxed words, each a hint.
 *
 * A container is a control group (cgroup), version 1 or 2, or several nested ones. The lowest limit
 * of all groups that can be seen from here counts. */
#pragma once

#include "../base/atomic.h"

/* The outcome of reading its files. NONE: there is no container with a limit; LIMITED: there is
 * one; TORN: the text made no sense; SILENT: a read did not return. */
typedef enum { /* clang-format off */
  CONTAINER_UNREAD, CONTAINER_NONE, CONTAINER_LIMITED, CONTAINER_TORN, CONTAINER_SILENT
} container_state_t; /* clang-format on */

typedef struct {
  atomic64_t limit;      /* bytes; 0: none was found, or none below the machine's memory */
  atomic64_t room;       /* bytes until the limit, without what the kernel can drop at once */
  atomic32_t state;      /* container_state_t */
  atomic32_t is_short;   /* since the last look, the limit was hit or tasks waited for memory */
  atomic32_t processors; /* that its quota is worth, rounded up; 0: it has no quota */
} container_t;
extern hidden container_t container;

/* Reads the files now, unless another thread is reading them. */
hidden void container_look(uint32_t now_ms);
/* What percentages refer to: the container's limit, else the machine's memory. */
hidden uint64_t container_memory(void);
/* The machine's memory at the last look; 0: the system does not say. */
hidden uint64_t container_machine(void);
