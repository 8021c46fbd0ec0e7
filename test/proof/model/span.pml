/* span.pml - spans, whose free pages are bits of one word, and the bits by which one is found that
 * has a run of so many
 *
 * Stands for, in src/slab/span.c: room_of set_level clear_level note_new_room claim_run_in_span
 * and in src/slab/span.c: claim_run_in_group claim_run_in_arena span_claim span_begin end_if_free
 * and in src/slab/span.c: give_back_run span_free span_claim_idle claim_behind
 * and in src/slab/span.c: span_claim_behind span_resize
 * and in src/slab/span_purge.c: put_run_back let_runs_leave add_idle span_purge_near span_purge
 * and in src/arena/hint.h: hint_set_part hint_set hint_clear hint_any
 *
 * SPANS spans of PAGES pages, number s in group s % GROUPS of one arena; runs have LEAST to MOST
 * pages. A thread has one run at most. It claims one by way of the hints, or begins a span. It
 * gives it back, and releases the slices if that ends the span, or makes it longer or shorter. It
 * claims idle pages and gives them back, or has slices as something else. Which free run is the
 * tightest, and where a thread looks first, is anybody's guess. At first each of HOLDERS threads
 * has LEAST pages of a span, and the other pages are free, or held for ever. A second span may have
 * begun too, and hints may be set for nothing. Without HOLDERS no span has begun.
 *
 * No page has two holders, and a span's slices are released once. In the end each span is found by
 * way of the hints of its longest free run, and none has only free pages. With STOP the first
 * thread may stop for ever at any point, and the others still end. What it held is missing then.
 * What is not found is the span that it had changed, or what is below a hint that it had cleared.
 *
 * quick: -DTH=2 -DSPANS=1 -DGROUPS=1 -DHOLDERS=2 -DN=2 -DPAGES=4 -DLEAST=1 -DMOST=2
 * quick: -DTH=3 -DSPANS=1 -DGROUPS=1 -DHOLDERS=2 -DN=1 -DPAGES=2 -DLEAST=1 -DMOST=1
 * quick: -DTH=2 -DSPANS=2 -DGROUPS=1 -DHOLDERS=1 -DN=1 -DSTOP -DPAGES=4 -DLEAST=1 -DMOST=2
 * cycle: -DTH=2 -DSPANS=1 -DGROUPS=1 -DHOLDERS=2 -DN=1 -DSTOP -DPAGES=4 -DLEAST=1 -DMOST=2
 * check: -DTH=3 -DSPANS=1 -DGROUPS=1 -DHOLDERS=1 -DN=1 -DPAGES=4 -DLEAST=1 -DMOST=2
 * check: -DTH=3 -DSPANS=2 -DGROUPS=2 -DHOLDERS=1 -DN=1 -DPAGES=4 -DLEAST=1 -DMOST=2
 * check: -DTH=3 -DSPANS=1 -DGROUPS=1 -DHOLDERS=2 -DN=2 -DPAGES=2 -DLEAST=1 -DMOST=1
 * check: -DTH=3 -DSPANS=1 -DGROUPS=1 -DHOLDERS=2 -DN=1 -DSTOP -DPAGES=2 -DLEAST=1 -DMOST=1
 * check: -DTH=2 -DSPANS=1 -DGROUPS=1 -DHOLDERS=0 -DN=3 -DPAGES=4 -DLEAST=1 -DMOST=2
 * check: -DTH=2 -DSPANS=1 -DGROUPS=1 -DHOLDERS=2 -DN=2 -DSTOP -DPAGES=4 -DLEAST=1 -DMOST=2
 * check: -DTH=2 -DSPANS=2 -DGROUPS=2 -DHOLDERS=2 -DN=2 -DSTOP -DPAGES=4 -DLEAST=1 -DMOST=2
 * check: -DTH=2 -DSPANS=1 -DGROUPS=1 -DHOLDERS=2 -DN=3 -DPAGES=6 -DLEAST=2 -DMOST=3
 * check: -DTH=3 -DSPANS=1 -DGROUPS=1 -DHOLDERS=2 -DN=1 -DPAGES=6 -DLEAST=2 -DMOST=3
 * cycle-check: -DTH=2 -DSPANS=2 -DGROUPS=2 -DHOLDERS=1 -DN=1 -DSTOP -DPAGES=4 -DLEAST=1 -DMOST=2
 */
