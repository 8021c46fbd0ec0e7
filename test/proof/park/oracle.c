/* oracle.c - what freehold says of itself when everything was freed and collected
 *
 * It reads freehold's own structures and calls its hidden functions, while no other thread runs.
 * Without a loss nothing is left at all: no slab, no block, no claimed slice, no heap but the
 * caller's. With one, what is left is what docs/promises.md says: the lost thread's heaps with what
 * they hold, and what the thread had in its hands. */
#include "park.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../src/arena/budget.h"
#include "../../../src/arena/places.h"
#include "../../../src/heap/here.h"
#include "../../../src/slab/span.h"
#include "../../../src/stock/fresh.h"
#include "../../../src/stock/huge.h"
#include "../../../src/stock/outbox.h"
#include "../../../src/stock/pool.h"
#include "../../../src/os/container.h"
#include "../../../src/stock/returned.h"
#include "../../../src/support/asked.h"
#include "../../../src/support/pace.h"
#include "../../../src/support/trace.h"

/* in hand: what `grow-unmaps-too-little` asks for, 100 MiB, is the most; arena_step is 64 */
enum { WINDOWS_AROUND = 128, IN_HAND_SLICES = 1600, SLICES_LOOKED_AT = 512 };
enum { HEAPS_LOST = 2 }; /* a thread's own, and one for its handlers */

static struct {
  size_t (*pool_size)(void);
  slab_t *(*owned_first)(const heap_t *h, unsigned c);
  heap_t *(*pool_at)(size_t number, bool *is_claimed);
  size_t (*arena_count)(void);
  arena_t *(*arena_at)(size_t number);
  bool (*arena_is_valid)(const arena_t *a);
  bool (*partial_is_valid)(const arena_t *a);
  bool (*slab_is_valid)(const slab_t *s);
  bool (*magazine_is_valid)(const heap_t *h);
  void *(*span_find)(const void *p, unsigned *pages);
  size_t (*returned_surplus)(const heap_t *h);
  atomic32_t *surplus; /* the sum */
  size_t (*huge_pool_size)(void);
  huge_t *(*huge_at)(size_t number, bool *is_live);
  atomic_ptr_t *window_map;
  arena_counts_t *arena_counts;
  heap_counts_t *heap_counts;
  places_t *heaps;
  size_t heap_here; /* where it lies in a thread's block of thread-local storage */
} fh;

/* What is left, sorted by who has it. */
typedef struct {
  unsigned heaps;         /* but the caller's */
  unsigned places;        /* for heaps, never used */
  unsigned slabs_owned;   /* by these */
  unsigned slabs_in_hand; /* by nobody, and out of everybody's reach */
  unsigned slabs_shared;
  unsigned large;                 /* and runs of pages */
  size_t block_size;              /* of one of the shared slabs */
  unsigned long blocks_kept;      /* in the heaps' bins, and frees that they put off */
  unsigned long blocks;           /* used, in slabs that no heap owns ... */
  unsigned long blocks_of_one;    /* ... and the most of these in one slab */
  size_t slices_kept;             /* in the heaps' magazines */
  size_t slices;                  /* claimed, and neither slab nor large block */
  size_t runs, words, last_slice; /* of these: adjacent runs, and words of the bitmap */
  size_t pages_kept;              /* in runs that heaps keep */
  size_t pages;                   /* of spans: claimed, and no block's */
  unsigned huge_records, windows;
} left_t;

void oracle_load(void) {
  *(void **)&fh.pool_size = library_hidden("pool_size");
  *(void **)&fh.owned_first = library_hidden("owned_first");
  *(void **)&fh.pool_at = library_hidden("pool_at");
  *(void **)&fh.arena_count = library_hidden("arena_count");
  *(void **)&fh.arena_at = library_hidden("arena_at");
  *(void **)&fh.arena_is_valid = library_hidden("arena_is_valid");
  *(void **)&fh.partial_is_valid = library_hidden("partial_is_valid");
  *(void **)&fh.slab_is_valid = library_hidden("slab_is_valid");
  *(void **)&fh.magazine_is_valid = library_hidden("magazine_is_valid");
  *(void **)&fh.span_find = library_hidden("span_find");
  *(void **)&fh.returned_surplus = library_hidden("returned_surplus");
  *(void **)&fh.huge_pool_size = library_hidden("huge_pool_size");
  *(void **)&fh.huge_at = library_hidden("huge_at");
  fh.surplus = library_hidden("surplus");
  fh.window_map = library_hidden("window_map");
  fh.arena_counts = library_hidden("arena_counts");
  fh.heap_counts = library_hidden("heap_counts");
  fh.heaps = library_hidden("heaps");
  fh.heap_here = library_hidden_tls("heap_here");
}

