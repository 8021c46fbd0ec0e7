/* whose.c - which library do malloc and its family come from in this process? */
#include "bench.h"

static const char *const names[] = {
  "free",           "calloc",             "realloc", "aligned_alloc",
  "posix_memalign", "malloc_usable_size", "_Znwm",   "_ZdlPv",
};

static bench_option_t options[] = {BENCH_END};

static const bench_program_t program = {
  .name = "whose",
  .about = "says for malloc and its family which file each is taken from\n\n"
  "Asked before anything is measured: a library that cannot be preloaded is ignored with a\n"
  "warning, and libc would be measured under its name. `_Znwm` and `_ZdlPv` are operator new\n"
  "and delete. Definition: freehold's own.",
  .operation = "nothing",
  .example = "LD_PRELOAD=libjemalloc.so.2 whose",
  .options = options,
};

int main(int count, char **arguments) {
  bench_start(count, arguments, &program);
  void *volatile p = bench_malloc(100);
  p = realloc(p, 1000);
  if (p == NULL) bench_fail(BENCH_NO_MEMORY, "realloc failed");
  free(p);
  json_start(&program);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *address = dlsym(RTLD_DEFAULT, names[i]);
    json_text(names[i], address == NULL ? "" : bench_origin(address));
  }
  json_end();
  return BENCH_OK;
}
