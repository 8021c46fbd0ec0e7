/* freehold.c - the command: run a program on freehold, look into one, and show the options
 * Owns:    nothing.     Calls: tools/outside, support/options.h for the table, libc.
 * A program of its own. It is linked with the library's code, to read others by it, but for what
 * has a public name: its own malloc is libc's. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../include/freehold/freehold.h"
#include "../src/support/options.h"
#include "outside/commands.h"
#include "trace.h"

static const char version_text[] =
  TEXT_OF(FH_VERSION_MAJOR) "." TEXT_OF(FH_VERSION_MINOR) "." TEXT_OF(FH_VERSION_PATCH);
#define SONAME(name) "lib" name ".so." TEXT_OF(FH_VERSION_MAJOR)
static const char *library_name = SONAME("freehold"); /* or of the grade that is named */

/* Exit codes, those of env(1): the program's own, and these when it was not started. */
enum { EXIT_BAD_USE = 2, EXIT_NO_LIBRARY = 125, EXIT_CANNOT_START = 126, EXIT_NOT_FOUND = 127 };

static void warn(const char *line, size_t length) { fwrite(line, 1, length, stderr); }

/* ---- options --------------------------------------------------------------------------------- */

static void print_options(void) {
  printf("%-15s %-9s %-18s %-9s %-17s %s\n", "option", "in force", "from", "default", "range",
         "set");
  for (unsigned i = 0; i < OPTION_COUNT; i++) {
    const option_info_t *info = &option_info[i];
    char value[256], fallback[32], range[64];
    printf("%-15s %-9s %-18s %-9s %-17s %s\n    %s\n", info->name,
           outside_value_text((option_t)i, option_get((option_t)i), value, sizeof value),
           option_source_name[option_source((option_t)i)],
           outside_value_text((option_t)i, info->fallback, fallback, sizeof fallback),
           outside_range_text((option_t)i, range, sizeof range),
           info->when == OPTION_SET_AT_START ? "at start" : "any time", info->what);
  }
}

static void drain_to_file(const char *text, size_t length, void *file) {
  fwrite(text, 1, length, file);
}

static void print_options_json(void) {
  char buffer[1024], text[256];
  fmt_t f;
  fmt_json_t j;
  fmt_start(&f, buffer, sizeof buffer, drain_to_file, stdout);
  fmt_json_start(&j, &f);
  fmt_json_object(&j, NULL);
  fmt_json_text(&j, "freehold", version_text);
  fmt_json_array(&j, "options");
  for (unsigned i = 0; i < OPTION_COUNT; i++) {
    const option_info_t *info = &option_info[i];
    fmt_json_object(&j, NULL);
    fmt_json_text(&j, "name", info->name);
    /* of a text: whether there is one */
    fmt_json_signed(&j, "value",
                    info->kind == OPTION_KIND_text ? option_get((option_t)i) != 0
                                                   : option_get((option_t)i));
    fmt_json_text(&j, "text",
                  outside_value_text((option_t)i, option_get((option_t)i), text, sizeof text));
    fmt_json_text(&j, "from", option_source_name[option_source((option_t)i)]);
    fmt_json_signed(&j, "default", info->fallback);
    fmt_json_signed(&j, "lowest", info->lowest);
    fmt_json_signed(&j, "highest", info->highest);
    fmt_json_text(&j, "range", outside_range_text((option_t)i, text, sizeof text));
    fmt_json_text(&j, "set", info->when == OPTION_SET_AT_START ? "start" : "any");
    fmt_json_text(&j, "what", info->what);
    fmt_json_close(&j);
  }
  fmt_json_close(&j);
  fmt_json_close(&j);
  fmt_flush(&f);
}

static int list_options(int argc, char **argv) {
  static const char help[] =
    "freehold options [--json]\n"
    "    every option: what is in force here, where that comes from, and what may be set\n"
    "Example: FREEHOLD_OPTIONS=purge_delay_ms:10 freehold options\n"
    "Exit codes: 0 done, 2 bad use\n";
  bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
  if (argc == 2 && strcmp(argv[1], "--help") == 0) return fputs(help, stdout) < 0;
  if (argc > 1 && !json) {
    fprintf(stderr, "freehold: options takes nothing but --json, not '%s'\n", argv[argc - 1]);
    return EXIT_BAD_USE;
  }
  options_load(warn);
  if (json) print_options_json();
  else print_options();
  return 0;
}

