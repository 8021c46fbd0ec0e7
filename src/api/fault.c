/* fault.c - what is said of a block in a line about a mistake, and of a fault          layer 8: api
 * Owns:    nothing.   Called by: lifecycle.c, callback.c.
 *          Calls: heap, stock, slab, arena, support, os.
 * Threads: any; also the handler of SIGSEGV, with a heap marked or not. Bare system calls write the
 *          line, and its memory comes from the system. */
#include "api.h"

#include "../stock/stock.h"
#include "../support/callstack.h"
#include "../support/trace.h"

enum { FRAMES = 2 * GUARD_FRAMES + TRACE_FRAMES, FILE_NAME_MOST = 40, FAULT_LINE_MOST = 8192 };

/* Where a frame lies. */
typedef struct {
  uint64_t ip, offset; /* in the file */
  char name[FILE_NAME_MOST];
} frame_t;
typedef struct {
  char line[FAULT_LINE_MOST], text[OS_IMAGES_TEXT];
  guard_stack_t here, allocation, release; /* for a mistake; a fault's stacks are in its slot */
  frame_t frames[FRAMES];
  unsigned count;
} fault_line_t;

/* ---- call stacks ----------------------------------------------------------------------------- */

static void add_frames(fault_line_t *t, const guard_stack_t *stack) {
  unsigned count = (unsigned)min_size(atomic32_load_relaxed(&stack->count), GUARD_FRAMES);
  for (unsigned i = 0; i < count; i++)
    t->frames[t->count++].ip = atomic64_load_relaxed(&stack->frames[i]);
}

static void name_frames(const os_image_t *image, void *context) {
  fault_line_t *t = context;
  const char *slash = strrchr(image->path, '/'), *name = slash == NULL ? image->path : slash + 1;
  for (unsigned i = 0; i < t->count; i++) {
    frame_t *f = &t->frames[i];
    if (f->ip - image->from >= image->to - image->from) continue;
    f->offset = f->ip - image->from + image->offset;
    memcpy(f->name, name, min_size(strlen(name), FILE_NAME_MOST - 1)); /* the rest is zero */
  }
}

/* Finds the names of the images to which two stacks lead. */
static void find_names(fault_line_t *t, const guard_stack_t *one, const guard_stack_t *other) {
  add_frames(t, one);
  add_frames(t, other);
  os_each_image(t->text, name_frames, t);
}

static const frame_t *find_frame(const fault_line_t *t, uint64_t ip) {
  for (unsigned i = 0; t != NULL && i < t->count; i++)
    if (t->frames[i].ip == ip && t->frames[i].name[0] != '\0') return &t->frames[i];
  return NULL;
}

static void put_stack(fmt_t *out, const fault_line_t *t, const char *what,
                      const guard_stack_t *stack) {
  unsigned count = (unsigned)min_size(atomic32_load_relaxed(&stack->count), GUARD_FRAMES);
  fmt_print(out, "%s%u%s", what, atomic32_load_relaxed(&stack->thread), count != 0 ? " at" : "");
  for (unsigned i = 0; i < count; i++) {
    uint64_t ip = atomic64_load_relaxed(&stack->frames[i]);
    const frame_t *f = find_frame(t, ip);
    fmt_char(out, ' ');
    if (f != NULL) fmt_shown(out, f->name, strlen(f->name), FILE_NAME_MOST), fmt_char(out, '+');
    fmt_hex(out, f != NULL ? f->offset : ip);
  }
}

/* ---- the line -------------------------------------------------------------------------------- */

static void put_distance(fmt_t *out, const char *what, uint64_t bytes, const char *where) {
  fmt_print(out, "%s%lu byte%s %s", what, bytes, bytes == 1 ? "" : "s", where);
}

/* Where `at` lies beside a live block. */
static void put_where(fmt_t *out, const guard_slot_t *s, uintptr_t at) {
  uintptr_t block = (uintptr_t)atomic_ptr_load_relaxed(&s->block);
  uintptr_t end = block + atomic64_load_relaxed(&s->asked);
  if (at >= end) put_distance(out, "overflow by ", at - end + 1, "behind");
  else put_distance(out, "underflow by ", block - at, "before");
}

/* `what` is NULL if the access faulted. */
static void put_line(fmt_t *out, const fault_line_t *t, const char *what, const guard_slot_t *s,
                     const void *at) {
  bool is_freed = atomic32_load_relaxed(&s->state) == GUARD_FREED;
  fmt_text(out, "freehold: ");
  if (what != NULL) fmt_print(out, "%s of", what);
  else if (is_freed) fmt_text(out, "use after free of");
  else put_where(out, s, (uintptr_t)at);
  put_distance(out, " a block of ", atomic64_load_relaxed(&s->asked), "at ");
  fmt_print(out, "%p: %p in thread %u", atomic_ptr_load_relaxed(&s->block), at, os_thread_number());
  put_stack(out, t, "; allocated by thread ", &s->allocation);
  if (is_freed) put_stack(out, t, "; freed by thread ", &s->release);
}

