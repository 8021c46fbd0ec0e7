/* sample.cc - the same in C++: operator new and a heap of its own. Exit code 0 if both are
 * freehold's. */
#include <freehold/memory.hpp>

#include <cstdio>
#include <string>
#include <vector>

int main() {
  freehold::heap heap;
  std::vector<int, freehold::heap_allocator<int>> numbers{heap};
  std::vector<std::string> names;
  for (int i = 0; i < 1000; i++) {
    numbers.push_back(i);
    names.emplace_back(100, 'x');
  }
  fh_stats_t stats{};
  stats.struct_size = sizeof stats;
  if (!fh_owns(numbers.data()) || !fh_owns(names[0].data()) || !fh_stats_get(&stats)) return 1;
  std::printf("C++ on freehold %s: %llu bytes live\n", fh_version_string(),
              static_cast<unsigned long long>(stats.live_bytes));
}
