/* ask.c - what a running process is asked to do
 * Contract: ask.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <time.h>

#include "../../src/arena/budget.h"
#include "adopt.h"
#include "commands.h"
#include "target.h"
#include "threads.h"

enum { LOOKS_A_SECOND = 50, WAIT_MOST = 3600 };

int ask_complain(const char *format, ...) {
  va_list arguments;
  fprintf(stderr, "freehold: %s ", target_title());
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  return OUTSIDE_CANNOT_READ;
}

int ask_complain_of(int error) {
  if (error == EPERM) return ask_complain("is set-user-ID or the like: it takes no requests");
  return ask_complain("cannot do that: %s", strerror(error));
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
  ask_complain("cannot be written to: %s", strerror(errno));
  return false;
}

#define PUT(variable, field, type, number)                                                         \
  put(&(variable), offsetof(__typeof__(variable), field), &(type){number}, sizeof(type))

asked_kind_t ask_waiting(void) {
  bool is_its = atomic32_load_relaxed(&asked_request.process) == (uint32_t)threads_main();
  uint64_t wanted = atomic64_load_relaxed(&asked_request.wanted);
  return is_its ? (asked_kind_t)(uint32_t)wanted : ASKED_NOTHING; /* a parent's */
}

bool ask_take_back(void) { return PUT(asked_request, wanted, uint64_t, ASKED_NOTHING); }

static bool put_news(void) { return PUT(budget, news, uint32_t, 1); }

/* The request comes before the news of it. Of the word that asks one byte comes last: no other is
 * written at once for sure. */
static bool put_request(const ask_t *a, uint32_t number) {
  return ask_take_back() &&
         put(&asked_request, offsetof(asked_t, text), a->text, strlen(a->text) + 1) &&
         PUT(asked_request, value, uint64_t, a->value) &&
         PUT(asked_request, process, uint32_t, threads_main()) &&
         PUT(asked_request, wanted, uint64_t, asked_word(number, ASKED_NOTHING)) &&
         PUT(asked_request, wanted, uint64_t, asked_word(number, a->kind)) && put_news();
}

static bool is_answered(uint32_t number) {
  return asked_number(atomic64_load_relaxed(&asked_request.answer)) == number;
}

static int lock = -1; /* on a file of the target's: one command asks at a time */

static bool has_lock(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)target_pid());
  if (lock < 0) lock = open(path, O_RDONLY | O_CLOEXEC);
  return lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0;
}

/* Waits until the request of that number is answered, or, 0, until none is being answered. False:
 * the target has ended. `*is_over`: it came to that in time. A thread that took the news may never
 * answer, so now and then there is news again. */
static bool wait_for(uint32_t number, double seconds, bool *is_over) {
  const struct timespec nap = {0, 1000000000 / LOOKS_A_SECOND};
  for (long looks = 0; looks <= (long)(seconds * LOOKS_A_SECOND); looks++) {
    if (!target_is_alive() || !adopt_renew()) return false;
    *is_over = number == 0 ? has_lock() && ask_waiting() != ASKED_TAKEN : is_answered(number);
    if (*is_over) return true;
    if (looks % LOOKS_A_SECOND == LOOKS_A_SECOND / 2) put_news();
    nanosleep(&nap, NULL);
  }
  return true;
}

/* There is room for one. What ends a trace may take the place of what would begin it. A thread may
 * take the old one just before it goes, so the new one comes a little later. */
static bool make_way(const ask_t *a) {
  asked_kind_t waiting = ask_waiting();
  if (waiting == ASKED_NOTHING) return true;
  if (waiting != ASKED_TRACE || a->kind != ASKED_NO_TRACE)
    ask_complain("had not answered an earlier request: this one takes its place");
  return ask_take_back() && nanosleep(&(struct timespec){0, 100000000}, NULL) == 0;
}

int ask_target(const ask_t *a, int *error) {
  uint32_t number = 0;
  bool is_over = false;
  if (!target_is_process()) return ask_complain("is no process: nobody can be asked");
  if (!wait_for(0, a->wait, &is_over)) return ask_complain("has ended");
  if (!is_over && !has_lock()) return ask_complain("is being asked by another command");
  if (!make_way(a)) return OUTSIDE_CANNOT_READ;
  while (number == 0 || is_answered(number))
    if (getrandom(&number, sizeof number, 0) != sizeof number) number = (uint32_t)time(NULL);
  if (!put_request(a, number)) return OUTSIDE_CANNOT_READ;
  if (!wait_for(number, a->wait, &is_over)) return ask_complain("has ended");
  if (!is_over) return ASK_NOT_ANSWERED;
  if (!adopt_renew())
    return ask_complain("has ended"); /* the word was read in two parts, perhaps */
  *error = (int)(uint32_t)atomic64_load_relaxed(&asked_request.answer);
  return OUTSIDE_DONE;
}
