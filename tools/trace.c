/* trace.c - `freehold trace`: what a program asked of malloc, event by event or as sums
 * Owns:    nothing.     Calls: trace_file.h, base/fmt.h, libc.
 * Memory: at most four records of 48 bytes for each block that lives at one moment of the trace,
 *         six while their table grows. Two words more if it is a first-class heap's. And a record
 *         for each thread and heap. */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/base/fmt.h"
#include "../src/support/trace.h"
#include "trace.h"
#include "trace_file.h"
#include "trace_heaps.h"

enum {
  GO_ON = -1,
  BAD_USE = 2,
  TEMPORARY_CALLS = 8,
  ROWS_SHOWN = 20,
  LIFE_STEPS = 11,
  SIZE_STEPS = 65
};

static const char *const kind_text[] = {
#define KIND_TEXT(name, text) text,
  TRACE_KINDS(KIND_TEXT)
#undef KIND_TEXT
};

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
  printf("%14.9f %8u %-12s ", (double)e->time / 1e9, e->thread, kind_text[e->kind]);
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
         (unsigned long long)e->time, e->thread, e->serial, kind_text[e->kind]);
  if (!e->failed && e->kind != TRACE_LEAVE) printf(", \"address\": %lu", (unsigned long)e->address);
  if (trace_has_size(e->kind)) printf(", \"size\": %zu", e->size);
  if (e->kind == TRACE_ALIGNED) printf(", \"alignment\": %zu", e->alignment);
  if (e->heap != 0) printf(", \"heap\": %lu", (unsigned long)e->heap);
  for (unsigned i = 0; i < e->frame_count; i++)
    printf("%s%lu", i == 0 ? ", \"frames\": [" : ", ", (unsigned long)e->frames[i]);
  puts(e->frame_count != 0 ? "]}" : "}");
}

/* ---- sums ------------------------------------------------------------------------------------ */

typedef struct {
  uintptr_t address; /* 0: none; 1: there was one */
  uintptr_t heap;
  uint64_t size, since, call; /* call: of its thread, when it was allocated */
  uint32_t thread;            /* its serial; so in what follows */
} block_t;
typedef struct {
  uint32_t allocated, freed;
  uint64_t blocks, bytes;
} pair_t;
typedef struct {
  uint32_t serial, number;
  bool has_left;
  uint64_t calls, first, last; /* ns: the first event and the last */
  block_t *moving; /* blocks that realloc has in hand: more than one where handlers interrupt */
  size_t moving_count;
} thread_t;
typedef struct {
  block_t *table;
  size_t room, used; /* used: with those that were */
  trace_heaps_t heaps;
  thread_t *threads; /* in the order of their first events */
  size_t thread_count, left, at_once;
  pair_t *pairs; /* who frees whose blocks, by both; in the end those with most blocks first */
  size_t pair_room, pair_count;
  uint64_t calls[TRACE_KIND_COUNT], failed, asked, released, unknown, unseen, freed, temporary,
    temporary_bytes; /* asked, released: bytes; what is left lives */
  uint64_t live, live_bytes, peak, peak_bytes, peak_time, last;
  uint64_t size_blocks[SIZE_STEPS], size_bytes[SIZE_STEPS], lives[LIFE_STEPS];
} sums_t;

static _Noreturn void refuse_memory(void) {
  fprintf(stderr, "freehold: trace: %s\n", strerror(ENOMEM));
  exit(EXIT_FAILURE);
}

static void *more(void *at, size_t size) {
  void *p = realloc(at, size);
  if (p == NULL) refuse_memory();
  return p;
}

static size_t place_of(const sums_t *s, uintptr_t address) {
  return (size_t)(address * 0x9E3779B97F4A7C15u >> 20) & (s->room - 1);
}

static block_t *find_block(const sums_t *s, uintptr_t address) {
  size_t at = place_of(s, address);
  while (s->table[at].address != 0 && s->table[at].address != address)
    at = (at + 1) & (s->room - 1);
  return &s->table[at];
}

