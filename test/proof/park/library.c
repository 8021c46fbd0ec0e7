/* library.c - the allocator under test: its functions, its text, and for freehold
 * its hidden symbols */
#include "park.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

api_t api;

static struct {
  const char *path;
  uintptr_t base, text_from, text_to;
} library;

/* ---- the file -------------------------------------------------------------------------------- */

typedef struct {
  unsigned char *bytes;
  size_t size;
} file_t;

static file_t map_file(const char *path) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &status) != 0) park_fail("cannot read %s", path);
  file_t f = {NULL, (size_t)status.st_size};
  f.bytes = mmap(NULL, f.size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (f.bytes == MAP_FAILED) park_fail("cannot map %s", path);
  close(fd);
  return f;
}

/* Makes the array of constructors empty. */
static void cut_constructors(file_t f) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)f.bytes;
  const Elf64_Phdr *part = (const Elf64_Phdr *)(f.bytes + head->e_phoff);
  for (int i = 0; i < head->e_phnum; i++) {
    if (part[i].p_type != PT_DYNAMIC) continue;
    for (Elf64_Dyn *d = (Elf64_Dyn *)(f.bytes + part[i].p_offset); d->d_tag != DT_NULL; d++)
      if (d->d_tag == DT_INIT_ARRAYSZ) d->d_un.d_val = 0;
  }
}

static const char *copy_without_start(const char *path) {
  static char copy[64];
  file_t f = map_file(path);
  cut_constructors(f);
  int fd = memfd_create("park", 0);
  if (fd < 0 || write(fd, f.bytes, f.size) != (ssize_t)f.size) park_fail("cannot copy %s", path);
  munmap(f.bytes, f.size);
  snprintf(copy, sizeof copy, "/proc/self/fd/%d", fd);
  return copy;
}

static const Elf64_Sym *find_symbol(file_t f, const char *name, unsigned type) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)f.bytes;
  const Elf64_Shdr *section = (const Elf64_Shdr *)(f.bytes + head->e_shoff);
  for (int i = 0; i < head->e_shnum; i++) {
    if (section[i].sh_type != SHT_SYMTAB) continue;
    const char *names = (const char *)f.bytes + section[section[i].sh_link].sh_offset;
    const Elf64_Sym *s = (const Elf64_Sym *)(f.bytes + section[i].sh_offset);
    for (size_t n = section[i].sh_size / sizeof *s; n > 0; n--, s++)
      if (ELF64_ST_TYPE(s->st_info) == type && strcmp(names + s->st_name, name) == 0) return s;
  }
  return NULL;
}

/* Mapped when it is first asked, and never unmapped: an operation may leave no room for it. */
static const Elf64_Sym *symbol(const char *name, unsigned type) {
  static file_t f;
  if (f.bytes == NULL) f = map_file(library.path);
  return find_symbol(f, name, type);
}

void *library_hidden(const char *name) {
  const Elf64_Sym *s = symbol(name, STT_FUNC);
  if (s == NULL) s = symbol(name, STT_OBJECT);
  if (s == NULL) park_fail("%s has no symbol %s", library.path, name);
  return (void *)(library.base + s->st_value);
}

static int find_tls(struct dl_phdr_info *object, size_t size, void *block) {
  (void)size;
  if (object->dlpi_addr != library.base) return 0;
  *(char **)block = object->dlpi_tls_data;
  return 1;
}

size_t library_hidden_tls(const char *name) {
  const Elf64_Sym *s = symbol(name, STT_TLS);
  if (s == NULL) park_fail("%s has no symbol %s", library.path, name);
  return s->st_value;
}

/* Its block is as far from the thread pointer in each thread. The loader is asked once, by
 * run_subject: it locks, and a copy or a child has no thread that would unlock. */
char *library_tls(void) {
  static ptrdiff_t distance;
  char *here = __builtin_thread_pointer(), *block = NULL;
  if (distance != 0) return here + distance;
  dl_iterate_phdr(find_tls, &block);
  if (block == NULL) park_fail("%s: the thread has no block of thread-local storage", library.path);
  distance = block - here;
  return block;
}

/* ---- the process ----------------------------------------------------------------------------- */

static int find_text(struct dl_phdr_info *object, size_t size, void *inside) {
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[i];
    uintptr_t from = object->dlpi_addr + part->p_vaddr;
    if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0) continue;
    if ((uintptr_t)inside - from >= part->p_memsz) continue;
    library.base = object->dlpi_addr;
    library.text_from = from;
    library.text_to = from + part->p_memsz;
    return 1;
  }
  return 0;
}

