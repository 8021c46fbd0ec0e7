/* memory.hpp - freehold for the containers of C++: allocators, heaps that end with their owner, and
 * memory resources; C++17 and later
 *
 *   std::vector<int, freehold::allocator<int>> a;                   the default heap
 *   freehold::heap heap;                                            all its blocks go with it
 *   std::vector<int, freehold::heap_allocator<int>> b{heap};        a given heap
 *   std::vector<int, freehold::shared_allocator<int>> c;            a heap that ends with its users
 *   freehold::heap_resource resource;
 *   std::pmr::vector<int> d{&resource};
 *
 * Errors: std::bad_alloc; std::bad_array_new_length for a count whose bytes overflow. Threads: any
 * number may allocate from a heap at once, and none waits for another. A block may be freed by any
 * thread. Needs exceptions. The rest is as freehold.h says. */
#ifndef FREEHOLD_MEMORY_HPP
#define FREEHOLD_MEMORY_HPP

#include <freehold/freehold.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

namespace freehold {

/* ---- heaps ----------------------------------------------------------------------------------- */

/* Owns a first-class heap. A moved-from one owns none: allocations from it use the default heap. */
class heap {
public:
  /* What becomes of blocks that still live when the heap ends. Either they end with it, and nothing
   * may point to them any more; or they stay valid, and are freed like any other. */
  enum class blocks { end, stay };

  explicit heap(blocks at_end = blocks::end) : of_{fh_heap_new()}, at_end_{at_end} {
    if (of_ == nullptr) throw std::bad_alloc();
  }
  ~heap() { end(); }
  heap(heap &&other) noexcept : of_{std::exchange(other.of_, nullptr)}, at_end_{other.at_end_} {}
  heap &operator=(heap &&other) noexcept {
    if (this != &other) {
      end();
      of_ = std::exchange(other.of_, nullptr);
      at_end_ = other.at_end_;
    }
    return *this;
  }
  heap(const heap &) = delete;
  heap &operator=(const heap &) = delete;

