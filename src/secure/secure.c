/* secure.c - blocks that are checked                                                layer 7: secure
 * Contract: secure.h. */
#include "secure.h"

#include "../heap/enter.h"
#include "../heap/firstclass.h"
#include "../heap/resize.h"
#include "../heap/slow.h"
#include "../os/os.h"
#include "../stock/quarantine.h"
#include "../stock/sample.h"
#include "checked.h"

enum {
  SMALL_MOST = SMALL_MAX_SIZE - TRAILER_SIZE,
  PATROL = 64, /* frees between two looks at some block */
};
#define ANY_SIZE SIZE_MAX

/* A block of no bytes has nothing to check: its address is all there is. */
static always_inline bool is_empty(const void *p) {
  return unlikely(map_kind(map_find(p)) == TENANT_EMPTY);
}

/* ---- guards ---------------------------------------------------------------------------------- */

/* From the last page of a large block to the end of its slices. What the system does not close
 * stays open: the trailer is still checked. */
static void guard_close(const checked_t *f) {
  if (f->guard != 0) quarantine_close((char *)f->block + f->usable, f->guard);
}
static bool guard_open(const checked_t *f) {
  return f->guard == 0 || quarantine_open((char *)f->block + f->usable, f->guard);
}

/* ---- allocating ------------------------------------------------------------------------------ */

/* Before what its next state goes with is written. relaxed: the fence comes behind it */
static always_inline void announce(atomic8_t *state, uint8_t life) {
  atomic8_store_relaxed(state, life | STATE_CHANGES);
  atomic_fence_release(); /* S-state */
}

/* The link and the key are gone, and nobody wrote to the rest of it while it was free. */
static always_inline void wipe(const checked_t *f, uint8_t state) {
  uint64_t *words = (uint64_t *)f->block;
  if (unlikely((state & STATE_IS) == STATE_FRESH)) {
    memset(words, 0, f->usable);
    return;
  }
  words[0] = words[1] = 0;
  if (unlikely(!bits_are_zero(words + 2, f->usable - 16)))
    checked_refuse("write after free to", words, f->usable, "malloc");
}

/* The block is the program's. */
static always_inline void *make_live(const checked_t *f, uint8_t state, trailer_t t) {
  uint8_t life = (uint8_t)((state & ~STATE_IS) + STATE_LIFE);
  announce(f->state, life);
  trailer_write(f->block, f->usable, t);
  atomic8_store_release(f->state, life | STATE_LIVE); /* S-state */
  return (void *)f->block;
}

static cold void *give_up(void *p) { /* no memory for the states */
  heap_free(p, "malloc");
  return NULL;
}

static always_inline void *hand_out_small(const checked_t *f, trailer_t t) {
  if (unlikely(f->state == NULL)) return give_up((void *)f->block);
  uint8_t state = atomic8_load_relaxed(f->state); /* relaxed: its holder's */
  if (unlikely((state & STATE_IS) == STATE_LIVE))
    fatal("heap corruption", (void *)f->block, "malloc");
  wipe(f, state);
  if (unlikely(f->number == 0))
    trailer_write(f->block - f->usable, f->usable,
                  (trailer_t){f->usable - TRAILER_SIZE, ORIGIN_MALLOC});
  return make_live(f, state, t);
}

/* `class`: of the bin from which the block comes. */
static always_inline void *hand_out_of(unsigned class, void *p, trailer_t t) {
  const class_info_t *info = &class_info[class];
  size_t number = class_number((uint16_t)(uintptr_t)p, info->inverse);
  checked_t f = checked_small(NULL, p, info->size, number);
  return hand_out_small(&f, t);
}

static cold void *hand_out(void *p, trailer_t t) {
  checked_t f = checked_find(p, "malloc");
  if (f.is_small) return hand_out_small(&f, t);
  if (unlikely(f.state == NULL && f.slab != NULL)) return give_up(p);
  heap_clear(p, f.usable); /* nothing says that it lives, before it does */
  if (f.state == NULL) trailer_write(f.block, f.usable, t);
  else make_live(&f, atomic8_load_relaxed(f.state), t); /* relaxed: as above */
  guard_close(&f);
  return p;
}

