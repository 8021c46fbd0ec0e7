/* newdelete.cc - operator new and delete in their forms, aligned_alloc, posix_memalign */
#include <new>

#include "bench.h"

namespace {

enum { SLOTS_MOST = 1 << 20 };

const char *form = "sized";
long pairs = 10000000, slots = 1000, low = 16, high = 256, alignment = 64;

struct slot_t {
  void *block;
  size_t size;
};

/* A form is a type, so that its calls stand in the loop directly. */
struct plain_form {
  static void *allocate(size_t size) { return ::operator new(size); }
  static void release(void *p, size_t) { ::operator delete(p); }
};

struct sized_form {
  static void *allocate(size_t size) { return ::operator new(size); }
  static void release(void *p, size_t size) { ::operator delete(p, size); }
};

struct array_form {
  static void *allocate(size_t size) { return ::operator new[](size); }
  static void release(void *p, size_t size) { ::operator delete[](p, size); }
};

struct aligned_form {
  static void *allocate(size_t size) { return ::operator new(size, std::align_val_t(alignment)); }
  static void release(void *p, size_t size) {
    ::operator delete(p, size, std::align_val_t(alignment));
  }
};

struct aligned_alloc_form {
  static void *allocate(size_t size) {
    size_t rounded = (size + (size_t)alignment - 1) & -(size_t)alignment;
    return aligned_alloc((size_t)alignment, rounded);
  }
  static void release(void *p, size_t) { free(p); }
};

struct posix_memalign_form {
  static void *allocate(size_t size) {
    void *p = NULL;
    return posix_memalign(&p, (size_t)alignment, size) == 0 ? p : NULL;
  }
  static void release(void *p, size_t) { free(p); }
};

template <typename Form> void slot_fill(slot_t &slot, bench_rng_t *rng) {
  slot.size = bench_between(rng, low, high);
  slot.block = Form::allocate(slot.size);
  if (slot.block == NULL) bench_fail(BENCH_NO_MEMORY, "no block of %zu bytes", slot.size);
  bench_touch(slot.block);
}

template <typename Form> mark_t form_run(slot_t *table) {
  bench_rng_t rng = bench_seed(0);
  for (long i = 0; i < slots; i++) slot_fill<Form>(table[i], &rng);
  mark_t start = mark_now();
  for (long i = 0; i < pairs; i++) {
    slot_t &slot = table[bench_below(&rng, (uint32_t)slots)];
    Form::release(slot.block, slot.size);
    slot_fill<Form>(slot, &rng);
  }
  return mark_between(start, mark_now());
}

const struct {
  const char *name;
  mark_t (*run)(slot_t *table);
} forms[] = {
  {"plain", form_run<plain_form>},
  {"sized", form_run<sized_form>},
  {"array", form_run<array_form>},
  {"aligned", form_run<aligned_form>},
  {"aligned_alloc", form_run<aligned_alloc_form>},
  {"posix_memalign", form_run<posix_memalign_form>},
};

bench_option_t options[] = {
  BENCH_WORD("form", form, "plain|sized|array|aligned|aligned_alloc|posix_memalign",
             "which functions"),
  BENCH_NUMBER("pairs", pairs, 1, LONG_MAX / 2, "replacements"),
  BENCH_NUMBER("slots", slots, 1, SLOTS_MOST, "blocks alive at a time"),
  BENCH_NUMBER("low", low, 8, 1 << 20, "smallest block"),
  BENCH_NUMBER("high", high, 8, 1 << 20, "largest block"),
  BENCH_NUMBER("alignment", alignment, 8, 1 << 20, "of the aligned forms, a power of two"),
  BENCH_SEED,
  BENCH_END,
};

const bench_program_t program = {
  .name = "newdelete",
  .about =
    "blocks replaced at random, by one form of allocation and deallocation\n\n"
    "plain: operator new, and delete without a size; sized: delete with the size, as compilers\n"
    "call it for complete types; array: new[] and sized delete[]; aligned: new and sized delete\n"
    "with an alignment; aligned_alloc (sizes rounded up to the alignment) and posix_memalign with\n"
    "free. Uniformly random sizes; the first bytes are written. Definition: freehold's own.",
  .operation = "pairs of allocation and deallocation",
  .example = "newdelete --form aligned --alignment 4096",
  .options = options,
};

} // namespace

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  bench_check_order("low", low, "high", high);
  if (!is_power_of_two(alignment)) {
    bench_fail(BENCH_USAGE, "--alignment %ld: want a power of two", alignment);
  }
  size_t which = 0;
  while (strcmp(forms[which].name, form) != 0) which++;
  mark_t spent = forms[which].run((slot_t *)bench_pages((size_t)slots * sizeof(slot_t), true));
  json_start(&program);
  json_elapsed(mark_t{}, spent, pairs);
  json_costs();
  json_end();
  return BENCH_OK;
}
