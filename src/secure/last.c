/* last.c - looks at all blocks: of visitors, and when a heap or the process ends    layer 7: secure
 * Contract: secure.h. Threads: the one that exits; others may go on. So it looks at copies, which
 * the system makes, and at states before and after. */
#include "checked.h"

#include "../heap/firstclass.h"
#include "../heap/resize.h"
#include "../heap/visit.h"
#include "../os/os.h"
#include "../stock/quarantine.h"
#include "secure.h"

enum { LAST_LOOK = 1 << 20 }; /* blocks to look at */

static union {
  char bytes[SLICE_SIZE];
  uint64_t words[SLICE_SIZE / sizeof(uint64_t)];
} copy aligned_to(64);
static uint8_t states_seen[STATES_OF_SLICE];

/* Nobody writes behind the link and the key of a free block. While its holder changes it, the key
 * may be 0. */
static bool is_as_freed(const checked_t *f, uintptr_t bytes) {
  uint64_t key = block_at(bytes)->key.value;
  return bits_are_zero((char *)bytes + sizeof(free_block_t), f->usable - sizeof(free_block_t)) &&
         (key == 0 || key == block_key(f->block));
}

/* Was the block the same while it was copied? */
static bool was_at_rest(const checked_t *f, uint8_t seen, uint32_t word) {
  return slab_word(f->slab) == word && atomic8_cas_acq_rel(f->state, &seen, seen); /* S-state */
}

/* Looks at a long filler, piece by piece from its end on. */
static bool is_filled(uintptr_t at, uintptr_t end, uint64_t filler) {
  enum { LEAST = 2 * TRAILER_FEW };
  for (size_t n; end > at; end -= min_size(n, end - at)) { /* Bound: TRAILER_SLACK_MOST */
    n = min_size(end - at, sizeof copy.bytes);
    uintptr_t from = end - n;
    n = max_size(n, LEAST);
    if (os_copy(copy.bytes, (void *)from, n) &&
        !trailer_is_full(copy.bytes, copy.bytes + n, filler))
      return false;
  }
  return true;
}

static void look_at_large(slab_t *s, uint32_t word, void *base) {
  size_t size = atomic64_load_relaxed(&s->size);
  checked_t f = checked_large(base, size);
  uint8_t seen = f.state != NULL ? checked_state(&f) : STATE_FRESH;
  size_t there = min_size(f.usable, min_size(2 * os_page_size(), sizeof copy.bytes));
  uintptr_t end = f.block + f.usable, bytes = (uintptr_t)&copy.bytes[there] - f.usable;
  trailer_t t = {f.usable - TRAILER_SIZE, ORIGIN_ANY};
  if ((seen & STATE_IS) != STATE_LIVE || !os_copy(copy.bytes, (void *)(end - there), there)) return;
  uint64_t seal = checked_seal(&f, bytes);
  bool is_whole = trailer_says(seal, bytes, f.usable, &t);
  if (is_whole)
    is_whole = f.usable - t.size > there
                 ? is_filled(f.block + t.size, end - TRAILER_SIZE, trailer_filler(seal))
                 : trailer_is_filled(seal, bytes, f.usable, t.size);
  if (!is_whole && was_at_rest(&f, seen, word))
    checked_refuse("overflow behind", base, t.size, "exit");
}

/* `bytes`: a copy of the block, made after its state was `seen`. */
static bool is_wrong(const checked_t *f, uintptr_t bytes, uint8_t seen, uint32_t word) {
  uint8_t what = seen & STATE_IS;
  bool is_bad = what == STATE_LIVE ? !checked_has_trailer(f, bytes)
                                   : what == STATE_RESTED && !is_as_freed(f, bytes);
  return is_bad && was_at_rest(f, seen, word);
}

/* A thread that was away for long may meet a later life of the block with the same number. So it
 * looks again before it reports an error. */
