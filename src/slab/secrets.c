/* secrets.c - numbers that only this process knows: secure grade                      layer 4: slab
 * Contract: secrets.h. */
#include "secrets.h"

#include "../os/os.h"

secrets_t secrets;

enum { WORDS = 4096, WORDS_APART = 8 }; /* so that threads do not share a line */

/* Pages that the system empties in a child of fork. */
typedef struct {
  atomic64_t words[WORDS][WORDS_APART];
  atomic64_t is_known; /* 0: by no thread of this process */
} unshared_t;

static atomic_ptr_t unshared; /* relaxed: the memory there is zero */
static atomic32_t starting;   /* threads */

static cold unshared_t *map_unshared(void) {
  void *none = NULL, *at = os_map_unshared(sizeof(unshared_t));
  if (at == NULL || atomic_ptr_cas_relaxed(&unshared, &none, at)) return at;
  os_unmap(at, sizeof(unshared_t)); /* another thread was first */
  return none;
}
static unshared_t *find_unshared(void) {
  unshared_t *u = atomic_ptr_load_relaxed(&unshared);
  return u != NULL ? u : map_unshared();
}

atomic64_t *secrets_word(size_t number) {
  unshared_t *u = find_unshared();
  return u != NULL ? u->words[number % WORDS] : NULL;
}

/* A page larger than PAGE_MOST would hold other data too. */
static bool seal(bool is_sealed) {
  return sizeof secrets % os_page_size() != 0 || os_seal(&secrets, sizeof secrets, is_sealed);
}

static void set(atomic64_t *secret) {
  uint64_t none = 0;
  if (atomic64_load_relaxed(secret) == 0) atomic64_cas_relaxed(secret, &none, os_random() | 1);
}

/* A late thread finds the last secret set and writes nothing. The last one that may write seals. */
void secrets_start(void) {
  unshared_t *u = find_unshared();
  if (atomic64_load_relaxed(&secrets.cover) != 0) return;
  if (u != NULL) atomic64_store_relaxed(&u->is_known, 1); /* relaxed: before there is any block */
  atomic32_add_acq_rel(&starting, 1);                     /* S-secrets */
  if (atomic64_load_relaxed(&secrets.cover) == 0) {
    set(&secrets.trailer);
    set(&secrets.cover);
  }
  if (atomic32_add_acq_rel(&starting, (uint32_t)-1) == 1) seal(true); /* S-secrets */
}

/* Only one thread in the process does this, and none is starting. */
static cold void renew(void) {
  size_t n = 0;
  for (; n < SECRETS_OLDER; n++)
    if (atomic64_load_relaxed(&secrets.older[n]) == 0) break;
  if (n == SECRETS_OLDER || !seal(false)) return;
  atomic64_store_relaxed(&secrets.older[n], atomic64_load_relaxed(&secrets.trailer));
  atomic64_store_release(&secrets.trailer, os_random() | 1); /* S-secrets: after the older one */
  seal(true);
}

void secrets_renew(void) {
  unshared_t *u = atomic_ptr_load_relaxed(&unshared);
  uint64_t nobody = 0; /* relaxed: the winner writes what it read itself */
  if (u != NULL && atomic64_load_relaxed(&u->is_known) == 0 &&
      atomic64_cas_relaxed(&u->is_known, &nobody, 1))
    renew();
}
