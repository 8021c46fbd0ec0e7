/* hint.pml - the hint by which a group of slabs in the partial map is found, cleared by those who
 * find nothing there
 *
 * Stands for, in src/slab/partial.c: partial_publish claim_in_word claim_in_arena
 *
 * One group of SL slabs, one bit of the hint. A thread publishes a slab that it holds, or looks for
 * one by way of the hint. In the end a slab in the map is found by the hint, and every slab is in
 * the map or somebody's. With STOP the first thread may stop for ever at any point, and the others
 * still end. What is lost then is the slab that it held or was publishing; or, if it has just
 * cleared the hint, that: the group's slabs are not found until the next publication in the group.
 *
 * quick: -DTH=3 -DSL=2 -DN=2
 * quick: -DTH=3 -DSL=2 -DN=1 -DSTOP
 * cycle: -DTH=3 -DSL=2 -DN=1 -DSTOP
 * check: -DTH=3 -DSL=3 -DN=3
 * check: -DTH=3 -DSL=3 -DN=2 -DSTOP
 */
#define NOBODY 255

byte word;                 /* the group's slabs in the map */
bool hint;
byte holder[SL] = NOBODY;  /* ghost: whose a slab is that is not in the map */
bool clearing[TH];         /* ghost: has cleared the hint and not looked at the word since */
byte fresh[TH];            /* ghost: has set this slab's bit and not looked at the hint since */
bool stopping; byte done, stopped;

inline publish(s) {
  atomic {
    assert(holder[s] == _pid && !(word & (1 << s)));
    holder[s] = NOBODY; word = word | (1 << s); fresh[_pid] = 1 << s
  };
  if
  :: atomic { hint -> fresh[_pid] = 0 }
  :: !hint -> atomic { hint = true; fresh[_pid] = 0 }
  fi
}

inline claim_in_word() {
  got = NOBODY;
  do
  :: seen = word;
     if
     :: seen == 0 -> break
     :: else ->
        atomic {
          got = 0;
          do :: !((seen >> got) & 1) -> got++ :: else -> break od;
          if
          :: word & (1 << got) -> word = word & ~(1 << got); assert(holder[got] == NOBODY);
             holder[got] = _pid; break
          :: else -> got = NOBODY
          fi
        }
     fi
  od;
  seen = 0
}

inline find() {
  if
  :: !hint
  :: hint ->
     claim_in_word();
     if
     :: got != NOBODY
     :: got == NOBODY ->
        atomic { hint = false; clearing[_pid] = true };
        if
        :: atomic { word == 0 -> clearing[_pid] = false }
        :: word != 0 -> atomic { hint = true; clearing[_pid] = false }
        fi
     fi
  fi;
  got = 0
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
  byte got, seen, turn;
  atomic { if :: _pid < SL -> holder[_pid] = _pid :: else fi };
  {
    do
    :: turn < N -> turn++; if :: find() :: publish_one() fi
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
  assert((word & ~fresh[0]) == 0 || hint || clearing[0]);
  assert(stopped == 1 || (fresh[0] == 0 && !clearing[0]));
  for (k : 0 .. SL - 1) { assert(((word >> k) & 1) == (holder[k] == NOBODY)) }
}
