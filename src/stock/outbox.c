/* outbox.c - blocks on their way to slabs of others                                  layer 5: stock
 * Contract: outbox.h. */
#include "outbox.h"

#include "../arena/budget.h"
#include "../slab/holes.h"
#include "magazine.h"
#include "owned.h"

enum {
  WIDE_BYTES = 4096, /* a wide outbox publishes a chain of this many bytes */
  EVICT_PART = 8,    /* one in this many frees that meet another slab's chain publishes it */
  FILLED_PART = 8,   /* a wide one ends if a round found chains in fewer of its slots */
};

/* Is a slab of this class worth owning for the heap? */
static bool wants(const heap_t *h, unsigned c) {
  return heap_has_earned(h, c) && (h->aside->given_up >> c & 1) == 0 &&
         h->own->slab_count[c] < OWNED_MOST;
}

void outbox_push(heap_t *h, slab_t *s, uintptr_t first, uintptr_t last, unsigned count) {
  if (COUNTED) atomic64_add_own(&h->swaps, 1);
  bool is_wanted = slab_is_worth(s, count) && wants(h, slab_class(s));
  slab_outcome_t outcome = slab_push(s, first, last, count, is_wanted ? h : NULL);
  if (outcome == SLAB_OWNED_NOW) owned_add(h, s);
  if (outcome == SLAB_IS_EMPTY) magazine_put_slab(h, s);
}

/* If the heap owns the slab by now, puts the block back into it. Others may have freed the rest. */
static bool put_own(heap_t *h, slab_t *s, uintptr_t block) {
  if (!atomic_ptr_is_relaxed(&s->owner, h)) return false;
  if (slab_put_back(s, block) || slab_is_all_free(s)) owned_note_empty(h, s);
  return true;
}

static void send(heap_t *h, slab_t *s, uintptr_t first, uintptr_t last, unsigned count) {
  bool is_owned = slab_owner(s) != NULL;
  if (COUNTED) atomic64_add_own(is_owned ? &h->remote_frees : &h->shared_frees, count);
  outbox_push(h, s, first, last, count);
}

/* The heap does not own the slab. It did not when the chain began. A heap that takes a slab
 * publishes the slab's chain at that moment, or takes it back (outbox_reclaim). */
