/* sleepers.pml - one thread's heap, while another takes what it keeps
 *
 * Stands for, in src/heap/sleepers.c: is_left_alone is_in_fast_call set_words
 * and in src/heap/sleepers.c: are_closed move_class move_all take_first let_go_of
 * and in src/heap/enter.c: mark_unless_taken thread_leaves
 * and in src/heap/fast.h: fast_pop fast_keep fast_put_back
 *
 * The thread makes CALLS calls and ends, or goes on for ever. Its stores wait in a queue, as on
 * x86-64: it sees them at once, others in order and later. A fence for all threads empties the
 * queue. The heap has a bin, a returned list with room for ROOM blocks, and the private list of a
 * slab. Of NB blocks the first BIN are in the bin, and the others in the program's hands. Blocks of
 * odd numbers are of that slab. Another thread takes ROUNDS times. No two of bin, lists, program
 * and taker ever have the same block, and nobody moves what is in a call's hands. No block is lost,
 * and no list stays closed. Nowhere does one of the two wait for the other.
 *
 * quick: -DNB=3 -DBIN=2 -DROOM=1 -DCALLS=2 -DROUNDS=1
 * quick: -DNB=4 -DBIN=1 -DROOM=2 -DCALLS=3 -DROUNDS=1
 * quick: -DNB=2 -DBIN=1 -DROOM=1 -DCALLS=2 -DROUNDS=2
 * check: -DNB=4 -DBIN=2 -DROOM=2 -DCALLS=4 -DROUNDS=1
 * check: -DNB=3 -DBIN=2 -DROOM=1 -DCALLS=4 -DROUNDS=2
 */
#define MALLOC 0                          /* heap_here.limit is 0 */
#define FREE 1                            /* heap_here.window is 0 */
#define BUSY 2
#define FIRST 3                           /* the bin */
#define LEFT 4                            /* returned_room */
#define RETURNED 5
#define PRIVATE 6
#define LINK(b) (6 + (b))
#define CLOSED 16

byte word[7 + NB];                        /* as others see them */
byte queued[6], value[6], length;         /* the thread's stores that wait */
bool taken, is_slow, is_moving;
bool owns = true;                         /* the slab's owner is the heap */
mtype = { LISTED, HELD, GONE };
mtype is[NB + 1];                         /* where each block is by rights */
bool ended, done;

inline drain_one() {
  word[queued[0]] = value[0];
  queued[0] = queued[1]; queued[1] = queued[2]; queued[2] = queued[3]; queued[3] = queued[4];
  queued[4] = queued[5]; queued[5] = 0;
  value[0] = value[1]; value[1] = value[2]; value[2] = value[3]; value[3] = value[4];
  value[4] = value[5]; value[5] = 0;
  length--
}
inline store(which, what) {
  atomic { length < 6 -> queued[length] = which; value[length] = what; length++ }
}
inline load(which, to) {
  atomic {
    to = word[which]; i = 0;
    do
    :: i < length -> if :: queued[i] == which -> to = value[i] :: else fi; i++
    :: else -> break
    od;
    i = 0
  }
}
inline fence_threads() {
  atomic { do :: length > 0 -> drain_one() :: else -> break od }
}

proctype queue() {
end:
  do
  :: atomic { length > 0 -> drain_one() }
  :: ended && length == 0 -> break
  od
}

