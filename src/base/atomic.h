/* atomic.h - the only atomics there are; every name carries its memory order          layer 0: base
 * Owns:    nothing.   Called by: everyone.   Calls: nothing.
 * Threads: any.
 * Sync:    a use with an order stronger than relaxed names its S-tag where it stands;
 *          docs/concurrency.md lists the two sides of each tag. In test/proof a checker of the
 *          memory model is called before each use. */
#pragma once

#include "base.h"

/* clang-format off */
typedef struct { uint64_t value aligned_to(8); } atomic64_t;
typedef struct { uint32_t value; } atomic32_t;
typedef struct { uint16_t value; } atomic16_t;
typedef struct { uint8_t value; } atomic8_t;
typedef struct { void *value; } atomic_ptr_t; /* clang-format on */

/* Swaps one or two bytes on processors that swap four at least, such as riscv64 without Zabha.
 * `mask`: 255 or 65535. Progress: if it fails although the bytes are unchanged, another thread has
 * changed the rest of the word. */
#if defined(__riscv)
enum { HAS_PART_SWAP = false };
#else
enum { HAS_PART_SWAP = true };
#endif
typedef uint32_t __attribute__((may_alias)) atomic_word_t;
static inline bool atomic_cas_part(void *at, uint32_t mask, uint32_t *seen, uint32_t v) {
  atomic_word_t *word = (atomic_word_t *)((uintptr_t)at & ~(uintptr_t)3);
  unsigned shift = (unsigned)((uintptr_t)at % 4) * 8; /* little-endian */
  uint32_t before = __atomic_load_n(word, __ATOMIC_RELAXED), after;
  do { /* Progress: see above */
    if ((before >> shift & mask) != *seen) return *seen = before >> shift & mask, false;
    after = (before & ~(mask << shift)) | v << shift;
  } while (
    !__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  return true;
}
static inline bool atomic8_cas_part(void *at, uint8_t *seen, uint8_t v) {
  uint32_t found = *seen;
  bool is_done = atomic_cas_part(at, UINT8_MAX, &found, v);
  return *seen = (uint8_t)found, is_done;
}

/* On riscv64 GCC stores by a swap, whatever the order; an aligned word needs only a plain store. */
#if defined(__riscv)
#define ATOMIC_STORE(at, v, order)                                                                 \
  (__atomic_thread_fence(order), (void)(*(volatile __typeof__(*(at)) *)(at) = (v)))
#else
#define ATOMIC_STORE(at, v, order) __atomic_store_n(at, v, order)
#endif

/* Each macro makes one function, whose name says what it does and in which order. */
#define ATOMIC_LOAD(name, type, suffix, order)                                                     \
  static inline type name##_load_##suffix(const name##_t *a) {                                     \
    return __atomic_load_n(&a->value, __ATOMIC_##order);                                           \
  }
#define ATOMIC_STORE_AS(name, type, suffix, order)                                                 \
  static inline void name##_store_##suffix(name##_t *a, type v) {                                  \
    ATOMIC_STORE(&a->value, v, __ATOMIC_##order);                                                  \
  }
/* On failure `*seen` becomes the value found. */
#define ATOMIC_CAS(name, type, op, suffix, order)                                                  \
  static inline bool name##_##op##_##suffix(name##_t *a, type *seen, type v) {                     \
    if (sizeof *a == 1 && !HAS_PART_SWAP)                                                          \
      return atomic8_cas_part(a, (void *)seen, (uint8_t)(uintptr_t)v);                             \
    return __atomic_compare_exchange_n(&a->value, seen, v, false, __ATOMIC_##order,                \
                                       __ATOMIC_RELAXED);                                          \
  }
/* Returns the old value. */
#define ATOMIC_FETCH(name, type, op, suffix, order)                                                \
  static inline type name##_##op##_##suffix(name##_t *a, type n) {                                 \
    return __atomic_fetch_##op(&a->value, n, __ATOMIC_##order);                                    \
  }
#define ATOMIC_IN_EACH_ORDER(F, name, type, op)                                                    \
  F(name, type, op, relaxed, RELAXED)                                                              \
  F(name, type, op, acquire, ACQUIRE)                                                              \
  F(name, type, op, release, RELEASE)                                                              \
  F(name, type, op, acq_rel, ACQ_REL)                                                              \
  F(name, type, op, seq_cst, SEQ_CST)
#define ATOMIC_OPERATIONS(name, type)                                                              \
  ATOMIC_LOAD(name, type, relaxed, RELAXED)                                                        \
  ATOMIC_LOAD(name, type, acquire, ACQUIRE)                                                        \
  ATOMIC_LOAD(name, type, seq_cst, SEQ_CST)                                                        \
  ATOMIC_STORE_AS(name, type, relaxed, RELAXED)                                                    \
  ATOMIC_STORE_AS(name, type, release, RELEASE)                                                    \
  ATOMIC_IN_EACH_ORDER(ATOMIC_CAS, name, type, cas)                                                \
  static inline type name##_exchange_relaxed(name##_t *a, type v) {                                \
    return __atomic_exchange_n(&a->value, v, __ATOMIC_RELAXED);                                    \
  }                                                                                                \
  static inline type name##_exchange_acq_rel(name##_t *a, type v) {                                \
    return __atomic_exchange_n(&a->value, v, __ATOMIC_ACQ_REL);                                    \
  }
