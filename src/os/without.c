/* without.c - answers where a system lacks something                                    layer 1: os
 * Contract: os.h, container.h. Each group is under the names of the systems that lack it; their
 * ports do not have these functions. */
#if defined(_WIN32) || defined(__FreeBSD__) || defined(__APPLE__)
#include "../base/layout.h"
#include "container.h"
#include "os.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Pages cannot move: os_is_one_mapping says so, and callers copy instead. */
bool os_move(void *from, size_t old_size, void *to, size_t new_size) { return false; }
bool os_is_one_mapping(void *at, size_t size) { return false; }
bool os_break_range(uintptr_t *from, uintptr_t *to) { return *from = *to = 0, false; }

/* No call takes several ranges. */
size_t os_ranges_at_once(void) { return 1; }
size_t os_discard_some(const os_range_t *ranges, size_t n) {
  return os_discard(ranges->at, ranges->size);
}

/* No call makes pages present or huge. os_zero gives up the pages in memory as well. */
bool os_populate(void *at, size_t size) { return false; }
bool os_map_huge(void *at, size_t size, size_t page, int node) { return false; }
void os_advise_huge(void *at, size_t size, bool huge) {}
bool os_collapse(void *at, size_t size) { return false; }
size_t os_huge_setting(char word[OS_HUGE_SETTING]) { return 0; }
bool os_has_huge_pages(void) { return false; }
bool os_is_private(const void *at, size_t size) { return false; }
size_t os_huge_resident(const void *at, size_t size) { return 0; }
void os_zero(void *at, size_t size) {
  if (!os_discard(at, size)) memset(at, 0, size);
}

/* Call stacks and images cannot be read. */
void os_backtrace_start(void) {}
unsigned os_backtrace(uintptr_t *frames, unsigned most, bool by_tables) { return 0; }
void os_each_image(char text[OS_IMAGES_TEXT], os_image_visitor_t *visitor, void *context) {}

/* No trace files: a trace can be kept in memory (option trace_ring). */
int os_create_shared(const char *path) { return -1; }
int os_open_shared(const char *path) { return -1; }
void *os_map_file(int file, uint64_t offset, size_t size) { return NULL; }
void os_unmap_file(void *at, size_t size) {}

/* No fence for all threads, and so no code that must not be interrupted. */
bool os_fence_threads(void) { return false; }
uint64_t os_hold_signals(void) { return 0; }
void os_release_signals(uint64_t before) {}
uint64_t os_thread_spent_ns(uint32_t number) { return 0; }
bool os_thread_is_asleep(uint32_t number) { return false; }
void os_begin_in_child(bool is_watched) {}

/* No container: percentages are of the machine's memory, and cost no system call each. */
container_t container;
LAYOUT_VARIABLE(container);
static atomic64_t machine; /* bytes; relaxed: a hint */
void container_look(uint32_t now_ms) { atomic64_store_relaxed(&machine, os_memory()); }
uint64_t container_machine(void) {
  if (atomic64_load_relaxed(&machine) == 0) container_look(0);
  return atomic64_load_relaxed(&machine);
}
uint64_t container_memory(void) { return container_machine(); }

#if defined(_WIN32)
/* No signals to ask for statistics, no raised privileges, no links. No file number is kept for the
 * end: a program that closes its standard error gets no statistics then. */
bool os_on_signal(int number, void (*handler)(int number)) { return false; }
bool os_is_raised(void) { return false; }
bool os_is_special(const char *path) { return false; }
size_t os_read_link(const char *path, char *text, size_t size) { return 0; }
int os_duplicate(int file, int least) { return -1; }
#else
/* The system reports accesses that a guard caught, without a line of ours. */
bool os_on_fault(os_fault_t *handler) { return false; }
#endif

#if !defined(__FreeBSD__)
/* No call that only checks: a copy has to do. */
bool os_is_there(const void *word) {
  uintptr_t copy;
  return os_copy(&copy, word, sizeof copy);
}
#endif

#if defined(__APPLE__)
/* No memory that a child finds zero, and no way to ask about a thread by its number. */
void *os_map_unshared(size_t size) { return NULL; }
bool os_thread_has_ended(uint64_t thread, uint64_t caller) { return false; }
#endif

#pragma GCC diagnostic pop
#endif
