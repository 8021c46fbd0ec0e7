/* park.c - the sweep of one operation with one action: a copy at each point, one line of JSON */
#include "park.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FAILURES_TOLD = 12, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char usage[] =
  "usage: park [OPTION ...] OPERATION ACTION\n"
  "\n"
  "Runs an operation of an allocator in single steps, takes an action before each instruction\n"
  "in the allocator's text, in a copy of the process, and checks that everybody else works on.\n"
  "\n"
  "  --library FILE   freehold's shared library (else the process's own malloc is swept, such\n"
  "                   as one that LD_PRELOAD names)\n"
  "  --every N        only each Nth point\n"
  "  --rounds N       of a loop the first N rounds, and each 61st after these (default: all)\n"
  "  --at K           only point K\n"
  "  --copies N       so many copies at a time, 16 at most (default 2)\n"
  "  --limit-ms N     processor time after which a copy counts as hanging (default 30000)\n"
  "  --steps N        no more steps than that: the rest of a longer operation is not swept\n"
  "                   (default: all of it)\n"
  "  --trace FILE     write the offsets of the instructions that the operation executes\n"
  "  --list           operations, and the actions that suit them, as JSON\n"
  "  --deaths N       instead: N threads that die, and what each costs\n"
  "  --help           this text\n"
  "\n"
  "Prints one JSON object. Exit code 0: all points passed; 1: some did not; 2: usage or set-up.\n"
  "\n"
  "example: park --library build/libfreehold.so malloc-hit PARK\n";

shared_t *shared;

static struct {
  const operation_t *operation;
  const action_t *action;
  const char *library, *trace;
  unsigned every, copies, limit_ms, deaths, rounds;
  unsigned long only, steps;
  bool is_list;
} options = {.every = 1, .copies = 2, .limit_ms = 30000};

static struct {
  volatile unsigned long points, chosen, tried, passed, hung;
  unsigned told;
  struct {
    unsigned long point;
    size_t offset;
    char why[WHY_SIZE];
  } failures[FAILURES_TOLD];
} sweep;
static uint32_t *executed; /* how often, for each address of the text */

void park_fail(const char *format, ...) {
  char line[512];
  va_list list;
  va_start(list, format);
  int n = vsnprintf(line, sizeof line - 1, format, list);
  va_end(list);
  if (n > (int)sizeof line - 2) n = (int)sizeof line - 2;
  line[n] = '\n';
  (void)!write(2, line, (size_t)n + 1); /* nowhere left to complain */
  _exit(EXIT_USAGE);
}

void *shared_memory(size_t size) {
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) park_fail("no memory");
  return p;
}

/* ---- the sweep ------------------------------------------------------------------------------- */

void at_copy_end(unsigned long point, uintptr_t instruction, copy_end_t end, const char *why) {
  sweep.passed += end == COPY_PASSED;
  sweep.hung += end == COPY_HUNG;
  if (end == COPY_PASSED || sweep.told == FAILURES_TOLD) return;
  sweep.failures[sweep.told].point = point;
  sweep.failures[sweep.told].offset = library_offset(instruction);
  memcpy(sweep.failures[sweep.told++].why, why, WHY_SIZE);
}

static bool has_changed(void) {
  static uint64_t last;
  uint64_t now = oracle_digest(), before = last;
  last = now;
  return now != before;
}

/* The rounds of a loop differ little once there were many. */
static bool is_round_chosen(uint32_t round) {
  enum { STEP = 61 }; /* a prime, so that no pattern of the loop is missed */
  return options.rounds == 0 || round <= options.rounds || round % STEP == 0;
}

static bool is_chosen(uint32_t round) {
  static unsigned long changes;
  bool is_in_turn = is_round_chosen(round) && ++sweep.chosen % options.every == 0;
  if (options.action == NULL || (options.action->by_signal && step_holds_signals())) return false;
  if (options.only != 0) return sweep.points == options.only;
  if (options.action->when_changed) return has_changed() && changes++ % options.every == 0;
  return is_in_turn;
}

/* What somebody else does once, at a moment that the operation chooses. */
static bool has_happened;
static void let_it_happen(void) {
  if (options.operation->meanwhile != NULL && !has_happened)
    has_happened = options.operation->meanwhile();
}

static void at_point(uintptr_t instruction) {
  if (sweep.points++ == 0 && library_is_freehold()) oracle_touch();
  uint32_t round = ++executed[library_offset(instruction)];
  let_it_happen();
  if (!is_chosen(round)) return;
  sweep.tried++;
  bool is_taking = library_is_freehold() && oracle_is_taking();
  if (!snapshot_take(sweep.points, instruction, options.copies)) return;
  step_end();
  traced_adopt(options.action->loses);
  if (is_taking) oracle_go_on_taking();
  limit_memory(false);
  snapshot_wake_helper(options.action->helper);
  options.action->take();
}

