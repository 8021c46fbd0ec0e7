/* callback.c - what it reports to the program: by its callbacks, or in a line          layer 8: api
 * Owns:    the callbacks in force.   Called by: api.   Calls: heap, arena, support, os, the
 *          program.
 * Threads: any. A callback and its context are two words that must be seen together. So they stand
 *          in a pair that never changes and is never freed. Asking for the same pair again finds
 *          it, which bounds the number of pairs.
 * Sync:    S-callback  api_callback_set, pair_of (release publish) -> begin_callback,
 *                      pair_of (acquire). */
#include "api.h"

#include <errno.h>

#include "../os/container.h"

typedef struct callback_pair {
  void *function, *context;   /* const once published */
  struct callback_pair *next; /* const once published */
} callback_pair_t;

enum { CALLBACK_ROOM = 16 }; /* pairs until one must be allocated */
static callback_pair_t pair_room[CALLBACK_ROOM];
static atomic32_t pair_room_used; /* relaxed: each number is drawn once */
static atomic_ptr_t all_pairs;    /* all pairs; only ever grows */
static atomic_ptr_t callbacks[CALLBACK_COUNT];
static atomic64_t heartbeats; /* relaxed: each number is drawn once */

/* A bit for each callback that this thread is in: none is called from within itself. The two for
 * samples count as one. */
static __thread volatile unsigned inside_of __attribute__((tls_model("initial-exec")));
enum { IN_SAMPLES = 1 << CALLBACK_SAMPLED | 1 << CALLBACK_FREED, IN_FATAL = 1 << CALLBACK_COUNT };

/* NULL when memory is out. */
static callback_pair_t *pair_of(void *function, void *context) {
  void *first = atomic_ptr_load_acquire(&all_pairs); /* S-callback */
  callback_pair_t *pair = first;
  for (; pair != NULL; pair = pair->next) /* Bound: what the program ever set */
    if (pair->function == function && pair->context == context) return pair;
  uint32_t number = atomic32_load_relaxed(&pair_room_used);
  if (number < CALLBACK_ROOM) number = atomic32_add_relaxed(&pair_room_used, 1);
  pair = number < CALLBACK_ROOM ? &pair_room[number] : heap_malloc_own(sizeof *pair);
  if (pair == NULL) return NULL;
  pair->function = function;
  pair->context = context;
  do { /* Progress: another thread put its pair in front */
    pair->next = first;
  } while (!atomic_ptr_cas_release(&all_pairs, &first, pair)); /* S-callback */
  return pair;
}

void api_callback_set(callback_t which, void *function, void *context) {
  callback_pair_t *pair = NULL;
  if (function != NULL && (pair = pair_of(function, context)) == NULL) {
    api_no_memory();
    return;
  }
  atomic_ptr_store_release(&callbacks[which], pair); /* S-callback */
}

/* ---- calling --------------------------------------------------------------------------------- */

static unsigned bits_of(callback_t which) {
  unsigned bit = 1u << which;
  return (bit & IN_SAMPLES) != 0 ? IN_SAMPLES : bit;
}

/* The thread is in the callback until end_callback. NULL: there is none, or it is running. */
static callback_pair_t *begin_callback(callback_t which) {
  if ((inside_of & bits_of(which)) != 0) return NULL;
  callback_pair_t *pair = atomic_ptr_load_acquire(&callbacks[which]); /* S-callback */
  if (pair != NULL) inside_of |= bits_of(which);
  return pair;
}
static void end_callback(callback_t which) { inside_of &= ~bits_of(which); }

void api_output(const char *text, size_t length) {
  callback_pair_t *pair = begin_callback(CALLBACK_OUTPUT);
  if (pair == NULL) {
    os_write(2, text, length);
    return;
  }
  ((fh_output_t *)pair->function)(text, length, pair->context);
  end_callback(CALLBACK_OUTPUT);
}

void api_report_mistake(option_t option, const char *value, const char *what) {
  char line[512];
  fmt_t f;
  fmt_start(&f, line, sizeof line, NULL, NULL);
  fmt_print(&f, "freehold: %s '", option_info[option].name);
  if (value != NULL) fmt_shown(&f, value, strlen(value), 256);
  fmt_print(&f, "': %s\n", what);
  api_output(line, f.used);
}

