/* bounds.c - memcpy and its kind, which stay within blocks: libfreehold-bounds.so      layer 8: api
 * Owns:    the names memcpy, memmove, mempcpy, memset, strcpy, stpcpy, strncpy, strcat, strncat.
 *          Called by: the program.
 *          Calls: secure, stock, slab, arena, libc's fortified functions.
 * Threads: any, also in signal handlers and before this library is relocated: until libc's
 *          functions are there, bytes are copied one by one. No lock, no thread-local word.
 *
 * Each call goes to libc, after a look at the pointers. A pointer that is not ours costs a load and
 * a comparison. A live block must have enough bytes left. Undecided cases pass: they may still be
 * mistakes, which the checks of the secure grade may see later. It does not see calls within libc,
 * or code that the compiler has written out. */
#include "../base/base.h"
#if FH_BOUNDS

#include "../../include/freehold/freehold.h"
#include "../base/fmt.h"
#include "../secure/checked.h"
#include "../stock/huge.h"

/* Under other names: the compiler knows what these do, and would call the ones without a limit. */
#define OF_LIBC(name) __asm__(#name) __attribute__((weak))
extern void *libc_memcpy(void *to, const void *from, size_t n, size_t most) OF_LIBC(__memcpy_chk);
extern void *libc_memmove(void *to, const void *from, size_t n, size_t most) OF_LIBC(__memmove_chk);
extern void *libc_memset(void *to, int byte, size_t n, size_t most) OF_LIBC(__memset_chk);

/* ---- without a look: for this library itself, and for the calls below ------------------------ */

hidden void *bounds_plain_memmove(void *to, const void *from, size_t n) {
  if (likely(libc_memmove != NULL)) return libc_memmove(to, from, n, SIZE_MAX);
  volatile char *at = to;
  const volatile char *source = from;
  bool is_down = (uintptr_t)to > (uintptr_t)from;
  for (size_t i = 0; i < n; i++) { /* Bound: `n` */
    size_t k = is_down ? n - 1 - i : i;
    at[k] = source[k];
  }
  return to;
}
hidden void *bounds_plain_memcpy(void *to, const void *from, size_t n) {
  if (likely(libc_memcpy != NULL)) return libc_memcpy(to, from, n, SIZE_MAX);
  return bounds_plain_memmove(to, from, n);
}
hidden void *bounds_plain_memset(void *to, int byte, size_t n) {
  if (likely(libc_memset != NULL)) return libc_memset(to, byte, n, SIZE_MAX);
  for (volatile char *at = to, *end = at + n; at < end; at++) *at = (char)byte; /* Bound: `n` */
  return to;
}

/* ---- the look -------------------------------------------------------------------------------- */

enum { LOOKS_BACK = 64 }; /* slices before the pointer's, where its block may begin */

/* The address where the block around `p` begins, or may begin. */
static void *beginning_of(const void *p) {
  uintptr_t tenant = map_find(p), slice = align_down((uintptr_t)p, SLICE_SIZE);
  if (map_kind(tenant) == TENANT_HUGE) return huge_base(map_record(tenant));
  if (map_kind(tenant) != TENANT_ARENA) return NULL;
  if (arena_slice(p) >= atomic64_load_relaxed(&arena_of(p)->mapped)) return NULL; /* not ours */
  for (int i = 0; i < LOOKS_BACK && arena_slice((void *)slice) >= ARENA_FIRST_SLICE; i++) {
    slab_t *s = slab_of((void *)slice);
    uint32_t word = slab_word(s), offset = (uint16_t)(uintptr_t)p;
    if (slab_kind(word) == SLAB_LARGE) return (void *)slice;
    if (slab_kind(word) == SLAB_SMALL) {
      size_t size = class_size(word);
      return i == 0 && offset >= size ? (void *)(slice + offset / size * size) : NULL;
    }
    slice -= SLICE_SIZE;
  }
  return NULL;
}

/* Finds how many bytes were asked for. False: no live block, or something wrote behind it. */
static bool size_of_live(const void *block, size_t *size) {
  checked_t f;
  trailer_t t;
  uintptr_t tenant = map_find(block);
  bool is_huge = map_kind(tenant) == TENANT_HUGE;
  huge_t *b = is_huge ? map_record(tenant) : NULL;
  size_t usable = is_huge ? atomic64_load_relaxed(&b->size) : 0; /* relaxed: the block is live */
  if (!checked_peek(block, usable, &f) || f.usable < TRAILER_SIZE) return false;
  if ((!is_huge && f.state == NULL) || (checked_state(&f) & STATE_IS) != STATE_LIVE) return false;
  if (!trailer_says(checked_seal(&f, f.block), f.block, f.usable, &t)) return false;
  *size = t.size;
  return true;
}