static heap_t *own_heap(void) {
  heap_here_t *here = (heap_here_t *)(library_tls() + fh.heap_here);
  return atomic_ptr_load_relaxed(&here->heap);
}

size_t oracle_traced(void) {
  const trace_chunk_t *chunk;
  memcpy(&chunk, library_tls() + library_hidden_tls("trace_here"), sizeof chunk);
  return atomic32_load_relaxed(&chunk->used);
}

bool oracle_bin_is_empty(size_t size) {
  if (size > SMALL_MOST) return true;
  unsigned c = class_of(size);
  return own_heap()->bin[c] == 0 && heap_fresh(own_heap(), c).count == 0;
}

static bool is_used_up(const heap_t *h, unsigned c) {
  if (h->bin[c] != 0 || h->aside->returned[c] != 0 || heap_fresh(h, c).count != 0) return false;
  for (const slab_t *s = fh.owned_first(h, c); s != NULL; s = s->next)
    if (slab_used(s) < s->capacity) return false;
  return true;
}

static heap_t *first_lane(fh_heap_t *heap) {
  return atomic_ptr_load_relaxed((atomic_ptr_t *)heap); /* the lanes are its first field */
}

bool oracle_class_is_used_up(size_t size) { return is_used_up(own_heap(), class_of(size)); }
bool oracle_heap_is_used_up(fh_heap_t *heap, size_t size) {
  return is_used_up(first_lane(heap), class_of(size));
}

bool oracle_pool_is_empty(void) {
  for (size_t i = 0; i < fh.pool_size(); i++) {
    bool is_claimed;
    fh.pool_at(i, &is_claimed);
    if (!is_claimed) return false;
  }
  return true;
}

bool oracle_is_chained(const void *p) {
  const batch_t *b = outbox_batch(own_heap(), (uintptr_t)p);
  return b->slab == slab_of(p) && batch_word(b) >> 48 > 1;
}

bool oracle_magazine_is_empty(void) { return own_heap()->singles == 0; }

bool oracle_heap_is_marked(void) {
  const heap_here_t *here = (const heap_here_t *)(library_tls() + fh.heap_here);
  return here->limit == 0 || here->window == 0;
}

bool oracle_heap_is_busy(void) { return own_heap()->busy != 0; }
void oracle_check_own_heap(void) {
  const heap_t *h = own_heap();
  bool is_claimed = false;
  if (h != NULL && (fh.pool_at(heap_number(h), &is_claimed) != h || !is_claimed))
    park_fail("the thread's heap %u is nobody's", heap_number(h));
}

void oracle_forget_own_heap(void) {
  void (*leave)(size_t number);
  *(void **)&leave = library_hidden("users_leave");
  leave(heap_number(own_heap()));
}
/* The only thread in a child of fork whose heap has no note is the one that forked. */
void oracle_note_own_heap(void) {
  void (*begin)(size_t number);
  *(void **)&begin = library_hidden("users_begin");
  if (own_heap() != NULL) begin(heap_number(own_heap()));
}

void oracle_let_nobody_rest(void) {
  atomic32_store_relaxed((atomic32_t *)library_hidden("resting_pages"), RESTING_PAGES);
}

static heap_t *entered;
void oracle_enter_lane(fh_heap_t *heap) {
  entered = first_lane(heap);
  atomic32_store_relaxed(&entered->lane_state, LANE_BUSY);
}

bool oracle_lane_is_due(void) { return entered->trims_due != 0; }
void oracle_leave_lane(void) { atomic32_store_relaxed(&entered->lane_state, LANE_FREE); }

