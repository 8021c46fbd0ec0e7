/* secure.c - blocks that are checked                                                layer 7: secure
 * Contract: secure.h. */
#include "secure.h"

#include "../heap/enter.h"
#include "../heap/firstclass.h"
#include "../heap/resize.h"
#include "../heap/slow.h"
#include "../os/os.h"
#include "../slab/secrets.h"
#include "../stock/guard.h"
#include "../stock/quarantine.h"
#include "../stock/sample.h"
#include "checked.h"

enum {
  PLAIN_MOST = SMALL_MOST - TRAILER_SIZE,
  PATROL = 64,               /* frees between two looks at some block */
  CLEARED_BLINDLY = 4 << 10, /* bytes */
};

/* ---- guards ---------------------------------------------------------------------------------- */

/* From a large block's last page to the end of its slices. If it fails, there is the trailer. */
static void guard_protect(const checked_t *f) {
  if (f->has_guard) quarantine_protect((void *)f->block, f->usable);
}
static bool guard_unprotect(const checked_t *f) {
  return f->slab == NULL || quarantine_unprotect((void *)f->block);
}

/* ---- allocating ------------------------------------------------------------------------------ */

/* Comes before all writes that belong to the next state. relaxed: the fence comes behind it */
static always_inline void announce(atomic8_t *state, uint8_t life) {
  atomic8_store_relaxed(state, life | STATE_CHANGES);
  atomic_fence_release(); /* S-state */
}

/* Clears the link and the key, and checks that nobody wrote to the rest while it was free. */
static always_inline void wipe(const checked_t *f, uint8_t state) {
  uint64_t *words = (uint64_t *)f->block;
  if (state == STATE_FRESH) {
    memset(words, 0, f->usable);
    return;
  }
  words[0] = words[1] = 0;
  if (state != STATE_CLEAN && unlikely(!bits_are_zero(words + 2, f->usable - 16)))
    checked_refuse("write after free to", words, f->usable, "malloc");
}

/* Makes the block the program's. */
static always_inline void *make_live(const checked_t *f, uint8_t state, trailer_t t) {
  uint8_t life = (uint8_t)((state & ~STATE_IS) + STATE_LIFE);
  announce(f->state, life);
  trailer_write(f->block, f->usable, t);
  atomic8_store_release(f->state, life | STATE_LIVE); /* S-state */
  return (void *)f->block;
}

/* There is no memory for the states. */
static cold void *give_up(void *p) { return heap_free(p, "malloc"), NULL; }

/* `class`: of the bin that the block comes from, or of its slab. */
static out_of_line void *hand_out_small(unsigned class, void *p, trailer_t t) {
  checked_t f = checked_small(NULL, p, class_size(class), states_of(p));
  if (f.state == NULL) return give_up(p);
  uint8_t state = atomic8_load_relaxed(f.state); /* relaxed: its holder's */
  if ((state & STATE_IS) == STATE_LIVE) fatal("heap corruption", p, "malloc");
  wipe(&f, state);
  if (checked_is_first(&f))
    trailer_write(f.block - f.usable, f.usable,
                  (trailer_t){f.usable - TRAILER_SIZE, ORIGIN_MALLOC});
  return make_live(&f, state, t);
}

/* Most have rested, and are unchanged. It calls only in tail position, so it saves no register. */
static always_inline void *hand_out_of(unsigned class, void *p, trailer_t t, states_t *states) {
  free_block_t *block = p;
  size_t usable = class_size(class), rest = usable - sizeof *block;
  checked_t f = {.block = (uintptr_t)p, .usable = usable, .state = states_at(states, p)};
  if (unlikely(checked_is_first(&f))) return hand_out_small(class, p, t);
  uint8_t state = atomic8_load_relaxed(f.state); /* relaxed: its holder's */
  if (state != STATE_CLEAN &&
      (unlikely((state & STATE_IS) != STATE_RESTED) || unlikely(!bits_are_zero(block + 1, rest))))
    return hand_out_small(class, p, t);
  *block = (free_block_t){0};
  return make_live(&f, state, t);
}

