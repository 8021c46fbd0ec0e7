/* tracing.c - `freehold trace --start` and `--stop`: a process is asked for a trace
 * Contract: commands.h. The process is not stopped, and gets no signal. A wish is written into its
 * memory (support/trace.h); the next slow call that brings news answers it there. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../../src/arena/budget.h"
#include "../../src/support/trace.h"
#include "adopt.h"
#include "commands.h"
#include "target.h"
#include "threads.h"

enum { NOT_ANSWERED = 3, LOOKS_A_SECOND = 50 };

typedef struct {
  trace_want_t want;
  char path[TRACE_NAME_MOST];
  double wait; /* seconds */
} asked_t;

static const char help[] =
  "freehold trace --start [--out FILE] [--wait S] TARGET\n"
  "freehold trace --stop [--wait S] TARGET\n"
  "    begins and ends an event trace of a process that runs: it is not stopped, and gets no\n"
  "    signal. Its next call of malloc or realloc that the fast path cannot do finds the wish,\n"
  "    and the trace begins; while there is a trace, every call finds the wish to end it\n"
  "TARGET is a process's number, or its name if no other process has it.\n"
  "  --out   FILE, which the process makes, with its rights and in its file system; if another\n"
  "          process writes to it, the name gets this one's number (default freehold.PID.trace)\n"
  "  --wait  seconds to wait for the answer (default 5)\n"
  "Example: freehold trace --start --out /tmp/t redis-server; sleep 10;\n"
  "         freehold trace --stop redis-server; freehold trace /tmp/t --sum\n"
  "Exit codes: 0 done, 1 it cannot be done, 2 bad use, 3 the process has not answered yet\n";

static int complain(const char *format, const char *what) {
  fputs("freehold: ", stderr);
  fprintf(stderr, format, target_title(), what);
  fputc('\n', stderr);
  return OUTSIDE_CANNOT_READ;
}

/* Into the target's copy of a variable that this command has adopted. */
static bool put_word(const void *mine, uint32_t offset, const void *bytes, size_t size) {
  struct iovec here = {(void *)(uintptr_t)bytes, size};
  struct iovec there = {(void *)(adopt_address(mine) + offset), size};
  if (process_vm_writev(target_pid(), &here, 1, &there, 1, 0) == (ssize_t)size) return true;
  complain("%s cannot be written to: %s", strerror(errno));
  return false;
}

#define PUT(variable, field, value)                                                                \
  put_word(&(variable), offsetof(__typeof__(variable), field), &(uint32_t){value}, 4)

/* The wish comes before the news of it. */
static bool ask(const asked_t *a, uint32_t number) {
  return PUT(trace_wish, wanted, TRACE_WANT_NOTHING) &&
         put_word(&trace_wish, offsetof(trace_wish_t, path), a->path, strlen(a->path) + 1) &&
         PUT(trace_wish, process, threads_main()) && PUT(trace_wish, number, number) &&
         PUT(trace_wish, wanted, a->want) && PUT(budget, news, 1);
}

static bool is_answered(uint32_t number) {
  return atomic32_load_relaxed(&trace_wish.answered) == number;
}

/* False: it has ended, or has not answered so long. */
static bool wait_for(const asked_t *a, uint32_t number, bool *has_ended) {
  const struct timespec nap = {0, 1000000000 / LOOKS_A_SECOND};
  for (long looks = 0; looks <= (long)(a->wait * LOOKS_A_SECOND); looks++) {
    *has_ended = !target_is_alive() || !adopt_renew();
    if (*has_ended || is_answered(number)) return !*has_ended;
    nanosleep(&nap, NULL);
  }
  return false;
}

static int tell_answer(const asked_t *a) {
  switch (atomic32_load_relaxed(&trace_wish.error)) {
    case 0:
      if (a->want == TRACE_WANT_END) printf("%s is traced no more\n", target_title());
      else
        printf("%s is traced to '%s'; to end it: freehold trace --stop %d\n", target_title(),
               a->path, (int)target_pid());
      return OUTSIDE_DONE;
    case EALREADY: return complain("%s has a trace already%s", "");
    case ESRCH: return complain("%s has no trace to a file that could be ended%s", "");
    case EPERM: return complain("%s is set-user-ID or the like: it takes no wishes%s", "");
    case ENOSPC:
      return complain("%s has no room for '%s': the disk is full, or its file system reserves none",
                      a->path);
    default:
      return complain("%s cannot make '%s': no such folder, no right to write there, no plain file",
                      a->path);
  }
}

