/* new_delete_test.cc - every form of operator new and delete */
#include "entry.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace {

using align = std::align_val_t;
const std::size_t sizes[] = {0, 1, 8, 16, 24, 100, 512, 1000, 16384, 16385, 65536, 200000, 5000000};

void *filled(void *p, std::size_t n, std::size_t alignment) {
  CHECK(p != nullptr);
  CHECK_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
  CHECK_GE(malloc_usable_size(p), n);
  if (fh_owns != nullptr) CHECK(fh_owns(p));
  std::memset(p, 0x11, n);
  return p;
}
std::size_t natural(std::size_t n) { return n >= 16 ? 16 : 1; }

int handler_calls;
void *handler_reserve;
void handler_that_frees() {
  handler_calls++;
  std::free(handler_reserve);
  handler_reserve = nullptr;
  std::set_new_handler(nullptr);
}
void handler_that_throws() {
  handler_calls++;
  throw std::bad_alloc();
}
void handler_that_gives_up_later() {
  if (++handler_calls == 5) std::set_new_handler(nullptr);
}

const std::size_t too_large = static_cast<std::size_t>(PTRDIFF_MAX) + 1;

template <typename call_t> bool throws_bad_alloc(call_t call) {
  try {
    void *p = call();
    CHECK(p != nullptr);
    return false;
  } catch (const std::bad_alloc &) { return true; }
}

} // namespace

TEST(new_delete, single_objects_in_all_forms, "") {
  for (std::size_t n : sizes) {
    ::operator delete(filled(::operator new(launder_size(n)), n, natural(n)));
    ::operator delete(filled(::operator new(launder_size(n)), n, natural(n)), n);
    ::operator delete(filled(::operator new(launder_size(n), std::nothrow), n, natural(n)),
                      std::nothrow);
    ::operator delete(filled(::operator new(launder_size(n), std::nothrow), n, natural(n)));
  }
  ::operator delete(launder(nullptr));
  ::operator delete(launder(nullptr), std::size_t(8));
  ::operator delete(launder(nullptr), std::nothrow);
}

TEST(new_delete, arrays_in_all_forms, "") {
  for (std::size_t n : sizes) {
    ::operator delete[](filled(::operator new[](launder_size(n)), n, natural(n)));
    ::operator delete[](filled(::operator new[](launder_size(n)), n, natural(n)), n);
    ::operator delete[](filled(::operator new[](launder_size(n), std::nothrow), n, natural(n)),
                        std::nothrow);
  }
  ::operator delete[](launder(nullptr));
}

TEST(new_delete, aligned_objects_in_all_forms, "") {
  for (std::size_t a = 1; a <= (std::size_t(1) << 22); a *= 2) {
    for (std::size_t n : sizes) {
      ::operator delete(filled(::operator new(launder_size(n), align(a)), n, a), align(a));
      ::operator delete(filled(::operator new(launder_size(n), align(a)), n, a), n, align(a));
      ::operator delete(filled(::operator new(launder_size(n), align(a), std::nothrow), n, a),
                        align(a), std::nothrow);
    }
  }
}

TEST(new_delete, aligned_arrays_in_all_forms, "") {
  for (std::size_t a = 1; a <= (std::size_t(1) << 22); a *= 2) {
    for (std::size_t n : sizes) {
      ::operator delete[](filled(::operator new[](launder_size(n), align(a)), n, a), align(a));
      ::operator delete[](filled(::operator new[](launder_size(n), align(a)), n, a), n, align(a));
      ::operator delete[](filled(::operator new[](launder_size(n), align(a), std::nothrow), n, a),
                          align(a), std::nothrow);
    }
  }
}

TEST(new_delete, new_of_nothing_gives_unique_pointers, "") {
  void *a = ::operator new(launder_size(0)), *b = ::operator new(launder_size(0)),
       *c = ::operator new[](launder_size(0));
  CHECK(a != b && b != c && a != c);
}