static cold void *hand_out(void *p, trailer_t t) {
  checked_t f = checked_find(p, "malloc");
  if (f.is_small) return hand_out_small(slab_class(f.slab), p, t);
  if (unlikely(f.state == NULL && f.slab != NULL)) /* the heap would hand it out again */
    return large_free(NULL, f.slab, p, "malloc"), NULL;
  heap_clear(p, f.usable); /* nothing says that it lives before it does */
  if (f.state == NULL) trailer_write(f.block, f.usable, t), guard_note_asked(p, t.size);
  else make_live(&f, atomic8_load_relaxed(f.state), t); /* relaxed: as above */
  guard_protect(&f);
  return p;
}

/* `c` 0: none, because its bin is empty. */
static always_inline void *malloc_of(unsigned c, size_t size, origin_t origin) {
  void *p = fast_pop(c);
  if (unlikely(p == NULL)) return NULL;
  states_t *states = states_of(p);
  return likely(states != NULL) ? hand_out_of(c, p, (trailer_t){size, origin}, states) : give_up(p);
}

static cold void *start_over(void *p, size_t size, void *(*slow)(size_t size)) {
  heap_free(p, "malloc");
  return slow(size);
}

void *secure_malloc(size_t size, origin_t origin, void *(*slow)(size_t size)) {
  if (unlikely(size - 1 >= PLAIN_MOST) || unlikely(heap_here.limit == 0)) return slow(size);
  unsigned c = class_of(max_size(size + TRAILER_SIZE, CHECKED_LEAST));
  void *p = fast_pop(c);
  if (unlikely(p == NULL)) return slow(size);
  states_t *states = states_found(p);
  if (unlikely(states == NULL)) return start_over(p, size, slow);
  return hand_out_of(c, p, (trailer_t){size, origin}, states);
}

void *secure_aligned(size_t alignment, size_t size, origin_t origin) {
  if (unlikely(size - 1 >= PLAIN_MOST) || unlikely(heap_here.limit == 0)) return NULL;
  unsigned c = class_of_aligned(alignment, max_size(size + TRAILER_SIZE, CHECKED_LEAST));
  return malloc_of(c, size, origin);
}

/* How much to ask the heap for. A large block has one more page, for its guard. */
static size_t with_trailer(size_t size) {
  size_t least = max_size(size + TRAILER_SIZE, CHECKED_LEAST);
  return likely(!checked_has_guard(least)) ? least : least + os_page_size();
}

static void *ask_heap(struct fh_heap *heap, size_t alignment, size_t size) {
  if (unlikely(heap != NULL)) return firstclass_aligned(heap, alignment, size);
  if (likely(alignment <= CLASS_STEP)) return fast_malloc(size);
  return fast_aligned_or(alignment, size, heap_aligned_slow);
}

/* What this thread's quarantine holds may be enough. */
static cold void *ask_again(struct fh_heap *heap, size_t alignment, size_t size) {
  secure_end_quarantine();
  return ask_heap(heap, alignment, size);
}

/* Asks the heap for `room` bytes, or no more than `size` and a trailer, which are used. */
static void *allocate_room(struct fh_heap *heap, size_t alignment, size_t size, size_t room,
                           origin_t origin) {
  secrets_renew();
  void *p = ask_heap(heap, alignment, room);
  if (unlikely(p == NULL)) p = ask_again(heap, alignment, with_trailer(size));
  return likely(p != NULL) ? hand_out(p, (trailer_t){size, origin}) : NULL;
}

void *secure_allocate(struct fh_heap *heap, size_t alignment, size_t size, origin_t origin) {
  if (unlikely(size > PTRDIFF_MAX / 2)) return NULL;
  void *empty = unlikely(size == 0) && heap == NULL ? heap_malloc_empty(alignment) : NULL;
  if (unlikely(empty != NULL)) return empty;
  return allocate_room(heap, alignment, size, with_trailer(size), origin);
}

/* ---- freeing --------------------------------------------------------------------------------- */

/* Checks that nobody wrote where the link and the key will be. */
static always_inline void free_rested(void *p) {
  const uint64_t *words = p;
  if (unlikely((words[0] | words[1]) != 0)) fatal("write after free", p, "free");
  fast_free_or(p, true, heap_free_slow);
}

