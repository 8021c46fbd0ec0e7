/* os_fake.c - a system for unit tests: deterministic, every call can be made to fail
 * Contract: src/os/os.h; os_fake.h says what tests control.
 * Owns:    192 windows of address space, of 32 bits 8, of which each is reserved when it is first
 *          needed, and each unit of 4 KiB is mapped or not.
 * Called by: every layer above os.   Calls: the kernel, by libc.
 * Threads: any; a mutex orders them, for this is no allocator's business. A call that the contract
 *          forbids (no multiple of the page size, giving back what is not mapped) aborts. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "os_fake.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../src/base/bits.h"
#include "../../src/os/container.h"

/* The space lies below where programs do, and in no sanitizer's shadow memory; of 32 bits between
 * the program and its libraries. */
#if UINTPTR_MAX > UINT32_MAX
enum { UNIT = 4096, FIRST_WINDOW = 0x15400, WINDOWS = 192 };
#else
enum { UNIT = 4096, FIRST_WINDOW = 6, WINDOWS = 8 };
#endif
#define SPACE ((char *)((size_t)FIRST_WINDOW << WINDOW_SHIFT))
#define SPACE_SIZE ((size_t)WINDOWS << WINDOW_SHIFT)
#define UNITS (SPACE_SIZE / UNIT)

#if !defined(__linux__) /* elsewhere one file has these and functions that are below */
container_t container;
void container_look(uint32_t now_ms) { (void)now_ms; }
uint64_t container_machine(void) { return os_fake.memory; }
uint64_t container_memory(void) { return os_fake.memory; }
#endif

os_counts_t os_counts;
os_fake_t os_fake = {.page_size = 4096,
                     .now_ms = 1000,
                     .most_mapped = SPACE_SIZE,
                     .windows = WINDOWS,
                     .processors = 2,
                     .discards_many = true};

/* The size of the system's pages, if tests are to run with another. */
__attribute__((constructor)) static void choose_page(void) {
  const char *page = getenv("FREEHOLD_FAKE_PAGE");
  if (page != NULL) os_fake.page_size = strtoul(page, NULL, 10);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint8_t is_mapped[UNITS];
static bool is_reserved[WINDOWS];

_Noreturn static void misuse(const char *what, const void *at, size_t size) {
  fprintf(stderr, "the system was misused: %s: %p, %zu bytes (%m)\n", what, at, size);
  abort();
}

/* ---- the address space ----------------------------------------------------------------------- */

static size_t unit_of(const void *at) { return (size_t)((const char *)at - SPACE) / UNIT; }
static size_t space_size(void) { return os_fake.windows << WINDOW_SHIFT; }
static bool is_inside(const void *at, size_t size) {
  return (const char *)at >= SPACE && size <= space_size() &&
         (size_t)((const char *)at - SPACE) <= space_size() - size;
}

/* Window by window: an emulator notes each page that is reserved. */
static void reserve(void *at, size_t size) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  size_t offset = (size_t)((char *)at - SPACE);
  for (size_t i = offset >> WINDOW_SHIFT; i <= (offset + size - 1) >> WINDOW_SHIFT; i++) {
    char *window = SPACE + (i << WINDOW_SHIFT);
    if (is_reserved[i]) continue;
    void *got = mmap(window, WINDOW_SIZE, PROT_NONE, flags, -1, 0);
    if (got != window) misuse("its address space is not to be had", got, WINDOW_SIZE);
    is_reserved[i] = true;
  }
}

static size_t count_mapped(const void *at, size_t size) {
  size_t first = unit_of(at), count = 0;
  for (size_t i = 0; i < size / UNIT; i++) count += is_mapped[first + i];
  return count;
}

static bool is_at(const void *at, size_t size) {
  return is_inside(at, size) && count_mapped(at, size) == size / UNIT;
}

/* Pieces change by what the neighbours of a range are. */
static size_t neighbours(const void *at, size_t size) {
  size_t first = unit_of(at), end = first + size / UNIT;
  return (first > 0 && is_mapped[first - 1]) + (end < UNITS && is_mapped[end]);
}