ATOMIC_OPERATIONS(atomic64, uint64_t)
ATOMIC_OPERATIONS(atomic32, uint32_t)
ATOMIC_OPERATIONS(atomic8, uint8_t)
ATOMIC_OPERATIONS(atomic_ptr, void *)
ATOMIC_LOAD(atomic16, uint16_t, relaxed, RELAXED)
ATOMIC_STORE_AS(atomic16, uint16_t, relaxed, RELAXED)
ATOMIC_IN_EACH_ORDER(ATOMIC_FETCH, atomic32, uint32_t, add)
ATOMIC_IN_EACH_ORDER(ATOMIC_FETCH, atomic64, uint64_t, add)
ATOMIC_IN_EACH_ORDER(ATOMIC_FETCH, atomic64, uint64_t, or)
ATOMIC_IN_EACH_ORDER(ATOMIC_FETCH, atomic64, uint64_t, and)

/* Raises the word to `least` if it is lower, as a signed number; returns its new value. */
static inline uint64_t atomic64_raise_relaxed(atomic64_t *a, uint64_t least) {
  uint64_t seen = atomic64_load_relaxed(a);
  while ((int64_t)least > (int64_t)seen) /* Progress: a failed swap means that it rose */
    if (atomic64_cas_relaxed(a, &seen, least)) seen = least;
  return seen;
}

/* Steps for the owner only: a compiler would use three instructions where the processor has one. */
static always_inline bool atomic32_drop_one(atomic32_t *a) { /* true if it became 0 */
#if HAS_X86_ASSEMBLY
  bool is_zero;
  __asm__("subl $1, %0" : "+m"(a->value), "=@ccz"(is_zero));
  return is_zero;
#else
  uint32_t value = atomic32_load_relaxed(a) - 1;
  atomic32_store_relaxed(a, value);
  return value == 0;
#endif
}
/* A word that only one thread and its signal handlers add to, and anyone may read. */
static always_inline void atomic64_add_own(atomic64_t *a, uint64_t n) {
#if HAS_X86_ASSEMBLY
  __asm__("addq %1, %0" : "+m"(a->value) : "er"(n) : "cc");
#else
  atomic64_add_relaxed(a, n);
#endif
}
static always_inline void atomic32_add_own(atomic32_t *a, uint32_t n) {
#if HAS_X86_ASSEMBLY
  __asm__("addl %1, %0" : "+m"(a->value) : "er"(n) : "cc");
#else
  atomic32_add_relaxed(a, n);
#endif
}
/* For a word that only one thread and its signal handlers change: no lock prefix. */
static always_inline void *atomic_ptr_exchange_own(atomic_ptr_t *a, void *v) {
#if HAS_X86_ASSEMBLY
  void *seen = atomic_ptr_load_relaxed(a);
  bool is_done;
  do /* Progress: a handler changed it */
    __asm__("cmpxchgq %3, %0" : "+m"(a->value), "+a"(seen), "=@ccz"(is_done) : "r"(v) : "memory");
  while (unlikely(!is_done));
  return seen;
#else
  return atomic_ptr_exchange_relaxed(a, v);
#endif
}
static always_inline bool atomic64_is_relaxed(const atomic64_t *a, uint64_t v) {
#if HAS_X86_ASSEMBLY
  bool is_equal;
  __asm__("cmpq %2, %1" : "=@cce"(is_equal) : "m"(a->value), "r"(v));
  return is_equal;
#else
  return atomic64_load_relaxed(a) == v;
#endif
}
static always_inline bool atomic_ptr_is_relaxed(const atomic_ptr_t *a, const void *p) {
#if HAS_X86_ASSEMBLY
  bool is_equal;
  __asm__("cmpq %2, %1" : "=@cce"(is_equal) : "m"(a->value), "r"(p));
  return is_equal;
#else
  return atomic_ptr_load_relaxed(a) == p;
#endif
}

/* For words that their owner reads and writes plainly. Another thread uses them too, once it knows
 * that the owner is not using them (sleepers.c). */
static inline uintptr_t plain_load_relaxed(const uintptr_t *word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
static inline uint16_t plain16_load_relaxed(const uint16_t *word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
static inline uint8_t plain8_load_relaxed(const uint8_t *word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
static inline bool plain_cas_relaxed(uintptr_t *word, uintptr_t seen, uintptr_t v) {
  return __atomic_compare_exchange_n(word, &seen, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
static inline bool plain16_cas_relaxed(uint16_t *word, uint16_t seen, uint16_t v) {
  uint32_t found = seen;
  if (!HAS_PART_SWAP) return atomic_cas_part(word, UINT16_MAX, &found, v);
  return __atomic_compare_exchange_n(word, &seen, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Whoever sees a store that follows the fence also sees every store before it. */
static always_inline void atomic_fence_release(void) { __atomic_thread_fence(__ATOMIC_RELEASE); }

/* Keeps the compiler from moving memory accesses across it: a signal handler of the same thread
 * sees them in program order. Costs no instruction. */
static always_inline void signal_fence(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
