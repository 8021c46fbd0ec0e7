/* map.c - who lives in which window of the address space                             layer 3: arena
 * Contract: map.h. */
#include "map.h"

#include "../base/bits.h"
#include "../os/os.h"

large_table atomic_ptr_t window_map[WINDOW_COUNT];

enum { FIRST_TRIES = 64, LAST_TRIES = 1024 };
enum { ASKED_FROM = 16 }; /* windows: for fewer, the kernel is not asked whether it has room */

/* Windows are taken from the lowest up, so that our part of the address space does not drift. Lower
 * bits: no window below this one that was given back is free; 0: not known yet. Above: how often
 * one was given back, so that a thread that raises the lower bits has missed none. */
static atomic64_t low_window;
enum { LOW_SHIFT = 32 };

static void *address_of(size_t window) { return (void *)(window << WINDOW_SHIFT); }

void map_free(void *window, size_t count) {
  size_t first = (uintptr_t)window >> WINDOW_SHIFT;
  if (count == 0) return;
  for (size_t i = 0; i < count; i++)
    atomic_ptr_store_release(&window_map[first + i], NULL); /* S-window */
  uint64_t low = atomic64_load_relaxed(&low_window), next;
  do next = ((low >> LOW_SHIFT) + 1) << LOW_SHIFT | min_size((uint32_t)low, first);
  /* S-low. Progress: another thread found or gave back a window */
  while (!atomic64_cas_release(&low_window, &low, next));
}

static bool windows_are_valid(size_t first, size_t count) {
  for (size_t i = first; i < first + count; i++) {
    const char *window = (char *)(i << WINDOW_SHIFT);
    uintptr_t tenant = map_find(window);
    tenant_t kind = map_kind(tenant);
    HOLDS(W1, kind <= TENANT_GUARDED && map_is_ours(tenant) == (map_record(tenant) != NULL));
    HOLDS(W1, kind != TENANT_ARENA || map_record(tenant) == window);
  }
  return true;
}

void map_set(void *window, size_t count, void *record, tenant_t kind) {
  ASSERT((uintptr_t)window % WINDOW_SIZE == 0);
  size_t first = (uintptr_t)window >> WINDOW_SHIFT;
  for (size_t i = 0; i < count; i++)
    atomic_ptr_store_release(&window_map[first + i],
                             (void *)((uintptr_t)record | kind)); /* S-window */
  ASSERT_VALID(windows_are_valid(first, count));
}

/* The windows that are wanted, and the result of the last try. */
typedef struct {
  size_t count, size;
  bool without_memory; /* reserve only */
  bool again;          /* try windows again where something else was */
  os_map_result_t result;
} find_t;

static os_map_result_t map_there(const find_t *s, size_t first, size_t size) {
  void *at = address_of(first);
  return s->without_memory ? os_reserve_at(at, size) : os_map_at(at, size);
}

/* Claims all these windows, or none: then returns how many from `first` on are free. */
static size_t claim(size_t first, size_t count, bool again) {
  for (size_t i = 0; i < count; i++) {
    void *seen = again && atomic_ptr_load_relaxed(&window_map[first + i]) == (void *)TENANT_FOREIGN
                   ? (void *)TENANT_FOREIGN
                   : NULL;
    if (!atomic_ptr_cas_acquire(&window_map[first + i], &seen,
                                (void *)TENANT_CLAIMED)) { /* S-window */
      map_free(address_of(first), i);
      return i;
    }
  }
  return count;
}

bool map_claim(void *window) { return claim((uintptr_t)window >> WINDOW_SHIFT, 1, true) == 1; }

bool map_try_room(size_t size, bool without_memory) {
  void *at = without_memory ? os_find(size) : os_map(size);
  if (at != NULL && !without_memory) os_unmap(at, size);
  return at != NULL;
}
bool map_may_fit(size_t count, size_t size, bool without_memory) {
  return count < ASKED_FROM || map_try_room(size, without_memory);
}

bool map_claim_behind(void *window, size_t have, size_t more) {
  size_t first = ((uintptr_t)window >> WINDOW_SHIFT) + have;
  return first + more <= os_space_end() >> WINDOW_SHIFT &&
         map_may_fit(more, (more - 1) << WINDOW_SHIFT, false) && claim(first, more, false) == more;
}

