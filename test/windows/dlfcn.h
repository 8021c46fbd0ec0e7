/* dlfcn.h - the one function of it that family_test.c uses, on Windows
 * Owns:    nothing.   Called by: family_test.c.   Calls: kernel32. */
#ifndef TEST_WINDOWS_DLFCN_H
#define TEST_WINDOWS_DLFCN_H

#define RTLD_DEFAULT NULL
__declspec(dllimport) void *GetModuleHandleA(const char *file);
__declspec(dllimport) void *GetProcAddress(void *module, const char *name);
static inline void *dlsym(void *module, const char *name) {
  (void)module;
  void *freehold = GetModuleHandleA("freehold.dll");
  if (freehold == NULL) SKIP("a program exports no names");
  return GetProcAddress(freehold, name);
}

#endif