#define LEVELS (MOST - LEAST + 1)
#define NO_LEVEL LEVELS
#define LEVEL_LONG (LEVELS - 1)
#define ALL ((1 << PAGES) - 1)
#define GROUP(s) ((s) % GROUPS)
#define ROOMY(level, group) roomy[(level) * GROUPS + (group)]
#define RUN(at, n) (((1 << (n)) - 1) << (at))

/* where runs of so many ones begin, and the level of the longest */
#define TWO(w) ((w) & ((w) >> 1))
#define THREE(w) ((w) & ((w) >> 1) & ((w) >> 2))
#define RUNS_OF(w, n) ((n) == 1 -> (w) : ((n) == 2 -> TWO(w) : THREE(w)))
#define LONGEST(w) \
  ((MOST > 2 && THREE(w)) -> 3 : ((MOST > 1 && TWO(w)) -> 2 : ((w) -> 1 : 0)))
#define ROOM_OF(w) ((LONGEST(w)) >= LEAST -> (LONGEST(w)) - LEAST : NO_LEVEL)

byte free[SPANS];
byte roomy[LEVELS * GROUPS];   /* a group's spans, by their numbers */
byte groups[LEVELS], arenas;   /* the hints above; `arenas`: a bit for each level */
byte held[SPANS];              /* ghost: pages that somebody has claimed */
bool claimed[SPANS];           /* the slices are taken */
bool is_span[SPANS];           /* the descriptor */
bool begun;
bool stopping; byte done, stopped;

/* ghost: what the first thread has changed or cleared, and not looked at again */
#define NOTHING 0
#define SPAN(s) (1 + (s))
#define BELOW(level) (1 + SPANS + (level))
#ifdef STOP
byte loose;
#define LOOSE(what) if :: _pid == 0 -> loose = what :: else fi
#define MAY_LACK(s, level) (stopped && (loose == SPAN(s) || loose == BELOW(level)))
#else
#define LOOSE(what) skip
#define MAY_LACK(s, level) false
#endif

/* ---- hints */

inline set(hint, number) {
  if
  :: (hint >> (number)) & 1
  :: else -> hint = hint | (1 << (number))
  fi
}

inline clear(hint, number) { hint = hint & ~(1 << (number)) }

inline set_level(s, level) {
  set(ROOMY(level, GROUP(s)), s);
  set(groups[level], GROUP(s));
  set(arenas, level)
}

inline clear_level(s, level) {
  atomic { clear(ROOMY(level, GROUP(s)), s); LOOSE(SPAN(s)) };
  if
  :: ROOM_OF(free[s]) == level -> set_level(s, level)
  :: else
  fi;
  LOOSE(NOTHING)
}

/* The word was `w` and has become `after`. */
inline note_new_room(s) {
  atomic { was = ROOM_OF(w); is = ROOM_OF(after); w = 0; after = 0 };
  if
  :: was == is
  :: else ->
     if :: is != NO_LEVEL -> set_level(s, is) :: else fi;
     LOOSE(NOTHING);
     if :: was != NO_LEVEL -> clear_level(s, was) :: else fi
  fi;
  atomic { was = 0; is = 0; LOOSE(NOTHING) }
}

/* ---- claiming */

/* `ok`: the pages are this thread's. */
inline swap(s, pages) {
  if
  :: free[s] == w ->
     assert((w & (pages)) == (pages) && (held[s] & (pages)) == 0);
     after = w & ~(pages); free[s] = after; held[s] = held[s] | (pages); ok = true; LOOSE(SPAN(s))
  :: else -> w = free[s]; ok = false
  fi
}

inline choose_run(n) {
  if
  :: RUNS_OF(w, n) & 1 -> at = 0
  :: RUNS_OF(w, n) & 2 -> at = 1
  :: RUNS_OF(w, n) & 4 -> at = 2
  :: RUNS_OF(w, n) & 8 -> at = 3
#if PAGES > 4
  :: RUNS_OF(w, n) & 16 -> at = 4
  :: RUNS_OF(w, n) & 32 -> at = 5
#endif
  fi
}