/* The last claimed window that holds something else, if there is enough memory to find it. */
static cold size_t find_foreign(find_t *s, size_t first) {
  size_t from = 0, end = ((s->size - 1) >> WINDOW_SHIFT) + 1;
  while (end - from > 1) { /* Bound: a half of the windows each time */
    size_t middle = (from + end) / 2, before = middle << WINDOW_SHIFT;
    size_t size = min_size(s->size, end << WINDOW_SHIFT) - before;
    s->result = map_there(s, first + middle, size);
    if (s->result == OS_NO_MEMORY) return from;
    if (s->result == OS_MAPPED) os_unmap(address_of(first + middle), size);
    if (s->result == OS_MAPPED) end = middle;
    else from = middle;
  }
  s->result = OS_OCCUPIED;
  return from;
}

/* Claims the windows from `first` on and maps them. On OS_OCCUPIED: returns which is taken. */
static size_t try_at(find_t *s, size_t first) {
  s->result = OS_OCCUPIED;
  size_t i = claim(first, s->count, s->again);
  if (i < s->count) return i;
  s->result = map_there(s, first, s->size);
  if (s->result == OS_OCCUPIED) i = find_foreign(s, first);
  if (s->result == OS_NO_MEMORY) map_free(address_of(first), s->count);
  if (s->result != OS_OCCUPIED) return 0;
  map_set(address_of(first + i), 1, NULL, TENANT_FOREIGN);
  map_free(address_of(first + i + 1), s->count - i - 1);
  map_free(address_of(first), i);
  return i;
}

/* The first of `count` adjacent free windows, from `from` on; `end`: there are none. */
static size_t find_free(size_t from, size_t end, size_t count, bool again) {
  for (size_t run = 0; from < end; from++) {
    const void *word = atomic_ptr_load_relaxed(&window_map[from]); /* relaxed: the claim decides */
    run = word == NULL || (again && word == (void *)TENANT_FOREIGN) ? run + 1 : 0;
    if (run == count) return from + 1 - count;
  }
  return end;
}

static size_t lowest_free(size_t end) {
  uint64_t low = atomic64_load_acquire(&low_window); /* S-low */
  size_t from = (uint32_t)low;
  size_t first = find_free(from != 0 ? from : os_space_start() >> WINDOW_SHIFT, end, 1, false);
  if (first != from) atomic64_cas_relaxed(&low_window, &low, low - from + first);
  return first;
}

static void *search_upward(find_t *s, size_t from, size_t end, size_t tries) {
  s->result = OS_OCCUPIED;
  for (; tries > 0 && (from = find_free(from, end, s->count, s->again)) < end; tries--) {
    size_t i = try_at(s, from);
    if (s->result != OS_OCCUPIED) return s->result == OS_MAPPED ? address_of(from) : NULL;
    from += i + 1;
  }
  return NULL;
}

/* Tries where the kernel itself finds room. */
static void *search_near(find_t *s) {
  size_t first = align_up((uintptr_t)os_find(s->size + WINDOW_SIZE), WINDOW_SIZE) >> WINDOW_SHIFT;
  if (first == 0 || first + s->count > WINDOW_COUNT) return NULL;
  try_at(s, first);
  return s->result == OS_MAPPED ? address_of(first) : NULL;
}

/* Bound: the windows of the address space, each of which is refused once; at the end, when nothing
 * else is found, LAST_TRIES of those again. */
static cold void *search_longer(find_t *s, size_t end) {
  bool is_short = s->result == OS_NO_MEMORY; /* or no such addresses: the kernel knows */
  s->again = true;
  void *window = search_near(s);
  if (window != NULL || is_short || s->result == OS_NO_MEMORY) return window;
  /* A kernel that knows no room may not have looked at low addresses. */
  size_t tries = os_find(s->size) == NULL ? FIRST_TRIES : end;
  s->again = false;
  window = search_upward(s, 1, end, tries);
  if (window != NULL || s->result == OS_NO_MEMORY) return window;
  s->again = true;
  return search_upward(s, 1, end, min_size(tries, LAST_TRIES));
}

static void *search(find_t *s) {
  if (!map_may_fit(s->count, s->size, s->without_memory)) return NULL;
  size_t end = os_space_end() >> WINDOW_SHIFT;
  void *window = search_upward(s, lowest_free(end), end, FIRST_TRIES);
  return window != NULL ? window : search_longer(s, end);
}

void *map_new(size_t count, size_t size) { return search(&(find_t){.count = count, .size = size}); }
void *map_reserve(size_t count, size_t size) {
  return search(&(find_t){.count = count, .size = size, .without_memory = true});
}

bool map_is_valid(void) {
  size_t start = os_space_start() >> WINDOW_SHIFT;
  size_t low = (uint32_t)atomic64_load_relaxed(&low_window);
  HOLDS(W2, low <= start || find_free(start, low, 1, false) == low);
  return windows_are_valid(0, WINDOW_COUNT);
}
