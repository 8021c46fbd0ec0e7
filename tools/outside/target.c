/* target.c - the memory of another process, running, stopped or dead
 * Contract: target.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core.h"

enum { PAGE = 4096, FETCH = 64 << 10, FETCHED_MOST = 1 << 20 };
enum { PAGE_WORDS = 8192, PAGE_WORDS_FIRST = 32 };

static struct {
  pid_t pid;
  bool is_process;
  char title[128];
  target_range_t *ranges;
  size_t range_count, ranges_size;
  char *paths; /* what the ranges' paths point into */
  int pagemap;
  uint64_t words[PAGE_WORDS]; /* of pagemap, from this page's on; how many there are */
  size_t words_from, word_count;
  struct {
    void *at;
    size_t size;
  } * fetched; /* what lies here at the target's addresses */
  size_t fetched_count;
  sigjmp_buf *leave; /* where an access that fails ends; NULL: nobody reads */
  bool may_lack;     /* what cannot be read is taken for zeros; how many pages were */
  size_t lacking;
} t = {.pagemap = -1};

static bool refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool refuse(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("freehold: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  return false;
}

bool target_is_process(void) { return t.is_process; }
pid_t target_pid(void) { return t.pid; }
const char *target_title(void) { return t.title; }
size_t target_range_count(void) { return t.range_count; }
const target_range_t *target_range(size_t number) { return &t.ranges[number]; }

/* ---- ranges ---------------------------------------------------------------------------------- */

static void add_range(target_range_t range) {
  if (t.range_count == t.ranges_size) {
    t.ranges_size = t.ranges_size * 2 + 64;
    t.ranges = realloc(t.ranges, t.ranges_size * sizeof *t.ranges);
    if (t.ranges == NULL) abort();
  }
  t.ranges[t.range_count++] = range;
}

/* The first that ends behind the address. */
static size_t range_behind(uintptr_t address) {
  size_t low = 0, high = t.range_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (t.ranges[middle].to <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

const target_range_t *target_range_at(uintptr_t address) {
  size_t i = range_behind(address);
  return i < t.range_count && t.ranges[i].from <= address ? &t.ranges[i] : NULL;
}

static char *read_whole(const char *path, size_t *size) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  size_t room = 64 << 10;
  char *text = file < 0 ? NULL : malloc(room);
  *size = 0;
  while (text != NULL) {
    ssize_t got = read(file, text + *size, room - *size - 1);
    if (got < 0) {
      int error = errno;
      free(text);
      close(file);
      errno = error;
      return NULL;
    }
    if (got == 0) break;
    *size += (size_t)got;
    if (room - *size > PAGE) continue;
    text = realloc(text, room *= 2);
  }
  if (file >= 0) close(file);
  if (text != NULL) text[*size] = '\0';
  return text;
}

static char *process_file(char path[64], const char *name) {
  snprintf(path, 64, "/proc/%d/%s", (int)t.pid, name);
  return path;
}

/* Lines: "from-to rwxp offset device inode   path". */
static void parse_maps(char *text) {
  t.range_count = 0;
  for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    target_range_t range = {.path = end};
    unsigned long from, to, offset;
    char rights[5];
    int used = 0;
    *end = '\0';
    if (sscanf(line, "%lx-%lx %4s %lx %*s %*s %n", &from, &to, rights, &offset, &used) < 4)
      continue;
    range.from = from;
    range.to = to;
    range.offset = offset;
    range.is_readable = rights[0] == 'r';
    range.is_writable = rights[1] == 'w';
    range.is_code = rights[2] == 'x';
    if (used != 0) range.path = line + used;
    add_range(range);
  }
}

char *target_maps(size_t *size) {
  char path[64], *text = NULL;
  if (t.is_process) return read_whole(process_file(path, "maps"), size);
  FILE *out = open_memstream(&text, size);
  size_t file = 0; /* a number for each: its first range's, and 1 */
  for (size_t i = 0; out != NULL && i < t.range_count; i++) {
    const target_range_t *r = &t.ranges[i];
    if (file == 0 || r->path != t.ranges[file - 1].path) file = i + 1;
    for (size_t k = 0; k < i && file == i + 1; k++)
      if (strcmp(t.ranges[k].path, r->path) == 0) file = k + 1;
    fprintf(out, "%lx-%lx %c%c%cp %08lx 00:01 %zu %s\n", (unsigned long)r->from,
            (unsigned long)r->to, r->is_readable ? 'r' : '-', r->is_writable ? 'w' : '-',
            r->is_code ? 'x' : '-', (unsigned long)r->offset, r->path[0] == '\0' ? 0 : file,
            r->path);
  }
  if (out != NULL) fclose(out);
  return text;
}

/* ---- processes ------------------------------------------------------------------------------- */

static bool read_ranges(void) {
  char path[64];
  size_t size;
  char *text = read_whole(process_file(path, "maps"), &size);
  if (text == NULL) return false;
  free(t.paths);
  t.paths = text;
  parse_maps(text);
  return true;
}

bool target_is_alive(void) { return t.is_process && (kill(t.pid, 0) == 0 || errno == EPERM); }

void target_make_printable(char *text) {
  for (; *text != '\0'; text++)
    if (iscntrl((unsigned char)*text)) *text = '?';
}

static void read_name(char name[64]) {
  char path[64];
  size_t size;
  char *text = read_whole(process_file(path, "comm"), &size);
  snprintf(name, 64, "%.*s", text == NULL ? 1 : (int)strcspn(text, "\n"),
           text == NULL ? "?" : text);
  free(text);
}

/* Why a process cannot be read, and what would help. */
static bool refuse_process(int error) {
  char scope = '0';
  int file = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    if (read(file, &scope, 1) != 1) scope = '0';
    close(file);
  }
  if (error == ESRCH || error == ENOENT) return refuse("there is no process %d", (int)t.pid);
  if (error != EPERM && error != EACCES)
    return refuse("process %d cannot be read: %s", (int)t.pid, strerror(error));
  if (scope != '0')
    return refuse("no permission to read process %d: as root, or after "
                  "'sysctl kernel.yama.ptrace_scope=0' (now %c)",
                  (int)t.pid, scope);
  return refuse("no permission to read process %d: %s", (int)t.pid,
                geteuid() == 0 ? "root lacks the capability CAP_SYS_PTRACE here"
                               : "it is another user's, or set-user-ID; try as root");
}

