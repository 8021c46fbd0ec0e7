/* callstack.c - call stacks by number, and what is counted for each                layer 2: support
 * Contract: callstack.h. */
#include "callstack.h"

#include "../base/bits.h"
#include "../base/layout.h"
#include "../os/os.h"

enum {
  BUCKETS = 2 * CALLSTACKS,
  BUCKETS_MOST = 64, /* at which a stack is looked for */
  KEY_SHIFT = 16,
};

/* A bucket leads from a stack's key to its number: the key above KEY_SHIFT, below it the number, or
 * 0 until it is there. 0: none. relaxed: the stack's `count` says whether the frames can be read.
 * Sums lie together, for they are read often; frames apart. */
typedef struct {
  atomic64_t buckets[BUCKETS];
  atomic32_t count;
  callstack_t stacks[CALLSTACKS];
  uintptr_t frames[CALLSTACKS][CALLSTACK_FRAMES];
} table_t;

static atomic_ptr_t stacks_table;
static atomic64_t unknown; /* relaxed: a count */
LAYOUT_SIZE(table_t);
LAYOUT_VARIABLE(stacks_table);
LAYOUT_VARIABLE(unknown);

bool callstack_start(void) {
  void *none = NULL;
  if (atomic_ptr_load_relaxed(&stacks_table) != NULL) return true;
  table_t *table = os_map(sizeof *table);
  if (table == NULL) return false;
  atomic32_store_relaxed(&table->count, CALLSTACK_UNKNOWN + 1);
  if (!atomic_ptr_cas_release(&stacks_table, &none, table)) /* S-stack */
    os_unmap(table, sizeof *table);
  return true;
}

static table_t *find_table(void) { return atomic_ptr_load_acquire(&stacks_table); /* S-stack */ }
bool callstack_is_started(void) { return find_table() != NULL; }

static uint64_t key_of(const uintptr_t *frames, unsigned count) {
  uint64_t key = count;
  for (unsigned i = 0; i < count; i++) {
    key = (key ^ frames[i]) * 0x9E3779B97F4A7C15u;
    key ^= key >> 32;
  }
  return (key | 1) << KEY_SHIFT;
}

static bool is_same(table_t *table, uint32_t n, const uintptr_t *frames, unsigned count) {
  if (atomic32_load_acquire(&table->stacks[n].count) != count) return false; /* S-stack */
  for (unsigned i = 0; i < count; i++)
    if (table->frames[n][i] != frames[i]) return false;
  return true;
}

/* The bucket is the caller's. */
static uint32_t write_frames(table_t *table, const uintptr_t *frames, unsigned count) {
  uint32_t n = atomic32_add_relaxed(&table->count, 1);
  if (n >= CALLSTACKS) return CALLSTACK_UNKNOWN;
  for (unsigned i = 0; i < count; i++) table->frames[n][i] = frames[i];
  atomic32_store_release(&table->stacks[n].count, count); /* S-stack */
  return n;
}

static uint32_t find_or_enter(table_t *table, const uintptr_t *frames, unsigned count) {
  uint64_t key = key_of(frames, count);
  bool is_full = callstack_count() == CALLSTACKS;
  for (size_t i = 0; i < BUCKETS_MOST; i++) {
    atomic64_t *bucket = &table->buckets[((key >> 32) + i) % BUCKETS];
    uint64_t found = atomic64_load_relaxed(bucket);
    uint32_t n = (uint16_t)found;
    if (found >> KEY_SHIFT == key >> KEY_SHIFT && n != 0 && is_same(table, n, frames, count))
      return n;
    if (found == 0 && is_full) return CALLSTACK_UNKNOWN;
    if (found != 0 || !atomic64_cas_relaxed(bucket, &found, key)) continue;
    n = write_frames(table, frames, count);
    atomic64_store_relaxed(bucket, key | n);
    return n;
  }
  return CALLSTACK_UNKNOWN;
}

uint32_t callstack_intern(const uintptr_t *frames, unsigned count) {
  ASSERT(count <= CALLSTACK_FRAMES && find_table() != NULL);
  uint32_t n = count != 0 ? find_or_enter(find_table(), frames, count) : CALLSTACK_UNKNOWN;
  if (n == CALLSTACK_UNKNOWN) atomic64_add_relaxed(&unknown, 1);
  return n;
}

callstack_t *callstack_at(uint32_t number, const uintptr_t **frames) {
  table_t *table = find_table();
  if (table == NULL || number >= CALLSTACKS) return NULL;
  callstack_t *s = &table->stacks[number];
  *frames = table->frames[number];
  /* S-stack */
  return number == CALLSTACK_UNKNOWN || atomic32_load_acquire(&s->count) != 0 ? s : NULL;
}

uint32_t callstack_count(void) {
  table_t *table = find_table();
  return table == NULL ? 0 : (uint32_t)min_size(atomic32_load_relaxed(&table->count), CALLSTACKS);
}

uint64_t callstack_unknown(void) { return atomic64_load_relaxed(&unknown); }
