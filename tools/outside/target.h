/* target.h - the memory of another process, running, stopped or dead
 * Owns:    the target: one for each run of the command.   Called by: tools/outside.
 *          Calls: core.h, libc.
 *
 * A process is read by process_vm_readv, a core file as it lies on the disk. Neither is changed,
 * and no process is stopped. What is read lies at the target's own addresses in this process too:
 * the first access to a page brings it here. So the library's code runs on it as it is. */
#ifndef OUTSIDE_TARGET_H
#define OUTSIDE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
  uintptr_t from, to;
  uint64_t offset; /* of `from` in the file */
  bool is_readable, is_writable, is_code;
  const char *path; /* "": no file's */
} target_range_t;

/* `name`: a process's number, its name if no other has it, or a core file. False: it cannot be
 * read; one line on standard error says why. */
bool target_open(const char *name);

bool target_is_process(void);
pid_t target_pid(void);         /* as its core file has it; 0: not known */
const char *target_title(void); /* "redis-server (1234)", "core.1234 of redis-server (1234)" */
bool target_is_alive(void);     /* of a process */
/* A process gives itself and its threads any name: characters that no terminal should see go. */
void target_make_printable(char *text);
char *target_maps(size_t *size); /* as /proc/PID/maps has it; free() */

/* In the order of addresses. */
size_t target_range_count(void);
const target_range_t *target_range(size_t number);
const target_range_t *target_range_at(uintptr_t address); /* NULL: nothing is there */

/* Copies what is there, from the start on; how many bytes that were. */
size_t target_read(uintptr_t from, void *to, size_t size);
/* Bytes of the range that are in memory; of a core file, that it has. */
size_t target_resident(uintptr_t from, size_t size);

/* Runs `work`, which may read the target's memory in place. False: it met an address that cannot
 * be read, because the target changed meanwhile; nothing after that was done. Unless `lacking` is
 * NULL such a page is taken for zeros, which end every list, and counted there. */
bool target_try(void (*work)(void *context), void *context, size_t *lacking);
/* For `work`: can what is at this address be read? */
bool target_has(const void *at);
/* Forgets what was read: the next access is to what is there then. False: it has ended. */
bool target_renew(void);

#endif
