/* images.c - what is mapped from files, by /proc/self/maps                              layer 1: os
 * Owns:    nothing.   Called by: pprof.c, fault.c.   Calls: os.
 * Threads: any. A file that is mapped or unmapped meanwhile may be missing, or seen twice. */
#include <elf.h>
#include <link.h>

#include "../../base/bits.h"
#include "../os.h"

enum { NOTES_MOST = 512, HEADERS_MOST = 24 };
enum { OWN_CLASS = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32 };

typedef struct {
  int file;
  char *text;         /* OS_IMAGES_TEXT bytes */
  size_t used, ready; /* of `text`: read by next_line; read from the file */
} lines_t;

/* The next line without its end; NULL: there is none. */
static char *next_line(lines_t *l) {
  for (;;) { /* Bound: what the file has */
    char *line = l->text + l->used, *end = memchr(line, '\n', l->ready - l->used);
    if (end != NULL) {
      *end = '\0';
      l->used = (size_t)(end - l->text) + 1;
      return line;
    }
    memmove(l->text, line, l->ready - l->used);
    l->ready -= l->used;
    l->used = 0;
    size_t got = os_read(l->file, l->text + l->ready, OS_IMAGES_TEXT - l->ready);
    if (got == 0) return NULL;
    l->ready += got;
  }
}

static uint64_t take_hex(char **at) {
  uint64_t n = 0;
  for (;; ++*at) { /* Bound: the line */
    char c = **at;
    unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;
    if (digit > 15) return n;
    n = n << 4 | digit;
  }
}

/* Parses "from-to rwxp offset device inode   path". Returns the path; "" if there is no file. */
static char *parse_line(char *line, os_image_t *image, bool *is_code, uint64_t *file) {
  char *at = line, *path;
  image->from = take_hex(&at);
  at++;
  image->to = take_hex(&at);
  *is_code = at[3] == 'x';
  at += 6;
  image->offset = take_hex(&at);
  at++;
  uint64_t major = take_hex(&at), minor = (at++, take_hex(&at));
  *file = (major << 20 | minor) << 40 ^ (at++, take_hex(&at));
  path = strchr(at, '/');
  return path != NULL ? path : line + strlen(line);
}

/* The bytes of the note by which a linker identifies its output. */
static size_t find_build_id(const unsigned char *notes, size_t size, const unsigned char **id) {
  ElfW(Nhdr) n;
  for (size_t at = 0; at + sizeof n + 4 <= size;) { /* Bound: NOTES_MOST */
    memcpy(&n, notes + at, sizeof n);
    size_t text = at + sizeof n + align_up(n.n_namesz, 4), end = text + align_up(n.n_descsz, 4);
    if (end > size || end <= at) return 0;
    *id = notes + text;
    if (n.n_type == NT_GNU_BUILD_ID && memcmp(notes + at + sizeof n, "GNU", 4) == 0)
      return n.n_descsz;
    at = end;
  }
  return 0;
}

/* `base`: where the file's first page is mapped. */
static size_t read_build_id(uintptr_t base, unsigned char notes[NOTES_MOST],
                            const unsigned char **id) {
  ElfW(Ehdr) file;
  ElfW(Phdr) part[HEADERS_MOST];
  if (!os_copy(&file, (void *)base, sizeof file)) return 0;
  if (memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_ident[EI_CLASS] != OWN_CLASS) return 0;
  size_t count = min_size(file.e_phnum, HEADERS_MOST), first = SIZE_MAX;
  if (!os_copy(part, (void *)(base + file.e_phoff), count * sizeof *part)) return 0;
  for (size_t i = 0; i < count; i++)
    if (part[i].p_type == PT_LOAD) first = min_size(first, part[i].p_vaddr - part[i].p_offset);
  for (size_t i = 0; i < count; i++) {
    size_t size = min_size(part[i].p_filesz, NOTES_MOST);
    if (part[i].p_type != PT_NOTE) continue;
    if (!os_copy(notes, (void *)(base + part[i].p_vaddr - first), size)) continue;
    size_t length = find_build_id(notes, size, id);
    if (length != 0) return length;
  }
  return 0;
}

void os_each_image(char text[OS_IMAGES_TEXT], os_image_visitor_t *visitor, void *context) {
  unsigned char notes[NOTES_MOST];
  const unsigned char *id = notes;
  size_t id_length = 0;
  uint64_t file, known = 0; /* tells files apart; the file with this build id */
  lines_t lines = {os_open_either(OS_OF_PROCESS("maps")), text, 0, 0};
  if (lines.file < 0) return;
  for (char *line; (line = next_line(&lines)) != NULL;) { /* Bound: the mappings */
    os_image_t image = {0};
    bool is_code;
    char *path = parse_line(line, &image, &is_code, &file);
    if (path[0] != '/') continue;
    if (image.offset == 0) {
      known = file;
      id_length = read_build_id(image.from, notes, &id);
    }
    if (!is_code) continue;
    image.path = path;
    image.build_id = id;
    image.build_id_length = file == known ? id_length : 0;
    visitor(&image, context);
  }
  os_close(lines.file);
}