/* Looks at some other block of the same slab. */
static void patrol(const checked_t *f, uint64_t random, const char *call) {
  uintptr_t number = 1 + random % f->slab->capacity;
  checked_t other = checked_other(f, align_down(f->block, SLICE_SIZE) + number * f->usable);
  if (!checked_is_whole(&other))
    checked_refuse("overflow behind", (void *)other.block, f->usable - TRAILER_SIZE, call);
}

/* The block rests, and another that has rested goes back. */
static always_inline void let_rest(const checked_t *f, quarantine_t *q, uint64_t random) {
  void *p = quarantine_put(q, (void *)f->block, f->usable, random);
  if (likely(p != NULL)) free_rested(p);
}

static always_inline checked_t small_at(slab_t *s, void *p) {
  return checked_small(s, p, class_size(slab_class(s)), states_found(p));
}

static cold void patrol_and_rest(slab_t *s, void *p, quarantine_t *q, uint64_t random,
                                 const char *call) {
  checked_t f = small_at(s, p);
  patrol(&f, random, call); /* the slab is there as long as the block */
  let_rest(&f, q, random);
}

/* A first-class heap's block may end with its heap at any moment, so it goes back at once. relaxed:
 * the block's holder calls */
static always_inline bool may_rest(const slab_t *s) { return atomic_ptr_is_relaxed(&s->tag, NULL); }

/* If two threads free or resize the block, one succeeds. */
static always_inline void end_life(const checked_t *f, uint8_t seen, const char *call) {
  uint8_t expected = seen;
  if (unlikely(!atomic8_cas_acq_rel(f->state, &expected, seen | STATE_CHANGES))) /* S-state */
    checked_refuse_state(expected, (void *)f->block, call);
}

/* Something wrote before the block, or what lies there has changed meanwhile, or is a parent's. */
static void look_before(const checked_t *f, const char *call) {
  checked_t before = checked_other(f, f->block - f->usable);
  bool is_first = checked_is_first(f); /* what lies before it is no block, and has no state */
  if (is_first ? !checked_has_trailer(&before, before.block) : !checked_is_whole(&before))
    checked_refuse("underflow before", (void *)f->block, f->usable - TRAILER_SIZE, call);
}

static uint8_t rested(uint8_t state) { return (uint8_t)((state & ~STATE_IS) | STATE_RESTED); }

/* `seen`: its state at first. If two threads free the block, one succeeds, even if the block went
 * to somebody else meanwhile. */
static cold void end_small(const checked_t *f, uint8_t seen, size_t size, origin_t origin,
                           const char *call) {
  void *p = (void *)f->block;
  heap_t *h = heap_of_thread();
  if (f->state == NULL) fatal("invalid pointer", p, call);
  trailer_t t = checked_read(f, seen, call);
  if (t.origin != origin && origin != ORIGIN_ANY) checked_refuse_origin(t.origin, p, call);
  if (t.size != size && size != SECURE_ANY_SIZE) fatal("wrong size", p, call);
  end_life(f, seen, call);
  if (!checked_reads_before(f)) look_before(f, call);
  memset(p, 0, f->usable);
  atomic8_store_release(f->state, rested(seen)); /* S-state */
  if (h == NULL || !may_rest(f->slab)) return fast_free(p);
  uint64_t random = quarantine_draw(heap_quarantine(h));
  if ((random >> 32) % PATROL == 0) patrol(f, random, call);
  let_rest(f, heap_quarantine(h), random);
}

static cold void end_seldom(slab_t *s, void *p, uint8_t seen, size_t size, origin_t origin,
                            const char *call) {
  checked_t f = small_at(s, p);
  end_small(&f, seen, size, origin, call);
}

/* Clears many bytes out of line, because a call would make the short way save registers. */
static out_of_line void clear_and_rest(slab_t *s, void *p, uint8_t seen, uint64_t random,
                                       const char *call) {
  checked_t f = small_at(s, p);
  quarantine_t *q = heap_quarantine(heap_of_thread());
  if (f.usable <= CLEARED_BLINDLY) memset(p, 0, f.usable);
  else bits_clear_all(p, f.usable);             /* pages that nobody wrote to take no memory */
  atomic8_store_release(f.state, rested(seen)); /* S-state */
  if (unlikely((random >> 32) % PATROL == 0)) patrol(&f, random, call);
  let_rest(&f, q, random);
}

