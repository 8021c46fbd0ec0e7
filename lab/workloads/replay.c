/* replay.c - a recorded program's calls of malloc, once more
 *
 * Threads: each replays the calls of one thread of the recording, from a buffer of its own, and
 *          ends not before the others have come to where it ended. A slot is a word: the block, and
 *          how often the slot has changed (tape.h). Whoever changes it next waits for its turn. The
 *          recording had all calls in an order that fulfils that. So no two threads wait for each
 *          other. */
#include "tape.h"
#include "threads.h"

enum { THREADS_MOST = 4096, BUFFER = 64 << 10, PAGE_STEP = 4096, SPINS = 200, ALIGNMENT = 16 };

static const char *path = "", *touch = "pages";

static bench_option_t options[] = {
  BENCH_PATH("tape", path, "the recording, as `freehold-lab tape` makes it of a trace"),
  BENCH_WORD("touch", touch, "none|pages|all", "what is written to of a new block"),
  BENCH_END,
};

static const bench_program_t program = {
  .name = "replay",
  .about =
    "a recorded program's calls of malloc, once more\n\n"
    "Each thread of the recording is a thread, and calls what it called, as fast as it can.\n"
    "A block is freed by the thread that freed it then, after it was allocated.",
  .operation = "calls",
  .example = "replay --tape server.tape",
  .options = options,
};

static int file;
static tape_head_t head;
static tape_thread_t *parts;
static _Atomic uint64_t *slots;
static atomic_uint running;
static _Atomic uint64_t calls, asked; /* that were performed; bytes */

/* ---- slots ----------------------------------------------------------------------------------- */

/* A slot's word: sixteenths of the block's address, and the turn below. */

/* The block that is there at this turn. */
static void *slot_wait(const tape_call_t *c) {
  for (unsigned spins = 0;; spins++) {
    uint64_t word = atomic_load_explicit(&slots[c->slot], memory_order_acquire);
    if (word % TAPE_TURNS == c->turn) return (void *)(uintptr_t)(word / TAPE_TURNS * ALIGNMENT);
    if (spins > SPINS) sched_yield();
  }
}

