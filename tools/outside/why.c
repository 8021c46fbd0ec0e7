/* why.c - `freehold why` and `freehold inspect`: what is in memory, and why
 * Contract: commands.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/api/pprof.h"
#include "../../src/heap/visit.h"
#include "../../src/os/os.h"
#include "../../src/stock/sample.h"
#include "../../src/support/options.h"
#include "adopt.h"
#include "commands.h"
#include "holders.h"
#include "symbols.h"
#include "target.h"

enum { ROWS = 5, STACKS_SHOWN = 3 };

/* ---- the sum --------------------------------------------------------------------------------- */

static void write_part(uint64_t bytes, uint64_t whole, const char *what) {
  printf("  %10s %5.1f%%  %s\n", outside_size(bytes), 100.0 * (double)bytes / (double)(whole | 1),
         what);
}

static uint64_t in_memory(const view_t *v) { return v->stats.resident + v->metadata_resident; }

static uint64_t less(uint64_t from, uint64_t what) { return from > what ? from - what : 0; }

static void write_sum(const view_t *v) {
  uint64_t whole = in_memory(v), tails = v->classes[0].free, maps = v->metadata_resident;
  uint64_t in_slabs = v->total.free - tails, dirty = v->idle, pages = v->idle_pages;
  uint64_t held = less(v->total.live - v->total.untouched, v->kept_blocks) + v->huge_resident;
  uint64_t known = held + v->kept_blocks + in_slabs + tails + pages + dirty + v->kept_slices;
  printf("in memory %s, of %s\n", outside_size(whole), target_title());
  write_part(held, whole, "in live blocks");
  write_part(v->kept_blocks, whole, "free blocks that threads keep for their next calls");
  write_part(in_slabs, whole, "free blocks in slabs with live ones");
  write_part(v->total.sparse_free, whole,
             "    of that, in slabs of which less than a quarter is live");
  write_part(pages, whole, "free pages between large blocks of up to 128 KiB");
  write_part(tails, whole, "behind larger ones, in their last slice");
  write_part(v->kept_slices, whole, "empty slices that threads keep");
  write_part(dirty, whole, "empty slices that were not yet given back");
  write_part(maps, whole, "descriptors, maps and heaps");
  if (whole > known + maps) write_part(whole - known - maps, whole, "else, or changed meanwhile");
  else if (whole < known + maps)
    printf("  (%s more than in memory: it changed meanwhile)\n",
           outside_size(known + maps - whole));
  uint64_t untouched = v->total.untouched + less(v->huge_live, v->huge_resident);
  printf("asked for and never touched: %s\n", outside_size(untouched));
}

/* ---- what would lower it --------------------------------------------------------------------- */

static void write_advice(uint64_t bytes, uint64_t whole, const char *what) {
  if (bytes >= 64 << 10 && bytes * 200 > whole) printf("  %10s  %s\n", outside_size(bytes), what);
}

static uint64_t kept_by_resting(const view_t *v) {
  uint64_t kept = 0;
  for (size_t i = 0; i < v->heap_count; i++)
    if (v->heaps[i].rests) kept += v->heaps[i].bins + v->heaps[i].lists + v->heaps[i].slices;
  return kept;
}

static void write_options(const view_t *v) {
  uint64_t whole = in_memory(v), resting = kept_by_resting(v), owned = v->total.owned_pages;
  uint64_t free_pages = v->idle + v->idle_pages + v->total.sparse_pages;
  char delay[96], trim[96] = "malloc_trim(0)";
  snprintf(delay, sizeof delay, "purge_delay_ms:0 (now %lld)",
           (long long)option_get(OPTION_purge_delay_ms));
  if (target_is_process())
    snprintf(trim, sizeof trim, "freehold trim %d, or malloc_trim(0) in it", (int)target_pid());
  printf("what would lower it, at most by\n");
  write_advice(v->idle, whole, delay);
  write_advice(free_pages + resting, whole, trim);
  write_advice(less(v->kept_blocks + v->kept_slices, resting) + owned, whole,
               "the same, as soon as each thread has called again");
  write_advice(v->kept_slices, whole, "magazine:0");
  if (option_get(OPTION_background) == 0)
    write_advice(free_pages + resting, whole,
                 "background:on, if the program is quiet now and then");
  write_advice(less(v->total.sparse_free, v->total.sparse_pages + owned), whole,
               "the program alone: by freeing what keeps sparse slabs, below");
}

/* ---- slabs that are free in part, and who holds them ----------------------------------------- */

static void add_sample(const sampled_t *block, void *context) {
  uint32_t age = os_ms_between(atomic32_load_relaxed(&block->since), os_now_ms());
  holder_t one = {.stack = sampled_stack(block),
                  .samples = 1,
                  .youngest = age,
                  .oldest = age,
                  .size = atomic64_load_relaxed(&block->size),
                  .bytes = sampled_bytes(block)};
  holder_t *added = holders_add(context, &one);
  const uintptr_t *frames;
  const callstack_t *s = added == NULL ? NULL : callstack_at(one.stack, &frames);
  if (s == NULL) return;
  added->frame_count = (uint32_t)min_size(callstack_length(s), HOLDER_FRAMES);
  for (uint32_t i = 0; i < added->frame_count; i++) added->frames[i] = frames[i];
}

static void write_holder(const holder_t *h) {
  printf("      %s in %u sample%s", outside_size(h->bytes), h->samples, h->samples == 1 ? "" : "s");
  if (target_is_process())
    printf(", from %.1f to %.1f s old", (double)h->youngest / 1000, (double)h->oldest / 1000);
  puts(", allocated by");
  for (uint32_t i = 0; i < h->frame_count; i++) {
    fputs("        ", stdout);
    symbols_write(stdout, h->frames[i]);
    putchar('\n');
  }
  if (h->frame_count == 0) puts("        (call stack not known)");
}

