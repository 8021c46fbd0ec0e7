/* attacks_new.cc - the attacks that need C++: attack.h says how a case ends */
#include "attack.h"

#include <new>

namespace {

using align = std::align_val_t;

void *plain(std::size_t n) { return ::operator new(n); }
void *array(std::size_t n) { return ::operator new[](n); }
void *aligned(std::size_t n) { return ::operator new(n, align(64)); }

/* ---- overflow and use after delete ----------------------------------------------------------- */

void overflow(const attack_t *a, std::size_t n) {
  set_up_by(array, n);
  write_bad(victim + n, a->by, LOOP);
  if (a->after == FREE) ::operator delete[](victim);
  if (a->after == NEIGHBOUR) ::operator delete[](NEXT);
  if (a->after == CALLS) work_on(n, 64);
}
void underflow(const attack_t *a, std::size_t n) {
  set_up_by(array, n);
  write_bad_before(victim, a->by, LOOP);
  ::operator delete[](a->after == FREE ? victim : PREVIOUS);
}
void double_delete(const attack_t *a, std::size_t n) {
  set_up_by(a->how == 0 ? plain : array, n);
  if (a->how == 0) {
    ::operator delete(victim);
    ::operator delete(launder(victim));
  } else {
    ::operator delete[](victim);
    ::operator delete[](launder(victim));
  }
}
void delete_interior(const attack_t *a, std::size_t n) {
  set_up_by(plain, n);
  ::operator delete(launder(victim + a->by));
}

struct speaker {
  virtual int speak() { return 1; }
};
/* The object's first word says what its functions are. */
void virtual_call(const attack_t *a, std::size_t n) {
  set_up_by(plain, n);
  auto *object = new (victim) speaker;
  ::operator delete(victim);
  if (a->after == CALLS) work_on(n, 64);
  end_if_gained(static_cast<speaker *>(launder(object))->speak() == 1);
}

/* ---- the wrong kind, the wrong size ---------------------------------------------------------- */

struct cleaned { /* its arrays begin with their length */
  ~cleaned() {
    volatile char gone = 0, done = gone;
    (void)done;
  }
  char bytes[8];
};

void wrong_kind(const attack_t *a, std::size_t n) {
  switch (a->how) {
    case 0:
      set_up(n);
      ::operator delete(victim);
      break;
    case 1:
      set_up(n);
      ::operator delete[](victim);
      break;
    case 2:
      set_up_by(plain, n);
      free(victim);
      break;
    case 3:
      set_up_by(array, n);
      free(victim);
      break;
    case 4:
      set_up_by(array, n);
      ::operator delete(victim);
      break;
    case 5:
      set_up_by(plain, n);
      ::operator delete[](victim);
      break;
    case 6:
      set_up_by(aligned, n);
      ::operator delete(victim);
      break;
    case 7:
      set_up_by(plain, n);
      ::operator delete(victim, align(64));
      break;
    case 8:
      set_up_by(aligned, n);
      ::operator delete(victim, align(4096));
      break;
    case 9:
      set_up_by(aligned, n);
      free(victim);
      break;
    case 10:
      set_up_by(plain, n);
      got(realloc(victim, n * 2));
      break;
    default:
      set_up(n);
      auto *objects = new cleaned[launder_size(n / 8)];
      delete static_cast<cleaned *>(launder(objects));
  }
}
std::size_t wrong(std::size_t n, std::size_t by) {
  return by == 0 ? n - 1 : by == 1 ? n / 2 : n * 2;
}
void wrong_size(const attack_t *a, std::size_t n) {
  std::size_t size = launder_size(wrong(n, a->by));
  if (a->how == 0) {
    set_up_by(plain, n);
    ::operator delete(victim, size);
  } else if (a->how == 1) {
    set_up_by(array, n);
    ::operator delete[](victim, size);
  } else {
    set_up_by(aligned, n);
    ::operator delete(victim, size, align(64));
  }
}

/* ---- no bytes, too many ---------------------------------------------------------------------- */

char *of_no_bytes(int how) {
  std::size_t none = launder_size(0);
  return static_cast<char *>(how == 0 ? ::operator new(none) : ::operator new[](none));
}
void zero_read(const attack_t *a, std::size_t) {
  char *p = of_no_bytes(a->how);
  (void)*static_cast<volatile char *>(launder(p));
}
void zero_write(const attack_t *a, std::size_t) {
  char *p = of_no_bytes(a->how);
  *static_cast<volatile char *>(launder(p)) = BAD;
}
void zero_same(const attack_t *a, std::size_t) {
  char *p = of_no_bytes(a->how), *q = of_no_bytes(a->how);
  end_if_gained(p == q);
}
void too_large(const attack_t *a, std::size_t n) {
  void *p = nullptr;
  try {
    switch (a->how) {
      case 0: p = ::operator new(launder_size(static_cast<std::size_t>(PTRDIFF_MAX) + n)); break;
      case 1: p = ::operator new(launder_size(SIZE_MAX - n + 1)); break;
      case 2: p = new speaker[launder_size(SIZE_MAX / 8 + n)]; break;
      case 3: p = ::operator new(launder_size(SIZE_MAX - n + 1), align(64)); break;
      default: p = ::operator new(launder_size(SIZE_MAX - n + 1), std::nothrow);
    }
  } catch (const std::bad_alloc &) { prevented(); }
  end_if_gained(launder(p) != nullptr);
}

/* ---- the cases ------------------------------------------------------------------------------- */

const attack_t attacks[] = {
  {"new-overflow-1-free", overflow, 1, ANY, FREE},
  {"new-overflow-1-neighbour", overflow, 1, ANY, NEIGHBOUR},
  {"new-overflow-8-free", overflow, 8, ANY, FREE},
  {"new-overflow-8-neighbour", overflow, 8, ANY, NEIGHBOUR},
  {"new-overflow-32-free", overflow, 32, ANY, FREE},
  {"new-overflow-32-neighbour", overflow, 32, ANY, NEIGHBOUR},
  {"new-overflow-32-calls", overflow, 32, ANY, CALLS},
  {"new-underflow-8-free", underflow, 8, ANY, FREE},
  {"new-underflow-8-neighbour", underflow, 8, ANY, NEIGHBOUR},

  {"virtual-call-after-delete", virtual_call, 0, ANY, NOTHING},
  {"virtual-call-after-calls", virtual_call, 0, ANY, CALLS},

  {"double-delete", double_delete, 0, 0, NOTHING},
  {"double-delete-of-array", double_delete, 0, 1, NOTHING},
  {"delete-interior-8", delete_interior, 8, ANY, NOTHING},
  {"delete-interior-16", delete_interior, 16, ANY, NOTHING},

  {"delete-of-malloc", wrong_kind, 0, 0, NOTHING},
  {"delete-array-of-malloc", wrong_kind, 0, 1, NOTHING},
  {"free-of-new", wrong_kind, 0, 2, NOTHING},
  {"free-of-new-array", wrong_kind, 0, 3, NOTHING},
  {"delete-of-new-array", wrong_kind, 0, 4, NOTHING},
  {"delete-array-of-new", wrong_kind, 0, 5, NOTHING},
  {"delete-of-aligned-new", wrong_kind, 0, 6, NOTHING},
  {"delete-aligned-of-new", wrong_kind, 0, 7, NOTHING},
  {"delete-of-another-alignment", wrong_kind, 0, 8, NOTHING},
  {"free-of-aligned-new", wrong_kind, 0, 9, NOTHING},
  {"realloc-of-new", wrong_kind, 0, 10, NOTHING},
  {"delete-of-array-of-objects", wrong_kind, 0, 11, NOTHING},

  {"delete-size-same-class", wrong_size, 0, 0, NOTHING},
  {"delete-size-smaller", wrong_size, 1, 0, NOTHING},
  {"delete-size-larger", wrong_size, 2, 0, NOTHING},
  {"delete-array-size-smaller", wrong_size, 1, 1, NOTHING},
  {"delete-array-size-larger", wrong_size, 2, 1, NOTHING},
  {"delete-aligned-size-smaller", wrong_size, 1, 2, NOTHING},
  {"delete-aligned-size-larger", wrong_size, 2, 2, NOTHING},

  {"zero-new-read", zero_read, 0, 0, NOTHING},
  {"zero-new-write", zero_write, 0, 0, NOTHING},
  {"zero-new-same", zero_same, 0, 0, NOTHING},
  {"zero-new-array-read", zero_read, 0, 1, NOTHING},
  {"zero-new-array-write", zero_write, 0, 1, NOTHING},
  {"zero-new-array-same", zero_same, 0, 1, NOTHING},

  {"too-large-new", too_large, 0, 0, NOTHING},
  {"too-large-new-wraps", too_large, 0, 1, NOTHING},
  {"too-large-new-array-product", too_large, 0, 2, NOTHING},
  {"too-large-new-aligned-wraps", too_large, 0, 3, NOTHING},
  {"too-large-new-nothrow-wraps", too_large, 0, 4, NOTHING},
};

} // namespace

int main(int argc, char **argv) {
  return attack_main(argc, argv, attacks, sizeof attacks / sizeof attacks[0]);
}
