/* checked.c - a block, found by its address, and what is looked at in it           layer 7: secure
 * Contract: checked.h. */
#include "checked.h"

#include "../base/fmt.h"
#include "../heap/resize.h"
#include "../os/os.h"
#include "../stock/sample.h"
#include "secure.h"

enum { LOOKS_CLOSELY = 3 }; /* at another's block that seems overwritten, before it is reported */

/* ---- what is found wrong --------------------------------------------------------------------- */

_Noreturn cold void checked_refuse(const char *what, const void *p, size_t size, const char *call) {
  char text[80];
  fmt_t f;
  fmt_start(&f, text, sizeof text, NULL, NULL);
  fmt_print(&f, "%s a block of %lu bytes", what, size);
  fmt_end(&f);
  fatal(text, p, call);
}

_Noreturn cold void checked_refuse_state(uint8_t state, const void *p, const char *call) {
  fatal((state & STATE_IS) == STATE_FRESH ? "invalid pointer" : "double free", p, call);
}

_Noreturn cold void checked_refuse_origin(origin_t origin, const void *p, const char *call) {
  static const char *const wrong[ORIGIN_ANY] = {
    "wrong call for a block of malloc",
    "wrong call for a block of new",
    "wrong call for a block of new[]",
    NULL,
    "wrong call for a block of new with an alignment",
    "wrong call for a block of new[] with an alignment"};
  fatal(wrong[origin % ORIGIN_ANY], p, call);
}

/* ---- which block it is ----------------------------------------------------------------------- */

/* A sampled block in place of what would have been a small one: it has no guard. */
static bool stands_for_small(const slab_t *s) {
  return (slab_word(s) & SLAB_IS_SAMPLED) != 0 &&
         atomic64_load_relaxed(&s->sampled.size) <= SMALL_MOST;
}

checked_t checked_large(const void *p, size_t usable) {
  bool is_large = map_kind(map_find(p)) == TENANT_ARENA;
  checked_t f = {.slab = is_large ? slab_of(p) : NULL, .block = (uintptr_t)p, .usable = usable};
  f.has_guard = f.slab != NULL && !stands_for_small(f.slab) && checked_has_guard(usable);
  if (f.has_guard) f.usable -= os_page_size();
  f.states = is_large ? states_of(p) : NULL;
  f.state = f.states != NULL ? states_at_large(f.states, p) : NULL;
  return f;
}

/* The descriptor of its slice, and its kind in `*word`; NULL: `p` lies in no slice. */
static slab_t *descriptor_around(const void *p, uint32_t *word) {
  *word = 0;
  if (map_kind(map_find(p)) != TENANT_ARENA || arena_slice(p) < ARENA_FIRST_SLICE) return NULL;
  *word = slab_word(slab_of(p));
  return slab_of(p);
}

static bool find_small(const void *p, slab_t *s, uint32_t word, checked_t *f) {
  uint16_t offset = (uint16_t)(uintptr_t)p;
  if (!class_has_block_at(offset, class_inverse[word])) return false;
  *f = checked_small(s, p, class_size(word), states_of(p));
  return true;
}

checked_t checked_find(const void *p, const char *call) {
  uint32_t word;
  checked_t f;
  slab_t *s = descriptor_around(p, &word);
  if (slab_kind(word) != SLAB_SMALL) return checked_large(p, heap_usable_size(p, call));
  if (!find_small(p, s, word, &f)) fatal("invalid pointer", p, call);
  return f;
}

bool checked_peek(const void *p, size_t usable, checked_t *f) {
  uint32_t word;
  slab_t *s = descriptor_around(p, &word);
  if (slab_kind(word) == SLAB_SMALL) return find_small(p, s, word, f);
  if (s != NULL && (slab_kind(word) == SLAB_NONE || (uintptr_t)p % SLICE_SIZE != 0)) return false;
  *f = checked_large(p, s != NULL ? atomic64_load_relaxed(&s->size) : usable);
  return true;
}

/* ---- is it as it was made? ------------------------------------------------------------------- */

uint64_t checked_seal(const checked_t *f, uintptr_t bytes) {
  trailer_t t;
  uint64_t now = trailer_seal(f->block), seal = now;
  bool is_known = trailer_says(seal, bytes, f->usable, &t);
  if (!is_known) atomic64_load_acquire(&secrets.trailer); /* S-secrets: before the older ones */
  for (size_t i = 0; !is_known && i < SECRETS_OLDER; i++) {
    if (atomic64_load_relaxed(&secrets.older[i]) == 0) break;
    seal = trailer_seal_by(f->block, &secrets.older[i]);
    is_known = trailer_says(seal, bytes, f->usable, &t);
  }
  return is_known ? seal : now;
}

bool checked_has_trailer(const checked_t *f, uintptr_t bytes) {
  trailer_t t;
  uint64_t seal = checked_seal(f, bytes);
  return trailer_says(seal, bytes, f->usable, &t) &&
         trailer_is_filled(seal, bytes, f->usable, t.size);
}

bool checked_is_whole(const checked_t *f) {
  for (int looks = 0; looks < LOOKS_CLOSELY; looks++) {
    uint8_t seen = checked_state(f);
    if ((seen & STATE_IS) != STATE_LIVE || checked_has_trailer(f, f->block)) return true;
    if (!atomic8_cas_acq_rel(f->state, &seen, seen)) return true; /* S-state: it has changed */
  }
  return false;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Does a hook ask about a sampled block that is not yet the program's, or no longer? */
static cold bool is_with_hook(const checked_t *f) {
  trailer_t t;
  if (f->slab == NULL) return !trailer_says(checked_seal(f, f->block), f->block, f->usable, &t);
  bool is_sampled = !f->is_small && sampled_blocks(&f->slab->sampled) != 0;
  return is_sampled && (atomic8_load_relaxed(f->state) & STATE_IS) != STATE_LIVE;
}

size_t secure_size(const void *p, const char *call) {
  if (checked_is_empty(p)) return heap_usable_size(p, call);
  checked_t f = checked_find(p, call);
  if (unlikely(sample_was_started()) && is_with_hook(&f)) return heap_usable_size(p, call);
  return checked_read(&f, checked_state(&f), call).size;
}

void secure_check_size(const void *p, size_t size, const char *call) {
  if (secure_size(p, call) != size) fatal("wrong size", p, call);
}