/* `what`: as above. */
static void write_fault(const char *what, const guard_slot_t *s, const void *at) {
  char little[256]; /* the handler's stack may be small */
  fmt_t out;
  fault_line_t *t = os_map(sizeof *t);
  if (t == NULL) {
    fmt_start(&out, little, sizeof little, NULL, NULL);
  } else {
    fmt_start(&out, t->line, sizeof t->line, NULL, NULL);
    find_names(t, &s->allocation, &s->release);
  }
  put_line(&out, t, what, s, at);
  out.text[out.used] = '\n'; /* T1: there is room */
  os_write(2, out.text, out.used + 1);
  if (t != NULL) os_unmap(t, sizeof *t);
}

/* The block around an address. */
typedef struct {
  const void *at;
  size_t size;              /* bytes */
  const sampled_t *sampled; /* NULL: not sampled, or free */
} block_t;

static bool find_in_span(const void *p, block_t *found) {
  unsigned pages;
  const void *run = span_around(p) != NULL ? span_find(p, &pages) : NULL;
  if (run != NULL) *found = (block_t){run, (size_t)pages << SPAN_PAGE_SHIFT, NULL};
  return run != NULL;
}

static bool find_block(const void *p, block_t *found) {
  uintptr_t tenant = map_find(p), offset = (uintptr_t)p % SLICE_SIZE;
  huge_t *b = map_record(tenant);
  if (map_kind(tenant) == TENANT_HUGE) {
    const sampled_t *sampled = sampled_blocks(&b->sampled) != 0 ? &b->sampled : NULL;
    *found = (block_t){huge_base(b), atomic64_load_relaxed(&b->size), sampled};
    return true;
  }
  if (map_kind(tenant) != TENANT_ARENA || !heap_owns(p)) return false;
  const slab_t *s = slab_of(p);
  uint32_t word = slab_word(s);
  size_t size = atomic64_load_relaxed(&s->size);
  if (slab_kind(word) == SLAB_SMALL) size = class_size(word), offset %= size;
  else if (slab_kind(word) != SLAB_LARGE) return find_in_span(p, found);
  const sampled_t *sampled = (word & SLAB_IS_SAMPLED) != 0 ? &s->sampled : NULL;
  *found = (block_t){(const char *)p - offset, size, sampled};
  return true;
}

static void find_stack(guard_stack_t *stack, const sampled_t *block) {
  const uintptr_t *frames;
  const callstack_t *s = callstack_at(sampled_stack(block), &frames);
  size_t count = s != NULL ? min_size(callstack_length(s), GUARD_FRAMES) : 0;
  guard_set_stack(stack, atomic32_load_relaxed(&block->thread), frames, count);
}

/* For a double free, which looks like an invalid pointer if something else lies there now: finds
 * the earlier free, if rings are kept (option `trace_ring`). */
static bool find_last_free(const char *what, const void *p, trace_event_t *e) {
  bool may_be = strncmp(what, "double free", 11) == 0 || strncmp(what, "invalid pointer", 15) == 0;
  return may_be && trace_find_free((uintptr_t)p, e);
}

cold void api_put_block(fmt_t *out, const char *what, const void *p) {
  block_t b = {NULL, 0, NULL};
  trace_event_t before;
  if (p != NULL && find_block(p, &b))
    fmt_print(out, "; its block has %lu bytes at %p", b.size, b.at);
  bool was_freed = find_last_free(what, p, &before);
  fault_line_t *t = was_freed || callstack_is_started() ? os_map(sizeof *t) : NULL;
  if (t == NULL) return;
  guard_note_stack(&t->here);
  if (b.sampled != NULL) find_stack(&t->allocation, b.sampled);
  if (was_freed) guard_set_stack(&t->release, before.thread, before.frames, before.frame_count);
  add_frames(t, &t->release);
  find_names(t, &t->here, &t->allocation);
  if (was_freed) {
    const char *doubt = before.failed ? ", perhaps not for the last time," : "";
    fmt_print(out, "; freed %lu us before%s", before.time / 1000, doubt);
    put_stack(out, t, " by thread ", &t->release);
  }
  put_stack(out, t, "; called by thread ", &t->here);
  if (b.sampled != NULL) put_stack(out, t, "; allocated by thread ", &t->allocation);
  os_unmap(t, sizeof *t);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void write_empty(const void *at) {
  char line[128];
  fmt_t out;
  fmt_start(&out, line, sizeof line, NULL, NULL);
  fmt_print(&out, "freehold: access to a block of no bytes: %p\n", at);
  os_write(2, line, out.used);
}

/* True: the fault was ours, and has been reported. */
static bool on_fault(const void *at) {
  uintptr_t tenant = map_find(at);
  if (map_kind(tenant) == TENANT_EMPTY) return write_empty(at), true;
  if (map_kind(tenant) != TENANT_GUARDED) return false;
  const guard_slot_t *s = guard_slot_of(map_record(tenant), at);
  if (s == NULL || atomic32_load_relaxed(&s->state) == GUARD_UNUSED) return false;
  write_fault(NULL, s, at);
  return true;
}

void api_guard_start(void) {
  uint64_t interval = (uint64_t)option_get(OPTION_guard_interval);
  if (interval == 0) return;
  if (!guard_start(write_fault)) return;
  os_on_fault(on_fault);
  sample_start_guards(interval);
}
