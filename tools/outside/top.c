/* top.c - `freehold top`: a process's memory, again and again
 * Contract: commands.h. The screen is ncurses'; without it frames follow one another. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_CURSES
#include <ncurses.h>
#endif

#include "../../src/os/os.h"
#include "adopt.h"
#include "commands.h"
#include "target.h"

enum { CLASSES_SHOWN = 12, HEAPS_SHOWN = 10 };

typedef struct {
  double interval; /* seconds */
  long frames;     /* 0: until it ends */
  bool is_batch;
} top_t;

/* Per second, in one of eight buffers in turn. A first reading has none yet. */
static const char *rate(uint64_t after, uint64_t before, double seconds, int decimals) {
  static char texts[8][32];
  static unsigned next;
  char *text = texts[next++ % 8];
  double n = after > before ? (double)(after - before) / seconds : 0;
  if (seconds > 0) snprintf(text, sizeof texts[0], "%.*f", decimals, n);
  return seconds > 0 ? text : "-";
}

/* ---- one frame ------------------------------------------------------------------------------- */

static void write_head(FILE *out, const view_t *v, const view_t *before, double seconds) {
  const fh_stats_t *s = &v->stats, *b = &before->stats;
  fprintf(out, "%s: live %s, in memory %s, idle %s, kept by threads %s; process at most %s\n",
          target_title(), outside_size(s->live_bytes),
          outside_size(s->resident + v->metadata_resident), outside_size(v->idle),
          outside_size(v->kept_blocks + v->kept_slices),
          s->peak_resident != 0 ? outside_size(s->peak_resident) : "-"); /* a core says none */
  fprintf(out, "threads %llu; blocks/s %s, freed to other threads/s %s, mmap/s %s, ",
          (unsigned long long)s->threads, rate(s->total.allocated, b->total.allocated, seconds, 0),
          rate(s->remote_frees, b->remote_frees, seconds, 0), rate(s->mmaps, b->mmaps, seconds, 1));
  fprintf(out, "madvise/s %s, faults/s %s\n\n", rate(s->madvises, b->madvises, seconds, 1),
          rate(s->minor_faults, b->minor_faults, seconds, 0));
}

static void write_classes(FILE *out, const view_t *v, const view_t *before, double seconds) {
  bool is_shown[FH_CLASSES] = {false};
  fprintf(out, "%8s %12s %10s %10s %7s %12s\n", "block", "live", "bytes", "in memory", "full",
          "blocks/s");
  for (unsigned row = 0; row < CLASSES_SHOWN; row++) {
    unsigned most = FH_CLASSES;
    for (unsigned i = 0; i < FH_CLASSES; i++)
      if (!is_shown[i] && v->classes[i + 1].resident != 0 &&
          (most == FH_CLASSES || v->classes[i + 1].resident > v->classes[most + 1].resident))
        most = i;
    if (most == FH_CLASSES) break;
    const fh_class_stats_t *c = &v->stats.classes[most];
    const view_class_t *class = &v->classes[most + 1];
    is_shown[most] = true;
    fprintf(out, "%8zu %12llu %10s %10s %6.1f%% %12s\n", c->block_size, (unsigned long long)c->live,
            outside_size(class->live), outside_size(class->resident),
            100 * (double)class->live / (double)(class->slabs * SLICE_SIZE),
            rate(c->allocated, before->stats.classes[most].allocated, seconds, 0));
  }
  fprintf(out, "%8s %12llu %10s %10s %7s %12s\n", "large", (unsigned long long)v->classes[0].slabs,
          outside_size(v->classes[0].live), outside_size(v->classes[0].resident), "",
          rate(v->stats.large_allocated, before->stats.large_allocated, seconds, 0));
  fprintf(out, "%8s %12llu %10s %10s %7s %12s\n\n", "huge", (unsigned long long)v->stats.huge_live,
          outside_size(v->huge_live), outside_size(v->huge_resident), "",
          rate(v->stats.huge_allocated, before->stats.huge_allocated, seconds, 0));
}

static void write_heaps(FILE *out, const view_t *v) {
  fprintf(out, "%-34s %12s %12s %12s\n", "thread", "free blocks", "lists", "slices");
  for (size_t i = 0; i < v->heap_count && i < HEAPS_SHOWN; i++) {
    const view_heap_t *h = &v->heaps[i];
    char text[64];
    fprintf(out, "%-34.34s %12s %12s %12s\n", view_heap_title(h, text), outside_size(h->bins),
            outside_size(h->lists), outside_size(h->slices));
  }
}

