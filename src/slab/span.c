/* span.c - four slices, whose blocks are runs of pages                                layer 4: slab
 * Contract: span.h. */
#include "span.h"

#include "../arena/frames.h"
#include "../arena/patience.h"
#include "../arena/purge.h"
#include "../os/os.h"

/* A byte for each four pages. A run has at least five, so at most one begins there. Bits 0 and 1
 * say at which page, bit 2 if it was freed, and the others its length less SPAN_LEAST - 1. */
enum { RUN_BEGINS = 3, RUN_IS_FREED = 4, RUN_PAGES_SHIFT = 3, RUN_GRAIN = 4 };
_Static_assert((int)SPAN_LEAST > (int)RUN_GRAIN, "no two runs begin in the same pages");
_Static_assert(SPAN_MOST - SPAN_LEAST + 1 <= UINT8_MAX >> RUN_PAGES_SHIFT, "a run is a byte");
enum { NO_LEVEL = SPAN_LEVELS, LEVEL_LONG = SPAN_LEVELS - 1 };
_Static_assert((int)SPAN_MOST - (int)SPAN_LEAST == (int)LEVEL_LONG,
               "a level for each length of a run");

static const uint64_t all_pages = ~(uint64_t)0;

static large_table atomic64_t roomy_arenas[ARENA_MOST / 64][SPAN_LEVELS];

/* ---- where it is ----------------------------------------------------------------------------- */

static void *run_at(const slab_t *s, unsigned page) {
  return (char *)slab_base(s) + ((size_t)page << SPAN_PAGE_SHIFT);
}

static atomic8_t *run_of(const span_page_t *at) { return &at->span->runs[at->page / RUN_GRAIN]; }

/* The run that begins with that page; 0: none. */
static uint8_t run_seen(const span_page_t *at) {
  uint8_t run = atomic8_load_relaxed(run_of(at));
  return (run & RUN_BEGINS) == at->page % RUN_GRAIN ? run : 0;
}

static unsigned run_pages(uint8_t run) {
  return run < 1 << RUN_PAGES_SHIFT ? 0 : (run >> RUN_PAGES_SHIFT) + SPAN_LEAST - 1;
}
static bool run_is_freed(uint8_t run) { return (run & RUN_IS_FREED) != 0; }
static bool run_is_live(uint8_t run) { return run_pages(run) != 0 && !run_is_freed(run); }

static void set_run(const span_page_t *at, unsigned n, unsigned state) {
  unsigned run = (n - SPAN_LEAST + 1) << RUN_PAGES_SHIFT | at->page % RUN_GRAIN | state;
  atomic8_store_relaxed(run_of(at), (uint8_t)run);
}

/* Which of 64 arenas have a bit in `roomy_groups`. */
static inline atomic64_t *arenas_with_room(size_t arena, unsigned level) {
  return &roomy_arenas[arena / 64][level];
}

/* ---- hints ----------------------------------------------------------------------------------- */

/* The level of the longest run of ones, or NO_LEVEL. */
static unsigned room_of(uint64_t free) {
  unsigned n = bits_longest_run(free);
  return n >= SPAN_LEAST ? n - SPAN_LEAST : NO_LEVEL;
}

static void hint_arena(const arena_t *a, unsigned level) {
  hint_set(arenas_with_room(a->number, level), a->number % 64);
}

static void set_level(const slab_t *s, unsigned level) {
  arena_t *a = arena_of(s);
  arena_maps_t *m = arena_maps(a);
  size_t number = span_number(s);
  hint_set(m->roomy[level], number); /* S-room, S-group */
  hint_set(&a->roomy_groups[level], number / 64);
  hint_arena(a, level);
}

static void clear_level(slab_t *s, unsigned level) {
  hint_clear(arena_maps(arena_of(s))->roomy[level], span_number(s)); /* S-room */
  uint64_t free = atomic64_load_seq_cst(&s->pages);                  /* S-room */
  if (room_of(free) == level) set_level(s, level);
}

/* To call after the word has changed. */
static void note_new_room(slab_t *s, uint64_t before, uint64_t after) {
  unsigned was = room_of(before), is = room_of(after);
  if (was == is) return;
  if (is != NO_LEVEL) set_level(s, is);
  if (was != NO_LEVEL) clear_level(s, was);
}

