/* commands.h - the commands that look at another process from outside
 * Owns:    nothing.   Called by: tools/freehold.c.   Calls: the rest of tools/outside.
 * Each takes its own name and its arguments, as main does, and returns an exit code. */
#ifndef OUTSIDE_COMMANDS_H
#define OUTSIDE_COMMANDS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "../../src/support/options.h"
#include "view.h"

enum { OUTSIDE_DONE = 0, OUTSIDE_CANNOT_READ = 1, OUTSIDE_BAD_USE = 2 };

int command_stats(int argc, char **argv);
int command_top(int argc, char **argv);
int command_map(int argc, char **argv);
int command_why(int argc, char **argv);
int command_profile(int argc, char **argv);
int command_inspect(int argc, char **argv);
int command_tracing(int argc, char **argv); /* trace --start, trace --stop */
int command_set(int argc, char **argv);
int command_trim(int argc, char **argv);

/* ---- for the commands themselves ---- */

/* The next option of `options`, as getopt_long returns it; -1: there is no more, and argv[optind]
 * is the target. Says what is wrong with a bad one, and prints `help` for --help. */
enum { OPTION_WRONG = '?', OPTION_HELP = 'h' };
int outside_option(int argc, char **argv, const struct option *options, const char *help);
/* The one argument that is left names the target: opens it. An exit code, OUTSIDE_DONE if it is
 * open. */
int outside_open(int argc, char **argv);

/* What an option is set to, and what it may be set to, as they are written; in `text`. */
const char *outside_value_text(option_t option, int64_t value, char *text, size_t size);
const char *outside_range_text(option_t option, char *text, size_t size);
/* False: it is no value of the option; a line says so. */
bool outside_parse_option(option_t option, const char *text, int64_t *value);

/* A file that a command writes, with these rights if it is new; "-": standard output. NULL, and a
 * line says why. */
FILE *outside_create(const char *path, mode_t rights);
/* Ends it; `is_whole`: all could be made. Else a line says so, and no plain file stays. An exit
 * code. */
int outside_finish(FILE *file, const char *path, bool is_whole);

/* "1.5 MiB", in one of eight buffers in turn. */
const char *outside_size(uint64_t bytes);

void outside_write_stats(const view_t *v, bool is_json);
/* False: it has ended meanwhile, or cannot be read; nothing is written, and a line says so. */
bool outside_write_why(const view_t *v, unsigned rows);

#endif
