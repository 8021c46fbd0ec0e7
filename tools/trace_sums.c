/* trace_sums.c - what the events of a trace come to
 * Contract: trace_sums.h. */
#include "trace_sums.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/base/fmt.h"
#include "trace_heaps.h"

enum { TEMPORARY_CALLS = 8, ROWS_SHOWN = 20, LIFE_STEPS = 11, SIZE_STEPS = 65 };

/* ---- what is summed -------------------------------------------------------------------------- */

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

/* ---- blocks ---------------------------------------------------------------------------------- */

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

/* ---- threads, and who frees whose blocks ----------------------------------------------------- */

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

/* ---- events ---------------------------------------------------------------------------------- */

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

static bool lives_in(const void *context, uintptr_t heap, uintptr_t address) {
  const block_t *b = find_block(context, address);
  return b->address == address && b->heap == heap;
}

static sums_t sums = {.heaps = {.lives = lives_in, .context = &sums}};

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

void trace_sums_note(trace_file_t *f, const trace_event_t *e) {
  sums_t *s = &sums;
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

/* ---- at the end ------------------------------------------------------------------------------ */

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

/* ---- as text --------------------------------------------------------------------------------- */

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
      put_row(k == TRACE_TO ? "realloc" : trace_kind_text[k], s->calls[k]);
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

/* ---- as JSON --------------------------------------------------------------------------------- */

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
    if (k != TRACE_FROM)
      fmt_json_number(&j, k == TRACE_TO ? "realloc" : trace_kind_text[k], s->calls[k]);
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

void trace_sums_print(const trace_file_t *f, bool as_json) {
  count_at_once(&sums);
  sort_pairs(&sums);
  if (as_json) print_sums_json(&sums, f);
  else print_sums(&sums, f);
}
