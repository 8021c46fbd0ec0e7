/* bitmap_words.pml - runs of bits in two words, claimed word by word with retreat by TH threads
 *
 * Stands for, in src/arena/bitmap.c: bitmap_claim_one bitmap_claim_some claim_part release_part
 * and in src/arena/bitmap.c: bitmap_release bitmap_claim_at bitmap_find_run find_run_in
 * and in src/arena/bitmap.c: bitmap_find_tight
 * and in src/arena/slices.c: claim_run claim_runs slices_claim_at
 *
 * Two words of W bits; a set bit is free. A thread claims one bit, the lowest run of two or three
 * bits, or the free ones of some bits of a word, and gives them back. Each word is read once, so
 * the run may be gone. Nobody holds a bit together with another (M1); in the end all are free. With
 * STOP the first thread may stop for ever at any point, and the others still end; the bits of one
 * run, at most, are missing then.
 *
 * quick: -DTH=3 -DW=2 -DN=1
 * quick: -DTH=2 -DW=2 -DN=2 -DSTOP
 * check: -DTH=2 -DW=3 -DN=2
 * cycle: -DTH=2 -DW=2 -DN=1 -DSTOP
 * check: -DTH=3 -DW=2 -DN=2
 * check: -DTH=3 -DW=2 -DN=1 -DSTOP
 * check: -DTH=3 -DW=3 -DN=1
 */
#define BITS (2 * W)
#define FULL ((1 << W) - 1)
#define RETREATS 2

byte word[2] = FULL;                          /* the bitmap */
byte held[BITS];                          /* ghost: who holds the bit, 0: nobody */
bool stopping; byte done, stopped;

/* Ghost: the bits of `low` in word 0 and of `high` in word 1 change hands. */
inline pass(from, to) {
  k = 0;
  do
  :: k < BITS ->
     if :: ((low | (high << W)) >> k) & 1 -> assert(held[k] == (from)); held[k] = to :: else fi;
     k++
  :: else -> break
  od;
  k = 0
}

/* claim_part, and what bitmap_claim_one does with a word: the word is read, then swapped if it has
 * not changed. Else it is read again, as long as the bits are there. */
inline claim_part(w, bits) {
  r = word[w];
  do
  :: (r & (bits)) != (bits) -> ok = false; break
  :: else -> atomic {
       if :: word[w] == r -> word[w] = r & ~(bits); ok = true; break
          :: else -> r = word[w]
       fi
     }
  od
}

/* `low` and `high`: the bits of the run from `first` of `n` in word 0 and in word 1. */
inline split() { low = ((1 << n) - 1) << first; high = (low >> W) & FULL; low = low & FULL }

inline claim_at() {
  atomic { split(); ok = true };
  if :: low != 0 -> claim_part(0, low) :: else fi;
  if
  :: ok && high != 0 ->
     claim_part(1, high);
     if :: !ok && low != 0 -> word[0] = word[0] | low /* retreat */ :: else fi
  :: else
  fi
}

/* The lowest run of n by one reading of each word; BITS if there is none. The tightest is found by
 * one reading as well, and the claim decides of either. */
inline find_run() {
  low = word[0];
  atomic {
    low = low | (word[1] << W); first = 0;
    do
    :: first + n <= BITS && ((low >> first) & ((1 << n) - 1)) != ((1 << n) - 1) -> first++
    :: else -> break
    od;
    if :: first + n > BITS -> first = BITS :: else fi;
    low = 0
  }
}

inline claim_run() {
  do
  :: tries < RETREATS ->
     find_run();
     if
     :: first == BITS -> break
     :: else -> claim_at(); if :: ok -> break :: else -> tries++; first = BITS fi
     fi
  :: else -> break
  od;
  tries = 0
}

/* The lowest free bit from word `i` on, read and swapped until it is had. */
inline claim_one() {
  do
  :: i < 2 ->
     r = word[i];
     do
     :: r == 0 -> break
     :: else ->
        atomic {
          if
          :: word[i] == r ->
             word[i] = r & (r - 1); first = i * W;
             do :: (r & 1) == 0 -> r = r >> 1; first++ :: else -> break od;
             r = 0
          :: else -> r = word[i]
          fi
        };
        if :: first != BITS -> break :: else fi
     od;
     if :: first != BITS -> break :: else -> i++ fi
  :: else -> break
  od
}

/* bitmap_release: word by word. */
inline give_back() {
  if :: low != 0 -> atomic { assert((word[0] & low) == 0); word[0] = word[0] | low } :: else fi;
  if :: high != 0 -> atomic { assert((word[1] & high) == 0); word[1] = word[1] | high } :: else fi
}

inline operate() {
  first = BITS;
  if
  :: n = 2; claim_run()
  :: n = W + 1; claim_run()
  :: n = 1; i = 0; claim_one()
  :: n = 1; i = 1; claim_one()
  /* bitmap_claim_some */
  :: atomic { low = word[1] & 3; word[1] = word[1] & ~3; n = 0; high = low; low = 0 }
  fi;
  if
  :: n == 0 || first != BITS ->
     atomic { if :: n != 0 -> split() :: else fi; pass(0, _pid + 1) };
     atomic { pass(_pid + 1, 0) };
     give_back()
  :: else
  fi;
  atomic { first = 0; n = 0; i = 0; r = 0; low = 0; high = 0; ok = false }
}

active [TH] proctype thread() {
  byte first, n, i, k, r, tries, turn;
  short low, high;
  bool ok;
  {
    do
    :: turn < N -> turn++; operate()
    :: else -> break
    od;
    done++
  }
#ifdef STOP
  unless { stopping && _pid == 0 && done + stopped < TH -> stopped = 1 }
#endif
}

active proctype monitor() {
  byte k, gaps;
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
#define FREE(bit) ((word[(bit) / W] >> ((bit) % W)) & 1)
  for (k : 0 .. BITS - 1) { gaps = gaps + (!FREE(k) && (k == 0 || FREE(k - 1))) }
  assert(gaps <= stopped)
}