static bool open_process(pid_t pid) {
  char path[64], name[64], byte;
  t.pid = pid;
  t.is_process = true;
  if (kill(pid, 0) != 0 && errno != EPERM) return refuse_process(errno);
  if (!read_ranges()) return refuse_process(errno);
  read_name(name);
  snprintf(t.title, sizeof t.title, "%s (%d)", name, (int)pid);
  target_make_printable(t.title);
  if (t.range_count == 0)
    return refuse("process %d has no memory: it is a zombie or a kernel thread", (int)pid);
  for (size_t i = 0; i < t.range_count; i++) {
    if (!t.ranges[i].is_readable || t.ranges[i].path[0] == '[') continue;
    if (target_read(t.ranges[i].from, &byte, 1) == 0) return refuse_process(errno);
    break;
  }
  t.pagemap = open(process_file(path, "pagemap"), O_RDONLY | O_CLOEXEC);
  return true;
}

static bool is_number(const char *text) {
  for (const char *c = text; *c != '\0'; c++)
    if (!isdigit((unsigned char)*c)) return false;
  return text[0] != '\0' && strlen(text) < 10;
}

/* Among processes that are not this one; t.pid is the last of them. */
static size_t count_named(const char *name) {
  DIR *all = opendir("/proc");
  pid_t found = 0;
  size_t count = 0;
  for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
    char its[64];
    if (!is_number(entry->d_name) || atoi(entry->d_name) == getpid()) continue;
    t.pid = atoi(entry->d_name);
    read_name(its);
    if (strncmp(its, name, 15) != 0 || (strlen(its) < 15 && strcmp(its, name) != 0)) continue;
    found = t.pid;
    count++;
  }
  if (all != NULL) closedir(all);
  t.pid = found;
  return count;
}

