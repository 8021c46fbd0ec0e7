/* windows.pml - runs of windows of the address space that threads claim, map, hand to a tenant and
 * give back
 *
 * Stands for, in src/arena/map.c: map_free map_set claim map_new
 *
 * WINDOWS windows, each NONE, CLAIMED or a tenant's. A thread wants two adjacent ones, then one,
 * and so on, from where the hint says; it gives a part of a run back where the next window is
 * taken, and the whole if the system's mapping fails or something else lies there. Only the
 * claimer changes a word (W1); no two threads map one window; in the end all are NONE. With STOP
 * the first thread may stop for ever at any point, and the others still end; what is missing then
 * is the one run that it had.
 *
 * quick: -DTH=2 -DWINDOWS=3 -DN=1
 * quick: -DTH=2 -DWINDOWS=3 -DN=1 -DSTOP
 * cycle: -DTH=2 -DWINDOWS=3 -DN=1 -DSTOP
 * check: -DTH=2 -DWINDOWS=3 -DN=2
 * check: -DTH=3 -DWINDOWS=3 -DN=1
 */
#define MOST 2

mtype = { NONE, CLAIMED, TENANT };

mtype word[WINDOWS] = NONE;
byte next;                                /* the hint */
byte owner[WINDOWS];                      /* ghost: who moved it off NONE; 0: nobody */
bool mapped[WINDOWS];                     /* ghost */
bool stopping; byte done, stopped;

/* map_free: the first `n` windows of the run. */
inline free_windows(n) {
  i = 0;
  do
  :: i < n ->
     atomic {
       assert(owner[first + i] == _pid + 1 && !mapped[first + i]);
       owner[first + i] = 0; word[first + i] = NONE
     };
     i++
  :: else -> break
  od;
  if :: first < next -> next = first :: else fi
}

/* `got`: how many from `first` on were free; all of `count` are claimed, or none. */
inline claim() {
  got = 0;
  do
  :: got == count -> break
  :: else ->
     atomic {
       if
       :: word[first + got] == NONE -> assert(owner[first + got] == 0);
          word[first + got] = CLAIMED; owner[first + got] = _pid + 1; ok = true
       :: else -> ok = false
       fi
     };
     if
     :: ok -> got++
     :: else -> if :: got > 0 -> free_windows(got) :: else fi; break
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

/* `ok`: the run from `first` on is mapped. */
inline new_windows() {
  first = next; ok = false;
  do
  :: first + count > WINDOWS -> ok = false; break
  :: else ->
     claim();
     if
     :: got < count -> first = first + got + 1
     :: else ->
        if
        :: map_range(); next = first + count; ok = true; break
        :: free_windows(count); first = first + count              /* something lies there */
        :: free_windows(count); ok = false; break                  /* no memory */
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
     free_windows(count)
  :: else
  fi
}

active [TH] proctype thread() {
  byte first, count, got, i, turn;
  bool ok;
  {
    do
    :: turn < N -> turn++; count = 1 + turn % 2; live_there();
       atomic { first = 0; got = 0; i = 0; ok = false }
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
    assert((word[k] == NONE) == (owner[k] == 0));
    assert(owner[k] == 0 || (stopped == 1 && owner[k] == 1));
    lost = lost + (owner[k] != 0)
  }
  assert(lost <= (stopped -> MOST : 0))
}