/* ---- claiming -------------------------------------------------------------------------------- */

/* The first page of the shortest run of at least `n` ones; `runs`: where such runs begin. */
static unsigned tightest(uint64_t runs) {
  unsigned best = 0, least = SPAN_PAGES + 1;
  for (uint64_t heads = runs & ~(runs << 1); heads != 0; heads &= heads - 1) { /* Bound: bits */
    unsigned at = bits_lowest(heads), more = bits_ones_below(runs >> at);
    if (more < least) least = more, best = at;
  }
  return best;
}

static bool run_is_valid(const span_page_t *at) {
  unsigned n = run_pages(run_seen(at));
  HOLDS(R1, n >= SPAN_LEAST && at->page + n <= SPAN_PAGES);
  HOLDS(R1, (atomic64_load_relaxed(&at->span->pages) & bits_run(at->page, n)) == 0);
  return true;
}

/* How many of these free pages do not count as in memory: nobody ever wrote there, or they went
 * back, or they are pinned and so cannot go. */
static unsigned count_absent(const slab_t *s, uint64_t pages) {
  if (likely(!arena_of(s)->is_pinned)) pages &= ~atomic64_load_relaxed(&s->touched_pages);
  return bits_count(pages);
}

/* The caller's pages were free until now (-1), or will be (1). */
static void add_absent(const slab_t *s, uint64_t pages, int sign) {
  int n = sign * (int)count_absent(s, pages);
  if (n != 0) atomic64_add_relaxed(&arena_counts.absent_pages, (uint64_t)n);
}

static atomic64_t *gone_of(const slab_t *s) { return span_word(s, SPAN_GONE); }

/* These pages will be a block's. Those that had gone must come back. */
static void count_wanted(const slab_t *s, uint64_t pages) {
  if (count_absent(s, pages) == 0) return;
  add_absent(s, pages, -1);
  uint64_t gone = atomic64_load_relaxed(gone_of(s)) & pages;
  if (gone == 0) return;
  atomic64_and_relaxed(gone_of(s), ~gone);
  patience_note_pages(bits_count(gone));
}

unsigned span_touched(const slab_t *ended) {
  return bits_count(atomic64_load_relaxed(&ended->touched_pages));
}

/* The caller has claimed the pages, but they are no run yet. */
static void *begin_run(const span_page_t *at, unsigned n) {
  set_run(at, n, 0);
  ASSERT_VALID(run_is_valid(at));
  return run_at(at->span, at->page);
}

static void *claim_run_in_span(slab_t *s, unsigned n) {
  span_page_t at = {s, 0};
  atomic64_t *free = &s->pages;
  uint64_t w = atomic64_load_relaxed(free), runs; /* relaxed: the swap reads again */
  /* Progress: a failed swap means that another thread claimed or freed pages */
  while ((runs = bits_runs_of(w, n)) != 0) {
    at.page = tightest(runs);
    uint64_t left = w & ~bits_run(at.page, n);
    if (!atomic64_cas_seq_cst(free, &w, left)) continue; /* S-run, S-room */
    note_new_room(s, w, left);
    count_wanted(s, w & ~left);
    return begin_run(&at, n);
  }
  return NULL;
}

static unsigned lowest_from(uint64_t w, unsigned from) {
  return bits_lowest(w >> from != 0 ? w >> from << from : w);
}

static void *claim_run_in_group(arena_t *a, unsigned level, size_t group, unsigned n,
                                unsigned spread) {
  uint64_t w = atomic64_load_relaxed(&arena_maps(a)->roomy[level][group]);
  while (w != 0) { /* Bound: the bits of a word */
    unsigned bit = lowest_from(w, spread);
    slab_t *s = span_numbered(a, group * 64 + bit);
    void *p = claim_run_in_span(s, n);
    if (p != NULL) return p;
    clear_level(s, level);
    w &= ~((uint64_t)1 << bit);
  }
  return NULL;
}

