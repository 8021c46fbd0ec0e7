/* adopt.c - the target's freehold, as this process's own
 * Contract: adopt.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "adopt.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../include/freehold/freehold.h"
#include "../../src/base/layout.h"
#include "../../src/stock/huge.h"
#include "../../src/stock/pool.h"
#include "target.h"

enum { NOTES_MOST = 4096, PARTS_MOST = 64, ROWS_MOST = 256, TRIES = 3 };

extern const layout_t layout_table; /* this command's own */

static layout_row_t rows[ROWS_MOST]; /* the target's */
static size_t row_count;
static const char *library = "";

const char *adopt_library(void) { return library; }

/* ---- finding it ------------------------------------------------------------------------------ */

/* The address to which freehold's note leads; 0: it is not among these. `at`: where they lie. */
static uintptr_t find_note(const char *notes, size_t size, uintptr_t at, size_t alignment) {
  Elf64_Nhdr n;
  for (size_t used = 0; used + sizeof n <= size;) {
    memcpy(&n, notes + used, sizeof n);
    size_t name = used + sizeof n, text = (name + n.n_namesz + alignment - 1) & ~(alignment - 1);
    size_t end = (text + n.n_descsz + alignment - 1) & ~(alignment - 1);
    if (end > size || end <= used) return 0;
    int64_t distance;
    if (n.n_namesz == sizeof "freehold" && memcmp(notes + name, "freehold", n.n_namesz) == 0 &&
        n.n_descsz == sizeof distance) {
      memcpy(&distance, notes + text, sizeof distance);
      return at + text + (uintptr_t)distance;
    }
    used = end;
  }
  return 0;
}

/* `base`: where the file's first page is mapped. 0: freehold is not in this file. */
static uintptr_t find_table(uintptr_t base) {
  Elf64_Ehdr head;
  Elf64_Phdr part[PARTS_MOST];
  char notes[NOTES_MOST];
  uintptr_t first = UINTPTR_MAX;
  if (target_read(base, &head, sizeof head) != sizeof head) return 0;
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64) return 0;
  size_t count = min_size(head.e_phnum, PARTS_MOST);
  if (target_read(base + head.e_phoff, part, count * sizeof *part) != count * sizeof *part)
    return 0;
  for (size_t i = 0; i < count; i++)
    if (part[i].p_type == PT_LOAD) first = min_size(first, part[i].p_vaddr - part[i].p_offset);
  for (size_t i = 0; i < count; i++) {
    if (part[i].p_type != PT_NOTE) continue;
    uintptr_t at = base + part[i].p_vaddr - first;
    size_t got = target_read(at, notes, min_size(part[i].p_filesz, sizeof notes));
    uintptr_t table = find_note(notes, got, at, part[i].p_align == 8 ? 8 : 4);
    if (table != 0) return table;
  }
  return 0;
}

/* What the target's table has, compared with this command's. */
static const layout_row_t *row_named(const char *name) {
  for (size_t i = 0; i < row_count; i++)
    if (strncmp(rows[i].name, name, sizeof rows[i].name) == 0) return &rows[i];
  return NULL;
}

uintptr_t adopt_address(const void *mine) {
  for (const layout_row_t *row = layout_table.rows; row < layout_table.end; row++) {
    size_t offset = (uintptr_t)mine - (uintptr_t)row->at;
    if (row->at != NULL && offset < row->value) return (uintptr_t)row_named(row->name)->at + offset;
  }
  return (uintptr_t)mine;
}

/* The secure grade has other lists than this command, which has the default grade's code. */
static bool is_secure(const layout_t *its) {
  return (its->version ^ layout_table.version) == 1u << 16;
}

static bool refuse_secure(void) {
  fprintf(stderr,
          "freehold: %s has the secure grade ('%s'), which no command reads from outside: "
          "FREEHOLD_OPTIONS=stats:exit, or fh_stats_get in the program, has its figures\n",
          target_title(), library);
  return false;
}

