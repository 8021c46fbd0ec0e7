/* trace.c - `freehold trace`: what a program asked of malloc, event by event or as sums
 * Owns:    nothing.     Calls: trace_file.h, trace_sums.h, libc. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/support/trace.h"
#include "trace.h"
#include "trace_file.h"
#include "trace_sums.h"

enum { GO_ON = -1, BAD_USE = 2 };

static const char help[] =
  "freehold trace FILE [--sum] [--json] [--thread N] [--address X] [--size A-B] [--from S]\n"
  "                    [--to S]\n"
  "    what the program of a trace (option trace) asked of malloc. A line has the second, the\n"
  "    thread, the call, the address that it takes or returns, and the bytes asked for\n"
  "freehold trace --start TARGET, freehold trace --stop TARGET\n"
  "    begin and end a trace of a process that runs; freehold trace --start --help\n"
  "\n"
  "  --sum          sums instead of events: calls, bytes, what lives at the end and at the peak,\n"
  "                 sizes, lifetimes, temporary blocks, what was not freed, by size, threads,\n"
  "                 which one frees whose blocks\n"
  "  --json         the same for programs; each event is an object on a line of its own\n"
  "  --thread N     only calls of the thread, or threads, whose number is N\n"
  "  --address X    only those that return or take that address\n"
  "  --size A-B     only those that ask for A to B bytes; frees are left out\n"
  "  --from S, --to S  only those between these seconds of the trace\n"
  "\n"
  "Events have the numbers of threads, as the system and --thread have them. It uses them again,\n"
  "so sums have serials as well, from 1, which are a thread's own.\n"
  "Frees of unknown: of blocks that the trace does not know. Frees missing: the address was\n"
  "handed out again, so the block was freed by a call that is not in the trace.\n"
  "A block is temporary if the thread that allocated it frees it within 8 of its calls.\n"
  "\n"
  "Example: freehold run --trace /tmp/ls.trace -- ls\n"
  "         freehold trace /tmp/ls.trace --sum\n"
  "         freehold trace /tmp/ls.trace --size 1000-2000 --from 0.001\n"
  "Exit codes: 0 done, 1 the file cannot be read, or not all of it, 2 bad use\n";

/* ---- what is wanted -------------------------------------------------------------------------- */

typedef struct {
  const char *path;
  bool sum, json, has_thread, has_address, has_size;
  uint32_t thread;
  uintptr_t address;
  uint64_t least, most; /* bytes */
  uint64_t from, to;    /* ns */
} wish_t;

static int complain_of(const char *path, const char *what) {
  fprintf(stderr, "freehold: trace: '%s' %s\n", path, what);
  return EXIT_FAILURE;
}

static bool read_seconds(const char *text, uint64_t *ns) {
  char *end;
  double seconds = strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds >= 0 && seconds < 1e9)) return false;
  *ns = (uint64_t)(seconds * 1e9);
  return true;
}

static bool read_whole(const char *text, uint64_t *n, const char *ends) {
  char *end;
  if (text[0] < '0' || text[0] > '9') return false;
  errno = 0;
  *n = strtoull(text, &end, 0);
  return errno == 0 && strchr(ends, *end) != NULL;
}

static bool read_range(const char *text, uint64_t *least, uint64_t *most) {
  const char *dash = strchr(text, '-');
  if (!read_whole(text, least, "-")) return false;
  *most = *least;
  return dash == NULL || read_whole(dash + 1, most, "");
}

