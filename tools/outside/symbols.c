/* symbols.c - what the target's code addresses are called, by libdw of elfutils
 * Contract: symbols.h. */
#include "symbols.h"

#include <stdlib.h>
#include <string.h>

#include "target.h"

#ifdef HAVE_LIBDW
#include <dlfcn.h>
#include <elfutils/libdwfl.h>

/* What a template was given is left out, for it may take a page. */
static void write_short(FILE *out, const char *name) {
  unsigned depth = 0;
  for (const char *c = name; *c != '\0'; c++) {
    bool is_operator = c >= name + 8 && memcmp(c - 8, "operator", 8) == 0;
    if (depth == 0 && is_operator && strchr("<>-", *c) != NULL) {
      for (; *c != '\0' && *c != '('; c++) putc(*c, out);
      c--;
      continue;
    }
    if (*c == '>' && depth > 0 && --depth == 0) fputs("...", out);
    if (depth == 0) putc(*c, out);
    if (*c == '<') depth++;
  }
}

/* C++ names by the C++ library, if there is one. */
static void write_name(FILE *out, const char *name) {
  typedef char *demangle_t(const char *name, char *room, size_t *size, int *status);
  static demangle_t *demangle;
  static bool was_sought;
  if (!was_sought) {
    void *library = dlopen("libstdc++.so.6", RTLD_NOW);
    demangle = library == NULL ? NULL : (demangle_t *)dlsym(library, "__cxa_demangle");
    was_sought = true;
  }
  int status = 1;
  bool is_mangled = strncmp(name, "_Z", 2) == 0 && demangle != NULL;
  char *plain = is_mangled ? demangle(name, NULL, NULL, &status) : NULL;
  write_short(out, plain != NULL ? plain : name);
  free(plain);
}

static const char *file_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

/* Each file whose code is mapped, at its addresses; a core file's are found on the disk. */
static Dwfl *start(void) {
  static char *no_path = NULL;
  static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                           .find_debuginfo = dwfl_standard_find_debuginfo,
                                           .debuginfo_path = &no_path};
  size_t size;
  char *text = target_maps(&size);
  FILE *maps = text == NULL ? NULL : fmemopen(text, size, "r");
  Dwfl *session = dwfl_begin(&callbacks);
  if (session == NULL) return NULL;
  dwfl_report_begin(session);
  if (target_is_process()) dwfl_linux_proc_report(session, target_pid());
  else if (maps != NULL) dwfl_linux_proc_maps_report(session, maps);
  dwfl_report_end(session, NULL, NULL);
  if (maps != NULL) fclose(maps);
  return session;
}

void symbols_write(FILE *out, uintptr_t return_address) {
  static Dwfl *session;
  static int was_started;
  uintptr_t address = return_address - 1; /* the instruction that called */
  if (!was_started++) session = start();
  Dwfl_Module *module = session == NULL ? NULL : dwfl_addrmodule(session, address);
  const char *name = module == NULL ? NULL : dwfl_module_addrname(module, address);
  Dwfl_Line *line = module == NULL ? NULL : dwfl_module_getsrc(module, address);
  int number = 0;
  const char *source = line == NULL ? NULL : dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
  if (name != NULL) write_name(out, name);
  else fprintf(out, "%#lx", (unsigned long)return_address);
  if (source != NULL) fprintf(out, " (%s:%d)", file_of(source), number);
  else if (module != NULL)
    fprintf(out, " (%s)",
            file_of(dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL)));
}

#else

void symbols_write(FILE *out, uintptr_t return_address) {
  const target_range_t *range = target_range_at(return_address);
  const char *path = range == NULL ? "" : range->path, *slash = strrchr(path, '/');
  fprintf(out, "%#lx", (unsigned long)return_address);
  if (path[0] != '\0')
    fprintf(out, " (%s+%#lx)", slash == NULL ? path : slash + 1,
            (unsigned long)(return_address - range->from + range->offset));
}
#endif
