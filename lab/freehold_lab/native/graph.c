/* graph.c - where a trace's blocks lie, over time: graph TRACE OUT COLUMNS ROWS time|calls
 *
 * The picture has a column for each of COLUMNS equal steps of time, or of calls, and at most ROWS
 * rows. A row is a range of addresses, whole slices of 64 KiB. Where no block ever was is no row.
 * OUT gets a byte for each place, column by column, each from the lowest address up. It is 0 where
 * no block has been yet, else 1 and up to 254 more, by the share that is live. One line of JSON
 * says what the rows and columns are, and what lived at the end of each column. Lines on standard
 * error say how far it is.
 * Exit codes: 0 made, 1 not, with one line on standard error. */
#include "blocks.h"

enum { SLICE = 64 << 10, WINDOW = 1 << 30, FULL = 254 };

/* A window's slices that were ever in use: from the first to the last. */
typedef struct {
  uintptr_t window, from, to;
  size_t first_row;
} extent_t;

static extent_t *extents;
static size_t extent_count;
static moves_t *threads;
static size_t thread_count;
static uint64_t events, last_time;
static size_t row_size, row_count;
static uint64_t *row_live;
static unsigned char *row_was_used;

/* ---- addresses ------------------------------------------------------------------------------- */

static extent_t *extent_of(uintptr_t address) {
  uintptr_t window = address / WINDOW;
  static size_t last;
  if (last < extent_count && extents[last].window == window) return &extents[last];
  for (last = 0; last < extent_count && extents[last].window != window;) last++;
  return last < extent_count ? &extents[last] : NULL;
}

static void stretch(uintptr_t from, uintptr_t to) {
  for (uintptr_t at = from; at < to; at = (at / WINDOW + 1) * WINDOW) {
    extent_t *x = extent_of(at);
    uintptr_t end = (at / WINDOW + 1) * WINDOW;
    if (end > to) end = to;
    if (x == NULL) {
      extents = more(extents, (extent_count + 1) * sizeof *extents);
      x = &extents[extent_count++];
      *x = (extent_t){at / WINDOW, at / SLICE * SLICE, at, 0};
    }
    if (at < x->from) x->from = at / SLICE * SLICE;
    if (end > x->to) x->to = (end + SLICE - 1) / SLICE * SLICE;
  }
}

static int by_address(const void *a, const void *b) {
  uintptr_t first = ((const extent_t *)a)->window, second = ((const extent_t *)b)->window;
  return first < second ? -1 : first > second;
}

static void lay_rows(size_t most) {
  size_t total = 0;
  qsort(extents, extent_count, sizeof *extents, by_address);
  for (size_t i = 0; i < extent_count; i++) total += extents[i].to - extents[i].from;
  row_size = SLICE;
  for (row_count = SIZE_MAX; row_count > most; row_size *= 2) {
    row_count = 0;
    for (size_t i = 0; i < extent_count; i++) {
      extents[i].first_row = row_count;
      row_count += (extents[i].to - extents[i].from + row_size - 1) / row_size;
    }
    if (row_count <= most || total <= row_size) break;
  }
  row_live = memset(more(NULL, row_count * sizeof *row_live), 0, row_count * sizeof *row_live);
  row_was_used = memset(more(NULL, row_count), 0, row_count);
}

/* `sign` is 1 for a block that begins, -1 for one that ends. */
static void count(uintptr_t from, uint64_t size, int sign) {
  uintptr_t to = from + size;
  while (from < to) {
    const extent_t *x = extent_of(from);
    size_t row = x->first_row + (from - x->from) / row_size;
    uintptr_t end = x->from + ((from - x->from) / row_size + 1) * row_size;
    if (end > (x->window + 1) * WINDOW) end = (x->window + 1) * WINDOW;
    if (end > to) end = to;
    row_live[row] += (uint64_t)sign * (end - from);
    row_was_used[row] = 1;
    from = end;
  }
}

/* ---- events ---------------------------------------------------------------------------------- */

static uint64_t room_of(uint64_t size) { return size < 16 ? 16 : (size + 15) / 16 * 16; }

static moves_t *moves_of(trace_file_t *trace, const trace_event_t *e) {
  size_t place = trace_file_place(trace, e);
  if (place == SIZE_MAX) leave("memory", strerror(ENOMEM));
  if (place == thread_count) {
    threads = more(threads, (thread_count + 1) * sizeof *threads);
    threads[thread_count++] = (moves_t){.count = 0};
  }
  return &threads[place];
}

static void begin(block_t b, bool is_counted) {
  block_t lost;
  if (drop_block(b.address, &lost) && is_counted) count(lost.address, room_of(lost.size), -1);
  add_block(b);
  if (is_counted) count(b.address, room_of(b.size), 1);
  else stretch(b.address, b.address + room_of(b.size));
}