bool oracle_is_lane_collected(fh_heap_t *heap) {
  return atomic32_load_relaxed(&first_lane(heap)->lane_state) == LANE_COLLECTED;
}

void oracle_note_binned(size_t size) {
  atomic16_store_relaxed(&own_heap()->binned[class_of(size)], UINT16_MAX);
}

void oracle_note_trial_due(size_t size) {
  heap_t *h = own_heap();
  unsigned c = class_of(size);
  if (!heap_knows_remote(h, c)) park_fail("no class whose blocks others free");
  atomic16_store_relaxed(&h->binned[c], (uint16_t)(TRIAL_BLOCKS - 1 - heap_since_trial(h, c, 0)));
  while (bits_mix(h->aside->lots + 1) % TRIALS_PART != 0) h->aside->lots++;
}

void oracle_note_stale_room(const void *p, unsigned pages) {
  atomic64_t(*arenas)[SPAN_LEVELS] = library_hidden("roomy_arenas");
  arena_t *a = arena_of(p);
  unsigned level = pages - SPAN_LEAST;
  size_t number = arena_slice(p) / SPAN_SLICES;
  if (span_around(p) == NULL) park_fail("no run of pages");
  hint_set(arena_maps(a)->roomy[level], number);
  hint_set(&a->roomy_groups[level], number / 64);
  hint_set(&arenas[a->number / 64][level], a->number % 64);
}

void oracle_note_sift_due(size_t size) {
  heap_t *h = own_heap();
  unsigned c = class_of(size), binned = heap_binned(h, c);
  if (h->returned_room[c] == h->returned_most[c]) park_fail("no returned list");
  binned += SIFT_BLOCKS - 1 - heap_since_trial(h, c, binned) % SIFT_BLOCKS;
  atomic16_store_relaxed(&h->binned[c], (uint16_t)binned);
}

void oracle_sample_after(size_t of, unsigned blocks, size_t interval) {
  heap_sampled_t *known = sample_of(own_heap());
  unsigned c = class_of(of);
  known->mean = interval;
  known->until[c] = blocks * class_size(c) + 1;
}

void oracle_note_last_trim_due(void) {
  own_heap()->trim_class = 2;
  own_heap()->trims_due = 1;
}

bool oracle_is_taking(void) {
  bool (*are_taking)(void);
  *(void **)&are_taking = library_hidden("users_are_taking");
  return are_taking();
}
void oracle_go_on_taking(void) {
  bool (*begin)(void);
  *(void **)&begin = library_hidden("users_begin_taking");
  if (!begin()) park_fail("a copy finds somebody at it");
}

void oracle_note_look_due(void) { own_heap()->calls = 0; }
void oracle_note_other_window(void) {
  atomic64_store_relaxed(&own_heap()->home, WINDOW_NONE);
  ((heap_here_t *)(library_tls() + fh.heap_here))->window = WINDOW_NONE;
}
void oracle_note_look_at_runs_due(void) { own_heap()->own->looks_left = 0; }
bool oracle_keeps_runs(void) { return own_heap()->keeps_pages; }
void oracle_note_crowded(unsigned frees) {
  own_heap()->aside->crowded = (uint16_t)(CROWDED_MOST - frees);
}
void oracle_check_wide(void) {
  if (!outbox_is_wide(own_heap())) park_fail("the outbox is not wide");
}
void oracle_note_wide_ends(void) {
  void (*step)(heap_t * h);
  *(void **)&step = library_hidden("outbox_step");
  heap_aside_t *a = own_heap()->aside;
  for (size_t i = 0; i < WIDE_LEAST / WIDE_STEP; i++) step(own_heap());
  a->is_closing = true;
  a->wide_at = (uint16_t)(a->wide_last + 1 - WIDE_STEP);
}
/* All slots but a few were looked at, and few chains were found. */
void oracle_note_round_ends(void) {
  heap_aside_t *a = own_heap()->aside;
  a->wide_at = (uint16_t)(a->wide_last + 1 - ROUND_STEP);
  a->wide_found = 0;
}
void oracle_note_wide_closes(void) { own_heap()->aside->is_closing = true; }
void oracle_note_taken(void) { atomic8_store_relaxed(&own_heap()->is_taken, TAKEN_CHOSEN); }