/* ---- either ---------------------------------------------------------------------------------- */

static bool open_core(const char *path) {
  const char *wrong = core_open(path), *slash = strrchr(path, '/');
  if (wrong != NULL) return refuse("'%s' %s", path, wrong);
  for (size_t i = 0; i < core_range_count(); i++) add_range(*core_range(i));
  t.pid = core_pid();
  snprintf(t.title, sizeof t.title, "%.60s of %.20s (%d)", slash == NULL ? path : slash + 1,
           core_name(), (int)t.pid);
  target_make_printable(t.title);
  return true;
}

bool target_open(const char *name) {
  struct stat status;
  int error = stat(name, &status) == 0 ? 0 : errno;
  bool is_file = error == 0 && S_ISREG(status.st_mode);
  if (is_number(name)) return open_process(atoi(name));
  if (strchr(name, '/') != NULL && error != 0)
    return refuse("'%s' cannot be read: %s", name, strerror(error));
  if (strchr(name, '/') != NULL)
    return is_file ? open_core(name) : refuse("'%s' is no core file: no plain file at all", name);
  size_t count = count_named(name);
  if (count == 1) return open_process(t.pid);
  if (count == 0 && is_file) return open_core(name);
  if (count == 0) return refuse("there is no process '%s', and no core file of that name", name);
  return refuse("%zu processes are named '%s'; give one's number (pgrep %s)", count, name, name);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The kernel's word for this page. Lists lead anywhere, and a word costs the kernel a look; whoever
 * goes on behind those that are here will do so for long, and gets those of 32 MiB. */
static uint64_t page_word(size_t page) {
  if (page - t.words_from >= t.word_count) {
    bool goes_on = page == t.words_from + t.word_count && t.word_count != 0;
    size_t size = (goes_on ? PAGE_WORDS : PAGE_WORDS_FIRST) * sizeof *t.words;
    ssize_t got = pread(t.pagemap, t.words, size, (off_t)(page * sizeof *t.words));
    t.word_count = got < 0 ? 0 : (size_t)got / sizeof *t.words;
    t.words_from = page;
  }
  return t.word_count != 0 ? t.words[page - t.words_from] : 0;
}

/* Reading a page that was never touched would touch it: it would count as in memory from then on.
 * So of memory that is no file's only pages are read that are in memory, or in swap. */
static size_t untouched_from(uintptr_t from, size_t size) {
  const uint64_t is_there = (uint64_t)3 << 62;
  const target_range_t *range = t.pagemap < 0 ? NULL : target_range_at(from);
  size_t done = 0;
  if (range == NULL || !range->is_readable || range->path[0] == '/') return 0;
  if (size > range->to - from) size = range->to - from;
  while (done < size && (page_word((from + done) / PAGE) & is_there) == 0)
    done += PAGE - (from + done) % PAGE;
  return done < size ? done : size;
}

static size_t touched_from(uintptr_t from, size_t size) {
  size_t done = 0;
  while (done < size && untouched_from(from + done, PAGE) == 0) done += PAGE - (from + done) % PAGE;
  return done < size ? done : size;
}

static size_t read_alive(uintptr_t from, char *to, size_t size) {
  size_t done = 0;
  while (done < size) {
    size_t zero = untouched_from(from + done, size - done);
    memset(to + done, 0, zero);
    done += zero;
    size_t part = touched_from(from + done, size - done);
    if (part == 0) continue;
    struct iovec here = {to + done, part}, there = {(void *)(from + done), part};
    ssize_t got = process_vm_readv(t.pid, &here, 1, &there, 1, 0);
    if (got <= 0) break;
    done += (size_t)got;
  }
  return done;
}

size_t target_read(uintptr_t from, void *to, size_t size) {
  return t.is_process ? read_alive(from, to, size) : core_read(from, to, size);
}

static size_t resident_alive(uintptr_t from, size_t size) {
  size_t resident = 0;
  for (size_t page = from / PAGE; page < (from + size) / PAGE; page++)
    resident += (page_word(page) >> 63 & 1) * PAGE; /* the bit says that it is in memory */
  return resident;
}

/* Where nothing is mapped there is nothing to look at, however large `size` is. */
size_t target_resident(uintptr_t from, size_t size) {
  size_t resident = 0;
  uintptr_t end = size < UINTPTR_MAX - from ? from + size : UINTPTR_MAX;
  for (size_t i = range_behind(from); i < t.range_count && t.ranges[i].from < end; i++) {
    uintptr_t first = t.ranges[i].from > from ? t.ranges[i].from : from;
    size_t part = (t.ranges[i].to < end ? t.ranges[i].to : end) - first;
    resident += t.is_process ? resident_alive(first, part) : core_resident(first, part);
  }
  return resident;
}

/* ---- the target's memory at its own addresses ------------------------------------------------ */

static bool map_here(uintptr_t from, size_t size) {
  void *at = mmap((void *)from, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED) return false;
  if (at == (void *)from) return true;
  munmap(at, size); /* a kernel that does not know the flag */
  return false;
}

/* All of it, or nothing. */
static bool fetch_range(uintptr_t from, uintptr_t to) {
  if (t.fetched_count == FETCHED_MOST || !map_here(from, to - from)) return false;
  if (target_read(from, (void *)from, to - from) != to - from) {
    munmap((void *)from, to - from);
    return false;
  }
  t.fetched[t.fetched_count].at = (void *)from;
  t.fetched[t.fetched_count++].size = to - from;
  return true;
}

/* The page, with its neighbours if they can be had. It may have been mapped since the ranges were
 * read. */
static bool fetch(uintptr_t address) {
  const target_range_t *range = target_range_at(address);
  uintptr_t from = address & ~(uintptr_t)(FETCH - 1), to = from + FETCH;
  uintptr_t page = address & ~(uintptr_t)(PAGE - 1);
  if (range != NULL) {
    if (from < range->from) from = range->from;
    if (to > range->to) to = range->to;
    if (fetch_range(from, to)) return true;
  }
  if (fetch_range(page, page + PAGE)) return true;
  if (!t.may_lack || t.fetched_count == FETCHED_MOST || !map_here(page, PAGE)) return false;
  t.fetched[t.fetched_count].at = (void *)page;
  t.fetched[t.fetched_count++].size = PAGE;
  t.lacking++;
  return true;
}

static void on_access(int signal_number, siginfo_t *info, void *context) {
  (void)context;
  if (t.leave == NULL) { /* this command's own fault */
    signal(signal_number, SIG_DFL);
    return;
  }
  if (info->si_code != SEGV_MAPERR || !fetch((uintptr_t)info->si_addr)) siglongjmp(*t.leave, 1);
}

bool target_try(void (*work)(void *context), void *context, size_t *lacking) {
  sigjmp_buf leave;
  struct sigaction action = {.sa_sigaction = on_access, .sa_flags = SA_SIGINFO | SA_NODEFER};
  if (t.fetched == NULL) {
    t.fetched = mmap(NULL, FETCHED_MOST * sizeof *t.fetched, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (t.fetched == MAP_FAILED) abort();
    sigaction(SIGSEGV, &action, NULL);
  }
  t.may_lack = lacking != NULL;
  t.lacking = 0;
  if (sigsetjmp(leave, 1) != 0) {
    t.leave = NULL;
    return false;
  }
  t.leave = &leave;
  work(context);
  if (lacking != NULL) *lacking = t.lacking;
  t.leave = NULL;
  return true;
}

bool target_has(const void *at) {
  sigjmp_buf here, *outer = t.leave;
  const bool may_lack = t.may_lack;
  bool is_there = sigsetjmp(here, 0) == 0;
  if (is_there) {
    t.leave = &here;
    t.may_lack = false;
    (void)*(const volatile char *)at;
  }
  t.may_lack = may_lack;
  t.leave = outer;
  return is_there;
}

bool target_renew(void) {
  t.word_count = 0;
  while (t.fetched_count > 0) {
    t.fetched_count--;
    munmap(t.fetched[t.fetched_count].at, t.fetched[t.fetched_count].size);
  }
  return !t.is_process || (read_ranges() && t.range_count != 0);
}