static void publish(heap_t *h, batch_t *b) {
  slab_t *s = b->slab;
  uintptr_t base = slab_base(s);
  ASSERT(!atomic_ptr_is_relaxed(&s->owner, h));
  b->slab = NULL;
  if (!outbox_is_wide(h)) h->put_off--;
  send(h, s, base | batch_first(b), base | batch_last(b), batch_count(b));
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* In a narrow outbox it skips slots that were never used. */
batch_t *outbox_next(const heap_t *h, unsigned *slot) {
  const heap_aside_t *a = h->aside;
  for (size_t n = outbox_slot_count(h); *slot < n;) { /* Bound: the slots */
    if (a->wide == 0 && (a->slots >> *slot & 1) == 0) {
      if (a->slots >> *slot == 0) return NULL;
      *slot += bits_lowest(a->slots >> *slot);
    }
    batch_t *b = &outbox_slots(h)[(*slot)++];
    if (b->slab != NULL) return b;
  }
  return NULL;
}

/* For a narrow outbox. */
static void publish_all(heap_t *h) {
  for (uint64_t w = h->aside->slots; w != 0; w &= w - 1) { /* Bound: the bits of a word */
    batch_t *b = &h->aside->batch[bits_lowest(w)];
    if (b->slab != NULL) publish(h, b);
  }
  h->aside->slots = 0;
  h->put_off = 0;
}

static size_t wide_slices(const heap_t *h) {
  size_t bytes = ((size_t)h->aside->wide_last + 1) * sizeof(batch_t);
  return (bytes + SLICE_SIZE - 1) >> SLICE_SHIFT;
}

/* The outbox is empty. */
static void end_wide(heap_t *h) {
  slab_t *s = slab_of(outbox_slots(h));
  h->aside->wide = 0;
  h->aside->is_closing = false;
  h->put_off = 0;
  signal_fence();
  size_t n = wide_slices(h);
  magazine_put_run(h, s, n, n, TOUCHED_ALL);
}

void outbox_check_fetched(const slab_t *s, uintptr_t block) {
  if (slab_kind(slab_word(s)) != SLAB_SMALL || !class_has_block_at((uint16_t)block, s->inverse) ||
      slab_is_on_hole(s, block))
    fatal("double free", (void *)block, "free");
  block_refuse_double_free(block, "free");
}

/* A block that a wide outbox has fetched goes to its slab, or to the slab's chain if any. */
static void put_fetched_block(heap_t *h, uintptr_t block) {
  slab_t *s = slab_of((void *)block);
  batch_t *b = outbox_batch(h, block);
  outbox_check_fetched(s, block);
  if (put_own(h, s, block)) return;
  if (b->slab != s) return send(h, s, block, block, 1);
  if (outbox_add(b, block)) publish(h, b);
}

/* Each goes to its slab's chain if there is one. No chain begins, and the outbox does not end. */
void outbox_put_fetched(heap_t *h) {
  if (h->put_off == 0 || !outbox_is_wide(h)) return;
  for (unsigned i = 0; i < FETCHES; i++) {
    uintptr_t block = h->aside->fetched[i];
    h->aside->fetched[i] = 0;
    if (block != 0) put_fetched_block(h, block);
  }
}

static void begin_closing(heap_t *h) {
  if (h->aside->is_closing) return;
  h->aside->wide_at = 0;
  h->aside->wide_found = 0;
  signal_fence(); /* else a jump leaves slots without their turn */
  h->aside->is_closing = true;
}

/* Publishes the chains in the next `n` slots. An outbox that takes no new chains ends once all
 * slots had their turn. No fetched block is left. */
static void sweep(heap_t *h, unsigned n) {
  heap_aside_t *a = h->aside;
  batch_t *slots = outbox_slots(h);
  unsigned at = a->wide_at, last = a->wide_last;
  ASSERT(outbox_is_wide(h));
  for (; n != 0 && at <= last; n--, at++) {
    if (slots[at].slab == NULL) continue;
    publish(h, &slots[at]);
    a->wide_found++;
  }
  a->wide_at = (uint16_t)(at <= last ? at : 0);
  if (at <= last) return;
  if (a->is_closing) end_wide(h);
  else if (a->wide_found <= last / FILLED_PART) begin_closing(h);
  a->wide_found = 0;
}

/* No other thread has a heap, and this one is the thread's own, not one for its handlers. The first
 * heap of a process may have no word yet. */
static bool is_alone(const heap_t *h) {
  bool has_word = users_thread(heap_number(h)) != 0;
  return users_count() == has_word && (has_word || heap_number(h) == 0);
}

/* How many slots a wide outbox has if it begins now: as many as slices are in use. */
static size_t slots_wanted(void) {
  return min_size((size_t)2 << bits_highest(arena_used() | WIDE_LEAST / 2), WIDE_MOST);
}

/* Other threads that go on allocating would miss what a wide outbox holds back. Nobody takes it
 * from a handler's heap. A thread that asks for its bytes would wait for all slots. The secure
 * grade has no links in clear among the program's slices. */
static bool may_be_wide(const heap_t *h) {
  return !SECURE && is_alone(h) && !slab_thread.is_asked && !budget_is_tight() &&
         heap_tag(h) == NULL;
}

/* A slot in a wide outbox. A chain to be evicted is cold: that costs more than a swap for the block
 * alone. */
static batch_t *wide_slot(heap_t *h, batch_t *b, bool may_stay) {
  heap_aside_t *a = h->aside;
  if (!may_stay) begin_closing(h);
  if (a->is_closing) return NULL;
  if (b->slab == NULL) return b;
  if (a->crowded % EVICT_PART != 0) return NULL;
  publish(h, b);
  return b;
}

/* A slot for a new chain: `b`, or NULL if there is none. */
static batch_t *slot_for(heap_t *h, batch_t *b) {
  heap_aside_t *a = h->aside;
  bool is_wide = outbox_is_wide(h);
  if (b->slab == NULL && !is_wide) return b;
  if (a->crowded < CROWDED_MOST) a->crowded++;
  bool is_crowded = a->crowded == CROWDED_MOST, may_be = is_crowded && may_be_wide(h);
  if (is_wide && may_be) may_be = slots_wanted() <= outbox_slot_count(h);
  if (is_crowded && (is_wide || !may_be)) a->crowded = 0; /* else it is due */
  if (may_be) a->is_closing = false;
  if (is_wide) return wide_slot(h, b, !is_crowded || may_be);
  publish(h, b);
  return b;
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* How many blocks make a chain due: no more than the slab lacks to be empty, as far as is known
 * when the chain begins. */
static unsigned due_after(const heap_t *h, const slab_t *s) {
  size_t size = class_size(slab_class(s)), bytes = outbox_is_wide(h) ? WIDE_BYTES : BATCH_BYTES;
  size_t most = (bytes + size - 1) / size;
  anchor_t a = anchor_unpack(atomic64_load_relaxed(&s->anchor));      /* relaxed: a hint */
  size_t lacking = a.carved != 0 ? a.carved - a.count : BATCH_BLOCKS; /* 0: it is owned */
  return (unsigned)min_size(min_size(most, BATCH_BLOCKS), lacking);
}

/* Begins a chain with a block whose slab has none. */
static void begin_chain(heap_t *h, batch_t *b, slab_t *s, uintptr_t block) {
  uint64_t chain = (uint64_t)due_after(h, s) << 48 | (uint64_t)(uint16_t)block << 16;
  block_link(block, 0);
  if (!outbox_is_wide(h)) {
    h->put_off++;
    h->aside->slots |= (uint64_t)1 << (b - h->aside->batch);
  }
  atomic64_store_relaxed(&b->word, chain + (uint16_t)block + batch_one);
  signal_fence();
  b->slab = s;
}

/* True: so much waits that all of it is due. Each time this happens, more may wait the next time.
 * So a heap that frees many blocks of others, spread over many slabs, needs few swaps. A heap that
 * freed a little, and whose thread then sleeps, holds next to nothing back. */
static bool note_much(heap_t *h) {
  bool are_many = users_are_many();
  if (outbox_is_wide(h)) {
    if (are_many) begin_closing(h);
    return false;
  }
  if (h->put_off <= PUT_OFF_LEAST + h->aside->put_off_more) return are_many;
  if (h->aside->put_off_more < PUT_OFF_MORE) h->aside->put_off_more++;
  return true;
}

/* Chains the block with others of its slab, unless the heap owns the slab by now. */
void outbox_put(heap_t *h, slab_t *s, uintptr_t block) {
  if (outbox_is_wide(h) && outbox_has_fetched(h, block))
    fatal("double free", (void *)block, "free");
  if (put_own(h, s, block)) return;
  batch_t *b = outbox_batch(h, block);
  bool is_first = b->slab != s;
  if (is_first && (b = slot_for(h, b)) == NULL) return send(h, s, block, block, 1);
  if (is_first) begin_chain(h, b, s, block);
  else outbox_add(b, block);
  if (batch_is_due(b)) publish(h, b);
  if (is_first && note_much(h)) publish_all(h);
}

void outbox_publish_due(heap_t *h, uintptr_t block) {
  batch_t *b = outbox_batch(h, block);
  if (b->slab != NULL && batch_is_due(b)) publish(h, b);
}

void outbox_flush(heap_t *h) {
  if (h->put_off == 0) return; /* the pages of `aside` may be untouched */
  if (!outbox_is_wide(h)) return publish_all(h);
  outbox_put_fetched(h);
  begin_closing(h);
  sweep(h, WIDE_MOST); /* the wide outbox ends */
}

/* The outbox is not wide. */
static void begin_wide(heap_t *h) {
  heap_aside_t *a = h->aside;
  bool is_clean;
  a->crowded = 0;
  if (!may_be_wide(h)) return;
  publish_all(h);
  a->wide_last = (uint16_t)(slots_wanted() - 1);
  size_t n = wide_slices(h);
  void *wide = magazine_claim(h, n, 1, 0, &is_clean);
  if (wide == NULL) return;
  if (!users_are_known()) users_make(); /* so that a taker finds the heap if its thread sleeps */
  *arena_touched_last(wide, n) = TOUCHED_ALL;
  if (!is_clean) memset(wide, 0, ((size_t)a->wide_last + 1) * sizeof(batch_t));
  memset(a->fetched, 0, sizeof a->fetched);
  a->wide_at = a->wide_found = 0;
  signal_fence();
  a->wide = (uintptr_t)wide;
  h->put_off = 1;
}

cold void outbox_tend(heap_t *h) {
  if (!outbox_is_wide(h)) return begin_wide(h);
  outbox_put_fetched(h);
  sweep(h, ROUND_STEP);
}

void outbox_step(heap_t *h) {
  if (h->put_off == 0 || !outbox_is_wide(h)) return outbox_flush(h);
  outbox_put_fetched(h);
  sweep(h, WIDE_STEP);
}

/* The next slots of a wide outbox. A round of all slots publishes as many chains for each call as
 * `crowded` forgets, so the outbox is wide where more frees than that meet another slab's chain. */
void outbox_go_round(heap_t *h) {
  heap_aside_t *a = h->aside;
  if (a->crowded != 0) a->crowded -= (uint16_t)min_size(a->crowded, ROUND_STEP);
  if (h->put_off == 0 || !outbox_is_wide(h)) return;
  if (!may_be_wide(h)) begin_closing(h);
  outbox_put_fetched(h);
  sweep(h, a->is_closing ? WIDE_STEP : ROUND_STEP);
}

out_of_line void outbox_note_refill(heap_t *h) {
  outbox_go_round(h);
  if (h->put_off != 0 && !outbox_is_wide(h)) publish_all(h);
}

void outbox_reclaim(heap_t *h, slab_t *s) {
  if (h->put_off == 0 || !outbox_is_wide(h)) return;
  batch_t *b = outbox_batch(h, slab_base(s));
  if (b->slab != s) return;
  uintptr_t block = slab_base(s) | batch_first(b), next;
  b->slab = NULL;
  for (unsigned n = batch_count(b); n-- != 0; block = next) { /* Bound: BATCH_BLOCKS */
    next = block_next(block);
    slab_put_back(s, block);
  }
}

/* ---- a sleeping thread's --------------------------------------------------------------------- */

void outbox_set_closed(heap_t *h, bool is_closed) {
  if (h->put_off == 0) return;
  if (h->aside->wide != 0) {
    h->aside->wide = (uintptr_t)outbox_slots(h) | (is_closed ? BIN_CLOSED : 0);
    return;
  }
  unsigned slot = 0;
  for (batch_t *b; (b = outbox_next(h, &slot)) != NULL;) { /* Bound: the slots */
    uintptr_t s = (uintptr_t)b->slab & ~CHAIN_CLOSED;
    b->slab = (slab_t *)(is_closed ? s | CHAIN_CLOSED : s);
  }
}

/* Clears `from` before it fills `to`. */
static void move_wide(heap_t *to, heap_t *from) {
  heap_aside_t *a = to->aside, *b = from->aside;
  uintptr_t slots = (uintptr_t)outbox_slots(from), fetched[FETCHES];
  memcpy(fetched, b->fetched, sizeof fetched);
  memset(b->fetched, 0, sizeof b->fetched);
  signal_fence(); /* else a child of fork takes these blocks for chains */
  b->wide = 0;
  b->is_closing = false;
  signal_fence();
  memcpy(a->fetched, fetched, sizeof fetched);
  a->wide_last = b->wide_last;
  a->wide_at = a->wide_found = 0;
  a->is_closing = false;
  a->wide = slots;
  to->put_off = from->put_off;
}

static void move_narrow(heap_t *to, heap_t *from) {
  unsigned slot = 0;
  for (batch_t *b; (b = outbox_next(from, &slot)) != NULL;) { /* Bound: the slots */
    slab_t *s = (slab_t *)((uintptr_t)b->slab & ~CHAIN_CLOSED);
    batch_t *other = outbox_batch(to, slab_base(s));
    b->slab = NULL;
    atomic64_store_relaxed(&other->word, batch_word(b));
    other->slab = s;
    to->aside->slots |= (uint64_t)1 << (other - to->aside->batch);
    to->put_off++;
  }
  from->aside->slots = 0;
}

void outbox_move(heap_t *to, heap_t *from) {
  if (from->put_off == 0) return;
  if (from->aside->wide != 0) move_wide(to, from);
  else move_narrow(to, from);
  from->put_off = 0;
}