static void put_range(void *at, size_t size) {
  reserve(at, size);
  os_fake.mappings += 1 - neighbours(at, size);
  memset(&is_mapped[unit_of(at)], 1, size / UNIT);
  os_fake.mapped += size;
  if (mprotect(at, size, PROT_READ | PROT_WRITE) != 0) misuse("mprotect", at, size);
}

static void drop_range(void *at, size_t size) {
  if (!is_at(at, size)) misuse("not mapped", at, size);
  memset(&is_mapped[unit_of(at)], 0, size / UNIT);
  os_fake.mappings += neighbours(at, size) - 1;
  os_fake.mapped -= size;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(at, size, PROT_NONE, flags, -1, 0) != at) misuse("mmap", at, size);
}

/* Where the units that are mapped, or those that are not, come to an end. */
static char *end_of_run(char *at, char *end) {
  const uint8_t *first = &is_mapped[unit_of(at)];
  const uint8_t *other = memchr(first, !*first, (size_t)(end - at) / UNIT);
  return other == NULL ? end : at + (size_t)(other - first) * UNIT;
}

/* What is mapped of a range goes. */
static void drop_mapped(char *at, size_t size) {
  for (char *end = at + size, *next; at < end; at = next) {
    next = end_of_run(at, end);
    if (is_mapped[unit_of(at)]) drop_range(at, (size_t)(next - at));
  }
}

