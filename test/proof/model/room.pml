/* room.pml - what a search for a run of slices did not find, noted, and forgotten when slices come
 * back
 *
 * Stands for, in src/arena/hint.h: lack_covers lack_note lack_end lack_review lack_forget
 * and in src/arena/slices.c: review_lacks slices_give_back arena_put_back slices_claim_at retreat
 * and in src/arena/slices.h: slices_try
 *
 * BITS slices in words of one slice each, as far as orders go. A thread gives back what it holds,
 * a run at a time, slice by slice, and then reviews the lack. Or it looks for a run of one or two,
 * and if it has searched in vain notes that and searches again. A thread that claims a run takes
 * its slices one after another, and gives them back if one is gone. In the end no lack covers a run
 * that is free. With STOP the first thread may stop for ever at any point, and the others still
 * end. What it holds is missing, and a run that came back while it was between its note and its
 * second search may be covered.
 *
 * check: -DTH=3 -DBITS=2 -DN=1
 * quick: -DTH=2 -DBITS=3 -DN=1 -DSTOP
 * cycle-check: -DTH=2 -DBITS=2 -DN=1 -DSTOP
 * check: -DTH=3 -DBITS=3 -DN=1
 * check: -DTH=2 -DBITS=4 -DN=2
 * check: -DTH=2 -DBITS=3 -DN=2 -DSTOP
 */
#define NOBODY 255
#define NONE 255              /* not found */
#define LOST 254              /* found, but another was quicker */

bool free[BITS] = true;
byte lack;                 /* 0: none */
byte holder[BITS] = NOBODY;  /* ghost */
bool between[TH];          /* ghost: gave back and has not reviewed */
bool noted[TH];            /* ghost: has noted a lack and not searched again */
bool stopping; byte done, stopped;

/* Each slice of the run in which the `m` that came back lie is looked at by itself. */
inline review(m) {
  least = lack;
  if
  :: least == 0
  :: else ->
     length = 0; k = first;
     do
     :: (length < least || length < m) && k < BITS ->
        if :: free[k] -> length++; k++ :: !free[k] -> break fi
     :: else -> break
     od;
     k = (length < m -> 0 : first);
     do
     :: length < least && k > 0 -> if :: free[k - 1] -> length++; k-- :: !free[k - 1] -> break fi
     :: else -> break
     od;
     if :: length < m || length >= least -> lack = 0 :: else fi
  fi;
  atomic { between[_pid] = false; least = 0; length = 0; k = 0 }
}

inline give_back_one(s) {
  atomic {
    assert(holder[s] == _pid && !free[s]);
    holder[s] = NOBODY; free[s] = true; between[_pid] = true
  }
}

/* The lowest run of `n`: `first`, claimed; or NONE, or LOST. */
inline attempt() {
  first = NONE; length = 0; k = 0;
  do
  :: first == NONE && k < BITS ->
     if :: free[k] -> length++ :: !free[k] -> length = 0 fi;
     k++;
     if :: length == n -> first = k - n :: else fi
  :: else -> break
  od;
  k = 0;
  do
  :: first < BITS && k < n ->
     atomic {
       if
       :: free[first + k] -> free[first + k] = false; assert(holder[first + k] == NOBODY);
          holder[first + k] = _pid; k++
       :: else -> length = 0
       fi
     };
     if
     :: length == 0 ->                                                      /* retreat */
        do
        :: k > 0 -> k--; give_back_one(first + k)
        :: else -> break
        od;
        if :: n > 1 -> review(n) :: else fi;      /* of one word all or none are claimed */
        first = LOST
     :: else
     fi
  :: else -> break
  od;
  atomic { length = 0; k = 0 }
}

inline search() {
  if
  :: lack != 0 && n >= lack -> first = NONE
  :: else ->
     attempt();
     if
     :: first != NONE
     :: first == NONE ->
        atomic { if :: lack == 0 || n < lack -> lack = n :: else fi; noted[_pid] = true };
        attempt();
        if :: first != NONE -> lack = 0 :: else fi;
        noted[_pid] = false
     fi
  fi
}

inline give_back_all() {
  n = 0;
  do
  :: n < BITS ->
     if
     :: holder[n] == _pid ->
        first = n;
        do
        :: n < BITS && holder[n] == _pid -> give_back_one(n); n++
        :: else -> break
        od;
        review(n - first)
     :: else -> n++
     fi
  :: else -> break
  od
}

active [TH] proctype thread() {
  byte first, n, k, length, least, turn;
  {
    do
    :: turn < N -> turn++;
       if
       :: n = 1; search()
       :: n = 2; search()
       :: give_back_all()
       fi;
       atomic { first = 0; n = 0 }
    :: else -> break
    od;
    give_back_all();
    done++
  }
#ifdef STOP
  unless { stopping && _pid == 0 && done + stopped < TH -> stopped = 1 }
#endif
}

active proctype monitor() {
  byte k, length;
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
  assert(stopped == 1 || (!between[0] && !noted[0]));
  for (k : 0 .. BITS - 1) {
    assert(free[k] == (holder[k] == NOBODY) && (free[k] || stopped == 1));
    if :: free[k] -> length++ :: else -> length = 0 fi;
    assert(lack == 0 || length < lack || between[0] || noted[0])
  }
}
