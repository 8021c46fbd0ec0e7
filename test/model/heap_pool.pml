/* heap_pool.pml - heaps that threads and their signal handlers claim from the pool, mark, and give
 * back
 *
 * Stands for, in src/heap/pool.c: wake pool_claim pool_rest pool_claim_resting pool_release
 * and in src/heap/init.c: thread_leaves heap_attach
 * and in src/heap/leave.c: heap_end_rest
 * and in src/heap/heap.c: heap_is_marked mark unmark nested_of heap_enter heap_exit
 *
 * TH threads make CALLS calls each, end, and call once more, as late destructors do; HEAPS places
 * (places.pml has the steps of claiming one). Each thread has HANDLERS handlers, one of which may
 * interrupt a call, or the handler before it, at any point, and makes a call of its own: the
 * thread, or the outer handler, goes on when it has returned. A heap may go back with things in it
 * and rest, for the next thread. No two calls use one heap at a time, none goes back with things in
 * it otherwise, and in the end every place is free. With JUMP a handler may leave by longjmp, once
 * in a thread: that costs one heap at most. With STOP the first thread may stop for ever at any
 * point, in its handler too, and the others still end.
 *
 * quick: -DTH=1 -DHANDLERS=2 -DHEAPS=4 -DCALLS=1
 * quick: -DTH=1 -DHANDLERS=1 -DHEAPS=3 -DCALLS=2 -DJUMP
 * cycle: -DTH=1 -DHANDLERS=1 -DHEAPS=3 -DCALLS=1 -DSTOP
 * cycle: -DTH=2 -DHANDLERS=0 -DHEAPS=2 -DCALLS=1 -DSTOP
 * check: -DTH=2 -DHANDLERS=1 -DHEAPS=2 -DCALLS=1
 * check: -DTH=3 -DHANDLERS=0 -DHEAPS=2 -DCALLS=1
 * check: -DTH=1 -DHANDLERS=2 -DHEAPS=4 -DCALLS=1 -DSTOP
 * check: -DTH=1 -DHANDLERS=3 -DHEAPS=5 -DCALLS=1
 */
#define NONE 255
#define GONE 254                          /* heap_gone: the thread has ended */

bool claimed[HEAPS], busy[HEAPS];
byte nested[HEAPS] = NONE;
byte here[TH] = NONE;             /* heap_here.heap */
bool marked[TH] = true;           /* heap_here.limit and window are 0 */
bool resting[HEAPS];              /* in the pool, with things in it */
bool used[HEAPS], laden[HEAPS];   /* ghost: a call is under way in it; it has things in it */
byte level[TH];                   /* how many handlers have interrupted one another */
bool jumped[TH], has_jumped[TH];  /* a handler left by longjmp */
bool ended[TH], stopping; byte done, stopped;

inline pool_claim(to) {
  atomic {
    to = 0;
    do
    :: to < HEAPS && claimed[to] -> to++
    :: else -> break
    od;
    if
    :: to == HEAPS -> to = NONE
    :: else -> claimed[to] = true;
       assert(!used[to] && nested[to] == NONE && laden[to] <= resting[to])
    fi
  };
  if :: to != NONE -> resting[to] = false; busy[to] = false :: else fi
}

inline let_go(h) { laden[h] = false }

inline pool_release(from) {
  nested[from] = NONE;
  atomic { assert(claimed[from] && !used[from] && !laden[from]); claimed[from] = false }
}

inline pool_rest(h) {
  resting[h] = true;
  nested[h] = NONE;
  atomic { assert(claimed[h] && !used[h]); claimed[h] = false }
}

/* The lowest heap that rests lets go of everything. */
inline heap_end_rest() {
  atomic {
    h = 0;
    do
    :: h < HEAPS && (claimed[h] || !resting[h]) -> h++
    :: else -> break
    od
  };
  if
  :: h == HEAPS
  :: else ->
     atomic { if :: claimed[h] -> h = NONE :: else -> claimed[h] = true fi };
     if
     :: h == NONE                         /* another thread was quicker */
     :: else -> resting[h] = false; let_go(h); pool_release(h)
     fi
  fi;
  h = 0
}

inline heap_attach() {
  pool_claim(h);
  if
  :: h == NONE
  :: h != NONE && here[t] == GONE -> borrowed = true
  /* a handler was here first */
  :: h != NONE && here[t] < GONE -> let_go(h); pool_release(h); h = here[t]
  :: atomic { h != NONE && here[t] == NONE -> here[t] = h }; marked[t] = false
  fi
}