  /* For the functions of freehold.h. This object still owns it. */
  [[nodiscard]] fh_heap_t *get() const noexcept { return of_; }

private:
  void end() noexcept {
    if (of_ == nullptr) return;
    if (at_end_ == blocks::end) fh_heap_destroy(of_);
    else fh_heap_delete(of_);
  }
  fh_heap_t *of_;
  blocks at_end_;
};

/* ---- what all of them do --------------------------------------------------------------------- */

namespace detail {

/* Alignments that every block of at least `size` bytes has. */
constexpr bool is_plain(std::size_t size, std::size_t alignment) noexcept {
  return alignment <= alignof(std::max_align_t) && alignment <= size;
}

/* `of`: NULL: the default heap. */
[[nodiscard]] inline void *allocate(fh_heap_t *of, std::size_t size, std::size_t alignment) {
  void *p;
  if (of == nullptr)
    p = is_plain(size, alignment) ? fh_malloc(size) : fh_aligned_alloc(alignment, size);
  else
    p = is_plain(size, alignment) ? fh_heap_malloc(of, size)
                                  : fh_heap_aligned_alloc(of, alignment, size);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

inline void deallocate(void *p, std::size_t size, std::size_t alignment) noexcept {
  if (is_plain(size, alignment)) fh_free_sized(p, size);
  else fh_free_aligned_sized(p, alignment, size);
}

template <class T> [[nodiscard]] T *allocate_many(fh_heap_t *of, std::size_t n) {
  static_assert(sizeof(T) != 0, "the type is complete when memory is asked for");
  if (n > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T)) throw std::bad_array_new_length();
  return static_cast<T *>(allocate(of, n * sizeof(T), alignof(T)));
}

} // namespace detail

/* What allocate_at_least returns: std::allocation_result where it exists (C++23). */
#if defined(__cpp_lib_allocate_at_least)
template <class T> using allocation_result = std::allocation_result<T *>;
#else
template <class T> struct allocation_result {
  T *ptr;
  std::size_t count;
};
#endif

namespace detail {
template <class T> [[nodiscard]] allocation_result<T> at_least(T *p) noexcept {
  return {p, fh_usable_size(p) / sizeof(T)};
}
} // namespace detail

/* ---- allocators ------------------------------------------------------------------------------ */

/* For the default heap. All are equal. The type may be incomplete until memory is asked for. */
template <class T> class allocator {
public:
  using value_type = T;
  using is_always_equal = std::true_type;
  using propagate_on_container_move_assignment = std::true_type;

  constexpr allocator() noexcept = default;
  template <class U> constexpr allocator(const allocator<U> &) noexcept {}

  [[nodiscard]] T *allocate(std::size_t n) { return detail::allocate_many<T>(nullptr, n); }
  [[nodiscard]] allocation_result<T> allocate_at_least(std::size_t n) {
    return detail::at_least(allocate(n));
  }
  /* `n`: what was asked for, or what allocate_at_least returned. */
  void deallocate(T *p, std::size_t n) noexcept {
    detail::deallocate(p, n * sizeof(T), alignof(T));
  }

  template <class U> friend constexpr bool operator==(allocator, allocator<U>) noexcept {
    return true;
  }
  template <class U> friend constexpr bool operator!=(allocator, allocator<U>) noexcept {
    return false;
  }
};

/* For a given heap, which must outlive the blocks. Two are equal if they use the same heap, so no
 * container ends up with another heap's blocks. Moving and swapping containers takes the allocator
 * along. Copying a container uses the same heap; copy assignment keeps the target's heap. */
template <class T> class heap_allocator {
public:
  using value_type = T;
  using is_always_equal = std::false_type;
  using propagate_on_container_copy_assignment = std::false_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  heap_allocator(const heap &of) noexcept : of_{of.get()} {}
  heap_allocator(heap &&) = delete; /* it would be gone */
  explicit heap_allocator(fh_heap_t *of) noexcept : of_{of} {}
  template <class U> heap_allocator(const heap_allocator<U> &other) noexcept : of_{other.get()} {}

  [[nodiscard]] T *allocate(std::size_t n) { return detail::allocate_many<T>(of_, n); }
  [[nodiscard]] allocation_result<T> allocate_at_least(std::size_t n) {
    return detail::at_least(allocate(n));
  }
  void deallocate(T *p, std::size_t n) noexcept {
    detail::deallocate(p, n * sizeof(T), alignof(T));
  }
  [[nodiscard]] fh_heap_t *get() const noexcept { return of_; }

  template <class U>
  friend bool operator==(const heap_allocator &a, const heap_allocator<U> &b) noexcept {
    return a.get() == b.get();
  }
  template <class U>
  friend bool operator!=(const heap_allocator &a, const heap_allocator<U> &b) noexcept {
    return a.get() != b.get();
  }

private:
  fh_heap_t *of_;
};

/* For a heap that all copies own together: the last one ends it, and with it all live blocks. A
 * default-constructed one has a new heap. Equal, moved, swapped and copied as above. */
template <class T> class shared_allocator {
public:
  using value_type = T;
  using is_always_equal = std::false_type;
  using propagate_on_container_copy_assignment = std::false_type;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  shared_allocator() : of_{std::make_shared<heap>()} {}
  explicit shared_allocator(std::shared_ptr<heap> of) noexcept : of_{std::move(of)} {}
  template <class U>
  shared_allocator(const shared_allocator<U> &other) noexcept : of_{other.owner()} {}
  /* A moved-from object may still be used: a move copies. */
  shared_allocator(const shared_allocator &) noexcept = default;
  shared_allocator &operator=(const shared_allocator &) noexcept = default;

  [[nodiscard]] T *allocate(std::size_t n) { return detail::allocate_many<T>(of_->get(), n); }
  [[nodiscard]] allocation_result<T> allocate_at_least(std::size_t n) {
    return detail::at_least(allocate(n));
  }
  void deallocate(T *p, std::size_t n) noexcept {
    detail::deallocate(p, n * sizeof(T), alignof(T));
  }
  [[nodiscard]] const std::shared_ptr<heap> &owner() const noexcept { return of_; }

  template <class U>
  friend bool operator==(const shared_allocator &a, const shared_allocator<U> &b) noexcept {
    return a.owner() == b.owner();
  }
  template <class U>
  friend bool operator!=(const shared_allocator &a, const shared_allocator<U> &b) noexcept {
    return a.owner() != b.owner();
  }

private:
  std::shared_ptr<heap> of_;
};

/* ---- memory resources, where the C++ library has them ---------------------------------------- */

#if defined(__cpp_lib_memory_resource)

namespace detail {

class default_resource final : public std::pmr::memory_resource {
  void *do_allocate(std::size_t size, std::size_t alignment) override {
    return detail::allocate(nullptr, size, alignment);
  }
  void do_deallocate(void *p, std::size_t size, std::size_t alignment) override {
    detail::deallocate(p, size, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
    return this == &other;
  }
};

/* Made before main and never destroyed: static containers may outlive everything else. */
union default_resource_for_ever {
  default_resource_for_ever() : resource() {}
  ~default_resource_for_ever() {}
  default_resource resource;
};
inline default_resource_for_ever the_default_resource;

} // namespace detail

/* The default heap. The same for all callers; it never ends. */
[[nodiscard]] inline std::pmr::memory_resource *default_resource() noexcept {
  return &detail::the_default_resource.resource;
}

/* Has a heap of its own, which ends with the resource, or uses a given one, which must outlive it.
 * Unlike std::pmr::monotonic_buffer_resource it frees what is deallocated, and any number of
 * threads may use it at once. */
class heap_resource : public std::pmr::memory_resource {
public:
  explicit heap_resource(heap::blocks at_end = heap::blocks::end)
      : own_{std::in_place, at_end}, of_{own_->get()} {}
  explicit heap_resource(const heap &of) noexcept : of_{of.get()} {}
  explicit heap_resource(heap &&) = delete;
  heap_resource(const heap_resource &) = delete;
  heap_resource &operator=(const heap_resource &) = delete;

  [[nodiscard]] fh_heap_t *get() const noexcept { return of_; }

private:
  void *do_allocate(std::size_t size, std::size_t alignment) override {
    return detail::allocate(of_, size, alignment);
  }
  void do_deallocate(void *p, std::size_t size, std::size_t alignment) override {
    detail::deallocate(p, size, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
    return this == &other;
  }

  std::optional<heap> own_;
  fh_heap_t *of_;
};
#endif

} // namespace freehold

#endif
