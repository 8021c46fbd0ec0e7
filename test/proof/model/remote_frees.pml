/* remote_frees.pml - frees of foreign blocks that heaps put off, gather and publish, and threads
 * that end meanwhile
 *
 * Stands for, in src/stock/outbox.c: outbox_push publish outbox_put
 * and in src/stock/outbox.c: outbox_publish_due outbox_flush
 * and in src/heap/free.c: put_back free_unchained heap_free_others
 * and in src/heap/fast.h: fast_put_back
 * and in src/stock/shrink.c: flush_list flush_fresh flush_bin heap_flush_bins heap_give_up_all
 * and in src/stock/owned.c: owned_add owned_let_go
 * and in src/heap/refill.c: borrow_medium take_fresh borrow find_list refill
 * and in src/stock/returned.c: returned_take
 * and in src/stock/magazine.c: magazine_put_slab
 *
 * Two slabs of NB blocks, T the threshold, TH threads with a heap each; what the anchor does in one
 * swap is one step here (anchor.pml has its steps). A heap holds blocks of others' slabs
 * chained in its one batch; and the slabs that it owns. It also holds its bin, and ROOM freed
 * blocks at most of slabs that nobody owned, which its next bin is made of. A slice may
 * have another class in its next life, or be a large block; a block's holder reads its class. A
 * thread allocates or frees N times and ends: then its heap is empty, for the next thread. At every
 * moment each block of a live slab is in one place; in the end both slices are free. With STOP the
 * first thread may stop for ever at any point, and the others still end. What is missing then is
 * one chain or slab that it had in its hands, and what its heap held.
 *
 * quick: -DTH=2 -DNB=2 -DT=1 -DN=2
 * quick: -DTH=2 -DNB=2 -DT=1 -DN=1 -DSTOP
 * cycle: -DTH=2 -DNB=2 -DT=1 -DN=1 -DSTOP
 * check: -DTH=2 -DNB=3 -DT=2 -DN=3
 * check: -DTH=2 -DNB=2 -DT=1 -DN=3
 * check: -DTH=2 -DNB=2 -DT=1 -DN=2 -DSTOP
 * check: -DTH=3 -DNB=2 -DT=1 -DN=1
 */
#define SLABS 2
#define NOBODY 255
#define ROOM 1
#define CLASS 1                           /* or the next one */
#define LARGE 3

mtype = { NONE, OWNED, FULL, PARTIAL };

mtype st[SLABS] = NONE;
byte owner[SLABS] = NOBODY;
byte kind[SLABS];                         /* 0: none; a class, another in another life; LARGE */
byte list[SLABS], chain[SLABS];           /* free blocks: on the owner's list, in the anchor */

/* What thread t has of slab s stands at [t * SLABS + s]. */
byte hand[TH * SLABS];                    /* ghost: the program's */
byte freed[TH * SLABS];                   /* a block that is being freed: of the one call */
byte batch[TH * SLABS], bin[TH * SLABS], returned[TH * SLABS];
byte flying[TH * SLABS];                  /* a chain that is on its way */
bool stopping; byte done, stopped;

#define MINE(what, s) what[_pid * SLABS + (s)]
#define BOTH(what) (MINE(what, 0) + MINE(what, 1))

/* Whoever has a block of the slab in its hands reads the class of it. */
#define READ_CLASS(s) assert(kind[s] != 0 && kind[s] != LARGE)

/* A slab whose blocks are all free, in the hands of this thread alone. */
inline release(s) {
  assert(list[s] + chain[s] == NB);
  st[s] = NONE; kind[s] = 0; owner[s] = NOBODY; list[s] = 0; chain[s] = 0
}

/* outbox_push of what flies; whether the heap wants the slab is anybody's guess. */
inline push(s) {
  READ_CLASS(s);
  if
  :: atomic {
       st[s] != FULL || chain[s] + MINE(flying, s) < T ->
       assert(st[s] != NONE && MINE(flying, s) > 0);
       chain[s] = chain[s] + MINE(flying, s); MINE(flying, s) = 0;
       if :: st[s] == PARTIAL && chain[s] == NB -> release(s) :: else fi
     }
  :: atomic {
       st[s] == FULL && chain[s] + MINE(flying, s) >= T ->
       chain[s] = chain[s] + MINE(flying, s); MINE(flying, s) = 0;
       if
       :: chain[s] == NB -> release(s)
       :: chain[s] < NB -> st[s] = OWNED; owner[s] = _pid; list[s] = chain[s]; chain[s] = 0
       :: chain[s] < NB -> st[s] = PARTIAL
       fi
     }
  fi
}

