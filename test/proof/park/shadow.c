/* shadow.c - a record of every block that is held: nobody else gets a byte of it,
 * nobody writes to it
 *
 * Threads: any, handlers too. A slot is taken and given up by one swap of its state. A thread is
 * never stopped in here, for this is not the allocator's text. */
#include "park.h"

#include <string.h>

enum { SLOTS = 4096, EDGE = 64 };
enum { SLOT_FREE, SLOT_CHANGING, SLOT_HELD };
enum { NO_CONTENTS = 0 }; /* a seed */

static struct {
  int state;
  unsigned char *block;
  size_t size;
  uint64_t seed;
} slots[SLOTS];
static unsigned slots_used; /* those from here on were never taken */

/* ---- contents -------------------------------------------------------------------------------- */

/* The bytes that are written and looked at: the first ones, and the last. */
static size_t edge(size_t size) { return size < 2 * EDGE ? size : EDGE; }
static unsigned char byte_at(uint64_t seed, size_t i) {
  return (unsigned char)(seed * 167 + i * 31 + (seed >> 5));
}

static void write_contents(unsigned char *p, size_t size, uint64_t seed) {
  size_t n = edge(size);
  for (size_t i = 0; i < n; i++) p[i] = byte_at(seed, i);
  for (size_t i = size - n; i < size; i++) p[i] = byte_at(seed, i);
}

static bool has_contents(const unsigned char *p, size_t from, size_t to, uint64_t seed) {
  for (size_t i = from; i < to; i++)
    if (p[i] != byte_at(seed, i)) return false;
  return true;
}

static bool is_intact(unsigned slot) {
  size_t size = slots[slot].size, n = edge(size);
  const unsigned char *p = slots[slot].block;
  if (slots[slot].seed == NO_CONTENTS) return true;
  return has_contents(p, 0, n, slots[slot].seed) &&
         has_contents(p, size - n, size, slots[slot].seed);
}

/* ---- slots ----------------------------------------------------------------------------------- */