static int print_help(FILE *to);

/* ---- run ------------------------------------------------------------------------------------- */

/* Every option as a flag, in both spellings: --purge_delay_ms and --purge-delay-ms. */
enum { RUN_HELP = OPTION_COUNT, RUN_SECURE, RUN_BOUNDS, RUN_DEBUG, RUN_OTHERS = 4 };
static const char *const libraries[] = {SONAME("freehold-secure"), SONAME("freehold-bounds"),
                                        SONAME("freehold-debug")};
typedef struct {
  struct option flags[2 * OPTION_COUNT + RUN_OTHERS + 1];
  char dashed[OPTION_COUNT][64];
} flags_t;

static void make_flags(flags_t *flags) {
  memset(flags, 0, sizeof *flags);
  for (int i = 0; i < OPTION_COUNT; i++) {
    snprintf(flags->dashed[i], sizeof flags->dashed[i], "%s", option_info[i].name);
    for (char *c = flags->dashed[i]; *c != '\0'; c++)
      if (*c == '_') *c = '-';
    flags->flags[2 * i] = (struct option){option_info[i].name, required_argument, NULL, i};
    flags->flags[2 * i + 1] = (struct option){flags->dashed[i], required_argument, NULL, i};
  }
  flags->flags[2 * OPTION_COUNT] = (struct option){"help", no_argument, NULL, RUN_HELP};
  flags->flags[2 * OPTION_COUNT + 1] = (struct option){"secure", no_argument, NULL, RUN_SECURE};
  flags->flags[2 * OPTION_COUNT + 2] = (struct option){"bounds", no_argument, NULL, RUN_BOUNDS};
  flags->flags[2 * OPTION_COUNT + 3] = (struct option){"debug", no_argument, NULL, RUN_DEBUG};
}

/* Where the library lies: beside the command (in a build folder), or in a lib folder next to it
 * (where it is installed). By its soname, which stays when another file takes this one's place. */
