/* tape.c - makes a tape of a trace: tape TRACE TAPE [MOST]
 *
 * A trace has addresses, and all threads in one order of time. A tape (workloads/tape.h) has slots
 * instead, and each thread's calls by themselves, up to its end. Blocks from before the trace have
 * no slot: their frees are left out. MOST: the calls after that many are left out. One line of JSON
 * says what was made of it. Memory: the tape, and a record for each block that lives at a moment.
 * Exit codes: 0 made, 1 not, with one line on standard error. */
#include "blocks.h"

#include "../../workloads/tape.h"

enum { SLOTS_APART = 4096 }; /* a slot is used again after so many others at least */

typedef struct {
  uint32_t last_slot;
  unsigned char *bytes;
  size_t size, room;
  uint64_t first, last; /* steps, among all */
  moves_t moves;
} thread_t;

static thread_t *threads; /* in the order of their first events */
static size_t thread_count;
static uint64_t steps;     /* calls, and what else is on the tape */
static size_t last_caller; /* the thread that made the last call */
static uint32_t *turns;    /* of each slot */
static uint32_t *waiting;  /* slots that are free: a ring */
static uint32_t slot_count;
static size_t ring_size, ring_from, ring_count;
static tape_head_t head = {.magic = TAPE_MAGIC, .version = TAPE_VERSION};
static uint64_t unknown;

/* ---- slots ----------------------------------------------------------------------------------- */

static uint32_t take_slot(void) {
  if (ring_count <= SLOTS_APART) {
    turns = more(turns, (slot_count + 1) * sizeof *turns);
    turns[slot_count] = 0;
    return slot_count++;
  }
  uint32_t slot = waiting[ring_from];
  ring_from = (ring_from + 1) % ring_size;
  ring_count--;
  return slot;
}

