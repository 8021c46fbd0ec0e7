/* added.c - arenas in memory that was not mapped for them                           layer 3: arena
 * Contract: added.h. Sync: S-bit (bitmap.h), S-window (map.h), S-arena (arena.h). */
#include "added.h"

#include "../os/os.h"
#include "slices.h"

enum {
  HUGE_PAGE = 2 << 20,
  HUGE_FIRST = 4 << 20,    /* bytes of a window before its first huge page: the head is in front */
  PRESENT_STEP = 32 << 20, /* bytes made present between two looks at the clock */
  RESERVE_MS = 5000,       /* how long taking huge pages may take */
  RESERVE_MS_EACH = 1000,  /* how much longer for each GiB */
};
#define HEAD_SIZE ((size_t)ARENA_FIRST_SLICE << SLICE_SHIFT)
#define HUGE_MOST (((size_t)ARENA_END << SLICE_SHIFT) / HUGE_PAGE * HUGE_PAGE - HUGE_FIRST)

/* ---- memory becomes an arena ----------------------------------------------------------------- */

typedef struct {
  char *from, *end;
  bool is_zero, is_pinned;
} memory_t;

/* The part of a window's head that lies before the memory. */
static size_t head_before(const char *window, const memory_t *m) {
  return m->from > window ? min_size((size_t)(m->from - window), HEAD_SIZE) : 0;
}

/* Reserves and opens it: where reservations go as a whole, os_map_at wants a whole window. */
static bool make_head(char *window, const memory_t *m) {
  size_t before = head_before(window, m);
  if (before != 0 && os_reserve_at(window, before) != OS_MAPPED) return false;
  if (before != 0 && !os_protect(window, before, true)) return os_unmap(window, before), false;
  if (!m->is_zero) memset(window + before, 0, HEAD_SIZE - before);
  return true;
}

static bool begin_arena(arena_t *a, size_t first, size_t end, const memory_t *m) {
  size_t n = end - first;
  if (!slices_reserve_number(a)) return false;
  a->first = (uint16_t)first;
  a->end = (uint16_t)end;
  a->is_added = true;
  a->is_pinned = m->is_pinned;
  atomic64_store_relaxed(&a->mapped, end);
  atomic64_add_relaxed(&arena_counts.mapped, ARENA_FIRST_SLICE + n);
  if (!m->is_zero) {
    bitmap_release(arena_maps(a)->dirty, first, n);
    memset(&arena_maps(a)->touched[first], TOUCHED_ALL, n);
    if (!m->is_pinned) atomic64_add_relaxed(&arena_counts.dirty, n);
  }
  slices_give_back(a, first, n);
  map_set(a, 1, a, TENANT_ARENA);
  ASSERT_VALID(arena_is_valid(a));
  slices_publish(a);
  return true;
}

/* Uses the part of the memory in this window, which is claimed, and goes back if it is of no use.
 * Returns the bytes of its slices. */
static size_t use_window(char *window, const memory_t *m) {
  size_t first = ARENA_FIRST_SLICE, end = 0;
  if (m->from > window) first = max_size(first, (size_t)(m->from - window) >> SLICE_SHIFT);
  if (m->end > window) end = min_size((size_t)(m->end - window) >> SLICE_SHIFT, ARENA_END);
  if (first < end && make_head(window, m)) {
    if (begin_arena((arena_t *)window, first, end, m)) return (end - first) << SLICE_SHIFT;
    if (m->from > window) os_unmap(window, head_before(window, m));
  }
  map_free(window, 1);
  return 0;
}

size_t added_put(void *at, size_t size, bool is_zero, bool is_pinned) {
  uintptr_t from = align_up((uintptr_t)at, SLICE_SIZE), end = (uintptr_t)at + size;
  memory_t m = {(char *)from, (char *)align_down(end, SLICE_SIZE), is_zero, is_pinned};
  size_t added = 0;
  /* Bound: the windows in which the memory lies */
  for (char *w = (char *)align_down(from, WINDOW_SIZE); w < m.end; w += WINDOW_SIZE)
    if (map_claim(w)) added += use_window(w, &m);
  return added;
}

/* ---- huge pages that were set aside ---------------------------------------------------------- */

typedef struct {
  int node;
  uint32_t began, most; /* os_now_ms; ms */
} pursuit_t;

static size_t make_present(char *at, size_t size, size_t page, const pursuit_t *p) {
  size_t done = 0, step = max_size(page, PRESENT_STEP);
  /* Bound: the pages of `size`, and the time */
  while (done < size && os_ms_between(p->began, os_now_ms()) < p->most) {
    size_t part = min_size(step, size - done);
    if (!os_populate(at + done, part)) break;
    done += part;
  }
  return done;
}

/* Takes as many pages at once as there are; after each failure, half as many. */
static size_t take_pages(char *at, size_t most, size_t page, const pursuit_t *p) {
  size_t got = 0, step = most;
  while (step != 0 && got < most) { /* Bound: halves of the step, and whole steps */
    step = min_size(step, most - got);
    if (!os_map_huge(at + got, step, page, p->node)) {
      step = step / 2 / page * page;
      continue;
    }
    size_t present = make_present(at + got, step, page, p);
    got += present;
    if (present < step) break;
  }
  return got;
}

/* Takes pages in a new window: a largest one fills it; else the window's head has small pages. */
static size_t take_window(size_t most, size_t page, const pursuit_t *p) {
  size_t from = page == WINDOW_SIZE ? 0 : HUGE_FIRST, got, end;
  char *window = map_reserve(1, WINDOW_SIZE);
  if (window == NULL) return 0;
  most = min_size(most, page == WINDOW_SIZE ? page : HUGE_MOST);
  got = take_pages(window + from, most / page * page, page, p);
  end = from + got;
  if (got == 0) return os_unmap(window, WINDOW_SIZE), map_free(window, 1), 0;
  if (from != 0) os_unmap(window, from);
  if (end < WINDOW_SIZE) os_unmap(window + end, WINDOW_SIZE - end);
  if (use_window(window, &(memory_t){window + from, window + end, true, true}) != 0) return got;
  return os_unmap(window + from, got), 0;
}

size_t added_reserve(size_t size, int node) {
  static const size_t pages[] = {WINDOW_SIZE, HUGE_PAGE};
  pursuit_t p = {node, os_now_ms(),
                 (uint32_t)(RESERVE_MS + RESERVE_MS_EACH * (size >> WINDOW_SHIFT))};
  size_t got = 0;
  size = align_up(size, HUGE_PAGE);
  for (unsigned i = 0; i < ARRAY_LENGTH(pages); i++)
    for (size_t more = 1; more != 0 && size - got >= pages[i]; got += more) /* Bound: windows */
      more = take_window(size - got, pages[i], &p);
  atomic64_store_relaxed(&arena_counts.reserved, got);
  return got;
}