static bool has_other_layout(const layout_t *its) {
  const char *mine = layout_table.library;
  fprintf(stderr, "freehold: %s has freehold %.16s, layout %u; this command reads ", target_title(),
          its->library, its->version);
  if (its->version != layout_table.version || strncmp(its->library, mine, sizeof its->library) != 0)
    return fprintf(stderr, "%s, layout %u: use the command that came with %s\n", mine,
                   layout_table.version, library),
           false;
  for (const layout_row_t *row = layout_table.rows; row < layout_table.end; row++) {
    const layout_row_t *found = row_named(row->name);
    if (found != NULL && found->value == row->value) continue;
    fprintf(stderr,
            "another build, in which '%s' is otherwise: use the command that came with %s\n",
            row->name, library);
    break;
  }
  return false;
}

static bool is_my_version(const layout_t *its) {
  return its->version == layout_table.version && its->row_size == layout_table.row_size &&
         strncmp(its->library, layout_table.library, sizeof its->library) == 0;
}

/* False: the target has ended. */
static bool read_rows(const layout_t *its) {
  row_count = min_size((size_t)(its->end - its->rows), ROWS_MOST);
  size_t size = row_count * sizeof *rows;
  return target_read((uintptr_t)its->rows, rows, size) == size;
}

static bool is_my_layout(void) {
  for (const layout_row_t *row = layout_table.rows; row < layout_table.end; row++) {
    const layout_row_t *found = row_named(row->name);
    if (found == NULL || found->value != row->value) return false;
  }
  return true;
}

/* More than the library ever has are there only if its memory is damaged. */
static bool are_few(void) {
  size_t places = (size_t)PLACES_CHUNKS * PLACES_IN_CHUNK;
  return arena_count() <= ARENA_MOST && pool_size() <= places && huge_pool_size() <= places;
}

static bool copy_variables(void) {
  for (const layout_row_t *row = layout_table.rows; row < layout_table.end; row++) {
    if (row->at == NULL) continue;
    uintptr_t from = (uintptr_t)row_named(row->name)->at;
    if (target_read(from, (void *)row->at, row->value) != row->value) return false;
  }
  return are_few();
}

/* Does anything of this process lie where the target has what its freehold leads to? The target's
 * stacks and libc's own heap are not that. */
static bool is_in_the_way(void) {
  FILE *maps = fopen("/proc/self/maps", "re");
  char line[512];
  bool found = false;
  while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
    unsigned long from, to;
    if (sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
    for (size_t i = 0; i < target_range_count(); i++) {
      const target_range_t *r = target_range(i);
      if (r->is_writable && r->path[0] != '[' && r->from < to && r->to > from) found = true;
    }
  }
  if (maps != NULL) fclose(maps);
  return found;
}

/* Another start puts this process elsewhere: at random, or where the system does not do that, below
 * a larger room for the stack. */
static bool start_elsewhere(void) {
  extern char **environ;
  const char *tried = getenv("FREEHOLD_COMMAND_TRIES");
  int tries = tried == NULL ? 0 : atoi(tried);
  char number[16], arguments[64 << 10];
  char *list[1024];
  size_t count = 0;
  FILE *file = fopen("/proc/self/cmdline", "re");
  size_t size = file == NULL ? 0 : fread(arguments, 1, sizeof arguments - 1, file);
  if (file != NULL) fclose(file);
  arguments[size] = '\0';
  for (char *at = arguments; at < arguments + size && count < 1023; at += strlen(at) + 1)
    list[count++] = at;
  list[count] = NULL;
  snprintf(number, sizeof number, "%d", tries + 1);
  struct rlimit stack;
  personality((unsigned long)personality(0xFFFFFFFF) & ~(unsigned long)ADDR_NO_RANDOMIZE);
  if (tries > 1 && getrlimit(RLIMIT_STACK, &stack) == 0) {
    stack.rlim_cur = (rlim_t)tries << 36;
    setrlimit(RLIMIT_STACK, &stack);
  }
  if (tries < 16 && count != 0 && setenv("FREEHOLD_COMMAND_TRIES", number, 1) == 0)
    execve("/proc/self/exe", list, environ);
  fprintf(stderr, "freehold: what %s has lies where this command is loaded; try again\n",
          target_title());
  return false;
}

