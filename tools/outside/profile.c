/* profile.c - `freehold profile`: the profile of a process, and whether it samples
 * Contract: commands.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../src/api/api.h"
#include "../../src/stock/sample.h"
#include "adopt.h"
#include "ask.h"
#include "commands.h"
#include "target.h"

static const char help[] =
  "freehold profile [--kind heap|blocks|lifetimes] [--out FILE] TARGET\n"
  "    writes the heap profile of a process that samples, as pprof reads it, from outside\n"
  "freehold profile --start [--interval BYTES] [--wait S] TARGET\n"
  "freehold profile --stop [--wait S] TARGET\n"
  "    asks a process that runs to sample what it allocates from now on, or to stop that. Its\n"
  "    next call of malloc or realloc that the fast path cannot do finds the request\n"
  "TARGET is a process's number, its name if no other process has it, or, where a profile is\n"
  "to be written, a core file.\n"
  "  --kind      heap: by call stack; blocks: each sampled block that lives, with thread and age;\n"
  "              lifetimes: where freed blocks were allocated and freed (default heap)\n"
  "  --out       FILE, or - for standard output (default freehold.PID.prof)\n"
  "  --interval  one block in about so many bytes is sampled (default 512K)\n"
  "  --wait      seconds to wait for the answer (default 5)\n"
  "Example: freehold profile --start 1234; sleep 60;\n"
  "         freehold profile --out server.prof 1234 && pprof -top server.prof\n"
  "Exit codes: 0 done, 1 the target cannot be read or asked, or FILE not be written, 2 bad use,\n"
  "            3 the process has not answered yet\n";

/* ---- written --------------------------------------------------------------------------------- */

typedef struct {
  int file;
  fh_profile_t kind;
  bool is_whole;
} profile_t;

/* Perhaps not for the first time. */
static void write_profile(void *context) {
  profile_t *p = context;
  p->is_whole = ftruncate(p->file, 0) == 0 && lseek(p->file, 0, SEEK_SET) == 0 &&
                api_profile_write(p->file, p->kind);
}

/* It goes to memory first, so that a target that cannot be read costs no earlier profile. */
static int save_profile(const char *path, fh_profile_t kind) {
  static char part[1 << 16];
  profile_t p = {.file = memfd_create("profile", MFD_CLOEXEC), .kind = kind};
  if (!adopt_run(write_profile, &p)) return OUTSIDE_CANNOT_READ;
  if (!p.is_whole)
    return fputs("freehold: no memory for the profile\n", stderr), OUTSIDE_CANNOT_READ;
  FILE *out = outside_create(path, 0600);
  if (out == NULL) return OUTSIDE_CANNOT_READ;
  ssize_t size = 0;
  for (off_t at = 0; (size = pread(p.file, part, sizeof part, at)) > 0; at += size)
    fwrite(part, 1, (size_t)size, out);
  close(p.file);
  return outside_finish(out, path, size == 0);
}

static int write_to(const char *out, fh_profile_t kind) {
  char path[64];
  if (!sample_has_stacks()) {
    fprintf(stderr,
            "freehold: %s does not sample: freehold profile --start %d, for what it allocates from "
            "then on\n",
            target_title(), (int)target_pid());
    return OUTSIDE_CANNOT_READ;
  }
  snprintf(path, sizeof path, "freehold.%d.prof", (int)target_pid());
  int code = save_profile(out == NULL ? path : out, kind);
  if (code == OUTSIDE_DONE && out == NULL) printf("%s is written\n", path);
  return code;
}

/* ---- asked for ------------------------------------------------------------------------------- */

static int ask_for_samples(const ask_t *a) {
  int error = 0, code = ask_target(a, &error);
  if (code == ASK_NOT_ANSWERED)
    return ask_tell_silence(a, "it does so with its next malloc or realloc that the fast path "
                               "cannot do");
  if (code != OUTSIDE_DONE) return code;
  if (error != 0) return ask_complain_of(error);
  if (a->value == 0) printf("%s samples no more; its samples stay\n", target_title());
  else
    printf("%s samples one block in about %s from now on; freehold why %d and freehold profile %d "
           "show them\n",
           target_title(), outside_size(a->value), (int)target_pid(), (int)target_pid());
  return OUTSIDE_DONE;
}

typedef struct {
  ask_t ask;
  bool starts, stops, writes, has_interval; /* which options were given */
  const char *out;                          /* NULL: not named */
  fh_profile_t kind;
} wanted_t;

static bool read_kind(const char *text, fh_profile_t *kind) {
  static const char *const kinds[] = {"heap", "blocks", "lifetimes"};
  for (unsigned i = 0; i < ARRAY_LENGTH(kinds); i++)
    if (strcmp(text, kinds[i]) == 0) return *kind = (fh_profile_t)i, true;
  fprintf(stderr, "freehold: --kind is heap, blocks or lifetimes, not '%s'\n", text);
  return false;
}

static bool read_interval(const char *text, uint64_t *value) {
  int64_t n = 0;
  if (outside_parse_option(OPTION_profile_interval, text, &n)) return *value = (uint64_t)n, true;
  return false;
}

static bool read_option(wanted_t *w, int o) {
  switch (o) {
    case 'k': w->writes = true; return read_kind(optarg, &w->kind);
    case 'o': w->out = optarg; return w->writes = true;
    case 'b': return w->starts = true;
    case 'e': return w->stops = true;
    case 'i': w->has_interval = true; return read_interval(optarg, &w->ask.value);
    case 'w': return ask_read_wait(optarg, &w->ask.wait);
    default: return false;
  }
}

static bool is_one_thing(const wanted_t *w) {
  bool asks = w->starts || w->stops;
  if ((w->starts && w->stops) || (asks && w->writes) || (!w->starts && w->has_interval)) {
    fputs("freehold: profile takes --start, with --interval perhaps, or --stop, or --kind and "
          "--out\n",
          stderr);
    return false;
  }
  return true;
}

int command_profile(int argc, char **argv) {
  static const struct option options[] = {
    {"kind", required_argument, NULL, 'k'},     {"out", required_argument, NULL, 'o'},
    {"start", no_argument, NULL, 'b'},          {"stop", no_argument, NULL, 'e'},
    {"interval", required_argument, NULL, 'i'}, {"wait", required_argument, NULL, 'w'},
    {"help", no_argument, NULL, OPTION_HELP},   {0}};
  wanted_t w = {.ask = {.kind = ASKED_SAMPLES, .wait = 5}};
  w.ask.value = (uint64_t)option_info[OPTION_profile_interval].fallback;
  for (int o; (o = outside_option(argc, argv, options, help)) != -1;)
    if (!read_option(&w, o)) return OUTSIDE_BAD_USE;
  if (!is_one_thing(&w)) return OUTSIDE_BAD_USE;
  int code = outside_open(argc, argv);
  if (code != OUTSIDE_DONE) return code;
  if (w.stops) w.ask.value = 0;
  return w.starts || w.stops ? ask_for_samples(&w.ask) : write_to(w.out, w.kind);
}
