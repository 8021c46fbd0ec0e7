/* profile_file.c - what the option `profile` asks for: when, and to which files        layer 8: api
 * Owns:    the numbers of files.   Called by: lifecycle.c.   Calls: profile.c, callback.c, stock,
 *          support, os.
 * Threads: any, also in signal handlers and with a heap marked: memory comes from the system. */
#include "api.h"

#include "../stock/sample.h"

/* The names of one file. */
enum { NAME_MOST = 4096 };
typedef struct {
  char name[NAME_MOST], unfinished[NAME_MOST + 32];
} names_t;

static void put_names(names_t *n, const char *pattern, uint32_t number) {
  fmt_t f;
  fmt_start(&f, n->name, sizeof n->name, NULL, NULL);
  fmt_pattern(&f, pattern, os_process(), &number);
  fmt_start(&f, n->unfinished, sizeof n->unfinished, NULL, NULL);
  /* other threads and processes may write at once */
  fmt_print(&f, "%s.part%u.%u", n->name, os_process(), number);
}

/* A plain file gets its name once it is complete. NULL, or why it failed. */
static const char *write_file(const names_t *n) {
  bool is_plain = !os_is_special(n->name);
  int file = is_plain ? os_create(n->unfinished) : os_append(n->name);
  if (file < 0) return "the file cannot be made";
  bool is_whole = api_profile_write(file, FH_PROFILE_HEAP);
  os_close(file);
  if (is_whole && (!is_plain || os_rename(n->unfinished, n->name))) return NULL;
  if (is_plain) os_remove(n->unfinished);
  return "the file cannot be written";
}

/* NULL, or why there is no file. */
static const char *write_next(void) {
  static atomic32_t number; /* relaxed: each file has its own */
  names_t *names = os_map(sizeof *names);
  if (names == NULL) return "no memory for the file's name";
  put_names(names, option_text(OPTION_profile), atomic32_add_relaxed(&number, 1));
  const char *mistake = write_file(names);
  os_unmap(names, sizeof *names);
  return mistake;
}

/* Reports mistakes only at exit: the program's output callback is not for these moments. */
static void write_on_growth(void) { (void)write_next(); }
static void write_on_signal(int number) {
  (void)number;
  (void)write_next();
}

void api_profile_start(void) {
  bool has_file = option_text(OPTION_profile) != NULL;
  if (!has_file && option_source(OPTION_profile_interval) == OPTION_FROM_DEFAULT) return;
  if (has_file) sample_on_growth((uint64_t)option_get(OPTION_profile_growth), write_on_growth);
  if (!fh_profile_start((size_t)option_get(OPTION_profile_interval)))
    return api_report_mistake(OPTION_profile, option_text(OPTION_profile),
                              "no memory for call stacks");
  if (!has_file) return;
  int signal = (int)option_get(OPTION_profile_signal);
  if (signal != 0 && !os_on_signal(signal, write_on_signal))
    api_report_mistake(OPTION_profile, option_text(OPTION_profile), "the signal is not free");
}

void api_profile_end(void) {
  if (option_text(OPTION_profile) == NULL || !sample_has_stacks()) return;
  const char *mistake = write_next();
  if (mistake != NULL) api_report_mistake(OPTION_profile, option_text(OPTION_profile), mistake);
}
