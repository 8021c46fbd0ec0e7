/* bitmap.c - bits that are claimed and given back without a lock                     layer 3: arena
 * Contract: bitmap.h. */
#include "bitmap.h"

enum { TIGHT_WORDS = 64 }; /* beyond the first run that is long enough */

size_t bitmap_claim_one(atomic64_t *words, size_t word_count, size_t from) {
  for (size_t i = from; i < word_count; i++) {
    uint64_t w = atomic64_load_seq_cst(&words[i]); /* S-room */
    while (w != 0) /* Progress: a failed swap means that this word changed */
      if (atomic64_cas_acquire(&words[i], &w, w & (w - 1)))
        return i * 64 + bits_lowest(w); /* S-bit */
  }
  return BITMAP_NONE;
}

uint64_t bitmap_claim_some(atomic64_t *word, uint64_t wanted) {
  return atomic64_and_acquire(word, ~wanted) & wanted; /* S-bit */
}

static bool claim_part(atomic64_t *word, uint64_t bits) {
  uint64_t w = atomic64_load_relaxed(word); /* relaxed: the swap reads again */
  while ((w & bits) == bits) /* Progress: a failed swap means that this word changed */
    if (atomic64_cas_acquire(word, &w, w & ~bits)) return true; /* S-bit */
  return false;
}

static bool release_is_valid(uint64_t before, uint64_t bits) {
  HOLDS(M1, (before & bits) == 0);
  return true;
}

static void release_part(atomic64_t *word, uint64_t bits, void *context) {
  (void)context;
  uint64_t before = atomic64_or_seq_cst(word, bits); /* S-bit, S-room */
  ASSERT_VALID(release_is_valid(before, bits));
}

void bitmap_release(atomic64_t *words, size_t first, size_t n) {
  bitmap_each_part(words, first, n, release_part, NULL);
}

bool bitmap_claim_at(atomic64_t *words, size_t first, size_t n) {
  for (size_t done = 0; done < n;) {
    unsigned at = (first + done) % 64;
    unsigned part = (unsigned)min_size(n - done, 64 - at);
    if (!claim_part(&words[(first + done) / 64], bits_run(at, part))) {
      bitmap_release(words, first, done); /* retreat */
      return false;
    }
    done += part;
  }
  return true;
}

/* Ones at the multiples of `alignment` among the 64 bits from number `first` on. */
static uint64_t multiples(size_t first, size_t alignment) {
  if (likely(alignment == 1)) return ~(uint64_t)0;
  if (alignment >= 64) return first % alignment == 0;
  uint64_t ones = 1;
  for (size_t have = alignment; have < 64; have *= 2) ones |= ones << have;
  return ones;
}

static always_inline uint64_t joined(const atomic64_t *words, const atomic64_t *others, size_t i) {
  uint64_t w = atomic64_load_seq_cst(&words[i]); /* S-room; the claim decides, here and below */
  return others == NULL ? w : w | atomic64_load_seq_cst(&others[i]); /* S-room */
}

/* Inline, so that the search of one map does not ask about the other for each word. */
static inline size_t find_run_in(const atomic64_t *words, const atomic64_t *others,
                                 size_t word_count, size_t from, size_t n, size_t alignment) {
  size_t tail = 0; /* set bits just below word i */
  for (size_t i = from; i < word_count; i++) {
    uint64_t w = joined(words, others, i);
    while (w == 0) { /* a run that ended below was found there. Bound: the words */
      tail = 0;
      if (++i == word_count) return BITMAP_NONE;
      w = joined(words, others, i);
    }
    if (~w != 0 || tail + 64 >= n) {
      size_t first = align_up(i * 64 - tail, alignment);
      if (first + n <= i * 64 + bits_ones_below(w)) return first;
    }
    if (~w == 0) {
      tail += 64;
      continue;
    }
    uint64_t starts = n <= 64 ? bits_runs_of(w, (unsigned)n) & multiples(i * 64, alignment) : 0;
    if (starts != 0) return i * 64 + bits_lowest(starts);
    tail = bits_ones_above(w);
  }
  return BITMAP_NONE;
}

typedef struct {
  size_t n, first, length;
} tight_t;

static always_inline void note_run(tight_t *best, size_t first, size_t length) {
  if (length < best->n || length >= best->length) return;
  best->first = first;
  best->length = length;
}

/* The runs within a word, except those at its ends, which may continue in other words. */
static void note_inner_runs(tight_t *best, size_t number, uint64_t inner) {
  uint64_t starts = bits_runs_of(inner, (unsigned)best->n);
  while (starts != 0) { /* Bound: the runs of a word */
    unsigned at = bits_lowest(starts);
    note_run(best, number + at, bits_ones_below(inner >> at));
    starts &= starts + ((uint64_t)1 << at);
  }
}

size_t bitmap_find_tight(const atomic64_t *words, size_t word_count, size_t from, size_t n) {
  tight_t best = {n, BITMAP_NONE, BITMAP_NONE};
  size_t i = from, end = word_count, tail = 0; /* set bits just below word i */
  for (; i < end && best.length != n; i++) {
    uint64_t w = atomic64_load_seq_cst(&words[i]); /* S-room; the claim decides */
    if ((w | tail) == 0) continue;
    if (~w == 0) {
      tail += 64;
    } else {
      note_run(&best, i * 64 - tail, tail + bits_lowest(~w));
      tail = bits_ones_above(w);
      if (n <= 64) note_inner_runs(&best, i * 64, (w & (w + 1)) << tail >> tail);
    }
    if (end == word_count && (best.first != BITMAP_NONE || tail >= n))
      end = min_size(word_count, i + TIGHT_WORDS);
  }
  note_run(&best, i * 64 - tail, tail);
  return best.first;
}

size_t bitmap_find_run(const atomic64_t *words, size_t word_count, size_t from, size_t n,
                       size_t alignment) {
  return find_run_in(words, NULL, word_count, from, n, alignment);
}

size_t bitmap_find_joined(const atomic64_t *words, const atomic64_t *others, size_t word_count,
                          size_t n, size_t alignment) {
  return find_run_in(words, others, word_count, 0, n, alignment);
}

size_t bitmap_run_below(const atomic64_t *words, size_t end, size_t most) {
  size_t n = 0;
  most = min_size(most, end);
  while (n < most) { /* Bound: the words of the run */
    unsigned high = (unsigned)((end - n - 1) % 64 + 1);
    uint64_t w = atomic64_load_seq_cst(&words[(end - n - 1) / 64]); /* S-room */
    unsigned ones = bits_ones_above(w << (64 - high));
    n += min_size(ones, high);
    if (ones < high) break;
  }
  return min_size(n, most);
}

size_t bitmap_run_above(const atomic64_t *words, size_t from, size_t most) {
  size_t n = 0;
  while (n < most) { /* Bound: the words of the run */
    unsigned at = (from + n) % 64;
    uint64_t w = atomic64_load_seq_cst(&words[(from + n) / 64]); /* S-room */
    unsigned ones = bits_ones_below(w >> at);
    n += min_size(ones, 64 - at);
    if (ones < 64 - at) break;
  }
  return min_size(n, most);
}
