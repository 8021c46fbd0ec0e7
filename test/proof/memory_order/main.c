/* main.c - the command: searches scenarios, with every order as written or with one
 * of them weakened */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "system.h"

static const char usage[] =
  "usage: memory_order [OPTION ...] [SCENARIO ...]\n"
  "Runs the C code of slabs, slices and places under every schedule and every value that the C11\n"
  "memory model allows, within bounds. SCENARIO: a part of a name; none: all.\n"
  "  --list              names of the scenarios\n"
  "  --sites             after the search: each use of an order that is not relaxed, and whether\n"
  "                      it was executed\n"
  "  --weaken SITE=ORDER use ORDER there (SITE as --sites prints it; SITE/failure: of a swap\n"
  "                      that fails)\n"
  "  --bound N           all executions in which threads are left at most N times before they\n"
  "                      end (default 2, one less for the longest scenarios)\n"
  "  --random N          and N executions at random (default 20000)\n"
  "  --all               all executions without a bound; for the smallest scenarios\n"
  "  --first             stop at the first scenario that fails\n"
  "  --show              print a failing execution step by step\n"
  "Exit code: 0 all hold, 1 one fails, 2 a wrong argument. Example:\n"
  "  memory_order --weaken 'bitmap.c release_part atomic64_or_seq_cst(word)=relaxed' --first\n";

static const char *const order_names[] = {"relaxed", "consume", "acquire",
                                          "release", "acq_rel", "seq_cst"};

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

static void put_name(const site_t *site, char *name, size_t size) {
  snprintf(name, size, "%s %s %s(%s)", base_name(site->file), site->function, site->operation,
           site->word);
}

static int order_of(const char *name) {
  for (int order = 0; order <= __ATOMIC_SEQ_CST; order++)
    if (strcmp(name, order_names[order]) == 0) return order;
  return -1;
}

/* A header's function has a site in each file that includes it. */
static bool weaken(const char *argument) {
  static const char failing[] = "/failure";
  char wanted[300], name[300];
  const char *equal = strrchr(argument, '=');
  int order = equal == NULL ? -1 : order_of(equal + 1);
  bool found = false;
  if (order < 0) return false;
  snprintf(wanted, sizeof wanted, "%.*s", (int)(equal - argument), argument);
  size_t length = strlen(wanted), tail = strlen(failing);
  bool is_failure = length > tail && strcmp(wanted + length - tail, failing) == 0;
  if (is_failure) wanted[length - tail] = 0;
  for (site_t *site = __start_sites; site < __stop_sites; site++) {
    put_name(site, name, sizeof name);
    if (strcmp(name, wanted) != 0) continue;
    *(is_failure ? &site->failure : &site->order) = order;
    found = true;
  }
  return found;
}

static void print_sites(void) {
  char name[300];
  for (const site_t *site = __start_sites; site < __stop_sites; site++) {
    put_name(site, name, sizeof name);
    if (site->written == ORDER_AS_WRITTEN) printf("site\t%s\tnot executed\n", name);
    else
      printf("site\t%s\t%s\t%s\n", name, order_names[site->written],
             order_names[site->written_failure]);
  }
}

typedef struct {
  unsigned bound;
  uint64_t random;
  bool all, show;
} how_t;

static bool search(const scenario_t *scenario, how_t how) {
  unsigned bound = how.bound > scenario->is_long ? how.bound - scenario->is_long : 0;
  search_t bounded = {how.all ? SEARCH_ALL : SEARCH_BOUNDED, bound, 0, how.show};
  search_t random = {SEARCH_RANDOM, 0, how.random, how.show};
  verdict_t first = checker_search(scenario, bounded), second = {true, 0, ""};
  if (first.holds && how.random != 0) second = checker_search(scenario, random);
  bool holds = first.holds && second.holds;
  printf("%s\t%s\t%llu\t%llu\t%s\n", holds ? "holds" : "FAILS", scenario->name,
         (unsigned long long)first.executions, (unsigned long long)second.executions,
         first.holds ? second.what : first.what);
  fflush(stdout);
  return holds;
}

static bool is_wanted(const char *name, char **parts) {
  if (*parts == NULL) return true;
  for (; *parts != NULL; parts++)
    if (strstr(name, *parts) != NULL) return true;
  return false;
}

int main(int count, char **arguments) {
  static const struct option options[] = {
    {"help", no_argument, NULL, 'h'},        {"list", no_argument, NULL, 'l'},
    {"sites", no_argument, NULL, 's'},       {"weaken", required_argument, NULL, 'w'},
    {"bound", required_argument, NULL, 'b'}, {"random", required_argument, NULL, 'r'},
    {"all", no_argument, NULL, 'a'},         {"first", no_argument, NULL, 'f'},
    {"show", no_argument, NULL, 'd'},        {NULL, 0, NULL, 0}};
  const scenario_t *const groups[] = {slab_scenarios, span_scenarios, slice_scenarios,
                                      place_scenarios, heap_scenarios};
  how_t how = {2, 20000, false, false};
  bool list = false, sites = false, first = false, all_hold = true, any = false;
  for (int c; (c = getopt_long(count, arguments, "", options, NULL)) != -1;) switch (c) {
      case 'h': fputs(usage, stdout); return 0;
      case 'l': list = true; break;
      case 's': sites = true; break;
      case 'w':
        if (weaken(optarg)) break;
        fprintf(stderr, "memory_order: no such place or order: %s\n", optarg);
        return 2;
      case 'b': how.bound = (unsigned)atoi(optarg); break;
      case 'r': how.random = (uint64_t)atoll(optarg); break;
      case 'a': how.all = true; break;
      case 'f': first = true; break;
      case 'd': how.show = true; break;
      default: fputs(usage, stderr); return 2;
    }
  if (!system_start()) {
    fprintf(stderr, "memory_order: the address space that it needs is taken\n");
    return 2;
  }
  for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
    for (const scenario_t *s = groups[g]; s->name != NULL; s++) {
      if (!is_wanted(s->name, arguments + optind)) continue;
      any = true;
      if (list) puts(s->name);
      else all_hold = search(s, how) && all_hold;
      if (first && !all_hold) return 1;
    }
  if (!any) {
    fprintf(stderr, "memory_order: no such scenario; --list names them\n");
    return 2;
  }
  if (sites) print_sites();
  return all_hold ? 0 : 1;
}