inline let_go(s) {
  atomic {
    assert(st[s] == OWNED && owner[s] == _pid);
    chain[s] = chain[s] + list[s]; list[s] = 0; owner[s] = NOBODY;
    if
    :: chain[s] == NB -> release(s)
    :: chain[s] < T -> st[s] = FULL
    :: else -> st[s] = PARTIAL
    fi
  }
}

/* A chain in the hands of the thread goes to the slab's anchor; the heap has not come to own the
 * slab since. */
inline publish(s) {
  atomic { MINE(flying, s) = MINE(batch, s); MINE(batch, s) = 0; assert(owner[s] != _pid) };
  push(s)
}

/* One batch slot: a chain of the other slab gives way. */
inline make_room(s) {
  if
  :: MINE(batch, 1 - s) > 0 -> publish(1 - s)
  :: else
  fi
}
#define GATHER(what, s)                                           \
  make_room(s);                                                   \
  atomic { MINE(what, s)--; MINE(batch, s)++ };                   \
  READ_CLASS(s);                                                  \
  if :: publish(s) :: skip fi /* it is due, or it waits */

#define GIVE_BACK(what, s)                                        \
  if                                                              \
  :: atomic { owner[s] == _pid -> MINE(what, s)--; list[s]++ }    \
  :: owner[s] != _pid -> GATHER(what, s)                          \
  fi

#define FLUSH_LIST(what)                                          \
  do                                                              \
  :: MINE(what, 0) > 0 -> GIVE_BACK(what, 0)                      \
  :: MINE(what, 1) > 0 -> GIVE_BACK(what, 1)                      \
  :: BOTH(what) == 0 -> break                                     \
  od

inline flush_shared() {
  if :: MINE(batch, 0) > 0 -> publish(0) :: else fi;
  if :: MINE(batch, 1) > 0 -> publish(1) :: else fi
}

/* Takes what the slab has into the bin; what others freed if its list is empty. */
inline take_list(s) {
  atomic {
    assert(BOTH(bin) == 0);
    if
    :: list[s] > 0 -> MINE(bin, s) = list[s]; list[s] = 0
    :: else -> MINE(bin, s) = chain[s]; chain[s] = 0
    fi
  }
}

/* What was returned; an owned slab, a partial one, or a free slice; it is kept, or borrowed
 * from. A wide outbox is not modelled: it keeps chains here, but its thread is alone. */
inline refill() {
  flush_shared();
  if
  :: atomic { BOTH(returned) > 0 ->
              MINE(bin, 0) = MINE(returned, 0); MINE(bin, 1) = MINE(returned, 1);
                                    MINE(returned, 0) = 0; MINE(returned, 1) = 0 }
  :: owner[0] == _pid && list[0] + chain[0] > 0 -> take_list(0)
  :: owner[1] == _pid && list[1] + chain[1] > 0 -> take_list(1)
  :: else ->
     pick = NOBODY;
     if
     :: atomic { st[0] == PARTIAL || kind[0] == 0 -> pick = 0 }
     :: atomic { st[1] == PARTIAL || kind[1] == 0 -> pick = 1 }
     :: skip
     fi;
     if
     :: pick != NOBODY ->
        atomic {
          if
          :: st[pick] == PARTIAL -> st[pick] = OWNED; owner[pick] = _pid; list[pick] = chain[pick];
             chain[pick] = 0
          :: st[pick] == NONE && kind[pick] == 0 ->
             st[pick] = OWNED; owner[pick] = _pid; list[pick] = NB; kind[pick] = CLASS + _pid % 2
          :: else -> pick = NOBODY                     /* another was quicker */
          fi
        };
        if
        :: pick != NOBODY -> take_list(pick); if :: let_go(pick) :: skip fi
        :: else
        fi
     :: else
     fi
  fi;
  pick = 0
}

inline allocate() {
  if :: BOTH(bin) == 0 -> refill() :: else fi;
  atomic {
    if
    :: MINE(bin, 0) > 0 -> MINE(bin, 0)--; MINE(hand, 0)++
    :: MINE(bin, 1) > 0 -> MINE(bin, 1)--; MINE(hand, 1)++
    :: else
    fi
  }
}