static void look_at_small(const checked_t *f, uint8_t seen, uint32_t word) {
  uintptr_t bytes = (uintptr_t)&copy.bytes[f->block % SLICE_SIZE];
  if (!is_wrong(f, bytes, seen, word)) return;
  uint8_t again = checked_state(f);
  if (!os_copy((void *)bytes, (void *)f->block, f->usable) || !is_wrong(f, bytes, again, word))
    return;
  bool is_live = (again & STATE_IS) == STATE_LIVE;
  checked_refuse(is_live ? "overflow behind" : "write after free to", (void *)f->block,
                 f->usable - (is_live ? TRAILER_SIZE : 0), "exit");
}

static checked_t block_of(slab_t *s, uint32_t word, void *base, size_t number) {
  size_t size = class_size(word);
  return checked_small(s, (char *)base + (number + 1) * size, size, states_found(base));
}

/* `*left`: blocks to look at, here and below. */
static void look_at_slab(slab_t *s, uint32_t word, void *base, size_t *left) {
  size_t n = min_size(atomic32_load_relaxed(&s->carved), class_info[word].capacity);
  n = min_size(n, *left);
  *left -= n;
  for (size_t i = 0; i < n; i++) { /* Bound: the slab's blocks */
    checked_t f = block_of(s, word, base, i);
    states_seen[i] = checked_state(&f);
  }
  if (!os_copy(copy.bytes, base, sizeof copy.bytes)) return;
  for (size_t i = 0; i < n; i++) { /* Bound: likewise */
    checked_t f = block_of(s, word, base, i);
    look_at_small(&f, states_seen[i], word);
  }
}

static bool look_at(slab_t *s, uint32_t word, void *context) {
  size_t *left = context;
  void *base = (void *)slab_base(s);
  if (states_found(base) == NULL || word < class_of(CHECKED_LEAST)) return true;
  if (slab_kind(word) == SLAB_LARGE) look_at_large(s, word, base), --*left;
  else look_at_slab(s, word, base, left);
  return *left > 0;
}

void secure_end(void) {
  size_t left = LAST_LOOK;
  secure_end_quarantine();
  visit_slabs(look_at, &left);
}

/* ---- a visit --------------------------------------------------------------------------------- */

/* Other threads may free the block meanwhile. Then nobody may touch it, so the system reads it. */
bool secure_visited(const void *p, size_t *size) {
  checked_t f;
  trailer_t t;
  uint64_t word;
  if (map_kind(map_find(p)) == TENANT_EMPTY) return true;
  if (!checked_peek(p, *size, &f) || f.usable < TRAILER_SIZE) return false;
  uint8_t seen = checked_state(&f);
  uintptr_t bytes = (uintptr_t)&word + sizeof word - f.usable; /* it ends with `word` */
  if ((seen & STATE_IS) != STATE_LIVE ||
      !os_copy(&word, trailer_of(f.block, f.usable), sizeof word))
    return false;
  if (!trailer_says(checked_seal(&f, bytes), bytes, f.usable, &t) || checked_state(&f) != seen)
    return false;
  *size = t.size;
  return true;
}

/* ---- the end of a heap ----------------------------------------------------------------------- */

/* `fatal` if something wrote behind the block. Opens its guard. */
static bool end_with_heap(void *p, size_t usable, void *context) {
  checked_t f = checked_find(p, "fh_heap_destroy");
  (void)usable, (void)context;
  bool is_live = (checked_state(&f) & STATE_IS) == STATE_LIVE;
  if (is_live && !checked_has_trailer(&f, f.block))
    checked_refuse("overflow behind", p, f.usable - TRAILER_SIZE, "fh_heap_destroy");
  if (f.state != NULL) /* its memory may be anything now; S-state */
    atomic8_store_release(f.state, STATE_FRESH);
  if (f.slab != NULL && !quarantine_open_to_free(p))
    fatal("a guard that the system does not open", p, "fh_heap_destroy");
  return true;
}

void secure_heap_ends(struct fh_heap *heap) {
  bool lives = heap_usable_size(heap, "fh_heap_destroy") != 0; /* `fatal` if freed */
  if (lives) firstclass_visit(heap, &(visitor_t){.blocks = end_with_heap});
}