/* Where there is none of that address. The place of one that was is taken again, so what comes and
 * goes at one address leaves no trail behind. */
static void keep_block(sums_t *s, const block_t *b) {
  size_t at = place_of(s, b->address);
  while (s->table[at].address > 1) at = (at + 1) & (s->room - 1);
  if (s->table[at].address == 0) s->used++;
  s->table[at] = *b;
}

static bool drop_block(sums_t *s, uintptr_t address, block_t *dropped) {
  block_t *b = s->room != 0 ? find_block(s, address) : NULL;
  if (b == NULL || b->address != address) return false;
  *dropped = *b;
  b->address = 1;
  s->live--, s->live_bytes -= dropped->size, s->released += dropped->size;
  return true;
}

/* A block that is there already was freed by a call that is not in the trace. */
static void add_block(sums_t *s, const block_t *b) {
  block_t unseen;
  s->unseen += drop_block(s, b->address, &unseen);
  if (s->used * 4 >= s->room * 3) {
    block_t *old = s->table;
    size_t room = s->room;
    for (s->room = 1 << 12; s->room < s->live * 2;) s->room *= 2;
    s->table = memset(more(NULL, s->room * sizeof *old), 0, s->room * sizeof *old);
    s->used = 0;
    for (size_t i = 0; i < room; i++)
      if (old[i].address > 1) keep_block(s, &old[i]);
    free(old);
  }
  keep_block(s, b);
  if (b->heap != 0 && !trace_heaps_note(&s->heaps, b->heap, b->address)) refuse_memory();
  s->live++, s->live_bytes += b->size;
  if (s->live_bytes <= s->peak_bytes) return;
  s->peak = s->live, s->peak_bytes = s->live_bytes, s->peak_time = s->last;
}

static thread_t *thread_of(sums_t *s, trace_file_t *f, const trace_event_t *e) {
  size_t place = trace_file_place(f, e);
  if (place == SIZE_MAX) refuse_memory();
  if (place == s->thread_count) {
    s->threads = more(s->threads, (place + 1) * sizeof *s->threads);
    s->threads[s->thread_count++] =
      (thread_t){.serial = e->serial, .number = e->thread, .first = e->time};
  }
  return &s->threads[place];
}

/* Of no blocks: the place is free. */
static pair_t *find_pair(const sums_t *s, uint32_t allocated, uint32_t freed) {
  uint64_t key = ((uint64_t)allocated << 32 | freed) * 0x9E3779B97F4A7C15u;
  size_t at = (size_t)(key >> 32) & (s->pair_room - 1);
  while (s->pairs[at].blocks != 0 &&
         (s->pairs[at].allocated != allocated || s->pairs[at].freed != freed))
    at = (at + 1) & (s->pair_room - 1);
  return &s->pairs[at];
}

static void grow_pairs(sums_t *s) {
  pair_t *old = s->pairs;
  size_t room = s->pair_room;
  s->pair_room = room == 0 ? 64 : room * 2;
  s->pairs = memset(more(NULL, s->pair_room * sizeof *old), 0, s->pair_room * sizeof *old);
  for (size_t i = 0; i < room; i++)
    if (old[i].blocks != 0) *find_pair(s, old[i].allocated, old[i].freed) = old[i];
  free(old);
}

static void note_pair(sums_t *s, uint32_t allocated, uint32_t freed, uint64_t bytes) {
  if (s->pair_count * 2 >= s->pair_room) grow_pairs(s);
  pair_t *pair = find_pair(s, allocated, freed);
  s->pair_count += pair->blocks == 0;
  *pair = (pair_t){allocated, freed, pair->blocks + 1, pair->bytes + bytes};
}

static void note_end(sums_t *s, thread_t *t, const block_t *b, uint64_t now) {
  unsigned step = 0;
  for (uint64_t life = now - b->since, most = 1000; step < LIFE_STEPS - 1 && life >= most; step++)
    most *= 10;
  s->lives[step]++, s->freed++;
  note_pair(s, b->thread, t->serial, b->size);
  if (b->thread != t->serial || t->calls - b->call > TEMPORARY_CALLS) return;
  s->temporary++, s->temporary_bytes += b->size;
}

