/* anchor.pml - one slice: a slab that TH threads own, push to, let go of, publish, find, adopt,
 * empty and release; then another slab, or a large block
 *
 * Stands for, in src/slab/slab.c: slab_new slab_retire slab_release take_chain carve slab_let_go
 * and in src/slab/slab.c: slab_take_freed slab_take_fresh leave_full slab_push
 * and in src/slab/partial.c: slab_own clear take partial_publish partial_unpublish
 * and in src/slab/partial.c: slab_find_partial
 *
 * One step is one access to shared memory, with what the thread does meanwhile in memory that only
 * it may touch. The anchor is the state, the first block of the chain and its length, and is
 * compared as just that. The links between blocks are modelled, so a swap over a chain that changed
 * behind the same first block would be seen. TH threads, NB blocks, T the threshold, N operations
 * of each thread. An operation allocates a block (and may let go at once), frees one or two as one
 * chain, lets go, or has the slice as a large block. A slab has one of two classes, with a bit for
 * each, and another one when it is born again. Whoever reads what the slice is, to know the bit,
 * reads a class. In the end every block is freed and every slab let go of: then the slice is free
 * again. With STOP the first thread may stop for ever at any point, and the others still end. If it
 * had a chain in its hands, a slab that it does not own is still anybody's.
 *
 * quick: -DTH=3 -DNB=2 -DT=2 -DN=1
 * quick: -DTH=2 -DNB=3 -DT=2 -DN=2
 * quick: -DTH=2 -DNB=2 -DT=2 -DN=2 -DSTOP
 * cycle: -DTH=2 -DNB=2 -DT=2 -DN=1 -DSTOP
 * cycle-check: -DTH=3 -DNB=2 -DT=2 -DN=1 -DSTOP
 * check: -DTH=3 -DNB=2 -DT=1 -DN=1
 * check: -DTH=2 -DNB=3 -DT=2 -DN=3
 * check: -DTH=3 -DNB=2 -DT=2 -DN=2
 * check: -DTH=2 -DNB=2 -DT=1 -DN=4
 * check: -DTH=2 -DNB=3 -DT=2 -DN=4
 * check: -DTH=3 -DNB=2 -DT=2 -DN=1 -DSTOP
 * check: -DTH=3 -DNB=3 -DT=2 -DN=1
 */
#define NOBODY 255

mtype = { NONE, OWNED, FULL, PARTIAL, EMPTY };

#define CLASS 1                   /* or the next one */
#define LARGE 3
byte kind;                        /* what the slice is, as the descriptor says; 0: nothing */
mtype st = NONE;                  /* the anchor: state, first block of the chain, its length */
byte avail, count;
byte carved;                      /* the owner's, and in the anchor while nobody owns the slab */
byte owner = NOBODY, head, used;  /* the owner's: private list and blocks that are not on it */
byte next[NB + 1];                /* links inside the blocks; 0 ends a list */
bool bit_of[LARGE];               /* the bits in the partial map, by class */
bool claimed;                     /* the slice is taken */

byte hand[NB + 1];  /* ghost: the program holds the block, and nobody is freeing it yet */
byte out;           /* ghost: blocks that are allocated, or on their way back */
bool stopping; byte done, stopped;

/* The list from `first` on has `length` blocks, none of them the program's, and ends. */
inline check_list(first, length) {
  d_step {
    k = first; seen = 0;
    do
    :: k != 0 -> assert(seen < (length) && hand[k] == 0); seen++; k = next[k]
    :: else -> break
    od;
    assert(seen == (length)); k = 0; seen = 0
  }
}

inline read_anchor() { rs = st; ra = avail; rc = count; rk = carved }

/* Succeeds if the anchor still reads as it did; `blocks` of the chain are the program's no more. */
inline swap(to_state, to_avail, to_count, blocks) {
  if
  :: st == rs && avail == ra && count == rc && (rs == OWNED || carved == rk) ->
     st = to_state; avail = to_avail; count = to_count; out = out - (blocks); ok = true
  :: else -> ok = false
  fi
}

inline forget() { rs = 0; ra = 0; rc = 0; rk = 0; ok = false }

#define IN_PARTIAL (bit_of[CLASS] || bit_of[CLASS + 1])

inline read_class() { place = kind; assert(place == CLASS || place == CLASS + 1) }