static bool swap_state(unsigned slot, int from, int to) {
  return __atomic_compare_exchange_n(&slots[slot].state, &from, to, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

static unsigned used(void) { return __atomic_load_n(&slots_used, __ATOMIC_ACQUIRE); }

static unsigned take_slot(void) {
  for (unsigned i = 0, n = used(); i < n; i++)
    if (slots[i].state == SLOT_FREE && swap_state(i, SLOT_FREE, SLOT_CHANGING)) return i;
  unsigned slot = __atomic_fetch_add(&slots_used, 1, __ATOMIC_ACQ_REL);
  if (slot >= SLOTS) park_fail("too many blocks for the record");
  slots[slot].state = SLOT_CHANGING;
  return slot;
}

static void check_overlap(const unsigned char *p, size_t size) {
  for (unsigned i = 0, n = used(); i < n; i++) {
    const unsigned char *q = slots[i].block;
    if (slots[i].state == SLOT_HELD && p < q + slots[i].size && q < p + size)
      park_fail("block %p of %zu bytes overlaps block %p of %zu", (const void *)p, size,
                (const void *)q, slots[i].size);
  }
}

static int slot_of(const void *p) {
  for (unsigned i = 0, n = used(); i < n; i++)
    if (slots[i].state == SLOT_HELD && slots[i].block == p) return (int)i;
  return -1;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void *hold_with(void *p, size_t size, uint64_t seed) {
  if (p == NULL) park_fail("no block of %zu bytes", size);
  if ((uintptr_t)p % (size >= 16 ? 16 : 8) != 0) park_fail("block %p is not aligned", p);
  check_overlap(p, size);
  unsigned slot = take_slot();
  slots[slot].block = p;
  slots[slot].size = size;
  slots[slot].seed = seed;
  if (seed != NO_CONTENTS) write_contents(p, size, seed);
  __atomic_store_n(&slots[slot].state, SLOT_HELD, __ATOMIC_RELEASE);
  return p;
}

void *hold(void *p, size_t size) {
  static uint64_t last_seed;
  return hold_with(p, size, __atomic_add_fetch(&last_seed, 1, __ATOMIC_RELAXED));
}

void *hold_untouched(void *p, size_t size) { return hold_with(p, size, NO_CONTENTS); }

void release(void *p) {
  int slot = slot_of(p);
  if (slot < 0) park_fail("block %p is not held", p);
  if (!is_intact((unsigned)slot))
    park_fail("block %p of %zu bytes was written to", p, slots[slot].size);
  if (!swap_state((unsigned)slot, SLOT_HELD, SLOT_FREE)) park_fail("block %p is given up twice", p);
}

bool is_held(const void *p) { return slot_of(p) >= 0; }

void *get(size_t size) { return hold(api.malloc(size), size); }

void put(void *p) {
  release(p);
  api.free(p);
}

void *resize(void *p, size_t size) {
  int slot = slot_of(p);
  if (slot < 0) park_fail("block %p is not held", p);
  uint64_t seed = slots[slot].seed;
  size_t kept = edge(slots[slot].size);
  release(p);
  p = api.realloc(p, size);
  if (p != NULL && !has_contents(p, 0, kept < size ? kept : size, seed))
    park_fail("realloc to %zu bytes lost the contents", size);
  return hold(p, size);
}

void shadow_check(void) {
  for (unsigned i = 0, n = used(); i < n; i++)
    if (slots[i].state == SLOT_HELD && !is_intact(i))
      park_fail("block %p of %zu bytes was written to", (void *)slots[i].block, slots[i].size);
}

/* ---- what a visit shows ---------------------------------------------------------------------- */

typedef struct {
  struct {
    const void *block;
    uint64_t seed;
    size_t usable;
    unsigned times;
  } slot[SLOTS];
  unsigned slots;
  size_t strangers; /* blocks that nobody holds */
} shown_t;

static void expect_shown(shown_t *shown) {
  shown->slots = used();
  shown->strangers = 0;
  for (unsigned i = 0; i < shown->slots; i++) {
    shown->slot[i].block = slots[i].state == SLOT_HELD ? slots[i].block : NULL;
    shown->slot[i].seed = slots[i].seed;
    shown->slot[i].times = 0;
  }
}

static bool note_shown(void *block, size_t usable, void *context) {
  shown_t *shown = context;
  int slot = slot_of(block);
  if (slot < 0) {
    shown->strangers++;
  } else if ((unsigned)slot < shown->slots) {
    shown->slot[slot].usable = usable;
    shown->slot[slot].times++;
  }
  return true;
}

/* Of what was held all the time. */
static void check_shown(const shown_t *shown) {
  for (unsigned i = 0; i < shown->slots; i++) {
    if (slots[i].state != SLOT_HELD || slots[i].block != shown->slot[i].block ||
        slots[i].seed != shown->slot[i].seed)
      continue;
    if (shown->slot[i].times != 1)
      park_fail("a visit shows block %p of %zu bytes %u times", shown->slot[i].block, slots[i].size,
                shown->slot[i].times);
    if (shown->slot[i].usable < slots[i].size)
      park_fail("a visit shows %zu bytes of block %p, which has %zu", shown->slot[i].usable,
                shown->slot[i].block, slots[i].size);
  }
}

void shadow_check_visit(size_t strangers) {
  shown_t shown;
  expect_shown(&shown);
  if (!api.heap_visit(NULL, note_shown, &shown)) park_fail("a visit was stopped by nobody");
  check_shown(&shown);
  if (shown.strangers > strangers)
    park_fail("a visit shows %zu blocks that nobody holds", shown.strangers);
}

/* ---- all blocks at once ---------------------------------------------------------------------- */

void shadow_put_all(void) {
  for (unsigned i = 0, n = used(); i < n; i++)
    if (slots[i].state == SLOT_HELD) put(slots[i].block);
}

void put_others(size_t size, const void *but) {
  for (unsigned i = 0, n = used(); i < n; i++)
    if (slots[i].state == SLOT_HELD && slots[i].size == size && slots[i].block != but)
      put(slots[i].block);
}

static bool may_put(unsigned slot, size_t size) {
  return slots[slot].state == SLOT_HELD && slots[slot].size == size && !is_given(slots[slot].block);
}

void put_ends(size_t size) {
  unsigned first = 0, last = used();
  while (first < last && !may_put(first, size)) first++;
  while (last > first && !may_put(last - 1, size)) last--;
  if (first < last) put(slots[first].block);
  if (first + 1 < last) put(slots[last - 1].block);
}
