/* empty.c - blocks of no bytes                                                       layer 5: stock
 * Contract: empty.h. Sync: S-window (map.h), S-bit (bitmap.h). */
#include "empty.h"

#include "../arena/bitmap.h"
#include "../base/layout.h"
#include "../os/os.h"

/* Stands at the start of the window. */
typedef struct {
  atomic64_t made; /* words; relaxed: whoever moves it on makes the bits, which S-bit hands over */
  atomic64_t ready[EMPTY_WORDS], live[EMPTY_WORDS];
} empty_t;

enum {
  EMPTY_PAGES = 64 << 10, /* the largest pages that there are */
  EMPTY_OPEN = (sizeof(empty_t) + EMPTY_PAGES - 1) / EMPTY_PAGES * EMPTY_PAGES,
  EMPTY_FIRST = EMPTY_OPEN + EMPTY_PAGES, /* nor is what lies before the first block open */
  EMPTY_END = EMPTY_FIRST + EMPTY_WORDS * 64 * EMPTY_ALIGNMENT,
};

/* relaxed: the window's tenant says whether it is complete */
static atomic_ptr_t empty_record;
static atomic32_t is_refused; /* relaxed: then nobody asks again */
static atomic32_t turn;       /* relaxed: where the next search begins */
LAYOUT_VARIABLE(empty_record);
LAYOUT_SIZE(empty_t);

/* NULL: there is none, or not yet. */
static empty_t *find_record(void) {
  void *at = atomic_ptr_load_relaxed(&empty_record);
  uintptr_t tenant = map_find(at);
  return at != NULL && map_kind(tenant) == TENANT_EMPTY ? map_record(tenant) : NULL;
}

static cold void make_region(void) {
  if (atomic32_load_relaxed(&is_refused) != 0) return;
  void *none = NULL, *window = map_reserve(1, EMPTY_END);
  bool is_open = window != NULL && os_protect(window, EMPTY_OPEN, true);
  if (!is_open) atomic32_store_relaxed(&is_refused, 1);
  if (is_open && atomic_ptr_cas_relaxed(&empty_record, &none, window))
    return map_set(window, 1, window, TENANT_EMPTY);
  if (window == NULL) return;
  os_unmap(window, EMPTY_END); /* another thread was first, or the system refused */
  map_free(window, 1);
}

/* False: all are made. */
static bool make_more(empty_t *r) {
  uint64_t made = atomic64_load_relaxed(&r->made);
  if (made == EMPTY_WORDS) return false;
  if (atomic64_cas_relaxed(&r->made, &made, made + EMPTY_STEP_WORDS))
    bitmap_release(r->ready, made * 64, EMPTY_STEP_WORDS * 64);
  return true;
}

/* Each search begins in another word: so an address that was freed rests for a while, and threads
 * seldom meet at one word. */
static size_t take_address(empty_t *r) {
  size_t made = atomic64_load_relaxed(&r->made);
  if (made == 0) return BITMAP_NONE;
  size_t n = bitmap_claim_one(r->ready, made, atomic32_add_relaxed(&turn, 1) % made);
  return n != BITMAP_NONE ? n : bitmap_claim_one(r->ready, made, 0);
}

void *empty_malloc(void) {
  empty_t *r = find_record();
  if (unlikely(r == NULL)) {
    make_region();
    r = find_record();
    if (r == NULL) return NULL;
  }
  size_t n = take_address(r);
  if (unlikely(n == BITMAP_NONE)) {
    if (!make_more(r)) return NULL;
    n = take_address(r);
    if (n == BITMAP_NONE) return NULL; /* others took them, or are about to make them */
  }
  bitmap_release(r->live, n, 1);
  return (char *)r + EMPTY_FIRST + n * EMPTY_ALIGNMENT;
}

/* The block's number; `fatal` if no such address was ever made. */
static size_t number_of(const empty_t *r, const void *p, const char *call) {
  size_t at = (uintptr_t)p - (uintptr_t)r - EMPTY_FIRST;
  bool is_made = at / EMPTY_ALIGNMENT / 64 < atomic64_load_relaxed(&r->made);
  if (!is_made || at % EMPTY_ALIGNMENT != 0) fatal("invalid pointer", p, call);
  return at / EMPTY_ALIGNMENT;
}

void empty_free(void *record, void *p, const char *call) {
  empty_t *r = record;
  size_t n = number_of(r, p, call);
  /* of two threads that free the same one, one sees the other */
  if (!bitmap_claim_at(r->live, n, 1)) fatal("double free", p, call);
  bitmap_release(r->ready, n, 1);
}

void empty_check(void *record, const void *p, const char *call) {
  const empty_t *r = record;
  size_t n = number_of(r, p, call);
  /* relaxed: a live block's bit does not change */
  if ((atomic64_load_relaxed(&r->live[n / 64]) >> n % 64 & 1) == 0) fatal("double free", p, call);
}

bool empty_owns(const void *record, const void *p) {
  return (uintptr_t)p - (uintptr_t)record < EMPTY_END &&
         (uintptr_t)p - (uintptr_t)record >= EMPTY_FIRST;
}

/* relaxed: others may allocate and free meanwhile */
bool empty_visit(empty_visitor_t *visitor, void *context) {
  empty_t *r = find_record();
  size_t made = r == NULL ? 0 : atomic64_load_relaxed(&r->made);
  for (size_t i = 0; i < made; i++) {
    uint64_t live = atomic64_load_relaxed(&r->live[i]);
    for (; live != 0; live &= live - 1) { /* Bound: the bits of a word */
      size_t n = i * 64 + bits_lowest(live);
      if (!visitor((char *)r + EMPTY_FIRST + n * EMPTY_ALIGNMENT, 0, context)) return false;
    }
  }
  return true;
}

size_t empty_metadata(void) { return find_record() == NULL ? 0 : EMPTY_OPEN; }

bool empty_is_valid(void) {
  const empty_t *r = find_record();
  for (size_t i = 0; r != NULL && i < EMPTY_WORDS; i++) {
    uint64_t ready = atomic64_load_relaxed(&r->ready[i]), live = atomic64_load_relaxed(&r->live[i]);
    HOLDS(E1, (ready & live) == 0);
    HOLDS(E1, i < atomic64_load_relaxed(&r->made) || (ready | live) == 0);
  }
  return true;
}