static void note_allocated(sums_t *s, const trace_event_t *e) {
  unsigned step = e->size == 0 ? 0 : 64 - (unsigned)__builtin_clzll(e->size);
  s->size_blocks[step]++, s->size_bytes[step] += e->size;
  s->asked += e->size;
}

static void note_resized(sums_t *s, thread_t *t, const trace_event_t *e, uint64_t calls) {
  block_t b = {e->address, e->heap, e->size, e->time, calls, e->serial};
  if (t->moving_count > 0) {
    block_t old = t->moving[--t->moving_count];
    if (e->failed || old.address == e->address) b = old;
    if (e->failed) {
      if (b.address > 1) add_block(s, &b), s->released -= b.size;
      return;
    }
    if (old.address > 1) b.since = old.since;
    b.size = e->size;
  }
  if (!e->failed) add_block(s, &b);
}

static bool lives_in(const void *sums, uintptr_t heap, uintptr_t address) {
  const block_t *b = find_block(sums, address);
  return b->address == address && b->heap == heap;
}

/* The blocks of one that is deleted live on, and are no heap's. */
static void note_end_of_heap(sums_t *s, uintptr_t heap, bool is_destroyed) {
  trace_heap_t had = trace_heaps_take(&s->heaps, heap);
  for (size_t i = 0; i < had.count; i++) {
    block_t dropped;
    if (!lives_in(s, heap, had.blocks[i])) continue;
    if (is_destroyed) drop_block(s, had.blocks[i], &dropped);
    else find_block(s, had.blocks[i])->heap = 0;
  }
  free(had.blocks);
}

static void note_event(sums_t *s, trace_file_t *f, const trace_event_t *e) {
  thread_t *t = thread_of(s, f, e);
  block_t b = {.address = 1};
  s->last = t->last = e->time;
  s->calls[e->kind]++;
  s->failed += e->failed;
  if (e->kind != TRACE_TO && e->kind != TRACE_LEAVE) t->calls++;
  if (trace_has_size(e->kind) && e->kind != TRACE_EXPAND && !e->failed) note_allocated(s, e);
  switch (e->kind) {
    case TRACE_MALLOC:
    case TRACE_CALLOC:
    case TRACE_ALIGNED:
      if (e->failed) break;
      b = (block_t){e->address, e->heap, e->size, e->time, t->calls, e->serial};
      add_block(s, &b);
      break;
    case TRACE_FREE:
      if (drop_block(s, e->address, &b)) note_end(s, t, &b, e->time);
      else s->unknown++;
      break;
    case TRACE_FROM:
      if (!drop_block(s, e->address, &b)) s->unknown++;
      t->moving = more(t->moving, (t->moving_count + 1) * sizeof b);
      t->moving[t->moving_count++] = b;
      break;
    case TRACE_TO: note_resized(s, t, e, t->calls); break;
    case TRACE_DELETE:
    case TRACE_DESTROY: note_end_of_heap(s, e->address, e->kind == TRACE_DESTROY); break;
    case TRACE_LEAVE: t->has_left = true; break;
    default: break;
  }
}

static int by_number(const void *a, const void *b) {
  uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
  return (first > second) - (first < second);
}

/* How many threads were between their first events and their last at a moment, at most. */
static void count_at_once(sums_t *s) {
  uint64_t *ends = more(NULL, (s->thread_count + 1) * sizeof *ends);
  size_t ended = 0;
  for (size_t i = 0; i < s->thread_count; i++) ends[i] = s->threads[i].last;
  qsort(ends, s->thread_count, sizeof *ends, by_number);
  for (size_t i = 0; i < s->thread_count; i++) {
    s->left += s->threads[i].has_left;
    while (ends[ended] < s->threads[i].first) ended++;
    if (i + 1 - ended > s->at_once) s->at_once = i + 1 - ended;
  }
  free(ends);
}