static void slot_set(const tape_call_t *c, void *block) {
  uint64_t turn = (c->turn + 1) % TAPE_TURNS, sixteenths = (uintptr_t)block / ALIGNMENT;
  if ((uintptr_t)block % ALIGNMENT != 0 || sixteenths > UINT64_MAX / TAPE_TURNS)
    bench_fail(BENCH_SYSTEM, "malloc gave %p", block);
  atomic_store_explicit(&slots[c->slot], sixteenths * TAPE_TURNS | turn, memory_order_release);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void *checked(void *block, size_t size) {
  if (block == NULL) bench_fail(BENCH_NO_MEMORY, "no block of %zu bytes", size);
  return block;
}

static void *touched(void *block, size_t size) {
  if (touch[0] == 'a') memset(block, 1, size);
  if (touch[0] == 'p')
    for (size_t at = 0; at < size; at += PAGE_STEP) ((volatile char *)block)[at] = 1;
  return block;
}

static void *aligned(const tape_call_t *c, size_t size) {
  size_t alignment = (size_t)1 << c->alignment_shift;
  void *block = NULL;
  if (alignment < sizeof block) alignment = sizeof block;
  if (posix_memalign(&block, alignment, size) != 0) block = NULL;
  return checked(block, size);
}

/* A block of no bytes may be NULL, which would be an empty slot. */
static void perform(const tape_call_t *c) {
  size_t size = c->size == 0 ? 1 : (size_t)c->size;
  void *before = slot_wait(c);
  switch (c->kind) {
    case TAPE_MALLOC: return slot_set(c, touched(checked(malloc(size), size), size));
    case TAPE_CALLOC: return slot_set(c, touched(checked(calloc(1, size), size), size));
    case TAPE_ALIGNED: return slot_set(c, touched(aligned(c, size), size));
    case TAPE_REALLOC: return slot_set(c, touched(checked(realloc(before, size), size), size));
    case TAPE_FREE: free(before); return slot_set(c, NULL);
    case TAPE_TELL:
    case TAPE_LEAVE: return slot_set(c, NULL);
    default: bench_fail(BENCH_SYSTEM, "%s: no call %d", path, (int)c->kind);
  }
}

/* ---- threads --------------------------------------------------------------------------------- */

static void read_at(void *to, size_t size, uint64_t offset) {
  for (size_t done = 0; done < size;) {
    ssize_t got = pread(file, (char *)to + done, size - done, (off_t)(offset + done));
    if (got <= 0) bench_fail(BENCH_SYSTEM, "%s: ends too early", path);
    done += (size_t)got;
  }
}

static void *replay_part(void *argument) {
  const tape_thread_t *part = argument;
  unsigned char buffer[BUFFER];
  uint32_t last = 0;
  size_t ready = 0, used = 0;
  uint64_t own_calls = 0, own_asked = 0;
  for (uint64_t done = 0; done < part->size;) {
    if (ready - used < TAPE_CALL_MOST && done + (ready - used) < part->size) {
      memmove(buffer, buffer + used, ready - used);
      ready -= used;
      used = 0;
      uint64_t left = part->size - done - ready;
      size_t more = left < BUFFER - ready ? (size_t)left : BUFFER - ready;
      read_at(buffer + ready, more, part->offset + done + ready);
      ready += more;
    }
    tape_call_t call = {0};
    size_t length = (size_t)(tape_get(buffer + used, &call, &last) - (buffer + used));
    if (call.slot >= head.slots) bench_fail(BENCH_SYSTEM, "%s: no slot %u", path, call.slot);
    perform(&call);
    own_calls += call.kind != TAPE_TELL && call.kind != TAPE_LEAVE;
    own_asked += call.size;
    used += length;
    done += length;
  }
  atomic_fetch_add(&calls, own_calls);
  atomic_fetch_add(&asked, own_asked);
  atomic_fetch_sub(&running, 1);
  return NULL;
}

/* In the order of their first calls, and never more at once than there were. So the first call of
 * the recording that is not done yet is always one of a thread that was started. */
static void replay_all(void) {
  pthread_t *threads = bench_pages(head.threads * sizeof *threads, true);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, BENCH_STACK + BUFFER);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  for (uint32_t i = 0; i < head.threads; i++) {
    while (atomic_load(&running) >= head.at_once) bench_sleep(20e-6);
    atomic_fetch_add(&running, 1);
    int error = pthread_create(&threads[i], &attributes, replay_part, &parts[i]);
    if (error != 0) bench_fail(BENCH_SYSTEM, "cannot start a thread: %s", strerror(error));
  }
  while (atomic_load(&running) != 0) bench_sleep(50e-6);
}

static void open_tape(void) {
  file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) bench_fail(BENCH_USAGE, "--tape '%s': %s", path, strerror(errno));
  if (pread(file, &head, sizeof head, 0) != sizeof head || memcmp(head.magic, TAPE_MAGIC, 8) != 0)
    bench_fail(BENCH_USAGE, "--tape '%s': no tape", path);
  if (head.version != TAPE_VERSION || head.threads == 0 || head.at_once == 0)
    bench_fail(BENCH_USAGE, "--tape '%s': a tape of version %u, not %d", path, head.version,
               TAPE_VERSION);
  if (head.at_once > THREADS_MOST)
    bench_fail(BENCH_USAGE, "--tape '%s': %u threads at once; want %d at most", path, head.at_once,
               THREADS_MOST);
  parts = bench_pages(head.threads * sizeof *parts, true);
  slots = bench_pages(head.slots * sizeof *slots, true);
  read_at(parts, head.threads * sizeof *parts, sizeof head);
}

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  open_tape();
  json_start(&program);
  mark_t start = mark_now();
  replay_all();
  json_elapsed(start, mark_now(), (long long)calls);
  json_integer("allocations", (long long)head.allocations);
  json_integer("asked", (long long)asked);
  json_integer("asked_peak", (long long)head.peak);
  json_costs();
  json_end();
  return BENCH_OK;
}
