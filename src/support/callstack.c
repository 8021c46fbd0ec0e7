/* callstack.c - call stacks by number, and what is counted for each                layer 2: support
 * Contract: callstack.h. */
#include "callstack.h"

#include "../base/bits.h"
#include "../base/layout.h"
#include "../os/os.h"

enum {
  BUCKETS = 2 * CALLSTACKS_AND_PAIRS,
  BUCKETS_MOST = 64, /* that a search for a stack looks at */
  KEY_SHIFT = 16,
};

/* Each kind has its own room. */
typedef enum { STACK, PAIR } kind_t;
static const uint32_t ends_of_kind[] = {CALLSTACKS,
                                        CALLSTACKS_AND_PAIRS}; /* numbers are below it */

/* A bucket leads from a stack's key to its number: the key above KEY_SHIFT, below it the number, or
 * 0 until it is known. 0: empty. relaxed: the stack's `count` says whether its frames can be read.
 * Sums, which are read often, lie together; frames lie apart. */
typedef struct {
  atomic64_t buckets[BUCKETS];
  atomic32_t next[2]; /* number, of each kind */
  callstack_t stacks[CALLSTACKS_AND_PAIRS];
  uintptr_t frames[CALLSTACKS][CALLSTACK_FRAMES];
  uintptr_t pairs[CALLSTACKS_AND_PAIRS - CALLSTACKS][2];
} table_t;

static atomic_ptr_t stacks_table;
static atomic64_t unknown_calls; /* relaxed: a count */
LAYOUT_SIZE(table_t);
LAYOUT_VARIABLE(stacks_table);
LAYOUT_VARIABLE(unknown_calls);

bool callstack_start(void) {
  void *none = NULL;
  if (atomic_ptr_load_relaxed(&stacks_table) != NULL) return true;
  table_t *table = os_map(sizeof *table);
  if (table == NULL) return false;
  atomic32_store_relaxed(&table->next[STACK], CALLSTACK_UNKNOWN + 1);
  atomic32_store_relaxed(&table->next[PAIR], CALLSTACKS);
  if (!atomic_ptr_cas_release(&stacks_table, &none, table)) /* S-stack */
    os_unmap(table, sizeof *table);
  return true;
}

static table_t *find_table(void) { return atomic_ptr_load_acquire(&stacks_table); /* S-stack */ }
bool callstack_is_started(void) { return find_table() != NULL; }

static uint64_t key_of(const uintptr_t *frames, unsigned count) {
  uint64_t key = count;
  for (unsigned i = 0; i < count; i++) {
    key = (key ^ frames[i]) * bits_golden;
    key ^= key >> 32;
  }
  return (key | 1) << KEY_SHIFT;
}

static uintptr_t *frames_of(table_t *table, uint32_t n) {
  return n < CALLSTACKS ? table->frames[n] : table->pairs[n - CALLSTACKS];
}

static bool is_same(table_t *table, uint32_t n, const uintptr_t *frames, unsigned count) {
  if (atomic32_load_acquire(&table->stacks[n].count) != count) return false; /* S-stack */
  for (unsigned i = 0; i < count; i++)
    if (frames_of(table, n)[i] != frames[i]) return false;
  return true;
}

/* The kind's numbers in use are below this. */
static uint32_t end_of(const table_t *table, kind_t kind) {
  return (uint32_t)min_size(atomic32_load_relaxed(&table->next[kind]), ends_of_kind[kind]);
}

/* The bucket is the caller's. */
static uint32_t write_frames(table_t *table, kind_t kind, const uintptr_t *frames, unsigned count) {
  uint32_t n = atomic32_add_relaxed(&table->next[kind], 1);
  if (n >= ends_of_kind[kind]) return CALLSTACK_UNKNOWN;
  for (unsigned i = 0; i < count; i++) frames_of(table, n)[i] = frames[i];
  atomic32_store_release(&table->stacks[n].count, count); /* S-stack */
  return n;
}

static uint32_t find_or_enter(kind_t kind, const uintptr_t *frames, unsigned count) {
  table_t *table = find_table();
  uint64_t key = key_of(frames, count);
  bool is_full = end_of(table, kind) == ends_of_kind[kind];
  for (size_t i = 0; i < BUCKETS_MOST; i++) {
    atomic64_t *bucket = &table->buckets[((key >> 32) + i) % BUCKETS];
    uint64_t found = atomic64_load_relaxed(bucket);
    uint32_t n = (uint16_t)found;
    if (found >> KEY_SHIFT == key >> KEY_SHIFT && n != 0 && is_same(table, n, frames, count))
      return n;
    if (found == 0 && is_full) return CALLSTACK_UNKNOWN;
    if (found != 0 || !atomic64_cas_relaxed(bucket, &found, key)) continue;
    n = write_frames(table, kind, frames, count);
    atomic64_store_relaxed(bucket, key | n);
    return n;
  }
  return CALLSTACK_UNKNOWN;
}

uint32_t callstack_intern(const uintptr_t *frames, unsigned count) {
  ASSERT(count <= CALLSTACK_FRAMES && find_table() != NULL);
  uint32_t n = count != 0 ? find_or_enter(STACK, frames, count) : CALLSTACK_UNKNOWN;
  if (n == CALLSTACK_UNKNOWN) atomic64_add_relaxed(&unknown_calls, 1);
  return n;
}

uint32_t callstack_pair(uint32_t allocated, uint32_t freed) {
  uintptr_t pair[] = {allocated, freed}; /* no code lies there, so this is no stack */
  uint32_t n = find_or_enter(PAIR, pair, ARRAY_LENGTH(pair));
  return n != CALLSTACK_UNKNOWN ? n : allocated;
}

callstack_t *callstack_at(uint32_t number, const uintptr_t **frames) {
  table_t *table = find_table();
  if (table == NULL || number >= CALLSTACKS_AND_PAIRS) return NULL;
  callstack_t *s = &table->stacks[number];
  if (frames != NULL) *frames = frames_of(table, number);
  /* S-stack */
  return number == CALLSTACK_UNKNOWN || atomic32_load_acquire(&s->count) != 0 ? s : NULL;
}

uint32_t callstack_count(void) { return find_table() == NULL ? 0 : end_of(find_table(), STACK); }
uint32_t callstack_pairs_end(void) { return find_table() == NULL ? 0 : end_of(find_table(), PAIR); }
uint64_t callstack_unknown(void) { return atomic64_load_relaxed(&unknown_calls); }