static void *run_subject(void *unused) {
  if (options.library != NULL && library_is_freehold()) library_tls(); /* before there are copies */
  const operation_t *operation = options.operation;
  snapshot_note_subject();
  if ((operation->flags & IS_BARE) == 0) operation_give_blocks();
  if (operation->prepare != NULL) operation->prepare();
  action_run_subject(operation, at_point);
  return unused;
}

/* A thread that is cancelled, so that libc has loaded what it needs for that. */
static void *cancel_self(void *unused) {
  pthread_cancel(pthread_self());
  pthread_testcancel();
  return unused;
}

/* Stacks that libc keeps for the threads to come, so that the copies need not map any. */
static void leave_stacks(void) {
  enum { STACKS = 3 }; /* the helper's, the subject's, and one for a thread of a copy */
  static unsigned depth;
  if (++depth < STACKS) in_thread(leave_stacks);
}

static void run_sweep(void) {
  pthread_t thread;
  const round_worst_t *table;
  pthread_create(&thread, NULL, cancel_self, NULL);
  pthread_join(thread, NULL);
  executed = calloc(library_text_size(), sizeof *executed);
  shared = shared_memory(sizeof *shared);
  round_worst(&table);
  action_start();
  step_install();
  in_thread(leave_stacks);
  snapshot_start_helper();
  if (pthread_create(&thread, NULL, run_subject, NULL) != 0) park_fail("no thread");
  pthread_join(thread, NULL);
  if (options.operation->meanwhile != NULL && !has_happened && options.trace == NULL)
    park_fail("%s: the moment for others did not come in %lu points", options.operation->name,
              sweep.points);
}

/* ---- the result ------------------------------------------------------------------------------ */

static void print_text(const char *text) {
  for (putchar('"'); *text != '\0'; text++) {
    if (*text == '\n' && text[1] == '\0') continue;
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar((unsigned char)*text < ' ' ? ' ' : *text);
  }
  putchar('"');
}

static void print_failures(void) {
  printf(", \"failures\": [");
  for (unsigned i = 0; i < sweep.told; i++) {
    printf("%s{\"point\": %lu, \"offset\": %zu, \"why\": ", i > 0 ? ", " : "",
           sweep.failures[i].point, sweep.failures[i].offset);
    print_text(sweep.failures[i].why);
    printf("}");
  }
  printf("]");
}

static void print_worst(void) {
  const round_worst_t *table;
  size_t n = round_worst(&table);
  const char *comma = "";
  printf(", \"worst\": {");
  for (size_t i = 0; i < n; i++) {
    if (table[i].worst == 0) continue;
    printf("%s\"%s\": %lu", comma, table[i].name, (unsigned long)table[i].worst);
    comma = ", ";
  }
  printf("}");
}

static void print_result(void) {
  loss_t l = shared->worst_loss;
  printf("{\"operation\": \"%s\", \"action\": \"%s\", \"points\": %lu, \"chosen\": %lu, "
         "\"tried\": %lu, \"passed\": %lu, \"hung\": %lu, \"cut\": %s",
         options.operation->name, options.action != NULL ? options.action->name : "NONE",
         sweep.points, sweep.chosen, sweep.tried, sweep.passed, sweep.hung,
         step_was_cut() ? "true" : "false");
  print_worst();
  if (options.action != NULL && options.action->loses)
    printf(", \"loss\": {\"heaps\": %lu, \"slabs\": %lu, \"slices\": %lu, \"blocks\": %lu, "
           "\"large\": %lu}",
           (unsigned long)l.heaps, (unsigned long)l.slabs, (unsigned long)l.slices,
           (unsigned long)l.blocks, (unsigned long)l.large);
  print_failures();
  printf("}\n");
}

static void write_trace(void) {
  FILE *file = fopen(options.trace, "w");
  if (file == NULL) park_fail("%s: %s", options.trace, strerror(errno));
  for (size_t i = 0; i < library_text_size(); i++)
    if (executed[i]) fprintf(file, "%zx\n", i);
  if (fclose(file) != 0) park_fail("%s: %s", options.trace, strerror(errno));
}

/* ---- arguments ------------------------------------------------------------------------------- */