static void end(uintptr_t address, bool is_counted) {
  block_t b;
  if (drop_block(address, &b) && is_counted) count(b.address, room_of(b.size), -1);
}

static void end_uncounted(const block_t *b, void *context) { (void)b, (void)context; }
static void end_counted(const block_t *b, void *context) {
  (void)context;
  count(b->address, room_of(b->size), -1);
}

/* A block that moves is live where it was until it is somewhere else. */
static void take_event(trace_file_t *trace, const trace_event_t *e, bool is_counted) {
  moves_t *moves = moves_of(trace, e);
  block_t b = {e->address, e->heap, e->size, 0}, before;
  if (e->kind == TRACE_FROM) return begin_move(moves, e->address);
  if (e->kind == TRACE_TO && end_move(moves, &before) && before.address != 0) {
    if (e->failed) return add_block(before);
    if (is_counted) count(before.address, room_of(before.size), -1);
  }
  if (e->failed) return;
  if (e->kind == TRACE_FREE) return end(e->address, is_counted);
  if (e->kind == TRACE_DELETE) return end_blocks(e->address, NULL, NULL);
  if (e->kind == TRACE_DESTROY)
    return end_blocks(e->address, is_counted ? end_counted : end_uncounted, NULL);
  if (trace_has_size(e->kind) && e->kind != TRACE_EXPAND) begin(b, is_counted);
}

static void read_all(trace_file_t *trace) {
  trace_event_t e;
  while (trace_file_next(trace, &e)) {
    take_event(trace, &e, false);
    last_time = e.time;
    if (++events % (1 << 22) == 0)
      fprintf(stderr, "graph: %llu million events\n", (unsigned long long)events >> 20);
  }
  forget_blocks();
  for (size_t i = 0; i < thread_count; i++) threads[i].count = 0;
}

/* ---- the picture ----------------------------------------------------------------------------- */

static void write_column(FILE *out) {
  for (size_t row = 0; row < row_count; row++) {
    uint64_t share = row_live[row] * FULL / row_size;
    fputc(row_was_used[row] == 0 ? 0 : 1 + (int)(share < FULL ? share : FULL), out);
  }
}

static void draw(trace_file_t *trace, FILE *out, uint64_t columns, bool by_time) {
  trace_event_t e;
  uint64_t done = 0, column = 0, whole = by_time ? last_time + 1 : events;
  printf("\"live\": [");
  for (bool more_events = true; more_events;) {
    more_events = trace_file_next(trace, &e);
    uint64_t at = !more_events ? whole : by_time ? e.time : done;
    for (; column < columns && at >= (column + 1) * whole / columns; column++) {
      write_column(out);
      printf("%s%llu", column == 0 ? "" : ", ", (unsigned long long)live_bytes);
    }
    if (more_events) take_event(trace, &e, true);
    if (++done % (1 << 22) == 0)
      fprintf(stderr, "graph: %llu %%\n", (unsigned long long)(done * 100 / events));
  }
  printf("], ");
}

int main(int argc, char **argv) {
  trace_file_t trace;
  if (argc != 6) leave("graph", "takes TRACE OUT COLUMNS ROWS time|calls");
  const char *mistake = trace_file_open(&trace, argv[1]);
  if (mistake != NULL) leave(argv[1], mistake);
  read_all(&trace);
  if (extent_count == 0) leave(argv[1], "has no blocks");
  lay_rows(strtoul(argv[4], NULL, 10));
  mistake = trace_file_rewind(&trace);
  FILE *out = mistake == NULL ? fopen(argv[2], "wb") : NULL;
  if (out == NULL) leave(argv[2], mistake != NULL ? mistake : strerror(errno));
  printf("{");
  draw(&trace, out, strtoull(argv[3], NULL, 10), strcmp(argv[5], "time") == 0);
  bool is_whole = ferror(out) == 0;
  if (fclose(out) != 0 || !is_whole) leave(argv[2], "could not be written whole");
  printf("\"events\": %llu, \"ns\": %llu, \"row\": %zu, \"rows\": %zu, \"cut\": %s, \"ranges\": [",
         (unsigned long long)events, (unsigned long long)last_time, row_size, row_count,
         trace.is_cut ? "true" : "false");
  for (size_t i = 0; i < extent_count; i++)
    printf("%s[%llu, %llu, %zu]", i == 0 ? "" : ", ", (unsigned long long)extents[i].from,
           (unsigned long long)extents[i].to, extents[i].first_row);
  printf("]}\n");
  return EXIT_SUCCESS;
}
