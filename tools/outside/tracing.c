/* tracing.c - `freehold trace --start` and `--stop`: a process is asked for a trace
 * Contract: commands.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../src/support/trace.h"
#include "adopt.h"
#include "ask.h"
#include "commands.h"
#include "target.h"

static const char help[] =
  "freehold trace --start [--out FILE] [--wait S] TARGET\n"
  "freehold trace --stop [--wait S] TARGET\n"
  "    begins and ends an event trace of a process that runs: it is not stopped, and gets no\n"
  "    signal. Its next call of malloc or realloc that the fast path cannot do finds the request,\n"
  "    and the trace begins; while there is a trace, every call finds the request to end it\n"
  "TARGET is a process's number, or its name if no other process has it.\n"
  "  --out   FILE, which the process makes, with its rights and in its file system; if another\n"
  "          process writes to it, the name gets this one's number (default freehold.PID.trace)\n"
  "  --wait  seconds to wait for the answer (default 5)\n"
  "Example: freehold trace --start --out /tmp/t redis-server; sleep 10;\n"
  "         freehold trace --stop redis-server; freehold trace /tmp/t --sum\n"
  "Exit codes: 0 done, 1 it cannot be done, 2 bad use, 3 the process has not answered yet\n";

static int tell_answer(const ask_t *a, int error) {
  switch (error) {
    case 0:
      if (a->kind == ASKED_NO_TRACE) printf("%s is traced no more\n", target_title());
      else
        printf("%s is traced to '%s'; to end it: freehold trace --stop %d\n", target_title(),
               a->text, (int)target_pid());
      return OUTSIDE_DONE;
    case EALREADY: return ask_complain("has a trace already");
    case ESRCH: return ask_complain("has no trace to a file that could be ended");
    case EPERM: return ask_complain_of(error);
    case ENOSPC:
      return ask_complain(
        "has no room for '%s': the disk is full, or its file system reserves none", a->text);
    default:
      return ask_complain(
        "cannot make '%s': no such folder, no right to write there, no plain file", a->text);
  }
}

/* The process may still answer. What nobody wants any more is taken back. */
static int tell_silence(const ask_t *a) {
  char then[160];
  if (ask_waiting() == ASKED_NO_TRACE && !trace_is_on()) {
    if (!ask_take_back()) return OUTSIDE_CANNOT_READ;
    printf("%s had not begun the trace; the request is taken back\n", target_title());
    return OUTSIDE_DONE;
  }
  if (a->kind == ASKED_NO_TRACE)
    return ask_tell_silence(a, "the trace ends with its next malloc or realloc");
  snprintf(then, sizeof then,
           "the trace begins with its next malloc or realloc that the fast path cannot do; "
           "freehold trace --stop %d takes that back",
           (int)target_pid());
  return ask_tell_silence(a, then);
}

static int ask_and_wait(const ask_t *a) {
  bool is_waiting = ask_waiting() == ASKED_TRACE || ask_waiting() == ASKED_TAKEN;
  int error = 0;
  if (a->kind == ASKED_TRACE && trace_is_on()) return ask_complain("has a trace already");
  if (a->kind == ASKED_NO_TRACE && !trace_is_on() && !is_waiting)
    return ask_complain("has no trace");
  int code = ask_target(a, &error);
  if (code == OUTSIDE_DONE) return tell_answer(a, error);
  return code == ASK_NOT_ANSWERED ? tell_silence(a) : code;
}

/* The target's folder may be another one. */
static bool make_absolute(ask_t *a, const char *out) {
  char folder[sizeof a->text] = "", name[64];
  snprintf(name, sizeof name, "freehold.%d.trace", (int)target_pid());
  if (out == NULL) out = name;
  if (out[0] != '/' && getcwd(folder, sizeof folder) == NULL) folder[0] = '\0';
  int length =
    snprintf(a->text, sizeof a->text, "%s%s%s", folder, folder[0] == '\0' ? "" : "/", out);
  if (out[0] != '\0' && length < (int)sizeof a->text) return true;
  fprintf(stderr, "freehold: --out is a file's name, not '%.40s'\n", out);
  return false;
}

int command_tracing(int argc, char **argv) {
  static const struct option options[] = {
    {"start", no_argument, NULL, 'b'},        {"stop", no_argument, NULL, 'e'},
    {"out", required_argument, NULL, 'o'},    {"wait", required_argument, NULL, 'w'},
    {"help", no_argument, NULL, OPTION_HELP}, {0}};
  ask_t a = {.wait = 5};
  const char *out = NULL;
  unsigned wants = 0;
  for (int o; (o = outside_option(argc, argv, options, help)) != -1;) {
    if (o == OPTION_WRONG || (o == 'w' && !ask_read_wait(optarg, &a.wait))) return OUTSIDE_BAD_USE;
    if (o == 'b' || o == 'e') a.kind = o == 'b' ? ASKED_TRACE : ASKED_NO_TRACE, wants++;
    if (o == 'o') out = optarg;
  }
  if (wants != 1 || (out != NULL && a.kind == ASKED_NO_TRACE)) {
    fputs("freehold: trace takes --start, with --out FILE perhaps, or --stop, not both\n", stderr);
    return OUTSIDE_BAD_USE;
  }
  int code = outside_open(argc, argv);
  if (code != OUTSIDE_DONE) return code;
  return make_absolute(&a, out) ? ask_and_wait(&a) : OUTSIDE_BAD_USE;
}