void *secure_malloc(size_t size, origin_t origin) {
  if (unlikely(size - 1 >= SMALL_MOST) || unlikely(heap_here.limit == 0)) return NULL;
  unsigned c = class_of(max_size(size + TRAILER_SIZE, LEAST_SIZE));
  void *p = fast_pop(c);
  return likely(p != NULL) ? hand_out_of(c, p, (trailer_t){size, origin}) : NULL;
}

void *secure_aligned(size_t alignment, size_t size, origin_t origin) {
  if (unlikely(size - 1 >= SMALL_MOST) || unlikely(heap_here.limit == 0)) return NULL;
  unsigned c = class_of_aligned(alignment, max_size(size + TRAILER_SIZE, LEAST_SIZE));
  void *p = fast_pop(c); /* of class 0: whose bin is empty */
  return likely(p != NULL) ? hand_out_of(c, p, (trailer_t){size, origin}) : NULL;
}

/* What the heap is asked for. One of several slices has a page more, for its guard. */
static size_t with_trailer(size_t size) {
  size_t least = max_size(size + TRAILER_SIZE, LEAST_SIZE);
  return likely(!quarantine_closes(least)) ? least : least + os_page_size();
}

static void *ask_heap(struct fh_heap *heap, size_t alignment, size_t size) {
  if (unlikely(heap != NULL)) return firstclass_aligned(heap, alignment, size);
  if (likely(alignment <= CLASS_STEP)) return fast_malloc(size);
  return fast_aligned_or(alignment, size, heap_aligned_slow);
}

/* What this thread holds back may be enough. */
static cold void *ask_again(struct fh_heap *heap, size_t alignment, size_t size) {
  secure_end_quarantine();
  return ask_heap(heap, alignment, size);
}

/* Of `room` bytes of the heap's, of which `size` and a trailer are used. */
static void *allocate_room(struct fh_heap *heap, size_t alignment, size_t size, size_t room,
                           origin_t origin) {
  void *p = ask_heap(heap, alignment, room);
  if (unlikely(p == NULL)) p = ask_again(heap, alignment, room);
  return likely(p != NULL) ? hand_out(p, (trailer_t){size, origin}) : NULL;
}

void *secure_allocate(struct fh_heap *heap, size_t alignment, size_t size, origin_t origin) {
  if (unlikely(size > PTRDIFF_MAX / 2)) return NULL;
  void *empty =
    unlikely(size == 0) && heap == NULL && alignment <= CLASS_STEP ? heap_malloc_empty() : NULL;
  if (unlikely(empty != NULL)) return empty;
  return allocate_room(heap, alignment, size, with_trailer(size), origin);
}

/* ---- freeing --------------------------------------------------------------------------------- */

/* One that was not closed is still as it was made. */
static void free_rested_large(void *p) {
  size_t usable = atomic64_load_relaxed(&slab_of(p)->size);
  if (!quarantine_closes(usable) && !bits_are_zero(p, usable))
    checked_refuse("write after free to", p, usable, "free");
  heap_free(p, "free");
}

/* Nobody wrote where the link and the key will be. */
static always_inline void free_rested(void *p) {
  const uint64_t *words = p;
  if (unlikely((words[0] | words[1]) != 0)) fatal("write after free", p, "free");
  fast_free(p);
}

/* Now and then some quiet block of the same slab is looked at. */
static cold void patrol(checked_t f, uint64_t random, const char *call) {
  checked_t other = checked_other(&f, random % f.slab->capacity);
  if (!checked_is_whole(&other))
    checked_refuse("overflow behind", (void *)other.block, f.usable - TRAILER_SIZE, call);
}

/* The block rests, and another that has rested goes. What belongs to a first-class heap may end
 * with it at any moment, and goes at once. */
static always_inline void let_rest(const checked_t *f, const char *call) {
  heap_t *h = heap_of_thread();
  void *p = (void *)f->block;
  /* relaxed: the block's holder calls */
  bool is_tagged = !atomic_ptr_is_relaxed(&f->slab->tag, NULL);
  if (unlikely(h == NULL) || unlikely(is_tagged)) return fast_free(p);
  quarantine_t *q = heap_quarantine(h);
  uint64_t random = quarantine_draw(q);
  if (unlikely((random >> 32) % PATROL == 0)) patrol(*f, random, call); /* the slab is there yet */
  p = quarantine_put(q, p, f->usable, random);
  if (likely(p != NULL)) free_rested(p);
}

