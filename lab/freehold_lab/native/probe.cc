// probe.cc - which library do malloc and its family come from in this process, and do they work?
//
// One JSON object: for each function the file that it was taken from, "" where there is none, what
// the library says is its version, and whether Google's tcmalloc, if it is the one, is in its
// per-CPU mode. The addresses are those that the dynamic linker put into this program, so they are
// what any program gets. A thread of its own and every function are used once, except those of the
// aligned ones that an argument names.
#include <dlfcn.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

namespace {

const char *origin(void *address) {
  Dl_info info;
  return address != nullptr && dladdr(address, &info) != 0 ? info.dli_fname : "";
}

template <typename Function> void say(const char *name, Function *function) {
  std::printf("\"%s\": \"%s\", ", name, origin(reinterpret_cast<void *>(function)));
}

void fail(const char *what) {
  std::fprintf(stderr, "probe: %s does not work\n", what);
  std::_Exit(1);
}

char **spared;

bool is_used(const char *name) {
  for (char **each = spared; *each != nullptr; each++) {
    if (std::strcmp(*each, name) == 0) return false;
  }
  return true;
}

// The function of that name, if what malloc came from has it; other libraries of a process do not
// count.
template <typename Function> Function *own(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  const char *ours = origin(reinterpret_cast<void *>(std::malloc));
  bool is_own = found != nullptr && std::strcmp(origin(found), ours) == 0;
  return is_own ? reinterpret_cast<Function *>(found) : nullptr;
}

using mallctl_t = int(const char *, void *, std::size_t *, void *, std::size_t);

// By the functions that some allocators have for it; "" by others.
void say_version() {
  char text[100] = "";
  if (auto *freehold = own<const char *()>("fh_version_string")) {
    std::snprintf(text, sizeof text, "%s", freehold());
  } else if (auto *gperftools = own<const char *(int *, int *, const char **)>("tc_version")) {
    std::snprintf(text, sizeof text, "%s", gperftools(nullptr, nullptr, nullptr));
  } else if (auto *mimalloc = own<int()>("mi_version")) {
    int number = mimalloc();
    if (number < 1000) {
      std::snprintf(text, sizeof text, "%d.%d", number / 100, number / 10 % 10);
    } else {
      std::snprintf(text, sizeof text, "%d.%d.%d", number / 10000, number / 100 % 100,
                    number % 100);
    }
  } else if (auto *jemalloc = own<mallctl_t>("mallctl")) {
    const char *said = "";
    std::size_t size = sizeof said;
    if (jemalloc("version", &said, &size, nullptr, 0) == 0) {
      std::snprintf(text, sizeof text, "%s", said);
    }
  }
  std::printf("\"version\": \"%s\", ", text);
}

// Volatile, so that the compiler cannot see through a pair of calls and leave both out.
void use_family() {
  void *volatile block = std::malloc(100);
  if (block == nullptr) fail("malloc");
  std::memset(block, 1, 100);
  block = std::realloc(block, 100000);
  if (block == nullptr || static_cast<char *>(block)[99] != 1) fail("realloc");
  std::free(block);
  block = std::calloc(1000, 10);
  if (block == nullptr || static_cast<char *>(block)[9999] != 0) fail("calloc");
  std::free(block);
  if (is_used("aligned_alloc")) {
    block = std::aligned_alloc(256, 1024);
    if (block == nullptr || reinterpret_cast<std::size_t>(block) % 256 != 0) fail("aligned_alloc");
    std::free(block);
  }
  block = ::operator new(1000);
  if (malloc_usable_size(block) < 1000) fail("malloc_usable_size of a block from operator new");
  ::operator delete(block);
  if (is_used("posix_memalign")) {
    void *page = nullptr;
    if (posix_memalign(&page, 4096, 100) != 0 || reinterpret_cast<std::size_t>(page) % 4096 != 0) {
      fail("posix_memalign");
    }
    std::free(page);
  }
}

} // namespace

int main(int, char **arguments) {
  spared = arguments + 1;
  use_family();
  std::thread(use_family).join();
  std::printf("{");
  say("malloc", std::malloc);
  say("free", std::free);
  say("calloc", std::calloc);
  say("realloc", std::realloc);
  say("aligned_alloc", aligned_alloc);
  say("posix_memalign", posix_memalign);
  say("operator new", static_cast<void *(*)(std::size_t)>(::operator new));
  say("operator delete", static_cast<void (*)(void *) noexcept>(::operator delete));
  say_version();
  void *active = dlsym(RTLD_DEFAULT, "MallocExtension_Internal_GetPerCpuCachesActive");
  const char *mode = "null";
  if (active != nullptr) mode = reinterpret_cast<bool (*)()>(active)() ? "true" : "false";
  std::printf("\"per-CPU mode\": %s}\n", mode);
  return 0;
}
