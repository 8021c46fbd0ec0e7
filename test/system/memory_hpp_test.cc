/* memory_hpp_test.cc - freehold/new.hpp and freehold/memory.hpp: what the standard asks of an
 * allocator, and what each of ours adds
 *
 * headers_test.py compiles it with each compiler, C++ library and standard that is there. */
#include <freehold/memory.hpp>
#include <freehold/new.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <scoped_allocator>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);           \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (0)

/* ---- what the standard asks, for each allocator ---------------------------------------------- */

template <class T> using traits = std::allocator_traits<T>;

/* [allocator.requirements] and [allocator.requirements.completeness]. */
struct incomplete;
template <class A> constexpr bool is_an_allocator() {
  using T = typename A::value_type;
  using Other = typename traits<A>::template rebind_alloc<long double>;
  static_assert(std::is_same_v<typename traits<Other>::template rebind_alloc<T>, A>);
  static_assert(std::is_same_v<typename traits<A>::pointer, T *>);
  static_assert(std::is_same_v<typename traits<A>::const_pointer, const T *>);
  static_assert(std::is_same_v<typename traits<A>::size_type, std::size_t>);
  static_assert(std::is_nothrow_copy_constructible_v<A> && std::is_nothrow_move_constructible_v<A>);
  static_assert(std::is_nothrow_copy_assignable_v<A> && std::is_nothrow_move_assignable_v<A>);
  static_assert(std::is_nothrow_swappable_v<A>);
  static_assert(std::is_nothrow_constructible_v<Other, const A &>);
  static_assert(noexcept(std::declval<A &>().deallocate(nullptr, 1)));
  static_assert(noexcept(std::declval<A>() == std::declval<A>()));
  static_assert(noexcept(std::declval<A>() != std::declval<Other>()));
  return true;
}
static_assert(is_an_allocator<freehold::allocator<int>>());
static_assert(is_an_allocator<freehold::heap_allocator<int>>());
static_assert(is_an_allocator<freehold::shared_allocator<int>>());
static_assert(sizeof(traits<freehold::allocator<incomplete>>::pointer) == sizeof(void *));
static_assert(std::is_empty_v<freehold::allocator<int>>);

template <class A, bool is_equal, bool copies, bool moves, bool swaps>
constexpr bool propagates = traits<A>::is_always_equal::value ==
                            is_equal &&traits<A>::propagate_on_container_copy_assignment::value ==
                            copies &&traits<A>::propagate_on_container_move_assignment::value ==
                            moves &&traits<A>::propagate_on_container_swap::value == swaps;
static_assert(propagates<freehold::allocator<int>, true, false, true, false>);
static_assert(propagates<freehold::heap_allocator<int>, false, false, true, true>);
static_assert(propagates<freehold::shared_allocator<int>, false, false, true, true>);
static_assert(!std::is_constructible_v<freehold::heap_allocator<int>, freehold::heap &&>);
static_assert(!std::is_copy_constructible_v<freehold::heap>);

/* A node of itself: vector, list and forward_list take incomplete types (C++17). */
template <template <class> class A> struct tree {
  std::vector<tree, A<tree>> branches;
  std::list<tree, A<tree>> others;
  explicit tree(const A<tree> &a) : branches(a), others(a) {}
};

template <class T> struct alignas(256) wide { T value[40]; };

template <class A> static void try_blocks(A a) {
  using T = typename A::value_type;
  for (std::size_t n : {0u, 1u, 3u, 100u, 5000u, 300000u}) {
    T *p = traits<A>::allocate(a, n);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignof(T) == 0);
    std::memset(static_cast<void *>(p), 0x5A, n * sizeof(T));
    traits<A>::deallocate(a, p, n);
    auto got = a.allocate_at_least(n);
    CHECK(got.count >= n && got.ptr != nullptr);
    std::memset(static_cast<void *>(got.ptr), 0x5A, got.count * sizeof(T));
    a.deallocate(got.ptr, got.count);
#if __cpp_lib_allocate_at_least >= 202302L
    auto by_traits = traits<A>::allocate_at_least(a, n);
    CHECK(by_traits.count == got.count);
    a.deallocate(by_traits.ptr, n);
#endif
  }
  try {
    (void)traits<A>::allocate(a, SIZE_MAX / sizeof(T));
    CHECK(false);
  } catch (const std::bad_array_new_length &) {}
  try {
    (void)traits<A>::allocate(a, static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T));
    CHECK(false);
  } catch (const std::bad_alloc &) {}
}