static void check_range(const void *at, size_t size) {
  if (size == 0 || ((uintptr_t)at | size) % os_fake.page_size != 0)
    misuse("no multiple of the page size", at, size);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Counts a call; false if it is to fail. Holds the mutex when it returns. */
static bool start_call(os_fake_call_t call, atomic64_t *count, const void *at, size_t size) {
  check_range(at, size);
  if (os_fake.before != NULL) os_fake.before(call, (void *)(uintptr_t)at, size);
  pthread_mutex_lock(&mutex);
  os_fake.calls[call]++;
  atomic64_add_relaxed(count, 1);
  if (os_fake.fail_at == 0 || (os_fake.fail_calls >> call & 1) == 0) return true;
  if (os_fake.fail_at > 1) {
    os_fake.fail_at--;
    return true;
  }
  if (!os_fake.fail_on) os_fake.fail_at = 0;
  return false;
}

static bool end_call(bool good) {
  pthread_mutex_unlock(&mutex);
  if (!good) atomic64_add_relaxed(&os_counts.failures, 1);
  return good;
}

static bool has_room(size_t more) {
  return more <= os_fake.most_mapped && os_fake.mapped <= os_fake.most_mapped - more;
}

void os_fake_fail(uint32_t calls, uint64_t at, bool and_all_after) {
  pthread_mutex_lock(&mutex);
  os_fake.fail_calls = calls;
  os_fake.fail_at = at;
  os_fake.fail_on = and_all_after;
  pthread_mutex_unlock(&mutex);
}

bool os_fake_is_mapped(const void *at, size_t size) { return is_at(at, size); }

void os_fake_take(void *at, size_t size) {
  if (!is_inside(at, size) || count_mapped(at, size) != 0) misuse("not free", at, size);
  put_range(at, size);
}

/* ---- os.h: memory ---------------------------------------------------------------------------- */

size_t os_page_size(void) { return os_fake.page_size; }

/* Near the end of the space, as a kernel does: the highest place that is free. */
static char *highest_place(size_t size) {
  for (char *end = SPACE + space_size(); (size_t)(end - SPACE) >= size;) {
    const uint8_t *taken = memchr(&is_mapped[unit_of(end - size)], 1, size / UNIT);
    if (taken == NULL) return end - size;
    end = SPACE + align_down((size_t)(taken - is_mapped) * UNIT, os_fake.page_size);
  }
  return NULL;
}

void *os_map(size_t size) {
  size = align_up(size, os_fake.page_size);
  bool good = start_call(OS_FAKE_MAP, &os_counts.maps, SPACE, size);
  good = good && has_room(size);
  char *at = good ? highest_place(size) : NULL;
  if (at != NULL) put_range(at, size);
  return end_call(at != NULL) ? at : NULL;
}

void *os_map_unshared(size_t size) {
  void *at = os_fake.no_unshared ? NULL : os_map(size);
  if (at != NULL) madvise(at, size, MADV_WIPEONFORK);
  return at;
}
bool os_seal(void *at, size_t size, bool is_sealed) {
  return mprotect(at, size, is_sealed ? PROT_READ : PROT_READ | PROT_WRITE) == 0;
}

os_map_result_t os_map_at(void *at, size_t size) {
  bool good = start_call(OS_FAKE_MAP_AT, &os_counts.maps, at, size);
  good = good && is_inside(at, size) && has_room(size);
  bool is_taken = good && count_mapped(at, size) != 0;
  if (good && !is_taken) put_range(at, size);
  end_call(good && !is_taken);
  return is_taken ? OS_OCCUPIED : good ? OS_MAPPED : OS_NO_MEMORY;
}

os_map_result_t os_reserve_at(void *at, size_t size) {
  os_map_result_t result = os_map_at(at, size);
  if (result == OS_MAPPED && mprotect(at, size, PROT_NONE) != 0) misuse("mprotect", at, size);
  return result;
}

void *os_find(size_t size) {
  bool good = start_call(OS_FAKE_FIND, &os_counts.maps, SPACE, size);
  char *at = good && has_room(size) ? highest_place(size) : NULL;
  return end_call(at != NULL) ? at : NULL;
}

bool os_unmap(void *at, size_t size) {
  size = align_up(size, os_fake.page_size);
  bool good = start_call(OS_FAKE_UNMAP, &os_counts.unmaps, at, size);
  if (good) drop_range(at, size);
  end_call(good);
  return good;
}

/* Copies the units that are in memory; the others read as zero on both sides. */
static void copy_resident(char *to, char *from, size_t size) {
  unsigned char is_there[512];
  for (size_t done = 0; done < size; done += UNIT * sizeof is_there) {
    size_t part = min_size(size - done, UNIT * sizeof is_there);
    if (mincore(from + done, part, is_there) != 0) misuse("mincore", from + done, part);
    for (size_t at = 0; at < part; at += UNIT)
      if ((is_there[at / UNIT] & 1) != 0) memcpy(to + done + at, from + done + at, UNIT);
  }
}

static bool is_divided(const void *at, size_t size) {
  return os_fake.divided_at > at && (char *)os_fake.divided_at < (const char *)at + size;
}

bool os_is_one_mapping(void *at, size_t size) {
  check_range(at, size);
  return is_at(at, size) && !is_divided(at, size);
}

/* Like mremap to a fixed place, whatever is mapped there goes. */
static void move_range(void *from, size_t old_size, void *to, size_t new_size) {
  drop_mapped(to, new_size);
  put_range(to, new_size);
  copy_resident(to, from, min_size(old_size, new_size));
  drop_range(from, old_size);
}

/* Of two mappings the first one moves, if they are not to become larger; the call fails. */
bool os_move(void *from, size_t old_size, void *to, size_t new_size) {
  check_range(to, new_size);
  bool good = start_call(OS_FAKE_MOVE, &os_counts.remaps, from, old_size);
  if (!is_at(from, old_size)) misuse("moved, not mapped", from, old_size);
  good = good && is_inside(to, new_size) && (new_size <= old_size || has_room(new_size - old_size));
  bool is_whole = !is_divided(from, old_size);
  size_t first = is_whole ? old_size : (size_t)((char *)os_fake.divided_at - (char *)from);
  if (good && is_whole) move_range(from, old_size, to, new_size);
  if (good && !is_whole && old_size == new_size) move_range(from, first, to, first);
  return end_call(good && is_whole);
}

bool os_resize(void *at, size_t old_size, size_t new_size) {
  check_range(at, old_size);
  bool good = start_call(OS_FAKE_RESIZE, &os_counts.remaps, at, new_size);
  char *old_end = (char *)at + old_size, *new_end = (char *)at + new_size;
  if (!is_at(at, old_size)) misuse("resized, not mapped", at, old_size);
  if (new_size > old_size)
    good = good && !is_divided(at, old_size) && is_inside(at, new_size) &&
           count_mapped(old_end, new_size - old_size) == 0 && has_room(new_size - old_size);
  if (good && new_size > old_size) put_range(old_end, new_size - old_size);
  if (good && new_size < old_size) drop_range(new_end, old_size - new_size);
  return end_call(good);
}

bool os_discard(void *at, size_t size) {
  bool good = start_call(OS_FAKE_DISCARD, &os_counts.advices, at, size);
  if (!is_at(at, size)) misuse("discarded, not mapped", at, size);
  size_t done = good ? size : os_fake.fail_half ? align_down(size / 2, os_fake.page_size) : 0;
  if (done != 0 && madvise(at, done, MADV_DONTNEED) != 0) misuse("madvise", at, size);
  return end_call(good);
}

size_t os_ranges_at_once(void) { return os_fake.discards_many ? OS_RANGES_MOST : 1; }
size_t os_discard_some(const os_range_t *ranges, size_t n) {
  size_t gone = 0, most = min_size(n, os_ranges_at_once());
  while (gone < most && os_discard(ranges[gone].at, ranges[gone].size)) gone++;
  return gone;
}

bool os_protect(void *at, size_t size, bool is_open) {
  bool good = start_call(OS_FAKE_PROTECT, &os_counts.advices, at, size);
  if (!is_at(at, size)) misuse("protected, not mapped", at, size);
  int protection = is_open ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (good && mprotect(at, size, protection) != 0) misuse("mprotect", at, size);
  return end_call(good);
}

bool os_populate(void *at, size_t size) {
  bool good = start_call(OS_FAKE_POPULATE, &os_counts.advices, at, size);
  if (!is_at(at, size)) misuse("populated, not mapped", at, size);
  if (os_fake.populate_ms != 0) os_fake.now_ms += os_fake.populate_ms;
  return end_call(good);
}

/* So many pages of these are set aside, and are no more. */
static bool draw_pages(size_t *pages, size_t nodes, size_t n) {
  size_t there = 0;
  for (size_t i = 0; i < nodes; i++) there += pages[i];
  for (size_t i = 0; i < nodes && there >= n; i++)
    for (; n != 0 && pages[i] != 0; n--, there--) pages[i]--;
  return n == 0;
}

bool os_map_huge(void *at, size_t size, size_t page, int node) {
  bool good = start_call(OS_FAKE_MAP_HUGE, &os_counts.maps, at, size);
  if (!is_at(at, size) || ((uintptr_t)at | size) % page != 0) misuse("no such place", at, size);
  if (good && page == WINDOW_SIZE) good = draw_pages(&os_fake.large_pages, 1, size / page);
  else if (good && node >= 4) good = false;
  else if (good && node >= 0) good = draw_pages(&os_fake.huge_pages[node], 1, size / page);
  else if (good) good = draw_pages(os_fake.huge_pages, 4, size / page);
  if (good && mprotect(at, size, PROT_READ | PROT_WRITE) != 0) misuse("mprotect", at, size);
  return end_call(good);
}

void os_advise_huge(void *at, size_t size, bool huge) {
  (void)huge;
  bool good = start_call(OS_FAKE_ADVISE_HUGE, &os_counts.advices, at, size);
  if (!is_at(at, size)) misuse("advised, not mapped", at, size);
  end_call(good);
}

bool os_collapse(void *at, size_t size) {
  bool good = start_call(OS_FAKE_COLLAPSE, &os_counts.advices, at, size);
  if (!is_at(at, size)) misuse("collapsed, not mapped", at, size);
  os_fake.now_ms += os_fake.collapse_ms + os_fake.collapse_waits_ms;
  os_fake.waited_ms += os_fake.collapse_waits_ms;
  good = end_call(good);
  if (os_fake.collapsed != NULL) os_fake.collapsed(at);
  return good;
}
bool os_is_private(const void *at, size_t size) {
  return !os_fake.is_shared && os_resident(at, size) == size;
}
size_t os_huge_setting(char word[OS_HUGE_SETTING]) { return (void)word, 0; }
bool os_has_huge_pages(void) { return !os_fake.no_huge_pages; }
size_t os_huge_resident(const void *at, size_t size) { return (void)at, (void)size, 0; }

bool os_is_space_limited(void) { return os_fake.most_mapped < SPACE_SIZE; }
uint64_t os_memory(void) { return os_fake.memory; }
size_t os_processors(void) { return os_fake.processors; }

size_t os_resident(const void *at, size_t size) {
  unsigned char pages[512];
  size_t resident = 0;
  if (!is_inside(at, size)) return 0;
  for (size_t done = 0; done < size; done += min_size(size - done, UNIT * sizeof pages)) {
    size_t part = min_size(size - done, UNIT * sizeof pages);
    if (mincore((char *)(uintptr_t)at + done, part, pages) != 0) continue;
    for (size_t i = 0; i < part / UNIT; i++) resident += (pages[i] & 1) * (size_t)UNIT;
  }
  return resident;
}

void os_zero(void *at, size_t size) {
  if (!os_discard(at, size)) memset(at, 0, size);
}

static bool is_readable(const void *at, size_t size) {
  uintptr_t first = align_down((uintptr_t)at, UNIT);
  return is_at((void *)first, align_up((uintptr_t)at + size - first, UNIT));
}

/* The system's read, which is no access of the program's. */
__attribute__((no_sanitize("thread"))) bool os_copy(void *to, const void *from, size_t size) {
  if (is_inside(from, 1) && !is_readable(from, size)) return false;
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const volatile char *)from)[i];
  return true;
}