/* Of two threads that free the block one succeeds. */
static always_inline void end_life(const checked_t *f, uint8_t seen, const char *call) {
  uint8_t expected = seen;
  if (unlikely(!atomic8_cas_acq_rel(f->state, &expected, seen | STATE_CHANGES))) /* S-state */
    checked_refuse_state(expected, (void *)f->block, call);
}

/* `size`: what was asked for, or ANY_SIZE. */
static always_inline void end_small(const checked_t *f, size_t size, origin_t origin,
                                    const char *call) {
  void *p = (void *)f->block;
  if (unlikely(f->state == NULL)) fatal("invalid pointer", p, call);
  uint8_t seen = checked_state(f);
  trailer_t t = checked_read(f, seen, call);
  if (unlikely(t.origin != origin && origin != ORIGIN_ANY))
    checked_refuse_origin(t.origin, p, call);
  if (unlikely(t.size != size && size != ANY_SIZE)) fatal("wrong size", p, call);
  end_life(f, seen, call);
  if (unlikely(!checked_is_whole_before(f)))
    checked_refuse("underflow before", p, f->usable - TRAILER_SIZE, call);
  memset(p, 0, f->usable);
  atomic8_store_release(f->state, (uint8_t)((seen & ~STATE_IS) | STATE_RESTED)); /* S-state */
  let_rest(f, call);
}

static always_inline bool free_here(void *p, size_t size, origin_t origin, const char *call) {
  uintptr_t block = (uintptr_t)p, window = window_of(block);
  if (unlikely(window != heap_here.window)) return false;
  slab_t *s = fast_descriptor(block, window);
  if (unlikely(!class_is_multiple((uint16_t)block, s->inverse))) return false;
  size_t number = class_number((uint16_t)block, s->inverse);
  checked_t f = checked_small(s, p, class_size(slab_class(s)), number);
  end_small(&f, size, origin, call);
  return true;
}

bool secure_free_fast(void *p, origin_t origin, const char *call) {
  return free_here(p, ANY_SIZE, origin, call);
}

bool secure_free_sized_fast(void *p, size_t size, origin_t origin, const char *call) {
  return free_here(p, size, origin, call);
}

/* No access to it is possible while it rests. One that is sampled, or a first-class heap's, goes at
 * once. */
static void let_rest_large(const checked_t *f, const char *call) {
  heap_t *h = heap_of_thread();
  void *p = (void *)f->block;
  bool rests = h != NULL && f->slab != NULL && (slab_word(f->slab) & SLAB_IS_SAMPLED) == 0 &&
               atomic_ptr_is_relaxed(&f->slab->tag, NULL); /* relaxed: as above */
  if (rests && f->guard == 0) memset(p, 0, f->usable);
  if (rests) p = quarantine_put_large(heap_quarantine(h), p);
  else if (!guard_open(f)) p = NULL; /* it stays, for ever */
  if (rests && p != NULL) free_rested_large(p);
  else if (p != NULL) heap_free(p, call);
}

static void end_large(const checked_t *f, origin_t origin, const char *call) {
  uint8_t seen = checked_state(f);
  trailer_t t = checked_read(f, seen, call);
  if (t.origin != origin && origin != ORIGIN_ANY)
    checked_refuse_origin(t.origin, (void *)f->block, call);
  if (f->state != NULL) {
    end_life(f, seen, call);
    atomic8_store_release(f->state, (uint8_t)((seen & ~STATE_IS) | STATE_RESTED)); /* S-state */
  }
  let_rest_large(f, call);
}

