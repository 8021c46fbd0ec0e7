/* core.c - the core file of a dead process
 * Contract: core.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "core.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
  target_range_t range;
  uintptr_t present; /* the core file has the bytes below */
  uint64_t offset;   /* in the core file */
} segment_t;

static struct {
  int file;
  pid_t pid;
  char name[64], wrong[128];
  char *notes;         /* what the ranges' paths point into */
  segment_t *segments; /* by address */
  size_t count;
} core = {.file = -1, .name = "?"};

pid_t core_pid(void) { return core.pid; }
const char *core_name(void) { return core.name; }
size_t core_range_count(void) { return core.count; }
const target_range_t *core_range(size_t number) { return &core.segments[number].range; }

static const char *say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(core.wrong, sizeof core.wrong, format, arguments);
  va_end(arguments);
  return core.wrong;
}

static size_t read_file(uint64_t offset, void *to, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t got = pread(core.file, (char *)to + done, size - done, (off_t)(offset + done));
    if (got <= 0) break;
    done += (size_t)got;
  }
  return done;
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* NT_FILE: how many, the size of a page, then from, to and page for each, then the names. */
static void read_paths(const char *note, size_t size) {
  const uint64_t *words = (const uint64_t *)note;
  if (size < 16 || words[0] > (size - 16) / 24) return;
  const char *name = (const char *)(words + 2 + 3 * words[0]), *end = note + size;
  for (uint64_t i = 0; i < words[0] && name < end && memchr(name, '\0', (size_t)(end - name));
       i++) {
    const uint64_t *file = words + 2 + 3 * i;
    for (size_t k = 0; k < core.count; k++) {
      target_range_t *range = &core.segments[k].range;
      if (range->from < file[0] || range->to > file[1]) continue;
      range->path = name;
      range->offset = file[2] * words[1] + (range->from - file[0]);
    }
    name += strlen(name) + 1;
  }
}

static void read_notes(char *notes, size_t size) {
  Elf64_Nhdr n;
  for (size_t at = 0; at + sizeof n <= size;) {
    memcpy(&n, notes + at, sizeof n);
    size_t text = (at + sizeof n + n.n_namesz + 3) & ~(size_t)3;
    size_t end = (text + n.n_descsz + 3) & ~(size_t)3;
    if (end > size || end <= at) return;
    if (n.n_type == NT_FILE) read_paths(notes + text, n.n_descsz);
    if (n.n_type == NT_PRPSINFO && n.n_descsz >= sizeof(prpsinfo_t)) {
      const prpsinfo_t *info = (const prpsinfo_t *)(notes + text);
      core.pid = info->pr_pid;
      snprintf(core.name, sizeof core.name, "%.16s", info->pr_fname);
    }
    at = end;
  }
}

/* ---- headers --------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
  uintptr_t first = ((const segment_t *)a)->range.from, second = ((const segment_t *)b)->range.from;
  return (first > second) - (first < second);
}

static void add_segment(const Elf64_Phdr *p) {
  core.segments[core.count++] = (segment_t){.range = {.from = p->p_vaddr,
                                                      .to = p->p_vaddr + p->p_memsz,
                                                      .is_readable = (p->p_flags & PF_R) != 0,
                                                      .is_writable = (p->p_flags & PF_W) != 0,
                                                      .is_code = (p->p_flags & PF_X) != 0,
                                                      .path = ""},
                                            .present = p->p_vaddr + p->p_filesz,
                                            .offset = p->p_offset};
}

/* How many bytes the file has, if it is whole. */
static uint64_t read_segments(const Elf64_Phdr *parts, size_t count) {
  uint64_t wanted = 0;
  core.segments = calloc(count + 1, sizeof *core.segments);
  if (core.segments == NULL) abort();
  for (size_t i = 0; i < count; i++) {
    uint64_t end = parts[i].p_offset + parts[i].p_filesz;
    if (end < parts[i].p_offset) end = UINT64_MAX;
    if (wanted < end) wanted = end;
    if (parts[i].p_type == PT_LOAD) add_segment(&parts[i]);
  }
  qsort(core.segments, core.count, sizeof *core.segments, by_address);
  return wanted;
}