bool os_is_there(const void *word) {
  return !is_inside(word, 1) || is_readable(word, sizeof(uintptr_t));
}

bool os_break_range(uintptr_t *from, uintptr_t *to) {
  *from = *to = 0;
  return false;
}

/* ---- os.h: time, chance, threads ------------------------------------------------------------- */

static __thread void *watched;
static atomic_ptr_t thread_leave; /* relaxed: the same function each time */

uint32_t os_now_ms(void) {
  atomic32_add_relaxed(&os_fake.clock_reads, 1);
  return os_fake.now_ms;
}
uint64_t os_now_ns(void) {
  if (os_fake.at_fine_clock != NULL) os_fake.at_fine_clock();
  return (uint64_t)os_fake.now_ms * 1000000;
}
uint64_t os_spent_ns(void) { return os_now_ns() - (uint64_t)os_fake.waited_ms * 1000000; }
void os_usage(os_usage_t *usage) { *usage = os_fake.usage; }
uint64_t os_random(void) {
  static atomic64_t drawn;
  if (!os_fake.is_random) return 1;
  return bits_mix((uint64_t)getpid() << 32 | atomic64_add_relaxed(&drawn, 1));
}
uintptr_t os_space_start(void) { return (uintptr_t)SPACE; }
uintptr_t os_space_end(void) { return (uintptr_t)SPACE + space_size(); }