static void put_slot(uint32_t slot) {
  if (ring_count == ring_size) {
    size_t size = ring_size * 2 + 2 * SLOTS_APART;
    uint32_t *longer = more(NULL, size * sizeof *longer);
    for (size_t i = 0; i < ring_count; i++) longer[i] = waiting[(ring_from + i) % ring_size];
    free(waiting);
    waiting = longer;
    ring_from = 0;
    ring_size = size;
  }
  waiting[(ring_from + ring_count++) % ring_size] = slot;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static thread_t *thread_of(trace_file_t *trace, const trace_event_t *e) {
  size_t place = trace_file_place(trace, e);
  if (place == SIZE_MAX) leave("memory", strerror(ENOMEM));
  if (place == thread_count) {
    threads = more(threads, (thread_count + 1) * sizeof *threads);
    threads[thread_count++] = (thread_t){.size = 0};
  }
  return &threads[place];
}

static void put_step(thread_t *thread, tape_kind_t kind, uint32_t slot, uint64_t size,
                     size_t alignment) {
  tape_call_t call = {.kind = kind, .turn = turns[slot], .slot = slot, .size = size};
  call.alignment_shift = (unsigned)__builtin_ctzl(alignment);
  turns[slot] = (turns[slot] + 1) % TAPE_TURNS;
  if (thread->room - thread->size < TAPE_CALL_MOST)
    thread->bytes = more(thread->bytes, thread->room = thread->room * 2 + 4096);
  unsigned char *at = thread->bytes + thread->size;
  if (thread->size == 0) thread->first = steps;
  thread->size += (size_t)(tape_put(at, &call, &thread->last_slot) - at);
  thread->last = steps++;
}

static void put_call(thread_t *thread, tape_kind_t kind, uint32_t slot, uint64_t size,
                     size_t alignment) {
  put_step(thread, kind, slot, size, alignment);
  last_caller = (size_t)(thread - threads);
  head.calls++;
  head.allocations += kind != TAPE_FREE;
  head.asked += size;
}

static void free_block(thread_t *thread, const block_t *b) {
  put_call(thread, TAPE_FREE, b->slot, 0, 1);
  put_slot(b->slot);
}

static void add_noted(block_t b) {
  add_block(b);
  if (live_bytes <= head.peak) return;
  head.peak = live_bytes;
  head.peak_at = head.calls;
}

static void allocate(thread_t *thread, const trace_event_t *e, tape_kind_t kind) {
  block_t lost, b = {e->address, e->heap, e->size, 0};
  if (drop_block(e->address, &lost)) free_block(thread, &lost); /* its free is not in the trace */
  b.slot = take_slot();
  put_call(thread, kind, b.slot, e->size, e->alignment);
  add_noted(b);
}

static void resize(thread_t *thread, const trace_event_t *e) {
  block_t b, lost;
  if (!end_move(&thread->moves, &b)) return;
  if (b.address == 0) {
    if (!e->failed) allocate(thread, e, TAPE_MALLOC);
    return;
  }
  if (!e->failed) {
    if (drop_block(e->address, &lost)) free_block(thread, &lost);
    put_call(thread, TAPE_REALLOC, b.slot, e->size, 1);
    b.address = e->address;
    b.size = e->size;
  }
  add_noted(b);
}

static void free_with_heap(const block_t *b, void *thread) { free_block(thread, b); }

/* What a thread calls after that is performed after that, too. */
static void end_thread(thread_t *thread) {
  thread_t *other = &threads[last_caller];
  if (thread->size == 0 || other == thread) return;
  uint32_t slot = take_slot();
  put_step(other, TAPE_TELL, slot, 0, 1);
  put_step(thread, TAPE_LEAVE, slot, 0, 1);
  put_slot(slot);
}

static void take_event(trace_file_t *trace, const trace_event_t *e) {
  thread_t *thread = thread_of(trace, e);
  block_t b;
  if (e->kind == TRACE_TO) return resize(thread, e);
  if (e->failed) return;
  switch (e->kind) {
    case TRACE_MALLOC: return allocate(thread, e, TAPE_MALLOC);
    case TRACE_CALLOC: return allocate(thread, e, TAPE_CALLOC);
    case TRACE_ALIGNED: return allocate(thread, e, TAPE_ALIGNED);
    case TRACE_FROM: return begin_move(&thread->moves, e->address);
    case TRACE_LEAVE: return end_thread(thread);
    case TRACE_DELETE: return end_blocks(e->address, NULL, NULL);
    case TRACE_DESTROY: return end_blocks(e->address, free_with_heap, thread);
    case TRACE_FREE:
      if (drop_block(e->address, &b)) free_block(thread, &b);
      else unknown++;
      return;
    default: return;
  }
}

/* ---- the tape -------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
  uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
  return first < second ? -1 : first > second;
}

static int by_first(const void *a, const void *b) {
  uint64_t first = ((const thread_t *)a)->first, second = ((const thread_t *)b)->first;
  return first < second ? -1 : first > second;
}

/* The most threads that had begun and not ended at a moment. */
static uint32_t count_at_once(void) {
  uint64_t *ends = more(NULL, (thread_count + 1) * sizeof *ends);
  size_t most = 0, ended = 0;
  for (size_t i = 0; i < thread_count; i++) ends[i] = threads[i].last;
  qsort(ends, thread_count, sizeof *ends, by_number);
  for (size_t i = 0; i < thread_count; i++) {
    while (ends[ended] < threads[i].first) ended++;
    if (i + 1 - ended > most) most = i + 1 - ended;
  }
  free(ends);
  return (uint32_t)most;
}

static void write_tape(const char *path) {
  FILE *out = fopen(path, "wb");
  uint64_t offset = sizeof head + thread_count * sizeof(tape_thread_t);
  if (out == NULL) leave(path, strerror(errno));
  head.threads = (uint32_t)thread_count;
  head.slots = slot_count;
  head.at_once = count_at_once();
  fwrite(&head, sizeof head, 1, out);
  for (size_t i = 0; i < thread_count; i++) {
    tape_thread_t part = {offset, threads[i].size};
    fwrite(&part, sizeof part, 1, out);
    offset += threads[i].size;
  }
  for (size_t i = 0; i < thread_count; i++) fwrite(threads[i].bytes, 1, threads[i].size, out);
  bool is_whole = ferror(out) == 0;
  if (fclose(out) != 0 || !is_whole) leave(path, "could not be written whole");
}

/* Threads that have no calls on the tape are none. The others then stand in the order in which they
 * began. */
static void sort_threads(void) {
  size_t kept = 0;
  for (size_t i = 0; i < thread_count; i++)
    if (threads[i].size != 0) threads[kept++] = threads[i];
  thread_count = kept;
  qsort(threads, thread_count, sizeof *threads, by_first);
}

int main(int count, char **arguments) {
  trace_file_t trace;
  trace_event_t e;
  if (count < 3) leave("tape", "takes TRACE TAPE [MOST]");
  uint64_t most = count > 3 ? strtoull(arguments[3], NULL, 10) : UINT64_MAX, events = 0;
  const char *mistake = trace_file_open(&trace, arguments[1]);
  if (mistake != NULL) leave(arguments[1], mistake);
  while (head.calls < most && trace_file_next(&trace, &e)) {
    take_event(&trace, &e);
    if (++events % (1 << 22) == 0)
      fprintf(stderr, "tape: %llu million events\n", (unsigned long long)events >> 20);
  }
  sort_threads();
  if (head.calls == 0) leave(arguments[1], "has no calls");
  write_tape(arguments[2]);
  printf("{\"calls\": %llu, \"allocations\": %llu, \"threads\": %zu, \"at_once\": %u, ",
         (unsigned long long)head.calls, (unsigned long long)head.allocations, thread_count,
         head.at_once);
  printf("\"peak\": %llu, \"unknown\": %llu, \"cut\": %s, \"lost\": %llu}\n",
         (unsigned long long)head.peak, (unsigned long long)unknown,
         trace.is_cut ? "true" : "false",
         (unsigned long long)atomic64_load_relaxed(&trace.head->lost));
  return EXIT_SUCCESS;
}
