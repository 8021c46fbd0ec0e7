/* index.c - the large and huge blocks of a first-class heap, found from its lanes    layer 5: stock
 * Contract: index.h.
 * Sync:    S-index  index_add_chunk, index_set (release) -> index_each, show (acquire): a chunk,
 *                   a block's descriptor.
 *          S-leave  leave (release) -> leave of the last one (acquire): the chunk, which is freed.
 *          S-bit    leave -> bitmap_claim_some.
 * Holds:   F2 a taken cell is empty, or has the descriptor of a block that has its memory. The
 *             block's `cell` is this cell, or is about to be */
#include "index.h"

enum {
  CELLS = 55,
  LOOKS = 32, /* chunks in each of three searches, before the index gets another */
};
static const uint64_t cell_bits = ((uint64_t)1 << CELLS) - 1;
static const uint64_t lane_bit = (uint64_t)1 << 63;
/* Of `lane_bytes`: the sum is below it, the mark above. */
static const uint64_t mark_unit = (uint64_t)1 << 48;

typedef struct chunk chunk_t;
struct chunk {
  chunk_t *next;   /* const */
  atomic64_t key;  /* as if the block were free: visitors skip it */
  atomic64_t left; /* free cells; lane_bit: the lane has ended; the rest: 1 */
  /* in the first chunk, for the lane's user: the cell for the next block; where the next searches
   * begin, among all chunks and among the newest */
  atomic_ptr_t *spare;
  chunk_t *at, *near;
  /* const: the lane's sum, and its mark, which no later index has. Not by way of the lane, which
   * may be discarded by then. */
  atomic64_t *bytes;
  uint64_t mark;
  atomic_ptr_t heap; /* the lane's first-class heap, until it ends. relaxed: compared alone */
  atomic_ptr_t cells[CELLS]; /* slab_t *, or huge_t * and 1; NULL: none yet */
} aligned_to(INDEX_CHUNK_SIZE);
_Static_assert(sizeof(chunk_t) == INDEX_CHUNK_SIZE, "a chunk is found from its cells");

static chunk_t *chunk_of(const void *cell) {
  return (chunk_t *)align_down((uintptr_t)cell, INDEX_CHUNK_SIZE);
}
/* relaxed: only its user writes it */
static chunk_t *first_chunk(const heap_t *h) { return atomic_ptr_load_relaxed(&h->index); }

static uint64_t free_cells(const chunk_t *c) {
  return atomic64_load_relaxed(&c->left) & cell_bits; /* relaxed: the claim decides */
}

static atomic_ptr_t *take_cell(chunk_t *c) {
  uint64_t bit = (uint64_t)1 << bits_lowest(free_cells(c));
  atomic_ptr_t *cell = &c->cells[bits_lowest(bit)];
  bitmap_claim_some(&c->left, bit); /* nobody else claims it */
  atomic_ptr_store_relaxed(cell, NULL);
  return cell;
}

/* A block may be counted out before it is counted in. */
int64_t index_lane_bytes(const heap_t *lane) {
  int64_t bytes = (int64_t)(atomic64_load_relaxed(&lane->own->lane_bytes) % mark_unit);
  return bytes < (int64_t)mark_unit / 2 ? bytes : bytes - (int64_t)mark_unit;
}

/* Begins the lane's sum, with a mark that no other has. */
static void begin_sum(heap_t *lane) {
  static atomic64_t marks; /* modulo 2^16; 0 is none */
  uint64_t mark = 0;
  while (mark == 0) mark = atomic64_add_relaxed(&marks, mark_unit); /* Bound: 2 */
  atomic64_store_relaxed(&lane->own->lane_bytes, mark);
}

/* `block` becomes the lane's first chunk. */
void index_add_chunk(heap_t *lane, void *block) {
  chunk_t *c = block, *first = first_chunk(lane);
  ASSERT((uintptr_t)block % INDEX_CHUNK_SIZE == 0);
  block_set_free((uintptr_t)c);
  memset(c->cells, 0, sizeof c->cells);
  atomic64_store_relaxed(&c->left, ~lane_bit);
  c->next = first;
  if (first == NULL) begin_sum(lane);
  c->bytes = &lane->own->lane_bytes;
  c->mark = atomic64_load_relaxed(c->bytes) / mark_unit;
  atomic_ptr_store_relaxed(&c->heap, heap_tag(lane));
  c->at = first != NULL ? first->at : c;
  c->near = c;
  c->spare = take_cell(c);
  atomic_ptr_store_release(&lane->index, c); /* S-index */
}

/* The next chunk from the cursor on that has a free cell. */
static chunk_t *look(chunk_t *first, chunk_t **cursor) {
  for (int looks = 0; looks < LOOKS; looks++) {
    if (free_cells(*cursor) != 0) return *cursor;
    *cursor = (*cursor)->next != NULL ? (*cursor)->next : first;
  }
  return NULL;
}