/* Most blocks need no report, and go the short way. All others go the long way, as does one of
 * these now and then. */
static always_inline void free_shortly(slab_t *s, void *p, size_t size, origin_t origin,
                                       const char *call) {
  trailer_t t;
  states_t *states = states_found(p);
  if (unlikely(states == NULL)) return end_seldom(s, p, 0, size, origin, call);
  checked_t f = checked_small(s, p, class_size(slab_class(s)), states);
  uint8_t seen = checked_state(&f), expected = seen;
  if (unlikely(!may_rest(s)) || unlikely(!checked_reads(&f, seen, &t)) ||
      unlikely(t.origin != origin && origin != ORIGIN_ANY) ||
      unlikely(t.size != size && size != SECURE_ANY_SIZE) || unlikely(!checked_reads_before(&f)) ||
      unlikely(!atomic8_cas_acq_rel(f.state, &expected, seen | STATE_CHANGES))) /* S-state */
    return end_seldom(s, p, seen, size, origin, call);
  quarantine_t *q = heap_quarantine(heap_of_thread());
  uint64_t random = quarantine_draw(q);
  if (unlikely(f.usable > BITS_FEW)) return clear_and_rest(s, p, seen, random, call);
  bits_clear_few(p, f.usable);
  atomic8_store_release(f.state, rested(seen)); /* S-state */
  if (unlikely((random >> 32) % PATROL == 0)) return patrol_and_rest(s, p, q, random, call);
  let_rest(&f, q, random);
}
void secure_free_small(slab_t *s, void *p, size_t size, origin_t origin, const char *call) {
  free_shortly(s, p, size, origin, call);
}
void secure_free_plain(slab_t *s, void *p) {
  free_shortly(s, p, SECURE_ANY_SIZE, ORIGIN_MALLOC, "free");
}

/* A sampled block, or a first-class heap's, goes back at once. */
static void let_rest_large(const checked_t *f, const char *call) {
  heap_t *h = heap_of_thread();
  void *p = (void *)f->block;
  bool rests = h != NULL && f->slab != NULL && (slab_word(f->slab) & SLAB_IS_SAMPLED) == 0 &&
               may_rest(f->slab);
  if (f->slab != NULL) memset(p, 0, min_size(f->usable, os_page_size())); /* a table of functions */
  for (void *other; /* Bound: the quarantine's slots */
       rests && (other = quarantine_give_way(heap_quarantine(h), p)) != NULL;)
    heap_free(other, "free");
  if (rests) p = quarantine_put_large(heap_quarantine(h), p);
  else if (f->slab != NULL && !quarantine_open_to_free(p)) p = NULL; /* it is never reused */
  if (p != NULL) heap_free(p, call);
}

static void end_large(const checked_t *f, origin_t origin, const char *call) {
  uint8_t seen = checked_state(f);
  trailer_t t = checked_read(f, seen, call);
  if (t.origin != origin && origin != ORIGIN_ANY)
    checked_refuse_origin(t.origin, (void *)f->block, call);
  if (f->state != NULL) {
    end_life(f, seen, call);
    atomic8_store_release(f->state, rested(seen)); /* S-state */
  }
  let_rest_large(f, call);
}

void secure_free(void *p, origin_t origin, const char *call) {
  if (checked_is_empty(p)) return heap_free(p, call);
  checked_t f = checked_find(p, call);
  if (f.is_small) end_small(&f, checked_state(&f), SECURE_ANY_SIZE, origin, call);
  else end_large(&f, origin, call);
}

/* ---- resizing -------------------------------------------------------------------------------- */

/* Up to here its bytes may be moved with it. Bytes behind the block are left by earlier ones. */
static size_t extent_of(const checked_t *f) {
  if (f->is_small || f->slab == NULL) return f->usable;
  return (size_t)atomic16_load_relaxed(&f->slab->slices) << SLICE_SHIFT;
}

/* The first `had` bytes are unchanged, and up to `extent` it may hold what was moved with them.
 * Former filler and trailer become the program's, and all of it reads as zero. */