static const char *read_headers(const Elf64_Ehdr *head, uint64_t file_size) {
  size_t count = head->e_phnum;
  Elf64_Shdr section;
  if (count == PN_XNUM && read_file(head->e_shoff, &section, sizeof section) == sizeof section)
    count = section.sh_info;
  if (count > file_size / sizeof(Elf64_Phdr))
    return say("is truncated: it has no room for %zu headers", count);
  Elf64_Phdr *parts = calloc(count + 1, sizeof *parts);
  if (parts == NULL) abort();
  if (read_file(head->e_phoff, parts, count * sizeof *parts) != count * sizeof *parts)
    return say("is truncated: it ends within its headers");
  uint64_t wanted = read_segments(parts, count);
  if (wanted > file_size)
    return say("is truncated: it has %llu bytes of %llu (ulimit -c, or a full disk)",
               (unsigned long long)file_size, (unsigned long long)wanted);
  for (size_t i = 0; i < count; i++) {
    if (parts[i].p_type != PT_NOTE) continue;
    core.notes = malloc(parts[i].p_filesz + 1);
    if (core.notes == NULL) abort();
    read_notes(core.notes, read_file(parts[i].p_offset, core.notes, parts[i].p_filesz));
  }
  free(parts);
  return NULL;
}

const char *core_open(const char *path) {
  Elf64_Ehdr head;
  struct stat status;
  core.file = open(path, O_RDONLY | O_CLOEXEC);
  if (core.file < 0 || fstat(core.file, &status) != 0)
    return say("cannot be read: %s", strerror(errno));
  if (read_file(0, &head, sizeof head) != sizeof head ||
      memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
    return say("is no core file of a 64-bit process");
  if (head.e_type != ET_CORE) return say("is a program or a library, not a core file");
  return read_headers(&head, (uint64_t)status.st_size);
}

/* ---- reading --------------------------------------------------------------------------------- */

static const segment_t *segment_at(uintptr_t address) {
  size_t low = 0, high = core.count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (core.segments[middle].range.to <= address) low = middle + 1;
    else high = middle;
  }
  return low < core.count && core.segments[low].range.from <= address ? &core.segments[low] : NULL;
}

/* What a core file leaves out of a mapped file is in that file still. */
static size_t read_mapped_file(const target_range_t *range, uintptr_t from, void *to, size_t size) {
  if (range->path[0] != '/') return 0;
  struct stat status;
  int file = open(range->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return 0;
  bool is_plain = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  off_t at = (off_t)(range->offset + (from - range->from));
  ssize_t got = is_plain ? pread(file, to, size, at) : 0;
  close(file);
  return got < 0 ? 0 : (size_t)got;
}

size_t core_read(uintptr_t from, void *to, size_t size) {
  size_t done = 0;
  while (done < size) {
    uintptr_t at = from + done;
    const segment_t *s = segment_at(at);
    if (s == NULL) break;
    bool is_here = at < s->present;
    size_t part = size - done, most = (is_here ? s->present : s->range.to) - at;
    if (part > most) part = most;
    part = is_here ? read_file(s->offset + (at - s->range.from), (char *)to + done, part)
                   : read_mapped_file(&s->range, at, (char *)to + done, part);
    if (part == 0) break;
    done += part;
  }
  return done;
}

/* A page that was never touched is a hole of the file, if whoever wrote it made any. */
static size_t data_between(off_t at, off_t last) {
  size_t bytes = 0;
  while (at < last) {
    off_t data = lseek(core.file, at, SEEK_DATA);
    if (data < 0 || data >= last) break;
    off_t hole = lseek(core.file, data, SEEK_HOLE);
    if (hole < 0 || hole > last) hole = last;
    bytes += (size_t)(hole - data);
    at = hole;
  }
  return bytes;
}

size_t core_resident(uintptr_t from, size_t size) {
  const segment_t *s = segment_at(from);
  if (s == NULL || s->present < from + size) return 0;
  off_t at = (off_t)(s->offset + (from - s->range.from));
  return data_between(at, at + (off_t)size);
}