template <template <class> class A> static void try_containers(A<int> a) {
  std::vector<int, A<int>> v(a);
  std::deque<int, A<int>> d(a);
  std::list<int, A<int>> l(a);
  std::forward_list<int, A<int>> f(a);
  std::set<int, std::less<>, A<int>> s(a);
  using string = std::basic_string<char, std::char_traits<char>, A<char>>;
  std::map<int, string, std::less<>, A<std::pair<const int, string>>> m(a);
  std::unordered_map<int, int, std::hash<int>, std::equal_to<>, A<std::pair<const int, int>>> u(a);
  for (int i = 0; i < 5000; i++) {
    v.push_back(i), d.push_front(i), l.push_back(i), f.push_front(i), s.insert(i);
    m.emplace(i, string(static_cast<std::size_t>(i % 100), 'x', A<char>(a)));
    u[i] = i;
  }
  CHECK(v[4999] == 4999 && d[0] == 4999 && l.back() == 4999 && f.front() == 4999 && u[77] == 77);
  CHECK(s.count(4999) == 1 && m.at(99).size() == 99);
  auto copy = v;
  auto moved = std::move(v);
  CHECK(copy == moved && copy.get_allocator() == a && moved.get_allocator() == a);
  std::vector<wide<char>, A<wide<char>>> w(20, wide<char>{}, A<wide<char>>(a));
  CHECK(reinterpret_cast<std::uintptr_t>(w.data()) % 256 == 0);
  tree<A> t{A<tree<A>>(a)};
  t.branches.emplace_back(t.branches.get_allocator());
  t.branches[0].others.emplace_back(t.branches.get_allocator());
  try_blocks(a);
  try_blocks(A<char>(a));
  try_blocks(A<wide<double>>(a));
}

/* ---- heaps ----------------------------------------------------------------------------------- */

static std::size_t live_in(fh_heap_t *of) {
  std::size_t n = 0;
  auto count = [](void *, std::size_t, void *context) {
    ++*static_cast<std::size_t *>(context);
    return true;
  };
  fh_heap_visit(of, count, &n);
  return n;
}

static void blocks_come_from_the_heap() {
  freehold::heap heap;
  using A = freehold::heap_allocator<int>;
  std::vector<int, A> v{heap};
  CHECK(live_in(heap.get()) == 0);
  v.resize(100);
  CHECK(live_in(heap.get()) == 1);
  v = std::vector<int, A>{heap};
  v.shrink_to_fit();
  CHECK(live_in(heap.get()) == 0);
}

/* Two heaps: assignment never leaves a block of one with a container of the other. */
template <class A> static void containers_of_two_heaps(A a, A b) {
  using vector = std::vector<int, A>;
  CHECK(a != b && a == A(a) && typename traits<A>::template rebind_alloc<char>(a) == a);
  vector x(100, 1, a), y(200, 2, b);
  x = y;
  CHECK(x.get_allocator() == a && x.size() == 200 && x[199] == 2);
  const int *data = y.data();
  x = std::move(y);
  CHECK(x.get_allocator() == b && x.data() == data);
  vector z(50, 3, a);
  data = z.data();
  z.swap(x);
  CHECK(z.get_allocator() == b && x.get_allocator() == a && x.data() == data);
  vector moved(std::move(x), b);
  CHECK(moved.get_allocator() == b && moved.size() == 50 && moved.data() != data);
  std::list<int, A> l(10, 1, a), k(10, 2, a);
  l.splice(l.begin(), k);
  CHECK(l.size() == 20 && k.empty());
}

static void a_shared_heap_ends_with_its_last_user() {
  std::weak_ptr<freehold::heap> watched;
  {
    std::vector<int, freehold::shared_allocator<int>> v;
    watched = v.get_allocator().owner();
    v.resize(1000);
    CHECK(live_in(watched.lock()->get()) == 1);
    std::list<int, freehold::shared_allocator<int>> l(v.get_allocator());
    l.push_back(1);
    auto away = std::move(v);
    v.push_back(7);
    CHECK(v.back() == 7 && live_in(watched.lock()->get()) == 3);
  }
  CHECK(watched.expired());
}

static void blocks_end_with_the_heap_or_stay() {
  int *stays;
  fh_stats_t before{}, after{};
  before.struct_size = after.struct_size = sizeof before;
  {
    freehold::heap ends, leaves{freehold::heap::blocks::stay};
    freehold::heap_allocator<int> a{ends}, b{leaves};
    CHECK(fh_stats_get(&before));
    for (int i = 0; i < 100; i++) (void)a.allocate(100000);
    stays = b.allocate(10);
    freehold::heap moved{std::move(ends)};
    CHECK(ends.get() == nullptr && moved.get() == a.get());
    moved = std::move(leaves);
    CHECK(moved.get() == b.get());
  }
  CHECK(fh_stats_get(&after));
  CHECK(after.large_live <= before.large_live);
  stays[9] = 1;
  freehold::allocator<int>().deallocate(stays, 10);
}

static void threads_share_a_heap() {
  freehold::heap heap;
  std::vector<std::thread> threads;
  std::atomic<std::size_t> sum{0};
  for (int t = 0; t < 4; t++)
    threads.emplace_back([&heap, &sum] {
      for (int i = 0; i < 50; i++) {
        std::map<int, int, std::less<>, freehold::heap_allocator<std::pair<const int, int>>> m{
          heap};
        for (int k = 0; k < 200; k++) m[k] = k;
        sum += m.size();
      }
    });
  for (auto &thread : threads) thread.join();
  CHECK(sum == 4 * 50 * 200);
  CHECK(live_in(heap.get()) == 0);
}

