/* growth.pml - threads that map the next range of one window at once
 *
 * Stands for, in src/arena/grow.c: map_next put_back_range map_again
 *
 * A range is claimed by a swap of `mapped` and then mapped; the mmap succeeds, fails, or finds
 * somebody else's mapping there (which stays: the range is passed over). A range whose mmap
 * failed goes back by a swap. Another thread's claim of the next range makes that impossible.
 * Then it is unmapped, and whoever claims one of its slices maps that again. No slice is mapped or
 * handed out twice, and none is handed out that is not mapped. Every slice below `mapped` is
 * mapped, passed over or unmapped. With STOP the first thread may stop for ever at any point, and
 * the others still end: then the range that it had claimed last is missing at most.
 *
 * quick: -DTH=3 -DSIZE=4
 * quick: -DTH=2 -DSIZE=5 -DSTOP
 * cycle: -DTH=2 -DSIZE=5 -DSTOP
 * check: -DTH=3 -DSIZE=5
 * check: -DTH=2 -DSIZE=8 -DSTOP
 */
#define STEP 2
#define TRIES 3

byte mapped;         /* slices from the window's start on that are mapped, or being mapped */
bool free[SIZE];     /* the bitmap */
byte claimer[SIZE];  /* ghost: whose range it is, 0: nobody's */
bool unmapped[SIZE]; /* the bitmap of that name */
bool present[SIZE], taken[SIZE], held[SIZE];  /* ghost */
bool stopping; byte done, stopped;

#define EACH(what) k = from; do :: k < from + step -> what; k++ :: else -> break od; k = 0

/* The lowest free slice: bitmap_words.pml has its steps. */
inline claim_free() {
  atomic {
    k = 0;
    do
    :: k < SIZE && !free[k] -> k++
    :: k < SIZE && free[k] -> free[k] = false; assert(present[k] && !held[k]); held[k] = true;
       got = true; break
    :: k == SIZE -> break
    od;
    k = 0
  }
}

inline grow() {
  step = STEP;
  do
  :: tries == TRIES -> break
  :: else ->
     tries++;
     from = mapped;
     if
     :: from + 1 > SIZE -> break
     :: else
     fi;
     if :: from + step > SIZE -> step = SIZE - from :: else fi;
     atomic {
       if
       :: mapped == from ->
          mapped = from + step; ok = true;
          EACH(assert(claimer[k] == 0 && !present[k] && !unmapped[k]); claimer[k] = _pid + 1)
       :: else -> ok = false
       fi
     };
     if
     :: !ok -> claim_free(); if :: got -> break :: else fi
     :: ok ->
        if
        :: atomic {
             EACH(assert(claimer[k] == _pid + 1 && !present[k]); present[k] = true);
             held[from] = true
           };
           atomic {
             EACH(assert(present[k]);
                  if :: k > from -> assert(!free[k] && !held[k]); free[k] = true :: else fi)
           };
           got = true; break
        :: atomic { EACH(taken[k] = true) }
        :: atomic {  /* no memory: back with it, if nobody has claimed the next range */
             if
             :: mapped == from + step ->
                mapped = from;
                EACH(assert(claimer[k] == _pid + 1); claimer[k] = 0)
                back = true
             :: else
             fi
           };
           if
           :: back
           :: else -> atomic { EACH(assert(!unmapped[k]); unmapped[k] = true; claimer[k] = 0) }
           fi;
           back = false;
           if :: step == 1 -> break :: else -> step = 1 fi
        fi
     fi
  od;
  atomic { from = 0; step = 0; k = 0; tries = 0; ok = false }
}

/* The lowest slice that was unmapped, if there is one. */
inline again() {
  atomic {
    k = 0;
    do
    :: k < SIZE && !unmapped[k] -> k++
    :: k < SIZE && unmapped[k] ->
       unmapped[k] = false; assert(claimer[k] == 0 && k < mapped); claimer[k] = _pid + 1;
       ok = true; break
    :: k == SIZE -> break
    od
  };
  if
  :: ok ->
     if
     :: atomic { assert(!present[k] && !held[k]); present[k] = true; held[k] = true; got = true }
     :: atomic { taken[k] = true }
     :: atomic { unmapped[k] = true; claimer[k] = 0 } /* no memory */
     fi
  :: else
  fi;
  atomic { ok = false; k = 0 }
}

active [TH] proctype thread() {
  byte from, step, k, tries;
  bool ok, got, back;
  {
    claim_free();
    if :: !got -> again() :: else fi;
    if :: !got -> grow() :: else fi;
    done++
  }
#ifdef STOP
  unless { stopping && _pid == 0 && done + stopped < TH -> stopped = 1 }
#endif
}

active proctype monitor() {
  byte k, missing;
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
  for (k : 0 .. SIZE - 1) {
    if
    :: (k < mapped) == (present[k] || taken[k] || unmapped[k]) && present[k] == (free[k] || held[k])
    :: else -> assert(stopped == 1 && claimer[k] == 1); missing++
    fi
  }
  assert(missing <= STEP)
}