TEST(new_delete, failure_throws_bad_alloc, "") {
  const std::size_t n = launder_size(too_large);
  CHECK(throws_bad_alloc([&] { return ::operator new(n); }));
  CHECK(throws_bad_alloc([&] { return ::operator new[](n); }));
  CHECK(throws_bad_alloc([&] { return ::operator new(n, align(64)); }));
  CHECK(throws_bad_alloc([&] { return ::operator new[](n, align(1 << 20)); }));
  CHECK(throws_bad_alloc([&] { return ::operator new(launder_size(SIZE_MAX)); }));
  CHECK(throws_bad_alloc([&] { return launder(new char[launder_size(std::size_t(1) << 62)]); }));
}

TEST(new_delete, nothrow_failure_gives_null, "") {
  const std::size_t n = launder_size(too_large);
  CHECK_NULL(::operator new(n, std::nothrow));
  CHECK_NULL(::operator new[](n, std::nothrow));
  CHECK_NULL(::operator new(n, align(64), std::nothrow));
  CHECK_NULL(::operator new[](n, align(64), std::nothrow));
}

TEST(new_delete, the_new_handler_is_called_until_memory_is_there, "") {
  struct rlimit limit = {MiB_(600), MiB_(600)};
  handler_reserve = std::malloc(launder_size(MiB_(250)));
  CHECK(handler_reserve != nullptr);
  CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  std::set_new_handler(handler_that_frees);
  void *p = nullptr;
  CHECK(!throws_bad_alloc([&] { return p = ::operator new(launder_size(MiB_(400))); }));
  CHECK_EQ(handler_calls, 1);
  ::operator delete(p);
}

TEST(new_delete, the_new_handler_is_called_again_and_again, "") {
  const std::size_t n = launder_size(too_large);
  for (int form = 0; form < 4; form++) {
    handler_calls = 0;
    std::set_new_handler(handler_that_gives_up_later);
    CHECK(throws_bad_alloc([&] {
      return form == 0   ? ::operator new(n)
             : form == 1 ? ::operator new[](n)
             : form == 2 ? ::operator new(n, align(64))
                         : ::operator new[](n, align(64));
    }));
    CHECK_EQ(handler_calls, 5);
    handler_calls = 0;
    std::set_new_handler(handler_that_gives_up_later);
    CHECK_NULL(form == 0   ? ::operator new(n, std::nothrow)
               : form == 1 ? ::operator new[](n, std::nothrow)
               : form == 2 ? ::operator new(n, align(64), std::nothrow)
                           : ::operator new[](n, align(64), std::nothrow));
    CHECK_EQ(handler_calls, 5);
  }
}

TEST(new_delete, a_new_handler_may_throw_and_nothrow_swallows_it, "") {
  const std::size_t n = launder_size(too_large);
  std::set_new_handler(handler_that_throws);
  CHECK(throws_bad_alloc([&] { return ::operator new(n); }));
  CHECK(throws_bad_alloc([&] { return ::operator new(n, align(4096)); }));
  CHECK_EQ(handler_calls, 2);
  CHECK_NULL(::operator new(n, std::nothrow));
  CHECK_NULL(::operator new[](n, std::nothrow));
  CHECK_NULL(::operator new(n, align(64), std::nothrow));
  CHECK_EQ(handler_calls, 5);
}

TEST(new_delete, malloc_does_not_call_the_new_handler, "") {
  std::set_new_handler(handler_that_throws);
  CHECK_NULL(std::malloc(launder_size(too_large)));
  CHECK_EQ(handler_calls, 0);
}

TEST(new_delete, expressions_and_containers_work, "") {
  struct alignas(256) wide {
    char bytes[300];
  };
  std::vector<std::unique_ptr<wide>> wides;
  std::map<std::string, std::vector<int>> map;
  for (int i = 0; i < 2000; i++) {
    wides.emplace_back(new wide);
    CHECK_EQ(reinterpret_cast<std::uintptr_t>(wides.back().get()) % 256, 0u);
    map["key number " + std::to_string(i % 300) + " of many"].push_back(i);
  }
  std::size_t total = 0;
  for (auto &entry : map) total += entry.second.size();
  CHECK_EQ(total, 2000u);
  delete[] new wide[5];
  auto exception = std::make_exception_ptr(std::string(1000, 'x'));
  try {
    std::rethrow_exception(exception);
  } catch (const std::string &text) { CHECK_EQ(text.size(), 1000u); }
}
