/* holes.pml - one slab that nobody owns, while threads give its free pages back, find it and free
 * the last of it
 *
 * Stands for, in src/slab/holes.c: slab_fill_holes make_holes slab_make_holes
 * and in src/slab/sparse.c: look_at_slice give_back_pages
 * and in src/slab/slab.c: slab_let_go slab_push
 * and in src/slab/partial.c: slab_own take partial_claim partial_publish partial_unpublish
 * and in src/slab/partial.c: slab_find_partial
 *
 * Each block is a page. The anchor is state, count and carved; the chain behind it is the set of
 * blocks that are `listed`. A thread of the program frees the blocks that it holds, one at a time;
 * one collects twice; one finds the slab, takes a block and lets go of it. Whoever swaps a word
 * compares all of it. In the end no block is held, and the slab was released just once. With STOP
 * the collector may stop for ever at any point: then the slab is its own or anybody's, and no block
 * is lost to those who hold one.
 *
 * quick: -DNB=3 -DHELD=2
 * quick: -DNB=3 -DHELD=2 -DSTOP
 * check: -DNB=4 -DHELD=3
 * check: -DNB=4 -DHELD=3 -DSTOP
 */
mtype = { NONE, OWNED, PARTIAL, EMPTY };
mtype st = PARTIAL;
byte count = NB - HELD, carved = NB;          /* in the anchor */
bool in_map = true;
/* of each block: the program's, on the anchor's chain, on the private list, on a hole; or on its
 * way back */
mtype = { LIVE, CHAINED, LISTED, SUNK, PUSHED };
mtype is[NB];
byte owner = 255, used, released;
bool stopped, stopping; byte done;

#define HOLED 254
#define NUMBER(what, n) n = 0; for (i : 0 .. NB - 1) { if :: is[i] == what -> n++ :: else fi }

inline release_it() {
  atomic {
    NUMBER(LIVE, k); assert(k == 0);
    NUMBER(PUSHED, k); assert(k == 0);
    assert(st == OWNED && !in_map);
    st = NONE; owner = 255; released++; k = 0; i = 0
  }
}

inline own_it(who) {                          /* the swap to OWNED has just succeeded */
  assert(owner == 255 || owner == HOLED);
  owner = who; k = 0;
  for (i : 0 .. NB - 1) {
    if
    :: is[i] == CHAINED -> is[i] = LISTED; k++
    :: is[i] == SUNK && who != HOLED && who != 255 -> is[i] = LISTED
    :: else
    fi
  };
  assert(k == rc); used = rk - rc; k = 0; i = 0
}

inline read_anchor() { rs = st; rc = count; rk = carved }
inline swap(to_state, to_count, to_carved) {
  if
  :: st == rs && count == rc && carved == rk -> st = to_state; count = to_count;
     carved = to_carved; ok = true
  :: else -> ok = false
  fi
}

inline take(who) {
  do
  :: atomic { read_anchor(); assert(rs == PARTIAL || rs == EMPTY) };
     if
     :: who == 255 && rs == PARTIAL -> ok = false; break
     :: else ->
        atomic { swap(OWNED, 0, 0); if :: ok -> own_it(who) :: else fi };
        if :: ok -> break :: else fi
     fi
  od
}

inline publish() {
  do
  :: atomic { assert(!in_map); in_map = true };
     if :: st != EMPTY -> break :: else fi;
     atomic { ok = in_map; in_map = false };
     if :: !ok -> break :: else fi;
     take(255);
     if :: ok -> release_it(); break :: else fi
  od
}

inline let_go() {
  atomic { NUMBER(LISTED, fr); NUMBER(SUNK, sunk); assert(used + fr + sunk == NB); i = 0 };
  do
  :: atomic { read_anchor(); assert(rs == OWNED) };
     if
     :: fr + rc == NB - sunk -> release_it(); break
     :: else ->
        atomic {
          swap(PARTIAL, fr + rc, NB - sunk);
          if
          :: ok ->
             for (i : 0 .. NB - 1) { if :: is[i] == LISTED -> is[i] = CHAINED :: else fi };
             owner = (sunk != 0 -> HOLED : 255); i = 0
          :: else
          fi
        };
        if :: ok -> publish(); break :: else fi
     fi
  od
}

inline push(b) {                              /* slab_push of one block */
  do
  :: atomic { read_anchor(); assert(rs == PARTIAL || rs == OWNED) };
     if
     :: rs == PARTIAL && rc + 1 == rk ->
        atomic { swap(EMPTY, rc + 1, rk); if :: ok -> is[b] = CHAINED :: else fi };
        if :: ok ->
           atomic { ok = in_map; in_map = false };
           if :: ok -> take(255); if :: ok -> release_it() :: else -> publish() fi :: else fi;
           break
        :: else
        fi
     :: else ->
        assert(rs == OWNED || rc + 1 < rk);
        atomic { swap(rs, rc + 1, rk); if :: ok -> is[b] = CHAINED :: else fi };
        if :: ok -> break :: else fi
     fi
  od
}

proctype program() {
  mtype rs; byte rc, rk, b, i, k; bool ok;
  do
  :: b < HELD -> atomic { assert(is[b] == LIVE); is[b] = PUSHED }; push(b); b++
  :: else -> break
  od;
  done++
}

/* Whose bit it is, makes holes of some free blocks and lets go. */
proctype collector() {
  mtype rs; byte rc, rk, i, k, fr, sunk, turn; bool ok;
  {
    do
    :: turn < 2 ->
       turn++;
       atomic { ok = in_map; in_map = false };
       if
       :: ok ->
          take(HOLED);
          if
          :: rs == EMPTY -> release_it()
          :: else ->
             i = 0;
             do
             :: i < NB && is[i] == LISTED ->  /* the system takes it back, or not */
                if :: is[i] = SUNK :: skip fi; i++
             :: i < NB && is[i] != LISTED -> i++
             :: i == NB -> break
             od;
             let_go()
          fi
       :: else
       fi
    :: else -> break
    od;
    done++
  }
#ifdef STOP
  unless { stopping && done < 2 -> stopped = true }
#endif
}

proctype finder() {
  mtype rs; byte rc, rk, i, k, b, fr, sunk; bool ok, has;
  atomic { ok = in_map; in_map = false };
  if
  :: ok ->
     take(1);
     atomic {                                 /* a block for the program, which gives it back */
       NUMBER(SUNK, k); assert(k == 0);
       b = 0;
       do :: b < NB && is[b] != LISTED -> b++ :: else -> break od;
       has = b < NB;
       if :: has -> is[b] = LIVE; used++ :: else fi; i = 0; k = 0
     };
     let_go();
     if :: has -> is[b] = PUSHED; push(b) :: else fi
  :: else
  fi;
  done++
}

init {
  byte i;
  atomic {
    for (i : 0 .. NB - 1) { if :: i < HELD -> is[i] = LIVE :: else -> is[i] = CHAINED fi };
    run program(); run collector(); run finder()
  };
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped == 3);
  assert(stopped || (released == 1 && st == NONE && !in_map));
  assert(released <= 1)
}