void os_thread_set_leave(os_leave_t *leave) {
  atomic_ptr_store_relaxed(&thread_leave, (void *)leave);
}

void os_on_fork(void (*child)(void)) { (void)child; }

bool os_thread_watch(void *heap) {
  if (os_fake.no_watch) return false;
  watched = heap;
  return true;
}

void os_fake_end_thread(void) {
  void *heap = watched;
  watched = NULL;
  if (heap != NULL) ((os_leave_t *)atomic_ptr_load_relaxed(&thread_leave))(heap);
}

uint64_t os_thread(void) {
  static atomic64_t last;
  static __thread uint64_t number;
  if (number == 0) number = atomic64_add_relaxed(&last, 1) + 1;
  return os_fake.thread != 0 ? os_fake.thread : number;
}

bool os_thread_has_ended(uint64_t thread, uint64_t caller) {
  atomic32_add_relaxed(&os_fake.looks, 1);
  return thread != 0 && caller != 0 && os_fake.has_ended != NULL && os_fake.has_ended(thread);
}

bool os_fence_threads(void) {
  if (os_fake.at_fence == NULL) return false;
  syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) abort();
  return os_fake.at_fence(++os_fake.fences);
}
uint64_t os_hold_signals(void) { return 0; }
void os_release_signals(uint64_t before) { (void)before; }
bool os_thread_is_asleep(uint32_t number) { return number != os_fake.awake; }
void os_begin_in_child(bool is_watched) { (void)is_watched; }
uint64_t os_thread_spent_ns(uint32_t number) {
  return os_fake.spent_ns != NULL ? os_fake.spent_ns(number) : 0;
}

