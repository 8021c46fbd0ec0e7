/* unwind.c - call stacks, by the unwinder of the C runtime                              layer 1: os
 * Owns:    the addresses of its functions.   Called by: sample.c, profile.c.   Calls: the C
 *          runtime's unwinder, dlsym; in os_backtrace_start alone dlopen.
 * Threads: any; os_backtrace_start is for threads that may wait.
 * Sync:    S-unwind  os_backtrace_start (release) -> os_backtrace (acquire): the addresses.
 *
 * From glibc 2.35 on the unwinder finds a function's table by _dl_find_object, which takes no lock.
 * With an older one, or another libc, it may wait for a thread that loads a library: there is no
 * stack then. What it has to set up once is set up at start. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include "os.h"

#pragma weak dlsym

typedef _Unwind_Reason_Code unwind_t(_Unwind_Trace_Fn step, void *context);
typedef _Unwind_Ptr unwind_ip_t(struct _Unwind_Context *context);

static atomic_ptr_t unwind_ip; /* unwind_ip_t; relaxed: published by the next */
static atomic_ptr_t unwind;    /* unwind_t; NULL: there is none */

/* The library's own code, if it is a shared one. relaxed: as unwind_ip */
static atomic64_t own_from, own_size;

static void find_own_code(void) {
#if defined(FH_SHARED)
  extern hidden const ElfW(Ehdr) __ehdr_start;
  const ElfW(Phdr) *part = (const ElfW(Phdr) *)((uintptr_t)&__ehdr_start + __ehdr_start.e_phoff);
  for (unsigned i = 0; i < __ehdr_start.e_phnum; i++) {
    if (part[i].p_type != PT_LOAD || (part[i].p_flags & PF_X) == 0) continue;
    atomic64_store_relaxed(&own_from, (uintptr_t)&__ehdr_start + part[i].p_vaddr);
    atomic64_store_relaxed(&own_size, part[i].p_memsz);
  }
#endif
}

static bool is_own(uintptr_t ip) {
  return ip - atomic64_load_relaxed(&own_from) < atomic64_load_relaxed(&own_size);
}

typedef struct {
  uintptr_t *frames;
  unsigned count, most;
  unwind_ip_t *ip;
} walk_t;

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *walk) {
  walk_t *w = walk;
  uintptr_t ip = w->ip(context);
  if (ip == 0 || w->count == w->most) return _URC_END_OF_STACK;
  if (w->count != 0 || !is_own(ip)) w->frames[w->count++] = ip;
  return _URC_NO_REASON;
}

unsigned os_backtrace(uintptr_t *frames, unsigned most) {
  unwind_t *run = (unwind_t *)atomic_ptr_load_acquire(&unwind); /* S-unwind */
  walk_t w = {frames, 0, most, (unwind_ip_t *)atomic_ptr_load_relaxed(&unwind_ip)};
  if (run != NULL) run(step, &w);
  return w.count;
}

/* A function of the unwinder, of whichever library of the process has it, or loaded for this. */
static void *find_function(const char *name) {
  typedef void *open_t(const char *file, int mode);
  void *found = dlsym(RTLD_DEFAULT, name);
  open_t *open = found == NULL ? (open_t *)dlsym(RTLD_DEFAULT, "dlopen") : NULL;
  void *library = open != NULL ? open("libgcc_s.so.1", RTLD_NOW | RTLD_GLOBAL) : NULL;
  return library != NULL ? dlsym(library, name) : found;
}

bool os_backtrace_start(void) {
  uintptr_t frame;
  if (atomic_ptr_load_relaxed(&unwind) != NULL) return true;
  if (dlsym == NULL || dlsym(RTLD_DEFAULT, "_dl_find_object") == NULL) return false;
  void *ip = find_function("_Unwind_GetIP"), *run = find_function("_Unwind_Backtrace");
  if (ip == NULL || run == NULL) return false;
  find_own_code();
  walk_t first = {&frame, 0, 1, (unwind_ip_t *)ip};
  ((unwind_t *)run)(step, &first);
  atomic_ptr_store_relaxed(&unwind_ip, ip);
  atomic_ptr_store_release(&unwind, run); /* S-unwind */
  return true;
}
