/* domains.c - Python's allocators by freehold's functions
 *
 * Python calls an allocator with a context in front, which is a `domain_t` here. What a domain has
 * handed out before freehold came goes back to the allocator that it comes from: fh_owns tells. Needs
 * nothing of Python but the layout of PyMemAllocatorEx, which its documentation gives. */
#include <freehold/freehold.h>

typedef struct {
  void *context;
  void *(*malloc)(void *context, size_t size);
  void *(*calloc)(void *context, size_t count, size_t size);
  void *(*realloc)(void *context, void *p, size_t size);
  void (*free)(void *context, void *p);
} allocator_t; /* PyMemAllocatorEx */

/* freehold's functions that serve a domain. */
typedef struct {
  void *(*malloc)(size_t size);
  void *(*calloc)(size_t count, size_t size);
  void *(*realloc)(void *p, size_t size);
  void (*free)(void *p);
  bool (*owns)(const void *p);
} functions_t;

typedef struct {
  allocator_t before;
  functions_t by;
  bool is_taken;
} domain_t;

/* Python frees to the last moment, so they never end. All interpreters of the process share them. */
enum { DOMAINS = 3 };
static domain_t domains[DOMAINS];

/* Python: a request of no bytes gets a pointer that is not NULL, and may be resized. */
static size_t at_least_one(size_t size) { return size != 0 ? size : 1; }

static void *domain_malloc(void *context, size_t size) {
  return ((domain_t *)context)->by.malloc(at_least_one(size));
}
static void *domain_calloc(void *context, size_t count, size_t size) {
  if (count == 0 || size == 0) count = size = 1;
  return ((domain_t *)context)->by.calloc(count, size);
}
static void *domain_realloc(void *context, void *p, size_t size) {
  domain_t *d = (domain_t *)context;
  if (p != NULL && !d->by.owns(p)) return d->before.realloc(d->before.context, p, size);
  return d->by.realloc(p, at_least_one(size));
}
static void domain_free(void *context, void *p) {
  domain_t *d = (domain_t *)context;
  if (p != NULL && !d->by.owns(p)) d->before.free(d->before.context, p);
  else d->by.free(p);
}

typedef void access_t(int number, allocator_t *allocator); /* PyMem_Get-, PyMem_SetAllocator */

/* The functions serve the domain from now on. False if such functions do already. The caller holds
 * the interpreter's lock, so that of several threads one takes it. */
FH_API bool domain_take(int number, const functions_t *by, access_t *get, access_t *set);
FH_API bool domain_take(int number, const functions_t *by, access_t *get, access_t *set) {
  domain_t *d = &domains[number];
  if (__atomic_exchange_n(&d->is_taken, true, __ATOMIC_ACQ_REL)) return false;
  d->by = *by;
  get(number, &d->before);
  set(number, &(allocator_t){d, domain_malloc, domain_calloc, domain_realloc, domain_free});
  return true;
}
FH_API bool domain_is_taken(int number);
FH_API bool domain_is_taken(int number) {
  return __atomic_load_n(&domains[number].is_taken, __ATOMIC_ACQUIRE);
}
