/* last.c - a last look at blocks when the process exits                            layer 7: secure
 * Contract: secure.h. */
#include "checked.h"

#include "../heap/visit.h"
#include "secure.h"

enum { LAST_LOOK = 1 << 20 }; /* blocks that are looked at */

/* Another thread may use the block meanwhile: its state changes then. */
static void check_rested(const checked_t *f) {
  const char *p = (const char *)f->block;
  uint8_t seen = checked_state(f);
  if ((seen & STATE_IS) != STATE_RESTED || checked_is_zero(p + 16, f->usable - 16)) return;
  if (atomic8_cas_acq_rel(f->state, &seen, seen)) /* S-state */
    checked_refuse("write after free to", p, f->usable, "exit");
}

typedef struct {
  size_t left; /* blocks to look at */
} last_look_t;

/* Other threads may go on: a slice that is not what it was at first says nothing. */
static void check_last(const checked_t *f, uint32_t word) {
  bool good = checked_is_whole(f);
  if (!good && slab_word(f->slab) == word)
    checked_refuse("overflow behind", (void *)f->block, f->usable - TRAILER_SIZE, "exit");
  if (f->is_small && slab_word(f->slab) == word) check_rested(f);
}

static void check_last_large(void *base, uint32_t word, states_t *states) {
  uint8_t state = atomic8_load_acquire(states_at(states, base, 0)); /* S-state */
  if ((state & STATE_IS) != STATE_LIVE) return;
  checked_t f = checked_large(base, "exit");
  check_last(&f, word);
}

static bool check_slab(slab_t *s, uint32_t word, void *base, void *context) {
  last_look_t *look = context;
  states_t *states = states_of(base);
  if (states == NULL || word < class_of(LEAST_SIZE)) return true;
  arena_read_begin(base); /* its memory stays there, unless it is something else by now */
  if (slab_kind(word) == SLAB_LARGE && slab_word(s) == word) check_last_large(base, word, states);
  bool is_small = slab_kind(word) == SLAB_SMALL;
  size_t n = is_small ? min_size(atomic32_load_relaxed(&s->carved), class_info[word].capacity) : 0;
  for (size_t i = 0; i < n && look->left > 0 && slab_word(s) == word; i++, look->left--) {
    size_t size = class_size(word);
    checked_t f = checked_small(s, (char *)base + (i + 1) * size, size, i);
    check_last(&f, word);
  }
  arena_read_end(base);
  return look->left > 0;
}

void secure_end(void) {
  last_look_t look = {LAST_LOOK};
  secure_end_quarantine();
  visit_slabs(check_slab, &look);
}