void oracle_note_pressure(unsigned level) {
  atomic64_store_relaxed(&((budget_t *)library_hidden("budget"))->level, level);
}

static uint32_t now_ms(void) {
  uint32_t (*now)(void);
  *(void **)&now = library_hidden("os_now_ms");
  return now();
}

size_t oracle_memory_in_use(void) {
  const arena_counts_t *c = library_hidden("arena_counts");
  return (atomic64_load_relaxed(&c->committed) << SLICE_SHIFT) +
         atomic64_load_relaxed(&c->huge_bytes) -
         (atomic64_load_relaxed(&c->absent_pages) << SPAN_PAGE_SHIFT);
}

static void ask(asked_kind_t kind, uint64_t value) {
  asked_t *asked = library_hidden("asked_request");
  atomic32_store_relaxed(&asked->process, (uint32_t)getpid());
  atomic64_store_relaxed(&asked->value, value);
  atomic64_store_relaxed(&asked->wanted, kind);
  atomic32_store_relaxed(&((budget_t *)library_hidden("budget"))->news, 1);
}

void oracle_note_request_over(void) {
  pace_t *requests = library_hidden("requests");
  atomic32_store_relaxed(&requests->last, now_ms() - BUDGET_ASKED_MS - 1);
}

void oracle_ask_for_memory(void) { ask(ASKED_TRIM, 0); }
void oracle_ask_for_samples(size_t interval) { ask(ASKED_SAMPLES, interval); }

void oracle_note_watch_due(size_t size) {
  heap_t *h = own_heap();
  h->watched = (uint8_t)class_of(size);
  h->watched_binned = (uint16_t)heap_binned(h, h->watched);
  h->watched_at = (uint8_t)(now_ms() - 100);
}

/* The next look at its files is a long time off. */
void oracle_note_container(size_t limit, size_t room, bool is_short) {
  enum { LONG_TIME = 1 << 24 };
  container_t *c = library_hidden("container");
  atomic64_store_relaxed(&c->limit, limit);
  atomic64_store_relaxed(&c->room, room);
  atomic32_store_relaxed(&c->is_short, is_short);
  pace_note(library_hidden("container_looks"), now_ms(), LONG_TIME);
}

void oracle_note_lost_reader(void) {
  enum { LONG_AGO = 1 << 16 };
  uint64_t thread = (uint64_t)getpid() << OS_THREAD_BITS / 2 | (uint64_t)syscall(SYS_gettid);
  atomic64_store_relaxed(library_hidden("reader"), thread << 1 | 1);
  atomic32_store_relaxed(library_hidden("reader_since"), now_ms() - LONG_AGO);
}

uintptr_t oracle_arena_end(const void *p) {
  const arena_t *a = arena_of(p);
  return (uintptr_t)arena_address(a, atomic64_load_relaxed(&a->mapped));
}

/* ---- heaps ----------------------------------------------------------------------------------- */

static unsigned long length_of(uintptr_t block) {
  unsigned long n = 0;
  for (; block != 0; block = block_next(block))
    if (++n > SLICE_SIZE / 16) park_fail("a list of blocks has no end");
  return n;
}

static void add_heap(left_t *left, const heap_t *h) {
  left->heaps++;
  left->slices_kept += h->singles + h->run_slices;
  if (h->keeps_pages) left->pages_kept += h->own->kept_pages;
  const batch_t *slots = outbox_slots(h);
  for (size_t i = 0; i < outbox_slot_count(h); i++)
    if (slots[i].slab != NULL) left->blocks_kept += batch_count(&slots[i]);
  bool is_wide = h->aside->wide != 0;
  for (size_t i = 0; i < FETCHES && is_wide; i++) left->blocks_kept += h->aside->fetched[i] != 0;
  if (is_wide) left->slices_kept += (outbox_slot_count(h) * sizeof(batch_t)) >> SLICE_SHIFT;
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    left->blocks_kept += length_of(h->bin[c]) + length_of(sample_of(h)->behind[c]);
  for (unsigned c = 1; c < CLASS_COUNT; c++)
    left->blocks_kept += length_of(h->aside->returned[c]) + heap_fresh(h, c).count;
}