static char *frame_of(const view_t *v, const view_t *before) {
  double seconds = (double)(v->read_at - before->read_at) / 1e9;
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (out == NULL) abort();
  write_head(out, v, before, seconds);
  write_classes(out, v, before, seconds);
  write_heaps(out, v);
  fclose(out);
  return text;
}

/* ---- the screen ------------------------------------------------------------------------------ */

/* False: the user wants no more. */
static bool show(const top_t *top, const char *frame) {
#ifdef HAVE_CURSES
  if (!top->is_batch) {
    erase();
    mvaddstr(0, 0, frame);
    refresh();
    timeout((int)(top->interval * 1000));
    int key = getch();
    return key != 'q' && key != 27;
  }
#endif
  (void)top;
  puts(frame);
  fflush(stdout);
  return true;
}

static void start_screen(const top_t *top) {
#ifdef HAVE_CURSES
  if (top->is_batch) return;
  initscr();
  cbreak();
  noecho();
  curs_set(0);
#else
  (void)top;
#endif
}

static void end_screen(const top_t *top) {
#ifdef HAVE_CURSES
  if (!top->is_batch) endwin();
#else
  (void)top;
#endif
}

static int run_top(const top_t *top) {
  view_t v = {.heaps = NULL}, before = {.heaps = NULL};
  bool is_alive = view_read(&v);
  if (!is_alive) return OUTSIDE_CANNOT_READ;
  start_screen(top);
  before = v;
  for (long n = 0; is_alive; n++) {
    char *frame = frame_of(&v, &before);
    bool goes_on = show(top, frame);
    free(frame);
    if (!goes_on || (top->frames != 0 && n + 1 >= top->frames) || !target_is_process()) break;
    if (top->is_batch) usleep((useconds_t)(top->interval * 1e6));
    before = v;
    v.heaps = NULL;
    is_alive = target_is_alive() && adopt_renew() && view_read(&v);
    free(before.heaps);
    before.heaps = NULL;
  }
  end_screen(top);
  if (is_alive) return OUTSIDE_DONE;
  if (target_is_alive()) return OUTSIDE_CANNOT_READ; /* adopt_run has said why */
  fprintf(stderr, "freehold: %s has ended\n", target_title());
  return OUTSIDE_DONE;
}

int command_top(int argc, char **argv) {
  static const char help[] =
    "freehold top [--interval S] [--frames N] [--batch] TARGET\n"
    "    a process's memory by size and by thread, with rates, read from outside again and again;\n"
    "    a rate is of the time since the frame before, of which the first has none: -\n"
    "TARGET is a process's number, or its name if no other process has it. q ends it.\n"
    "  --interval  seconds between two readings (default 2)\n"
    "  --frames    end after so many (default: when the process does)\n"
    "  --batch     frames as text, one after another; always so where the output is no terminal\n"
    "Example: freehold top --interval 0.5 redis-server\n"
    "Exit codes: 0 done, 1 the target cannot be read, 2 bad use\n";
  static const struct option options[] = {{"interval", required_argument, NULL, 'i'},
                                          {"frames", required_argument, NULL, 'n'},
                                          {"batch", no_argument, NULL, 'b'},
                                          {"help", no_argument, NULL, OPTION_HELP},
                                          {0}};
  top_t top = {.interval = 2, .is_batch = isatty(1) == 0};
#ifndef HAVE_CURSES
  top.is_batch = true;
#endif
  for (int o; (o = outside_option(argc, argv, options, help)) != -1;) {
    char *end = NULL;
    if (o == OPTION_WRONG) return OUTSIDE_BAD_USE;
    if (o == 'b') top.is_batch = true;
    if (o == 'i') top.interval = strtod(optarg, &end);
    if (o == 'n') top.frames = strtol(optarg, &end, 10);
    if (end == NULL || (*end == '\0' && end != optarg && top.frames >= 0 && top.interval >= 0.05 &&
                        top.interval <= 3600))
      continue;
    fprintf(stderr, "freehold: --%s is %s, not '%s'\n", o == 'i' ? "interval" : "frames",
            o == 'i' ? "0.05 to 3600 seconds" : "a number", optarg);
    return OUTSIDE_BAD_USE;
  }
  int code = outside_open(argc, argv);
  return code != OUTSIDE_DONE ? code : run_top(&top);
}
