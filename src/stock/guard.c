/* guard.c - blocks between pages that nobody can read                                layer 5: stock
 * Contract: guard.h. */
#include "guard.h"

#include "../arena/bitmap.h"
#include "../base/layout.h"
#include "stock.h"

enum {
  FILLED = 0xA7, /* fills the rest of a block's pages */
  TRIES = 16,    /* slots to look at for a block */
  START_OF = 4,  /* one in so many blocks stands at the start of its pages */
};

/* relaxed: S-stack, by way of sample_was_started */
static atomic_ptr_t guard_record;
LAYOUT_VARIABLE(guard_record);
LAYOUT_SIZE(guard_t);
LAYOUT_SIZE(guard_slot_t);

bool guard_start(guard_report_t *report) {
  if (atomic_ptr_load_relaxed(&guard_record) != NULL) return true;
  guard_t *g = map_reserve(1, GUARD_END);
  if (g == NULL) return false;
  if (!os_protect(g, GUARD_FIRST, true)) {
    os_unmap(g, GUARD_END);
    map_free(g, 1);
    return false;
  }
  g->seed = os_random();
  g->report = report;
  bitmap_release(g->ready, 0, GUARD_SLOTS);
  map_set(g, 1, g, TENANT_GUARDED);
  atomic_ptr_store_relaxed(&guard_record, g);
  return true;
}

/* ---- slots ----------------------------------------------------------------------------------- */

static char *first_page(const guard_t *g, const guard_slot_t *s) {
  char *slot = (char *)(uintptr_t)g + GUARD_FIRST + (size_t)(s - g->slots) * GUARD_STRIDE;
  return slot + os_page_size();
}

static guard_state_t state_of(const guard_slot_t *s) {
  return (guard_state_t)atomic32_load_relaxed(&s->state);
}

guard_slot_t *guard_next(size_t *number) {
  guard_t *g = atomic_ptr_load_relaxed(&guard_record);
  while (g != NULL && *number < GUARD_SLOTS) { /* Bound: GUARD_SLOTS */
    guard_slot_t *s = &g->slots[(*number)++];
    if (state_of(s) == GUARD_LIVE) return s;
  }
  return NULL;
}

/* Its freed block has been protected for long enough. */
static bool has_rested(guard_t *g, const guard_slot_t *s) {
  uint32_t since = atomic32_load_relaxed(&g->releases) - atomic32_load_relaxed(&s->freed);
  return state_of(s) == GUARD_UNUSED || since > GUARD_REST;
}

static void give_slot(guard_t *g, const guard_slot_t *s) {
  bitmap_release(g->ready, (size_t)(s - g->slots), 1);
}

/* NULL: none of the slots it looked at is free. */
static guard_slot_t *take_slot(guard_t *g) {
  for (unsigned i = 0; i < TRIES; i++) {
    size_t n = atomic32_add_relaxed(&g->turn, 1) % GUARD_SLOTS;
    if (!bitmap_claim_at(g->ready, n, 1)) continue;
    if (has_rested(g, &g->slots[n])) return &g->slots[n];
    give_slot(g, &g->slots[n]);
  }
  return NULL;
}

void guard_set_stack(guard_stack_t *stack, uint32_t thread, const uintptr_t *frames, size_t count) {
  for (size_t i = 0; i < count; i++) atomic64_store_relaxed(&stack->frames[i], frames[i]);
  atomic32_store_relaxed(&stack->count, (uint32_t)count);
  atomic32_store_relaxed(&stack->thread, thread);
}