/* Wherever a thread has stopped or died, all heaps together have no more than the sum says. */
static void check_surplus(void) {
  size_t kept = 0, sum = atomic32_load_relaxed(fh.surplus);
  for (size_t i = 0; i < fh.pool_size(); i++) {
    const heap_t *h = fh.pool_at(i, &(bool){false});
    if (h != NULL && heap_was_used(h))
      kept += h->run_most + h->own->more_singles + fh.returned_surplus(h);
  }
  if (sum - kept > INT32_MAX) park_fail("the heaps have %zu of %zu slices of surplus", kept, sum);
}

/* Or one that stood in for it while another took what it keeps. */
static bool is_own(const heap_t *h) {
  const heap_t *own = own_heap();
  while (own != NULL && own != h) own = atomic_ptr_load_relaxed(&own->nested);
  return own != NULL;
}

static void add_heaps(left_t *left) {
  const heap_t *own = own_heap();
  if (own != NULL) fh.magazine_is_valid(own);
  check_surplus();
  for (size_t i = 0; i < fh.pool_size(); i++) {
    bool is_claimed;
    const heap_t *h = fh.pool_at(i, &is_claimed);
    if (h == NULL || !is_claimed || is_own(h)) continue;
    if (atomic64_load_relaxed(&h->home) != 0) add_heap(left, h);
    else left->places++;
  }
}

/* Of those in which freehold may have something. */
static uintptr_t first_window(void) {
  uintptr_t at = (uintptr_t)fh.arena_at(0) >> WINDOW_SHIFT;
  return at < WINDOWS_AROUND ? 0 : at - WINDOWS_AROUND;
}

/* ---- what others can see --------------------------------------------------------------------- */

static uint64_t mix(uint64_t digest, const void *from, size_t size) {
  const uint64_t *word = from;
  for (size_t i = 0; i < size / sizeof *word; i++)
    digest = (digest ^ word[i]) * 0x9E3779B97F4A7C15u;
  return digest ^ digest >> 32;
}

/* Except the owner's lists and counts, which nobody else reads. */
static uint64_t mix_descriptors(uint64_t digest, const slab_t *s, size_t n) {
  for (; n > 0; n--, s++) {
    uint64_t words[] = {
      (uintptr_t)atomic_ptr_load_relaxed(&s->owner), (uintptr_t)atomic_ptr_load_relaxed(&s->tag),
      atomic32_load_relaxed(&s->kind) | (uint64_t)atomic16_load_relaxed(&s->slices) << 32,
      atomic64_load_relaxed(&s->anchor)};
    if ((words[0] | words[1] | words[2] | words[3]) != 0)
      digest = mix(digest ^ n, words, sizeof words);
  }
  return digest;
}

static uint64_t mix_arena(uint64_t digest, const arena_t *a) {
  const arena_maps_t *maps = arena_maps(a);
  digest = mix(digest, a, sizeof *a);
  digest = mix(digest, maps->dirty, sizeof maps->dirty);
  digest = mix(digest, maps->partial, SLICES_LOOKED_AT / 64 * sizeof maps->partial[0]);
  digest = mix(digest, maps->partial_groups, sizeof maps->partial_groups);
  return mix_descriptors(digest, slab_of(arena_address(a, ARENA_FIRST_SLICE)), SLICES_LOOKED_AT);
}

/* Nobody looks into a heap that is claimed, except for what says whose it is. */
static uint64_t mix_heap(uint64_t digest, const heap_t *h) {
  uint64_t words[] = {atomic64_load_relaxed(&h->home), (uintptr_t)heap_tag(h),
                      atomic32_load_relaxed(&h->lane_state) |
                        (uint64_t)atomic32_load_relaxed(&h->resting_pages) << 32};
  return mix(digest, words, sizeof words);
}