/* The program frees a block that this thread or another one was given. */
inline free_one(from, s) {
  if
  :: atomic { hand[(from) * SLABS + (s)] > 0 && owner[s] == _pid ->
              hand[(from) * SLABS + (s)]--; list[s]++ }
  :: atomic { hand[(from) * SLABS + (s)] > 0 && owner[s] == NOBODY && BOTH(returned) < ROOM ->
              READ_CLASS(s); hand[(from) * SLABS + (s)]--; MINE(returned, s)++ }
  :: atomic { hand[(from) * SLABS + (s)] > 0 && owner[s] != _pid && MINE(batch, s) > 0 &&
              (owner[s] != NOBODY || BOTH(returned) == ROOM) ->
              hand[(from) * SLABS + (s)]--; MINE(batch, s)++ };
     if :: publish(s) :: skip fi                        /* it is due, or it waits */
  :: atomic { hand[(from) * SLABS + (s)] > 0 && owner[s] != _pid && MINE(batch, s) == 0 &&
              (owner[s] != NOBODY || BOTH(returned) == ROOM) ->
              hand[(from) * SLABS + (s)]--; MINE(freed, s)++ };
     GIVE_BACK(freed, s);
     if :: flush_shared() :: skip fi                    /* more chains wait than are due */
  fi
}

inline use_as_large(s) {
  atomic { kind[s] == 0 -> assert(st[s] == NONE && owner[s] == NOBODY); kind[s] = LARGE };
  atomic { assert(kind[s] == LARGE && st[s] == NONE); kind[s] = 0 }
}

inline free_any() {
  if
  :: hand[0] > 0 -> if :: free_one(0, 0) :: skip fi
  :: hand[1] > 0 -> if :: free_one(0, 1) :: skip fi
  :: hand[2] > 0 -> if :: free_one(1, 0) :: skip fi
  :: hand[3] > 0 -> if :: free_one(1, 1) :: skip fi
#if TH > 2
  :: hand[4] > 0 -> if :: free_one(2, 0) :: skip fi
  :: hand[5] > 0 -> if :: free_one(2, 1) :: skip fi
#endif
  fi
}

inline leave() {                          /* heap_give_up_all */
  FLUSH_LIST(bin);
  FLUSH_LIST(returned);
  flush_shared();
  if :: owner[0] == _pid -> let_go(0) :: else fi;
  if :: owner[1] == _pid -> let_go(1) :: else fi;
  assert(BOTH(freed) + BOTH(batch) + BOTH(bin) + BOTH(returned) + BOTH(flying) == 0 &&
         owner[0] != _pid && owner[1] != _pid)
}

active [TH] proctype thread() {
  byte pick, turn;
  {
    do
    :: turn < N -> turn++; allocate()
    :: turn < N && MINE(hand, 0) + MINE(hand, 1) == 0 -> turn++; if :: free_any() :: skip fi
    :: turn < N -> turn++; if :: free_any() :: skip fi
    :: turn < N -> turn++; if :: use_as_large(0) :: skip fi
    :: else -> break
    od;
    do                              /* what it was given is freed, by this thread or another */
    :: MINE(hand, 0) > 0 -> if :: free_one(_pid, 0) :: MINE(hand, 0) == 0 fi
    :: MINE(hand, 1) > 0 -> if :: free_one(_pid, 1) :: MINE(hand, 1) == 0 fi
    :: BOTH(hand) == 0 -> break
    od;
    leave();
    done++
  }
#ifdef STOP
  unless { stopping && _pid == 0 && done + stopped < TH -> stopped = 1 }
#endif
}

/* Where the blocks of slab s are. */
inline add_up(s) {
  sum = list[s] + chain[s];
  for (k : 0 .. TH - 1) {
    sum = sum + hand[k * SLABS + s] + freed[k * SLABS + s] + batch[k * SLABS + s] +
          bin[k * SLABS + s] + returned[k * SLABS + s] + flying[k * SLABS + s]
  }
  assert(sum == (st[s] == NONE -> 0 : NB))
}

active proctype monitor() {
  byte k, sum;
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
  d_step {
    add_up(0);
    add_up(1);
    for (k : SLABS .. TH * SLABS - 1) {
      assert(hand[k] + freed[k] + batch[k] + bin[k] + returned[k] + flying[k] == 0)
    }
    assert((flying[0] > 0) + (flying[1] > 0) <= 1);
    assert((owner[0] == NOBODY || owner[0] == 0) && (owner[1] == NOBODY || owner[1] == 0));
    assert(stopped == 1 || (st[0] == NONE && st[1] == NONE))
  }
}