static void read_samples(void *context) {
  holders_empty(context);
  heap_visit_sampled(add_sample, context);
}

/* None, if nothing was sampled. False: what was cannot be read. */
static bool find_holders(holders_t *found) {
  if (sample_has_stacks() && !adopt_run(read_samples, found)) return false;
  holders_sort(found);
  return true;
}

static void write_slabs(const view_t *v, const holders_t *holders, unsigned rows) {
  bool is_listed[CLASS_COUNT] = {false};
  printf("slabs with free blocks in memory, and whose live blocks keep them\n");
  for (unsigned row = 0; row < rows; row++) {
    unsigned most = 0;
    for (unsigned c = 1; c < CLASS_COUNT; c++)
      if (!is_listed[c] && v->classes[c].free > (most == 0 ? 0 : v->classes[most].free)) most = c;
    if (most == 0) break;
    const view_class_t *class = &v->classes[most];
    is_listed[most] = true;
    printf("  blocks of %zu: %s free in %llu slabs, of which %llu are less than a quarter live\n",
           class_size(most), outside_size(class->free), (unsigned long long)class->slabs,
           (unsigned long long)class->sparse);
    for (size_t i = 0, shown = 0; i < holders->count && shown < STACKS_SHOWN; i++)
      if (holders->all[i].size == class_size(most)) {
        write_holder(&holders->all[i]);
        shown++;
      }
  }
  if (!sample_has_stacks())
    puts(target_is_process()
           ? "  (whose they are is known if the process samples: freehold profile --start)"
           : "  (whose they are is known if the process samples: --profile_interval 512K)");
}

/* Blocks of all sizes, by their stacks alone. */
static void write_live(const holders_t *holders, unsigned rows) {
  holders_t stacks = {.all = NULL};
  holders_add_stacks(&stacks, holders);
  holders_sort(&stacks);
  printf("whose live blocks are most, by the samples\n");
  for (size_t i = 0; i < stacks.count && i < rows; i++) write_holder(&stacks.all[i]);
  holders_free(&stacks);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void write_heaps(const view_t *v, unsigned rows) {
  printf("threads and heaps that keep most   free blocks       lists  empty slices\n");
  for (size_t i = 0; i < v->heap_count && i < rows; i++) {
    const view_heap_t *h = &v->heaps[i];
    char text[64];
    if (h->bins + h->lists + h->slices == 0) break;
    printf("  %-32.32s %12s %11s %13s\n", view_heap_title(h, text), outside_size(h->bins),
           outside_size(h->lists), outside_size(h->slices));
  }
}

bool outside_write_why(const view_t *v, unsigned rows) {
  holders_t holders = {.all = NULL};
  if (!find_holders(&holders)) return false;
  write_sum(v);
  write_options(v);
  write_slabs(v, &holders, rows);
  if (sample_has_stacks()) write_live(&holders, rows);
  holders_free(&holders);
  write_heaps(v, rows);
  if (v->changed != 0)
    printf("%llu slabs or lists changed while they were read; the figures are off by that much\n",
           (unsigned long long)v->changed);
  return true;
}

static int read_rows(const char *text, unsigned *rows) {
  char *end;
  unsigned long n = strtoul(text, &end, 10);
  *rows = (unsigned)n;
  if (*end == '\0' && end != text && n <= 100000) return OUTSIDE_DONE;
  fprintf(stderr, "freehold: --rows is a number up to 100000, not '%s'\n", text);
  return OUTSIDE_BAD_USE;
}

static int look(int argc, char **argv, const char *help, bool with_stats) {
  static const struct option options[] = {
    {"rows", required_argument, NULL, 'r'}, {"help", no_argument, NULL, OPTION_HELP}, {0}};
  unsigned rows = ROWS;
  for (int o; (o = outside_option(argc, argv, options, help)) != -1;)
    if (o == OPTION_WRONG || read_rows(optarg, &rows) != OUTSIDE_DONE) return OUTSIDE_BAD_USE;
  int code = outside_open(argc, argv);
  view_t v = {.heaps = NULL};
  if (code != OUTSIDE_DONE) return code;
  if (!view_read(&v)) return OUTSIDE_CANNOT_READ;
  if (with_stats) outside_write_stats(&v, false);
  bool is_written = outside_write_why(&v, rows);
  free(v.heaps);
  return is_written ? OUTSIDE_DONE : OUTSIDE_CANNOT_READ;
}

int command_why(int argc, char **argv) {
  return look(
    argc, argv,
    "freehold why [--rows N] TARGET\n"
    "    what of a process is in memory and not in live blocks, what would lower it, and\n"
    "    which call stacks hold the blocks that keep slabs, and most of what lives; read from\n"
    "    outside\n"
    "TARGET is a process's number, its name if no other process has it, or a core file.\n"
    "  --rows  classes, call stacks and threads that are listed (default 5)\n"
    "Example: freehold why redis-server\n"
    "Exit codes: 0 done, 1 the target cannot be read, 2 bad use\n",
    false);
}

int command_inspect(int argc, char **argv) {
  return look(
    argc, argv,
    "freehold inspect [--rows N] CORE\n"
    "    the statistics of a process that left a core file, and what `freehold why` says;\n"
    "    stats, why, map and profile take a core file, too\n"
    "  --rows  classes, call stacks and threads that are listed (default 5)\n"
    "Example: freehold inspect core.1234\n"
    "Exit codes: 0 done, 1 the file cannot be read, 2 bad use\n",
    true);
}