inline clear_bit() { ok = bit_of[place]; bit_of[place] = false }

inline release() {                        /* slab_retire, then the slice */
  atomic {
    assert(out == 0 && used == 0 && !IN_PARTIAL);
    kind = 0; owner = NOBODY; head = 0; st = NONE; avail = 0; count = 0; carved = 0
  };
  atomic { assert(claimed); claimed = false }
}

inline own_it(who, list, length) {        /* slab_own */
  assert(owner == NOBODY && head == 0);
  owner = who; head = list; used = carved - (length);
  check_list(list, length)
}

/* take(s, NULL): `ok` if the slab was empty, and then it is this thread's. */
inline take_empty() {
  do
  :: atomic { read_anchor(); assert(rs == PARTIAL || rs == EMPTY) };
     atomic {
       if
       :: rs == PARTIAL -> ok = false; break
       :: else -> swap(OWNED, 0, 0, 0); if :: ok -> own_it(NOBODY, ra, rc); break :: else fi
       fi
     }
  od
}

inline take_any() {                       /* take(s, heap) */
  do
  :: atomic { read_anchor(); assert(rs == PARTIAL || rs == EMPTY) };
     atomic { swap(OWNED, 0, 0, 0); if :: ok -> own_it(_pid, ra, rc); forget(); break :: else fi }
  od
}

inline publish() {                        /* the anchor has just become PARTIAL */
  atomic { read_class() };
  do
  :: atomic { assert(!IN_PARTIAL); bit_of[place] = true };
     if
     :: st != EMPTY -> break
     :: else ->
        atomic { clear_bit() };
        if
        :: !ok -> break
        :: else -> take_empty(); if :: ok -> release(); break :: else fi
        fi
     fi
  od;
  place = 0
}

inline unpublish() {                      /* the anchor has just become EMPTY; `place` is known */
  atomic { clear_bit() };
  if
  :: ok -> take_empty(); if :: ok -> release() :: else -> publish() fi
  :: else
  fi;
  place = 0
}

inline let_go() {
  atomic {
    fr = carved - used; first = head; last = head;
    do :: last != 0 && next[last] != 0 -> last = next[last] :: else -> break od;
    check_list(first, fr);
    owner = NOBODY; head = 0; used = carved
  };
  do
  :: atomic {
       read_anchor(); assert(rs == OWNED);
       n = fr + rc;
       if :: fr != 0 -> next[last] = ra :: else -> first = ra fi
     };
     if
     :: n == carved -> used = 0; release(); break
     :: n != carved && carved == NB && n < T ->
        atomic { swap(FULL, first, n, 0); if :: ok -> break :: else fi }
     :: else -> atomic { swap(PARTIAL, first, n, 0) }; if :: ok -> publish(); break :: else fi
     fi
  od;
  atomic { fr = 0; first = 0; last = 0; n = 0; forget() }
}

/* slab_push of the chain from `first` to `last`, n blocks; whether this heap would
 * adopt is anybody's guess. */
inline push() {
  do
  :: atomic { read_anchor(); next[last] = ra; n = n + rc; assert(rs != NONE && rs != EMPTY) };
     if
     :: rs == OWNED -> atomic { swap(OWNED, first, n, n - rc) }; if :: ok -> break :: else fi
     :: rs == FULL && n < T && n < rk ->
        atomic { swap(FULL, first, n, n - rc) };
        if :: ok -> break :: else fi
     :: rs == FULL && n == rk ->
        atomic { swap(OWNED, 0, 0, n - rc); if :: ok -> own_it(NOBODY, first, n) :: else fi };
        if :: ok -> release(); break :: else fi
     :: rs == FULL && n < rk ->  /* the threshold is reached, or many come back together */
        atomic { swap(OWNED, 0, 0, n - rc); if :: ok -> own_it(_pid, first, n); break :: else fi }
     :: rs == FULL && n >= T && n < rk ->
        atomic { swap(PARTIAL, first, n, n - rc) };
        if :: ok -> publish(); break :: else fi
     :: rs == PARTIAL && n < rk ->
        atomic { swap(PARTIAL, first, n, n - rc) };
        if :: ok -> break :: else fi
     :: rs == PARTIAL && n >= rk ->
        assert(n == rk);
        atomic { read_class() };
        atomic { swap(EMPTY, first, n, n - rc) }; if :: ok -> unpublish(); break :: else fi
     fi;
     n = n - rc
  od;
  atomic { first = 0; last = 0; n = 0; forget() }
}

