/* map.c - who lives in which window of the address space                             layer 3: arena
 * Contract: map.h. */
#include "map.h"

#include "../base/check.h"
#include "../os/os.h"

atomic_ptr_t window_map[WINDOW_COUNT];

enum { PLACES_TRIED = 64, PROBES_TRIED = 16 };

/* Our windows lie side by side. Where to look next; relaxed: a hint, the map decides. */
static atomic32_t next_window;

void map_free(void *window, size_t count) {
  size_t first = (uintptr_t)window >> WINDOW_SHIFT;
  for (size_t i = 0; i < count; i++)
    atomic_ptr_store_release(&window_map[first + i], NULL); /* S-window */
  uint32_t next = atomic32_load_relaxed(&next_window);
  if (first < next) atomic32_store_relaxed(&next_window, (uint32_t)first);
}

void map_set(void *window, size_t count, void *record, tenant_t kind) {
  size_t first = (uintptr_t)window >> WINDOW_SHIFT;
  for (size_t i = 0; i < count; i++)
    atomic_ptr_store_release(&window_map[first + i],
                             (void *)((uintptr_t)record | kind)); /* S-window */
}

/* Claims just these windows, or how many from `first` on were free before one that was not. */
static size_t claim(size_t first, size_t count) {
  for (size_t i = 0; i < count; i++) {
    void *none = NULL;
    if (!atomic_ptr_swap_acquire(&window_map[first + i], &none,
                                 (void *)TENANT_CLAIMED)) { /* S-window */
      if (i > 0) map_free((void *)(first << WINDOW_SHIFT), i);
      return i;
    }
  }
  return count;
}

/* Near where the kernel itself would map: for small address spaces, and ones with a shadow of
 * somebody else's in the way. */
static void *place_by_probe(size_t count, size_t size) {
  size_t page = os_page_size();
  void *probe = os_map(page);
  if (probe == NULL) return NULL;
  os_unmap(probe, page);
  size_t at = (uintptr_t)probe >> WINDOW_SHIFT;
  for (size_t i = 1; i <= PROBES_TRIED && at > i * count; i++) {
    void *window = (void *)((at - i * count) << WINDOW_SHIFT);
    if (claim(at - i * count, count) != count) continue;
    if (os_map_at(window, size) == OS_MAPPED) return window;
    map_free(window, count);
  }
  return NULL;
}

void *map_new(size_t count, size_t size) {
  size_t first = atomic32_load_relaxed(&next_window);
  if (first == 0) first = os_place() >> WINDOW_SHIFT;
  for (int tried = 0; tried < PLACES_TRIED && first + count <= WINDOW_COUNT;) {
    size_t free = claim(first, count);
    if (free < count) {
      first += free + 1;
      continue;
    }
    void *window = (void *)(first << WINDOW_SHIFT);
    os_map_result_t result = os_map_at(window, size);
    if (result == OS_MAPPED) {
      atomic32_store_relaxed(&next_window, (uint32_t)(first + count));
      return window;
    }
    map_free(window, count);
    if (result == OS_NO_MEMORY) break;
    first += count;
    tried++;
  }
  return place_by_probe(count, size);
}

bool map_is_valid(void) {
  for (size_t i = 0; i < WINDOW_COUNT; i++) {
    const char *window = (char *)(i << WINDOW_SHIFT);
    uintptr_t tenant = map_find(window);
    tenant_t kind = map_kind(tenant);
    bool has_record = kind == TENANT_ARENA || kind == TENANT_HUGE;
    HOLDS(W1, kind <= TENANT_HUGE && has_record == (map_record(tenant) != NULL));
    HOLDS(W1, kind != TENANT_ARENA || map_record(tenant) == window);
  }
  return true;
}
