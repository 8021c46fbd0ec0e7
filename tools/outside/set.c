/* set.c - `freehold set` and `freehold trim`: a process is asked for an option, or for memory
 * Contract: commands.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../src/arena/budget.h"
#include "adopt.h"
#include "ask.h"
#include "commands.h"
#include "target.h"

static const char set_help[] =
  "freehold set OPTION:VALUE [--wait S] TARGET\n"
  "    sets an option of a process that runs: one of those that may be set at any time\n"
  "    ('freehold options' says which). The process is not stopped, and gets no signal. Its next\n"
  "    call of malloc or realloc that the fast path cannot do finds the request\n"
  "TARGET is a process's number, or its name if no other process has it.\n"
  "  --wait  seconds to wait for the answer (default 5)\n"
  "Example: freehold set purge_delay_ms:10 redis-server\n"
  "Exit codes: 0 done, 1 it cannot be done, 2 bad use, 3 the process has not answered yet\n";

static const char trim_help[] =
  "freehold trim [--wait S] TARGET\n"
  "    asks a running process to give back, for four seconds, what is free and what its threads\n"
  "    keep, as it does near a limit (fh_pressure_set is called). Sleeping threads keep theirs:\n"
  "    malloc_trim(0) takes that, too\n"
  "TARGET is a process's number, or its name if no other process has it.\n"
  "  --wait  seconds to wait for the answer (default 5)\n"
  "Example: freehold trim redis-server\n"
  "Exit codes: 0 done, 1 it cannot be done, 2 bad use, 3 the process has not answered yet\n";

/* ---- options --------------------------------------------------------------------------------- */

const char *outside_value_text(option_t option, int64_t value, char *text, size_t size) {
  fmt_t f;
  fmt_start(&f, text, size, NULL, NULL);
  option_put_value(&f, option, value);
  return fmt_end(&f);
}

const char *outside_range_text(option_t option, char *text, size_t size) {
  fmt_t f;
  fmt_start(&f, text, size, NULL, NULL);
  option_put_range(&f, option);
  return fmt_end(&f);
}

bool outside_parse_option(option_t option, const char *text, int64_t *value) {
  char range[64];
  if (option_parse(option, text, strlen(text), value)) return true;
  fprintf(stderr, "freehold: option %s: '%.80s' is not in %s\n", option_info[option].name, text,
          outside_range_text(option, range, sizeof range));
  return false;
}

/* OPTION_COUNT: it is none that can be set now; a line says so. */
static option_t read_setting(const char *setting, int64_t *value) {
  char name[64];
  const char *colon = strchr(setting, ':');
  size_t length = colon == NULL ? strlen(setting) : (size_t)(colon - setting);
  snprintf(name, sizeof name, "%.*s", (int)length, setting);
  for (char *c = name; *c != '\0'; c++)
    if (*c == '-') *c = '_';
  option_t option = option_find(name, strlen(name));
  if (option == OPTION_COUNT)
    fprintf(stderr, "freehold: there is no option '%s'; 'freehold options' lists them\n", name);
  else if (colon == NULL)
    fprintf(stderr, "freehold: option %s needs a value: %s:VALUE\n", name, name);
  else if (option == OPTION_profile_interval)
    fputs("freehold: 'freehold profile --start --interval BYTES TARGET' sets profile_interval\n",
          stderr);
  else if (option_info[option].when != OPTION_SET_AT_ANY)
    fprintf(stderr, "freehold: option %s is read when a program starts, and not later\n", name);
  else if (outside_parse_option(option, colon + 1, value)) return option;
  return OPTION_COUNT;
}

static int tell_setting(const ask_t *a, int code, int error, option_t option, int64_t before) {
  char is[64], was[64];
  if (code == ASK_NOT_ANSWERED)
    return ask_tell_silence(a, "the option holds from its next malloc or realloc that the fast "
                               "path cannot do");
  if (code != OUTSIDE_DONE) return code;
  if (error != 0) return ask_complain_of(error);
  printf("%s: %s:%s from now on; it was %s\n", target_title(), a->text,
         outside_value_text(option, (int64_t)a->value, is, sizeof is),
         outside_value_text(option, before, was, sizeof was));
  return OUTSIDE_DONE;
}

/* Reads what both commands have; an exit code. */
static int read_arguments(int argc, char **argv, const char *help, ask_t *a) {
  static const struct option options[] = {
    {"wait", required_argument, NULL, 'w'}, {"help", no_argument, NULL, OPTION_HELP}, {0}};
  a->wait = 5;
  for (int o; (o = outside_option(argc, argv, options, help)) != -1;)
    if (o != 'w' || !ask_read_wait(optarg, &a->wait)) return OUTSIDE_BAD_USE;
  return OUTSIDE_DONE;
}

int command_set(int argc, char **argv) {
  ask_t a = {.kind = ASKED_OPTION};
  int64_t value = 0;
  int error = 0, code = read_arguments(argc, argv, set_help, &a);
  if (code != OUTSIDE_DONE) return code;
  if (optind + 2 != argc) {
    fputs("freehold: set takes an option and a target: freehold set OPTION:VALUE TARGET\n", stderr);
    return OUTSIDE_BAD_USE;
  }
  option_t option = read_setting(argv[optind++], &value);
  if (option == OPTION_COUNT) return OUTSIDE_BAD_USE;
  code = outside_open(argc, argv);
  if (code != OUTSIDE_DONE) return code;
  int64_t before = option_get(option);
  a.value = (uint64_t)value;
  snprintf(a.text, sizeof a.text, "%s", option_info[option].name);
  code = ask_target(&a, &error);
  return tell_setting(&a, code, error, option, before);
}

/* ---- memory ---------------------------------------------------------------------------------- */

int command_trim(int argc, char **argv) {
  ask_t a = {.kind = ASKED_TRIM};
  view_t before = {.heaps = NULL}, after = {.heaps = NULL};
  int error = 0, code = read_arguments(argc, argv, trim_help, &a);
  if (code == OUTSIDE_DONE) code = outside_open(argc, argv);
  if (code != OUTSIDE_DONE) return code;
  if (!view_read(&before)) return OUTSIDE_CANNOT_READ;
  code = ask_target(&a, &error);
  if (code == ASK_NOT_ANSWERED)
    return ask_tell_silence(&a, "it gives memory back from its next malloc or realloc on that the "
                                "fast path cannot do");
  if (code != OUTSIDE_DONE) return code;
  if (error != 0) return ask_complain_of(error);
  nanosleep(&(struct timespec){BUDGET_ASKED_MS / 1000, 0}, NULL);
  if (!adopt_renew()) return ask_complain("has ended");
  if (!view_read(&after)) return OUTSIDE_CANNOT_READ;
  printf("%s: %s in memory, before that %s\n", target_title(), outside_size(after.stats.resident),
         outside_size(before.stats.resident));
  return OUTSIDE_DONE;
}
