/* os_bsd.c - FreeBSD and macOS, by libc                                                 layer 1: os
 * Contract: os.h. Calls: of libc what is a system call, and vm_read_overwrite.
 * Threads: any. As far as the sources tell, no libc call used here locks or allocates; opening,
 *          reading and writing are cancellation points of pthread.
 *
 * This port was compiled but never run. What these systems lack: without.c; docs/ports.md lists it.
 * No advice makes pages read as zero, so a new mapping replaces them. */
#if defined(__FreeBSD__) || defined(__APPLE__)
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <time.h>
#include <unistd.h>

#include "../../base/bits.h"
#include "../../base/layout.h"
#include "../../base/probe.h"
#include "call.h"

#if defined(__APPLE__)
#include <mach/mach.h>
enum { ONLY_THERE = 0, RSS_SHIFT = 0 }; /* an address is a hint, taken if possible */
#define MEMORY_NAME "hw.memsize"
#else
#include <sys/syscall.h>
#include <sys/thr.h>
enum { ONLY_THERE = MAP_FIXED | MAP_EXCL, RSS_SHIFT = 10 };
#define MEMORY_NAME "hw.physmem"
#endif

os_counts_t os_counts;
LAYOUT_VARIABLE(os_counts);

/* ---- memory ---------------------------------------------------------------------------------- */

enum { ANONYMOUS = MAP_PRIVATE | MAP_ANON, READ_WRITE = PROT_READ | PROT_WRITE };

size_t os_page_size(void) { return (size_t)getpagesize(); }

static void *map(void *at, size_t size, int protection, int flags) {
  long got = OS_CALL(mmap, at, size, protection, ANONYMOUS | flags, -1, 0);
  return call_succeeded(&os_counts.maps, got) ? (void *)got : NULL;
}
void *os_map(size_t size) { return map(NULL, size, READ_WRITE, 0); }

static os_map_result_t map_at(void *at, size_t size, int protection) {
  void *got = map(at, size, protection, ONLY_THERE);
  if (got == at) return probe_grow(at, size), OS_MAPPED;
  if (got == NULL) got = os_map(size); /* both reasons give the same error */
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

/* Only shrinks: a caller that wants more maps it behind. */
bool os_resize(void *at, size_t old_size, size_t new_size) {
  return new_size < old_size && os_unmap((char *)at + new_size, old_size - new_size);
}

/* Closed pages stay closed. */
bool os_discard(void *at, size_t size) {
  probe_purge(at, size);
  return map(at, size, os_is_there(at) ? READ_WRITE : PROT_NONE, MAP_FIXED) != NULL;
}

bool os_unmap(void *at, size_t size) {
  if (call_succeeded(&os_counts.unmaps, OS_CALL(munmap, at, size))) return true;
  os_discard(at, size);
  return false;
}

static bool protect(void *at, size_t size, int protection) {
  return call_succeeded(&os_counts.advices, OS_CALL(mprotect, at, size, protection));
}
bool os_protect(void *at, size_t size, bool is_open) {
  return protect(at, size, is_open ? READ_WRITE : PROT_NONE);
}
bool os_seal(void *at, size_t size, bool is_sealed) {
  return protect(at, size, is_sealed ? PROT_READ : READ_WRITE);
}

#if defined(__FreeBSD__)
void *os_map_unshared(size_t size) {
  void *at = os_map(size);
  if (at == NULL || OS_CALL(minherit, at, size, INHERIT_ZERO) == 0) return at;
  os_unmap(at, size);
  return NULL;
}
#endif

size_t os_resident(const void *at, size_t size) {
  char pages[512];
  size_t page = os_page_size(), resident = 0;
  for (size_t done = 0, part; done < size; done += part) { /* Bound: `size` */
    part = min_size(size - done, page * sizeof pages);
    long result = OS_CALL(mincore, (void *)((uintptr_t)at + done), part, pages);
    if (result < 0) memset(pages, result != -ENOMEM, sizeof pages); /* ENOMEM: not all is mapped */
    for (size_t i = 0; i < part / page; i++) resident += (pages[i] & MINCORE_INCORE) * page;
  }
  return resident;
}

uint64_t os_memory(void) {
  uint64_t bytes = 0;
  long result = OS_CALL(sysctlbyname, MEMORY_NAME, &bytes, &(size_t){sizeof bytes}, NULL, 0);
  return result == 0 ? bytes : 0;
}
size_t os_processors(void) {
  int count = 0;
  OS_CALL(sysctlbyname, "hw.ncpu", &count, &(size_t){sizeof count}, NULL, 0);
  return count > 0 ? (size_t)count : 1;
}

#if defined(__APPLE__)
bool os_copy(void *to, const void *from, size_t size) {
  vm_size_t got = 0;
  vm_address_t from_there = (vm_address_t)from, here = (vm_address_t)to;
  return vm_read_overwrite(mach_task_self(), from_there, size, here, &got) == KERN_SUCCESS &&
         got == size;
}
#else
/* The kernel reads the signal set, sixteen bytes, and then the call does nothing. */
bool os_is_there(const void *word) {
  enum { NO_SUCH_WAY = -1 };
  uintptr_t at = (uintptr_t)word & ~(sizeof(sigset_t) - 1);
  return word != NULL && OS_CALL(syscall, SYS_sigprocmask, NO_SUCH_WAY, at, NULL) != -EFAULT;
}
/* Checked beforehand: does not catch pages that others unmap at this moment. */
bool os_copy(void *to, const void *from, size_t size) {
  const char *at = from, *end = at + size;
  while (at < end && os_is_there(at)) /* Bound: the pages */
    at = (const char *)align_down((uintptr_t)at, os_page_size()) + os_page_size();
  return at >= end && memcpy(to, from, size) != NULL;
}
#endif

bool os_is_space_limited(void) {
  struct rlimit limit;
  return OS_CALL(getrlimit, RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* ---- time, chance, what the system says ------------------------------------------------------ */

uint64_t os_random(void) {
  uint64_t random;
  return OS_CALL(getentropy, &random, sizeof random) == 0 ? random : bits_mix(os_now_ns());
}

/* For both systems and processors, though FreeBSD has one bit more on aarch64. */
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
  struct rusage used;
  if (OS_CALL(getrusage, RUSAGE_SELF, &used) != 0) memset(&used, 0, sizeof used);
  *usage = (os_usage_t){.user_ms = ms_of(used.ru_utime),
                        .system_ms = ms_of(used.ru_stime),
                        .minor_faults = (uint64_t)used.ru_minflt,
                        .major_faults = (uint64_t)used.ru_majflt,
                        .peak_resident = (uint64_t)used.ru_maxrss << RSS_SHIFT};
}

bool os_is_raised(void) { return issetugid() != 0; }

/* ---- threads, the end ------------------------------------------------------------------------ */

uint32_t os_process(void) { return (uint32_t)getpid(); }

/* Two numbers of 22 bits. On macOS they grow as long as the machine runs, and may not fit. */
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

#if defined(__FreeBSD__)
bool os_thread_has_ended(uint64_t thread, uint64_t caller) {
  uint64_t process = thread >> OS_THREAD_BITS / 2;
  if (thread == 0 || process != caller >> OS_THREAD_BITS / 2) return false;
  return OS_CALL(thr_kill, (long)(thread ^ process << OS_THREAD_BITS / 2), 0) == -ESRCH;
}
#endif

void os_sleep_ms(uint32_t ms) {
  struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
  OS_CALL(nanosleep, &time, NULL);
}

/* abort() may flush stdio and lock. */
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
#endif
