/* os_bsd.c - FreeBSD and macOS, by libc                                                 layer 1: os
 * Contract: os.h. Calls: of libc what is a system call, and vm_read_overwrite.
 * Threads: any. No call of libc that is used here locks or allocates, as far as its sources tell;
 *          opening, reading and writing are cancellation points of pthread.
 *
 * It was compiled, and never run. What a kernel lacks answers as os.h says of a system that does
 * not say; docs/ports.md lists it. No advice makes pages read as zero: a new mapping replaces them.
 */
#if defined(__FreeBSD__) || defined(__APPLE__)
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <time.h>
#include <unistd.h>

#include "../../base/bits.h"
#include "../../base/layout.h"
#include "../../base/probe.h"
#include "../os.h"

#if defined(__APPLE__)
#include <mach/mach.h>
enum { FINE = CLOCK_MONOTONIC_RAW, COARSE = CLOCK_MONOTONIC_RAW_APPROX };
enum { ONLY_THERE = 0, RSS_SHIFT = 0 }; /* an address is a hint, which is taken if it can be */
#define MEMORY_NAME "hw.memsize"
#else
#include <sys/syscall.h>
#include <sys/thr.h>
enum { FINE = CLOCK_MONOTONIC, COARSE = CLOCK_MONOTONIC_FAST };
enum { ONLY_THERE = MAP_FIXED | MAP_EXCL, RSS_SHIFT = 10 };
#define MEMORY_NAME "hw.physmem"
#endif

os_counts_t os_counts;
LAYOUT_VARIABLE(os_counts);

static void put_errno_back(const int *before) { errno = *before; }
#define put_back_at_end __attribute__((cleanup(put_errno_back)))

