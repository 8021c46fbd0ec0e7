/* heap_pool.pml - heaps that threads and their signal handlers claim from the pool, mark, and give
 * back
 *
 * Stands for, in src/stock/pool.c: wake pool_claim pool_rest pool_claim_resting pool_release
 * and in src/stock/pool.c: repair pool_claim_dead pool_claim_nested discard_idle
 * and in src/stock/users.c: change users_note users_keep users_leave_behind users_settle
 * and in src/stock/users.c: is_parents take_over_word users_take_dead users_take_parents
 * and in src/stock/users.c: users_leave users_forget
 * and in src/heap/enter.c: thread_leaves attach has_fast_paths is_marked mark unmark nested_of
 * and in src/heap/enter.c: enter_any enter heap_enter exit_slowly heap_exit
 * and in src/stock/shrink.c: heap_end_rest heap_end heap_empty
 *
 * TH threads make CALLS calls each and end, with or without a word to the library. After a word
 * they may call once more, as late destructors do, and end once more, with a word or without. A
 * heap that is left so goes to the next thread that finds no free place. HEAPS places (places.pml
 * has the steps of claiming one; a thread that takes a whole chunk of free ones to discard it
 * claims each). Each thread has HANDLERS handlers. One may interrupt a call, or the handler before
 * it, at any point, and makes a call of its own. What it interrupted goes on when it has returned.
 * A heap may go back with things in it and rest, for the next thread. No two calls use one heap at
 * a time, and none goes back with things in it otherwise. In the end every place is free, or its
 * heap one that will be found. With JUMP a handler may leave by longjmp, once in a thread: that
 * costs one heap at most. With STOP the first thread may stop for ever at any point, in its handler
 * too, or die there, and the others still end. With FORK this is a child of fork: the first thread
 * forked, and has heap 0; heap 1 is that of a thread which is not here. Nobody knows either yet.
 * With FIRST heap 0, if the first thread gets it, is the process's first: there are no words then.
 *
 * quick: -DTH=1 -DHANDLERS=2 -DHEAPS=4 -DCALLS=1
 * quick: -DTH=1 -DHANDLERS=1 -DHEAPS=3 -DCALLS=2 -DJUMP
 * cycle: -DTH=1 -DHANDLERS=1 -DHEAPS=3 -DCALLS=1 -DSTOP
 * cycle: -DTH=2 -DHANDLERS=0 -DHEAPS=2 -DCALLS=1 -DSTOP
 * quick: -DTH=2 -DHANDLERS=0 -DHEAPS=3 -DCALLS=1 -DFORK
 * quick: -DTH=1 -DHANDLERS=1 -DHEAPS=4 -DCALLS=2 -DFORK
 * quick: -DTH=2 -DHANDLERS=0 -DHEAPS=2 -DCALLS=2 -DFIRST
 * quick: -DTH=1 -DHANDLERS=1 -DHEAPS=3 -DCALLS=2 -DFIRST
 * check: -DTH=3 -DHANDLERS=0 -DHEAPS=3 -DCALLS=1 -DFORK
 * check: -DTH=2 -DHANDLERS=1 -DHEAPS=2 -DCALLS=1
 * check: -DTH=3 -DHANDLERS=0 -DHEAPS=2 -DCALLS=1
 * check: -DTH=1 -DHANDLERS=2 -DHEAPS=4 -DCALLS=1 -DSTOP
 * check: -DTH=1 -DHANDLERS=3 -DHEAPS=5 -DCALLS=1
 */
#define NONE 255
#define PARENTS 254                       /* USERS_PARENTS */

bool claimed[HEAPS], busy[HEAPS];
byte nested[HEAPS] = NONE;
byte here[TH] = NONE;             /* heap_here.heap */
byte user[HEAPS] = NONE;          /* users.c's words: the thread */
bool noted[HEAPS];                /* the word is not 0 */
bool had[HEAPS];                  /* a thread has it, of this process or of a parent */
bool settled = true;              /* in this process */
bool unknown;                     /* the first heap has a thread, and no word */
#ifdef FORK
bool ready;
#else
bool ready = true;
#endif
bool died[TH];                    /* os_thread_has_ended */
bool marked[TH] = true;           /* heap_here.limit and window are 0 */
bool resting[HEAPS];              /* in the pool, with things in it */
bool used[HEAPS], laden[HEAPS];   /* ghost: a call is under way in it; it has things in it */
byte level[TH];                   /* how many handlers have interrupted one another */
bool jumped[TH], has_jumped[TH];  /* a handler left by longjmp */
bool ended[TH], stopping; byte done, stopped;