/* Only a faulty program lets the block around `p` change hands or size meanwhile. */
static cold void look_closely(const void *p, size_t n, const char *what, const char *call) {
  size_t size = 0;
  char text[96];
  fmt_t f;
  void *block = beginning_of(p);
  if (n == 0 || block == NULL || !size_of_live(block, &size)) return;
  size_t offset = (uintptr_t)p - (uintptr_t)block, left = offset < size ? size - offset : 0;
  if (n <= left) return;
  fmt_start(&f, text, sizeof text, NULL, NULL);
  fmt_print(&f, "%s %lu bytes, %lu left of a block of %lu bytes", what, n, left, size);
  fmt_end(&f);
  fatal(text, block, call);
}

/* relaxed: we wrote the word before the program got the pointer from us */
static always_inline bool is_ours(const void *p) {
  uintptr_t window = ((uintptr_t)p >> WINDOW_SHIFT) % WINDOW_COUNT;
  return (uintptr_t)atomic_ptr_load_relaxed(&window_map[window]) > TENANT_FOREIGN;
}
static always_inline void writes(const void *p, size_t n, const char *call) {
  if (unlikely(is_ours(p))) look_closely(p, n, "write of", call);
}
static always_inline void reads(const void *p, size_t n, const char *call) {
  if (unlikely(is_ours(p))) look_closely(p, n, "read of", call);
}

/* ---- the functions: C23 7.26, and mempcpy and stpcpy of POSIX and glibc ---------------------- */

/* Their own names would be taken for those above in this file: base.h. */
#define CHECKED(name, ...) bounds_##name(__VA_ARGS__) __asm__(#name)
FH_API void *CHECKED(memcpy, void *to, const void *from, size_t n);
FH_API void *CHECKED(memmove, void *to, const void *from, size_t n);
FH_API void *CHECKED(mempcpy, void *to, const void *from, size_t n);
FH_API void *CHECKED(memset, void *to, int byte, size_t n);
FH_API char *CHECKED(strcpy, char *to, const char *from);
FH_API char *CHECKED(stpcpy, char *to, const char *from);
FH_API char *CHECKED(strncpy, char *to, const char *from, size_t n);
FH_API char *CHECKED(strcat, char *to, const char *from);
FH_API char *CHECKED(strncat, char *to, const char *from, size_t n);

/* Out of line, so that a call with no pointer of ours has no more than the two tests. */
static out_of_line void *copy_closely(void *to, const void *from, size_t n, const char *call) {
  writes(to, n, call), reads(from, n, call);
  return bounds_plain_memmove(to, from, n);
}
FH_API void *bounds_memcpy(void *to, const void *from, size_t n) {
  if (unlikely(is_ours(to) || is_ours(from))) return copy_closely(to, from, n, "memcpy");
  return bounds_plain_memcpy(to, from, n);
}
FH_API void *bounds_memmove(void *to, const void *from, size_t n) {
  if (unlikely(is_ours(to) || is_ours(from))) return copy_closely(to, from, n, "memmove");
  return bounds_plain_memmove(to, from, n);
}
FH_API void *bounds_mempcpy(void *to, const void *from, size_t n) {
  return (char *)copy_closely(to, from, n, "mempcpy") + n;
}
static out_of_line void *set_closely(void *to, int byte, size_t n) {
  writes(to, n, "memset");
  return bounds_plain_memset(to, byte, n);
}
FH_API void *bounds_memset(void *to, int byte, size_t n) {
  if (unlikely(is_ours(to))) return set_closely(to, byte, n);
  return bounds_plain_memset(to, byte, n);
}

/* Puts at most `most` characters of `from`, and a zero, at `to + had`; returns where the zero
 * lies. */
static char *append(char *to, size_t had, const char *from, size_t most, const char *call) {
  size_t n = strnlen(from, most);
  writes(to, had + n + 1, call);
  bounds_plain_memmove(to + had, from, n);
  to[had + n] = '\0';
  return to + had + n;
}
FH_API char *bounds_strcpy(char *to, const char *from) {
  append(to, 0, from, SIZE_MAX, "strcpy");
  return to;
}
FH_API char *bounds_stpcpy(char *to, const char *from) {
  return append(to, 0, from, SIZE_MAX, "stpcpy");
}
FH_API char *bounds_strncpy(char *to, const char *from, size_t n) {
  size_t length = strnlen(from, n);
  writes(to, n, "strncpy");
  bounds_plain_memmove(to, from, length);
  bounds_plain_memset(to + length, 0, n - length);
  return to;
}
FH_API char *bounds_strcat(char *to, const char *from) {
  append(to, strlen(to), from, SIZE_MAX, "strcat");
  return to;
}
FH_API char *bounds_strncat(char *to, const char *from, size_t n) {
  append(to, strlen(to), from, n, "strncat");
  return to;
}

#endif
