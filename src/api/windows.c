/* windows.c - the C runtimes of a Windows process                                      layer 8: api
 * Owns:    the addresses of the runtimes' own functions.   Called by: the program, cold.c,
 *          closed.c, lifecycle.c.   Calls: the public functions, heap, os, ntdll, kernel32.
 * Threads: any. A runtime is only called for a block of its own heap; it takes its own locks there.
 * Sync:    none: the constructor writes the addresses before such a pointer can be met; each is one
 *          word. The loader lets in one thread at a time.
 *
 * Windows binds a name to one library: nothing in front of a runtime takes its place. So when the
 * shared library is loaded, each module gets our functions where it has imported a runtime's.
 * The runtimes' tables of exports lead to ours, too, for modules that come later. What a runtime
 * allocates for itself stays its own: a block of it that the program frees goes back to it. In a
 * program that is linked with the static library the order of linking decides. */
#if defined(_WIN32)
#include "api.h"

#include <errno.h>

#include "../os/nt.h"

NT_CALL int HeapValidate(handle_t heap, uint32_t flags, const void *p);

/* ---- the runtimes' other names --------------------------------------------------------------- */

/* Declared as the runtimes' headers do. */
FH_API size_t _msize(void *p);
FH_API void *_expand(void *p, size_t size);
FH_API void *_recalloc(void *p, size_t count, size_t size);
FH_API void *_aligned_malloc(size_t size, size_t alignment);
FH_API void *_aligned_realloc(void *p, size_t size, size_t alignment);
FH_API size_t _aligned_msize(void *p, size_t alignment, size_t offset);
FH_API void _aligned_free(void *p);

FH_API size_t _msize(void *p) { return api_usable_size(p, "_msize"); }
FH_API void *_expand(void *p, size_t size) { return fh_expand(p, size) ? p : NULL; }
FH_API void *_recalloc(void *p, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return api_no_memory();
  return fh_realloc_zeroed(p, p == NULL ? 0 : fh_usable_size(p), bytes);
}
FH_API void *_aligned_malloc(size_t size, size_t alignment) {
  return fh_aligned_alloc(alignment, size);
}
FH_API void *_aligned_realloc(void *p, size_t size, size_t alignment) {
  return fh_realloc_aligned(p, alignment, size);
}
FH_API size_t _aligned_msize(void *p, size_t alignment, size_t offset) {
  return (void)alignment, (void)offset, api_usable_size(p, "_aligned_msize");
}

/* A runtime's own aligned block lies inside of one of its others, and a word before it leads there:
 * theirs, where ours would have none. */
FH_API void _aligned_free(void *p) {
  if (p == NULL || !heap_is_foreign(p)) return api_free(p, "_aligned_free");
  const void *const *before = (const void *const *)align_down((uintptr_t)p - 8, 8);
  api_foreign_free((void *)(uintptr_t)*before, "_aligned_free");
}

/* Of each: its name, and ours. Who declares it as imported calls it by a word of that name; so the
 * program's linker needs no library of the runtime for either. */
#define RUNTIME_NAMES(X)                                                                           \
  X(malloc, fh_malloc)                                                                             \
  X(calloc, fh_calloc)                                                                             \
  X(realloc, fh_realloc)                                                                           \
  X(free, fh_free)                                                                                 \
  X(_msize, _msize)                                                                                \
  X(_expand, _expand)                                                                              \
  X(_recalloc, _recalloc)                                                                          \
  X(_aligned_malloc, _aligned_malloc)                                                              \
  X(_aligned_realloc, _aligned_realloc)                                                            \
  X(_aligned_msize, _aligned_msize)                                                                \
  X(_aligned_free, _aligned_free)
#define IMPORTED(name, ours)                                                                       \
  extern void *imported_##name __asm__("__imp_" #name);                                            \
  void *imported_##name = (void *)ours;
RUNTIME_NAMES(IMPORTED)

