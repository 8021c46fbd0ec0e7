/* base.h - what every file uses: types, attributes, sizes                             layer 0: base
 * Owns:    nothing.     Called by: everyone.     Calls: nothing.
 * Threads: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define hidden __attribute__((visibility("hidden")))
#define cold __attribute__((cold, noinline))
#define out_of_line __attribute__((noinline)) /* mostly for the sake of the caller's stack */
#define always_inline __attribute__((always_inline)) inline
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define aligned_to(n) __attribute__((aligned(n)))
/* For a large table of which most programs touch only the first entries. It lies behind all other
 * variables, so that these share pages with each other. A `first_table` lies before all other
 * tables: its first entries share the variables' last page. Constants that most programs read lie
 * beside the code that they execute. (In a Windows file, such a section would store the zeros.) */
#if !defined(__ELF__) || defined(_WIN32)
#define large_table
#define first_table
#define first_constant
#else
#define large_table __attribute__((section(".bss.tables")))
#define first_table __attribute__((section(".bss.first")))
#define first_constant __attribute__((section(".rodata.first")))
#endif

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
/* One instruction instead of a compiler's two or three; sanitizers do not see what it accesses. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) &&      \
  !HAS_FEATURE(thread_sanitizer) && !HAS_FEATURE(address_sanitizer)
#define HAS_X86_ASSEMBLY 1
#else
#define HAS_X86_ASSEMBLY 0
#endif

/* Do other threads see stores in program order, and are loads made in program order? Not by the
 * rules of ThreadSanitizer. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !HAS_FEATURE(thread_sanitizer)
enum { HAS_STRONG_ORDER = true };
#else
enum { HAS_STRONG_ORDER = false };
#endif

/* For deliberate races: "Three races are left" in docs/concurrency.md. The sanitizer sees no bare
 * system calls: we must tell it that mapping pages comes after another thread's unmapping. */
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#define races_knowingly __attribute__((noinline, no_sanitize("thread")))
void __tsan_acquire(void *word);
void __tsan_release(void *word);
#define happens_after(word) __tsan_acquire(word)
#define happens_before(word) __tsan_release(word)
#else
#define races_knowingly inline
#define happens_after(word) ((void)0)
#define happens_before(word) ((void)0)
#endif

/* The grade of the library: constants in the code. */
#ifndef FH_SECURE
#define FH_SECURE 0
#endif
#ifndef FH_BOUNDS
#define FH_BOUNDS 0
#endif
#ifndef FH_COUNTED
#define FH_COUNTED 1
#endif
#if FH_BOUNDS /* our own calls are not checked; we call no other function of api/bounds.c */
void *memcpy(void *restrict to, const void *restrict from, size_t n) __asm__("bounds_plain_memcpy");
void *memmove(void *to, const void *from, size_t n) __asm__("bounds_plain_memmove");
void *memset(void *to, int byte, size_t n) __asm__("bounds_plain_memset");
#endif
enum { SECURE = FH_SECURE }; /* 1: every block is checked (docs/secure.md) */
/* 0: counters that only statistics read do not count, to see what they cost (./dev counters) */
enum { COUNTED = FH_COUNTED };

#define KiB(n) ((size_t)(n) << 10)
#define MiB(n) ((size_t)(n) << 20)
#define GiB(n) ((uint64_t)(n) << 30)

/* 32 bits make 16 windows, a few of which hold memory that is not ours. LOADED_BITS: an address
 * that the loader has yet to relocate is below that. */
#if UINTPTR_MAX > UINT32_MAX
enum { SLICE_SHIFT = 16, WINDOW_SHIFT = 30, ADDRESS_BITS = 48, LOADED_BITS = 32 };
#else
enum { SLICE_SHIFT = 16, WINDOW_SHIFT = 28, ADDRESS_BITS = 32, LOADED_BITS = 24 };
#endif
/* Bytes: the largest pages of any processor, and of the systems we know for this one. */
enum { PAGE_ANYWHERE = 64 << 10 };
#if defined(__x86_64__) || defined(__i386__) || defined(__riscv) || defined(__s390x__)
enum { PAGE_MOST = 4096 };
#elif defined(__APPLE__)
enum { PAGE_MOST = 16384 };
#else
enum { PAGE_MOST = PAGE_ANYWHERE };
#endif
#define SLICE_SIZE ((size_t)1 << SLICE_SHIFT)      /* the grain of the slice allocator */
#define WINDOW_SIZE ((size_t)1 << WINDOW_SHIFT)    /* an arena's window of address space */
#define WINDOW_SLICES (WINDOW_SIZE >> SLICE_SHIFT) /* 16,384 */
#define WINDOW_COUNT ((size_t)1 << (ADDRESS_BITS - WINDOW_SHIFT))

#define ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define TEXT_OF_WORD(x) #x
#define TEXT_OF(x) TEXT_OF_WORD(x) /* of a macro's expansion */

/* 64 bits everywhere: for sums, and for a machine's memory. */
static inline uint64_t min_size(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_size(uint64_t a, uint64_t b) { return a > b ? a : b; }