static void *resized(const checked_t *f, size_t had, size_t extent, trailer_t old, size_t size) {
  char *bytes = (char *)f->block;
  size_t end = f->slab != NULL ? f->usable : min_size(extent, f->usable);
  uint8_t life = f->state != NULL ? atomic8_load_relaxed(f->state) & (uint8_t)~STATE_IS : 0;
  if (f->state != NULL) announce(f->state, life);
  had = min_size(had, f->usable);
  if (had > old.size) memset(bytes + old.size, 0, had - old.size);
  if (end > had) memset(bytes + had, 0, end - had);
  trailer_write(f->block, f->usable, (trailer_t){size, old.origin});
  life += STATE_LIFE;
  if (f->state != NULL) atomic8_store_release(f->state, life | STATE_LIVE); /* S-state */
  else guard_note_asked(bytes, size);
  guard_protect(f);
  return bytes;
}

/* For a block that the heap has made longer or shorter, and may have moved. */
static void *resized_by_heap(void *p, size_t had, size_t extent, trailer_t old, size_t size) {
  checked_t f = checked_find(p, "realloc");
  return resized(&f, had, extent, old, size);
}

/* From here until the resizing ends nobody looks at the block, since the heap may move it. `seen`:
 * its state when its trailer was read. False: it stays as it is. */
static bool begin_resize(const checked_t *f, uint8_t seen, const char *call) {
  if (!f->is_small && !guard_unprotect(f)) return false;
  if (f->state != NULL) end_life(f, seen, call);
  return true;
}
static void cancel_resize(const checked_t *f) {
  guard_protect(f);
  if (f->state == NULL) return;
  uint8_t life = checked_state(f) & (uint8_t)~STATE_IS;
  atomic8_store_release(f->state, life | STATE_LIVE); /* S-state */
}

/* Can a trailer say that so much of a block is unused? */
static bool has_slack_for(size_t usable, size_t size) {
  return usable - TRAILER_SIZE - size <= TRAILER_SLACK_MOST;
}

static bool fits(const checked_t *f, size_t size) {
  return fast_fits(f->usable, with_trailer(size));
}

/* A small block stays in place. The bytes it grows by read as zero. */
static always_inline void *resized_here(const checked_t *f, uint8_t seen, trailer_t old,
                                        size_t size, const char *call) {
  char *bytes = (char *)f->block;
  uint8_t life = seen & (uint8_t)~STATE_IS;
  end_life(f, seen, call);
  if (size > old.size) memset(bytes + old.size, 0, size - old.size);
  trailer_write(f->block, f->usable, (trailer_t){size, old.origin});
  atomic8_store_release(f->state, (uint8_t)(life + STATE_LIFE) | STATE_LIVE); /* S-state */
  return bytes;
}

void *secure_resize_small(void *p, size_t size, const char *call) {
  trailer_t t;
  slab_t *s = fast_slab_here(p);
  if (unlikely(s == NULL) || unlikely(size > PLAIN_MOST)) return NULL;
  checked_t f = small_at(s, p);
  uint8_t seen = checked_state(&f);
  if (unlikely(f.states == NULL) || unlikely(!checked_reads(&f, seen, &t)) ||
      unlikely(t.origin != ORIGIN_MALLOC))
    return NULL;
  if (fits(&f, size)) return resized_here(&f, seen, t, size, call);
  size_t room = heap_with_headroom(f.usable, with_trailer(size));
  void *block = heap_here.limit != 0 ? malloc_of(class_of(room), size, ORIGIN_MALLOC) : NULL;
  if (unlikely(block == NULL)) return NULL;
  memcpy(block, p, min_size(size, t.size));
  secure_free_small(s, p, t.size, ORIGIN_MALLOC, call);
  return block;
}

/* Copies to a new block; the old one is treated as if freed. */
static void *resize_by_copy(const checked_t *f, uint8_t seen, struct fh_heap *heap, trailer_t old,
                            size_t size, const char *call) {
  size_t room = heap_with_headroom(f->usable, with_trailer(size));
  void *p = (void *)f->block, *block = allocate_room(heap, 1, size, room, old.origin);
  if (block == NULL && (size + TRAILER_SIZE > f->usable || !has_slack_for(f->usable, size)))
    return NULL;
  if (block == NULL && f->state != NULL) end_life(f, seen, call);
  if (block == NULL) return resized(f, f->usable, extent_of(f), old, size);
  memcpy(block, p, min_size(size, old.size));
  secure_free(p, ORIGIN_ANY, call);
  return block;
}