bool os_thread_start(void (*run)(void)) {
  os_fake.started = run;
  return !os_fake.no_threads;
}

void os_sleep_ms(uint32_t ms) {
  os_fake.now_ms += ms;
  if (os_fake.sleep != NULL) os_fake.sleep(ms);
}

/* ---- os.h: call stacks and images ------------------------------------------------------------ */

void os_backtrace_start(void) {}

unsigned os_backtrace(uintptr_t *frames, unsigned most, bool by_tables) {
  (void)by_tables;
  unsigned count = (unsigned)min_size(os_fake.frame_count, most);
  for (unsigned i = 0; i < count; i++) frames[i] = os_fake.frames[i];
  return count;
}

void os_each_image(char text[OS_IMAGES_TEXT], os_image_visitor_t *visitor, void *context) {
  (void)text;
  if (os_fake.image.path != NULL) visitor(&os_fake.image, context);
}

/* ---- os.h: environment and messages: there is none but standard error ------------------------ */

const char *os_environment(const char *name) { return getenv(name); }
bool os_is_raised(void) { return os_fake.is_raised; }
size_t os_read_link(const char *path, char *text, size_t size) {
  size_t length = os_fake.link != NULL ? strlen(os_fake.link) : 0;
  (void)path;
  if (length > size) length = size;
  if (length != 0) memcpy(text, os_fake.link, length);
  return length;
}
int os_duplicate(int file, int least) { return (void)file, (void)least, -1; }
static void meet_file(void) {
  if (os_fake.at_file != NULL) os_fake.at_file();
}
uint64_t os_file_identity(int file) {
  meet_file();
  return (uint64_t)file + 1;
}

bool os_write(int file, const char *text, size_t length) {
  return write(file, text, length) == (ssize_t)length;
}
/* What the system tells of itself is what the test says; the rest are files. */
int os_open(const char *path) {
  if (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0)
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const char *text = os_fake.file != NULL ? os_fake.file(path) : NULL;
  int file = text != NULL ? memfd_create("file", MFD_CLOEXEC) : -1;
  if (file < 0) return -1;
  if (write(file, text, strlen(text)) < 0) misuse("memfd", NULL, 0);
  lseek(file, 0, SEEK_SET);
  return file;
}
int os_create(const char *path) { return open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600); }
size_t os_read(int file, char *text, size_t size) {
  ssize_t got = read(file, text, size);
  return got > 0 ? (size_t)got : 0;
}
int os_append(const char *path) { return open(path, O_WRONLY | O_APPEND | O_CLOEXEC); }
int os_create_shared(const char *path) {
  meet_file();
  return open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
}
int os_open_shared(const char *path) { return open(path, O_RDWR); }
void *os_map_file(int file, uint64_t offset, size_t size) {
  meet_file();
  if (os_fake.no_room_in_file) return NULL;
  if (posix_fallocate(file, (off_t)offset, (off_t)size) != 0) return NULL;
  void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)offset);
  return at == MAP_FAILED ? NULL : at;
}
void os_unmap_file(void *at, size_t size) {
  meet_file();
  munmap(at, size);
}
bool os_is_special(const char *path) {
  struct stat about;
  return stat(path, &about) == 0 && !S_ISREG(about.st_mode);
}
void os_close(int file) { close(file); }
bool os_rename(const char *from, const char *to) { return rename(from, to) == 0; }
void os_remove(const char *path) { unlink(path); }
uint32_t os_process(void) { return (uint32_t)getpid(); }
bool os_on_signal(int number, void (*handler)(int number)) {
  return signal(number, handler) != SIG_ERR;
}

bool os_on_fault(os_fault_t *handler) { return (void)handler, true; }

_Noreturn void os_abort(void) { abort(); }