static bool find_library(char *path, size_t size) {
  static const char *const places[] = {"", "../lib/", "../lib64/", "../lib/" FH_MULTIARCH "/"};
  char self[PATH_MAX], joined[PATH_MAX + 32], real[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return false;
  self[length] = '\0';
  *(strrchr(self, '/') + 1) = '\0';
  for (unsigned i = 0; i < ARRAY_LENGTH(places); i++) {
    snprintf(joined, sizeof joined, "%s%s", self, places[i]);
    if (realpath(joined, real) == NULL) continue;
    bool is_whole = (size_t)snprintf(path, size, "%s/%s", real, library_name) < size;
    if (is_whole && access(path, R_OK) == 0) return true;
  }
  return false;
}

/* Sets `name` to "first<separator>second"; either may be missing. */
static bool set_joined(const char *name, const char *first, char separator, const char *second) {
  char *joined = NULL;
  bool both = first != NULL && first[0] != '\0' && second != NULL && second[0] != '\0';
  if (!both) return setenv(name, first != NULL && first[0] != '\0' ? first : second, 1) == 0;
  if (asprintf(&joined, "%s%c%s", first, separator, second) < 0) return false;
  bool is_set = setenv(name, joined, 1) == 0;
  free(joined);
  return is_set;
}

/* What goes before the name of a file, so that it is the same wherever the program goes. */
static const char *folder_of(option_t option, const char *value) {
  static char folder[PATH_MAX];
  if (option_info[option].kind != OPTION_KIND_text || strchr("/", value[0]) != NULL) return "";
  if (getcwd(folder, sizeof folder) == NULL || strpbrk(folder, ",: ") != NULL) return "";
  return folder;
}

/* The options of the command line as "name:value,name:value" in `*text`; an exit
 * code, 0 if they are good. */
static int read_flags(int argc, char **argv, char **text) {
  flags_t flags;
  make_flags(&flags);
  *text = strdup("");
  opterr = 0;
  for (int i; (i = getopt_long(argc, argv, "+:", flags.flags, NULL)) != -1;) {
    char *longer = NULL, *whole = NULL;
    int64_t value;
    if (i == RUN_HELP) {
      print_help(stdout);
      exit(EXIT_SUCCESS);
    }
    if (i >= RUN_SECURE && i <= RUN_DEBUG) {
      library_name = libraries[i - RUN_SECURE];
      continue;
    }
    if (i == ':' || i == '?') {
      const char *message = i == ':'
                              ? "freehold: %s needs a value\n"
                              : "freehold: there is no option %s; 'freehold options' lists them\n";
      fprintf(stderr, message, argv[optind - 1]);
      return EXIT_BAD_USE;
    }
    const char *folder = folder_of((option_t)i, optarg);
    if (asprintf(&whole, "%s%s%s", folder, folder[0] != '\0' ? "/" : "", optarg) < 0) abort();
    if (!outside_parse_option((option_t)i, whole, &value)) return EXIT_BAD_USE;
    if (strchr(whole, ',') != NULL) {
      fprintf(stderr, "freehold: option %s: '%.80s' has a comma, which ends an option\n",
              option_info[i].name, whole);
      return EXIT_BAD_USE;
    }
    if (asprintf(&longer, "%s%s%s:%s", *text, **text != '\0' ? "," : "", option_info[i].name,
                 whole) < 0)
      abort();
    free(whole);
    free(*text);
    *text = longer;
  }
  return 0;
}

static int start_program(char **program, const char *options) {
  char library[PATH_MAX];
  if (!find_library(library, sizeof library)) {
    fprintf(stderr, "freehold: %s is neither beside this command nor in a lib folder next to it\n",
            library_name);
    return EXIT_NO_LIBRARY;
  }
  if (strpbrk(library, ": ") != NULL) {
    fprintf(stderr,
            "freehold: '%s' has a colon or a space in it, which LD_PRELOAD cannot express\n",
            library);
    return EXIT_NO_LIBRARY;
  }
  if ((options[0] != '\0' &&
       !set_joined("FREEHOLD_OPTIONS", getenv("FREEHOLD_OPTIONS"), ',', options)) ||
      !set_joined("LD_PRELOAD", library, ':', getenv("LD_PRELOAD"))) {
    fprintf(stderr, "freehold: the environment has no room: %s\n", strerror(errno));
    return EXIT_NO_LIBRARY;
  }
  execvp(program[0], program);
  int error = errno;
  fprintf(stderr, "freehold: cannot start '%s': %s\n", program[0], strerror(error));
  return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_START;
}

static int run_program(int argc, char **argv) {
  char *options;
  int wrong = read_flags(argc, argv, &options);
  if (wrong != 0) return wrong;
  if (optind >= argc) {
    fprintf(stderr, "freehold: run needs a program: "
                    "freehold run [--option value ...] -- PROGRAM [ARGUMENT ...]\n");
    return EXIT_BAD_USE;
  }
  return start_program(argv + optind, options);
}

/* ---- help ------------------------------------------------------------------------------------ */

static int print_help(FILE *to) {
  fprintf(
    to,
    "freehold %s: a lock-free memory allocator, put under programs as they are\n"
    "\n"
    "  freehold run [--secure|--bounds|--debug] [--option value ...] [--] PROGRAM [ARGUMENT ...]\n"
    "      starts PROGRAM with freehold as its malloc; with the secure grade, which checks every\n"
    "      block; with that and a memcpy and strcpy that stay within blocks; or with the debug\n"
    "      library, which checks itself. Exit code and environment are carried through\n"
    "  freehold options [--json]\n"
    "      the options: what is in force here, where it comes from, and what may be set\n"
    "  freehold top TARGET       its memory by size and by thread, again and again\n"
    "  freehold stats TARGET     its statistics; --json, --prometheus\n"
    "  freehold why TARGET       what is in memory and not live, and what would lower it\n"
    "  freehold map TARGET       what is in each slice; --page FILE for a picture\n"
    "  freehold profile TARGET   its heap profile, for pprof\n"
    "  freehold inspect CORE     what a dead process had\n"
    "  freehold profile --start TARGET, freehold profile --stop TARGET\n"
    "      the process samples from now on, or no more\n"
    "  freehold set OPTION:VALUE TARGET\n"
    "      sets an option of a process that runs\n"
    "  freehold trim TARGET      asks it to give free memory back\n"
    "      commands that read work from outside, without the process's help; --start, --stop, set\n"
    "      and trim leave a request in it, which its next slow malloc answers. TARGET is its\n"
    "      number, its name or, to read, a core file; 'freehold stats --help' and so on tell more\n"
    "  freehold trace FILE [--sum] [--json] ...\n"
    "      what a program asked of malloc, as option trace recorded it; freehold trace --help\n"
    "  freehold trace --start TARGET, freehold trace --stop TARGET\n"
    "      begin and end such a trace of a process that runs\n"
    "  freehold version\n"
    "  freehold help\n"
    "\n"
    "Examples\n"
    "  freehold run -- redis-server --port 7000\n"
    "  freehold run --stats exit -- python3 script.py\n"
    "  freehold run --purge-delay-ms 0 --memory-limit 2G -- ./server\n"
    "  FREEHOLD_OPTIONS=stats:json freehold run -- gs -q report.ps\n"
    "  freehold why redis-server\n"
    "\n"
    "Options of run\n",
    version_text);
  for (unsigned i = 0; i < OPTION_COUNT; i++) {
    char name[96], range[64], fallback[32];
    snprintf(name, sizeof name, "--%s %s", option_info[i].name,
             outside_range_text((option_t)i, range, sizeof range));
    for (char *c = name; *c != ' '; c++)
      if (*c == '_') *c = '-';
    fprintf(to, "  %s (default %s)\n      %s\n", name,
            outside_value_text((option_t)i, option_info[i].fallback, fallback, sizeof fallback),
            option_info[i].what);
  }
  fprintf(
    to,
    "\n"
    "Exit codes of run: the program's own; 2 bad use, 125 no library, 126 the program cannot be\n"
    "started, 127 not found.\n");
  return 0;
}

/* ---- commands -------------------------------------------------------------------------------- */

/* With --start or --stop of a process, else of a trace that was made. */
static int trace_or_tracing(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--start") == 0 || strcmp(argv[i], "--stop") == 0)
      return command_tracing(argc, argv);
  return command_trace(argc, argv);
}

static int tell_version(int argc, char **argv) {
  (void)argc, (void)argv;
  return printf("freehold %s\n", version_text) < 0;
}

static int tell_help(int argc, char **argv) {
  (void)argc, (void)argv;
  return print_help(stdout);
}

/* Every command. What an unknown one is answered comes from here, too. */
static const struct {
  const char *verb;
  int (*run)(int argc, char **argv);
} commands[] = {
  {"run", run_program},         {"top", command_top},        {"stats", command_stats},
  {"why", command_why},         {"map", command_map},        {"profile", command_profile},
  {"inspect", command_inspect}, {"set", command_set},        {"trim", command_trim},
  {"options", list_options},    {"trace", trace_or_tracing}, {"version", tell_version},
  {"help", tell_help},
};

static const char *verb_of(const char *word) {
  if (strcmp(word, "--version") == 0) return "version";
  return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ? "help" : word;
}

static int dispatch(int argc, char **argv) {
  if (argc < 2 || argv[1][0] == '\0') return print_help(stderr), EXIT_BAD_USE;
  const char *verb = verb_of(argv[1]);
  for (unsigned i = 0; i < ARRAY_LENGTH(commands); i++)
    if (strcmp(verb, commands[i].verb) == 0) return commands[i].run(argc - 1, argv + 1);
  fprintf(stderr, "freehold: there is no command '%s'", verb);
  for (unsigned i = 0; i < ARRAY_LENGTH(commands); i++)
    fprintf(stderr, "%s %s", i == 0 ? ":" : ",", commands[i].verb);
  fputc('\n', stderr);
  return EXIT_BAD_USE;
}

/* However the command ends: what it has to say must have been written. */
static void end_output(void) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return;
  fprintf(stderr, "freehold: standard output: %s\n",
          errno != 0 ? strerror(errno) : "not all could be written");
  _exit(EXIT_FAILURE);
}

int main(int argc, char **argv) {
  if (atexit(end_output) != 0) return EXIT_FAILURE;
  return dispatch(argc, argv);
}
