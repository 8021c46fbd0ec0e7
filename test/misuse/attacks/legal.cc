/* legal.cc - a long random program that makes no mistake: no check of misuse may end it
 *
 *   legal SEED CALLS
 *
 * Each of THREADS threads replaces random blocks of 0 bytes to 4 MiB: by every call that allocates,
 * and every call that may free such a block. It reads and writes all of a block, up to its usable
 * size, and finds what it wrote. Blocks change hands between threads. Now and then a child of fork
 * goes on for a while. */
#define TEST_WITHOUT_MAIN
#include "../../system/entry.h"

#include <atomic>
#include <cstdint>
#include <new>

namespace {

using align = std::align_val_t;
enum { THREADS = 4, RECORDS = 48, EXCHANGED = 16 };
enum kind { MALLOC, ALIGNED, MEMALIGN, NEW, NEW_ARRAY, NEW_ALIGNED, NEW_ARRAY_ALIGNED, KINDS };

struct record {
  char *p;
  std::size_t size, alignment;
  kind how;
  std::uint64_t seed;
};
record records[THREADS * RECORDS + EXCHANGED];
std::atomic<record *> exchange[EXCHANGED];
record *owned[THREADS][RECORDS]; /* by a thread, whichever number it has in `records` */
std::uint64_t first_seed;
unsigned calls;

std::size_t any_size(std::uint64_t *state) {
  std::uint64_t bits = random_next(state) % 24; /* 23: no bytes */
  if (bits == 23) return 0;
  if (bits > 15 && random_next(state) % 8 > 0) bits -= 12;
  std::size_t size = (std::size_t{1} << bits) + random_next(state) % (std::size_t{1} << bits);
  return size < MiB_(4) ? size : MiB_(4);
}

char *of_malloc(record *r, std::uint64_t choice) {
  char *p;
  switch (choice % 6) {
    case 0:
      p = static_cast<char *>(calloc(launder_size(1), r->size));
      for (std::size_t i = 0; i < r->size; i++) CHECK_EQ(p[i], 0);
      return p;
    case 1: return static_cast<char *>(realloc(launder(nullptr), r->size));
    case 2: return static_cast<char *>(reallocarray(launder(nullptr), r->size, launder_size(1)));
    default: return static_cast<char *>(malloc(launder_size(r->size)));
  }
}
char *of_memalign(record *r, std::uint64_t choice) {
  void *p = nullptr;
  switch (choice % 4) {
    case 0: r->alignment = page_size(); return static_cast<char *>(valloc(r->size));
    case 1: r->alignment = page_size(); return static_cast<char *>(pvalloc(r->size));
    case 2: return static_cast<char *>(memalign(r->alignment, r->size));
    default: CHECK_EQ(posix_memalign(&p, r->alignment, r->size), 0); return static_cast<char *>(p);
  }
}
char *of_new(record *r, std::uint64_t choice) {
  bool nothrow = choice % 4 == 0;
  align a = align(r->alignment);
  void *p;
  switch (r->how) {
    case NEW: p = nothrow ? ::operator new(r->size, std::nothrow) : ::operator new(r->size); break;
    case NEW_ARRAY:
      p = nothrow ? ::operator new[](r->size, std::nothrow) : ::operator new[](r->size);
      break;
    case NEW_ALIGNED:
      p = nothrow ? ::operator new(r->size, a, std::nothrow) : ::operator new(r->size, a);
      break;
    default:
      p = nothrow ? ::operator new[](r->size, a, std::nothrow) : ::operator new[](r->size, a);
  }
  return static_cast<char *>(p);
}

/* All of it may be written, what lies behind the asked size too. */
void write_all(record *r) {
  std::size_t usable = malloc_usable_size(r->p);
  CHECK_GE(usable, r->size);
  if (usable > r->size) memset(r->p + r->size, 'U', usable - r->size);
  stamp(r->p, r->size, r->seed);
}
void allocate(record *r, std::uint64_t *state) {
  r->size = any_size(state);
  r->how = random_next(state) % 3 > 0 ? MALLOC : static_cast<kind>(random_next(state) % KINDS);
  r->alignment = std::size_t{16} << random_next(state) % (random_next(state) % 16 == 0 ? 13 : 5);
  r->seed = random_next(state);
  std::uint64_t choice = random_next(state);
  if (r->how == ALIGNED) {
    r->size = (r->size + r->alignment - 1) / r->alignment * r->alignment;
    r->p = static_cast<char *>(aligned_alloc(r->alignment, r->size));
  } else if (r->how == MALLOC) {
    r->p = of_malloc(r, choice);
    r->alignment = r->size < 16 ? 1 : 16;
  } else {
    r->p = r->how == MEMALIGN ? of_memalign(r, choice) : of_new(r, choice);
  }
  if (r->how == NEW || r->how == NEW_ARRAY) r->alignment = r->size < 16 ? 1 : 16;
  if (r->p == nullptr && r->size == 0) return; /* as the C standard allows */
  CHECK(r->p != nullptr);
  CHECK_EQ(reinterpret_cast<std::uintptr_t>(r->p) % r->alignment, 0u);
  write_all(r);
}

void free_by_c(record *r, std::uint64_t choice) {
  if (r->how == MALLOC && free_sized != nullptr && choice % 4 == 0) {
    free_sized(r->p, r->size);
  } else if (r->how == ALIGNED && free_aligned_sized != nullptr && choice % 2 == 0) {
    free_aligned_sized(r->p, r->alignment, r->size);
  } else {
    free(r->p);
  }
}
void free_by_delete(record *r, std::uint64_t choice) {
  align a = align(r->alignment);
  bool sized = choice % 2 == 0;
  switch (r->how) {
    case NEW: sized ? ::operator delete(r->p, r->size) : ::operator delete(r->p); break;
    case NEW_ARRAY: sized ? ::operator delete[](r->p, r->size) : ::operator delete[](r->p); break;
    case NEW_ALIGNED:
      sized ? ::operator delete(r->p, r->size, a) : ::operator delete(r->p, a);
      break;
    default: sized ? ::operator delete[](r->p, r->size, a) : ::operator delete[](r->p, a);
  }
}
void release(record *r, std::uint64_t *state) {
  if (r->p != nullptr) {
    CHECK(is_stamped(r->p, r->size, r->seed));
    std::uint64_t choice = random_next(state);
    if (r->how <= MEMALIGN) free_by_c(r, choice);
    else free_by_delete(r, choice);
  }
  r->p = nullptr;
}
void resize(record *r, std::uint64_t *state) {
  if (r->how > MEMALIGN || r->p == nullptr) return;
  CHECK(is_stamped(r->p, r->size, r->seed));
  std::size_t size = random_next(state) % 2 == 0 ? any_size(state) : r->size + r->size / 8 + 1;
  if (size == 0 || size > MiB_(4)) size = 1;
  char *p = random_next(state) % 4 == 0
              ? static_cast<char *>(reallocarray(r->p, launder_size(size), 1))
              : static_cast<char *>(realloc(r->p, launder_size(size)));
  CHECK(p != nullptr);
  CHECK(is_prefix_stamped(p, size < r->size ? size : r->size, r->size, r->seed));
  r->p = p;
  r->size = size;
  r->how = MALLOC;
  r->alignment = size < 16 ? 1 : 16;
  write_all(r);
}

void step(record **mine, std::uint64_t *state, bool shares) {
  unsigned k = random_next(state) % RECORDS;
  if (shares && random_next(state) % 4 == 0)
    mine[k] = exchange[random_next(state) % EXCHANGED].exchange(mine[k]);
  if (random_next(state) % 3 == 0) {
    resize(mine[k], state);
  } else {
    release(mine[k], state);
    allocate(mine[k], state);
  }
}
/* It frees blocks of its parent, and allocates. */
void in_a_child(record **mine, std::uint64_t state) {
  pid_t pid = fork();
  CHECK_GE(pid, 0);
  if (pid == 0) {
    for (int i = 0; i < 200; i++) step(mine, &state, false);
    _exit(0);
  }
  int status = 0;
  CHECK_EQ(waitpid(pid, &status, 0), pid);
  CHECK_EQ(status, 0);
}
void *body(void *number) {
  auto index = reinterpret_cast<std::uintptr_t>(number);
  std::uint64_t state = first_seed * 0x9E3779B97F4A7C15u + index * 0xD1B54A32D192ED03u + 1;
  record **mine = owned[index];
  for (unsigned i = 0; i < calls; i++) {
    step(mine, &state, true);
    if (i % (calls / 4 + 1) == calls / 8) in_a_child(mine, state);
  }
  for (unsigned i = 0; i < RECORDS; i++) release(mine[i], &state);
  return nullptr;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    test_say("legal SEED CALLS\n");
    return 3;
  }
  first_seed = strtoull(argv[1], nullptr, 10);
  calls = static_cast<unsigned>(strtoul(argv[2], nullptr, 10));
  for (unsigned i = 0; i < THREADS * RECORDS; i++) owned[i / RECORDS][i % RECORDS] = &records[i];
  for (unsigned i = 0; i < EXCHANGED; i++) exchange[i] = &records[THREADS * RECORDS + i];
  for (int round = 0; round < 3; round++) run_threads(THREADS, body);
  std::uint64_t state = first_seed + 1;
  for (auto &slot : exchange) release(slot, &state);
  CHECK_EQ(malloc_usable_size(nullptr), 0u);
  free(nullptr);
  ::operator delete(nullptr);
  return 0;
}
