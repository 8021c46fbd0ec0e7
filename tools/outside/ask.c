/* ask.c - what a running process is asked to do
 * Contract: ask.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <time.h>

#include "../../src/arena/budget.h"
#include "adopt.h"
#include "commands.h"
#include "target.h"
#include "threads.h"

enum { LOOKS_A_SECOND = 50, WAIT_MOST = 3600 };

int ask_complain(const char *format, const char *what) {
  fputs("freehold: ", stderr);
  fprintf(stderr, format, target_title(), what);
  fputc('\n', stderr);
  return OUTSIDE_CANNOT_READ;
}

int ask_complain_of(int error) {
  if (error == EPERM)
    return ask_complain("%s is set-user-ID or the like: it takes no requests%s", "");
  return ask_complain("%s cannot do that: %s", strerror(error));
}

int ask_tell_silence(const ask_t *a, const char *then) {
  fprintf(stderr, "freehold: %s has not answered for %g s: %s\n", target_title(), a->wait, then);
  return ASK_NOT_ANSWERED;
}

bool ask_read_wait(const char *text, double *seconds) {
  char *end = NULL;
  *seconds = strtod(text, &end);
  if (end != text && *end == '\0' && *seconds >= 0 && *seconds <= WAIT_MOST) return true;
  fprintf(stderr, "freehold: --wait is 0 to %d seconds, not '%s'\n", WAIT_MOST, text);
  return false;
}

/* Into the target's copy of a variable that this command has adopted. */
static bool put(const void *mine, size_t offset, const void *bytes, size_t size) {
  struct iovec here = {(void *)(uintptr_t)bytes, size};
  struct iovec there = {(void *)(adopt_address(mine) + offset), size};
  if (process_vm_writev(target_pid(), &here, 1, &there, 1, 0) == (ssize_t)size) return true;
  ask_complain("%s cannot be written to: %s", strerror(errno));
  return false;
}

#define PUT(variable, field, type, number)                                                         \
  put(&(variable), offsetof(__typeof__(variable), field), &(type){number}, sizeof(type))

bool ask_take_back(void) { return PUT(outside_request, wanted, uint32_t, ASKED_NOTHING); }

/* The request comes before the news of it. */
static bool put_request(const ask_t *a, uint32_t number) {
  return ask_take_back() &&
         put(&outside_request, offsetof(asked_t, text), a->text, strlen(a->text) + 1) &&
         PUT(outside_request, value, uint64_t, a->value) &&
         PUT(outside_request, process, uint32_t, threads_main()) &&
         PUT(outside_request, number, uint32_t, number) &&
         PUT(outside_request, wanted, uint32_t, a->kind) && PUT(budget, news, uint32_t, 1);
}

static bool is_answered(uint32_t number) {
  return atomic32_load_relaxed(&outside_request.answered) == number;
}

/* False: it has ended, or has not answered so long. */
static bool wait_for(double seconds, uint32_t number, bool *has_ended) {
  const struct timespec nap = {0, 1000000000 / LOOKS_A_SECOND};
  for (long looks = 0; looks <= (long)(seconds * LOOKS_A_SECOND); looks++) {
    *has_ended = !target_is_alive() || !adopt_renew();
    if (*has_ended || is_answered(number)) return !*has_ended;
    nanosleep(&nap, NULL);
  }
  return false;
}

/* There is room for one. What ends a trace may take the place of what would begin it. */
static void tell_replaced(const ask_t *a) {
  uint32_t waiting = atomic32_load_relaxed(&outside_request.wanted);
  bool is_its = atomic32_load_relaxed(&outside_request.process) == (uint32_t)threads_main();
  if (waiting == ASKED_NOTHING || !is_its || a->kind == ASKED_NO_TRACE) return;
  ask_complain("%s had not answered an earlier request: this one takes its place%s", "");
}

int ask_target(const ask_t *a, int *error) {
  uint32_t number = 0;
  bool has_ended = false;
  if (!target_is_process()) return ask_complain("%s is no process: nobody can be asked%s", "");
  while (number == 0 || is_answered(number))
    if (getrandom(&number, sizeof number, 0) != sizeof number) number = (uint32_t)time(NULL);
  tell_replaced(a);
  if (!put_request(a, number)) return OUTSIDE_CANNOT_READ;
  if (!wait_for(a->wait, number, &has_ended))
    return has_ended ? ask_complain("%s has ended%s", "") : ASK_NOT_ANSWERED;
  *error = (int)atomic32_load_relaxed(&outside_request.error);
  return OUTSIDE_DONE;
}