/* Clears hints that led to nothing, from the group's up. */
static void *claim_run_in_arena(arena_t *a, unsigned level, unsigned n, unsigned spread) {
  arena_maps_t *m = arena_maps(a);
  /* relaxed: a bit that is missed was set just now. Bound: the bits of a word */
  for (uint64_t w = atomic64_load_relaxed(&a->roomy_groups[level]); w != 0; w &= w - 1) {
    size_t group = bits_lowest(w);
    void *p = claim_run_in_group(a, level, group, n, spread);
    if (p != NULL) return p;
    hint_clear(&a->roomy_groups[level], group);                        /* S-group */
    if (atomic64_load_seq_cst(&m->roomy[level][group]) == 0) continue; /* S-group */
    hint_set(&a->roomy_groups[level], group);
    hint_arena(a, level);
  }
  if (hint_any(&a->roomy_groups[level], 1)) return NULL; /* others were quicker in one of them */
  hint_clear(arenas_with_room(a->number, level), a->number % 64); /* S-group */
  if (hint_any(&a->roomy_groups[level], 1)) hint_arena(a, level);
  return NULL;
}

void *span_claim(unsigned n, unsigned spread) {
  ASSERT(n >= SPAN_LEAST && n <= SPAN_MOST);
  for (unsigned level = n - SPAN_LEAST; level < SPAN_LEVELS; level++)
    for (size_t i = 0, words = (arena_count() + 63) / 64; i < words; i++)
      /* relaxed and Bound: as in claim_run_in_arena */
      for (uint64_t w = atomic64_load_relaxed(&roomy_arenas[i][level]); w != 0; w &= w - 1) {
        arena_t *a = arena_at(i * 64 + bits_lowest(w));
        void *p = a != NULL ? claim_run_in_arena(a, level, n, spread % 64) : NULL;
        if (p != NULL) return p;
      }
  return NULL;
}

/* ---- from birth to end ----------------------------------------------------------------------- */

/* The span's slices are the caller's. */
static void note_begun(const slab_t *s) {
  size_t number = span_number(s);
  atomic64_or_relaxed(&arena_of(s)->spans[number / 64], (uint64_t)1 << number % 64);
  atomic64_add_relaxed(&arena_counts.spans, 1);
}
static void note_ended(const slab_t *s) {
  size_t number = span_number(s);
  atomic64_and_relaxed(&arena_of(s)->spans[number / 64], ~((uint64_t)1 << number % 64));
  atomic64_add_relaxed(&arena_counts.spans, (uint64_t)-1);
}

void *span_begin(void *base, bool is_clean, unsigned n) {
  span_page_t at = span_page_at(base);
  slab_t *s = slab_of(base);
  uint64_t free = all_pages & ~bits_run(0, n);
  ASSERT(at.page == 0 && atomic64_load_relaxed(&s->pages) == 0);
  s->inverse = 0;
  atomic_ptr_store_relaxed(&s->owner, NULL);
  atomic_ptr_store_relaxed(&s->cell, NULL);
  atomic64_store_relaxed(&s->size, 0);
  for (unsigned i = 0; i < ARRAY_LENGTH(s->runs); i++) atomic8_store_relaxed(&s->runs[i], 0);
  atomic32_store_relaxed(&s->kind, SLAB_IS_SPAN);
  note_begun(s);
  *arena_touched_last(base, SPAN_SLICES) = TOUCHED_ALL;
  atomic64_store_relaxed(&s->touched_pages, is_clean ? 0 : all_pages);
  atomic64_store_relaxed(gone_of(s), 0);
  atomic64_store_relaxed(span_word(s, SPAN_KEPT), 0);
  void *p = begin_run(&at, n);
  add_absent(s, free, 1);
  atomic64_or_seq_cst(&s->pages, free); /* S-run, S-room */
  set_level(s, LEVEL_LONG);
  return p;
}

/* All pages are free, or were a moment ago. True: this thread ended the span; its slices are the
 * caller's. */
static bool end_if_free(slab_t *s) {
  uint64_t all = all_pages;
  if (!atomic64_cas_acquire(&s->pages, &all, 0)) return false; /* S-run */
  add_absent(s, all_pages, -1);
  hint_clear(arena_maps(arena_of(s))->roomy[LEVEL_LONG], span_number(s));
  note_ended(s);
  atomic32_store_relaxed(&s->kind, 0);
  return true;
}

