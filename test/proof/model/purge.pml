/* purge.pml - slices of one word that threads claim, write to and release while others discard what
 * is dirty
 *
 * Stands for, in src/arena/purge.c: purge_word purge_group has_dirty arena_release
 * and in src/arena/slices.c: slices_note_dirty arena_put_back slices_give_back note_dirty
 * and in src/arena/slices.c: slices_claim_at retreat
 * and in src/arena/slices.c: slices_take_bits
 * and in src/arena/arena.c: take_over_part take_over leave_dirty_part put_free
 * and in src/arena/arena.c: put_dirty arena_release_clean
 * and in src/arena/grow.c: unmap_group
 *
 * BITS slices. The dirty bits and the count of them change apart from the free bits. What a claimer
 * finds clean reads as zero (A3), and what it holds is never discarded under it. A dirty bit
 * changes only while the slice is claimed (A1). In the end all slices are free and the count is the
 * number of dirty bits; one of a slice in use does not count. A discard may fail: what is left
 * stays dirty. A thread may also claim free slices for a moment and put them back as they are: a
 * claim of more that retreats, or an unmapping that is refused. In the end the hint says of free
 * dirty slices that there are some. With STOP the first thread may stop for ever at any point, and
 * the others still end. What it had claimed is all that is missing; what it had just put back, or
 * looked for, may be without a hint.
 *
 * quick: -DTH=3 -DBITS=2 -DN=1
 * quick: -DTH=2 -DBITS=2 -DN=2 -DSTOP
 * cycle: -DTH=2 -DBITS=2 -DN=1 -DSTOP
 * check: -DTH=3 -DBITS=2 -DN=1 -DSTOP
 * cycle-check: -DTH=3 -DBITS=2 -DN=1 -DSTOP
 * check: -DTH=2 -DBITS=3 -DN=3
 * check: -DTH=3 -DBITS=1 -DN=2
 */
#define ALL ((1 << BITS) - 1)

byte free = ALL, dirty = 1;               /* one slice was written to and given back before */
short count = 1;                          /* arena_counts.dirty */
bool hint = true;                         /* dirty_groups */
byte content = 1;                         /* ghost: slices that do not read as zero */
byte held[BITS];                          /* ghost */
byte mine[TH];                            /* what a thread has claimed */
bool stopping; byte done, stopped;

inline claim_slice() {
  mine[_pid] = 0;
  w = free;
  do
  :: w == 0 -> break
  :: else -> atomic {
       if :: free == w -> mine[_pid] = w & ~(w - 1); free = w & (w - 1); w = 0
          :: else -> w = free
       fi
     }
  od
}

inline hold(who) {
  k = 0;
  do
  :: k < BITS ->
     if :: (mine[_pid] >> k) & 1 -> assert(held[k] == 0 || (who) == 0); held[k] = who
        :: else
     fi;
     k++
  :: else -> break
  od;
  k = 0
}

inline put_back() {
  atomic { hold(0) };
  atomic { assert((free & mine[_pid]) == 0); free = free | mine[_pid] };
  w = dirty;
  if
  :: (w & free) != 0 -> if :: hint :: !hint -> hint = true fi
  :: else
  fi
}

inline hold_for_a_moment() {
  atomic { mine[_pid] = free; free = 0; hold(_pid + 1) };
  if :: mine[_pid] != 0 -> put_back() :: else fi;
  atomic { mine[_pid] = 0; w = 0 }
}

inline use_slice() {
  claim_slice();
  if
  :: mine[_pid] != 0 ->
     atomic { hold(_pid + 1); w = dirty & mine[_pid] };  /* take_over */
     if
     :: w != 0 -> assert((dirty & w) == w); count = count - 1
     :: else -> assert((content & mine[_pid]) == 0)      /* A3 */
     fi;
     if
     :: atomic { content = content | mine[_pid] };       /* written to, released as dirty */
        assert((content & mine[_pid]) == mine[_pid]);
        atomic { assert((dirty & mine[_pid]) == w); dirty = dirty | mine[_pid] };
        count = count + 1
     :: atomic { content = content & ~mine[_pid] };      /* mapped anew: arena_release_clean */
        atomic { assert((dirty & mine[_pid]) == w); dirty = dirty & ~mine[_pid] }
     fi;
     put_back()
  :: else
  fi;
  atomic { mine[_pid] = 0; w = 0 }
}

inline purge_word() {
  w = dirty;
  if
  :: (w & free) == 0 -> skip
  :: else ->
     atomic { mine[_pid] = free & w; free = free & ~w; hold(_pid + 1) };
     w = dirty & mine[_pid];  /* they are ours, so they stay */
     do
     :: w == 0 -> break
     :: w != 0 ->
        if
        :: atomic { range = w & ~(w - 1); assert(dirty & range); content = content & ~range };
           atomic { dirty = dirty & ~range; w = w & ~range; purged++ }
        :: break              /* refused: the rest stays dirty */
        fi
     od;
     count = count - purged;
     if :: mine[_pid] != 0 -> put_back() :: else fi
  fi;
  atomic { mine[_pid] = 0; w = 0; range = 0; purged = 0 }
}

inline has_dirty() { w = free; w = w & dirty }

inline purge_group() {
  if
  :: !hint
  :: hint ->
     purge_word();
     has_dirty();
     if
     :: w != 0
     :: else ->
        hint = false;
        has_dirty();
        if :: w != 0 -> hint = true :: else fi
     fi;
     w = 0
  fi
}

active [TH] proctype thread() {
  byte w, k, turn, range, purged;
  {
    do
    :: turn < N -> turn++; if :: use_slice() :: purge_group() :: hold_for_a_moment() fi
    :: else -> break
    od;
    done++
  }
#ifdef STOP
  unless { stopping && _pid == 0 && done + stopped < TH -> stopped = 1 }
#endif
}

active proctype monitor() {
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
  assert((content & free & ~dirty) == 0);
  assert(hint || stopped == 1 || (free & dirty) == 0);
  assert((free | mine[0]) == ALL && (stopped == 1 || free == ALL));
  assert(stopped == 1 || (count == (dirty & 1) + ((dirty >> 1) & 1) + ((dirty >> 2) & 1)))
}