/* The queue is not waited for: a load that comes later is what a fence would order. */
proctype thread() {
  byte calls, b, next, i, room;
  do
  :: calls < CALLS ->
     calls++;
     if
     :: /* malloc */
        store(MALLOC, 1);
        load(FIRST, b);
        if
        :: b == 0 || b >= CLOSED -> store(MALLOC, 0); b = 0
        :: else ->
           load(LINK(b), next);
           store(FIRST, next);
           store(MALLOC, 0);
           atomic { assert(is[b] == LISTED); is[b] = HELD; b = 0; next = 0 }
        fi
     :: /* free */
        atomic {
          b = 1;
          do :: b <= NB && is[b] != HELD -> b++ :: else -> break od;
          if :: b <= NB -> is[b] = LISTED :: else -> b = 0 fi
        };
        if
        :: b == 0
        :: b != 0 ->
           store(FREE, 1);
           if
           :: b % 2 == 1 && owns ->
              load(PRIVATE, next); store(LINK(b), next); store(PRIVATE, b); store(FREE, 0)
           :: b % 2 == 1 && !owns -> store(FREE, 0); is[b] = GONE   /* as of another's slab */
           :: b % 2 == 0 ->
              load(LEFT, room);
              if
              :: room != 0 && room < CLOSED ->
                 load(RETURNED, next); store(LINK(b), next); store(RETURNED, b);
                 atomic {                 /* one instruction, which no fence divides */
                   length < 6; load(LEFT, room); store(LEFT, room - 1)
                 };
                 store(FREE, 0)
              :: room == 0 || room >= CLOSED -> store(FREE, 0); is[b] = GONE
              fi
           fi;
           b = 0; next = 0; room = 0
        fi
     :: /* a slow call: fills an empty bin, or lets a list grow again */
        store(BUSY, 1);
        if
        :: taken
        :: !taken ->
           assert(!is_moving); is_slow = true;
           load(FIRST, b);
           assert(b < CLOSED);
           load(LEFT, room); assert(room < CLOSED); room = 0;   /* open, or never used */
           if
           :: b == 0 -> load(PRIVATE, b); store(FIRST, b); store(PRIVATE, 0)
           :: b == 0 && owns ->
              load(RETURNED, b); store(FIRST, b); store(RETURNED, 0); store(LEFT, ROOM)
           :: b != 0
           fi;
           b = 0; is_slow = false
        fi;
        store(BUSY, 0)
     fi
  :: calls == CALLS ->
     store(BUSY, 1);                      /* thread_leaves */
     if
     :: taken -> store(BUSY, 0)           /* others find the heap */
     :: !taken -> assert(!is_moving)      /* it rests, or is ended: busy as far as a taker sees */
     fi;
     break
  od;
  ended = true
}

inline open_words() {
  first = word[FIRST];
  atomic {
    if :: first >= CLOSED && word[FIRST] == first -> word[FIRST] = first - CLOSED :: else fi
  };
  room = word[LEFT];
  atomic { if :: room >= CLOSED && word[LEFT] == room -> word[LEFT] = room - CLOSED :: else fi }
}
inline take_list(which) {
  b = word[which] % CLOSED;
  word[which] = 0;
  do
  :: b != 0 -> assert(is[b] == LISTED); is[b] = GONE; b = word[LINK(b)]
  :: else -> break
  od
}

proctype taker() {
  byte rounds, b, first, room;
  do
  :: rounds < ROUNDS ->
     rounds++;
     taken = true;
     fence_threads();
     if
     :: word[BUSY] != 0
     :: word[BUSY] == 0 ->
        first = word[FIRST];
        atomic {
          if :: first != 0 && word[FIRST] == first -> word[FIRST] = first + CLOSED :: else fi
        };
        room = word[LEFT];
        atomic { if :: room != 0 && word[LEFT] == room -> word[LEFT] = room + CLOSED :: else fi };
        owns = false;
        fence_threads();
        if
        :: word[MALLOC] == 0 && word[FREE] == 0 &&
           (word[FIRST] == 0 || word[FIRST] >= CLOSED) &&
           (word[LEFT] == 0 || word[LEFT] >= CLOSED) ->
           is_moving = true;
           assert(!is_slow);
           word[LEFT] = 0;
           take_list(FIRST); take_list(RETURNED); take_list(PRIVATE);
           is_moving = false
        :: else ->
           open_words(); owns = true;
           fence_threads();
           open_words()
        fi
     fi;
     taken = false; first = 0; room = 0
  :: rounds == ROUNDS -> done = true; break
  od
}

inline count_list(which) {
  b = word[which] % CLOSED;
  do :: b != 0 -> assert(is[b] == LISTED); n++; b = word[LINK(b)] :: else -> break od
}

init {
  byte b, n;
  atomic {
    word[FIRST] = (BIN > 0 -> 1 : 0);
    word[LEFT] = ROOM;
    for (b : 1 .. NB) {
      is[b] = (b <= BIN -> LISTED : HELD);
      word[LINK(b)] = (b < BIN -> b + 1 : 0)
    }
    b = 0;
    run thread(); run taker(); run queue()
  };
  atomic {
    ended && done && length == 0 ->
    count_list(RETURNED);
    assert(word[LEFT] + n <= ROOM);       /* no more room than there is, and none is closed */
    count_list(FIRST); count_list(PRIVATE);
    for (b : 1 .. NB) { if :: is[b] == LISTED -> n-- :: else fi };
    assert(n == 0)                        /* what is on a list by rights is found there */
  }
}