inline claim_run_in_span(s) {
  w = free[s];
  do
  :: RUNS_OF(w, n) == 0 -> w = 0; break
  :: else ->
     atomic { choose_run(n); swap(s, RUN(at, n)) };
     if :: ok -> note_new_room(s); break :: else -> at = 0 fi
  od
}

inline claim_run_in_group() {
  seen = ROOMY(level, g);
  do
  :: !ok && seen != 0 ->
     atomic {
       if
       :: seen & 1 -> span = 0
       :: seen & 2 -> span = 1
       fi;
       clear(seen, span)
     };
     claim_run_in_span(span);
     if :: ok :: else -> clear_level(span, level) fi
  :: else -> seen = 0; break
  od
}

inline claim_run_in_arena() {
  seen_groups = groups[level];
  do
  :: !ok && seen_groups != 0 ->
     atomic { g = (seen_groups & 1 -> 0 : 1); clear(seen_groups, g) };
     claim_run_in_group();
     if
     :: ok
     :: else ->
        atomic { clear(groups[level], g); LOOSE(BELOW(level)) };
        if :: ROOMY(level, g) == 0 :: else -> set(groups[level], g); set(arenas, level) fi;
        LOOSE(NOTHING)
     fi
  :: else -> atomic { g = 0; seen_groups = 0; break }
  od;
  if
  :: ok || groups[level] != 0
  :: else ->
     atomic { clear(arenas, level); LOOSE(BELOW(level)) };
     if :: groups[level] == 0 :: else -> set(arenas, level) fi;
     LOOSE(NOTHING)
  fi
}

inline claim() {
  level = n - LEAST;
  do
  :: !ok && level < LEVELS ->
     if :: (arenas >> level) & 1 -> claim_run_in_arena() :: else fi;
     level++
  :: else -> atomic { level = 0; break }
  od
}

/* ---- from birth to end */

inline claim_slices() {
  if
  :: atomic {
       !claimed[0] -> claimed[0] = true; span = 0; ok = true; assert(!is_span[0] && free[0] == 0)
     }
#if SPANS > 1
  :: atomic {
       !claimed[1] -> claimed[1] = true; span = 1; ok = true; assert(!is_span[1] && free[1] == 0)
     }
#endif
  :: else
  fi
}

inline release_slices(s) {
  atomic { assert(claimed[s] && !is_span[s] && free[s] == 0); claimed[s] = false }
}

inline begin_span() {
  atomic {
    assert(claimed[span] && !is_span[span] && free[span] == 0 && held[span] == 0);
    is_span[span] = true; held[span] = RUN(0, n); free[span] = ALL & ~RUN(0, n);
    LOOSE(SPAN(span))
  };
  set_level(span, LEVEL_LONG);
  LOOSE(NOTHING)
}

/* `ok`: that ended the span, and the slices are this thread's. */
inline give_back(s, pages) {
  atomic {
    assert((free[s] & (pages)) == 0 && (held[s] & (pages)) == (pages));
    w = free[s]; after = w | (pages); free[s] = after; held[s] = held[s] & ~(pages);
    ok = (after == ALL); LOOSE(SPAN(s))
  };
  note_new_room(s);
  if
  :: ok ->
     atomic {
       ok = (free[s] == ALL);
       if
       :: ok -> assert(is_span[s] && claimed[s] && held[s] == 0); free[s] = 0; LOOSE(SPAN(s))
       :: else
       fi
     };
     if
     :: ok -> clear(ROOMY(LEVEL_LONG, GROUP(s)), s); is_span[s] = false
     :: else
     fi
  :: else
  fi
}

/* ---- what threads do: `n` pages of `span` from `at` on are this one's */

inline forget() { atomic { n = 0; span = 0; at = 0; ok = false } }

inline have_run() {
  if
  :: n = LEAST
#if LEVELS > 1
  :: n = LEAST + 1
#endif
#if LEVELS > 2
  :: n = LEAST + 2
#endif
  fi;
  claim();
  if
  :: ok
  :: else -> claim_slices(); if :: ok -> begin_span(); at = 0 :: else fi
  fi;
  if :: ok -> ok = false :: else -> forget() fi
}

