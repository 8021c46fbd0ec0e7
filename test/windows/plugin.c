/* plugin.c - a library that knows nothing of freehold: patched_test.c and linked_test.c load it */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define PLUGIN __declspec(dllexport)

PLUGIN void *plugin_malloc(size_t size) { return malloc(size); }
PLUGIN void *plugin_realloc(void *p, size_t size) { return realloc(p, size); }
PLUGIN void plugin_free(void *p) { free(p); }
PLUGIN char *plugin_strdup(const char *text) { return _strdup(text); }
PLUGIN size_t plugin_msize(void *p) { return _msize(p); }