void guard_note_stack(guard_stack_t *stack) {
  uintptr_t frames[GUARD_FRAMES];
  bool by_tables = option_get(OPTION_profile_stack) == STACK_TABLES;
  unsigned count = os_backtrace(frames, GUARD_FRAMES, by_tables);
  guard_set_stack(stack, os_thread_number(), frames, count);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void count_open(uint64_t pages, uint64_t blocks) {
  atomic64_add_relaxed(&arena_counts.huge_bytes, pages);
  atomic64_add_relaxed(&heap_counts.huge_live, blocks);
}

void *guard_malloc(const heap_t *h, size_t size, size_t alignment) {
  guard_t *g = atomic_ptr_load_relaxed(&guard_record);
  size_t page = os_page_size(), pages = align_up(max_size(size, 1), page);
  if (g == NULL || size > GUARD_STRIDE - 2 * page || alignment > page || heap_tag(h) != NULL)
    return NULL;
  if (budget_is_spent(pages)) return NULL;
  guard_slot_t *s = take_slot(g);
  if (s == NULL) return NULL;
  char *first = first_page(g, s), *end = first + pages;
  if (!os_protect(first, pages, true)) {
    give_slot(g, s);
    return NULL;
  }
  uint64_t random = bits_mix(g->seed + atomic32_load_relaxed(&g->turn));
  size_t room = align_up(max_size(size, 1), max_size(alignment, CLASS_STEP));
  char *block = random % START_OF == 0 ? first : end - room;
  memset(first, FILLED, (size_t)(block - first));
  memset(block + size, FILLED, (size_t)(end - block) - size);
  atomic_ptr_store_relaxed(&s->block, block);
  atomic64_store_relaxed(&s->size, size);
  atomic64_store_relaxed(&s->asked, size);
  atomic64_store_relaxed(&s->pages, pages);
  sampled_set(&s->sampled, 0, 0);
  guard_note_stack(&s->allocation);
  atomic32_store_relaxed(&s->state, GUARD_LIVE);
  count_open(pages, 1);
  slab_thread_count(size, size);
  atomic64_add_relaxed(&heap_counts.huge_allocated, 1);
  arena_note_peak();
  return block;
}

/* The first byte that no longer has its filling; `end` if there is none. */
static const unsigned char *first_changed(const void *from, const void *end) {
  const unsigned char *at = from;
  while (at < (const unsigned char *)end && *at == FILLED) at++; /* Bound: a page */
  return at;
}

_Noreturn static cold void report_and_die(const guard_t *g, const char *what, const guard_slot_t *s,
                                          const void *at, const char *call) {
  g->report(what, s, at);
  fatal(what, at, call);
}

static void check_edges(const guard_t *g, const guard_slot_t *s, const char *call) {
  const char *block = atomic_ptr_load_relaxed(&s->block), *first = first_page(g, s);
  const char *behind = block + atomic64_load_relaxed(&s->size);
  const char *end = first + atomic64_load_relaxed(&s->pages);
  const void *at = first_changed(behind, end);
  if (at != end) report_and_die(g, "overflow noticed at free", s, at, call);
  at = first_changed(first, block);
  if (at != block) report_and_die(g, "underflow noticed at free", s, at, call);
}

/* The slot of block `p`. */
static guard_slot_t *find_slot(guard_t *g, const void *p, const char *call) {
  guard_slot_t *s = guard_slot_of(g, p);
  if (s == NULL || state_of(s) == GUARD_UNUSED || p != atomic_ptr_load_relaxed(&s->block))
    fatal("invalid pointer", p, call);
  return s;
}

size_t guard_size(guard_t *g, const void *p, const char *call) {
  const guard_slot_t *s = find_slot(g, p, call);
  if (state_of(s) != GUARD_LIVE) report_and_die(g, "double free", s, p, call);
  return atomic64_load_relaxed(&s->size);
}

void guard_note_asked(const void *p, size_t size) {
  uintptr_t tenant = map_find(p);
  guard_slot_t *s =
    map_kind(tenant) == TENANT_GUARDED ? guard_slot_of(map_record(tenant), p) : NULL;
  if (s != NULL) atomic64_store_relaxed(&s->asked, size);
}

void guard_free(guard_t *g, void *p, const char *call) {
  guard_slot_t *s = find_slot(g, p, call);
  uint64_t pages = atomic64_load_relaxed(&s->pages);
  uint32_t live = GUARD_LIVE;
  /* relaxed: of two threads that free the same block one sees the other; nothing is handed over */
  if (!atomic32_cas_relaxed(&s->state, &live, GUARD_FREED))
    report_and_die(g, "double free", s, p, call);
  guard_note_stack(&s->release);
  check_edges(g, s, call);
  if (sampled_blocks(&s->sampled) != 0) sample_end(p);
  count_open(0 - pages, (uint64_t)-1);
  slab_thread_count(0 - atomic64_load_relaxed(&s->size), 0);
  os_protect(first_page(g, s), pages, false);
  os_discard(first_page(g, s), pages);
  atomic32_store_relaxed(&s->freed, atomic32_add_relaxed(&g->releases, 1));
  give_slot(g, s);
}

/* ---- what is asked --------------------------------------------------------------------------- */

size_t guard_resident(const guard_slot_t *s) {
  const guard_t *g = atomic_ptr_load_relaxed(&guard_record);
  return os_resident(first_page(g, s), atomic64_load_relaxed(&s->pages));
}

size_t guard_metadata(void) {
  return atomic_ptr_load_relaxed(&guard_record) == NULL ? 0 : GUARD_FIRST;
}

bool guard_is_valid(void) {
  const guard_t *g = atomic_ptr_load_relaxed(&guard_record);
  for (size_t i = 0; g != NULL && i < GUARD_SLOTS; i++) {
    HOLDS(G1, !bitmap_has(g->ready, i) || state_of(&g->slots[i]) != GUARD_LIVE);
  }
  return true;
}
