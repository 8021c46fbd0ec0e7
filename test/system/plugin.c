/* plugin.c - a shared library that plugin_test.c opens; which allocator it uses depends on
 * how it is linked and opened */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

void *plugin_malloc(size_t size) { return malloc(size); }
void *plugin_aligned(size_t alignment, size_t size) { return memalign(alignment, size); }
char *plugin_strdup(const char *text) { return strdup(text); }
void plugin_free(void *p) { free(p); }

static void *body(void *size) { return malloc((size_t)size); }
/* A block that another thread allocated: in glibc's heap one of a second arena. */
void *plugin_malloc_in_thread(size_t size) {
  pthread_t thread;
  void *p = NULL;
  if (pthread_create(&thread, NULL, body, (void *)size) == 0) pthread_join(thread, &p);
  return p;
}

#ifdef PLUGIN_LINKED
#include <freehold/freehold.h>
int plugin_version(void) { return fh_version(); }
/* Uses the library that came with this plugin; 1 if all is well. */
int plugin_works(void) {
  unsigned char *p[200];
  for (int i = 0; i < 200; i++) {
    size_t n = (size_t)i * i * 5 + 1;
    if ((p[i] = (unsigned char *)fh_malloc(n)) == NULL) return 0;
    memset(p[i], i, n);
  }
  for (int i = 0; i < 200; i++) {
    size_t n = (size_t)i * i * 5 + 1;
    if (!fh_owns(p[i]) || p[i][0] != (unsigned char)i || p[i][n - 1] != (unsigned char)i) return 0;
    fh_free(p[i]);
  }
  return 1;
}
#endif