/* ---- memory resources ------------------------------------------------------------------------ */

#if defined(__cpp_lib_memory_resource)
static void resources_serve_containers(std::pmr::memory_resource *of) {
  std::pmr::map<std::pmr::string, std::pmr::vector<int>> m(of);
  for (int i = 0; i < 1000; i++) m[std::pmr::string(std::size_t(i), 'k')].resize(std::size_t(i));
  CHECK(m.size() == 1000 && m.begin()->first.get_allocator().resource() == of);
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    void *p = of->allocate(3 * alignment, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
    std::memset(p, 1, 3 * alignment);
    of->deallocate(p, 3 * alignment, alignment);
    p = of->allocate(0, alignment);
    of->deallocate(p, 0, alignment);
  }
}

static void resources() {
  freehold::heap heap;
  freehold::heap_resource own, of_heap{heap}, other{heap};
  resources_serve_containers(freehold::default_resource());
  resources_serve_containers(&own);
  resources_serve_containers(&of_heap);
  CHECK(live_in(heap.get()) == 0 && live_in(own.get()) == 0 && of_heap.get() == heap.get());
  CHECK(freehold::default_resource()->is_equal(*freehold::default_resource()));
  CHECK(!of_heap.is_equal(own) && !own.is_equal(*freehold::default_resource()));
  std::pmr::set_default_resource(freehold::default_resource());
  std::pmr::vector<int> v(100);
  CHECK(fh_owns(v.data()));
  {
    freehold::heap_resource ends;
    (void)ends.allocate(1 << 20); /* and is never given back: the resource does it */
    CHECK(live_in(ends.get()) == 1);
  }
}
#else
static void resources() {}
#endif

/* ---- operator new ---------------------------------------------------------------------------- */

struct throws {
  throws() { throw 7; }
};

/* Older clang calls no sized delete. */
static void give_back(void *p, std::size_t size) {
#if defined(__cpp_sized_deallocation)
  ::operator delete(p, size);
#else
  (void)size;
  ::operator delete(p);
#endif
}

static void size_returning_new_tells_what_is_there() {
  for (std::size_t n : {0u, 1u, 17u, 100u, 1000u, 20000u, 3000000u}) {
    for (int way = 0; way < 2; way++) {
      auto got = way == 0 ? freehold::size_returning_new(n)
                          : freehold::size_returning_new(n, freehold::cold);
      CHECK(got.p != nullptr && got.n >= n && got.n == fh_usable_size(got.p));
      std::memset(got.p, 1, got.n);
      give_back(got.p, way == 0 ? got.n : n);
      auto aligned = way == 0
                       ? freehold::size_returning_new(n, std::align_val_t(128))
                       : freehold::size_returning_new(n, std::align_val_t(128), freehold::hot);
      CHECK(reinterpret_cast<std::uintptr_t>(aligned.p) % 128 == 0 && aligned.n >= n);
      std::memset(aligned.p, 1, aligned.n);
      ::operator delete(aligned.p, std::align_val_t(128));
    }
  }
  try {
    (void)freehold::size_returning_new(std::size_t(PTRDIFF_MAX));
    CHECK(false);
  } catch (const std::bad_alloc &) {}
}

static void hints_are_accepted() {
  constexpr auto hint = freehold::cold;
  delete new (hint) int(1);
  delete[] new (hint) int[100];
  delete new (std::nothrow, hint) int(1);
  delete[] new (std::nothrow, hint) int[100];
  auto *one = new (std::align_val_t(alignof(wide<int>)), hint) wide<int>;
  auto *many = new (std::align_val_t(alignof(wide<int>)), hint) wide<int>[3];
  CHECK(reinterpret_cast<std::uintptr_t>(one) % alignof(wide<int>) == 0);
  delete one;
  delete[] many;
  delete new (std::align_val_t(alignof(wide<int>)), std::nothrow, hint) wide<int>;
  delete[] new (std::align_val_t(alignof(wide<int>)), std::nothrow, hint) wide<int>[ 3 ];
  CHECK(::operator new(std::size_t(PTRDIFF_MAX), std::nothrow, hint) == nullptr);
  try {
    delete new (hint) throws;
    CHECK(false);
  } catch (int) { /* and the block is gone, by the delete that goes with that new */
  }
}

int main() {
  freehold::heap heap, other;
  try_containers<freehold::allocator>({});
  try_containers<freehold::heap_allocator>(freehold::heap_allocator<int>(heap));
  try_containers<freehold::shared_allocator>({});
  CHECK(live_in(heap.get()) == 0);
  containers_of_two_heaps(freehold::heap_allocator<int>(heap),
                          freehold::heap_allocator<int>(other));
  containers_of_two_heaps(freehold::shared_allocator<int>(), freehold::shared_allocator<int>());
  blocks_come_from_the_heap();
  a_shared_heap_ends_with_its_last_user();
  blocks_end_with_the_heap_or_stay();
  threads_share_a_heap();
  resources();
  size_returning_new_tells_what_is_there();
  hints_are_accepted();
  std::puts("well");
}
