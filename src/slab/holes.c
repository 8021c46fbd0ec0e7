/* holes.c - free blocks by their addresses: in order, and whole free pages            layer 4: slab
 * Contract: holes.h.
 * Sync:    S-visit: holes are marked before their pages go, and stay marked until keys are there
 *          again, even if the system has taken some pages and then refused.
 *
 * A block of which a part lies on a hole is sunk: the anchor counts it neither as carved nor as
 * free. So freeing the last of the other blocks finds the slab empty. A heap that takes the slab
 * over links the sunk blocks again, and the pages come back. Until then the owner is SLAB_HOLED. */
#include "holes.h"

#include "../arena/patience.h"
#include "../os/os.h"

enum { STARTS_STEP = 64 * CLASS_STEP }; /* bytes that a word of starts stands for */
enum { FETCH_PART = 16 }; /* a list of a smaller part of a slab's blocks is followed as it is */

/* ---- the private list, in the order of addresses --------------------------------------------- */

static void note_starts(const slab_t *s, slab_starts_t *starts) {
  unsigned left = slab_private_count(s) - s->sunk; /* Bound: that */
  for (uintptr_t b = s->head; b != 0 || left != 0; b = slab_next(b, "malloc"), left--) {
    if (b == 0 || left == 0) fatal("heap corruption", (void *)slab_base(s), "malloc");
    size_t start = (uint16_t)b / CLASS_STEP;
    starts->words[start / 64] |= (uint64_t)1 << start % 64;
  }
}

static void link_starts(slab_t *s, const slab_starts_t *starts) {
  uintptr_t base = slab_base(s), first = 0;
  for (size_t i = ARRAY_LENGTH(starts->words); i-- > 0;)
    for (uint64_t w = starts->words[i]; w != 0;) { /* Bound: the bits of a word */
      unsigned highest = bits_highest(w);
      w ^= (uint64_t)1 << highest;
      uintptr_t block = base | (i * 64 + highest) * CLASS_STEP;
      block_link(block, first);
      first = block;
    }
  s->head = first;
}

/* Asks for the lines on which blocks begin, so that the list is not followed from miss to miss. */
static void fetch_starts(const slab_t *s) {
  size_t size = class_size(slab_class(s)), carved = atomic32_load_relaxed(&s->carved);
  uintptr_t first = slab_base(s) + size, end = first + carved * size;
  if (slab_private_count(s) - s->sunk < carved / FETCH_PART) return;
  for (uintptr_t b = first; b < end; b += max_size(size, 64)) /* Bound: `carved` */
    __builtin_prefetch((void *)b, 1);
}

void slab_sort(slab_t *s) {
  slab_starts_t starts = {{0}};
  fetch_starts(s);
  note_starts(s, &starts);
  link_starts(s, &starts);
}

/* ---- free pages ------------------------------------------------------------------------------ */

static size_t page_of(size_t offset) { return offset / os_page_size(); }

/* The pages that the block lies on, a bit for each. */
uint32_t slab_pages_of(uintptr_t block, size_t size) {
  size_t offset = block % SLICE_SIZE, first = page_of(offset), last = page_of(offset + size - 1);
  return (uint32_t)bits_run((unsigned)first, (unsigned)(last - first + 1));
}

static uint32_t read_holes(const slab_t *s) { return atomic32_load_relaxed(&s->holes); }

bool slab_begins_on(uint32_t holes, uintptr_t block) {
  return holes >> page_of(block % SLICE_SIZE) & 1;
}

/* Sinking blocks leave the private list, whose blocks count as live in the sums. */
static void set_sunk(slab_t *s, unsigned sunk) {
  slab_note_taken(s, (int)s->sunk - (int)sunk);
  s->sunk = (uint16_t)sunk;
}

void slab_fill_holes(slab_t *s) {
  size_t size = class_size(slab_class(s));
  uint32_t holes = read_holes(s);
  if (holes == 0) return;
  /* Bound: `carved` */
  for (uintptr_t b = slab_base(s) + atomic32_load_relaxed(&s->carved) * size; b > slab_base(s);
       b -= size) {
    if ((slab_pages_of(b, size) & holes) == 0) continue;
    block_link(b, s->head);
    s->head = b;
  }
  patience_note_reuse((bits_count(holes) * os_page_size() + SLICE_SIZE / 2) >> SLICE_SHIFT,
                      UINT32_MAX); /* it rested */
  set_sunk(s, 0);
  atomic32_store_release(&s->holes, 0); /* S-visit */
}

/* Gives back pages all of whose blocks are free. Returns those of runs that did not go as a whole;
 * some of them may be gone. */
static uint32_t make_holes(slab_t *s, uint32_t pages) {
  /* relaxed: the system orders it before they go */
  atomic32_store_relaxed(&s->holes, read_holes(s) | pages);
  uint64_t gone = arena_discard_runs((void *)slab_base(s), os_page_size(), pages);
  atomic64_add_relaxed(&arena_counts.purged, bits_count(gone) * os_page_size());
  return pages & ~(uint32_t)gone;
}

void slab_make_holes(slab_t *s, slab_starts_t *free) {
  size_t size = class_size(slab_class(s));
  uintptr_t base = slab_base(s), end = base + atomic32_load_relaxed(&s->carved) * size;
  uint32_t kept = 0, all = (uint32_t)bits_run(0, (unsigned)page_of(SLICE_SIZE));
  memset(free, 0, sizeof *free);
  note_starts(s, free);
  for (uintptr_t b = base + size; b <= end; b += size) { /* Bound: `carved` */
    bool is_listed = free->words[b % SLICE_SIZE / STARTS_STEP] >> b / CLASS_STEP % 64 & 1;
    uint32_t pages = slab_pages_of(b, size);
    if (SECURE && b == base + size) pages |= slab_pages_of(b - 1, 1); /* its trailer's before it */
    if (!is_listed && (pages & read_holes(s)) == 0) kept |= pages;
  }
  uint32_t refused = make_holes(s, all & ~kept & ~read_holes(s));
  uint32_t holes = read_holes(s) & ~refused;
  unsigned sunk = 0;
  for (uintptr_t b = base + size; b <= end; b += size) { /* Bound: `carved` */
    if ((slab_pages_of(b, size) & holes) == 0) continue;
    free->words[b % SLICE_SIZE / STARTS_STEP] &= ~((uint64_t)1 << b / CLASS_STEP % 64);
    sunk++;
  }
  set_sunk(s, sunk);
  link_starts(s, free);
  if (refused != 0) atomic32_store_release(&s->holes, holes); /* S-visit */
}

bool slab_may_have_holes(const slab_t *s, unsigned c) {
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor));
  size_t fresh = read_holes(s) == 0 ? class_info[c].capacity - (size_t)a.carved : 0;
  return (a.count + fresh) * class_size(c) >= os_page_size();
}