/* Programs usually free the newest blocks first, so one cursor stays near the first chunk. The
 * other goes through all chunks, to find cells freed elsewhere as well. */
static chunk_t *chunk_with_room(chunk_t *first) {
  chunk_t *c = look(first, &first->near);
  if (c != NULL) return c;
  first->near = first;
  c = look(first, &first->near);
  return c != NULL ? c : look(first, &first->at);
}

bool index_prepare(heap_t *lane) {
  chunk_t *first = first_chunk(lane), *with_room;
  if (index_cell(lane) != NULL) return true;
  if (first == NULL || (with_room = chunk_with_room(first)) == NULL) return false;
  first->spare = take_cell(with_room);
  return true;
}

void *index_cell(const heap_t *h) {
  chunk_t *first = first_chunk(h);
  return first != NULL && atomic_ptr_load_relaxed(first->spare) == NULL ? first->spare : NULL;
}

static bool cell_is_valid(const atomic_ptr_t *cell, bool is_huge) {
  HOLDS(F2, is_huge || atomic_ptr_is_relaxed(cell, NULL));
  return true;
}

void index_set(void *cell, void *descriptor, bool is_huge) {
  if (cell == NULL) return;
  ASSERT_VALID(cell_is_valid(cell, is_huge));
  atomic_ptr_store_release((atomic_ptr_t *)cell, (char *)descriptor + is_huge); /* S-index */
}

static void leave(chunk_t *c, uint64_t bit) {
  uint64_t left = atomic64_or_acq_rel(&c->left, bit) | bit; /* S-leave, S-bit */
  if (~left != 0) return;
  slab_t *s = slab_of(c);
  slab_thread_count(class_size(slab_class(s)), 0); /* no block of the program's is freed here */
  slab_free_one(s, (uintptr_t)c);                  /* the usual free may lead through here */
}

void index_give_back(void *cell) {
  chunk_t *c = chunk_of(cell);
  leave(c, (uint64_t)1 << ((atomic_ptr_t *)cell - c->cells));
}

void *index_heap(const void *cell) {
  return cell != NULL ? atomic_ptr_load_relaxed(&chunk_of(cell)->heap) : NULL;
}

/* A block may outlive its heap by so many indexes that its mark comes back, so it checks for the
 * heap first. The heap may end right after that, so it also compares the mark. */
void index_count(const void *cell, uint64_t more) {
  if (index_heap(cell) == NULL) return;
  const chunk_t *c = chunk_of(cell);
  uint64_t before = atomic64_load_relaxed(c->bytes), after;
  do {
    if (before / mark_unit != c->mark) return;
    after = c->mark * mark_unit + (before + more) % mark_unit;
  } while (!atomic64_cas_relaxed(c->bytes, &before, after)); /* Progress: another has counted */
}

/* Shows the cell's block, unless a thread is freeing it or stopped while doing so. */
static bool show(atomic_ptr_t *cell, index_visitor_t *visitor, void *context) {
  uintptr_t entry = (uintptr_t)atomic_ptr_load_acquire(cell); /* S-index */
  slab_t *s = (slab_t *)entry;
  huge_t *b = (huge_t *)(entry - 1);
  if (entry % 2 == 0) {
    bool belongs = s != NULL && atomic_ptr_is_relaxed(&s->cell, cell);
    return !belongs || slab_kind(slab_word(s)) != SLAB_LARGE || visitor(s, NULL, context);
  }
  bool belongs = atomic_ptr_is_relaxed(&b->cell, cell) && atomic64_load_relaxed(&b->mapped) != 0;
  return !belongs || visitor(NULL, b, context);
}

bool index_each(const heap_t *lane, index_visitor_t *visitor, void *context) {
  chunk_t *c = atomic_ptr_load_acquire(&lane->index); /* S-index: and all that it leads to */
  for (; c != NULL; c = c->next)                      /* Bound: the lane's chunks */
    for (uint64_t w = ~free_cells(c) & cell_bits; w != 0; w &= w - 1) /* Bound: CELLS */
      if (!show(&c->cells[bits_lowest(w)], visitor, context)) return false;
  return true;
}

void index_forget_heap(heap_t *lane) {
  for (chunk_t *c = first_chunk(lane); c != NULL; c = c->next) /* Bound: the lane's chunks */
    atomic_ptr_store_relaxed(&c->heap, NULL);
}

void index_end(heap_t *lane) {
  chunk_t *c = first_chunk(lane), *next;
  if (c == NULL) return;
  atomic_ptr_store_relaxed(&lane->index, NULL);
  if (atomic_ptr_load_relaxed(c->spare) == NULL) index_give_back(c->spare);
  for (; c != NULL; c = next) { /* Bound: the lane's chunks */
    next = c->next;
    leave(c, lane_bit);
  }
}
