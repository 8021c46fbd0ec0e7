/* probe.h - places at which tracers may listen (USDT)                                 layer 0: base
 * Owns:    nothing.   Called by: os, stock, heap.   Calls: nothing.
 * Threads: any. A probe is one nop and a note in the file; a tracer puts a breakpoint there.
 *
 *   freehold:sampled_malloc  block, its size, bytes that it stands for
 *   freehold:sampled_free    likewise
 *   freehold:slow            bytes asked for: a malloc for which neither the fast path nor a run of
 *                            pages that the heap keeps would do
 *   freehold:grow            address, bytes: mapped
 *   freehold:purge           address, bytes: given back
 *
 * Without the header, which systemtap-sdt-dev brings, there are no probes. */
#pragma once

#include "base.h"

#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#endif
#endif
#if !defined(STAP_PROBE1)
#define STAP_PROBE1(provider, name, a) ((void)(a))
#define STAP_PROBE2(provider, name, a, b) ((void)(a), (void)(b))
#define STAP_PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

#pragma push_macro("hidden") /* the header uses this word itself */
#undef hidden
static inline void probe_sampled_malloc(const void *block, size_t size, uint64_t bytes) {
  STAP_PROBE3(freehold, sampled_malloc, block, size, bytes);
}
static inline void probe_sampled_free(const void *block, size_t size, uint64_t bytes) {
  STAP_PROBE3(freehold, sampled_free, block, size, bytes);
}
static inline void probe_slow(size_t size) { STAP_PROBE1(freehold, slow, size); }
static inline void probe_grow(const void *at, size_t size) {
  STAP_PROBE2(freehold, grow, at, size);
}
static inline void probe_purge(const void *at, size_t size) {
  STAP_PROBE2(freehold, purge, at, size);
}
#pragma pop_macro("hidden")