/* ---- which one ------------------------------------------------------------------------------- */

typedef struct {
  const target_range_t *range; /* NULL: none */
  uintptr_t table;
  layout_t layout;
} copy_t;

/* Of two in a process that one serves malloc, as a rule, which the dynamic linker meets first: the
 * program's own, which lies lowest, or the library. Any other is a plug-in's. */
static unsigned rank_of(const copy_t *c, const char *program) {
  if (c->range == NULL) return 0;
  if (strcmp(c->range->path, program) == 0) return 3;
  return strncmp(strrchr(c->range->path, '/'), "/libfreehold", 12) == 0 ? 2 : 1;
}

/* False: there is none, or its note leads nowhere. */
static bool read_copy(const target_range_t *range, copy_t *found) {
  found->range = range;
  found->table = find_table(range->from);
  return found->table != 0 &&
         target_read(found->table, &found->layout, sizeof found->layout) == sizeof found->layout &&
         strncmp(found->layout.magic, LAYOUT_MAGIC, sizeof found->layout.magic) == 0;
}

/* How many there are: the best, and another. */
static size_t find_copies(copy_t *best, copy_t *other) {
  const char *program = NULL, *damaged = NULL;
  size_t count = 0;
  for (size_t i = 0; i < target_range_count(); i++) {
    const target_range_t *range = target_range(i);
    copy_t found;
    if (range->offset != 0 || !range->is_readable || range->path[0] != '/') continue;
    if (program == NULL) program = range->path;
    if (!read_copy(range, &found)) {
      if (found.table != 0) damaged = range->path;
      continue;
    }
    count++;
    bool is_better = rank_of(&found, program) >= rank_of(best, program);
    *other = is_better ? *best : found;
    if (is_better) *best = found;
  }
  if (count == 0 && damaged != NULL)
    fprintf(stderr, "freehold: '%s' in %s has a note of freehold that leads nowhere\n", damaged,
            target_title());
  else if (count == 0)
    fprintf(stderr,
            "freehold: no freehold in %s: start it by 'freehold run', or link it with the library "
            "(1.0 or later)\n",
            target_title());
  return count;
}

bool adopt_open(void) {
  copy_t found = {.range = NULL}, other = {.range = NULL};
  size_t count = find_copies(&found, &other);
  if (count == 0) return false;
  library = strdup(found.range->path);
  if (is_secure(&found.layout)) return refuse_secure();
  if (!is_my_version(&found.layout)) return has_other_layout(&found.layout);
  bool is_read = read_rows(&found.layout);
  if (is_read && !is_my_layout()) return has_other_layout(&found.layout);
  if (is_read && is_in_the_way()) return start_elsewhere();
  if (!is_read || !copy_variables())
    return fprintf(stderr, "freehold: %s cannot be read any more\n", target_title()), false;
  if (count > 1)
    fprintf(stderr, "freehold: %s has freehold %zu times: this is that of '%s', not of '%s'\n",
            target_title(), count, library, other.range->path);
  return true;
}

bool adopt_renew(void) { return target_renew() && copy_variables(); }

bool adopt_run(void (*work)(void *context), void *context) {
  for (int i = 1; i <= TRIES; i++) {
    size_t lacking = 0;
    if (target_try(work, context, i < TRIES ? NULL : &lacking)) {
      if (lacking != 0)
        fprintf(stderr,
                "freehold: %s changed while it was read, %d times: %zu pages are not "
                "there, and the figures lack what was in them\n",
                target_title(), TRIES, lacking);
      return true;
    }
    if (adopt_renew()) continue;
    if (!target_is_process() || target_is_alive()) break;
    fprintf(stderr, "freehold: %s has ended\n", target_title());
    return false;
  }
  fprintf(stderr, "freehold: %s changed too quickly, or its memory is damaged: read %d times\n",
          target_title(), TRIES);
  return false;
}