/* Whose it was and that it died are read before the swap. So is that the word is 0, and that a
 * parent's thread had it. */
inline users_take_dead(which) {
  whose = NONE;
  if
  :: noted[which] && user[which] == NONE
  :: atomic { noted[which] && user[which] != NONE -> whose = user[which] };
     if :: !died[whose] -> whose = NONE :: died[whose] fi;
     atomic {
       if :: whose != NONE && user[which] == whose -> user[which] = t :: else -> whose = NONE fi
     }
  :: !noted[which] ->
     if
     :: !settled || !had[which]
     :: settled && had[which] ->
        atomic {
          if
          :: !noted[which] -> noted[which] = true; user[which] = t; whose = PARENTS
          :: noted[which]
          fi
        }
     fi
  fi;
  if :: whose != NONE -> had[which] = false :: else fi
}

inline repair(which) {
  if
  :: nested[which] != NONE && whose != PARENTS ->
     atomic { user[nested[which]] = whose; noted[nested[which]] = true };
     had[nested[which]] = true
  :: nested[which] != NONE && whose == PARENTS -> had[nested[which]] = true
  :: else
  fi;
  nested[which] = NONE
}

inline users_leave(which) {
  if
  :: user[which] != NONE ->
     had[which] = false;
     atomic { user[which] = NONE; noted[which] = true }
  :: user[which] == NONE
  fi
}

/* The lowest whose thread has died. */
inline pool_claim_dead(to) {
  to = 0;
  do
  :: to == HEAPS -> to = NONE; break
  :: else ->
     users_take_dead(to);
     if
     :: whose == NONE -> to++             /* it lives, or another thread was quicker */
     :: else ->
        repair(to);
        if
        :: busy[to] -> users_leave(to); to++ /* pool_abandon */
        :: !busy[to] -> atomic { assert(claimed[to] && !used[to]); resting[to] = false }; break
        fi
     fi
  od;
  whose = 0
}

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
  if
  :: to != NONE -> resting[to] = false; busy[to] = false
  :: else -> pool_claim_dead(to)
  fi
}

inline let_go(h) { laden[h] = false }

inline pool_release(from) {
  users_leave(from);
  nested[from] = NONE;
  atomic { assert(claimed[from] && !used[from] && !laden[from]); claimed[from] = false }
}

inline pool_rest(h) {
  users_leave(h);
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
     :: else ->
        resting[h] = false;
        busy[h] = false;
        atomic { user[h] = t; noted[h] = true };
        busy[h] = true;
        let_go(h);
        pool_release(h)
     fi
  fi;
  h = 0
}

inline attach() {
  pool_claim(h);
#ifdef FIRST
  if :: h == 0 -> unknown = (t == 0 && !noted[0]) :: else fi;
#endif
  if :: h != NONE && !(unknown && h == 0) -> atomic { user[h] = t; noted[h] = true } :: else fi;
  if
  :: h == NONE
  /* a handler was here first */
  :: h != NONE && here[t] != NONE -> pool_rest(h); h = here[t]
  :: atomic { h != NONE && here[t] == NONE -> here[t] = h }; had[h] = noted[h]; marked[t] = false
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
        users_leave(fresh);
        atomic { if :: nested[h] == NONE -> nested[h] = fresh; h = fresh; fresh = NONE :: else fi };
        if
        /* a handler was quicker */
        :: fresh != NONE -> pool_rest(fresh); h = nested[h]
        :: else
        fi
     fi
  fi;
  fresh = 0
}