enum { NAMED_FREE = 3, NAMED_MSIZE, NAMES = 11, RUNTIMES_MOST = 8 };
#define NAME(name, ours) #name,
#define OURS(name, ours) (void *)ours,
static const char *const names[] = {RUNTIME_NAMES(NAME)};
static void *const ours[] = {RUNTIME_NAMES(OURS)};
_Static_assert(ARRAY_LENGTH(names) == NAMES, "each has its place");

/* Written by the constructor alone. */
typedef struct {
  char *base;
  handle_t (*heap)(void);
  void *theirs[NAMES]; /* NULL: it has no such function */
} runtime_t;
static runtime_t runtimes[RUNTIMES_MOST];
static size_t runtime_count;

/* ---- modules, as the loader has put them in memory ------------------------------------------- */

typedef struct module {
  struct module *next, *before;
  void *others[4];
  char *base;
} module_t;
enum { LOADER = 3, MODULES = 2 }; /* words of the process's and the loader's blocks */

static module_t *first_module(const module_t **end) {
  void **loader = ((void ***)nt_thread_word(NT_PROCESS_BLOCK))[LOADER];
  *end = (const module_t *)&loader[MODULES];
  return loader[MODULES];
}

/* Tables of a module; NULL: it has none. */
enum { TABLE_OF_EXPORTS, TABLE_OF_IMPORTS };
static void *table_of(char *base, int table) {
  enum { HEADERS_AT = 0x3c, TABLES_AT = 24 + 112 };
  const char *headers = base + *(uint32_t *)(base + HEADERS_AT);
  uint32_t at = ((const uint32_t *)(headers + TABLES_AT))[2 * table];
  return at == 0 ? NULL : base + at;
}

typedef struct {
  uint32_t unread[5], functions, named, addresses, names, ordinals; /* from the module's base */
} exports_t;

/* Where the table has the place of a function, from the module's base; NULL: it has none. */
static uint32_t *find_export(char *base, const char *name) {
  const exports_t *e = table_of(base, TABLE_OF_EXPORTS);
  const uint32_t *named = e == NULL ? NULL : (const uint32_t *)(base + e->names);
  size_t low = 0, high = e == NULL ? 0 : e->named;
  while (low < high) { /* Bound: half of the names each time */
    size_t middle = (low + high) / 2;
    int order = strcmp(name, base + named[middle]);
    if (order < 0) high = middle;
    else if (order > 0) low = middle + 1;
    else {
      const uint16_t *ordinals = (const uint16_t *)(base + e->ordinals);
      return (uint32_t *)(base + e->addresses) + ordinals[middle];
    }
  }
  return NULL;
}

static void *find_function(char *base, const char *name) {
  const uint32_t *place = find_export(base, name);
  return place == NULL ? NULL : base + *place;
}

/* It has the names of malloc and of the heap behind it; ours has not. */
static void note_runtime(char *base) {
  handle_t (*heap)(void) = (handle_t(*)(void))find_function(base, "_get_heap_handle");
  if (heap == NULL || runtime_count == RUNTIMES_MOST || find_export(base, "malloc") == NULL) return;
  runtime_t *r = &runtimes[runtime_count];
  for (size_t i = 0; i < NAMES; i++) r->theirs[i] = find_function(base, names[i]);
  r->base = base, r->heap = heap;
  runtime_count++;
}

/* ---- taking their place ---------------------------------------------------------------------- */

/* False: the system does not let us. */
static bool write_there(void *to, const void *from, size_t size) {
  void *at = to;
  size_t pages = size;
  uint32_t before;
  if (NtProtectVirtualMemory(NT_SELF, &at, &pages, PAGE_READWRITE, &before) < 0) return false;
  memcpy(to, from, size); /* one word, which no thread sees half of */
  NtProtectVirtualMemory(NT_SELF, &at, &pages, before, &before);
  return true;
}