static const operation_t *operation_at(size_t i) {
  if (i < portable_operation_count) return &portable_operations[i];
  i -= portable_operation_count;
  if (options.library == NULL || i >= freehold_operation_count) return NULL;
  return &freehold_operations[i];
}

static bool is_offered(const action_t *action, const operation_t *operation) {
  return (options.library != NULL || action->portable) && action_suits(action, operation);
}

static void list(void) {
  const operation_t *o;
  printf("{\"operations\": [");
  for (size_t i = 0; (o = operation_at(i)) != NULL; i++) {
    const char *comma = "";
    printf("%s{\"name\": \"%s\", \"quick\": %s, \"actions\": [", i > 0 ? ", " : "", o->name,
           (o->flags & QUICK) != 0 ? "true" : "false");
    for (size_t k = 0; k < action_count; k++) {
      if (!is_offered(&actions[k], o)) continue;
      printf("%s\"%s\"", comma, actions[k].name);
      comma = ", ";
    }
    printf("], \"lacks\": ");
    print_text(library_lacks(o->flags) != NULL ? library_lacks(o->flags) : "");
    printf("}");
  }
  printf("]}\n");
}

static void choose(const char *operation, const char *action) {
  const operation_t *o;
  for (size_t i = 0; (o = operation_at(i)) != NULL; i++)
    if (strcmp(o->name, operation) == 0) options.operation = o;
  for (size_t i = 0; i < action_count; i++)
    if (strcmp(actions[i].name, action) == 0) options.action = &actions[i];
  if (options.operation == NULL) park_fail("no operation %s; see --list", operation);
  if (options.action == NULL && strcmp(action, "NONE") != 0)
    park_fail("no action %s; see --list", action);
  if (options.action != NULL && !action_suits(options.action, options.operation))
    park_fail("%s cannot be done in %s", action, operation);
}

static void parse(int argc, char **argv) {
  static const struct option names[] = {
    /* clang-format off */
    {"library", required_argument, NULL, 'l'}, {"every", required_argument, NULL, 'e'},
    {"at", required_argument, NULL, 'a'},      {"limit-ms", required_argument, NULL, 'm'},
    {"trace", required_argument, NULL, 't'},   {"deaths", required_argument, NULL, 'd'},
    {"copies", required_argument, NULL, 'c'},  {"steps", required_argument, NULL, 's'},
    {"rounds", required_argument, NULL, 'r'},
    {"list", no_argument, NULL, 'i'},          {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
  }; /* clang-format on */
  for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
    switch (c) {
      case 'l': options.library = optarg; break;
      case 'e': options.every = (unsigned)atoi(optarg); break;
      case 'a': options.only = strtoul(optarg, NULL, 10); break;
      case 'm': options.limit_ms = (unsigned)atoi(optarg); break;
      case 'c': options.copies = (unsigned)atoi(optarg); break;
      case 't': options.trace = optarg; break;
      case 'd': options.deaths = (unsigned)atoi(optarg); break;
      case 'i': options.is_list = true; break;
      case 'r': options.rounds = (unsigned)atoi(optarg); break;
      case 's': options.steps = strtoul(optarg, NULL, 10); break;
      case 'h': fputs(usage, stdout); exit(0);
      default: exit(EXIT_USAGE);
    }
  }
  if (optind == argc && (options.is_list || options.deaths != 0)) return;
  if (optind + 2 != argc || options.every == 0 || options.copies - 1 >= COPIES_MOST) {
    fputs(usage, stderr);
    exit(EXIT_USAGE);
  }
  choose(argv[optind], argv[optind + 1]);
}

static void load(void) {
  const operation_t *o = options.operation;
  if (options.library != NULL)
    setenv("FREEHOLD_OPTIONS", o != NULL && o->options != NULL ? o->options : "", 1);
  library_load(options.library, o != NULL && (o->flags & FIRST_USE) != 0);
  if (options.library != NULL && library_is_freehold()) oracle_load(), traced_load();
}

int main(int argc, char **argv) {
  struct rlimit none = {0, 0};
  parse(argc, argv);
  setrlimit(RLIMIT_CORE, &none);
  load();
  if (options.is_list) {
    list();
    return 0;
  }
  if (options.operation != NULL && library_lacks(options.operation->flags) != NULL)
    park_fail("%s needs %s", options.operation->name, library_lacks(options.operation->flags));
  snapshot_set_limit(options.limit_ms);
  step_set_limit(options.steps);
  if (options.deaths != 0) return deaths(options.deaths);
  run_sweep();
  if (options.trace != NULL) write_trace();
  print_result();
  return sweep.passed == sweep.tried ? 0 : EXIT_FAILED;
}