uint64_t oracle_digest(void) {
  uint64_t digest = mix(0, fh.arena_counts, sizeof *fh.arena_counts);
  digest = mix(digest, fh.heap_counts, sizeof *fh.heap_counts);
  digest =
    mix(digest, &fh.window_map[first_window()], 2 * WINDOWS_AROUND * sizeof fh.window_map[0]);
  for (size_t i = 0; i < fh.arena_count(); i++)
    if (fh.arena_at(i) != NULL) digest = mix_arena(digest, fh.arena_at(i));
  for (size_t i = 0; i < fh.pool_size(); i++) {
    bool is_claimed;
    const heap_t *h = fh.pool_at(i, &is_claimed);
    digest += is_claimed;
    if (h != NULL && is_claimed) digest = mix_heap(digest, h);
  }
  return digest;
}

/* A page that nobody has written to is a fault in each copy that reads it, unless the
 * original has read it before. */
void oracle_touch(void) {
  static volatile uint64_t seen;
  seen = oracle_digest();
  for (size_t i = 0; i < fh.pool_size(); i++) {
    bool is_claimed;
    const heap_t *h = fh.pool_at(i, &is_claimed);
    if (h != NULL) seen += atomic64_load_relaxed(&h->home);
  }
}

/* ---- slabs ----------------------------------------------------------------------------------- */

static size_t group_of(const slab_t *s) { return arena_slice(arena_described(s)) / 64; }

static bool has_partial_bit(const slab_t *s) {
  const arena_maps_t *maps = arena_maps(arena_of(s));
  uint64_t bits = atomic64_load_relaxed(&maps->partial[group_of(s)][slab_class(s)]);
  return bits >> arena_slice(arena_described(s)) % 64 & 1;
}

static bool has_hint(const slab_t *s) {
  const arena_maps_t *maps = arena_maps(arena_of(s));
  uint64_t hints = atomic64_load_relaxed(&maps->partial_groups[slab_class(s)][group_of(s) / 64]);
  return hints >> group_of(s) % 64 & 1;
}

static bool is_published(const slab_t *s) { return has_partial_bit(s) && has_hint(s); }

static bool is_reachable(const slab_t *s) {
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor));
  return a.state == ANCHOR_FULL || (a.state == ANCHOR_PARTIAL && is_published(s));
}

static void raise(uint64_t *worst, uint64_t now) {
  if (now > *worst) *worst = now;
}

static void add_shared(left_t *left, const slab_t *s) {
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor));
  fh.slab_is_valid(s);
  left->slabs_shared++;
  left->blocks += a.carved - a.count;
  raise(&left->blocks_of_one, a.carved - a.count);
  left->block_size = class_size(slab_class(s));
}

static void add_slab(left_t *left, const slab_t *s, const void *own) {
  void *owner = atomic_ptr_load_relaxed(&s->owner);
  if (owner == own) fh.slab_is_valid(s);
  if (owner != NULL && owner != SLAB_HOLED) left->slabs_owned++;
  else if (is_reachable(s)) add_shared(left, s);
  else left->slabs_in_hand++;
}

/* ---- moments --------------------------------------------------------------------------------- */

bool oracle_would_claim_heap(void) { return step_would_cas(&fh.heaps->free[0]); }

bool oracle_would_attach_nested(void) {
  return own_heap() != NULL && step_would_cas(&own_heap()->nested);
}

bool oracle_would_claim_slices(const void *p) {
  const arena_t *a = arena_of(p);
  for (size_t i = 0; i < SLICES_LOOKED_AT / 64; i++)
    if (atomic64_load_relaxed(&a->free[i]) != 0 && step_would_cas(&a->free[i])) return true;
  return false;
}

bool oracle_would_grow(const void *p) { return step_would_cas(&arena_of(p)->mapped); }
bool oracle_would_cas_anchor(const void *p) { return step_would_cas(&slab_of(p)->anchor); }

bool oracle_has_window_claimed(void) {
  for (uintptr_t i = first_window(), end = i + 2 * WINDOWS_AROUND; i < end; i++)
    if (atomic_ptr_load_relaxed(&fh.window_map[i]) == (void *)TENANT_CLAIMED) return true;
  return false;
}

