/* os_windows.c - Windows, 64 bits of x86                                                layer 1: os
 * Contract: os.h. Instead of errno it leaves the thread's last error alone, but where it opens,
 * renames or removes files.
 *
 * Windows knows memory in two steps: addresses are reserved, and pages of them committed. What is
 * committed counts against what the machine has, touched or not. A reservation goes as a whole.
 * So os_map_at reserves whole windows, all of them the caller's, and commits what it is asked for.
 * os_unmap takes a window's pages, and the window itself when it is given its start. There is
 * neither fork nor mremap, and no page is shared unasked. */
#if defined(_WIN32)
#include "../base/bits.h"
#include "../base/check.h"
#include "../base/layout.h"
#include "../base/probe.h"
#include "nt.h"
#include "os.h"

os_counts_t os_counts;
LAYOUT_VARIABLE(os_counts);

/* ---- memory ---------------------------------------------------------------------------------- */

enum { SYSTEM_PAGE = 4096 };
size_t os_page_size(void) { return SYSTEM_PAGE; }

static bool are_pages(const void *at, size_t size) {
  return (((uintptr_t)at | size) & (SYSTEM_PAGE - 1)) == 0;
}

static bool succeeded(atomic64_t *count, int32_t status) {
  if (COUNTED) atomic64_add_relaxed(count, 1);
  if (status >= 0) return true;
  atomic64_add_relaxed(&os_counts.failures, 1);
  return false;
}

static int32_t page_allocate(void **at, size_t size, uint32_t how, uint32_t protection) {
  return NtAllocateVirtualMemory(NT_SELF, at, 0, &size, how, protection);
}
static int32_t page_release(void *at) {
  size_t all = 0;
  return NtFreeVirtualMemory(NT_SELF, &at, &all, MEM_RELEASE);
}
static int32_t page_decommit(void *at, size_t size) {
  return NtFreeVirtualMemory(NT_SELF, &at, &size, MEM_DECOMMIT);
}
static int32_t page_protect(void *at, size_t size, uint32_t protection) {
  uint32_t before;
  return NtProtectVirtualMemory(NT_SELF, &at, &size, protection, &before);
}

