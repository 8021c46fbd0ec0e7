/* held.c - the memory in a heap that is not in the program's hands                   layer 5: stock
 * Contract: held.h. */
#include "held.h"

#include "stock.h"

static size_t length(uintptr_t block) {
  size_t n = 0;
  for (; block != 0 && n < UINT16_MAX; block = block_next(block)) n++;
  return n;
}

static size_t ready_blocks(const heap_t *h, unsigned c) {
  size_t cut = sample_is_cut(h, c) ? length(sample_of(h)->behind[c]) : 0;
  return length(h->bin[c] & ~BIN_CLOSED) + cut + heap_fresh(h, c).count;
}

/* A handler may see a list in the middle of a change: it then ends too soon. */
static size_t freed_blocks(const heap_t *h, unsigned c) {
  size_t n = returned_count(h, c);
  for (const slab_t *s = owned_first(h, c); s != NULL; s = s->next) /* Bound: owned slabs */
    n += slab_private_count(s);
  return n;
}

static size_t put_off_bytes(const heap_t *h) {
  size_t bytes = 0;
  unsigned slot = 0;
  for (batch_t *b; (b = outbox_next(h, &slot)) != NULL;) { /* Bound: the slots */
    const slab_t *s = (slab_t *)((uintptr_t)b->slab & ~CHAIN_CLOSED);
    bytes += batch_count(b) * class_size(slab_class(s));
  }
  if (h->aside->wide == 0) return bytes;
  for (unsigned i = 0; i < FETCHES; i++) {
    const slab_t *s = slab_of((void *)h->aside->fetched[i]);
    bool is_block = h->aside->fetched[i] != 0 && slab_kind(slab_word(s)) == SLAB_SMALL;
    if (is_block) bytes += class_size(slab_class(s));
  }
  return bytes;
}

held_t heap_held(const heap_t *h) {
  held_t held = {0, h->put_off != 0 ? put_off_bytes(h) : 0};
  for (unsigned c = 0; (c = heap_next_class(h, c)) != 0;) { /* Bound: the classes */
    held.ready += ready_blocks(h, c) * class_size(c);
    held.freed += freed_blocks(h, c) * class_size(c);
  }
  return held;
}

held_t held_sum(held_t a, held_t b) { return (held_t){a.ready + b.ready, a.freed + b.freed}; }

held_t held_less(held_t a, held_t b) { return (held_t){a.ready - b.ready, a.freed - b.freed}; }

held_t held_moved(const heap_t *h) {
  return (held_t){atomic64_load_relaxed(&h->own->moved_ready),
                  atomic64_load_relaxed(&h->own->moved_freed)};
}

held_t held_in_all(const heap_t *h) { return held_sum(heap_held(h), held_moved(h)); }

void held_set_moved(heap_t *h, held_t moved) {
  held_t now = held_moved(h);
  if (moved.ready == now.ready && moved.freed == now.freed) return; /* its page may be untouched */
  atomic64_store_relaxed(&h->own->moved_ready, moved.ready);
  atomic64_store_relaxed(&h->own->moved_freed, moved.freed);
}

void held_take_off(held_t held) {
  if (slab_thread.is_asked) slab_thread_count(0 - held.ready - held.freed, 0 - held.ready);
}

void held_take_off_all(const heap_t *h) {
  if (unlikely(slab_thread.is_asked)) held_take_off(held_in_all(h));
}

out_of_line void held_add(heap_t *h) {
  held_set_moved(h, (held_t){0, 0});
  if (likely(!slab_thread.is_asked)) return;
  held_t held = heap_held(h);
  slab_thread_count(held.ready + held.freed, held.ready);
}