inline give(b) { assert(hand[b] == 0); hand[b] = 1; next[b] = 0; out++ }

/* The owner's next block, or letting go. */
inline take_block() {
  if
  :: head != 0 -> atomic { n = head; head = next[n]; used++; give(n); n = 0 }
  :: else ->
     do
     :: atomic { read_anchor(); assert(rs == OWNED) };
        if
        :: rc != 0 ->
           atomic {
             swap(OWNED, 0, 0, 0);
             if :: ok -> head = ra; used = used - rc; check_list(ra, rc); forget(); break
                :: else
             fi
           }
        :: rc == 0 && carved < NB -> atomic { carved++; used++; give(carved); forget(); break }
        :: else -> let_go(); break
        fi
     od
  fi
}

inline claim() {
  !claimed -> claimed = true; assert(kind == 0 && st == NONE && owner == NOBODY && out == 0)
}

inline use_as_large() {
  atomic { claim(); kind = LARGE };
  atomic { assert(kind == LARGE && st == NONE); kind = 0 };
  claimed = false
}

/* A partial slab, or the slice afresh. */
inline find() {
  if
  :: atomic { bit_of[CLASS] -> bit_of[CLASS] = false }; take_any()
  :: atomic { bit_of[CLASS + 1] -> bit_of[CLASS + 1] = false }; take_any()
  :: atomic {
       claim();
       head = 0; used = 0; carved = 0; owner = _pid; st = OWNED; kind = CLASS + _pid % 2
     }
  :: skip
  fi
}

inline pick(b) { atomic { hand[b] == 1 -> hand[b] = 0; first = b; last = b; n = 1 } }
inline pick_two(b, c) {
  atomic {
    hand[b] == 1 && hand[c] == 1 -> hand[b] = 0; hand[c] = 0;
    next[b] = c; first = b; last = c; n = 2
  }
}

inline free_chain() {
  if
  :: atomic {
       owner == _pid -> next[last] = head; head = first; used = used - n; out = out - n;
       first = 0; last = 0; n = 0
     }
  :: owner != _pid -> push()
  fi
}

inline free_some() {
  if
  :: pick(1)
  :: pick(2)
  :: pick_two(2, 1)
#if NB > 2
  :: pick(3)
  :: pick_two(2, 3)
#endif
  fi;
  free_chain()
}

#if NB > 2
#define NONE_IN_HAND (hand[1] == 0 && hand[2] == 0 && hand[3] == 0)
#else
#define NONE_IN_HAND (hand[1] == 0 && hand[2] == 0)
#endif

inline operate() {
  if
  :: owner == _pid -> take_block()
  :: owner == _pid -> let_go()
  :: owner != _pid -> find(); if :: owner == _pid -> take_block() :: else fi
  :: owner != _pid ->
     find();
     if :: owner == _pid -> take_block(); if :: owner == _pid -> let_go() :: else fi
        :: else
     fi
  :: !NONE_IN_HAND -> if :: free_some() :: skip fi
  :: use_as_large()
  fi
}

/* Frees what is left and lets go. */
inline drain() {
  do
  :: free_some()
  :: owner == _pid -> let_go()
  :: owner != _pid && NONE_IN_HAND -> break
  od
}

active [TH] proctype thread() {
  mtype rs;
  byte ra, rc, rk, first, last, n, fr, k, seen, turn, place;
  bool ok;
  {
    do
    :: turn < N -> turn++; operate()
    :: else -> break
    od;
    drain();
    done++
  }
#ifdef STOP
  unless { stopping && _pid == 0 && done + stopped < TH -> stopped = 1 }
#endif
}

active proctype monitor() {
  byte k, hands;
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
  assert(stopped == 1 || (out == 0 && st == NONE && owner == NOBODY && !claimed && !IN_PARTIAL));
  for (k : 1 .. NB) { hands = hands + hand[k] }
  assert(out == hands || owner == 0 ||
         (owner == NOBODY && (st == FULL || (st == PARTIAL && IN_PARTIAL))))
}
