/* places.pml - numbered places in chunks that threads add when all places are taken
 *
 * Stands for, in src/arena/places.c: put_chunk add_chunk places_claim places_release
 *
 * Chunks of two places, CHUNKS of them at most. A mmap may fail; a map that finds no row goes
 * back. Nobody has a place together with another (M1), and a claimed place lies in a chunk whose
 * address can be seen (S-chunk). In the end every place of every chunk is free. With STOP the first
 * thread may stop for ever at any point, and the others still end: then one place is missing at
 * most, or one chunk.
 *
 * quick: -DTH=3 -DN=1
 * quick: -DTH=2 -DN=2 -DSTOP
 * cycle: -DTH=2 -DN=1 -DSTOP
 * check: -DTH=3 -DN=2
 * check: -DTH=3 -DN=1 -DSTOP
 */
#define NONE 255
#ifndef CHUNKS
#define CHUNKS 3
#endif

bool chunk[CHUNKS];                       /* the row has an address */
byte free[CHUNKS];                        /* two bits each */
byte chunk_count;
byte held[2 * CHUNKS];                    /* ghost */
byte maps;                                /* ghost: chunks that are mapped */
bool stopping; byte done, stopped;

/* bitmap_claim_one over the rows below the count as it was read. */
inline claim_one() {
  end = chunk_count; i = 0;
  do
  :: i < end ->
     r = free[i];
     do
     :: r == 0 -> break
     :: else ->
        atomic {
          if
          :: free[i] == r -> free[i] = r & (r - 1); found = 2 * i + (1 - (r & 1)); r = 0
          :: else -> r = free[i]
          fi
        }
     od;
     if :: found != NONE -> break :: else -> i++ fi
  :: else -> break
  od
}

inline put_chunk(from, to) {  /* `ok`: it found a row, whose first place is this thread's */
  ok = false; i = from;
  do
  :: i < to ->
     atomic { if :: !chunk[i] -> chunk[i] = true; ok = true :: else fi };
     if
     :: ok ->
        r = chunk_count;
        do
        :: r <= i -> atomic {
             if :: chunk_count == r -> chunk_count = i + 1; r = NONE
                :: else -> r = chunk_count
             fi
           }
        :: else -> break
        od;
        free[i] = free[i] | 2;
        found = 2 * i;
        break
     :: else -> i++
     fi
  :: else -> break
  od
}

inline add_chunk() {
  end = chunk_count;
  if
  :: end == 0 -> put_chunk(0, 1)          /* memory of its own for the first chunk */
  :: else -> ok = false
  fi;
  if
  :: !ok ->
     if
     :: maps++; put_chunk(end, CHUNKS); if :: !ok -> maps-- :: else fi
     :: skip                              /* no memory */
     fi
  :: else -> maps++
  fi
}

inline operate() {
  found = NONE;
  claim_one();
  if :: found == NONE -> add_chunk() :: else fi;
  if
  :: found != NONE ->
     atomic { assert(held[found] == 0 && chunk[found / 2]); held[found] = _pid + 1 };
     atomic { assert(held[found] == _pid + 1); held[found] = 0 };
     atomic { assert((free[found / 2] & (1 << (found % 2))) == 0);
              free[found / 2] = free[found / 2] | (1 << (found % 2)) }
  :: else
  fi;
  atomic { found = 0; i = 0; r = 0; end = 0; ok = false }
}

active [TH] proctype thread() {
  byte found, i, r, end, turn;
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
  byte k, rows, missing;
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
  for (k : 0 .. CHUNKS - 1) {
    assert(chunk[k] || free[k] == 0);
    rows = rows + chunk[k];
    missing = missing + (chunk[k] && free[k] != 3)
  }
  assert(missing + (maps > rows) <= stopped);
  assert(stopped == 1 || (maps == rows && (rows == 0 || chunk_count >= rows)))
}