/* For a large block that stays large. False: the system refuses, or it would be as short as a small
 * one, or have more slack than a trailer can say. It is unchanged, but its resizing has begun. */
static bool resize_large_here(const checked_t *f, trailer_t old, size_t size, const char *call) {
  void *p = (void *)f->block;
  size_t room = max_size(with_trailer(size), with_trailer(SMALL_MOST));
  if (size <= old.size && room > f->usable) return false;
  return heap_expand(p, room, call) && has_slack_for(heap_usable_size(p, call), size);
}

/* For a block that shrinks, if there is no memory for a copy. */
static cold void *resize_without_memory(const checked_t *f, uint8_t seen, trailer_t old,
                                        size_t size, const char *call) {
  size_t extent = extent_of(f);
  if (f->is_small || size > old.size || !begin_resize(f, seen, call)) return NULL;
  if (resize_large_here(f, old, size, call))
    return resized_by_heap((void *)f->block, f->usable, extent, old, size);
  cancel_resize(f);
  return NULL;
}

/* `p` has no bytes. */
static cold void *resize_empty(struct fh_heap *heap, void *p, size_t size, const char *call) {
  size_t none = heap_usable_size(p, call); /* `fatal` unless it lives */
  void *block = secure_allocate(heap, 1, max_size(size, none), ORIGIN_MALLOC);
  if (block != NULL) heap_free(p, call);
  return block;
}

void *secure_resize(struct fh_heap *heap, void *p, size_t size, const char *call) {
  if (checked_is_empty(p)) return resize_empty(heap, p, size, call);
  checked_t f = checked_find(p, call);
  uint8_t seen = checked_state(&f);
  trailer_t t = checked_read(&f, seen, call);
  if (unlikely(t.origin != ORIGIN_MALLOC)) checked_refuse_origin(t.origin, p, call);
  if (size > PTRDIFF_MAX / 2) return NULL;
  if (f.is_small && fits(&f, size)) return resized_here(&f, seen, t, size, call);
  void *moved = NULL;
  size_t extent = extent_of(&f);
  bool begun = !f.is_small && with_trailer(size) > SMALL_MOST && begin_resize(&f, seen, call);
  if (begun) moved = heap_resize(p, with_trailer(size), heap, call);
  if (moved != NULL) return resized_by_heap(moved, f.usable, extent, t, size);
  if (begun) cancel_resize(&f);
  void *copy = resize_by_copy(&f, seen, heap, t, size, call);
  return likely(copy != NULL) ? copy : resize_without_memory(&f, seen, t, size, call);
}

bool secure_expand(void *p, size_t size, const char *call) {
  if (checked_is_empty(p) || heap_is_foreign(p)) return heap_expand(p, size, call);
  checked_t f = checked_find(p, call);
  uint8_t seen = checked_state(&f);
  trailer_t t = checked_read(&f, seen, call);
  if (size > PTRDIFF_MAX / 2 || (f.is_small && with_trailer(size) > f.usable)) return false;
  size_t extent = extent_of(&f);
  if (!begin_resize(&f, seen, call)) return size <= t.size;
  bool is_done = f.is_small || resize_large_here(&f, t, size, call) ||
                 (size <= t.size && has_slack_for(f.usable, size)); /* a guarded one stays */
  if (is_done) resized_by_heap(p, f.usable, extent, t, size);
  else cancel_resize(&f);
  return is_done || size <= t.size; /* it stays unchanged */
}

/* ---- first and last -------------------------------------------------------------------------- */

/* Checks that in small blocks nobody wrote where the link and the key will be. */
void secure_end_quarantine(void) {
  heap_t *h = heap_of_thread();
  size_t slot = 0;
  for (void *p; /* Bound: the quarantine's slots */
       h != NULL && (p = quarantine_take(heap_quarantine(h), &slot)) != NULL;)
    if (slab_kind(slab_word(slab_of(p))) == SLAB_LARGE) heap_free(p, "free");
    else free_rested(p);
}

void secure_start(void) {
  secrets_start();
  quarantine_start();
  heap_before_leave(secure_end_quarantine);
}
