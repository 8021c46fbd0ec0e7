/* macos.c - the malloc zone of macOS                                                   layer 8: api
 * Owns:    the zone.   Called by: libSystem; cold.c, closed.c, lifecycle.c.
 *          Calls: the public functions, heap, libSystem.
 * Threads: any. Registering takes libSystem's lock, and so does a block of another zone.
 * Sync:    none: the constructor writes `former` before the zone is known.
 *
 * This was compiled, but never run. malloc and free stay libSystem's. They ask the first zone of a
 * list for memory, and find out which zone has a block; ours becomes the first. So it serves every
 * library of the process, and a block of another zone goes back there. The loader allocates a
 * thread's variables of the library at first touch: the former zone serves it. */
#if defined(__APPLE__)
#include "api.h"

#include <errno.h>
#include <mach/mach.h>
#include <malloc/malloc.h>
#include <pthread.h>

#include "../heap/upkeep.h"

static malloc_zone_t *former;
static pthread_key_t touching; /* not NULL: the loader is allocating the thread's variables */

/* False: the call is the loader's. */
static bool has_variables(void) {
  if (pthread_getspecific(touching) != NULL) return false;
  pthread_setspecific(touching, &former);
  (void)*(volatile size_t *)&heap_here.limit;
  pthread_setspecific(touching, NULL);
  return true;
}

static size_t zone_size(malloc_zone_t *z, const void *p) {
  return (void)z, p == NULL || heap_is_foreign(p) ? 0 : fh_usable_size(p);
}
static void *zone_malloc(malloc_zone_t *z, size_t size) {
  (void)z;
  return has_variables() ? fh_malloc(size) : malloc_zone_malloc(former, size);
}
static void *zone_calloc(malloc_zone_t *z, size_t count, size_t size) {
  (void)z;
  return has_variables() ? fh_calloc(count, size) : malloc_zone_calloc(former, count, size);
}
static void *zone_memalign(malloc_zone_t *z, size_t alignment, size_t size) {
  (void)z;
  if (!has_variables()) return malloc_zone_memalign(former, alignment, size);
  return fh_aligned_alloc(alignment, size);
}
static void *zone_valloc(malloc_zone_t *z, size_t size) {
  return zone_memalign(z, vm_page_size, size);
}
static void *zone_realloc(malloc_zone_t *z, void *p, size_t size) {
  (void)z;
  return has_variables() ? fh_realloc(p, size) : NULL;
}
static void zone_free(malloc_zone_t *z, void *p) {
  (void)z;
  if (has_variables()) fh_free(p);
}
static void zone_free_sized(malloc_zone_t *z, void *p, size_t size) {
  (void)size;
  zone_free(z, p);
}
static size_t zone_relieve(malloc_zone_t *z, size_t goal) {
  (void)z, (void)goal;
  if (has_variables()) fh_collect(true);
  return 0;
}
static void zone_destroy(malloc_zone_t *z) { (void)z; }

/* Debuggers see no blocks; there is no lock for fork to take. */
static kern_return_t zone_enumerate(task_t task, void *context, unsigned kinds, vm_address_t zone,
                                    memory_reader_t reader, vm_range_recorder_t recorder) {
  (void)task, (void)context, (void)kinds, (void)zone, (void)reader, (void)recorder;
  return KERN_SUCCESS;
}
static size_t zone_good_size(malloc_zone_t *z, size_t size) { return (void)z, fh_good_size(size); }
static boolean_t zone_check(malloc_zone_t *z) { return (void)z, true; }
static void zone_print(malloc_zone_t *z, boolean_t is_long) { (void)z, (void)is_long; }
static void zone_log(malloc_zone_t *z, void *p) { (void)z, (void)p; }
static void zone_nothing(malloc_zone_t *z) { (void)z; }
static boolean_t zone_locked(malloc_zone_t *z) { return (void)z, false; }
static void zone_statistics(malloc_zone_t *z, malloc_statistics_t *s) {
  (void)z;
  memset(s, 0, sizeof *s);
}

static malloc_introspection_t introspection = {.enumerator = zone_enumerate,
                                               .good_size = zone_good_size,
                                               .check = zone_check,
                                               .print = zone_print,
                                               .log = zone_log,
                                               .force_lock = zone_nothing,
                                               .force_unlock = zone_nothing,
                                               .statistics = zone_statistics,
                                               .zone_locked = zone_locked,
                                               .reinit_lock = zone_nothing};
static malloc_zone_t zone = {.size = zone_size,
                             .malloc = zone_malloc,
                             .calloc = zone_calloc,
                             .valloc = zone_valloc,
                             .free = zone_free,
                             .realloc = zone_realloc,
                             .destroy = zone_destroy,
                             .zone_name = "freehold",
                             .introspect = &introspection,
                             .version = 9, /* which has the field above */
                             .memalign = zone_memalign,
                             .free_definite_size = zone_free_sized,
                             .pressure_relief = zone_relieve};

static malloc_zone_t *first_zone(void) {
  vm_address_t *zones = NULL;
  unsigned count = 0;
  if (malloc_get_all_zones(0, NULL, &zones, &count) != KERN_SUCCESS || count == 0) return NULL;
  return (malloc_zone_t *)zones[0];
}

/* A zone taken off the list leaves its place to the last one, and comes back at the end. */
void api_foreign_start(void) {
  enum { ZONES_MOST = 64 };
  former = first_zone();
  if (former == NULL || pthread_key_create(&touching, NULL) != 0) return;
  malloc_zone_register(&zone);
  for (int i = 0; i < ZONES_MOST && first_zone() != &zone; i++) {
    malloc_zone_t *first = first_zone();
    malloc_zone_unregister(first);
    malloc_zone_register(first);
  }
}

/* C++ has its operators call malloc and free. */
void api_operators_start(void) {}

/* ---- pointers that are not ours -------------------------------------------------------------- */

static malloc_zone_t *zone_of(void *p, const char *call) {
  malloc_zone_t *z = malloc_zone_from_ptr(p);
  if (z == NULL) fatal("invalid pointer", p, call);
  return z;
}
void api_foreign_free(void *p, const char *call) { malloc_zone_free(zone_of(p, call), p); }
size_t api_foreign_size(const void *p, const char *call) {
  malloc_zone_t *z = zone_of((void *)(uintptr_t)p, call);
  return z->size(z, p);
}
#endif
