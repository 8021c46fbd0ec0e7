/* windows.c - the C runtimes of a Windows process                                      layer 8: api
 * Owns:    the addresses of the runtimes' own functions.   Called by: the program, cold.c,
 *          closed.c, lifecycle.c.   Calls: the public functions, heap, os, ntdll, kernel32.
 * Threads: any. We call a runtime only for a block of its own heap; it takes its own locks there.
 * Sync:    S-runtime  note_runtime (release) -> count_runtimes (acquire): what is known of a
 *                     runtime. The loader lets in one thread at a time, which writes it.
 *
 * Windows binds a name to one library: nothing can take a runtime's place by coming first. So when
 * the shared library is loaded, each module gets our functions where it has imported a runtime's.
 * The runtimes' export tables lead to ours, too, for later modules. The loader reports each new
 * module, which may be a runtime. A runtime keeps the blocks that it allocates for itself: one that
 * the program frees goes back to it. In a program linked with the static library the order of
 * linking decides. */
#if defined(_WIN32)
#include "api.h"

#include <errno.h>

#include "../os/windows/nt.h"

#if defined(FH_SHARED)
enum { TAKES_PLACE = true };
#else
enum { TAKES_PLACE = false };
#endif

NT_CALL int HeapValidate(handle_t heap, uint32_t flags, const void *p);

/* ---- the runtimes' other names --------------------------------------------------------------- */

/* Declared as the runtimes' headers do. */
FH_API size_t _msize(void *p);
FH_API void *_expand(void *p, size_t size);
FH_API void *_recalloc(void *p, size_t count, size_t size);
FH_API void *_aligned_malloc(size_t size, size_t alignment);
FH_API void *_aligned_realloc(void *p, size_t size, size_t alignment);
FH_API void *_aligned_recalloc(void *p, size_t count, size_t size, size_t alignment);
FH_API size_t _aligned_msize(void *p, size_t alignment, size_t offset);
FH_API void _aligned_free(void *p);

FH_API size_t _msize(void *p) { return api_usable_size(p, "_msize"); }
FH_API void *_expand(void *p, size_t size) { return fh_expand(p, size) ? p : NULL; }
FH_API void *_recalloc(void *p, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return api_no_memory_for(SIZE_MAX, "_recalloc");
  return fh_realloc_zeroed(p, p == NULL ? 0 : fh_usable_size(p), bytes);
}
FH_API void *_aligned_malloc(size_t size, size_t alignment) {
  return fh_aligned_alloc(alignment, size);
}

/* A runtime's own aligned block lies inside another of its blocks, and a word before it leads
 * there. Our blocks have no such word. */
static char *whole_of(const void *p) {
  return *(char *const *)align_down((uintptr_t)p - sizeof p, sizeof p);
}
static bool is_theirs(const void *p) { return p != NULL && heap_is_foreign(p); }

FH_API void _aligned_free(void *p) {
  if (!is_theirs(p)) api_free(p, "_aligned_free");
  else api_foreign_free(whole_of(p), "_aligned_free");
}
FH_API size_t _aligned_msize(void *p, size_t alignment, size_t offset) {
  const char *call = "_aligned_msize";
  (void)alignment, (void)offset;
  if (!is_theirs(p)) return api_usable_size(p, call);
  return api_foreign_size(whole_of(p), call) - (size_t)((char *)p - whole_of(p));
}
FH_API void *_aligned_realloc(void *p, size_t size, size_t alignment) {
  if (!is_theirs(p)) return fh_realloc_aligned(p, alignment, size);
  void *block = size == 0 ? NULL : fh_aligned_alloc(alignment, size);
  if (block == NULL && size != 0) return NULL;
  if (block != NULL) memcpy(block, p, min_size(size, _aligned_msize(p, alignment, 0)));
  return _aligned_free(p), block;
}
FH_API void *_aligned_recalloc(void *p, size_t count, size_t size, size_t alignment) {
  size_t bytes, before = _aligned_msize(p, alignment, 0);
  if (__builtin_mul_overflow(count, size, &bytes))
    return api_no_memory_for(SIZE_MAX, "_aligned_recalloc");
  char *block = _aligned_realloc(p, bytes, alignment);
  if (block != NULL && bytes > before) memset(block + before, 0, bytes - before);
  return block;
}

