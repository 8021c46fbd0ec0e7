/* new.hpp - what C++ programs may ask of operator new beyond the standard: the block's real size,
 * and hints; C++17 and later
 *
 * operator new and delete are freehold's as soon as the library is linked or preloaded; no header
 * is needed for that. Units, threads, signals and fork: as in freehold.h. */
#ifndef FREEHOLD_NEW_HPP
#define FREEHOLD_NEW_HPP

#include <cstddef>
#include <cstdint>
#include <new>

/* How often the memory will be used: 0 hardly ever, 255 all the time. LLVM and tcmalloc have this
 * type, and compilers may call these forms on their own. freehold accepts the hint but does not use
 * it: the block is the same whatever it says. LLVM. */
enum class __hot_cold_t : std::uint8_t;

[[nodiscard]] void *operator new(std::size_t size, __hot_cold_t hint);
[[nodiscard]] void *operator new[](std::size_t size, __hot_cold_t hint);
[[nodiscard]] void *operator new(std::size_t size, const std::nothrow_t &,
                                 __hot_cold_t hint) noexcept;
[[nodiscard]] void *operator new[](std::size_t size, const std::nothrow_t &,
                                   __hot_cold_t hint) noexcept;
[[nodiscard]] void *operator new(std::size_t size, std::align_val_t alignment, __hot_cold_t hint);
[[nodiscard]] void *operator new[](std::size_t size, std::align_val_t alignment, __hot_cold_t hint);
[[nodiscard]] void *operator new(std::size_t size, std::align_val_t alignment,
                                 const std::nothrow_t &, __hot_cold_t hint) noexcept;
[[nodiscard]] void *operator new[](std::size_t size, std::align_val_t alignment,
                                   const std::nothrow_t &, __hot_cold_t hint) noexcept;

/* Called by the compiler when a constructor throws. Clang from 19 on treats them as the forms that
 * a program may replace, which must not be inline. */
#if defined __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winline-new-delete"
#endif
inline void operator delete(void *p, __hot_cold_t) noexcept { ::operator delete(p); }
inline void operator delete[](void *p, __hot_cold_t) noexcept { ::operator delete[](p); }
inline void operator delete(void *p, const std::nothrow_t &, __hot_cold_t) noexcept {
  ::operator delete(p);
}
inline void operator delete[](void *p, const std::nothrow_t &, __hot_cold_t) noexcept {
  ::operator delete[](p);
}
inline void operator delete(void *p, std::align_val_t alignment, __hot_cold_t) noexcept {
  ::operator delete(p, alignment);
}
inline void operator delete[](void *p, std::align_val_t alignment, __hot_cold_t) noexcept {
  ::operator delete[](p, alignment);
}
inline void operator delete(void *p, std::align_val_t alignment, const std::nothrow_t &,
                            __hot_cold_t) noexcept {
  ::operator delete(p, alignment);
}
inline void operator delete[](void *p, std::align_val_t alignment, const std::nothrow_t &,
                              __hot_cold_t) noexcept {
  ::operator delete[](p, alignment);
}

#if defined __clang__
#pragma clang diagnostic pop
#endif

namespace freehold {

inline constexpr __hot_cold_t cold{0}, hot{255};

/* A block, and how many of its bytes may be used. */
struct sized_ptr_t {
  void *p;
  std::size_t n;
};

extern "C" {
/* ::operator new, which also says how many bytes the block really has. ::operator delete frees it,
 * for the aligned forms the one with an alignment; it may be given a size from `size` to `n`.
 * Throws std::bad_alloc. If the program has replaced operator new, `n` is `size`. P0901; LLVM,
 * tcmalloc (__size_returning_new). */
[[nodiscard]] sized_ptr_t fh_new_at_least(std::size_t size) __asm__("__size_returning_new");
[[nodiscard]] sized_ptr_t fh_new_at_least_hinted(std::size_t size, __hot_cold_t hint) __asm__(
  "__size_returning_new_hot_cold");
[[nodiscard]] sized_ptr_t fh_new_at_least_aligned(
  std::size_t size, std::align_val_t alignment) __asm__("__size_returning_new_aligned");
[[nodiscard]] sized_ptr_t fh_new_at_least_aligned_hinted(
  std::size_t size, std::align_val_t alignment,
  __hot_cold_t hint) __asm__("__size_returning_new_aligned_hot_cold");
}

[[nodiscard]] inline sized_ptr_t size_returning_new(std::size_t size) {
  return fh_new_at_least(size);
}
[[nodiscard]] inline sized_ptr_t size_returning_new(std::size_t size, __hot_cold_t hint) {
  return fh_new_at_least_hinted(size, hint);
}
[[nodiscard]] inline sized_ptr_t size_returning_new(std::size_t size, std::align_val_t alignment) {
  return fh_new_at_least_aligned(size, alignment);
}
[[nodiscard]] inline sized_ptr_t size_returning_new(std::size_t size, std::align_val_t alignment,
                                                    __hot_cold_t hint) {
  return fh_new_at_least_aligned_hinted(size, alignment, hint);
}

} // namespace freehold

#endif