static bool succeeded(atomic64_t *count, bool is_good) {
  if (COUNTED) atomic64_add_relaxed(count, 1);
  if (!is_good) atomic64_add_relaxed(&os_counts.failures, 1);
  return is_good;
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { ANONYMOUS = MAP_PRIVATE | MAP_ANON, READ_WRITE = PROT_READ | PROT_WRITE };

size_t os_page_size(void) { return (size_t)getpagesize(); }

static void *map(void *at, size_t size, int protection, int flags) {
  put_back_at_end int before = errno;
  void *got = mmap(at, size, protection, ANONYMOUS | flags, -1, 0);
  return succeeded(&os_counts.maps, got != MAP_FAILED) ? got : NULL;
}
void *os_map(size_t size) { return map(NULL, size, READ_WRITE, 0); }

static os_map_result_t map_at(void *at, size_t size, int protection) {
  void *got = map(at, size, protection, ONLY_THERE);
  if (got == at) return probe_grow(at, size), OS_MAPPED;
  if (got == NULL) got = os_map(size); /* the error is one for both reasons */
  if (got == NULL) return OS_NO_MEMORY;
  os_unmap(got, size);
  return OS_OCCUPIED;
}
os_map_result_t os_map_at(void *at, size_t size) { return map_at(at, size, READ_WRITE); }
os_map_result_t os_reserve_at(void *at, size_t size) { return map_at(at, size, PROT_NONE); }

void *os_find(size_t size) {
  void *at = map(NULL, size, PROT_NONE, 0);
  if (at != NULL) os_unmap(at, size);
  return at;
}

/* Pages cannot move: os_is_one_mapping says so, and what wants to move is copied. What grows is
 * mapped behind by who asks. */
bool os_move(void *from, size_t old_size, void *to, size_t new_size) {
  return (void)from, (void)old_size, (void)to, (void)new_size, false;
}
bool os_is_one_mapping(void *at, size_t size) { return (void)at, (void)size, false; }
bool os_resize(void *at, size_t old_size, size_t new_size) {
  return new_size < old_size && os_unmap((char *)at + new_size, old_size - new_size);
}

/* What is closed stays so. */
bool os_discard(void *at, size_t size) {
  probe_purge(at, size);
  return map(at, size, os_is_there(at) ? READ_WRITE : PROT_NONE, MAP_FIXED) != NULL;
}

bool os_unmap(void *at, size_t size) {
  put_back_at_end int before = errno;
  if (succeeded(&os_counts.unmaps, munmap(at, size) == 0)) return true;
  os_discard(at, size);
  return false;
}

static bool protect(void *at, size_t size, int protection) {
  put_back_at_end int before = errno;
  return succeeded(&os_counts.advices, mprotect(at, size, protection) == 0);
}
bool os_protect(void *at, size_t size, bool is_open) {
  return protect(at, size, is_open ? READ_WRITE : PROT_NONE);
}
bool os_seal(void *at, size_t size, bool is_sealed) {
  return protect(at, size, is_sealed ? PROT_READ : READ_WRITE);
}

/* macOS has no memory that a child finds zero. */
void *os_map_unshared(size_t size) {
#if defined(INHERIT_ZERO)
  put_back_at_end int before = errno;
  void *at = os_map(size);
  if (at == NULL || minherit(at, size, INHERIT_ZERO) == 0) return at;
  os_unmap(at, size);
#endif
  return (void)size, NULL;
}

/* No call makes pages present, and none makes huge ones of small ones. */
bool os_populate(void *at, size_t size) { return (void)at, (void)size, false; }
bool os_map_huge(void *at, size_t size, size_t page, int node) {
  return (void)at, (void)size, (void)page, (void)node, false;
}
void os_advise_huge(void *at, size_t size, bool huge) { (void)at, (void)size, (void)huge; }
bool os_collapse(void *at, size_t size) { return (void)at, (void)size, false; }
size_t os_huge_setting(char word[OS_HUGE_SETTING]) { return (void)word, 0; }
bool os_has_huge_pages(void) { return false; }
bool os_is_private(const void *at, size_t size) { return (void)at, (void)size, false; }
size_t os_huge_resident(const void *at, size_t size) { return (void)at, (void)size, 0; }

size_t os_resident(const void *at, size_t size) {
  put_back_at_end int before = errno;
  char pages[512];
  size_t page = os_page_size(), resident = 0;
  for (size_t done = 0, part; done < size; done += part) { /* Bound: `size` */
    part = min_size(size - done, page * sizeof pages);
    if (mincore((void *)((uintptr_t)at + done), part, pages) != 0)
      memset(pages, errno != ENOMEM, sizeof pages); /* ENOMEM: not all is mapped */
    for (size_t i = 0; i < part / page; i++) resident += (pages[i] & MINCORE_INCORE) * page;
  }
  return resident;
}

void os_zero(void *at, size_t size) {
  if (!os_discard(at, size)) memset(at, 0, size);
}

uint64_t os_memory(void) {
  put_back_at_end int before = errno;
  uint64_t bytes = 0;
  size_t size = sizeof bytes;
  return sysctlbyname(MEMORY_NAME, &bytes, &size, NULL, 0) == 0 ? bytes : 0;
}

size_t os_processors(void) {
  put_back_at_end int before = errno;
  int count = 0;
  size_t size = sizeof count;
  return sysctlbyname("hw.ncpu", &count, &size, NULL, 0) == 0 && count > 0 ? (size_t)count : 1;
}

#if defined(__APPLE__)
bool os_copy(void *to, const void *from, size_t size) {
  vm_size_t got = 0;
  vm_address_t from_there = (vm_address_t)from, here = (vm_address_t)to;
  return vm_read_overwrite(mach_task_self(), from_there, size, here, &got) == KERN_SUCCESS &&
         got == size;
}
bool os_is_there(const void *word) {
  uintptr_t copy;
  return os_copy(&copy, word, sizeof copy);
}
#else
/* The kernel reads the signals of a call that then does nothing: sixteen bytes. */
bool os_is_there(const void *word) {
  put_back_at_end int before = errno;
  enum { NO_SUCH_WAY = -1 };
  uintptr_t at = (uintptr_t)word & ~(sizeof(sigset_t) - 1);
  return word != NULL && (syscall(SYS_sigprocmask, NO_SUCH_WAY, at, NULL) == 0 || errno != EFAULT);
}
/* Looked at before: what others unmap at this moment is not caught. */
bool os_copy(void *to, const void *from, size_t size) {
  const char *at = from, *end = at + size;
  while (at < end && os_is_there(at)) /* Bound: the pages */
    at = (const char *)align_down((uintptr_t)at, os_page_size()) + os_page_size();
  return at >= end && memcpy(to, from, size) != NULL;
}
#endif
bool os_is_readable(const void *at, size_t size) {
  char copy[64];
  return size <= sizeof copy && os_copy(copy, at, size);
}

bool os_is_space_limited(void) {
  put_back_at_end int before = errno;
  struct rlimit limit;
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}
bool os_break_range(uintptr_t *from, uintptr_t *to) { return *from = *to = 0, false; }

/* ---- time, chance, what the system says ------------------------------------------------------ */

static uint64_t clock_ns(clockid_t clock) {
  put_back_at_end int before = errno;
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) return 0;
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
uint32_t os_now_ms(void) { return (uint32_t)(clock_ns(COARSE) / 1000000); }
uint64_t os_now_ns(void) { return clock_ns(FINE); }
uint64_t os_spent_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

uint64_t os_random(void) {
  put_back_at_end int before = errno;
  uint64_t random;
  return getentropy(&random, sizeof random) == 0 ? random : bits_mix(os_now_ns());
}

/* Of both systems and processors: FreeBSD's aarch64 has one bit more. */
uintptr_t os_space_end(void) { return (uintptr_t)1 << 47; }

/* As on Linux: from 4 to 20 TiB. */
uintptr_t os_space_start(void) {
  static atomic64_t drawn; /* relaxed: the first one counts */
  size_t part = os_space_end() / 32;
  uint64_t random = atomic64_load_relaxed(&drawn), fresh = random == 0 ? os_random() | 1 : 0;
  if (random == 0 && atomic64_cas_relaxed(&drawn, &random, fresh)) random = fresh;
  return align_up(part + random % (4 * part), WINDOW_SIZE);
}

static uint64_t ms_of(struct timeval t) {
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_usec / 1000;
}
void os_usage(os_usage_t *usage) {
  put_back_at_end int before = errno;
  struct rusage used;
  if (getrusage(RUSAGE_SELF, &used) != 0) memset(&used, 0, sizeof used);
  *usage = (os_usage_t){.user_ms = ms_of(used.ru_utime),
                        .system_ms = ms_of(used.ru_stime),
                        .minor_faults = (uint64_t)used.ru_minflt,
                        .major_faults = (uint64_t)used.ru_majflt,
                        .peak_resident = (uint64_t)used.ru_maxrss << RSS_SHIFT};
}

bool os_is_raised(void) { return issetugid() != 0; }

/* ---- threads, the end ------------------------------------------------------------------------ */

uint32_t os_process(void) { return (uint32_t)getpid(); }

/* Two numbers of 22 bits: those of macOS grow as long as the machine runs, and may not fit. */
uint64_t os_thread(void) {
#if defined(__APPLE__)
  uint64_t thread = 0;
  pthread_threadid_np(NULL, &thread);
#else
  long thread = 0;
  thr_self(&thread);
#endif
  uint64_t process = os_process();
  bool fits = (process | (uint64_t)thread) >> OS_THREAD_BITS / 2 == 0;
  return fits ? process << OS_THREAD_BITS / 2 | (uint64_t)thread : 0;
}

/* macOS has no question that takes a number. */
bool os_thread_has_ended(uint64_t thread, uint64_t caller) {
#if defined(__APPLE__)
  return (void)thread, (void)caller, false;
#else
  put_back_at_end int before = errno;
  uint64_t process = thread >> OS_THREAD_BITS / 2;
  if (thread == 0 || process != caller >> OS_THREAD_BITS / 2) return false;
  return thr_kill((long)(thread ^ process << OS_THREAD_BITS / 2), 0) != 0 && errno == ESRCH;
#endif
}

void os_sleep_ms(uint32_t ms) {
  put_back_at_end int before = errno;
  struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
  nanosleep(&time, NULL);
}

/* What a guard has caught the system reports, without a line of ours. */
bool os_on_fault(os_fault_t *handler) { return (void)handler, false; }

/* abort() may flush stdio, and lock. */
_Noreturn void os_abort(void) {
  const struct sigaction by_default = {.sa_handler = SIG_DFL};
  sigset_t abort_only;
  sigemptyset(&abort_only);
  sigaddset(&abort_only, SIGABRT);
  for (;;) { /* Bound: the second round kills the process */
    pthread_sigmask(SIG_UNBLOCK, &abort_only, NULL);
    raise(SIGABRT);
    sigaction(SIGABRT, &by_default, NULL);
  }
}

/* ---- call stacks and images: none are read --------------------------------------------------- */

void os_backtrace_start(void) {}
unsigned os_backtrace(uintptr_t *frames, unsigned most, bool by_tables) {
  return (void)frames, (void)most, (void)by_tables, 0;
}
void os_each_image(char text[OS_IMAGES_TEXT], os_image_visitor_t *visitor, void *context) {
  (void)text, (void)visitor, (void)context;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int open_file(const char *path, int flags) {
  put_back_at_end int before = errno;
  return open(path, flags | O_CLOEXEC, 0600);
}
int os_open(const char *path) { return open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY); }
int os_create(const char *path) {
  return open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
}
int os_append(const char *path) {
  put_back_at_end int before = errno;
  int file = open_file(path, O_WRONLY | O_APPEND | O_NONBLOCK);
  if (file >= 0) fcntl(file, F_SETFL, O_APPEND);
  return file;
}

size_t os_read(int file, char *text, size_t size) {
  put_back_at_end int before = errno;
  ssize_t got;
  do got = read(file, text, size); /* Bound: signals that come meanwhile */
  while (got < 0 && errno == EINTR);
  return got > 0 ? (size_t)got : 0;
}
bool os_write(int file, const char *text, size_t length) {
  put_back_at_end int before = errno;
  while (length > 0) { /* Bound: the text's bytes, and signals that come meanwhile */
    ssize_t wrote = write(file, text, length);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    text += wrote;
    length -= (size_t)wrote;
  }
  return true;
}

void os_close(int file) {
  put_back_at_end int before = errno;
  close(file);
}
bool os_rename(const char *from, const char *to) {
  put_back_at_end int before = errno;
  return rename(from, to) == 0;
}
void os_remove(const char *path) {
  put_back_at_end int before = errno;
  unlink(path);
}
size_t os_read_link(const char *path, char *text, size_t size) {
  put_back_at_end int before = errno;
  ssize_t got = readlink(path, text, size);
  return got > 0 ? (size_t)got : 0;
}
bool os_is_special(const char *path) {
  put_back_at_end int before = errno;
  struct stat about;
  return stat(path, &about) == 0 && !S_ISREG(about.st_mode);
}
int os_duplicate(int file, int least) {
  put_back_at_end int before = errno;
  return fcntl(file, F_DUPFD_CLOEXEC, least);
}
uint64_t os_file_identity(int file) {
  put_back_at_end int before = errno;
  struct stat about;
  if (fstat(file, &about) != 0) return 0;
  return ((uint64_t)about.st_dev << 40 ^ (uint64_t)about.st_ino) | (uint64_t)1 << 63;
}

/* No file of a trace: it can be kept in memory (option trace_ring). */
int os_create_shared(const char *path) { return (void)path, -1; }
int os_open_shared(const char *path) { return (void)path, -1; }
void *os_map_file(int file, uint64_t offset, size_t size) {
  return (void)file, (void)offset, (void)size, NULL;
}
void os_unmap_file(void *at, size_t size) { os_unmap(at, size); }
#endif