/* For each: its name, and ours. A caller that declares it as imported calls it by a word of that
 * name. So the program's linker needs no library of the runtime for either. */
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
  X(_aligned_recalloc, _aligned_recalloc)                                                          \
  X(_aligned_msize, _aligned_msize)                                                                \
  X(_aligned_free, _aligned_free)
#define IMPORTED(name, ours)                                                                       \
  extern void *imported_##name __asm__("__imp_" #name);                                            \
  void *imported_##name = (void *)ours;
RUNTIME_NAMES(IMPORTED)

enum { NAMED_FREE = 3, NAMED_MSIZE, NAMES = 12, RUNTIMES_MOST = 8 };
#define NAME(name, ours) #name,
#define REPLACEMENT(name, ours) (void *)ours,
static const char *const names[] = {RUNTIME_NAMES(NAME)};
static void *const ours[] = {RUNTIME_NAMES(REPLACEMENT)};
_Static_assert(ARRAY_LENGTH(names) == NAMES, "each has its place");

typedef struct {
  char *base;
  handle_t (*heap)(void);
  void *theirs[NAMES]; /* NULL: the runtime has no such function */
} runtime_t;
static runtime_t runtimes[RUNTIMES_MOST];
static atomic64_t runtime_count;
static size_t count_runtimes(void) { return atomic64_load_acquire(&runtime_count); /* S-runtime */ }

/* ---- modules, as the loader has put them in memory ------------------------------------------- */

typedef struct module {
  struct module *next, *before;
  void *others[4];
  char *base;
} module_t;
enum { LOADER = 3, MODULES = 2 }; /* words in the process's and the loader's blocks */

static module_t *first_module(const module_t **end) {
  void **loader = ((void ***)nt_thread_word(NT_PROCESS_BLOCK))[LOADER];
  *end = (const module_t *)&loader[MODULES];
  return loader[MODULES];
}

/* Where a module has a table, from its base; 0: it has none. */
enum { TABLE_OF_EXPORTS, TABLE_OF_IMPORTS };
typedef struct {
  uint32_t at, size;
} module_table_t;
static module_table_t table_of(const char *base, int table) {
  enum { HEADERS_AT = 0x3c, TABLES_AT = 24 + 112 };
  const char *headers = base + *(const uint32_t *)(base + HEADERS_AT);
  return ((const module_table_t *)(headers + TABLES_AT))[table];
}

typedef struct {
  uint32_t unread[5], functions, named, addresses, names, ordinals; /* from the module's base */
} exports_t;

