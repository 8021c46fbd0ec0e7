/* secure.c - blocks that are checked                                                layer 7: secure
 * Contract: secure.h. */
#include "secure.h"

#include "../base/fmt.h"
#include "../heap/enter.h"
#include "../heap/fast.h"
#include "../heap/firstclass.h"
#include "../heap/resize.h"
#include "../heap/visit.h"
#include "../os/os.h"
#include "../slab/states.h"
#include "../stock/empty.h"
#include "../stock/quarantine.h"
#include "../stock/sample.h"

enum {
  LEAST_SIZE = 17,     /* bytes of the heap's block: more than the class of 16 has */
  LOOKS_CLOSELY = 3,   /* at another's block that seems overwritten, before it is said to be */
  PATROL = 64,         /* frees between two looks at some block */
  LAST_LOOK = 1 << 20, /* blocks that are looked at when the process exits */
};

/* ---- what is found wrong --------------------------------------------------------------------- */

_Noreturn static cold void refuse_block(const char *what, const void *p, size_t size,
                                        const char *call) {
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

_Noreturn static cold void refuse_state(uint8_t state, const void *p, const char *call) {
  fatal((state & STATE_IS) == STATE_FRESH ? "invalid pointer" : "double free", p, call);
}

_Noreturn static cold void refuse_origin(origin_t origin, const void *p, const char *call) {
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

typedef struct {
  slab_t *slab; /* NULL: a huge one, or a guarded one */
  uintptr_t block;
  size_t usable, number; /* without the guard of a large block; the number: in its slab */
  size_t guard;          /* bytes up to the end of its slices, that nobody can touch */
  states_t *states;
  atomic8_t *state; /* NULL: of one without slab, whose window says what it is */
  bool is_small;
} checked_t;

/* Sampled, in place of a block that would have been a small one: it has no guard. */
static bool stands_for_small(const slab_t *s) {
  return (slab_word(s) & SLAB_IS_SAMPLED) != 0 &&
         atomic64_load_relaxed(&s->sampled.size) <= SMALL_MAX_SIZE;
}

/* Of a block that the heap just gave, or one of which heap_usable_size said that it is live. */
static checked_t look_up_large(const void *p, const char *call) {
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

/* `fatal` if no block begins there. */
static always_inline checked_t look_up(const void *p, const char *call) {
  slab_t *s = map_kind(map_find(p)) == TENANT_ARENA ? slab_of(p) : NULL;
  bool is_slice = s != NULL && arena_slice(p) >= ARENA_FIRST_SLICE;
  uint32_t word = is_slice ? slab_word(s) : 0;
  if (slab_kind(word) != SLAB_SMALL) return look_up_large(p, call);
  uint16_t offset = (uint16_t)(uintptr_t)p;
  const class_info_t *info = &class_info[word];
  if (unlikely(!class_is_multiple(offset, info->inverse))) fatal("invalid pointer", p, call);
  checked_t f = {.slab = s, .block = (uintptr_t)p, .usable = info->size, .is_small = true};
  f.number = class_number(offset, info->inverse);
  f.states = states_of(p);
  f.state = f.states != NULL ? states_at(f.states, p, f.number) : NULL;
  return f;
}

/* A live block of the program's, with nothing written behind it. */
static always_inline trailer_t check(const checked_t *f, const char *call) {
  trailer_t t;
  const void *p = (const void *)f->block;
  uint8_t state = f->state != NULL ? atomic8_load_acquire(f->state) : STATE_LIVE; /* S-state */
  if (unlikely((state & STATE_IS) != STATE_LIVE)) refuse_state(state, p, call);
  if (unlikely(!trailer_read(f->block, f->usable, &t)))
    refuse_block("overflow behind", p, f->usable - TRAILER_SIZE, call);
  if (unlikely(!trailer_is_filled(f->block, f->usable, t.size)))
    refuse_block("overflow behind", p, t.size, call);
  return t;
}

/* Of any block of the slab, if it is live. Its holder may free it meanwhile, and somebody else may
 * get it: its state changes then. */
static always_inline bool is_whole(const checked_t *f, size_t number) {
  trailer_t t;
  uintptr_t block = f->block - (f->number - number) * f->usable;
  atomic8_t *state = states_at(f->states, (void *)block, number);
  for (int looks = 0; looks < LOOKS_CLOSELY; looks++) {
    uint8_t seen = atomic8_load_acquire(state); /* S-state */
    if ((seen & STATE_IS) != STATE_LIVE) return true;
    if (trailer_read(block, f->usable, &t) && trailer_is_filled(block, f->usable, t.size))
      return true;
    if (!atomic8_cas_acq_rel(state, &seen, seen)) return true; /* S-state: it is not as it was */
  }
  return false;
}

/* Somebody may have written before this block. Before a slab's first one there is none, but a
 * trailer. */
static always_inline void check_before(const checked_t *f, const char *call) {
  trailer_t t;
  bool good =
    f->number != 0 ? is_whole(f, f->number - 1) : trailer_read(f->block - f->usable, f->usable, &t);
  if (unlikely(!good))
    refuse_block("underflow before", (void *)f->block, f->usable - TRAILER_SIZE, call);
}

/* Now and then some quiet block of the same slab is looked at. */
static cold void patrol(const checked_t *f, uint64_t random, const char *call) {
  size_t number = random % f->slab->capacity;
  const void *block = (const char *)f->block - (f->number - number) * f->usable;
  if (!is_whole(f, number)) refuse_block("overflow behind", block, f->usable - TRAILER_SIZE, call);
}

/* A block of no bytes has nothing to check: its address is all there is. */
static always_inline bool is_empty(const void *p) {
  return unlikely(map_kind(map_find(p)) == TENANT_EMPTY);
}

/* ---- guards ---------------------------------------------------------------------------------- */

/* From the last page of a large block to the end of its slices. What the system does not close
 * stays open: the trailer is still checked. */
static void guard_close(char *at, size_t size) { quarantine_close(at, size); }
static void guard_open(char *at, size_t size) {
  if (!quarantine_open(at, size)) fatal("a guard that the system does not open", at, "free");
}

/* ---- allocating ------------------------------------------------------------------------------ */

/* Before what its next state goes with is written. relaxed: the fence comes behind it */
static always_inline void announce(atomic8_t *state, uint8_t life) {
  atomic8_store_relaxed(state, life | STATE_CHANGES);
  atomic_fence_release(); /* S-state */
}

/* The link and the key are gone, and nobody wrote to the rest of it while it was free. */
static always_inline void wipe(const checked_t *f, uint8_t state) {
  uint64_t *words = (uint64_t *)f->block, other = 0;
  size_t n = f->usable / sizeof *words;
  if (unlikely((state & STATE_IS) == STATE_FRESH)) {
    memset(words, 0, f->usable);
    return;
  }
  words[0] = words[1] = 0;
  for (size_t i = 2; i < n; i += 2) other |= words[i] | words[i + 1]; /* Bound: the block */
  if (unlikely(other != 0)) refuse_block("write after free to", words, f->usable, "malloc");
}

static void *hand_out(void *p, size_t size, origin_t origin) {
  checked_t f = look_up(p, "malloc");
  uint8_t state = 0;
  if (unlikely(f.state == NULL && f.slab != NULL)) { /* no memory for the states */
    heap_free(p, "malloc");
    return NULL;
  }
  if (f.state != NULL) state = atomic8_load_relaxed(f.state); /* relaxed: its holder's */
  if (likely(f.is_small)) {
    if (unlikely((state & STATE_IS) == STATE_LIVE)) fatal("heap corruption", p, "malloc");
    wipe(&f, state);
    if (f.number == 0)
      trailer_write(f.block - f.usable, f.usable, (trailer_t){f.usable - TRAILER_SIZE, origin});
  } else {
    heap_clear(p, f.usable);
  }
  uint8_t life = (uint8_t)((state & ~STATE_IS) + STATE_LIFE);
  if (f.state != NULL) announce(f.state, life);
  trailer_write(f.block, f.usable, (trailer_t){size, origin});
  if (f.state != NULL) atomic8_store_release(f.state, life | STATE_LIVE); /* S-state */
  if (unlikely(f.guard != 0)) guard_close((char *)p + f.usable, f.guard);
  return p;
}

/* What the heap is asked for. One of several slices has a page more, for its guard. */
static always_inline size_t with_trailer(size_t size) {
  size_t least = max_size(size + TRAILER_SIZE, LEAST_SIZE);
  return likely(!quarantine_closes(least)) ? least : least + os_page_size();
}

static always_inline void *ask_heap(struct fh_heap *heap, size_t alignment, size_t size) {
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
static always_inline void *allocate_room(struct fh_heap *heap, size_t alignment, size_t size,
                                         size_t room, origin_t origin) {
  void *p = ask_heap(heap, alignment, room);
  if (unlikely(p == NULL)) p = ask_again(heap, alignment, room);
  return likely(p != NULL) ? hand_out(p, size, origin) : NULL;
}

void *secure_allocate(struct fh_heap *heap, size_t alignment, size_t size, origin_t origin) {
  if (unlikely(size > PTRDIFF_MAX / 2)) return NULL;
  void *empty =
    unlikely(size == 0) && heap == NULL && alignment <= CLASS_STEP ? empty_malloc() : NULL;
  if (unlikely(empty != NULL)) return empty;
  return allocate_room(heap, alignment, size, with_trailer(size), origin);
}

/* ---- freeing --------------------------------------------------------------------------------- */

static bool is_zero(const uint64_t *words, size_t n) {
  uint64_t other = 0;
  for (size_t i = 0; i < n; i++) other |= words[i];
  return other == 0;
}

/* One that was not closed is still as it was made. */
static void free_rested_large(void *p) {
  size_t usable = atomic64_load_relaxed(&slab_of(p)->size);
  if (!quarantine_closes(usable) && !is_zero(p, usable / sizeof(uint64_t)))
    refuse_block("write after free to", p, usable, "free");
  heap_free(p, "free");
}

/* Nobody wrote where the link and the key will be. */
static always_inline void free_rested(void *p) {
  const uint64_t *words = p;
  if (unlikely((words[0] | words[1]) != 0)) fatal("write after free", p, "free");
  fast_free(p);
}

/* The block rests, and another that has rested goes. What belongs to a first-class heap may end
 * with it at any moment, and goes at once. */
static always_inline void let_rest(const checked_t *f, const char *call) {
  heap_t *h = heap_of_thread();
  void *p = (void *)f->block;
  /* relaxed: the block's holder calls */
  bool is_tagged = !atomic_ptr_is_relaxed(&f->slab->tag, NULL);
  if (h == NULL || is_tagged) return fast_free(p);
  uint64_t random = quarantine_draw(h);
  if (unlikely((random >> 32) % PATROL == 0)) patrol(f, random, call); /* while the slab is there */
  p = quarantine_put(h, p, f->usable, random);
  if (likely(p != NULL)) free_rested(p);
}

/* No access to it is possible while it rests. One that is sampled, or a first-class heap's, goes at
 * once. */
static void let_rest_large(const checked_t *f, const char *call) {
  heap_t *h = heap_of_thread();
  void *p = (void *)f->block;
  bool rests = h != NULL && f->slab != NULL && (slab_word(f->slab) & SLAB_IS_SAMPLED) == 0 &&
               atomic_ptr_is_relaxed(&f->slab->tag, NULL); /* relaxed: as above */
  if (rests && f->guard == 0) memset(p, 0, f->usable);
  if (rests) p = quarantine_put_large(h, p);
  else if (f->guard != 0) guard_open((char *)p + f->usable, f->guard);
  if (rests && p != NULL) free_rested_large(p);
  else if (p != NULL) heap_free(p, call);
}

void secure_free(void *p, origin_t origin, const char *call) {
  if (is_empty(p)) return heap_free(p, call);
  checked_t f = look_up(p, call);
  trailer_t t = check(&f, call);
  if (unlikely(t.origin != origin && origin != ORIGIN_ANY)) refuse_origin(t.origin, p, call);
  uint8_t rested = STATE_RESTED;
  if (f.state != NULL) {
    uint8_t seen = atomic8_load_relaxed(f.state); /* relaxed: the swap decides */
    rested = (uint8_t)((seen & ~STATE_IS) | STATE_RESTED);
    bool was_live = (seen & STATE_IS) == STATE_LIVE;
    uint8_t changes = (uint8_t)(seen | STATE_CHANGES);
    if (unlikely(!was_live || !atomic8_cas_acq_rel(f.state, &seen, changes))) /* S-state */
      refuse_state(seen, p, call);
  }
  if (unlikely(!f.is_small)) {
    if (f.state != NULL) atomic8_store_release(f.state, rested); /* S-state */
    return let_rest_large(&f, call);
  }
  check_before(&f, call);
  memset(p, 0, f.usable);
  atomic8_store_release(f.state, rested); /* S-state */
  let_rest(&f, call);
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
  checked_t f = look_up(p, call);
  if (unlikely(sample_was_started()) && is_with_hook(&f)) return heap_usable_size(p, call);
  return check(&f, call).size;
}

void secure_check_size(const void *p, size_t size, const char *call) {
  if (secure_size(p, call) != size) fatal("wrong size", p, call);
}

/* What was filler or a trailer becomes the program's, and reads as zero. */
static void *resized(uintptr_t block, size_t old_usable, trailer_t old, size_t size) {
  checked_t f = look_up((void *)block, "realloc");
  size_t had = min_size(old_usable, f.usable);
  uint8_t life = f.state != NULL ? atomic8_load_relaxed(f.state) & (uint8_t)~STATE_IS : 0;
  if (f.state != NULL) announce(f.state, life);
  if (had > old.size) memset((char *)block + old.size, 0, had - old.size);
  if (f.slab != NULL && f.usable > had) memset((char *)block + had, 0, f.usable - had);
  trailer_write(block, f.usable, (trailer_t){size, old.origin});
  life += STATE_LIFE;
  if (f.state != NULL) atomic8_store_release(f.state, life | STATE_LIVE); /* S-state */
  if (f.guard != 0) guard_close((char *)block + f.usable, f.guard);
  return (void *)block;
}

static bool fits(const checked_t *f, size_t size) {
  return fast_is_right(f->usable, with_trailer(size));
}

/* To a block of its own; the old one is as if it were freed. */
static void *resize_by_copy(const checked_t *f, struct fh_heap *heap, trailer_t old, size_t size,
                            const char *call) {
  size_t room = heap_with_headroom(f->usable, with_trailer(size));
  void *p = (void *)f->block, *block = allocate_room(heap, 1, size, room, old.origin);
  if (block == NULL && with_trailer(size) > f->usable) return NULL;
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
  checked_t f = look_up(p, call);
  trailer_t t = check(&f, call);
  if (unlikely(t.origin != ORIGIN_MALLOC)) refuse_origin(t.origin, p, call);
  if (size > PTRDIFF_MAX / 2) return NULL;
  if (f.is_small && fits(&f, size)) return resized(f.block, f.usable, t, size);
  if (f.is_small || with_trailer(size) <= SMALL_MAX_SIZE)
    return resize_by_copy(&f, heap, t, size, call);
  if (f.guard != 0) guard_open((char *)p + f.usable, f.guard);
  void *moved = heap != NULL ? heap_resize(p, with_trailer(size), heap, call)
                             : heap_realloc(p, with_trailer(size), call);
  if (moved != NULL) return resized((uintptr_t)moved, f.usable, t, size);
  if (f.guard != 0) guard_close((char *)p + f.usable, f.guard);
  return heap != NULL ? resize_by_copy(&f, heap, t, size, call) : NULL;
}

bool secure_expand(void *p, size_t size, const char *call) {
  if (is_empty(p)) return heap_expand(p, size, call);
  checked_t f = look_up(p, call);
  trailer_t t = check(&f, call);
  if (size > PTRDIFF_MAX / 2 || (f.is_small && with_trailer(size) > f.usable)) return false;
  if (f.guard != 0) guard_open((char *)p + f.usable, f.guard);
  bool is_done = f.is_small || heap_expand(p, with_trailer(size), call);
  if (!is_done && f.guard != 0) guard_close((char *)p + f.usable, f.guard);
  if (!is_done) return false;
  resized(f.block, f.usable, t, size);
  return true;
}

bool secure_visited(const void *p, size_t *size) {
  if (is_empty(p)) return true;
  checked_t f = look_up(p, "visit");
  trailer_t t;
  uint8_t state = f.state != NULL ? atomic8_load_acquire(f.state) : STATE_LIVE; /* S-state */
  if ((state & STATE_IS) != STATE_LIVE || !trailer_read(f.block, f.usable, &t)) return false;
  *size = t.size;
  return true;
}

static bool end_with_heap(void *p, size_t usable, void *context) {
  checked_t f = look_up(p, "fh_heap_destroy");
  (void)usable, (void)context;
  if (f.state != NULL && !is_whole(&f, f.number))
    refuse_block("overflow behind", p, f.usable - TRAILER_SIZE, "fh_heap_destroy");
  if (f.guard != 0) guard_open((char *)p + f.usable, f.guard);
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
       h != NULL && (p = quarantine_take(h, &place)) != NULL;)
    if (slab_kind(slab_word(slab_of(p))) == SLAB_LARGE) free_rested_large(p);
    else free_rested(p);
}

/* Another thread may use the block meanwhile: its state changes then. */
static void check_rested(const checked_t *f) {
  const uint64_t *words = (const uint64_t *)f->block;
  uint8_t seen = atomic8_load_acquire(f->state); /* S-state */
  if ((seen & STATE_IS) != STATE_RESTED || is_zero(words + 2, f->usable / 8 - 2)) return;
  if (atomic8_cas_acq_rel(f->state, &seen, seen)) /* S-state */
    refuse_block("write after free to", words, f->usable, "exit");
}

typedef struct {
  size_t left; /* blocks to look at */
} last_look_t;

/* Other threads may go on: a slice that is not what it was at first says nothing. */
static void check_last(const checked_t *f, uint32_t word) {
  bool good = is_whole(f, f->number);
  if (!good && slab_word(f->slab) == word)
    refuse_block("overflow behind", (void *)f->block, f->usable - TRAILER_SIZE, "exit");
  if (f->is_small && slab_word(f->slab) == word) check_rested(f);
}

static void check_last_large(void *base, uint32_t word, states_t *states) {
  uint8_t state = atomic8_load_acquire(states_at(states, base, 0)); /* S-state */
  if ((state & STATE_IS) != STATE_LIVE) return;
  checked_t f = look_up_large(base, "exit");
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
    checked_t f = {.slab = s, .states = states, .number = i, .is_small = true};
    f.usable = class_size(word);
    f.block = (uintptr_t)base + (i + 1) * f.usable;
    f.state = states_at(states, (void *)f.block, i);
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

/* relaxed: of two threads that start at once one sets it, and both see it */
void secure_start(void) {
  uint64_t none = 0;
  atomic64_cas_relaxed(&block_secret, &none, os_random() | 1);
  heap_before_leave(secure_end_quarantine);
}
