"""heavy_cpp.py PARTS FILE - writes a C++ file that works a compiler hard; run, the
compiled program prints one line"""

import sys

HEAD = """// A generated translation unit: templates of the standard library over many types.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

template <int N> struct number {
  static constexpr long value = number<N - 1>::value * 31 % 1000003 + N;
};
template <> struct number<0> { static constexpr long value = 7; };
"""

PART = """
namespace part_{n} {{
struct key {{
  int a;
  std::string b;
  bool operator<(const key &o) const {{ return std::tie(a, b) < std::tie(o.a, o.b); }}
}};
using value = std::variant<int, double, std::string, std::vector<key>>;
struct tree {{
  std::map<key, std::vector<value>> leaves;
  std::unordered_map<std::string, std::shared_ptr<tree>> children;
  long weigh() const {{
    long sum = number<{depth}>::value;
    for (const auto &[k, values] : leaves)
      for (const auto &v : values)
        sum += k.a + std::visit([](const auto &x) -> long {{
          using type = std::decay_t<decltype(x)>;
          if constexpr (std::is_arithmetic_v<type>) return static_cast<long>(x);
          else return static_cast<long>(x.size());
        }}, v);
    for (const auto &child : children) sum += child.second->weigh();
    return sum;
  }}
}};
long work() {{
  tree root;
  for (int i = 0; i < {n} + 20; i++) {{
    std::string text(static_cast<size_t>(i), 'x');
    root.leaves[key{{i, std::to_string(i)}}].push_back(value{{std::move(text)}});
    root.children["c" + std::to_string(i % 5)] = std::make_shared<tree>(tree{{root.leaves, {{}}}});
  }}
  std::set<std::pair<long, std::string>> ordered;
  for (const auto &child : root.children) ordered.emplace(child.second->weigh(), child.first);
  std::vector<long> sums(ordered.size());
  std::transform(ordered.begin(), ordered.end(), sums.begin(),
                 [](const auto &p) {{ return p.first; }});
  std::stable_sort(sums.begin(), sums.end(), std::greater<long>());
  return std::accumulate(sums.begin(), sums.end(), root.weigh());
}}
}}
"""


def main(parts, path):
    with open(path, "w", encoding="ascii") as file:
        file.write(HEAD)
        for n in range(parts):
            file.write(PART.format(n=n, depth=200 + n))
        calls = " + ".join(f"part_{n}::work()" for n in range(parts))
        file.write(f"\nint main() {{ std::cout << ({calls}) << std::endl; }}\n")


main(int(sys.argv[1]), sys.argv[2])