bool library_has(uintptr_t at) {
  return at - library.text_from < library.text_to - library.text_from;
}
size_t library_offset(uintptr_t at) { return at - library.base; }
size_t library_text_size(void) { return library.text_to - library.base; }
/* Preloaded it is swept like any other: what it says of itself is not asked for. */
bool library_is_freehold(void) { return library.path != NULL && api.stats_get != NULL; }

size_t huge_size(void) { return library_is_freehold() ? MIB(600) : MIB(40); }

static void find_functions(void *handle) {
  static const struct {
    const char *name;
    void **to;
  } functions[] = {
    {"malloc", (void **)&api.malloc},
    {"calloc", (void **)&api.calloc},
    {"realloc", (void **)&api.realloc},
    {"aligned_alloc", (void **)&api.aligned_alloc},
    {"free", (void **)&api.free},
    {"malloc_usable_size", (void **)&api.usable_size},
    {"free_sized", (void **)&api.free_sized},
    {"_ZdlPvm", (void **)&api.delete_sized},
    {"free_aligned_sized", (void **)&api.free_aligned_sized},
    {"_ZdlPvmSt11align_val_t", (void **)&api.delete_aligned_sized},
    {"fh_malloc_batch", (void **)&api.malloc_batch},
    {"fh_free_batch", (void **)&api.free_batch},
    {"fh_collect", (void **)&api.collect},
    {"fh_good_size", (void **)&api.good_size},
    {"fh_expand", (void **)&api.expand},
    {"fh_owns", (void **)&api.owns},
    {"fh_stats_get", (void **)&api.stats_get},
    {"fh_thread_allocated", (void **)&api.thread_allocated},
    {"fh_thread_freed", (void **)&api.thread_freed},
    {"fh_trace_start", (void **)&api.trace_start},
    {"fh_trace_stop", (void **)&api.trace_stop},
    {"mallinfo2", (void **)&api.mallinfo2},
    {"fh_option_set", (void **)&api.option_set},
    {"fh_heap_new", (void **)&api.heap_new},
    {"fh_heap_malloc", (void **)&api.heap_malloc},
    {"fh_heap_calloc", (void **)&api.heap_calloc},
    {"fh_heap_aligned_alloc", (void **)&api.heap_aligned_alloc},
    {"fh_heap_realloc", (void **)&api.heap_realloc},
    {"fh_profile_start", (void **)&api.profile_start},
    {"fh_profile_write", (void **)&api.profile_write},
    {"fh_profile_hooks", (void **)&api.profile_hooks},
    {"fh_heap_delete", (void **)&api.heap_delete},
    {"fh_heap_collect", (void **)&api.heap_collect},
    {"fh_heap_set_quota", (void **)&api.heap_set_quota},
    {"fh_heap_stats_get", (void **)&api.heap_stats_get},
    {"fh_heap_of", (void **)&api.heap_of},
    {"fh_heap_destroy", (void **)&api.heap_destroy},
    {"fh_heap_visit", (void **)&api.heap_visit},
    {"fh_heap_visit_areas", (void **)&api.heap_visit_areas},
    {"fh_heap_set_default", (void **)&api.heap_set_default},
    {"fh_arena_add", (void **)&api.arena_add},
  };
  for (size_t i = 0; i < COUNT_OF(functions); i++) {
    void *found = dlsym(handle, functions[i].name);
    *functions[i].to = library_has((uintptr_t)found) ? found : NULL;
  }
}

const char *library_lacks(unsigned flags) {
  if ((flags & REALLOCS) != 0 && api.realloc == NULL) return "realloc";
  if ((flags & ALIGNS) != 0 && api.aligned_alloc == NULL) return "aligned_alloc";
  return (flags & CALLOCS) != 0 && api.calloc == NULL ? "calloc" : NULL;
}

void library_load(const char *path, bool without_start) {
  void *handle = RTLD_DEFAULT;
  if (path != NULL) {
    library.path = realpath(path, NULL);
    if (library.path == NULL) park_fail("%s: no such library", path);
    handle = dlopen(without_start ? copy_without_start(path) : library.path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) park_fail("%s", dlerror());
  }
  void *found = dlsym(handle, "malloc");
  if (found == NULL) park_fail("%s has no malloc", path);
  if (dl_iterate_phdr(find_text, found) == 0) park_fail("malloc lies nowhere");
  find_functions(handle);
  if (api.free == NULL) park_fail("malloc's library has no free");
}
