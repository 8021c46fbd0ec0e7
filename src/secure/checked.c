/* checked.c - a block, found by its address, and what is looked at in it           layer 7: secure
 * Contract: checked.h. */
#include "checked.h"

#include "../base/fmt.h"
#include "../heap/resize.h"
#include "../os/os.h"
#include "../stock/quarantine.h"

enum { LOOKS_CLOSELY = 3 }; /* at another's block that seems overwritten, before it is said to be */

/* ---- what is found wrong --------------------------------------------------------------------- */

_Noreturn cold void checked_refuse(const char *what, const void *p, size_t size, const char *call) {
  char text[80];
  fmt_t f;
  fmt_start(&f, text, sizeof text, NULL, NULL);
  fmt_text(&f, what);
  fmt_text(&f, " a block of ");
  fmt_decimal(&f, size);
  fmt_text(&f, " bytes");
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

/* Sampled, in place of a block that would have been a small one: it has no guard. */
static bool stands_for_small(const slab_t *s) {
  return (slab_word(s) & SLAB_IS_SAMPLED) != 0 &&
         atomic64_load_relaxed(&s->sampled.size) <= SMALL_MAX_SIZE;
}

checked_t checked_large(const void *p, const char *call) {
  bool is_large = map_kind(map_find(p)) == TENANT_ARENA;
  checked_t f = {.slab = is_large ? slab_of(p) : NULL, .block = (uintptr_t)p};
  f.usable = heap_usable_size(p, call);
  if (f.slab != NULL && !stands_for_small(f.slab) && quarantine_closes(f.usable)) {
    f.usable -= os_page_size();
    f.guard = ((size_t)atomic32_load_relaxed(&f.slab->slices) << SLICE_SHIFT) - f.usable;
  }
  f.states = is_large ? states_of(p) : NULL;
  f.state = f.states != NULL ? states_at(f.states, p, 0) : NULL;
  return f;
}

checked_t checked_find(const void *p, const char *call) {
  slab_t *s = map_kind(map_find(p)) == TENANT_ARENA ? slab_of(p) : NULL;
  bool is_slice = s != NULL && arena_slice(p) >= ARENA_FIRST_SLICE;
  uint32_t word = is_slice ? slab_word(s) : 0;
  if (slab_kind(word) != SLAB_SMALL) return checked_large(p, call);
  uint16_t offset = (uint16_t)(uintptr_t)p;
  const class_info_t *info = &class_info[word];
  if (unlikely(!class_is_multiple(offset, info->inverse))) fatal("invalid pointer", p, call);
  return checked_small(s, p, info->size, class_number(offset, info->inverse));
}

/* ---- is it as it was made? ------------------------------------------------------------------- */

bool checked_is_whole(const checked_t *f) {
  for (int looks = 0; looks < LOOKS_CLOSELY; looks++) {
    trailer_t t;
    uint64_t hash = trailer_hash(f->block);
    uint8_t seen = atomic8_load_acquire(f->state); /* S-state */
    if ((seen & STATE_IS) != STATE_LIVE) return true;
    if (trailer_says(hash, f->block, f->usable, &t) &&
        trailer_is_filled(hash, f->block, f->usable, t.size))
      return true;
    if (!atomic8_cas_acq_rel(f->state, &seen, seen)) return true; /* S-state: it is not as it was */
  }
  return false;
}