void *os_map(size_t size) {
  void *at = NULL;
  ASSERT(are_pages(NULL, size));
  int32_t status = page_allocate(&at, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  return succeeded(&os_counts.maps, status) ? at : NULL;
}
void *os_map_unshared(size_t size) { return os_map(size); }

static os_map_result_t result_of(int32_t status) {
  if (succeeded(&os_counts.maps, status)) return OS_MAPPED;
  return status == STATUS_CONFLICTING_ADDRESSES ? OS_TAKEN : OS_NO_MEMORY;
}

static bool begins_window(const void *at) { return (uintptr_t)at % WINDOW_SIZE == 0; }

os_map_result_t os_reserve_at(void *at, size_t size) {
  ASSERT(are_pages(at, size));
  if (begins_window(at)) size = align_up(size, WINDOW_SIZE);
  return result_of(page_allocate(&at, size, MEM_RESERVE, PAGE_READWRITE));
}

/* Where no window begins the caller has mapped what lies before, so the window is reserved. */
os_map_result_t os_map_at(void *at, size_t size) {
  ASSERT(are_pages(at, size));
  if (begins_window(at)) {
    os_map_result_t result = os_reserve_at(at, size);
    if (result != OS_MAPPED) return result;
  }
  os_map_result_t result = result_of(page_allocate(&at, size, MEM_COMMIT, PAGE_READWRITE));
  if (result == OS_MAPPED) probe_grow(at, size);
  else if (begins_window(at)) page_release(at);
  return result;
}

void *os_find(size_t size) {
  void *at = NULL;
  if (!succeeded(&os_counts.maps, page_allocate(&at, size, MEM_RESERVE, PAGE_NOACCESS)))
    return NULL;
  page_release(at);
  return at;
}

/* Never in parts that are several reservations, but a huge block may be: it has grown into the next
 * windows. What is left of one reservation can be mapped again by who has the rest. */
bool os_unmap(void *at, size_t size) {
  ASSERT(are_pages(at, size));
  char *from = at, *end = from + size;
  while (from < end) { /* Bound: the windows */
    void *base = from;
    size_t all = 0;
    if (NtFreeVirtualMemory(NT_SELF, &base, &all, MEM_RELEASE) < 0) break;
    from += all;
  }
  bool is_left = from < end;
  return succeeded(&os_counts.unmaps, is_left ? page_decommit(from, (size_t)(end - from)) : 0);
}

/* Pages cannot move: os_is_one_mapping says so, and what wants to move is copied. */
bool os_move(void *from, size_t old_size, void *to, size_t new_size) {
  return (void)from, (void)old_size, (void)to, (void)new_size, false;
}
bool os_is_one_mapping(void *at, size_t size) { return (void)at, (void)size, false; }

/* Not into the next window, which may be somebody else's. */
bool os_resize(void *at, size_t old_size, size_t new_size) {
  ASSERT(are_pages(at, old_size | new_size));
  char *end = (char *)at + old_size;
  if (new_size < old_size)
    return succeeded(&os_counts.remaps,
                     page_decommit(end - (old_size - new_size), old_size - new_size));
  void *more = end;
  return !begins_window(end) &&
         succeeded(&os_counts.remaps,
                   page_allocate(&more, new_size - old_size, MEM_COMMIT, PAGE_READWRITE));
}

/* Pages go by being committed no more, and are committed anew. In between others may take what the
 * machine has: so as much is had before, and given up if it must be. What is closed stays so, and
 * is committed when it is opened. */
bool os_discard(void *at, size_t size) {
  void *spare = NULL;
  nt_region_t region;
  probe_purge(at, size);
  if (NtQueryVirtualMemory(NT_SELF, at, NT_REGION, &region, sizeof region, NULL) < 0) return false;
  if (region.state != MEM_COMMIT || region.protection == PAGE_NOACCESS)
    return succeeded(&os_counts.advices, page_decommit(at, size));
  if (!succeeded(&os_counts.advices,
                 page_allocate(&spare, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE)))
    return false;
  bool is_gone = page_decommit(at, size) >= 0;
  bool is_back = !is_gone || page_allocate(&at, size, MEM_COMMIT, region.protection) >= 0;
  page_release(spare);
  if (!is_back && page_allocate(&at, size, MEM_COMMIT, region.protection) < 0)
    fatal("pages that went back to the system cannot be had again", at, "VirtualAlloc");
  return is_gone;
}

bool os_protect(void *at, size_t size, bool is_open) {
  void *pages = at;
  int32_t status = is_open ? page_allocate(&pages, size, MEM_COMMIT, PAGE_READWRITE) : 0;
  if (status >= 0) status = page_protect(at, size, is_open ? PAGE_READWRITE : PAGE_NOACCESS);
  return succeeded(&os_counts.advices, status);
}
bool os_seal(void *at, size_t size, bool is_sealed) {
  return succeeded(&os_counts.advices,
                   page_protect(at, size, is_sealed ? PAGE_READONLY : PAGE_READWRITE));
}

/* No call makes pages present, and none makes huge ones of small ones. */
bool os_populate(void *at, size_t size) { return (void)at, (void)size, false; }
void os_advise_huge(void *at, size_t size, bool huge) { (void)at, (void)size, (void)huge; }
bool os_collapse(void *at, size_t size) { return (void)at, (void)size, false; }
size_t os_huge_setting(char word[OS_HUGE_SETTING]) { return (void)word, 0; }
bool os_has_huge_pages(void) { return false; }
bool os_is_private(const void *at, size_t size) { return (void)at, (void)size, false; }
size_t os_huge_resident(const void *at, size_t size) { return (void)at, (void)size, 0; }

/* Of committed pages. */
static size_t count_resident(const char *from, size_t size) {
  enum { PAGES = 128 };
  nt_page_t pages[PAGES];
  size_t resident = 0;
  for (size_t done = 0, n; done < size; done += n * SYSTEM_PAGE) { /* Bound: `size` */
    n = min_size((size - done) / SYSTEM_PAGE, PAGES);
    for (size_t i = 0; i < n; i++) pages[i] = (nt_page_t){from + done + i * SYSTEM_PAGE, 1};
    NtQueryVirtualMemory(NT_SELF, NULL, NT_PAGES, pages, n * sizeof *pages, NULL);
    for (size_t i = 0; i < n; i++) resident += (pages[i].flags & 1) * SYSTEM_PAGE;
  }
  return resident;
}

size_t os_resident(const void *at, size_t size) {
  const char *from = at, *end = from + size;
  size_t resident = 0;
  for (size_t part; from < end; from += part) { /* Bound: `size` */
    nt_region_t region;
    if (NtQueryVirtualMemory(NT_SELF, from, NT_REGION, &region, sizeof region, NULL) < 0) break;
    part = min_size((size_t)(end - from), region.size);
    if (region.state == MEM_COMMIT) resident += count_resident(from, part);
  }
  return resident;
}

void os_zero(void *at, size_t size) {
  if (!os_discard(at, size)) memset(at, 0, size);
}

/* Asked, because wine reads also what is closed. */
static bool is_open(const void *at, size_t size) {
  const char *from = at, *end = from + size;
  while (from < end) { /* Bound: `size` */
    nt_region_t region;
    if (NtQueryVirtualMemory(NT_SELF, from, NT_REGION, &region, sizeof region, NULL) < 0) break;
    if (region.state != MEM_COMMIT || (region.protection & (PAGE_NOACCESS | PAGE_GUARD)) != 0)
      break;
    from = (const char *)region.base + region.size;
  }
  return from >= end;
}

bool os_copy(void *to, const void *from, size_t size) {
  size_t got = 0;
  return is_open(from, size) && NtReadVirtualMemory(NT_SELF, from, to, size, &got) >= 0 &&
         got == size;
}
bool os_is_there(const void *word) {
  uintptr_t copy;
  return os_copy(&copy, word, sizeof copy);
}
bool os_is_readable(const void *at, size_t size) {
  char copy[64];
  return size <= sizeof copy && os_copy(copy, at, size);
}

/* What is committed always counts against what the machine has. */
bool os_is_space_limited(void) { return true; }
bool os_break_range(uintptr_t *from, uintptr_t *to) { return *from = *to = 0, false; }

/* ---- what the system says -------------------------------------------------------------------- */

static nt_system_t system_facts(void) {
  nt_system_t about = {.pages = 0};
  NtQuerySystemInformation(0, &about, sizeof about, NULL);
  return about;
}
uint64_t os_memory(void) { return (uint64_t)system_facts().pages * SYSTEM_PAGE; }

/* A power of two above what programs may have: 47 bits, 43 before Windows 8.1. */
uintptr_t os_space_end(void) {
  static atomic64_t end; /* relaxed: every thread computes the same value */
  uintptr_t known = atomic64_load_relaxed(&end);
  if (known != 0) return known;
  uintptr_t highest = system_facts().highest_address;
  known = (uintptr_t)1 << (highest == 0 ? 47 : 64 - __builtin_clzll(highest));
  atomic64_store_relaxed(&end, known);
  return known;
}

/* The kernel's number for this process. */
static uint64_t process_cookie(void) {
  uint32_t cookie = 0;
  NtQueryInformationProcess(NT_SELF, NT_PROCESS_COOKIE, &cookie, sizeof cookie, NULL);
  return bits_mix(cookie ^ nt_thread_word(NT_PROCESS_BLOCK));
}

/* Above where programs and their heaps begin, and far below libraries: 4 to 20 TiB of 47 bits. */
uintptr_t os_space_start(void) {
  size_t part = os_space_end() / 32;
  return align_down(part + process_cookie() % (4 * part), WINDOW_SIZE);
}

/* For where guarded blocks lie; it is no secret. */
uint64_t os_random(void) {
  static atomic64_t drawn; /* relaxed: each number is drawn once */
  return bits_mix(process_cookie() + bits_mix(os_now_ns() + atomic64_add_relaxed(&drawn, 1)));
}
uint64_t os_spent_ns(void) { return os_now_ns(); }
uint32_t os_now_ms(void) { return (uint32_t)(nt_uptime() / 10000); }
uint64_t os_now_ns(void) {
  enum { SECOND = 1000000000 };
  int64_t count = 0, rate = 0;
  if (!QueryPerformanceCounter(&count) || !QueryPerformanceFrequency(&rate)) return 0;
  return (uint64_t)count / (uint64_t)rate * SECOND +
         (uint64_t)count % (uint64_t)rate * SECOND / (uint64_t)rate;
}

/* Faults are not told apart. */
void os_usage(os_usage_t *usage) {
  nt_times_t times = {0};
  nt_memory_t memory = {.faults = 0};
  int64_t now = 0;
  NtQueryInformationProcess(NT_SELF, NT_PROCESS_TIMES, &times, sizeof times, NULL);
  NtQueryInformationProcess(NT_SELF, NT_PROCESS_MEMORY, &memory, sizeof memory, NULL);
  NtQuerySystemTime(&now);
  *usage = (os_usage_t){.elapsed_ms = (uint64_t)(now - times.created) / 10000,
                        .user_ms = (uint64_t)times.user / 10000,
                        .system_ms = (uint64_t)times.kernel / 10000,
                        .minor_faults = memory.faults,
                        .peak_resident = memory.peak_resident};
}

bool os_is_raised(void) { return false; }

/* Read where it lies, for the system's own functions lock. One variable is ever asked for; what is
 * no ASCII in it is no option. */
const char *os_environment(const char *name) {
  static char text[4096];
  size_t length = strlen(name), n = 0;
  const uint16_t *e = nt_parameters()->environment;
  while (e != NULL && *e != 0) { /* Bound: the environment */
    size_t same = 0;
    while (same < length && e[same] == (unsigned char)name[same]) same++; /* Bound: the name */
    bool is_it = same == length && e[same] == '=';
    if (is_it) e += length + 1;
    for (; *e != 0; e++) /* Bound: the variable */
      if (is_it && n < sizeof text - 1) text[n++] = *e < 128 ? (char)*e : '?';
    if (is_it) return text[n] = '\0', text;
    e++;
  }
  return NULL;
}
size_t os_read_link(const char *path, char *text, size_t size) {
  return (void)path, (void)text, (void)size, 0;
}

/* ---- threads --------------------------------------------------------------------------------- */

static atomic_ptr_t thread_leave; /* relaxed: code, the same each time */
static __thread void *watched;

void os_thread_set_leave(os_leave_t *leave) {
  atomic_ptr_store_relaxed(&thread_leave, (void *)leave);
}
bool os_thread_watch(void *heap) {
  watched = heap;
  return atomic_ptr_load_relaxed(&thread_leave) != NULL;
}

/* The loader calls this in each thread that begins or ends. Those that stand behind are called
 * later: their threads get a heap again if they allocate. */
static void on_thread(void *module, uint32_t reason, void *context) {
  enum { THREAD_ENDS = 3 };
  (void)module, (void)context;
  os_leave_t *leave = (os_leave_t *)atomic_ptr_load_relaxed(&thread_leave);
  void *heap = watched;
  if (reason != THREAD_ENDS || heap == NULL || leave == NULL) return;
  watched = NULL;
  leave(heap);
}
__attribute__((used, section(".CRT$XLY"))) static void (*const thread_callback)(
  void *module, uint32_t reason, void *context) = on_thread;

uint32_t os_process(void) { return (uint32_t)nt_thread_word(NT_PROCESS_NUMBER); }

/* Two numbers of 22 bits: the kernel's are multiples of four, and seldom as large. */
uint64_t os_thread(void) {
  uint64_t process = os_process() / 4, thread = nt_thread_word(NT_THREAD_NUMBER) / 4;
  return (process | thread) >> OS_THREAD_BITS / 2 == 0 ? process << OS_THREAD_BITS / 2 | thread : 0;
}

/* Ended, and not only no more to be found: who holds it may still ask. */
bool os_thread_has_ended(uint64_t thread, uint64_t caller) {
  uint64_t process = thread >> OS_THREAD_BITS / 2;
  if (thread == 0 || process != caller >> OS_THREAD_BITS / 2) return false;
  nt_thread_t which = {process * 4, (thread ^ process << OS_THREAD_BITS / 2) * 4};
  nt_object_t object = {.length = sizeof object};
  int64_t at_once = 0;
  handle_t handle;
  int32_t status = NtOpenThread(&handle, NT_SYNCHRONIZE, &object, &which);
  if (status < 0) return status == STATUS_INVALID_CID;
  bool has_ended = NtWaitForSingleObject(handle, false, &at_once) == 0;
  NtClose(handle);
  return has_ended;
}

static uint32_t thread_run(void *run) {
  ((void (*)(void))run)();
  return 0;
}
bool os_thread_start(void (*run)(void)) {
  handle_t handle = CreateThread(NULL, 0, thread_run, (void *)run, 0, NULL);
  if (handle != NULL) NtClose(handle);
  return handle != NULL;
}
void os_sleep_ms(uint32_t ms) {
  int64_t from_now = -(int64_t)ms * 10000;
  NtDelayExecution(false, &from_now);
}

/* ---- faults, the end ------------------------------------------------------------------------- */

/* There are none that tell. */
bool os_on_signal(int number, void (*handler)(int number)) {
  return (void)number, (void)handler, false;
}

static atomic_ptr_t fault_handler; /* relaxed: code */

/* Whoever comes next has it too: a debugger, or the system, which ends the program. */
static int32_t on_exception(nt_exception_pointers_t *p) {
  os_fault_t *handler = (os_fault_t *)atomic_ptr_load_relaxed(&fault_handler);
  if (p->exception->code == STATUS_ACCESS_VIOLATION) handler((void *)p->exception->words[1]);
  return EXCEPTION_GOES_ON;
}
bool os_on_fault(os_fault_t *handler) {
  void *none = NULL;
  if (!atomic_ptr_cas_relaxed(&fault_handler, &none, (void *)handler)) return true;
  return RtlAddVectoredExceptionHandler(1, on_exception) != NULL;
}

/* As abort() of the C runtime does it: nobody can handle this. */
_Noreturn void os_abort(void) {
  enum { ENDED_BY_PROGRAM = 7, STATUS = (int32_t)0xC0000409 };
  __asm__ volatile("int $0x29" : : "c"(ENDED_BY_PROGRAM));
  for (;;) NtTerminateProcess(NT_SELF, STATUS); /* Bound: it does not return */
}

/* ---- call stacks and images: none are read --------------------------------------------------- */

void os_backtrace_start(void) {}
unsigned os_backtrace(uintptr_t *frames, unsigned most, bool by_tables) {
  return (void)frames, (void)most, (void)by_tables, 0;
}
void os_each_image(char text[OS_IMAGES_TEXT], os_image_visitor_t *visitor, void *context) {
  (void)text, (void)visitor, (void)context;
}

/* ---- files: a number is a handle, but for those of the standard ones ------------------------- */

static handle_t handle_of(int file) {
  return file == 1 || file == 2 ? nt_parameters()->standard[file] : (handle_t)(intptr_t)file;
}

/* Paths are UTF-8; one that is longer than this is not found. */
enum { PATH_MOST = 512 };
typedef struct {
  uint16_t text[PATH_MOST + 1];
} path_t;
static const uint16_t *path_of(path_t *path, const char *from) {
  uint32_t got, room = PATH_MOST * sizeof *path->text;
  memset(path, 0, sizeof *path);
  RtlUTF8ToUnicodeN(path->text, room, &got, from, (uint32_t)strlen(from));
  return path->text;
}

static int open_file(const char *from, uint32_t access, uint32_t how) {
  path_t path;
  handle_t file =
    CreateFileW(path_of(&path, from), access, FILE_SHARED, NULL, how, FILE_PLAIN, NULL);
  return (int)(intptr_t)file; /* -1 is none; handles have 32 bits */
}
/* What begins with a slash is a file of another system's: how container.c looks for its own. */
int os_open(const char *path) {
  return *path == '/' ? -1 : open_file(path, (uint32_t)FILE_READ, FILE_THERE);
}
int os_create(const char *path) { return open_file(path, FILE_WRITE, FILE_NEW); }
int os_append(const char *path) { return open_file(path, FILE_APPEND, FILE_THERE); }
bool os_is_special(const char *path) { return (void)path, false; }
void os_close(int file) { NtClose(handle_of(file)); }

static uintptr_t finish_transfer(handle_t file, int32_t status, const nt_result_t *result) {
  if (status == STATUS_PENDING) NtWaitForSingleObject(file, false, NULL);
  return status >= 0 && result->status >= 0 ? result->done : 0;
}
size_t os_read(int file, char *text, size_t size) {
  handle_t handle = handle_of(file);
  nt_result_t result = {0};
  uint32_t most = (uint32_t)min_size(size, MiB(1));
  int32_t status = NtReadFile(handle, NULL, NULL, NULL, &result, text, most, NULL, NULL);
  return finish_transfer(handle, status, &result);
}
bool os_write(int file, const char *text, size_t length) {
  handle_t handle = handle_of(file);
  while (length > 0) { /* Bound: the text's bytes */
    nt_result_t result = {0};
    uint32_t most = (uint32_t)min_size(length, MiB(1));
    int32_t status = NtWriteFile(handle, NULL, NULL, NULL, &result, text, most, NULL, NULL);
    uintptr_t wrote = finish_transfer(handle, status, &result);
    if (wrote == 0) return false;
    text += wrote;
    length -= wrote;
  }
  return true;
}

bool os_rename(const char *from, const char *to) {
  path_t path, other;
  return MoveFileExW(path_of(&path, from), path_of(&other, to), FILE_REPLACES) != 0;
}
void os_remove(const char *path) {
  path_t there;
  DeleteFileW(path_of(&there, path));
}

uint64_t os_file_identity(int file) {
  handle_t handle = handle_of(file);
  return handle == NULL || handle == NT_SELF ? 0 : (uintptr_t)handle | (uint64_t)1 << 63;
}

/* No file of a trace: it can be kept in memory (option trace_ring). No number is kept for the end:
 * a program that closes its standard error gets no statistics then. */
int os_duplicate(int file, int least) { return (void)file, (void)least, -1; }
int os_create_shared(const char *path) { return (void)path, -1; }
int os_open_shared(const char *path) { return (void)path, -1; }
void *os_map_file(int file, uint64_t offset, size_t size) {
  return (void)file, (void)offset, (void)size, NULL;
}
void os_unmap_file(void *at, size_t size) { os_unmap(at, size); }
#endif
