/* os_linux.c - Linux by bare system calls                                               layer 1: os
 * Owns:    os_counts.   Called by: every layer above.   Calls: the kernel, and of libc
 *          clock_gettime, getauxval.
 * Threads: any; libc is called only where it neither locks nor allocates. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <time.h>

#include "../../base/bits.h"
#include "../../base/layout.h"
#include "../../base/probe.h"
#include "call.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
enum { PIDFD_OF_SELF = -10000 }; /* newer headers have a name for it */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

os_counts_t os_counts;
LAYOUT_VARIABLE(os_counts);

/* ---- memory ---------------------------------------------------------------------------------- */

enum {
  ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
  READ_WRITE = PROT_READ | PROT_WRITE
};

size_t os_page_size(void) {
  static atomic64_t page; /* relaxed: every thread computes the same value */
  size_t size = atomic64_load_relaxed(&page);
  if (unlikely(size == 0)) {
    size = getauxval(AT_PAGESZ);
    if (!is_power_of_two(size)) size = 4096;
    atomic64_store_relaxed(&page, size);
  }
  return size;
}

/* Whole pages, as os.h asks for. */
static bool are_pages(const void *at, size_t size) {
  return (((uintptr_t)at | size) & (os_page_size() - 1)) == 0;
}

void *os_map(size_t size) {
  long at = OS_CALL(mmap, 0, size, READ_WRITE, ANONYMOUS, -1, 0);
  if (!call_succeeded(&os_counts.maps, at)) return NULL;
  happens_after(&os_counts);
  return (void *)at;
}