/* Pages come back. True: as in `end_if_free`. */
static bool give_back_run(slab_t *s, uint64_t pages) {
  add_absent(s, pages, 1);
  uint64_t before = atomic64_or_seq_cst(&s->pages, pages); /* S-run, S-room */
  ASSERT((before & pages) == 0);
  note_new_room(s, before, before | pages);
  return (before | pages) == all_pages && end_if_free(s);
}

/* The pages were a block's, so they may have been written. */
static void note_touched(slab_t *s, uint64_t pages) {
  uint64_t seen = atomic64_load_relaxed(&s->touched_pages) & pages;
  if (seen != pages) atomic64_or_relaxed(&s->touched_pages, pages);
}

bool span_was_freed(const void *p) {
  span_page_t at = span_page_at(p);
  return (uintptr_t)p % SPAN_PAGE == 0 && run_is_freed(run_seen(&at));
}

_Noreturn static cold void refuse_run(const void *p, const char *call) {
  unsigned pages; /* of a block around `p` */
  bool is_inside = span_find(p, &pages) != NULL;
  fatal(span_was_freed(p) && !is_inside ? "double free" : "invalid pointer", p, call);
}

/* The run of the block at `p`; `fatal` if there is none. */
static uint8_t live_run(const void *p, const span_page_t *at, const char *call) {
  uint8_t run = run_seen(at);
  if ((uintptr_t)p % SPAN_PAGE != 0 || !run_is_live(run)) refuse_run(p, call);
  return run;
}

unsigned span_pages(const void *p, const char *call) {
  span_page_t at = span_page_at(p);
  return run_pages(live_run(p, &at, call));
}

unsigned span_end_block(void *p, const char *call) {
  span_page_t at = span_page_at(p);
  uint8_t run = live_run(p, &at, call);
  unsigned n = run_pages(run);
  note_touched(at.span, bits_run(at.page, n));
  /* relaxed: if two threads free the same run, one sees the other */
  if (!atomic8_cas_relaxed(run_of(&at), &run, run | RUN_IS_FREED)) refuse_run(p, call);
  return n;
}

void span_renew_block(void *p) {
  span_page_t at = span_page_at(p);
  uint8_t run = atomic8_load_relaxed(run_of(&at));
  ASSERT(run_is_freed(run));
  atomic8_store_relaxed(run_of(&at), run ^ RUN_IS_FREED);
}

slab_t *span_free(span_part_t part) {
  return give_back_run(part.span, part.pages) ? part.span : NULL;
}

void span_forget_block(void *p) {
  span_page_t at = span_page_at(p);
  atomic8_store_relaxed(run_of(&at), 0);
}

static bool claim_behind(const span_page_t *at, unsigned from, unsigned n) {
  if (at->page + from + n > SPAN_PAGES) return false;
  atomic64_t *free = &at->span->pages;
  uint64_t more = bits_run(at->page + from, n), w = atomic64_load_relaxed(free);
  /* Progress: a failed swap means that another thread claimed or freed pages */
  while ((w & more) == more) {
    if (!atomic64_cas_seq_cst(free, &w, w & ~more)) continue; /* S-run, S-room */
    note_new_room(at->span, w, w & ~more);
    count_wanted(at->span, more);
    return true;
  }
  return false;
}

unsigned span_claim_behind(const void *p, unsigned n, unsigned most) {
  span_page_t at = span_page_at(p);
  uint64_t free = atomic64_load_relaxed(&at.span->pages) >> at.page >> n; /* relaxed: as above */
  unsigned runs = (unsigned)min_size(bits_ones_below(free) / n, most);
  if (runs == 0 || !claim_behind(&at, n, runs * n)) return 0;
  for (unsigned i = 0; i < runs; i++) { /* Bound: those of a span */
    at.page += n;
    set_run(&at, n, RUN_IS_FREED);
  }
  return runs;
}