static int by_blocks(const void *a, const void *b) {
  const pair_t *first = a, *second = b;
  return (first->blocks < second->blocks) - (first->blocks > second->blocks);
}

/* The free places are behind all others then. */
static void sort_pairs(sums_t *s) {
  if (s->pairs != NULL) qsort(s->pairs, s->pair_room, sizeof *s->pairs, by_blocks);
}

/* ---- sums, as text and JSON ------------------------------------------------------------------ */

static const char *life_text(unsigned step) {
  static const char *const text[] = {"1 us", "10 us", "100 us", "1 ms",   "10 ms", "100 ms",
                                     "1 s",  "10 s",  "100 s",  "1000 s", "longer"};
  return text[step];
}

static void put_row(const char *name, uint64_t n) {
  printf("%-22s %llu\n", name, (unsigned long long)n);
}

/* What lives at the end, of one size. */
typedef struct {
  uint64_t size, blocks, first, last; /* the last two: ns, when the oldest and youngest were new */
} left_t;

static int by_size(const void *a, const void *b) {
  const left_t *x = a, *y = b;
  return (x->size > y->size) - (x->size < y->size);
}
static int by_bytes(const void *a, const void *b) {
  const left_t *x = a, *y = b;
  uint64_t first = x->size * x->blocks, second = y->size * y->blocks;
  return first != second ? (first < second) - (first > second) : by_size(a, b);
}

/* Those with most bytes come first. The caller frees it. */
static left_t *sum_left(const sums_t *s, size_t *count) {
  left_t *left = more(NULL, (s->live + 1) * sizeof *left);
  size_t n = 0, sizes = 0;
  for (size_t i = 0; i < s->room; i++)
    if (s->table[i].address > 1)
      left[n++] = (left_t){s->table[i].size, 1, s->table[i].since, s->table[i].since};
  qsort(left, n, sizeof *left, by_size);
  for (size_t i = 0; i < n; i++) {
    left_t *sum = sizes != 0 ? &left[sizes - 1] : NULL;
    if (sum == NULL || sum->size != left[i].size) {
      left[sizes++] = left[i];
      continue;
    }
    sum->blocks++;
    if (left[i].first < sum->first) sum->first = left[i].first;
    if (left[i].last > sum->last) sum->last = left[i].last;
  }
  qsort(left, sizes, sizeof *left, by_bytes);
  *count = sizes;
  return left;
}

static void print_left(const sums_t *s) {
  size_t count;
  left_t *left = sum_left(s, &count);
  printf("\nnot freed: size     blocks          bytes   first at s    last at s\n");
  for (size_t i = 0; i < count && i < ROWS_SHOWN; i++)
    printf("%15llu %10llu %14llu %12.6f %12.6f\n", (unsigned long long)left[i].size,
           (unsigned long long)left[i].blocks, (unsigned long long)(left[i].size * left[i].blocks),
           (double)left[i].first / 1e9, (double)left[i].last / 1e9);
  if (count > ROWS_SHOWN) printf("and %zu sizes more\n", count - ROWS_SHOWN);
  free(left);
}

static void put_left(fmt_json_t *j, const sums_t *s) {
  size_t count;
  left_t *left = sum_left(s, &count);
  fmt_json_array(j, "not_freed");
  for (size_t i = 0; i < count; i++) {
    fmt_json_object(j, NULL);
    fmt_json_number(j, "size", left[i].size);
    fmt_json_number(j, "blocks", left[i].blocks);
    fmt_json_number(j, "first_ns", left[i].first);
    fmt_json_number(j, "last_ns", left[i].last);
    fmt_json_close(j);
  }
  fmt_json_close(j);
  free(left);
}

