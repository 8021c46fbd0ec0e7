/* hint.pml - bits above bits, by which a slab in the partial map is found, or a group with dirty
 * slices; cleared by those who find nothing below
 *
 * Stands for, in src/arena/hint.h: hint_set_part hint_set hint_clear hint_any
 * and in src/slab/partial.c: partial_publish claim_in_word claim_in_arena slab_find_partial
 * and in src/arena/slices.c: slices_note_dirty
 * and in src/arena/purge.c: has_dirty purge_group purge_arena
 *
 * An arena of GROUPS groups, a word of slabs each; SL slabs, number s in group s % GROUPS. A thread
 * publishes a slab that it holds, or looks for one by way of the arena's bit and the groups' bits.
 * In the end a slab in the map is found by them, and every slab is in the map or somebody's. With
 * STOP the first thread may stop for ever at any point, and the others still end. What is lost then
 * is the slab that it held or was publishing, or a hint that it has just cleared. The slabs below
 * that are not found until the next publication there. That a purge finds something dirty below a
 * hint, and puts it back, is the same: it takes what a word has, or what is there is its own.
 *
 * quick: -DTH=3 -DSL=2 -DGROUPS=2 -DN=1
 * quick: -DTH=2 -DSL=2 -DGROUPS=2 -DN=2 -DSTOP
 * cycle: -DTH=2 -DSL=2 -DGROUPS=2 -DN=1 -DSTOP
 * check: -DTH=3 -DSL=2 -DGROUPS=1 -DN=2 -DSTOP
 * check: -DTH=3 -DSL=2 -DGROUPS=2 -DN=2
 * check: -DTH=3 -DSL=3 -DGROUPS=2 -DN=1 -DSTOP
 */
#define NOBODY 255

byte word[GROUPS];         /* the groups' slabs in the map, by their numbers */
bool group[GROUPS], arena; /* the hints */
byte holder[SL] = NOBODY;  /* ghost: whose a slab is that is not in the map */
bool between[TH];          /* ghost: has set or cleared something, and not looked above or below */
bool stopping; byte done, stopped;

inline set(hint) {
  if
  :: hint
  :: !hint -> hint = true
  fi
}

inline publish(s) {
  atomic {
    assert(holder[s] == _pid && !(word[s % GROUPS] & (1 << s)));
    holder[s] = NOBODY; word[s % GROUPS] = word[s % GROUPS] | (1 << s); between[_pid] = true
  };
  set(group[s % GROUPS]);
  set(arena);
  between[_pid] = false
}

inline claim_in_word() {
  got = NOBODY;
  do
  :: seen = word[g];
     if
     :: seen == 0 -> break
     :: else ->
        atomic {
          got = 0;
          do :: !((seen >> got) & 1) -> got++ :: else -> break od;
          if
          :: word[g] & (1 << got) -> word[g] = word[g] & ~(1 << got);
             assert(holder[got] == NOBODY); holder[got] = _pid; break
          :: else -> got = NOBODY
          fi
        }
     fi
  od;
  seen = 0
}

/* `some`: a group's bit is set; each is looked at by itself. */
inline look_at_groups() {
  some = group[0];
#if GROUPS > 1
  if :: group[1] -> some = true :: !group[1] fi
#endif
}

inline find() {
  if
  :: !arena
  :: arena ->
     g = 0; got = NOBODY;
     do
     :: got == NOBODY && g < GROUPS ->
        if
        :: !group[g]
        :: group[g] ->
           claim_in_word();
           if
           :: got != NOBODY
           :: got == NOBODY ->
              atomic { group[g] = false; between[_pid] = true };
              if
              :: word[g] == 0
              :: word[g] != 0 -> set(group[g]); set(arena)
              fi;
              between[_pid] = false
           fi
        fi;
        g++
     :: else -> break
     od;
     if
     :: got != NOBODY
     :: got == NOBODY ->
        look_at_groups();
        if
        :: some
        :: !some ->
           atomic { arena = false; between[_pid] = true };
           look_at_groups();
           if :: some -> set(arena) :: !some fi;
           between[_pid] = false
        fi
     fi
  fi;
  atomic { got = 0; g = 0; some = false }
}

inline publish_one() {
  if
  :: holder[0] == _pid -> publish(0)
  :: holder[1] == _pid -> publish(1)
#if SL > 2
  :: holder[2] == _pid -> publish(2)
#endif
  :: else
  fi
}

active [TH] proctype thread() {
  byte got, seen, turn, g;
  bool some;
  atomic { if :: _pid < SL -> holder[_pid] = _pid :: else fi };
  {
    do
    :: turn < N -> turn++; if :: find(); publish_one() :: publish_one(); find() fi
    :: else -> break
    od;
    done++
  }
#ifdef STOP
  unless { stopping && _pid == 0 && done + stopped < TH -> stopped = 1 }
#endif
}

active proctype monitor() {
  byte k;
#ifdef STOP
  if :: stopping = true :: skip fi;
#endif
  (done + stopped >= TH);
  assert(stopped == 1 || !between[0]);
  for (k : 0 .. GROUPS - 1) { assert(word[k] == 0 || (group[k] && arena) || between[0]) }
  for (k : 0 .. SL - 1) { assert(((word[k % GROUPS] >> k) & 1) == (holder[k] == NOBODY)) }
}