inline heap_enter() {
  h = here[t];
  if :: h == NONE -> attach() :: else fi;
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

/* Sooner or later. */
inline users_settle() {
  if
  :: (!settled || unknown) && here[t] != NONE && !noted[here[t]] ->
     atomic { /* or a handler of the thread has, meanwhile */
       assert(!noted[here[t]] || user[here[t]] == t);
       user[here[t]] = t;
       noted[here[t]] = true
     };
     had[here[t]] = true;
     unknown = false;
     settled = true
  :: skip
  fi
}

inline heap_exit() {
  users_settle();
  if :: h == here[t] -> marked[t] = false :: else fi;
  busy[h] = false
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
  users_settle();
  had[fresh] = false;
  here[t] = NONE;
  do
  :: fresh == NONE -> break
  :: else ->
     h = fresh;
     fresh = nested[h];
     if
     :: busy[h] -> users_leave(h)
     :: !busy[h] -> busy[h] = true; pool_rest(h)
     :: !busy[h] -> busy[h] = true; let_go(h); pool_release(h)
     fi
  od;
  atomic { fresh = 0; h = 0 }
}

/* A thread that has stopped, and its handlers with it, need only end. */
#define IS_OVER(thread) (stopped == 1 && (thread) == 0)

active [TH] proctype thread() provided (level[_pid] == 0 || IS_OVER(_pid)) {
  byte h, fresh, whose, turn, t = _pid;
#ifdef FORK
  if
  :: d_step {
       t == 0 -> claimed[0] = true; here[0] = 0; marked[0] = false; laden[0] = true;
       claimed[1] = true; had[1] = true; laden[1] = true; settled = false; ready = true
     };
     if :: had[0] = true :: skip fi       /* not of the first heap of all */
  :: t != 0 && ready
  fi;
#endif
  {
    do
    :: turn < CALLS ->
       turn++;
       { operate() } unless { atomic { jumped[t] -> jumped[t] = false } }
    :: else -> break
    od;
    atomic { has_jumped[t] = true };  /* a jump out of what follows would end the thread's end */
    turn = 0;
    do                                /* the system calls thread_leaves for a thread with a heap */
    :: here[t] != NONE && turn < 2 ->
       thread_leaves();
       turn++;
       if :: turn == 1 -> operate(); heap_end_rest() :: turn == 1 -> skip :: else fi
    :: atomic { ended[t] = true; died[t] = true; done++; break }
    od
  }
#ifdef STOP
  unless {
    atomic { IS_OVER(_pid) || (stopping && _pid == 0 && done + stopped < TH) -> stopped = 1 };
    if :: died[_pid] = true :: skip fi
  }
#endif
}

#if HANDLERS > 0
#define NUMBER (_pid - TH)                /* of the handler */
#define THREAD (NUMBER % TH)
#define DEPTH (NUMBER / TH)

byte within[TH * HANDLERS];               /* 1: the handler has begun */

active [TH * HANDLERS] proctype handler()
    provided (level[THREAD] == DEPTH + within[NUMBER] || IS_OVER(THREAD)) {
  byte h, fresh, whose, t = THREAD;
end:
  d_step { ready && !ended[t] && (t != 0 || stopped == 0) -> within[NUMBER] = 1; level[t]++ };
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
  byte k, kept, turn;
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
  /* whoever looks now finds what was left behind, and what hangs on it */
  for (turn : 0 .. HEAPS - 1) {
    for (k : 0 .. HEAPS - 1) {
      d_step {
        if
        :: user[k] != NONE || (settled && had[k] && !noted[k]) ->
           if
           :: nested[k] != NONE && noted[k] -> user[nested[k]] = user[k]; noted[nested[k]] = true
           :: nested[k] != NONE && !noted[k] -> had[nested[k]] = true
           :: else
           fi;
           user[k] = NONE;
           noted[k] = true;
           nested[k] = NONE;
           if :: !busy[k] -> claimed[k] = false; laden[k] = false :: else fi
        :: else
        fi
      }
    }
  }
  for (k : 0 .. HEAPS - 1) {
    kept = kept + claimed[k];
    assert(!laden[k] || resting[k] || claimed[k])
  }
#ifdef JUMP
  assert(kept <= 1)
#else
  assert(kept <= (stopped || !settled || unknown -> 2 + HANDLERS : 0))
#endif
}