static os_map_result_t map_at(void *at, size_t size, int protection) {
  ASSERT(are_pages(at, size));
  long got = OS_CALL(mmap, at, size, protection, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (!call_succeeded(&os_counts.maps, got)) return got == -EEXIST ? OS_OCCUPIED : OS_NO_MEMORY;
  probe_grow(at, size);
  if ((void *)got == at) return OS_MAPPED;
  os_unmap((void *)got, size); /* a kernel before 4.17 treats the address as a hint */
  return OS_OCCUPIED;
}
os_map_result_t os_map_at(void *at, size_t size) { return map_at(at, size, READ_WRITE); }
os_map_result_t os_reserve_at(void *at, size_t size) { return map_at(at, size, PROT_NONE); }

void *os_find(size_t size) {
  long at = OS_CALL(mmap, 0, size, PROT_NONE, ANONYMOUS, -1, 0);
  if (!call_succeeded(&os_counts.maps, at)) return NULL;
  os_unmap((void *)at, size);
  return (void *)at;
}

bool os_move(void *from, size_t old_size, void *to, size_t new_size) {
  ASSERT(are_pages(from, old_size) && are_pages(to, new_size));
  long at = OS_CALL(mremap, from, old_size, new_size, MREMAP_MAYMOVE | MREMAP_FIXED, to, 0);
  return call_succeeded(&os_counts.remaps, at);
}

bool os_resize(void *at, size_t old_size, size_t new_size) {
  ASSERT(are_pages(at, old_size | new_size));
  return call_succeeded(&os_counts.remaps, OS_CALL(mremap, at, old_size, new_size, 0, 0, 0));
}

/* No mapping can grow in place to almost the whole address space, so this fails. The kernel checks
 * first whether it is all one mapping, and reports that before any other reason. */
bool os_is_one_mapping(void *at, size_t size) {
  atomic64_add_relaxed(&os_counts.remaps, 1);
  return OS_CALL(mremap, at, size, os_space_end() - PAGE_ANYWHERE, 0, 0, 0) != -EFAULT;
}

static bool advise(const void *at, size_t size, int advice) {
  return call_succeeded(&os_counts.advices, OS_CALL(madvise, at, size, advice, 0, 0, 0));
}
bool os_discard(void *at, size_t size) {
  probe_purge(at, size);
  return advise(at, size, MADV_DONTNEED);
}

/* Each discard interrupts all processors on which threads of the process run. That takes ten times
 * as long as the rest. From Linux 6.16 on it is done once for all ranges of a call. With one thread
 * there is nobody to interrupt, and a filter for system calls may allow madvise alone. */
_Static_assert(sizeof(os_range_t) == sizeof(struct iovec), "what the kernel reads");
atomic32_t call_threads;
static atomic32_t is_one_by_one; /* the kernel is older than 6.15, or refuses; relaxed: a hint */
size_t os_ranges_at_once(void) {
  bool is_many = atomic32_load_relaxed(&call_threads) > 1 && !atomic32_load_relaxed(&is_one_by_one);
  return is_many ? OS_RANGES_MOST : 1;
}

static size_t discard_many(const os_range_t *ranges, size_t n) {
  long bytes = OS_CALL(process_madvise, PIDFD_OF_SELF, ranges, n, MADV_DONTNEED, 0, 0);
  if (!call_succeeded(&os_counts.advices, bytes)) { /* the first is locked, or not mapped */
    if (bytes != -EINVAL && bytes != -ENOMEM) atomic32_store_relaxed(&is_one_by_one, 1);
    return 0;
  }
  size_t gone = 0;
  for (; gone < n && (size_t)bytes >= ranges[gone].size; gone++) { /* Bound: `n` */
    probe_purge(ranges[gone].at, ranges[gone].size);
    bytes -= (long)ranges[gone].size;
  }
  return gone;
}

size_t os_discard_some(const os_range_t *ranges, size_t n) {
  size_t gone = n > 1 && os_ranges_at_once() > 1 ? discard_many(ranges, n) : 0;
  return gone != 0 ? gone : os_discard(ranges->at, ranges->size);
}

/* Unmapping the middle of a mapping makes one more, which a process with too many is refused. Then
 * the addresses stay taken, but the memory is gone. */
bool os_unmap(void *at, size_t size) {
  ASSERT(are_pages(at, 0));
  happens_before(&os_counts);
  if (call_succeeded(&os_counts.unmaps, OS_CALL(munmap, at, size, 0, 0, 0, 0))) return true;
  os_discard(at, size);
  return false;
}

bool os_protect(void *at, size_t size, bool is_open) {
  return call_succeeded(&os_counts.advices,
                        OS_CALL(mprotect, at, size, is_open ? READ_WRITE : PROT_NONE, 0, 0, 0));
}

bool os_seal(void *at, size_t size, bool is_sealed) {
  int protection = is_sealed ? PROT_READ : READ_WRITE;
  return call_succeeded(&os_counts.advices, OS_CALL(mprotect, at, size, protection, 0, 0, 0));
}

bool os_populate(void *at, size_t size) {
  static atomic32_t missing; /* the kernel is older than 5.14; relaxed: a hint */
  if (atomic32_load_relaxed(&missing)) return false;
  long result = OS_CALL(madvise, at, size, MADV_POPULATE_WRITE, 0, 0, 0);
  if (result == -EINVAL) atomic32_store_relaxed(&missing, 1); /* other errors may pass */
  return call_succeeded(&os_counts.advices, result);
}

void *os_map_unshared(size_t size) {
  static atomic32_t missing; /* the kernel is older than 4.14; relaxed: a hint */
  void *at = atomic32_load_relaxed(&missing) ? NULL : os_map(size);
  if (at == NULL || advise(at, size, MADV_WIPEONFORK)) return at;
  atomic32_store_relaxed(&missing, 1);
  os_unmap(at, size);
  return NULL;
}

void os_advise_huge(void *at, size_t size, bool huge) {
  advise(at, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

size_t os_resident(const void *at, size_t size) {
  unsigned char pages[512];
  size_t page = os_page_size(), resident = 0;
  for (size_t done = 0; done < size;) {
    size_t part = min_size(size - done, page * sizeof pages);
    long result = OS_CALL(mincore, (uintptr_t)at + done, part, pages, 0, 0, 0);
    if (result < 0) memset(pages, result != -ENOMEM, sizeof pages); /* ENOMEM: not all is mapped */
    for (size_t i = 0; i < part / page; i++) resident += (pages[i] & 1) * page;
    done += part;
  }
  return resident;
}

/* What is known of adjacent pages. */
typedef struct {
  char *from;
  size_t count, resident, gaps; /* pages; those in memory; runs of others */
  unsigned char is_resident[512];
} pages_t;

static void ask_for(pages_t *p) {
  p->resident = p->gaps = 0;
  if (OS_CALL(mincore, p->from, p->count * os_page_size(), p->is_resident, 0, 0, 0) < 0)
    memset(p->is_resident, 1, p->count);
  for (size_t i = 0, before = 1; i < p->count; i++) {
    size_t is_resident = p->is_resident[i] & 1;
    p->resident += is_resident;
    p->gaps += before & ~is_resident;
    before = is_resident;
  }
}

/* Writing a page takes an eighth of the time of a new one, so a few stay. Of many, the last user
 * may have needed all, and so may the next. If not, or to save calls, one call discards all. */
enum { WORTH_NEW_PAGES = 16 };
static bool is_cheaper_to_discard(const pages_t *p) {
  return p->resident / 4 + p->gaps > WORTH_NEW_PAGES && p->resident < p->count - p->count / 4;
}

static void zero_run(char *from, size_t size, bool is_resident) {
  if (is_resident || !os_discard(from, size)) memset(from, 0, size);
}

static void zero_pages(const pages_t *p) {
  size_t page = os_page_size(), first = 0;
  if (is_cheaper_to_discard(p)) return zero_run(p->from, p->count * page, false);
  for (size_t i = 1; i <= p->count; i++) {
    bool is_resident = (p->is_resident[first] & 1) != 0;
    if (i < p->count && (p->is_resident[i] & 1) == is_resident) continue;
    zero_run(p->from + first * page, (i - first) * page, is_resident);
    first = i;
  }
}

void os_zero(void *at, size_t size) {
  pages_t p = {.from = at};
  size_t page = os_page_size();
  for (char *end = p.from + size; p.from < end; p.from += p.count * page) { /* Bound: `size` */
    p.count = min_size((size_t)(end - p.from) / page, sizeof p.is_resident);
    ask_for(&p);
    zero_pages(&p);
  }
}

uint64_t os_memory(void) {
  struct sysinfo about;
  if (OS_CALL(sysinfo, &about, 0, 0, 0, 0, 0) < 0) return 0;
  return (uint64_t)about.totalram * about.mem_unit;
}

/* Asks about the first thread, since others may be bound to one. The system refuses if it has more
 * processors than `allowed` has bits. */
size_t os_processors(void) {
  uint64_t allowed[16];
  size_t count = 0;
  long process = OS_CALL(getpid, 0, 0, 0, 0, 0, 0);
  long bytes = OS_CALL(sched_getaffinity, process, sizeof allowed, allowed, 0, 0, 0);
  for (long i = 0; i < bytes / 8; i++) count += bits_count(allowed[i]);
  return bytes == -EINVAL ? 64 * ARRAY_LENGTH(allowed) : max_size(count, 1);
}

bool os_is_there(const void *word) {
  enum { NO_SUCH_WAY = -1 }; /* the kernel reads the signals, then does nothing */
  return word != NULL && OS_CALL(rt_sigprocmask, NO_SUCH_WAY, word, NULL, 8, 0, 0) != -EFAULT;
}

bool os_copy(void *to, const void *from, size_t size) {
  struct iovec here = {to, size}, there = {(void *)(uintptr_t)from, size};
  long me = OS_CALL(gettid, 0, 0, 0, 0, 0, 0); /* the first thread may have ended */
  return OS_CALL(process_vm_readv, me, &here, 1, &there, 1, 0) == (long)size;
}

static bool is_limited(int resource) {
  struct rlimit64 limit;
  return OS_CALL(prlimit64, 0, resource, NULL, &limit, 0, 0) == 0 &&
         limit.rlim_cur != RLIM64_INFINITY;
}
bool os_is_space_limited(void) { return is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA); }

/* ---- time, chance, threads ------------------------------------------------------------------- */

/* The kernel's sixteen bytes are libc's secrets too: glibc's stack canary is the first half of
 * them, its key for pointers the second. The result reveals nothing about either half unless the
 * other is known. */
static uint64_t random_number(void) {
  const void *bytes = (const void *)getauxval(AT_RANDOM);
  uint64_t halves[2] = {(uintptr_t)&bytes, 0};
  if (bytes != NULL) memcpy(halves, bytes, sizeof halves);
  return bits_mix(halves[0] + bits_mix(halves[1]));
}

uint64_t os_random(void) {
  uint64_t random;
  long got = OS_CALL(getrandom, &random, sizeof random, GRND_NONBLOCK, 0, 0, 0);
  struct timespec now;
  if (got == sizeof random) return random;
  return random_number() + (clock_gettime(CLOCK_MONOTONIC, &now) == 0 ? (uint64_t)now.tv_nsec : 0);
}

/* The stack lies in the upper half: 47 bits on x86-64, 38 to 48 elsewhere. With 32 bits the last
 * window is never ours; a kernel with less space refuses what lies beyond. */
uintptr_t os_space_end(void) {
  uintptr_t stack = getauxval(AT_RANDOM) | (uintptr_t)__builtin_frame_address(0);
  if (ADDRESS_BITS == 32) return (uintptr_t)0 - WINDOW_SIZE;
  return (uintptr_t)1 << min_size((size_t)(64 - __builtin_clzll(stack)), ADDRESS_BITS);
}

/* Far below where the kernel puts stacks, libraries and other mappings, and above where programs
 * and their brk heaps begin: 4 to 20 TiB with 47 bits. With 32 bits: the second or third window. */
uintptr_t os_space_start(void) {
  size_t part = os_space_end() / 32;
  return align_up(part + random_number() % (4 * part), WINDOW_SIZE);
}

/* Two numbers of 22 bits: the kernel gives no larger ones. */
uint64_t os_thread(void) {
  uint64_t process = (uint64_t)OS_CALL(getpid, 0, 0, 0, 0, 0, 0);
  uint64_t thread = (uint64_t)OS_CALL(gettid, 0, 0, 0, 0, 0, 0);
  return (process | thread) >> OS_THREAD_BITS / 2 == 0 ? process << OS_THREAD_BITS / 2 | thread : 0;
}

/* Not ended either if the number now belongs to another thread of the process, or if a filter
 * forbids the question. */
bool os_thread_has_ended(uint64_t thread, uint64_t caller) {
  uint64_t process = thread >> OS_THREAD_BITS / 2;
  if (thread == 0 || process != caller >> OS_THREAD_BITS / 2) return false;
  thread ^= process << OS_THREAD_BITS / 2;
  return OS_CALL(tgkill, process, thread, 0, 0, 0, 0) == -ESRCH;
}

bool os_fence_threads(void) {
  enum { FENCE = MEMBARRIER_CMD_PRIVATE_EXPEDITED };
  if (OS_CALL(membarrier, FENCE, 0, 0, 0, 0, 0) == 0) return true;
  OS_CALL(membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0);
  return OS_CALL(membarrier, FENCE, 0, 0, 0, 0, 0) == 0;
}

/* A C library waits until all threads have answered its own signal: 33 in glibc, 34 in musl. A
 * debugger steps with SIGTRAP. */
uint64_t os_hold_signals(void) {
  static const uint8_t open[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, 33, 34};
  uint64_t held = ~(uint64_t)0, before = 0;
  for (size_t i = 0; i < ARRAY_LENGTH(open); i++) held &= ~((uint64_t)1 << (open[i] - 1));
  OS_CALL(rt_sigprocmask, SIG_BLOCK, &held, &before, sizeof before, 0, 0);
  return before;
}
void os_release_signals(uint64_t before) {
  OS_CALL(rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before, 0, 0);
}

/* The number of a thread's clock is the kernel's. */
uint64_t os_thread_spent_ns(uint32_t number) {
  enum { OF_THREAD = 4, AS_SCHEDULED = 2 };
  long time[2] = {0, 0}, clock = (long)~(uint64_t)number * 8 | OF_THREAD | AS_SCHEDULED;
  if (OS_CALL(clock_gettime, clock, time, 0, 0, 0, 0) != 0) return 0;
  return (uint64_t)time[0] * 1000000000 + (uint64_t)time[1];
}

void os_sleep_ms(uint32_t ms) {
  long time[] = {ms / 1000, (long)(ms % 1000) * 1000000}; /* the kernel's type, not libc's */
  OS_CALL(nanosleep, &time, 0, 0, 0, 0, 0);
}

/* ---- environment, signals, the end ----------------------------------------------------------- */

bool os_is_raised(void) { return getauxval(AT_SECURE) != 0; }

/* The kernel's description of what to do on a signal. riscv64 has no restorer, but its emulator
 * reads and writes one. So there the mask is in its place, and one more word follows. */
typedef struct {
  unsigned long words[64 / 8 / sizeof(long)];
} mask_t;
typedef struct {
  void *handler;
  unsigned long flags;
#if defined(__riscv)
  mask_t mask, room;
#else
  void *restorer;
  mask_t mask;
#endif
} action_t;

#if defined(__x86_64__) /* elsewhere the kernel returns from handlers by itself */
enum { HAS_RESTORER = 0x04000000 };
extern hidden void os_restore(void);
__asm__(".pushsection .text.unlikely, \"ax\", @progbits\n"
        ".hidden os_restore\n"
        ".globl os_restore\n"
        ".type os_restore, @function\n"
        "  nop\n" /* unwinders look before the address to which a call returned */
        "os_restore:\n"
        "  movq $15, %rax\n" /* the way back, by the bytes that debuggers know */
        "  syscall\n"
        ".size os_restore, . - os_restore\n"
        ".popsection\n");
#endif

/* relaxed: code; fault_before is written before the handler is */
static atomic_ptr_t fault_handler;
static action_t fault_before;

static const action_t by_default = {.handler = SIG_DFL};

static long set_action(int number, const action_t *action, action_t *before) {
  return OS_CALL(rt_sigaction, number, action, before, sizeof action->mask, 0, 0);
}

static void send_to_own_thread(int number) {
  long process = OS_CALL(getpid, 0, 0, 0, 0, 0, 0), thread = OS_CALL(gettid, 0, 0, 0, 0, 0, 0);
  OS_CALL(tgkill, process, thread, number, 0, 0, 0);
}

/* Does what would have happened without our handler, which stays; false: only the system can. */
static bool does_as_before(bool is_fault, int number, siginfo_t *info, void *context) {
  void *before = fault_before.handler;
  if (before == (void *)SIG_IGN) return !is_fault;
  if (before == (void *)SIG_DFL || (fault_before.flags & SA_RESETHAND) != 0) return false;
  if ((fault_before.flags & SA_SIGINFO) == 0) ((void (*)(int))before)(number);
  else ((void (*)(int, siginfo_t *, void *))before)(number, info, context);
  return true;
}

/* A fault recurs when the handler returns; a signal that somebody sent must be sent again. */
static void on_fault_signal(int number, siginfo_t *info, void *context) {
  os_fault_t *handler = (os_fault_t *)atomic_ptr_load_relaxed(&fault_handler);
  bool is_fault = info->si_code > 0, is_ours = is_fault && handler(info->si_addr);
  if (!is_ours && does_as_before(is_fault, number, info, context)) return;
  set_action(SIGSEGV, is_ours ? &by_default : &fault_before, NULL);
  if (!is_fault) send_to_own_thread(number);
}

bool os_on_fault(os_fault_t *handler) {
  action_t action = {.handler = (void *)on_fault_signal, .flags = SA_SIGINFO | SA_ONSTACK};
#if defined(__x86_64__)
  action.flags |= HAS_RESTORER;
  action.restorer = (void *)os_restore;
#endif
  action_t before;
  if (set_action(SIGSEGV, NULL, &before) != 0) return false;
  if (before.handler == action.handler) return true;
  action.flags |= before.flags & (SA_NODEFER | SA_RESTART);
  action.mask = before.mask;
  fault_before = before;
  atomic_ptr_store_relaxed(&fault_handler, (void *)handler);
  return set_action(SIGSEGV, &action, NULL) == 0;
}

uint32_t os_process(void) { return (uint32_t)OS_CALL(getpid, 0, 0, 0, 0, 0, 0); }

/* abort() of glibc takes a lock. This does the same without one: the signal, and if it is blocked
 * or handled, the default. A filter may forbid sending any. */
_Noreturn void os_abort(void) {
  mask_t abort_only = {{1UL << (SIGABRT - 1)}};
  for (int rounds = 0; rounds < 2; rounds++) {
    OS_CALL(rt_sigprocmask, SIG_UNBLOCK, &abort_only, 0, sizeof abort_only, 0, 0);
    send_to_own_thread(SIGABRT);
    set_action(SIGABRT, &by_default, NULL);
  }
  OS_CALL(exit_group, 127, 0, 0, 0, 0, 0);
  __builtin_trap();
}
