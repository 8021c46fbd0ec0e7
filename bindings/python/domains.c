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

typedef struct {
  allocator_t before;
  void *(*malloc)(size_t size);
  void *(*calloc)(size_t count, size_t size);
  void *(*realloc)(void *p, size_t size);
  void (*free)(void *p);
  bool (*owns)(const void *p);
} domain_t;

/* Python: a request of no bytes gets a pointer that is not NULL, and may be resized. */
static size_t at_least_one(size_t size) { return size != 0 ? size : 1; }

static void *domain_malloc(void *context, size_t size) {
  return ((domain_t *)context)->malloc(at_least_one(size));
}
static void *domain_calloc(void *context, size_t count, size_t size) {
  if (count == 0 || size == 0) count = size = 1;
  return ((domain_t *)context)->calloc(count, size);
}
static void *domain_realloc(void *context, void *p, size_t size) {
  domain_t *d = (domain_t *)context;
  if (p != NULL && !d->owns(p)) return d->before.realloc(d->before.context, p, size);
  return d->realloc(p, at_least_one(size));
}
static void domain_free(void *context, void *p) {
  domain_t *d = (domain_t *)context;
  if (p != NULL && !d->owns(p)) d->before.free(d->before.context, p);
  else d->free(p);
}

/* `*allocator` as Python has it now becomes the one that serves `*domain`. */
FH_API void domain_take(domain_t *domain, allocator_t *allocator);
FH_API void domain_take(domain_t *domain, allocator_t *allocator) {
  domain->before = *allocator;
  *allocator = (allocator_t){domain, domain_malloc, domain_calloc, domain_realloc, domain_free};
}
