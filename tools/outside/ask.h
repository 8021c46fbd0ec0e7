/* ask.h - what a running process is asked to do
 * Owns:    nothing.   Called by: the commands.   Calls: adopt.h, target.h, threads.h, the library.
 *
 * The process is not stopped, and gets no signal. A request is written into its memory
 * (support/asked.h); the next slow call that brings news answers it there. */
#ifndef OUTSIDE_ASK_H
#define OUTSIDE_ASK_H

#include "../../src/support/asked.h"

enum { ASK_NOT_ANSWERED = 3 }; /* exit code of the commands that ask */

typedef struct {
  asked_kind_t kind;
  uint64_t value;
  char text[ASKED_TEXT_MOST];
  double wait; /* seconds */
} ask_t;

/* Asks the target, which outside_open has opened, and waits. OUTSIDE_DONE: it has answered, with
 * 0 or an error of errno's in `*error`. ASK_NOT_ANSWERED: not yet, it may still do it. Any other
 * exit code: it cannot be asked, or has ended; a line says so. */
int ask_target(const ask_t *a, int *error);
/* What it has been asked and has not done, as far as it was read. */
asked_kind_t ask_waiting(void);
/* False: the request could not be taken back; a line says so. */
bool ask_take_back(void);
/* Reads the argument of --wait; false: it is no number of seconds; a line says so. */
bool ask_read_wait(const char *text, double *seconds);
/* One line about the target, whose name comes first. Returns OUTSIDE_CANNOT_READ. */
__attribute__((format(printf, 1, 2))) int ask_complain(const char *format, ...);
/* The same for an error that any request may bring. */
int ask_complain_of(int error);
/* A line: the target has not answered, and what happens now. Returns ASK_NOT_ANSWERED. */
int ask_tell_silence(const ask_t *a, const char *then);

#endif