inline nested_of() {
  fresh = nested[h];
  if
  :: fresh != NONE -> h = fresh
  :: else ->
     pool_claim(fresh);
     if
     :: fresh == NONE -> h = NONE
     :: else ->
        atomic { if :: nested[h] == NONE -> nested[h] = fresh; h = fresh; fresh = NONE :: else fi };
        if
        /* a handler was quicker */
        :: fresh != NONE -> let_go(fresh); pool_release(fresh); h = nested[h]
        :: else
        fi
     fi
  fi;
  fresh = 0
}

inline heap_enter() {
  h = here[t];
  if :: h >= GONE -> heap_attach() :: else fi;
  do
  :: h == NONE -> break
  :: h != NONE ->
     if
     :: atomic { !busy[h] && !(h == here[t] && marked[t]) -> break }
     :: busy[h] || (h == here[t] && marked[t]) -> nested_of()
     fi
  od;
  if
  :: h != NONE -> busy[h] = true; if :: h == here[t] -> marked[t] = true :: else fi
  :: else
  fi
}

inline heap_exit() {
  if
  :: borrowed -> borrowed = false; let_go(h); pool_release(h)
  :: else -> if :: h == here[t] -> marked[t] = false :: else fi; busy[h] = false
  fi
}

inline operate() {
  heap_enter();
  if
  :: h != NONE ->
     atomic { assert(claimed[h] && !used[h]); used[h] = true; laden[h] = true };
     atomic { assert(claimed[h] && used[h]); used[h] = false };
     heap_exit()
  :: else
  fi;
  h = 0
}

inline thread_leaves() {
  fresh = here[t];
  marked[t] = true;
  here[t] = GONE;
  do
  :: fresh >= GONE -> break
  :: else ->
     h = fresh;
     fresh = nested[h];
     if
     :: busy[h]
     :: !busy[h] -> busy[h] = true; pool_rest(h)
     :: !busy[h] -> busy[h] = true; let_go(h); pool_release(h)
     fi
  od;
  atomic { fresh = 0; h = 0 }
}

/* A thread that has stopped, and its handlers with it, need only end. */
#define IS_OVER(thread) (stopped == 1 && (thread) == 0)

active [TH] proctype thread() provided (level[_pid] == 0 || IS_OVER(_pid)) {
  byte h, fresh, turn, t = _pid;
  bool borrowed;
  {
    do
    :: turn < CALLS ->
       turn++;
       { operate() } unless { atomic { jumped[t] -> jumped[t] = false; borrowed = false } }
    :: else -> break
    od;
    atomic { has_jumped[t] = true };  /* a jump out of what follows would end the thread's end */
    do                                /* the system calls thread_leaves for a thread with a heap */
    :: here[t] < GONE -> thread_leaves(); operate(); heap_end_rest()
    :: atomic { here[t] >= GONE -> ended[t] = true; done++; break }
    od
  }
#ifdef STOP
  unless { IS_OVER(_pid) || (stopping && _pid == 0 && done + stopped < TH) -> stopped = 1 }
#endif
}

#if HANDLERS > 0
#define NUMBER (_pid - TH)                /* of the handler */
#define THREAD (NUMBER % TH)
#define DEPTH (NUMBER / TH)

byte within[TH * HANDLERS];               /* 1: the handler has begun */

active [TH * HANDLERS] proctype handler()
    provided (level[THREAD] == DEPTH + within[NUMBER] || IS_OVER(THREAD)) {
  byte h, fresh, t = THREAD;
  bool borrowed;
end:
  d_step { !ended[t] && (t != 0 || stopped == 0) -> within[NUMBER] = 1; level[t]++ };
  {
    operate()
  }
#ifdef STOP
  unless { IS_OVER(t) || (stopping && t == 0 && done + stopped < TH) -> stopped = 1; goto end_here }
#endif
  ;
#ifdef JUMP
  if
  :: d_step { DEPTH == 0 && !has_jumped[t] -> has_jumped[t] = true; jumped[t] = true; level[t]-- }
  :: level[t]--
  fi
#else
  level[t]--
#endif
end_here:
  skip
}
#endif

active proctype monitor() {
  byte k, kept, jumps;
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
  for (k : 0 .. HEAPS - 1) {
    kept = kept + claimed[k];
    assert(!laden[k] || resting[k] || claimed[k])
  }
#ifdef JUMP
  assert(kept <= 1)
#else
  assert(kept <= (stopped -> 2 + HANDLERS : 0))
#endif
}
