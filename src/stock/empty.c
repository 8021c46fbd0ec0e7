/* empty.c - blocks of no bytes                                                       layer 5: stock
 * Contract: empty.h. Sync: S-window (map.h), S-bit (bitmap.h). */
#include "empty.h"

#include "../arena/bitmap.h"
#include "../base/layout.h"
#include "../os/os.h"

/* Stands at the start of the window. */
typedef struct {
  atomic64_t live[EMPTY_WORDS]; /* S-bit, though a bit that is set is taken */
} empty_t;

enum {
  EMPTY_OPEN = (sizeof(empty_t) + PAGE_ANYWHERE - 1) / PAGE_ANYWHERE * PAGE_ANYWHERE,
  EMPTY_FIRST = EMPTY_OPEN + PAGE_ANYWHERE, /* the page before the first block is closed too */
  EMPTY_END = EMPTY_FIRST + EMPTY_WORDS * 64 * EMPTY_ALIGNMENT,
};

/* relaxed: the record begins as zero; the window's tenant says whether it is open */
static atomic_ptr_t empty_record;
static atomic32_t is_refused; /* relaxed: once set, nobody asks again */
LAYOUT_VARIABLE(empty_record);
LAYOUT_SIZE(empty_t);

/* NULL: there is none, or none yet. */
static empty_t *find_record(void) {
  void *at = atomic_ptr_load_relaxed(&empty_record);
  uintptr_t tenant = map_find(at);
  return at != NULL && map_kind(tenant) == TENANT_EMPTY ? map_record(tenant) : NULL;
}

/* It is complete before others see it: if a thread stops here, nobody misses its region. */
static cold empty_t *make_region(void) {
  if (atomic32_load_relaxed(&is_refused) != 0) return NULL;
  void *none = NULL, *window = map_reserve(1, EMPTY_END);
  bool is_open = window != NULL && os_protect(window, EMPTY_OPEN, true);
  if (is_open) map_set(window, 1, window, TENANT_EMPTY);
  else atomic32_store_relaxed(&is_refused, 1);
  if (is_open && atomic_ptr_cas_relaxed(&empty_record, &none, window)) return window;
  if (window != NULL) { /* another thread was first, or the system refused */
    os_unmap(window, EMPTY_END);
    map_free(window, 1);
  }
  return find_record();
}

/* The bits of a word's addresses that lack this alignment. */
static uint64_t misaligned(size_t alignment) {
  if (alignment <= EMPTY_ALIGNMENT) return 0;
  size_t apart = alignment / EMPTY_ALIGNMENT;
  return ~(apart < 64 ? ~(uint64_t)0 / (((uint64_t)1 << apart) - 1) : 1);
}

/* The lowest free address from number `from` on, within EMPTY_LOOKS words and without those in
 * `others`; BITMAP_NONE if there is none. */
static size_t take_address(empty_t *r, size_t from, uint64_t others) {
  uint64_t passed = others | (((uint64_t)1 << from % 64) - 1);
  for (size_t i = from / 64; i < from / 64 + EMPTY_LOOKS; i++, passed = others) {
    atomic64_t *word = &r->live[i % EMPTY_WORDS];
    uint64_t live = atomic64_load_relaxed(word); /* relaxed: the swap reads again */
    while ((live | passed) != ~(uint64_t)0) {    /* Progress: a failed swap means that it changed */
      unsigned bit = bits_ones_below(live | passed);
      if (atomic64_cas_acquire(word, &live, live | (uint64_t)1 << bit)) /* S-bit */
        return i % EMPTY_WORDS * 64 + bit;
    }
  }
  return BITMAP_NONE;
}

/* Each heap goes round from its own start, so that a freed address rests and threads seldom meet at
 * one word. Its steps are EMPTY_STEP addresses, so that 16 bits count them. */
void *empty_malloc(heap_t *h, size_t alignment) {
  enum { HEAPS_APART = 40503 };
  empty_t *r = find_record();
  if (unlikely(r == NULL) && (r = make_region()) == NULL) return NULL;
  uint32_t first = heap_number(h) * HEAPS_APART;
  /* relaxed: only this thread and its handlers use it; whatever it says, the search decides */
  size_t from = (uint16_t)(first + atomic16_load_relaxed(&h->empty_steps)) * (size_t)EMPTY_STEP;
  size_t n = take_address(r, from, misaligned(alignment));
  size_t next = n != BITMAP_NONE ? n + EMPTY_STEP : align_down(from, 64) + 64 * EMPTY_LOOKS;
  atomic16_store_relaxed(&h->empty_steps, (uint16_t)(next / EMPTY_STEP - first));
  return n == BITMAP_NONE ? NULL : (char *)r + EMPTY_FIRST + n * EMPTY_ALIGNMENT;
}

/* The block's number; `fatal` if there is no such address. */
static size_t number_of(const empty_t *r, const void *p, const char *call) {
  size_t at = (uintptr_t)p - (uintptr_t)r - EMPTY_FIRST;
  if (!empty_owns(r, p) || at % EMPTY_ALIGNMENT != 0) fatal("invalid pointer", p, call);
  return at / EMPTY_ALIGNMENT;
}

static bool is_live(uint64_t word, size_t n) { return (word >> n % 64 & 1) != 0; }

void empty_free(void *record, void *p, const char *call) {
  empty_t *r = record;
  size_t n = number_of(r, p, call);
  /* of two threads that free one block, one sees the other */
  uint64_t live = atomic64_and_release(&r->live[n / 64], ~((uint64_t)1 << n % 64)); /* S-bit */
  if (!is_live(live, n)) fatal("double free", p, call);
}

void empty_check(void *record, const void *p, const char *call) {
  const empty_t *r = record;
  size_t n = number_of(r, p, call);
  /* relaxed: a live block's bit does not change */
  if (!is_live(atomic64_load_relaxed(&r->live[n / 64]), n)) fatal("double free", p, call);
}

bool empty_owns(const void *record, const void *p) {
  return (uintptr_t)p - (uintptr_t)record < EMPTY_END &&
         (uintptr_t)p - (uintptr_t)record >= EMPTY_FIRST;
}

/* relaxed: others may allocate and free meanwhile */
bool empty_visit(empty_visitor_t *visitor, void *context) {
  empty_t *r = find_record();
  for (size_t i = 0; r != NULL && i < EMPTY_WORDS; i++) {
    uint64_t live = atomic64_load_relaxed(&r->live[i]);
    for (; live != 0; live &= live - 1) { /* Bound: the bits of a word */
      size_t n = i * 64 + bits_lowest(live);
      if (!visitor((char *)r + EMPTY_FIRST + n * EMPTY_ALIGNMENT, 0, context)) return false;
    }
  }
  return true;
}

/* relaxed: likewise */
size_t empty_count(void) {
  const empty_t *r = find_record();
  size_t live = 0;
  for (size_t i = 0; r != NULL && i < EMPTY_WORDS; i++)
    live += bits_count(atomic64_load_relaxed(&r->live[i]));
  return live;
}

size_t empty_metadata(void) { return find_record() == NULL ? 0 : EMPTY_OPEN; }