bool oracle_has_slab(const void *p) {
  return own_heap() != NULL && atomic_ptr_load_relaxed(&slab_of(p)->owner) == own_heap();
}

bool oracle_has_to_publish(const void *p) {
  const slab_t *s = slab_of(p);
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor));
  return a.state == ANCHOR_PARTIAL && !has_partial_bit(s);
}

bool oracle_hint_is_gone(const void *p) { return !has_hint(slab_of(p)); }

/* ---- slices ---------------------------------------------------------------------------------- */

static void add_lost_slice(left_t *left, size_t slice) {
  left->runs += left->slices == 0 || slice != left->last_slice + 1;
  left->words += left->slices == 0 || slice / 64 != left->last_slice / 64;
  left->slices++;
  left->last_slice = slice;
}

static uint64_t free_or_unmapped(const arena_t *a, size_t word) {
  uint64_t free = atomic64_load_relaxed(&a->free[word]);
  uint64_t unmapped = atomic64_load_relaxed(&arena_maps(a)->unmapped[word]);
  if ((free & unmapped) != 0) park_fail("slices of word %zu are free and not mapped", word);
  return free | unmapped;
}

static size_t add_span(left_t *left, const slab_t *s) {
  unsigned free = bits_count(atomic64_load_relaxed(&s->pages)), pages, live = 0;
  for (uintptr_t at = slab_base(s); at < slab_base(s) + SPAN_SIZE; at += SPAN_PAGE)
    if (fh.span_find((void *)at, &pages) == (void *)at) live += pages, left->large++;
  if (free + live > 64) park_fail("a span has %u free pages and %u in use", free, live);
  left->pages += 64 - free - live;
  return SPAN_SLICES;
}

/* How many slices were looked at. */
static size_t add_slice(left_t *left, const arena_t *a, size_t slice, const void *own) {
  const slab_t *s = slab_of(arena_address(a, slice));
  slab_kind_t kind = slab_kind(slab_word(s));
  bool is_free = free_or_unmapped(a, slice / 64) >> slice % 64 & 1;
  if (kind != SLAB_NONE && is_free) park_fail("slice %zu is free and in use", slice);
  if (kind == SLAB_SMALL) add_slab(left, s, own);
  if (kind == SLAB_NONE && !is_free) add_lost_slice(left, slice);
  if (kind == SLAB_SPAN) return add_span(left, s);
  if (kind != SLAB_LARGE) return 1;
  left->large++;
  return atomic16_load_relaxed(&s->slices);
}

/* Words that are wholly free are passed over beyond the first ones, for their descriptors were
 * hardly ever touched. */
static void add_arena(left_t *left, const arena_t *a, const void *own) {
  size_t mapped = atomic64_load_relaxed(&a->mapped);
  fh.arena_is_valid(a);
  fh.partial_is_valid(a);
  for (size_t slice = a->first; slice < mapped;) {
    bool is_free = slice >= SLICES_LOOKED_AT && slice % 64 == 0 &&
                   free_or_unmapped(a, slice / 64) == ~(uint64_t)0;
    slice += is_free ? 64 : add_slice(left, a, slice, own);
  }
}

static void add_huge(left_t *left) {
  for (size_t i = 0; i < fh.huge_pool_size(); i++) {
    bool is_live;
    left->huge_records += fh.huge_at(i, &is_live) != NULL && is_live;
  }
}

static void add_windows(left_t *left) {
  uintptr_t from = first_window();
  for (uintptr_t i = from; i < from + 2 * WINDOWS_AROUND; i++) {
    uintptr_t tenant = (uintptr_t)atomic_ptr_load_relaxed(&fh.window_map[i]);
    tenant_t kind = map_kind(tenant);
    bool is_kept = kind == TENANT_ARENA || kind == TENANT_EMPTY || kind == TENANT_GUARDED;
    left->windows += tenant != 0 && !is_kept && kind != TENANT_FOREIGN;
  }
}

static left_t look(void) {
  left_t left = {0};
  add_heaps(&left);
  for (size_t i = 0; i < fh.arena_count(); i++)
    if (fh.arena_at(i) != NULL) add_arena(&left, fh.arena_at(i), own_heap());
  add_huge(&left);
  add_windows(&left);
  return left;
}