inline free_run() {
  give_back(span, RUN(at, n));
  if :: ok -> release_slices(span) :: else fi;
  forget()
}

inline shrink() {
  give_back(span, RUN(at + LEAST, n - LEAST));
  assert(!ok); n = LEAST
}

inline grow() {
  w = free[span];
  do
  :: (w >> (at + n)) & 1 ->
     atomic { swap(span, RUN(at + n, 1)) };
     if :: ok -> note_new_room(span); n++; ok = false; break :: else fi
  :: else -> w = 0; break
  od
}

/* Which free pages are in memory is anybody's guess. */
inline claim_idle(s, idle) {
  w = free[s];
  if
  :: idle = w
  :: idle = w & RUN(0, PAGES / 2)
  fi;
  if
  :: idle == 0 -> w = 0
  :: else ->
     atomic { swap(s, idle) };
     if :: ok -> note_new_room(s); ok = false :: else -> idle = 0; w = 0 fi
  fi
}

inline give_idle_back(s, idle) {
  if
  :: idle != 0 ->
     give_back(s, idle);
     if :: ok -> release_slices(s); ok = false :: else fi;
     idle = 0
  :: else
  fi
}

/* Those of one span, then of its neighbour, go back to the system together. */
inline purge_near(s) {
  claim_idle(s, own_idle);
#if SPANS > 1
  if :: own_idle != 0 -> claim_idle(1 - (s), near_idle) :: else fi;
#endif
  give_idle_back(s, own_idle);
#if SPANS > 1
  give_idle_back(1 - (s), near_idle)
#endif
}

inline use_otherwise() {
  claim_slices();
  if :: ok -> release_slices(span) :: else fi;
  forget()
}

inline operate() {
  if
  :: n == 0 -> have_run()
  :: n == 0 -> use_otherwise()
  :: n != 0 -> free_run()
  :: n > LEAST -> shrink()
  :: n != 0 && n < MOST && at + n < PAGES -> grow()
  :: purge_near(0)
#if SPANS > 1
  :: purge_near(1)
#endif
  fi
}

#define IS_HINTED(s, level) \
  ((ROOMY(level, GROUP(s)) >> (s)) & (groups[level] >> GROUP(s)) & (arenas >> (level)) & 1)

active [TH] proctype thread() {
  byte turn, n, span, at, w, after, was, is, level, g, seen, seen_groups, own_idle, near_idle;
  bool ok;
  begun;
#if HOLDERS > 0
  atomic { if :: _pid < HOLDERS -> n = LEAST; at = LEAST * _pid :: else fi };
#endif
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
  byte s, level;
  atomic {
#if HOLDERS > 0
    for (s : 0 .. SPANS - 1) {
      if
      :: claimed[s] = true; is_span[s] = true;
         if
         :: free[s] = (s == 0 -> ALL & ~RUN(0, LEAST * HOLDERS) : RUN(0, LEAST))
         :: free[s] = 0
         fi;
         held[s] = ALL & ~free[s];
         level = ROOM_OF(free[s]);
         if :: level != NO_LEVEL -> set_level(s, level) :: else fi
      :: s != 0
      fi
    };
#endif
    if
    :: for (level : 0 .. LEVELS - 1) {
         for (s : 0 .. SPANS - 1) { ROOMY(level, GROUP(s)) = ROOMY(level, GROUP(s)) | (1 << s) };
         groups[level] = (1 << GROUPS) - 1
       };
       arenas = (1 << LEVELS) - 1
    :: skip
    fi;
    begun = true
  };
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
  for (s : 0 .. SPANS - 1) {
    level = ROOM_OF(free[s]);
    if
    :: level != NO_LEVEL -> assert(IS_HINTED(s, level) || MAY_LACK(s, level))
    :: else
    fi;
    assert(stopped || free[s] != ALL);
    assert(is_span[s] || free[s] == 0);
    assert(stopped || (is_span[s] == claimed[s] && (!is_span[s] || (free[s] | held[s]) == ALL)))
  }
}
