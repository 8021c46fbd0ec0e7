/* sites.h - included before each file under test: names every use of an order that is not relaxed
 *
 * base/atomic.h stays what is compiled; each use of one of its operations outside it says first
 * where it stands, so that the checker can weaken just that one. The checker stops at an order
 * stronger than relaxed that no label announced. */
#ifndef SITES_H
#define SITES_H

#include "checker.h"

#include "../../../src/base/atomic.h"

/* clang-format off */
#define AT_SITE(name, word)                                                     \
  ({                                                                            \
    static site_t site_ __attribute__((section("sites"), aligned(8))) = {       \
      name, #word, __FILE__, __func__,                                          \
      ORDER_AS_WRITTEN, ORDER_AS_WRITTEN, ORDER_AS_WRITTEN, ORDER_AS_WRITTEN    \
    };                                                                          \
    __typeof__(word) word_ = (word);                                            \
    checker_at(&site_);                                                         \
    word_;                                                                      \
  })
/* clang-format on */

#define CALL_AT(operation, word, ...) operation(AT_SITE(#operation, word), ##__VA_ARGS__)
#define atomic64_load_acquire(a) CALL_AT(atomic64_load_acquire, a)
#define atomic64_load_seq_cst(a) CALL_AT(atomic64_load_seq_cst, a)
#define atomic64_store_release(a, v) CALL_AT(atomic64_store_release, a, v)
#define atomic64_cas_acquire(a, seen, v) CALL_AT(atomic64_cas_acquire, a, seen, v)
#define atomic64_cas_release(a, seen, v) CALL_AT(atomic64_cas_release, a, seen, v)
#define atomic64_cas_acq_rel(a, seen, v) CALL_AT(atomic64_cas_acq_rel, a, seen, v)
#define atomic64_cas_seq_cst(a, seen, v) CALL_AT(atomic64_cas_seq_cst, a, seen, v)
#define atomic64_or_release(a, bits) CALL_AT(atomic64_or_release, a, bits)
#define atomic64_or_acq_rel(a, bits) CALL_AT(atomic64_or_acq_rel, a, bits)
#define atomic64_or_seq_cst(a, bits) CALL_AT(atomic64_or_seq_cst, a, bits)
#define atomic64_and_acquire(a, bits) CALL_AT(atomic64_and_acquire, a, bits)
#define atomic64_and_release(a, bits) CALL_AT(atomic64_and_release, a, bits)
#define atomic64_and_acq_rel(a, bits) CALL_AT(atomic64_and_acq_rel, a, bits)
#define atomic64_and_seq_cst(a, bits) CALL_AT(atomic64_and_seq_cst, a, bits)

#define atomic32_load_acquire(a) CALL_AT(atomic32_load_acquire, a)
#define atomic32_load_seq_cst(a) CALL_AT(atomic32_load_seq_cst, a)
#define atomic32_cas_seq_cst(a, seen, v) CALL_AT(atomic32_cas_seq_cst, a, seen, v)
#define atomic32_store_release(a, v) CALL_AT(atomic32_store_release, a, v)
#define atomic32_cas_acquire(a, seen, v) CALL_AT(atomic32_cas_acquire, a, seen, v)
#define atomic32_add_acq_rel(a, n) CALL_AT(atomic32_add_acq_rel, a, n)
#define atomic32_cas_release(a, seen, v) CALL_AT(atomic32_cas_release, a, seen, v)
#define atomic32_cas_acq_rel(a, seen, v) CALL_AT(atomic32_cas_acq_rel, a, seen, v)
#define atomic32_exchange_acq_rel(a, v) CALL_AT(atomic32_exchange_acq_rel, a, v)

#define atomic_ptr_load_acquire(a) CALL_AT(atomic_ptr_load_acquire, a)
#define atomic_ptr_store_release(a, v) CALL_AT(atomic_ptr_store_release, a, v)
#define atomic_ptr_cas_acquire(a, seen, v) CALL_AT(atomic_ptr_cas_acquire, a, seen, v)
#define atomic_ptr_cas_release(a, seen, v) CALL_AT(atomic_ptr_cas_release, a, seen, v)
#define atomic_ptr_cas_acq_rel(a, seen, v) CALL_AT(atomic_ptr_cas_acq_rel, a, seen, v)

#endif