bool span_resize(void *p, unsigned n) {
  span_page_t at = span_page_at(p);
  unsigned have = run_pages(run_seen(&at));
  if (n < SPAN_LEAST || n > SPAN_MOST) return false;
  if (n > have && !claim_behind(&at, have, n - have)) return false;
  begin_run(&at, n);
  if (n < have) {
    uint64_t pages = bits_run(at.page + n, have - n);
    note_touched(at.span, pages);
    give_back_run(at.span, pages); /* not the end: the caller has the others */
  }
  return true;
}

unsigned span_untouched_behind(const void *p, unsigned n) {
  span_page_t at = span_page_at(p);
  unsigned have = run_pages(run_seen(&at));
  if (n <= have || at.page + n > SPAN_PAGES) return 0; /* it cannot grow */
  return count_absent(at.span, bits_run(at.page + have, n - have));
}

/* ---- anyone looks ---------------------------------------------------------------------------- */

bool span_is_clean(const void *p) {
  span_page_t at = span_page_at(p);
  uint64_t touched = atomic64_load_relaxed(&at.span->touched_pages);
  return (touched & bits_run(at.page, run_pages(run_seen(&at)))) == 0;
}

void *span_find(const void *p, unsigned *pages) {
  span_page_t at = span_page_at(p);
  unsigned page = at.page;
  for (unsigned back = 0; back < SPAN_MOST && back <= page; back++) { /* Bound: SPAN_MOST */
    at.page = page - back;
    uint8_t run = run_seen(&at);
    if (!run_is_live(run)) continue;
    *pages = run_pages(run);
    return *pages > back ? run_at(at.span, at.page) : NULL;
  }
  return NULL;
}

size_t span_live(const slab_t *s) {
  size_t pages = 0;
  for (span_page_t at = span_page_at(arena_described(s)); at.page < SPAN_PAGES; at.page++) {
    uint8_t run = run_seen(&at);
    if (run_is_live(run)) pages += run_pages(run);
  }
  return pages << SPAN_PAGE_SHIFT;
}

/* ---- at rest --------------------------------------------------------------------------------- */

/* The system's pages that are wholly free and may be in memory; none if they must stay there. */
static uint64_t idle_pages(const slab_t *s, uint64_t free) {
  if (arena_of(s)->is_pinned) return 0;
  unsigned n = (unsigned)(os_page_size() >> SPAN_PAGE_SHIFT);
  uint64_t of_one = ((uint64_t)1 << n) - 1, heads = bits_runs_of(free, n) & all_pages / of_one;
  uint64_t absent = bits_runs_of(~atomic64_load_relaxed(&s->touched_pages), n);
  return (heads & ~absent) * of_one;
}

uint64_t span_claim_idle(slab_t *s, unsigned least) {
  uint64_t w = atomic64_load_relaxed(&s->pages), idle = idle_pages(s, w);
  if (bits_count(idle) < least) return 0;
  if (!atomic64_cas_seq_cst(&s->pages, &w, w & ~idle)) return 0; /* S-run, S-room; it is in use */
  note_new_room(s, w, w & ~idle);
  add_absent(s, idle, -1);
  return idle;
}

void span_note_gone(span_part_t part) {
  slab_t *s = part.span;
  atomic64_add_relaxed(&arena_counts.purged, (uint64_t)bits_count(part.pages) << SPAN_PAGE_SHIFT);
  atomic64_and_relaxed(&s->touched_pages, ~part.pages);
  atomic64_or_relaxed(gone_of(s), part.pages);
  frames_break(arena_of(s), arena_slice((void *)slab_base(s)), SPAN_SLICES);
}

/* ---- what holds ------------------------------------------------------------------------------ */

bool span_is_valid(const slab_t *s) {
  span_page_t at = span_page_at(arena_described(s));
  uint64_t free = atomic64_load_relaxed(&s->pages), claimed = 0;
  for (; at.page < SPAN_PAGES; at.page++) {
    uint8_t run = run_seen(&at);
    if (!run_is_live(run)) continue;
    run_is_valid(&at);
    uint64_t pages = bits_run(at.page, run_pages(run));
    HOLDS(R1, (pages & claimed) == 0);
    claimed |= pages;
  }
  unsigned level = room_of(free);
  if (level == NO_LEVEL) return true;
  HOLDS(R2, bitmap_has(arena_maps(arena_of(s))->roomy[level], span_number(s)));
  return true;
}