static void print_threads(const sums_t *s) {
  printf("\nthreads: %zu, %zu at once, %zu have ended\n", s->thread_count, s->at_once, s->left);
  printf("serial  number          from s            to s        calls\n");
  for (size_t i = 0; i < s->thread_count && i < ROWS_SHOWN; i++) {
    const thread_t *t = &s->threads[i];
    printf("%6u %7u %15.6f %15.6f %12llu%s\n", t->serial, t->number, (double)t->first / 1e9,
           (double)t->last / 1e9, (unsigned long long)t->calls, t->has_left ? "  ended" : "");
  }
  if (s->thread_count > ROWS_SHOWN) printf("and %zu threads more\n", s->thread_count - ROWS_SHOWN);
  printf("\nallocated by  freed by      blocks          bytes   (serials of threads)\n");
  for (size_t i = 0; i < s->pair_count && i < ROWS_SHOWN; i++)
    printf("%12u %9u %11llu %14llu\n", s->pairs[i].allocated, s->pairs[i].freed,
           (unsigned long long)s->pairs[i].blocks, (unsigned long long)s->pairs[i].bytes);
  if (s->pair_count > ROWS_SHOWN) printf("and %zu pairs more\n", s->pair_count - ROWS_SHOWN);
}

static void print_sums(const sums_t *s, const trace_file_t *f) {
  char text[128];
  fmt_t t;
  printf("process %u, %.6f s%s\n\n", f->head->process, (double)s->last / 1e9,
         f->head->late ? ", begun while it ran" : "");
  for (unsigned k = TRACE_MALLOC; k < TRACE_LEAVE; k++)
    if (s->calls[k] != 0 && k != TRACE_FROM)
      put_row(k == TRACE_TO ? "realloc" : kind_text[k], s->calls[k]);
  put_row("failed", s->failed);
  put_row("bytes asked for", s->asked);
  put_row("bytes released", s->released);
  put_row("frees of unknown", s->unknown);
  put_row("frees missing", s->unseen);
  put_row("events lost", atomic64_load_relaxed(&f->head->lost));
  printf("live at the end        %llu bytes in %llu blocks\n", (unsigned long long)s->live_bytes,
         (unsigned long long)s->live);
  printf("peak                   %llu bytes in %llu blocks, at %.6f s\n",
         (unsigned long long)s->peak_bytes, (unsigned long long)s->peak,
         (double)s->peak_time / 1e9);
  fmt_start(&t, text, sizeof text, NULL, NULL);
  fmt_percent(&t, s->temporary, s->freed);
  printf("temporary              %llu of %llu freed blocks, %s\n\n",
         (unsigned long long)s->temporary, (unsigned long long)s->freed, fmt_end(&t));
  printf("size below         blocks          bytes\n");
  for (unsigned i = 0; i < SIZE_STEPS; i++)
    if (s->size_blocks[i] != 0)
      printf("%-12.0f %12llu %14llu\n", __builtin_ldexp(1, (int)i),
             (unsigned long long)s->size_blocks[i], (unsigned long long)s->size_bytes[i]);
  printf("\nlived less than    blocks\n");
  for (unsigned i = 0; i < LIFE_STEPS; i++)
    if (s->lives[i] != 0) printf("%-12s %12llu\n", life_text(i), (unsigned long long)s->lives[i]);
  print_left(s);
  print_threads(s);
}

static void drain_to(const char *text, size_t length, void *file) { fwrite(text, 1, length, file); }

static void put_threads(fmt_json_t *j, const sums_t *s) {
  fmt_json_number(j, "threads_at_once", s->at_once);
  fmt_json_array(j, "threads");
  for (size_t i = 0; i < s->thread_count; i++) {
    const thread_t *t = &s->threads[i];
    fmt_json_object(j, NULL);
    fmt_json_number(j, "serial", t->serial);
    fmt_json_number(j, "number", t->number);
    fmt_json_number(j, "from_ns", t->first);
    fmt_json_number(j, "to_ns", t->last);
    fmt_json_number(j, "calls", t->calls);
    fmt_json_number(j, "ended", t->has_left);
    fmt_json_close(j);
  }
  fmt_json_close(j);
}