/* Whatever was lost, and however often. */
void oracle_check_structures(void) { look(); }

/* ---- judging --------------------------------------------------------------------------------- */

#define IS_ZERO(what)                                                                              \
  (left.what == 0 ? (void)0 : park_fail("left: %lu " #what, (unsigned long)left.what))

static void expect_nothing(left_t left) {
  IS_ZERO(heaps);
  IS_ZERO(places);
  IS_ZERO(slabs_owned);
  IS_ZERO(slabs_in_hand);
  if (left.slabs_shared != 0)
    park_fail("left: %u slabs that nobody owns, with %lu blocks, of %zu bytes in one",
              left.slabs_shared, left.blocks, left.block_size);
  IS_ZERO(large);
  IS_ZERO(pages);
  IS_ZERO(huge_records);
  IS_ZERO(windows);
}

static void expect_counts_of_nothing(void) {
  EXPECT(atomic64_load_relaxed(&fh.arena_counts->committed) == 0);
  EXPECT(atomic64_load_relaxed(&fh.arena_counts->dirty) == 0);
  EXPECT(atomic64_load_relaxed(&fh.arena_counts->huge_bytes) == 0);
  EXPECT(atomic64_load_relaxed(&fh.heap_counts->large_live) == 0);
  EXPECT(atomic64_load_relaxed(&fh.heap_counts->huge_live) == 0);
}

size_t blocks_in_hand = 1;

/* docs/promises.md, section 3: the heaps and what they hold, and one thing in its hands. That is a
 * block, a chain, a slab, a heap that a handler made superfluous, or a chunk of places. Or it is
 * the free pages of a few spans, or a range of slices, of which some may be free again. A realloc
 * that copies has two blocks: the new one, and the program's. */
static void expect_bounded(left_t left, unsigned heaps_most, unsigned large_most) {
  size_t slices = left.slices - left.slices_kept;
  if (left.slabs_in_hand > 1) park_fail("lost: %u slabs in hand", left.slabs_in_hand);
  if (left.heaps > heaps_most) park_fail("lost: %u heaps", left.heaps);
  if (left.places > PLACES_IN_CHUNK) park_fail("lost: %u places", left.places);
  if (left.large + left.huge_records > large_most)
    park_fail("lost: %u large and %u huge blocks", left.large, left.huge_records);
  if (left.pages > left.pages_kept + OS_RANGES_MOST * SPAN_PAGES)
    park_fail("lost: %zu pages, %zu of them kept", left.pages, left.pages_kept);
  if (left.slices > left.slices_kept &&
      (slices > IN_HAND_SLICES || (left.runs > 2 && left.words > 1)))
    park_fail("lost: %zu slices in %zu runs", slices, left.runs);
  if (left.blocks - left.blocks_of_one > left.blocks_kept + blocks_in_hand) /* a chain is of one */
    park_fail("lost: %lu blocks, %lu of them in bins", left.blocks, left.blocks_kept);
}

static void note_loss(left_t left) {
  raise(&shared->worst_loss.heaps, left.heaps);
  raise(&shared->worst_loss.slabs, left.slabs_owned + left.slabs_in_hand + left.slabs_shared);
  raise(&shared->worst_loss.slices, left.slices);
  raise(&shared->worst_loss.blocks, left.blocks);
  raise(&shared->worst_loss.large, left.large + left.huge_records);
}

void oracle_check(loss_kind_t may_lose) {
  left_t left = look();
  if (may_lose <= LOSS_RANGE) {
    expect_nothing(left);
    expect_counts_of_nothing();
    if (may_lose == LOSS_NONE) IS_ZERO(slices);
    else if (left.runs > 1) park_fail("left: %zu runs of slices", left.runs);
    return;
  }
  unsigned heaps_most = HEAPS_LOST + (may_lose == LOSS_IN_HAND);
  unsigned large_most = 1 + (may_lose == LOSS_MOVE);
  if (may_lose != LOSS_HEAP) expect_bounded(left, heaps_most, large_most);
  note_loss(left);
}
