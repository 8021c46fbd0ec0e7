/* call.h - the bare system call: its result, or an error below zero                     layer 1: os
 * Owns:    nothing.   Called by: posix.c, os_linux.c, files.c, huge_pages.c.   Calls: the kernel;
 *          posix.c for call_open.
 * Threads: any. A bare call leaves errno alone, is no cancellation point, and binds no symbol. */
#pragma once

#include "../os.h"

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

enum { CALL_FINE = CLOCK_MONOTONIC, CALL_COARSE = CLOCK_MONOTONIC_COARSE };

#if defined(__x86_64__)
static inline long call_kernel(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
static inline long call_kernel(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
}
#elif defined(__riscv) && __riscv_xlen == 64
static inline long call_kernel(long number, long a, long b, long c, long d, long e, long f) {
  register long a7 __asm__("a7") = number;
  register long a0 __asm__("a0") = a;
  register long a1 __asm__("a1") = b;
  register long a2 __asm__("a2") = c;
  register long a3 __asm__("a3") = d;
  register long a4 __asm__("a4") = e;
  register long a5 __asm__("a5") = f;
  __asm__ volatile("ecall"
                   : "+r"(a0)
                   : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5)
                   : "memory");
  return a0;
}
#elif defined(__powerpc64__)
static inline long call_kernel(long number, long a, long b, long c, long d, long e, long f) {
  register long r0 __asm__("r0") = number;
  register long r3 __asm__("r3") = a;
  register long r4 __asm__("r4") = b;
  register long r5 __asm__("r5") = c;
  register long r6 __asm__("r6") = d;
  register long r7 __asm__("r7") = e;
  register long r8 __asm__("r8") = f;
  __asm__ volatile("sc\n\t" /* an error is positive, and marked by a flag */
                   "bns+ 1f\n\t"
                   "neg %1, %1\n"
                   "1:"
                   : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7), "+r"(r8)
                   :
                   : "memory", "cr0", "ctr", "xer", "r9", "r10", "r11", "r12");
  return r3;
}
#elif defined(__s390x__)
static inline long call_kernel(long number, long a, long b, long c, long d, long e, long f) {
  long all[6] = {a, b, c, d, e, f}; /* only mmap takes its arguments in memory */
  register long r1 __asm__("r1") = number;
  register long r2 __asm__("r2") = number == SYS_mmap ? (long)all : a;
  register long r3 __asm__("r3") = b;
  register long r4 __asm__("r4") = c;
  register long r5 __asm__("r5") = d;
  register long r6 __asm__("r6") = e;
  register long r7 __asm__("r7") = f;
  __asm__ volatile("svc 0"
                   : "+d"(r2)
                   : "d"(r1), "d"(r3), "d"(r4), "d"(r5), "d"(r6), "d"(r7), "m"(all)
                   : "memory");
  return r2;
}
#elif defined(__i386__)
static inline long call_kernel(long number, long a, long b, long c, long d, long e, long f) {
  __asm__ volatile("pushl %6\n\t" /* the sixth argument goes into the frame pointer's register */
                   "pushl %%ebp\n\t"
                   "movl 4(%%esp), %%ebp\n\t"
                   "int $0x80\n\t"
                   "popl %%ebp\n\t"
                   "addl $4, %%esp"
                   : "+a"(number)
                   : "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), "g"(f)
                   : "memory");
  return number;
}
#elif defined(__arm__)
static inline long call_kernel(long number, long a, long b, long c, long d, long e, long f) {
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  register long r3 __asm__("r3") = d;
  register long r4 __asm__("r4") = e;
  register long r5 __asm__("r5") = f;
  long r7; /* the frame pointer in Thumb code */
  __asm__ volatile("mov %1, r7\n\t"
                   "mov r7, %2\n\t"
                   "svc 0\n\t"
                   "mov r7, %1"
                   : "+r"(r0), "=&r"(r7)
                   : "r"(number), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5)
                   : "memory");
  return r0;
}
#else
#error "add the bare system call of this processor"
#endif
#define CALL_PADDED(number, a, b, c, d, e, f, ...)                                                 \
  call_kernel(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define OS_CALL(name, ...) CALL_PADDED(SYS_##name, __VA_ARGS__, 0, 0, 0, 0, 0, 0)

/* Calls that take a 64-bit number, on any processor. Where a word has 32 bits, a mapping's offset
 * in its file counts pages of 4 KiB. */
#if defined(__i386__) || defined(__arm__)
#undef SYS_mmap
#undef SYS_fstat
#undef SYS_fcntl
#define SYS_mmap SYS_mmap2
#define SYS_fstat SYS_fstat64
#define SYS_newfstatat SYS_fstatat64
#define SYS_fcntl SYS_fcntl64
#define stat_of_kernel stat64
#define flock_of_kernel flock64
enum { MMAP_SHIFT = 12 };
#define CALL_FALLOCATE(file, at, size)                                                             \
  OS_CALL(fallocate, file, 0, at, (uint64_t)(at) >> 32, size, 0)
#else
#define stat_of_kernel stat
#define flock_of_kernel flock
enum { MMAP_SHIFT = 0 };
#define CALL_FALLOCATE(file, at, size) OS_CALL(fallocate, file, 0, at, size, 0, 0)
#endif

static inline bool call_succeeded(atomic64_t *count, long result) {
  if (COUNTED) atomic64_add_relaxed(count, 1);
  if (result >= 0 || result < -4095) return true;
  atomic64_add_relaxed(&os_counts.failures, 1);
  return false;
}
/* A limit on the size of files would end the program by a signal. */
static inline bool call_is_within_limit(uint64_t end) {
  uint64_t most[2]; /* the limit, and how far it may be raised */
  return OS_CALL(prlimit64, 0, RLIMIT_FSIZE, NULL, most) < 0 || end <= most[0];
}
hidden int call_open(const char *path, int flags); /* -1: it cannot be opened */
/* Threads that have called os_thread_watch, in this process, two at most. relaxed: a hint */
extern hidden atomic32_t call_threads;
static inline void call_note_thread(void) {
  if (atomic32_load_relaxed(&call_threads) < 2) atomic32_add_relaxed(&call_threads, 1);
}
#endif
