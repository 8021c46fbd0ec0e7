// outside_names.cc - a program in C++ for outside_test.py: functions of a template hold what lives
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace shop {
struct order_t {};

template <class T> struct cache_t {
  char *entries[4000];
  int count;
  __attribute__((noinline)) void add(size_t size) {
    entries[count++] = static_cast<char *>(std::memset(std::malloc(size), 1, size));
  }
};

__attribute__((noinline)) cache_t<order_t> &operator<<(cache_t<order_t> &cache, size_t size) {
  cache.entries[cache.count++] = static_cast<char *>(std::memset(std::malloc(size), 2, size));
  return cache;
}
} // namespace shop

static shop::cache_t<shop::order_t> cache;

int main() {
  for (int i = 0; i < 3000; i++) cache.add(1000);
  for (int i = 0; i < 500; i++) cache << size_t{1000};
  std::puts("ready\nnull");
  std::fflush(stdout);
  pause();
}