static void put_steps(fmt_json_t *j, const sums_t *s) {
  fmt_json_array(j, "sizes");
  for (unsigned i = 0; i < SIZE_STEPS; i++) {
    if (s->size_blocks[i] == 0) continue;
    fmt_json_object(j, NULL);
    fmt_json_number(j, "below_bits", i);
    fmt_json_number(j, "blocks", s->size_blocks[i]);
    fmt_json_number(j, "bytes", s->size_bytes[i]);
    fmt_json_close(j);
  }
  fmt_json_close(j);
  fmt_json_array(j, "lifetimes");
  for (unsigned i = 0; i < LIFE_STEPS; i++) {
    if (s->lives[i] == 0) continue;
    fmt_json_object(j, NULL);
    fmt_json_text(j, "below", life_text(i));
    fmt_json_number(j, "blocks", s->lives[i]);
    fmt_json_close(j);
  }
  fmt_json_close(j);
  put_threads(j, s);
  fmt_json_array(j, "freed_by");
  for (size_t i = 0; i < s->pair_count; i++) {
    fmt_json_object(j, NULL);
    fmt_json_number(j, "allocated_by", s->pairs[i].allocated);
    fmt_json_number(j, "freed_by", s->pairs[i].freed);
    fmt_json_number(j, "blocks", s->pairs[i].blocks);
    fmt_json_number(j, "bytes", s->pairs[i].bytes);
    fmt_json_close(j);
  }
  fmt_json_close(j);
}

static void print_sums_json(const sums_t *s, const trace_file_t *f) {
  char buffer[1024];
  fmt_t out;
  fmt_json_t j;
  fmt_start(&out, buffer, sizeof buffer, drain_to, stdout);
  fmt_json_start(&j, &out);
  fmt_json_object(&j, NULL);
  fmt_json_number(&j, "process", f->head->process);
  fmt_json_number(&j, "ns", s->last);
  fmt_json_number(&j, "late", f->head->late);
  fmt_json_object(&j, "calls");
  for (unsigned k = TRACE_MALLOC; k < TRACE_LEAVE; k++)
    if (k != TRACE_FROM) fmt_json_number(&j, k == TRACE_TO ? "realloc" : kind_text[k], s->calls[k]);
  fmt_json_close(&j);
  fmt_json_number(&j, "failed", s->failed);
  fmt_json_number(&j, "asked", s->asked);
  fmt_json_number(&j, "released", s->released);
  fmt_json_number(&j, "unknown", s->unknown);
  fmt_json_number(&j, "unseen", s->unseen);
  fmt_json_number(&j, "lost", atomic64_load_relaxed(&f->head->lost));
  fmt_json_number(&j, "live_blocks", s->live);
  fmt_json_number(&j, "live_bytes", s->live_bytes);
  fmt_json_number(&j, "peak_blocks", s->peak);
  fmt_json_number(&j, "peak_bytes", s->peak_bytes);
  fmt_json_number(&j, "peak_ns", s->peak_time);
  fmt_json_number(&j, "freed", s->freed);
  fmt_json_number(&j, "temporary", s->temporary);
  fmt_json_number(&j, "temporary_bytes", s->temporary_bytes);
  put_steps(&j, s);
  put_left(&j, s);
  fmt_json_close(&j);
  fmt_flush(&out);
}

/* ---- the command ----------------------------------------------------------------------------- */

int command_trace(int argc, char **argv) {
  wish_t w;
  trace_file_t f;
  trace_event_t e;
  static sums_t sums = {.heaps = {.lives = lives_in, .context = &sums}};
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
    if (w.sum) note_event(&sums, &f, &e);
    else if (w.json) print_event_json(&e);
    else print_event(&e);
  }
  count_at_once(&sums);
  sort_pairs(&sums);
  if (w.sum && w.json) print_sums_json(&sums, &f);
  else if (w.sum) print_sums(&sums, &f);
  fflush(stdout);
  return f.is_cut ? complain_of(w.path, "is cut short, or something else has written to it") : 0;
}