void secure_free(void *p, origin_t origin, const char *call) {
  if (secure_free_fast(p, origin, call)) return;
  if (is_empty(p)) return heap_free(p, call);
  checked_t f = checked_find(p, call);
  if (f.is_small) end_small(&f, ANY_SIZE, origin, call);
  else end_large(&f, origin, call);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Of a sampled block whose hook asks: it is not yet the program's, or not any more. */
static cold bool is_with_hook(const checked_t *f) {
  trailer_t t;
  if (f->slab == NULL) return !trailer_read(f->block, f->usable, &t);
  bool is_sampled = !f->is_small && sampled_blocks(&f->slab->sampled) != 0;
  return is_sampled && (atomic8_load_relaxed(f->state) & STATE_IS) != STATE_LIVE;
}

size_t secure_size(const void *p, const char *call) {
  if (is_empty(p)) return heap_usable_size(p, call);
  checked_t f = checked_find(p, call);
  if (unlikely(sample_was_started()) && is_with_hook(&f)) return heap_usable_size(p, call);
  return checked_read(&f, checked_state(&f), call).size;
}

void secure_check_size(const void *p, size_t size, const char *call) {
  if (secure_size(p, call) != size) fatal("wrong size", p, call);
}

/* What was filler or a trailer becomes the program's, and reads as zero. */
static void *resized(uintptr_t block, size_t old_usable, trailer_t old, size_t size) {
  checked_t f = checked_find((void *)block, "realloc");
  size_t had = min_size(old_usable, f.usable);
  uint8_t life = f.state != NULL ? atomic8_load_relaxed(f.state) & (uint8_t)~STATE_IS : 0;
  if (f.state != NULL) announce(f.state, life);
  if (had > old.size) memset((char *)block + old.size, 0, had - old.size);
  if (f.slab != NULL && f.usable > had) memset((char *)block + had, 0, f.usable - had);
  trailer_write(block, f.usable, (trailer_t){size, old.origin});
  life += STATE_LIFE;
  if (f.state != NULL) atomic8_store_release(f.state, life | STATE_LIVE); /* S-state */
  guard_close(&f);
  return (void *)block;
}

/* Behind what is the block's, up to the end of its slices, is what earlier ones left. */
static void clear_behind(const checked_t *f) {
  size_t all = (size_t)atomic32_load_relaxed(&f->slab->slices) << SLICE_SHIFT;
  char *behind = (char *)f->block + f->usable;
  if (!os_discard(behind, all - f->usable)) memset(behind, 0, all - f->usable);
}

/* From here on until it is resized, or not, nobody looks at it: the heap may move it. False: it
 * stays as it is. */
static bool begin_resize(const checked_t *f) {
  if (!guard_open(f)) return false;
  if (f->state != NULL) announce(f->state, checked_state(f) & (uint8_t)~STATE_IS);
  if (f->slab != NULL) clear_behind(f);
  return true;
}
static void cancel_resize(const checked_t *f) {
  guard_close(f);
  if (f->state == NULL) return;
  uint8_t life = checked_state(f) & (uint8_t)~STATE_IS;
  atomic8_store_release(f->state, life | STATE_LIVE); /* S-state */
}

/* Can a trailer say that so much of a block is not used? */
static bool has_slack_for(size_t usable, size_t size) {
  return usable - TRAILER_SIZE - size <= TRAILER_SLACK_MOST;
}

static bool fits(const checked_t *f, size_t size) {
  return fast_is_right(f->usable, with_trailer(size));
}

/* To a block of its own; the old one is as if it were freed. */
static void *resize_by_copy(const checked_t *f, struct fh_heap *heap, trailer_t old, size_t size,
                            const char *call) {
  size_t room = heap_with_headroom(f->usable, with_trailer(size));
  void *p = (void *)f->block, *block = allocate_room(heap, 1, size, room, old.origin);
  if (block == NULL && (with_trailer(size) > f->usable || !has_slack_for(f->usable, size)))
    return NULL;
  if (block == NULL && !guard_open(f)) return NULL;
  if (block == NULL) return resized(f->block, f->usable, old, size);
  memcpy(block, p, min_size(size, old.size));
  secure_free(p, ORIGIN_ANY, call);
  return block;
}

/* `p` has no bytes. */
static cold void *resize_empty(struct fh_heap *heap, void *p, size_t size, const char *call) {
  size_t none = heap_usable_size(p, call); /* `fatal` unless it lives */
  void *block = secure_allocate(heap, 1, max_size(size, none), ORIGIN_MALLOC);
  if (block != NULL) heap_free(p, call);
  return block;
}

void *secure_resize(struct fh_heap *heap, void *p, size_t size, const char *call) {
  if (is_empty(p)) return resize_empty(heap, p, size, call);
  checked_t f = checked_find(p, call);
  trailer_t t = checked_read(&f, checked_state(&f), call);
  if (unlikely(t.origin != ORIGIN_MALLOC)) checked_refuse_origin(t.origin, p, call);
  if (size > PTRDIFF_MAX / 2) return NULL;
  if (f.is_small && fits(&f, size)) return resized(f.block, f.usable, t, size);
  if (f.is_small || with_trailer(size) <= SMALL_MAX_SIZE)
    return resize_by_copy(&f, heap, t, size, call);
  void *moved = NULL;
  bool begun = begin_resize(&f);
  if (begun) moved = heap_resize(p, with_trailer(size), heap, call);
  if (moved != NULL) return resized((uintptr_t)moved, f.usable, t, size);
  if (begun) cancel_resize(&f);
  return resize_by_copy(&f, heap, t, size, call);
}

bool secure_expand(void *p, size_t size, const char *call) {
  if (is_empty(p)) return heap_expand(p, size, call);
  checked_t f = checked_find(p, call);
  trailer_t t = checked_read(&f, checked_state(&f), call);
  if (size > PTRDIFF_MAX / 2 || (f.is_small && with_trailer(size) > f.usable)) return false;
  if (!f.is_small && !begin_resize(&f)) return false;
  bool is_done =
    f.is_small || (heap_expand(p, with_trailer(size), call) &&
                   has_slack_for(heap_usable_size(p, call), size)); /* else as it was */
  if (is_done) resized(f.block, f.usable, t, size);
  else cancel_resize(&f);
  return is_done;
}

/* Other threads may free the block meanwhile, and then nobody may touch it: the system reads. */
bool secure_visited(const void *p, size_t *size) {
  checked_t f;
  trailer_t t;
  uint64_t word;
  if (is_empty(p)) return true;
  if (!checked_peek(p, *size, &f) || f.usable < TRAILER_SIZE) return false;
  uint8_t seen = checked_state(&f);
  uintptr_t bytes = (uintptr_t)&word + sizeof word - f.usable; /* it ends with `word` */
  if ((seen & STATE_IS) != STATE_LIVE ||
      !os_copy(&word, trailer_of(f.block, f.usable), sizeof word))
    return false;
  if (!trailer_says(trailer_hash(f.block), bytes, f.usable, &t) || checked_state(&f) != seen)
    return false;
  *size = t.size;
  return true;
}

static bool end_with_heap(void *p, size_t usable, void *context) {
  checked_t f = checked_find(p, "fh_heap_destroy");
  (void)usable, (void)context;
  bool is_live = (checked_state(&f) & STATE_IS) == STATE_LIVE;
  if (is_live && !checked_has_trailer(&f, f.block, f.usable))
    checked_refuse("overflow behind", p, f.usable - TRAILER_SIZE, "fh_heap_destroy");
  if (f.state != NULL) /* its memory may be anything now; S-state */
    atomic8_store_release(f.state, (checked_state(&f) & (uint8_t)~STATE_IS) | STATE_FRESH);
  if (!guard_open(&f)) fatal("a guard that the system does not open", p, "fh_heap_destroy");
  return true;
}

void secure_heap_ends(struct fh_heap *heap) {
  if (heap != NULL) firstclass_visit(heap, end_with_heap, NULL);
}

/* ---- first and last -------------------------------------------------------------------------- */

/* Of small ones nobody wrote where the link and the key will be. */
void secure_end_quarantine(void) {
  heap_t *h = heap_of_thread();
  size_t place = 0;
  for (void *p; /* Bound: the quarantine's places */
       h != NULL && (p = quarantine_take(heap_quarantine(h), &place)) != NULL;)
    if (slab_kind(slab_word(slab_of(p))) == SLAB_LARGE) free_rested_large(p);
    else free_rested(p);
}

/* relaxed: of two threads that start at once one sets it, and both see it */
void secure_start(void) {
  uint64_t none = 0;
  atomic64_cas_relaxed(&block_secret, &none, os_random() | 1);
  heap_before_leave(secure_end_quarantine);
}