/* GO_ON, or the exit code. */
static int read_wish(int argc, char **argv, wish_t *w) {
  enum { SUM = 1, JSON, THREAD, ADDRESS, SIZE, FROM, TO, HELP };
  static const struct option flags[] = {
    {"sum", 0, NULL, SUM},   {"json", 0, NULL, JSON},       {"thread", 1, NULL, THREAD},
    {"from", 1, NULL, FROM}, {"address", 1, NULL, ADDRESS}, {"size", 1, NULL, SIZE},
    {"to", 1, NULL, TO},     {"help", 0, NULL, HELP},       {NULL, 0, NULL, 0}};
  uint64_t n = 0;
  *w = (wish_t){.to = UINT64_MAX};
  opterr = 0, optind = 0;
  for (int flag; (flag = getopt_long(argc, argv, ":", flags, NULL)) != -1;) {
    bool is_good = true;
    switch (flag) {
      case SUM: w->sum = true; break;
      case JSON: w->json = true; break;
      case THREAD:
        is_good = w->has_thread = read_whole(optarg, &n, "") && n <= UINT32_MAX;
        w->thread = (uint32_t)n;
        break;
      case ADDRESS: is_good = w->has_address = read_whole(optarg, &n, ""), w->address = n; break;
      case SIZE: is_good = w->has_size = read_range(optarg, &w->least, &w->most); break;
      case FROM: is_good = read_seconds(optarg, &w->from); break;
      case TO: is_good = read_seconds(optarg, &w->to); break;
      case HELP: return fputs(help, stdout), EXIT_SUCCESS;
      default: is_good = false;
    }
    if (is_good) continue;
    fprintf(stderr, "freehold: trace: '%s' cannot be taken; freehold trace --help\n",
            argv[optind - 1]);
    return BAD_USE;
  }
  if (optind + 1 != argc) {
    fprintf(stderr, "freehold: trace takes one file; freehold trace --help\n");
    return BAD_USE;
  }
  w->path = argv[optind];
  const char *turned = w->least > w->most ? "--size A-B: A is more than B"
                       : w->from > w->to  ? "--from is after --to"
                                          : NULL;
  if (turned == NULL) return GO_ON;
  fprintf(stderr, "freehold: trace: %s\n", turned);
  return BAD_USE;
}

/* Of a trace that is read from its start, and then to be read again. */
static bool has_thread(trace_file_t *f, uint32_t thread) {
  trace_event_t e;
  while (trace_file_next(f, &e))
    if (e.thread == thread) return true;
  return false;
}

static bool is_wanted(const wish_t *w, const trace_event_t *e) {
  if (w->has_thread && e->thread != w->thread) return false;
  if (w->has_address && (e->failed || e->address != w->address)) return false;
  if (w->has_size && (!trace_has_size(e->kind) || e->size < w->least || e->size > w->most))
    return false;
  return e->time >= w->from && e->time <= w->to;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void print_event(const trace_event_t *e) {
  printf("%14.9f %8u %-12s ", (double)e->time / 1e9, e->thread, trace_kind_text[e->kind]);
  if (e->failed) printf("%-16s", "failed");
  else if (e->kind == TRACE_LEAVE) printf("%-16s", "");
  else printf("0x%-14lx", (unsigned long)e->address);
  if (trace_has_size(e->kind)) printf(" %zu", e->size);
  if (e->kind == TRACE_ALIGNED) printf(" to %zu", e->alignment);
  if (e->heap != 0) printf(" of heap 0x%lx", (unsigned long)e->heap);
  for (unsigned i = 0; i < e->frame_count; i++)
    printf("%s 0x%lx", i == 0 ? " at" : "", (unsigned long)e->frames[i]);
  putchar('\n');
}

static void print_event_json(const trace_event_t *e) {
  printf("{\"ns\": %llu, \"thread\": %u, \"serial\": %u, \"call\": \"%s\"",
         (unsigned long long)e->time, e->thread, e->serial, trace_kind_text[e->kind]);
  if (!e->failed && e->kind != TRACE_LEAVE) printf(", \"address\": %lu", (unsigned long)e->address);
  if (trace_has_size(e->kind)) printf(", \"size\": %zu", e->size);
  if (e->kind == TRACE_ALIGNED) printf(", \"alignment\": %zu", e->alignment);
  if (e->heap != 0) printf(", \"heap\": %lu", (unsigned long)e->heap);
  for (unsigned i = 0; i < e->frame_count; i++)
    printf("%s%lu", i == 0 ? ", \"frames\": [" : ", ", (unsigned long)e->frames[i]);
  puts(e->frame_count != 0 ? "]}" : "}");
}

/* ---- the command ----------------------------------------------------------------------------- */

int command_trace(int argc, char **argv) {
  wish_t w;
  trace_file_t f;
  trace_event_t e;
  int code = read_wish(argc, argv, &w);
  if (code != GO_ON) return code;
  const char *mistake = trace_file_open(&f, w.path);
  if (mistake == NULL && w.has_thread) {
    if (!has_thread(&f, w.thread))
      return complain_of(w.path, "has no thread of that number; --sum lists what it has");
    mistake = trace_file_rewind(&f);
  }
  if (mistake != NULL) return complain_of(w.path, mistake);
  while (trace_file_next(&f, &e)) {
    if (!is_wanted(&w, &e)) continue;
    if (w.sum) trace_sums_note(&f, &e);
    else if (w.json) print_event_json(&e);
    else print_event(&e);
  }
  if (w.sum) trace_sums_print(&f, w.json);
  fflush(stdout);
  return f.is_cut ? complain_of(w.path, "is cut short, or something else has written to it") : 0;
}