/* The process may still answer. What nobody wants any more is taken back. */
static int tell_silence(const asked_t *a) {
  if (a->want == TRACE_WANT_END && !trace_is_on()) {
    if (!PUT(trace_wish, wanted, TRACE_WANT_NOTHING)) return OUTSIDE_CANNOT_READ;
    printf("%s had not begun the trace; the wish is taken back\n", target_title());
    return OUTSIDE_DONE;
  }
  fprintf(stderr, "freehold: %s has not answered for %g s: ", target_title(), a->wait);
  if (a->want == TRACE_WANT_END) fputs("the trace ends with its next malloc or realloc\n", stderr);
  else
    fprintf(stderr,
            "the trace begins with its next malloc or realloc that the fast path cannot do; "
            "freehold trace --stop %d takes that back\n",
            (int)target_pid());
  return NOT_ANSWERED;
}

static int ask_and_wait(const asked_t *a) {
  bool is_waiting = atomic32_load_relaxed(&trace_wish.wanted) == TRACE_WANT_BEGIN;
  uint32_t number = 0;
  bool has_ended = false;
  if (a->want == TRACE_WANT_BEGIN && trace_is_on()) return complain("%s has a trace already%s", "");
  if (a->want == TRACE_WANT_END && !trace_is_on() && !is_waiting)
    return complain("%s has no trace%s", "");
  while (number == 0 || is_answered(number))
    if (getrandom(&number, sizeof number, 0) != sizeof number) number = (uint32_t)time(NULL);
  if (!ask(a, number)) return OUTSIDE_CANNOT_READ;
  if (wait_for(a, number, &has_ended)) return tell_answer(a);
  return has_ended ? complain("%s has ended%s", "") : tell_silence(a);
}

/* The target's folder may be another one. */
static bool make_absolute(asked_t *a, const char *out) {
  char folder[TRACE_NAME_MOST] = "", name[64];
  snprintf(name, sizeof name, "freehold.%d.trace", (int)target_pid());
  if (out == NULL) out = name;
  if (out[0] != '/' && getcwd(folder, sizeof folder) == NULL) folder[0] = '\0';
  int length =
    snprintf(a->path, sizeof a->path, "%s%s%s", folder, folder[0] == '\0' ? "" : "/", out);
  if (out[0] != '\0' && length < (int)sizeof a->path) return true;
  fprintf(stderr, "freehold: --out is a file's name, not '%.40s'\n", out);
  return false;
}

int command_tracing(int argc, char **argv) {
  static const struct option options[] = {
    {"start", no_argument, NULL, 'b'},        {"stop", no_argument, NULL, 'e'},
    {"out", required_argument, NULL, 'o'},    {"wait", required_argument, NULL, 'w'},
    {"help", no_argument, NULL, OPTION_HELP}, {0}};
  asked_t a = {.wait = 5};
  const char *out = NULL;
  unsigned wants = 0;
  for (int o; (o = outside_option(argc, argv, options, help)) != -1;) {
    char *end = NULL;
    if (o == OPTION_WRONG) return OUTSIDE_BAD_USE;
    if (o == 'b' || o == 'e') a.want = o == 'b' ? TRACE_WANT_BEGIN : TRACE_WANT_END, wants++;
    if (o == 'o') out = optarg;
    if (o != 'w') continue;
    a.wait = strtod(optarg, &end);
    if (end != optarg && *end == '\0' && a.wait >= 0 && a.wait <= 3600) continue;
    fprintf(stderr, "freehold: --wait is 0 to 3600 seconds, not '%s'\n", optarg);
    return OUTSIDE_BAD_USE;
  }
  if (wants != 1 || (out != NULL && a.want == TRACE_WANT_END)) {
    fputs("freehold: trace takes --start, with --out FILE perhaps, or --stop, not both\n", stderr);
    return OUTSIDE_BAD_USE;
  }
  int code = outside_open(argc, argv);
  if (code != OUTSIDE_DONE) return code;
  if (!target_is_process()) return complain("%s is no process: nobody can be asked%s", "");
  return make_absolute(&a, out) ? ask_and_wait(&a) : OUTSIDE_BAD_USE;
}