/* Where the table has the place of a function, from the module's base; NULL: it has none. */
static uint32_t *find_export(char *base, const char *name) {
  uint32_t at = table_of(base, TABLE_OF_EXPORTS).at;
  const exports_t *e = (const exports_t *)(base + at);
  const uint32_t *named = (const uint32_t *)(base + (at == 0 ? 0 : e->names));
  size_t low = 0, high = at == 0 ? 0 : e->named;
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

/* NULL also if the table names another module that has it. */
static void *find_function(char *base, const char *name) {
  const uint32_t *entry = find_export(base, name);
  module_table_t exports = table_of(base, TABLE_OF_EXPORTS);
  return entry == NULL || *entry - exports.at < exports.size ? NULL : base + *entry;
}

/* True: the module is a new runtime. It exports malloc and, unlike our library, the heap behind it.
 * A runtime that checks each block's kind keeps its malloc. A runtime stays loaded from now on,
 * since the program may have blocks of it. */
static bool note_runtime(char *base) {
  handle_t (*heap)(void) = (handle_t(*)(void))find_function(base, "_get_heap_handle");
  size_t count = count_runtimes();
  if (heap == NULL || find_function(base, "malloc") == NULL) return false;
  if (count == RUNTIMES_MOST || find_export(base, "_free_dbg") != NULL) return false;
  runtime_t *r = &runtimes[count];
  for (size_t i = 0; i < NAMES; i++) r->theirs[i] = find_function(base, names[i]);
  r->base = base, r->heap = heap;
  LdrAddRefDll(LOADED_FOR_EVER, base);
  atomic64_store_release(&runtime_count, count + 1); /* S-runtime */
  return true;
}

/* ---- taking their place ---------------------------------------------------------------------- */

/* False: the system does not let us. */
static bool write_there(void *to, const void *from, size_t size) {
  void *at = to;
  size_t pages = size;
  uint32_t before;
  if (NtProtectVirtualMemory(NT_SELF, &at, &pages, PAGE_READWRITE, &before) < 0) return false;
  memcpy(to, from, size); /* one word, so no thread sees half of it */
  NtProtectVirtualMemory(NT_SELF, &at, &pages, before, &before);
  return true;
}

static void *replacement_of(const void *function) {
  for (size_t r = 0, n = count_runtimes(); r < n; r++)
    for (size_t i = 0; i < NAMES; i++)
      if (function == runtimes[r].theirs[i]) return ours[i];
  return NULL;
}

typedef struct {
  uint32_t unread[4], functions; /* from the module's base; 0: the end of the table */
} imports_t;

static void replace_imports(char *base) {
  uint32_t at = table_of(base, TABLE_OF_IMPORTS).at;
  const imports_t *m = (const imports_t *)(base + at);
  for (; at != 0 && m->functions != 0; m++) /* Bound: the module's imports */
    for (void **f = (void **)(base + m->functions); *f != NULL; f++) {
      void *function = replacement_of(*f);
      if (function != NULL) write_there(f, &function, sizeof function);
    }
}

/* An export table has 32 bits for a function's distance from the module's base. So a page within
 * that distance gets a jump for each function. NULL: no such page is free. */
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
    uint32_t *entry = find_export(r->base, names[i]);
    uint32_t jump = (uint32_t)(page + i * JUMP - r->base);
    if (entry != NULL) write_there(entry, &jump, sizeof jump);
  }
}

/* For new modules: others may have been bound to a runtime before the loader reports it. */
static void take_module(char *base) {
  const module_t *end;
  bool is_new = note_runtime(base);
  if (!TAKES_PLACE) return;
  replace_imports(base);
  if (is_new) replace_exports(&runtimes[count_runtimes() - 1]);
  for (module_t *m = first_module(&end); is_new && m != end; m = m->next) /* Bound: the modules */
    replace_imports(m->base);
}

static void on_module(uint32_t reason, const nt_loaded_t *module, void *context) {
  enum { IS_LOADED = 1 };
  (void)context;
  if (reason == IS_LOADED) take_module(module->base);
}

/* Modules that contain a runtime import none. We stay loaded, too: our functions are in use. */
void api_foreign_start(void) {
  extern char own_base[] __asm__("__ImageBase");
  const module_t *end;
  void *cookie;
  LdrAddRefDll(LOADED_FOR_EVER, own_base);
  /* Bound: the modules */
  for (module_t *m = first_module(&end); m != end; m = m->next) take_module(m->base);
  LdrRegisterDllNotification(0, on_module, NULL, &cookie);
}

/* C++ has its operators call malloc and free. */
void api_operators_start(void) {}

/* ---- pointers that are not ours -------------------------------------------------------------- */

/* The runtime in whose heap `p` is; `fatal` if there is none. */
static const runtime_t *runtime_of(const void *p, const char *call) {
  api_start();
  for (size_t r = 0, n = count_runtimes(); r < n; r++)
    if (HeapValidate(runtimes[r].heap(), 0, p)) return &runtimes[r];
  fatal("invalid pointer", p, call);
}

out_of_line void api_foreign_free(void *p, const char *call) {
  ((void (*)(void *))runtime_of(p, call)->theirs[NAMED_FREE])(p);
}

out_of_line size_t api_foreign_size(const void *p, const char *call) {
  return ((size_t(*)(const void *))runtime_of(p, call)->theirs[NAMED_MSIZE])(p);
}
#endif
