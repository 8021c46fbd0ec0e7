/* quarantine.c - freed blocks that are not used again for a while: secure grade      layer 5: stock
 * Contract: quarantine.h. */
#include "quarantine.h"

#include "../slab/secrets.h"
#include "../slab/states.h"
#include "../support/pace.h"

enum {
  PROTECTED_MOST = 16384, /* blocks with pages that nobody can touch; each may cost two mappings */
  PROTECTION_BYTES = 64 << 10, /* so many bytes take as long as the call itself */
  PROTECTIONS_AT_ONCE = 4096,
  PROTECTIONS_A_MS = 4,
  LARGE_FROM = QUARANTINE_SMALL + QUARANTINE_MEDIUM,
};

/* Such blocks of all heaps. relaxed: a bound that a few may pass */
static atomic32_t protected_blocks;
/* Calls to protect that are left, and when more were added. relaxed: likewise */
static atomic32_t protections;
static pace_t additions;

cold uint64_t quarantine_seed(void) {
  secrets_renew();
  return os_random();
}

void quarantine_begin(quarantine_t *q, size_t number) {
  q->random = secrets_word(number);
  if (q->random == NULL) q->random = &q->own_random;
}

void quarantine_start(void) {
  atomic32_store_relaxed(&protections, PROTECTIONS_AT_ONCE);
  pace_note(&additions, os_now_ms(), 1);
}

static void add_protections(void) {
  uint32_t now = os_now_ms();
  uint64_t more = (uint64_t)pace_passed(&additions, now) * PROTECTIONS_A_MS;
  if (pace_take(&additions, now, 1))
    atomic32_add_relaxed(&protections, (uint32_t)min_size(more, PROTECTIONS_AT_ONCE));
}

/* Bounds the share of time spent in system calls that take longer with each page and in which
 * threads wait for each other. */
static bool take_protections(size_t size) {
  uint32_t n = 1 + (uint32_t)min_size(size / PROTECTION_BYTES, PROTECTIONS_AT_ONCE / 2);
  if (atomic32_load_relaxed(&protections) < n) add_protections();
  if (atomic32_load_relaxed(&protections) < n) return false;
  if ((int32_t)atomic32_add_relaxed(&protections, 0 - n) >= (int32_t)n) return true;
  atomic32_add_relaxed(&protections, n);
  return false;
}

static size_t size_of_large(void *block) {
  return (size_t)atomic16_load_relaxed(&slab_of(block)->slices) << SLICE_SHIFT;
}

static void add_flag(void *block, uint32_t flag) {
  slab_t *s = slab_of(block);
  atomic32_store_relaxed(&s->kind, slab_word(s) | flag);
}

/* Pages that nobody can touch do not count in RLIMIT_DATA, and at that limit the system does not
 * open them. Once its pages are unmapped, the block can be freed. */
static cold bool unmap(void *block) {
  if (arena_of(block)->is_added || !os_unmap(block, size_of_large(block))) return false;
  add_flag(block, SLAB_IS_UNMAPPED);
  return true;
}

bool quarantine_protect(void *block, size_t from) {
  atomic8_t *is_protected = states_is_protected(states_of(block), block);
  bool was_protected = atomic8_load_relaxed(is_protected) != 0; /* relaxed: its holder's */
  size_t size = size_of_large(block) - from;
  bool is_gone = (slab_word(slab_of(block)) & SLAB_IS_GONE) != 0;
  if (!was_protected && atomic32_load_relaxed(&protected_blocks) >= PROTECTED_MOST) return false;
  if (!take_protections(is_gone ? 0 : size) || !os_protect((char *)block + from, size, false))
    return false;
  if (!was_protected) atomic32_add_relaxed(&protected_blocks, 1);
  atomic8_store_relaxed(is_protected, true);
  return true;
}

static bool unprotect(void *block, bool has_ended) {
  atomic8_t *is_protected = states_is_protected(states_of(block), block);
  if (atomic8_load_relaxed(is_protected) == 0) return true; /* relaxed: as above */
  if (!os_protect(block, size_of_large(block), true) && !(has_ended && unmap(block))) return false;
  atomic32_add_relaxed(&protected_blocks, (uint32_t)-1);
  atomic8_store_relaxed(is_protected, false);
  return true;
}
bool quarantine_unprotect(void *block) { return unprotect(block, false); }
bool quarantine_open_to_free(void *block) { return unprotect(block, true); }

/* The block may be used again. One that the system neither opens nor unmaps stays where it is. */
static void *open_again(void *block) {
  return block != NULL && quarantine_open_to_free(block) ? block : NULL;
}

static size_t slot_of_large(quarantine_t *q) {
  return LARGE_FROM + quarantine_draw(q) % QUARANTINE_LARGE;
}

/* Its memory goes back at once. Its next owner need not check which pages are in memory, and
 * closing it takes no longer than closing one page. */
static void let_go(void *block, size_t size) {
  if (arena_discard(block, size)) add_flag(block, SLAB_IS_GONE);
}

/* A block without memory may rest for any time. */
void *quarantine_put_large(quarantine_t *q, void *block) {
  size_t size = size_of_large(block);
  if (size > QUARANTINE_BYTES) let_go(block, size);
  bool is_protected = quarantine_protect(block, 0);
  if (size > QUARANTINE_BYTES && !is_protected) return open_again(block);
  return open_again(atomic_ptr_exchange_own(&q->slots[slot_of_large(q)], block));
}

/* A handler may take blocks counted here: then less is held than it seems. */
void *quarantine_give_way(quarantine_t *q, void *block) {
  size_t sum = size_of_large(block), first = slot_of_large(q), size, left = QUARANTINE_LARGE;
  if (sum > QUARANTINE_BYTES) return NULL;
  void *other;
  for (size_t i = LARGE_FROM; i < QUARANTINE_SLOTS; i++) { /* Bound: the quarantine's slots */
    other = atomic_ptr_load_relaxed(&q->slots[i]);
    size = other != NULL ? size_of_large(other) : 0;
    if (size <= QUARANTINE_BYTES) sum += size;
  }
  for (; sum > QUARANTINE_BYTES && left > 0; left--) { /* Bound: likewise */
    size_t slot = LARGE_FROM + (first + left) % QUARANTINE_LARGE;
    other = open_again(atomic_ptr_exchange_own(&q->slots[slot], NULL));
    if (other != NULL) return other;
  }
  return NULL;
}

void *quarantine_take(quarantine_t *q, size_t *slot) {
  void *block = NULL;
  for (; block == NULL && *slot < QUARANTINE_SLOTS; ++*slot) {
    if (atomic_ptr_is_relaxed(&q->slots[*slot], NULL)) continue; /* its page may be untouched */
    block = atomic_ptr_exchange_own(&q->slots[*slot], NULL);
    if (*slot >= LARGE_FROM) block = open_again(block);
  }
  return block;
}
