/* windows.pml - runs of windows of the address space that threads claim, map, hand to a tenant and
 * give back
 *
 * Stands for, in src/arena/map.c: map_free map_set claim try_at find_free lowest_free search_upward
 *
 * WINDOWS windows, each NONE, CLAIMED, a tenant's, or TAKEN: something else lay there. A thread
 * wants two adjacent ones, then one, and so on, the lowest that are free. It gives a part of a run
 * back where the next window is another's, and the whole if the system has no memory. Where
 * something else lies one window is marked and the others go back; what was marked is tried again
 * at the end. Only the claimer changes a word (W1); no two threads map one window. In the end all
 * are NONE or TAKEN, and none that is NONE lies below the hint (W2). With STOP the first thread may
 * stop for ever at any point, and the others still end; what is missing then is the one run that it
 * had.
 *
 * quick: -DTH=2 -DWINDOWS=3 -DN=1
 * quick: -DTH=2 -DWINDOWS=2 -DN=1 -DSTOP
 * cycle: -DTH=2 -DWINDOWS=2 -DN=1 -DSTOP
 * check: -DTH=2 -DWINDOWS=3 -DN=1 -DSTOP
 * check: -DTH=2 -DWINDOWS=2 -DN=2
 * check: -DTH=3 -DWINDOWS=2 -DN=1
 */
#define MOST 2

mtype = { NONE, CLAIMED, TENANT, TAKEN };

mtype word[WINDOWS] = NONE;
byte low, frees;                          /* the hint: one word */
byte owner[WINDOWS];                      /* ghost: who claimed it; 0: nobody */
bool mapped[WINDOWS];                     /* ghost */
bool stopping; byte done, stopped;

/* map_free. Its loop ends when nobody else changes the hint, so that is one step here. */
inline free_windows(from, n) {
  i = 0;
  do
  :: i < n ->
     atomic {
       assert(owner[from + i] == _pid + 1 && !mapped[from + i]);
       owner[from + i] = 0; word[from + i] = NONE
     };
     i++
  :: else -> break
  od;
  if
  :: n > 0 -> atomic { frees++; if :: from < low -> low = from :: else fi }
  :: else
  fi
}

/* `got`: how many from `first` on were free; all of `count` are claimed, or none. */
inline claim() {
  got = 0;
  do
  :: got == count -> break
  :: else ->
     atomic {
       if
       :: word[first + got] == NONE || (again && word[first + got] == TAKEN) ->
          assert(owner[first + got] == 0);
          word[first + got] = CLAIMED; owner[first + got] = _pid + 1; ok = true
       :: else -> ok = false
       fi
     };
     if
     :: ok -> got++
     :: else -> free_windows(first, got); break
     fi
  od
}

inline map_range() {
  atomic {
    i = 0;
    do :: i < count -> assert(owner[first + i] == _pid + 1 && !mapped[first + i]);
                       mapped[first + i] = true; i++
       :: else -> break
    od
  }
}
inline unmap_range() {
  atomic {
    i = 0;
    do :: i < count -> assert(mapped[first + i]); mapped[first + i] = false; i++
       :: else -> break
    od
  }
}

inline lowest_free() {
  atomic { seen_low = low; seen_frees = frees };
  first = seen_low;
  do
  :: first < WINDOWS && word[first] != NONE -> first++
  :: else -> break
  od;
  atomic {
    if
    :: low == seen_low && frees == seen_frees -> low = first
    :: else
    fi
  }
}

/* `first`: the run; WINDOWS: there is none. */
inline find_free() {
  got = 0;
  do
  :: first == WINDOWS -> break
  :: else ->
     if
     :: word[first] == NONE || (again && word[first] == TAKEN) -> got++
     :: else -> got = 0
     fi;
     first++;
     if :: got == count -> first = first - count; break :: else fi
  od
}

/* Something else lies in one of them. */
inline give_up_one() {
  if
  :: taken = 0
  :: count == 2 -> taken = 1
  fi;
  atomic {
    assert(owner[first + taken] == _pid + 1);
    owner[first + taken] = 0; word[first + taken] = TAKEN
  };
  free_windows(first + taken + 1, count - taken - 1);
  free_windows(first, taken);
  first = first + taken + 1
}

/* `ok`: the run from `first` on is mapped. */
inline new_windows() {
  again = false;
  lowest_free();
  do
  :: find_free();
     if
     :: first == WINDOWS && again -> ok = false; break
     :: first == WINDOWS && !again -> again = true; first = 0
     :: else ->
        claim();
        if
        :: got < count -> first = first + got + 1
        :: else ->
           if
           :: map_range(); ok = true; break
           :: give_up_one()
           :: free_windows(first, count); ok = false; break        /* no memory */
           fi
        fi
     fi
  od
}

inline live_there() {
  new_windows();
  if
  :: ok ->
     i = 0;
     do
     :: i < count ->
        atomic {
          assert(owner[first + i] == _pid + 1 && word[first + i] == CLAIMED);
          word[first + i] = TENANT
        };
        i++
     :: else -> break
     od;
     unmap_range();
     free_windows(first, count)
  :: else
  fi
}

active [TH] proctype thread() {
  byte first, count, got, i, turn, taken, seen_low, seen_frees;
  bool ok, again;
  {
    do
    :: turn < N -> turn++; count = 1 + turn % 2; live_there();
       atomic {
         first = 0; got = 0; i = 0; taken = 0; seen_low = 0; seen_frees = 0;
         ok = false; again = false
       }
    :: else -> break
    od;
    done++
  }
#ifdef STOP
  unless { stopping && _pid == 0 && done + stopped < TH -> stopped = 1 }
#endif
}

active proctype monitor() {
  byte k, lost;
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
  for (k : 0 .. WINDOWS - 1) {
    assert((word[k] == NONE || word[k] == TAKEN) == (owner[k] == 0));
    assert(stopped == 1 || word[k] != NONE || k >= low);
    assert(owner[k] == 0 || (stopped == 1 && owner[k] == 1));
    lost = lost + (owner[k] != 0)
  }
  assert(lost <= (stopped -> MOST : 0))
}
