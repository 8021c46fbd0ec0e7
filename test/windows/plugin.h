/* plugin.h - the functions of a module, by name
 * Owns:    nothing.   Called by: linked_test.c, patched_test.c.   Calls: kernel32. */
#ifndef TEST_WINDOWS_PLUGIN_H
#define TEST_WINDOWS_PLUGIN_H

#include "../test.h"

__declspec(dllimport) void *LoadLibraryA(const char *file);
__declspec(dllimport) int FreeLibrary(void *module);
__declspec(dllimport) void *GetModuleHandleA(const char *file);
__declspec(dllimport) void *GetProcAddress(void *module, const char *name);

typedef struct {
  void *(*malloc)(size_t size);
  void *(*realloc)(void *p, size_t size);
  void (*free)(void *p);
  char *(*strdup)(const char *text);
  size_t (*msize)(void *p);
} plugin_t;

static void *plugin_find(void *module, const char *name) {
  void *found = module == NULL ? NULL : GetProcAddress(module, name);
  if (found == NULL) FAIL("there is no %s", name);
  return found;
}
__attribute__((unused)) static plugin_t plugin_load(void) {
  void *module = LoadLibraryA("plugin.dll");
  return (plugin_t){(void *(*)(size_t))plugin_find(module, "plugin_malloc"),
                    (void *(*)(void *, size_t))plugin_find(module, "plugin_realloc"),
                    (void (*)(void *))plugin_find(module, "plugin_free"),
                    (char *(*)(const char *))plugin_find(module, "plugin_strdup"),
                    (size_t(*)(void *))plugin_find(module, "plugin_msize")};
}
__attribute__((unused)) static void plugin_unload(void) {
  CHECK(FreeLibrary(GetModuleHandleA("plugin.dll")) && GetModuleHandleA("plugin.dll") == NULL);
}

#endif
