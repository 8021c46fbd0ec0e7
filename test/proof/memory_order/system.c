/* system.c - the system under the code under test: mappings in a range that is there from the start
 *
 * Memory is mapped once; what a thread maps is then known to itself alone, until it
 * hands the address on. */
#define _GNU_SOURCE
#include "system.h"

#include <sys/mman.h>

#include "../../../src/base/check.h"
#include "../../../src/os/os.h"
#include "../../../src/os/container.h"
#include "../../../src/support/timing.h"
#include "../../../src/support/trace.h"
#include "../../../src/support/options.h"
#include "../../../src/heap/here.h"
#include "../../../src/stock/pool.h"
#include "checker.h"

/* as map.c begins here */
enum { FIRST_WINDOW = 4096, WINDOWS = 4, ELSEWHERE = FIRST_WINDOW + WINDOWS };

os_counts_t os_counts;
container_t container; /* there is none */
void container_look(uint32_t now_ms) { (void)now_ms; }
uint64_t container_memory(void) { return 0; }
uint64_t container_machine(void) { return 0; }
__thread uint32_t timing_marks;
atomic64_t option_values[OPTION_COUNT];
unsigned system_maps_that_fail;
bool system_refuses_last_page, system_has_users;
static size_t elsewhere_used;
static os_leave_t *leave_thread;

static void report(const char *what, const void *address, const char *call) {
  (void)address, (void)call;
  checker_fail(what);
}

static void *window(size_t number) { return (void *)(number << WINDOW_SHIFT); }

bool system_start(void) {
  size_t size = (WINDOWS + 1) * WINDOW_SIZE;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  if (mmap(window(FIRST_WINDOW), size, PROT_READ | PROT_WRITE, flags, -1, 0) !=
      window(FIRST_WINDOW))
    return false;
  check_set_reporter(report);
#define FALLBACK(name, type, fallback, ...)                                                        \
  option_values[OPTION_##name].value = (uint64_t)(fallback);
  FH_OPTIONS(FALLBACK)
  /* nothing is purged but where a scenario says so */
  option_values[OPTION_purge_delay_ms].value = (uint64_t)-1;
  checker_ignore(option_values, sizeof option_values);
  checker_ignore(&os_counts, sizeof os_counts);
  checker_ignore(&arena_counts, sizeof arena_counts);
  checker_ignore(&slab_counts, sizeof slab_counts);
  checker_ignore(&heap_counts, sizeof heap_counts);
  checker_ignore(&container, sizeof container);
  checker_ignore(&timing_marks, sizeof timing_marks);
  checker_thread_local(&heap_here, sizeof heap_here);
  checker_ignore(&slab_tally, sizeof slab_tally);
  checker_ignore(&slab_thread, sizeof slab_thread);
  return true;
}

void system_restart(void) {
  elsewhere_used = 0;
  system_maps_that_fail = 0;
  system_refuses_last_page = system_has_users = false;
}

static bool fails(void) {
  if (system_maps_that_fail == 0) return false;
  system_maps_that_fail--;
  return true;
}

size_t os_page_size(void) { return 4096; }

void *os_map(size_t size) {
  if (fails()) return NULL;
  void *at = (char *)window(ELSEWHERE) + elsewhere_used;
  elsewhere_used += align_up(size, WINDOW_SIZE / 64);
  checker_memory_changes(at, size);
  return at;
}

/* For the words of users alone; without them nobody asks whose thread has ended. */
void *os_map_unshared(size_t size) { return system_has_users ? os_map(size) : NULL; }
uint64_t os_thread(void) { return 0; }
/* Heaps are taken from sleeping threads only where the processor keeps the order. */
void sleepers_take_all(void) {}
void sleepers_look(void) {}
bool sleepers_leave(heap_t *h) { return (void)h, false; }
void sleepers_end_parents(void) {}
bool os_thread_has_ended(uint64_t thread, uint64_t caller) {
  (void)thread, (void)caller;
  return false;
}

os_map_result_t os_map_at(void *at, size_t size) {
  if (fails()) return OS_NO_MEMORY;
  if (at < window(FIRST_WINDOW) || (char *)at + size > (char *)window(ELSEWHERE))
    return OS_OCCUPIED;
  checker_memory_changes(at, size);
  return OS_MAPPED;
}

os_map_result_t os_reserve_at(void *at, size_t size) { return os_map_at(at, size); }
void *os_find(size_t size) { return (void)size, NULL; }

bool os_unmap(void *at, size_t size) {
  checker_memory_changes(at, size);
  return true;
}

bool os_discard(void *at, size_t size) {
  checker_memory_zeroed(at, system_refuses_last_page ? size - os_page_size() : size);
  return !system_refuses_last_page;
}

size_t os_ranges_at_once(void) { return OS_RANGES_MOST; }
size_t os_discard_some(const os_range_t *ranges, size_t n) {
  size_t gone = 0;
  while (gone < n && os_discard(ranges[gone].at, ranges[gone].size)) gone++;
  return gone;
}

void os_thread_set_leave(os_leave_t *leave) { leave_thread = leave; }
void os_on_fork(void (*child)(void)) { (void)child; }
void os_begin_in_child(bool is_watched) { (void)is_watched; }
bool os_thread_watch(void *heap) {
  (void)heap;
  return true;
}
void system_end_thread(void) {
  heap_t *h = heap_of_thread();
  if (h != NULL) leave_thread(h);
}

bool os_move(void *from, size_t old_size, void *to, size_t new_size) {
  (void)from, (void)old_size, (void)to, (void)new_size;
  return false;
}
bool os_resize(void *at, size_t old_size, size_t new_size) {
  (void)at, (void)old_size, (void)new_size;
  return false;
}
bool os_is_one_mapping(void *at, size_t size) { return (void)at, (void)size, true; }
bool os_collapse(void *at, size_t size) { return (void)at, (void)size, true; }
bool os_is_private(const void *at, size_t size) { return (void)at, (void)size, true; }
bool os_has_huge_pages(void) { return true; }
size_t os_huge_resident(const void *at, size_t size) { return (void)at, (void)size, 0; }
bool os_is_space_limited(void) { return true; }
size_t os_resident(const void *at, size_t size) { return (void)at, (void)size, 0; }
void os_usage(os_usage_t *usage) { *usage = (os_usage_t){0}; }
uint64_t os_random(void) { return 1; }
uint64_t os_now_ns(void) { return 0; }
uint64_t os_spent_ns(void) { return 0; }
bool os_protect(void *at, size_t size, bool is_open) {
  (void)at, (void)size, (void)is_open;
  return true;
}
bool os_populate(void *at, size_t size) {
  (void)at, (void)size;
  return false;
}
bool os_map_huge(void *at, size_t size, size_t page, int node) {
  return (void)at, (void)size, (void)page, (void)node, false;
}
bool os_thread_start(void (*run)(void)) {
  (void)run;
  return false;
}
void os_sleep_ms(uint32_t ms) { (void)ms; }
void os_advise_huge(void *at, size_t size, bool huge) { (void)at, (void)size, (void)huge; }
uint32_t os_now_ms(void) { return 0; }
size_t os_processors(void) { return 2; }
void trace_leave(void) {} /* nothing is traced here */
void trace_drop_stale(void) {}
uintptr_t os_space_start(void) { return GiB(FIRST_WINDOW); }
uintptr_t os_space_end(void) { return GiB(ELSEWHERE); }
unsigned os_backtrace(uintptr_t *frames, unsigned most, bool by_tables) {
  return (void)frames, (void)most, (void)by_tables, 0;
}
void os_abort(void) { __builtin_trap(); }