void api_error(int error) {
  callback_pair_t *pair = begin_callback(CALLBACK_ERROR);
  if (pair == NULL) return;
  ((fh_error_t *)pair->function)(error, pair->context);
  end_callback(CALLBACK_ERROR);
}

cold void *api_no_memory(void) {
  if (option_get(OPTION_abort_on_oom)) fatal("out of memory", NULL, NULL);
  api_error(ENOMEM);
  errno = ENOMEM;
  return NULL;
}

_Noreturn cold void api_fatal_size(const char *what, size_t size, const char *call) {
  char text[128];
  fmt_t f;
  fmt_start(&f, text, sizeof text, NULL, NULL);
  fmt_print(&f, "%s: %p", what, (void *)size);
  fmt_end(&f);
  fatal(text, NULL, call);
}

cold void *api_no_memory_for(size_t size, const char *call) {
  if (option_get(OPTION_abort_on_oom)) api_fatal_size("out of memory; bytes asked for", size, call);
  return api_no_memory();
}

cold void *api_invalid(void) {
  errno = EINVAL;
  return NULL;
}

void api_deferred(bool force) {
  callback_pair_t *pair = begin_callback(CALLBACK_DEFERRED);
  if (pair == NULL) return;
  uint64_t heartbeat = atomic64_add_relaxed(&heartbeats, 1) + 1;
  ((fh_deferred_t *)pair->function)(force, heartbeat, pair->context);
  end_callback(CALLBACK_DEFERRED);
}

/* Keeps the last level, so that if two threads come at once only one reports it. */
static void report_pressure(void) {
  static atomic32_t reported;
  uint32_t level = (uint32_t)atomic64_load_relaxed(&budget.level);
  callback_pair_t *pair = begin_callback(CALLBACK_PRESSURE);
  if (pair == NULL) return;
  if (atomic32_exchange_relaxed(&reported, level) != level || level == PRESSURE_OVER)
    ((fh_pressure_callback_t *)pair->function)((fh_pressure_t)level,
                                               atomic64_load_relaxed(&budget.over), pair->context);
  end_callback(CALLBACK_PRESSURE);
}

static void report_container(void) {
  static const char torn[] =
    "freehold: container: a file of its control group is no number; it is ignored\n";
  static const char silent[] =
    "freehold: container: a file of its control group does not answer; its limit is not known\n";
  static atomic32_t is_reported; /* relaxed: once */
  uint32_t state = atomic32_load_relaxed(&container.state);
  if (state < CONTAINER_TORN || !option_get(OPTION_warnings)) return;
  if (atomic32_exchange_relaxed(&is_reported, 1) != 0) return;
  if (state == CONTAINER_TORN) api_output(torn, sizeof torn - 1);
  else api_output(silent, sizeof silent - 1);
}

cold bool api_take_news(void) {
  if ((inside_of & (bits_of(CALLBACK_PRESSURE) | bits_of(CALLBACK_OUTPUT))) != 0) return false;
  return atomic32_exchange_relaxed(&budget.news, 0) != 0;
}

cold void api_report_news(void) {
  report_container();
  report_pressure();
}

void api_sampled(void *block, size_t size, uint64_t bytes, bool is_freed) {
  callback_t which = is_freed ? CALLBACK_FREED : CALLBACK_SAMPLED;
  callback_pair_t *pair = begin_callback(which);
  if (pair == NULL) return;
  ((fh_profile_hook_t *)pair->function)(block, size, bytes, pair->context);
  end_callback(which);
}

enum { FATAL_LINE_MOST = 2048 };

_Noreturn cold void api_fatal(const char *what, const void *address, const char *call) {
  char little[320]; /* a handler's stack may be small */
  char *large = os_map(FATAL_LINE_MOST), *line = large != NULL ? large : little;
  size_t most = large != NULL ? FATAL_LINE_MOST : sizeof little;
  fmt_t f;
  fmt_start(&f, line, most - 1, NULL, NULL); /* one byte stays for the end of line */
  fmt_print(&f, "freehold: %s", what);
  if (address != NULL) fmt_print(&f, ": %p", address);
  if (call != NULL) fmt_print(&f, " in %s()", call);
  api_put_block(&f, what, address);
  line[f.used++] = '\n';
  if ((inside_of & IN_FATAL) != 0) { /* a callback of ours has caused it */
    os_write(2, line, f.used);
    os_abort();
  }
  inside_of |= IN_FATAL;
  api_output(line, f.used);
  api_error(EFAULT);
  os_abort();
}
