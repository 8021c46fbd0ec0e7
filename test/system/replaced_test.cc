/* replaced_test.cc - a program that replaces some forms of operator new and delete: C++ says where
 * the others end */
#include "entry.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <vector>

namespace {

#pragma GCC diagnostic ignored "-Wsized-deallocation" /* on purpose */
using align = std::align_val_t;
constexpr std::size_t header = 64; /* before each block: nobody else can free it */
int news, deletes, aligned_news, aligned_deletes;
bool throws;

void *with_header(std::size_t n, std::size_t alignment) {
  if (throws) throw std::bad_alloc();
  std::size_t before = alignment > header ? alignment : header;
  char *p = static_cast<char *>(std::aligned_alloc(before, n + before));
  if (p == nullptr) throw std::bad_alloc();
  std::memset(p, 0x5C, before);
  return p + before;
}
void without_header(void *p, std::size_t alignment) {
  if (p != nullptr) std::free(static_cast<char *>(p) - (alignment > header ? alignment : header));
}

} // namespace

void *operator new(std::size_t n) { return news++, with_header(n, 16); }
void operator delete(void *p) noexcept { deletes++, without_header(p, 16); }
void *operator new(std::size_t n, align a) {
  return aligned_news++, with_header(n, static_cast<std::size_t>(a));
}
void operator delete(void *p, align a) noexcept {
  aligned_deletes++, without_header(p, static_cast<std::size_t>(a));
}

namespace {

using make_t = std::function<void *(std::size_t n)>;
using end_t = std::function<void(void *p, std::size_t n)>;

void pair_of(const make_t &make, const end_t &end) {
  for (std::size_t n : {1, 40, 500, 20000, 3000000}) {
    int before_news = news + aligned_news, before_deletes = deletes + aligned_deletes;
    void *p = launder(make(launder_size(n)));
    CHECK(p != nullptr);
    std::memset(p, 0x11, n);
    end(p, n);
    CHECK_EQ(news + aligned_news - before_news, 1);
    CHECK_EQ(deletes + aligned_deletes - before_deletes, 1);
  }
}

const std::nothrow_t &nothrow = std::nothrow;
constexpr align wide = align(256);

} // namespace

TEST(replaced, every_form_for_single_objects_ends_in_the_program_s, "") {
  const make_t makes[] = {[](std::size_t n) { return ::operator new(n); },
                          [](std::size_t n) { return ::operator new(n, nothrow); }};
  const end_t ends[] = {[](void *p, std::size_t) { ::operator delete(p); },
                        [](void *p, std::size_t n) { ::operator delete(p, n); },
                        [](void *p, std::size_t) { ::operator delete(p, nothrow); }};
  for (const make_t &make : makes)
    for (const end_t &end : ends) pair_of(make, end);
  CHECK_EQ(aligned_news + aligned_deletes, 0);
}

TEST(replaced, every_form_for_arrays_ends_in_the_program_s, "") {
  const make_t makes[] = {[](std::size_t n) { return ::operator new[](n); },
                          [](std::size_t n) { return ::operator new[](n, nothrow); }};
  const end_t ends[] = {[](void *p, std::size_t) { ::operator delete[](p); },
                        [](void *p, std::size_t n) { ::operator delete[](p, n); },
                        [](void *p, std::size_t) { ::operator delete[](p, nothrow); }};
  for (const make_t &make : makes)
    for (const end_t &end : ends) pair_of(make, end);
  CHECK_EQ(aligned_news + aligned_deletes, 0);
}

TEST(replaced, every_form_with_an_alignment_ends_in_the_program_s, "") {
  const make_t makes[] = {[](std::size_t n) { return ::operator new(n, wide); },
                          [](std::size_t n) { return ::operator new(n, wide, nothrow); },
                          [](std::size_t n) { return ::operator new[](n, wide); },
                          [](std::size_t n) { return ::operator new[](n, wide, nothrow); }};
  const end_t ends[] = {[](void *p, std::size_t) { ::operator delete(p, wide); },
                        [](void *p, std::size_t n) { ::operator delete(p, n, wide); },
                        [](void *p, std::size_t) { ::operator delete(p, wide, nothrow); },
                        [](void *p, std::size_t) { ::operator delete[](p, wide); },
                        [](void *p, std::size_t n) { ::operator delete[](p, n, wide); },
                        [](void *p, std::size_t) { ::operator delete[](p, wide, nothrow); }};
  int before = news, before_deletes = deletes;
  for (const make_t &make : makes)
    for (const end_t &end : ends) pair_of(make, end);
  CHECK_EQ(news - before + deletes - before_deletes, 0);
}

TEST(replaced, a_nothrow_form_gives_null_where_the_program_s_throws, "") {
  throws = true;
  CHECK_NULL(::operator new(launder_size(8), nothrow));
  CHECK_NULL(::operator new[](launder_size(8), nothrow));
  CHECK_NULL(::operator new(launder_size(8), wide, nothrow));
  CHECK_NULL(::operator new[](launder_size(8), wide, nothrow));
  throws = false;
}

TEST(replaced, what_the_runtime_allocates_comes_and_goes_by_the_program_s, "") {
  struct counted {
    int numbers[10];
    ~counted() { numbers[0] = 1; }
  };
  int before_news = news, before_deletes = deletes;
  {
    std::vector<int> v;
    for (int i = 0; i < 5000; i++) v.push_back(5000 - i);
    std::stable_sort(v.begin(), v.end()); /* its buffer comes by the nothrow form */
    CHECK(std::is_sorted(v.begin(), v.end()));
    delete static_cast<counted *>(launder(new counted));
    delete[] static_cast<counted *>(launder(new counted[7]));
    std::make_shared<counted>();
  }
  CHECK_GT(news, before_news);
  CHECK_EQ(news - before_news, deletes - before_deletes);
}