static void *replacement_of(const void *function) {
  for (size_t r = 0; r < runtime_count; r++)
    for (size_t i = 0; i < NAMES; i++)
      if (function == runtimes[r].theirs[i]) return ours[i];
  return NULL;
}

typedef struct {
  uint32_t unread[4], functions; /* from the module's base; 0: the end of the table */
} imports_t;

static void replace_imports(char *base) {
  const imports_t *m = table_of(base, TABLE_OF_IMPORTS);
  for (; m != NULL && m->functions != 0; m++) /* Bound: what it imports */
    for (void **f = (void **)(base + m->functions); *f != NULL; f++) {
      void *function = replacement_of(*f);
      if (function != NULL) write_there(f, &function, sizeof function);
    }
}

/* A table of exports has 32 bits for how far a function is behind the module's base: so there a
 * page gets a jump for each. NULL: no such page is free. */
static char *map_behind(char *base) {
  enum { STEP = 64 << 10 };
  for (size_t far = MiB(1); far < GiB(4) - STEP; far += STEP) {
    void *at = base + far;
    size_t size = STEP;
    if (NtAllocateVirtualMemory(NT_SELF, &at, 0, &size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) >=
        0)
      return at;
  }
  return NULL;
}

static void replace_exports(const runtime_t *r) {
  enum { JUMP = 16, EXECUTE_READ = 0x20 };
  char *page = map_behind(r->base);
  void *at = page;
  size_t size = NAMES * JUMP;
  uint32_t before;
  if (page == NULL) return;
  for (size_t i = 0; i < NAMES; i++) {
    memcpy(page + i * JUMP, "\x48\xb8", 2); /* movabs $ours, %rax */
    memcpy(page + i * JUMP + 2, &ours[i], sizeof ours[i]);
    memcpy(page + i * JUMP + 10, "\xff\xe0", 2); /* jmp *%rax */
  }
  if (NtProtectVirtualMemory(NT_SELF, &at, &size, EXECUTE_READ, &before) < 0) return;
  for (size_t i = 0; i < NAMES; i++) {
    uint32_t *place = find_export(r->base, names[i]);
    uint32_t jump = (uint32_t)(page + i * JUMP - r->base);
    if (place != NULL) write_there(place, &jump, sizeof jump);
  }
}

/* Modules that hold a runtime in themselves import none. A later runtime is not known. */
void api_foreign_start(void) {
  const module_t *end;
  /* Bound: the modules */
  for (module_t *m = first_module(&end); m != end; m = m->next) note_runtime(m->base);
#if defined(FH_SHARED)
  /* Bound: likewise */
  for (module_t *m = first_module(&end); m != end; m = m->next) replace_imports(m->base);
  for (size_t r = 0; r < runtime_count; r++) replace_exports(&runtimes[r]);
#endif
}

/* C++ has its operators call malloc and free. */
void api_operators_start(void) {}

/* ---- pointers that are not ours -------------------------------------------------------------- */

/* Whose heap it is in; `fatal` if in none. */
static const runtime_t *runtime_of(const void *p, const char *call) {
  api_start();
  for (size_t r = 0; r < runtime_count; r++)
    if (HeapValidate(runtimes[r].heap(), 0, p)) return &runtimes[r];
  fatal("invalid pointer", p, call);
}

out_of_line void api_foreign_free(void *p, const char *call) {
  ((void (*)(void *))runtime_of(p, call)->theirs[NAMED_FREE])(p);
}

out_of_line size_t api_foreign_size(const void *p, const char *call) {
  return ((size_t(*)(const void *))runtime_of(p, call)->theirs[NAMED_MSIZE])(p);
}

void *api_foreign_move(void *p, void *block, size_t size, const char *call) {
  size_t old_size = api_foreign_size(p, call);
  if (block == NULL) return NULL;
  memcpy(block, p, min_size(size, old_size));
  api_foreign_free(p, call);
  return block;
}
#endif
