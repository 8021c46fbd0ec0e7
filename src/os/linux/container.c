/* container.c - how much the container has, and whether it is running out               layer 1: os
 * Contract: container.h. */
#include "../container.h"

#include "../../base/layout.h"
#include "../os.h"

enum { TEXT_ROOM = 4096, PATH_ROOM = 1024, LEVELS_MOST = 32 };
enum { SILENT_MS = 10000 }; /* a look that takes longer counts as stuck */

container_t container;
LAYOUT_VARIABLE(container);

static atomic64_t
  machine_bytes; /* bytes; relaxed: a hint, so that percentages cost no system call */

/* The thread that reads, times two plus 1; 0: none. A child of fork ignores it, and so do all once
 * it has died. And since when it has been reading. */
static atomic64_t reader;
static atomic32_t reader_since;

typedef struct {
  char name[PATH_ROOM], path[PATH_ROOM]; /* as /proc/self/cgroup has it; its folder */
  size_t path_length, mount_length;
  bool is_version_2;
  uint64_t events; /* how often the limit was hit, by the kernel's count; UINT64_MAX: not known */
} group_t;

/* Only the thread that reads uses this. */
static large_table struct {
  char text[TEXT_ROOM];
  group_t memory, processors; /* two in version 1 */
  bool is_torn, is_read;      /* in this look; read: a file was read, or the group changed */
} files;

/* ---- files ----------------------------------------------------------------------------------- */

/* Reads into `text` and adds a zero byte; 0: it is not there, or empty. */
static size_t read_file_at(int file) {
  size_t got = os_read_whole(file, files.text, TEXT_ROOM - 1);
  files.text[got] = '\0';
  return got;
}

/* The file of that name in the folder of `length` bytes of `path`. */
static size_t read_in_group(group_t *g, size_t length, const char *name) {
  size_t n = strlen(name);
  char *end = g->path + length, after[64];
  if (n + 2 > sizeof after || length + n + 2 > PATH_ROOM) return 0;
  memcpy(after, end, n + 2);
  *end = '/';
  memcpy(end + 1, name, n + 1);
  size_t got = read_file_at(os_open(g->path));
  memcpy(end, after, n + 2);
  files.is_read |= got != 0;
  return got;
}

/* Digits up to the end of a line or word; false: there are none, or too many. */
static bool parse_number(const char *at, uint64_t *value) {
  *value = 0;
  const char *c = at;
  for (; *c >= '0' && *c <= '9'; c++) { /* Bound: a number */
    if (*value > (UINT64_MAX - 9) / 10) return false;
    *value = *value * 10 + (uint64_t)(*c - '0');
  }
  return c != at && (*c == '\n' || *c == ' ');
}

/* The first number of a file. UINT64_MAX: no such file, "max", or -1. Anything else is torn and
 * ignored. */
static uint64_t group_number(group_t *g, size_t length, const char *name) {
  uint64_t value;
  if (read_in_group(g, length, name) == 0 || strncmp(files.text, "max", 3) == 0) return UINT64_MAX;
  if (strncmp(files.text, "-1\n", 3) == 0) return UINT64_MAX;
  if (parse_number(files.text, &value)) return value;
  files.is_torn = true;
  return UINT64_MAX;
}

/* The number behind `word` at the start of a line of `text`; 0: there is none. */
static uint64_t number_behind(const char *word) {
  uint64_t value;
  size_t n = strlen(word);
  for (const char *line = files.text; line != NULL; line = strchr(line, '\n')) { /* Bound: lines */
    line += *line == '\n';
    if (strncmp(line, word, n) == 0 && parse_number(line + n, &value)) return value;
  }
  return 0;
}

static char *find_text(char *in, const char *what) {
  size_t n = strlen(what);
  while (*in != '\0' && strncmp(in, what, n) != 0) in++; /* Bound: the text */
  return *in != '\0' ? in : NULL;
}

static bool is_text(const char *a, const char *b) { return strncmp(a, b, strlen(b) + 1) == 0; }

/* ---- where it is ----------------------------------------------------------------------------- */

/* Is `word` in the list, which commas divide? */
static bool has_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (; list != NULL; list = strchr(list, ',')) { /* Bound: the words */
    list += *list == ',';
    if (strncmp(list, word, n) == 0 && (list[n] == ',' || list[n] == '\0')) return true;
  }
  return false;
}

/* Returns the group's name, in `text`. A line is "4:memory:/a/b" for version 1, "0::/a/b" for
 * version 2, which counts if no other line has the controller. */
static char *find_group(group_t *g, const char *controller) {
  char *line = files.text, *name = NULL, *end;
  read_file_at(os_open("/proc/self/cgroup")); /* the first thread's, even if it has ended */
  for (; (end = strchr(line, '\n')) != NULL; line = end + 1) { /* Bound: the lines */
    *end = '\0';
    char *controllers = strchr(line, ':'), *at = controllers;
    if (at == NULL || (at = strchr(at + 1, ':')) == NULL || at[1] != '/') continue;
    *at++ = '\0';
    bool is_unified = controllers[1] == '\0';
    if (!is_unified && !has_word(controllers + 1, controller)) continue;
    if ((is_unified && name != NULL) || strlen(at) >= PATH_ROOM) continue;
    g->is_version_2 = is_unified;
    name = at;
  }
  return name;
}

/* The next word of a line, ended by a zero byte; NULL: that was all. */
static char *next_word(char **line) {
  char *word = *line;
  if (word == NULL) return NULL;
  char *space = strchr(word, ' ');
  if (space != NULL) *space = '\0';
  *line = space == NULL ? NULL : space + 1;
  return word;
}

/* "31 23 0:28 ROOT MOUNT options ... - cgroup2 source options": is this our group's file
 * system? Then `path` becomes the group's folder. A group that is not below ROOT counts as ROOT. */
static bool read_mount(group_t *g, const char *controller, char *line) {
  char *rest = find_text(line, " - "), *root = NULL, *mount = NULL;
  if (rest == NULL) return false;
  *rest = '\0';
  rest += 3;
  for (int i = 0; i < 4; i++) root = next_word(&line);
  mount = next_word(&line);
  const char *type = next_word(&rest), *options;
  next_word(&rest);
  options = next_word(&rest);
  if (mount == NULL || options == NULL || strchr(mount, '\\') != NULL) return false;
  if (!is_text(type, g->is_version_2 ? "cgroup2" : "cgroup")) return false;
  if (!g->is_version_2 && !has_word(options, controller)) return false;
  size_t n = is_text(root, "/") ? 0 : strlen(root), length = strlen(mount);
  char none[] = "", *below = strncmp(g->name, root, n) == 0 ? g->name + n : none;
  if ((*below != '/' && *below != '\0') || find_text(below, "/..") != NULL) below = none;
  size_t more = is_text(below, "/") ? 0 : strlen(below);
  if (length + more >= PATH_ROOM) return false;
  memcpy(g->path, mount, length);
  memcpy(g->path + length, below, more);
  g->path[length + more] = '\0';
  g->mount_length = length;
  g->path_length = length + more;
  return true;
}

/* Reads the list of mounts part by part; a line that does not fit is not ours. */
static bool find_mount(group_t *g, const char *controller) {
  int file = os_open_either(OS_OF_PROCESS("mountinfo"));
  bool is_found = false;
  size_t have = 0, got;
  if (file < 0) return false;
  /* Bound: the file */
  while (!is_found && (got = os_read(file, files.text + have, TEXT_ROOM - 1 - have)) != 0) {
    char *line = files.text, *end;
    files.text[have + got] = '\0';
    for (; !is_found && (end = strchr(line, '\n')) != NULL; line = end + 1) { /* Bound: lines */
      *end = '\0';
      is_found = read_mount(g, controller, line);
    }
    have = strlen(line) < TEXT_ROOM / 2 ? strlen(line) : 0;
    memmove(files.text, line, have);
  }
  os_close(file);
  return is_found;
}

/* A process may be moved; then the path of its group changes. */
static bool find_folder(group_t *g, const char *controller) {
  const char *name = find_group(g, controller);
  if (name == NULL) return false;
  if (g->path_length != 0 && is_text(g->name, name)) return true;
  memcpy(g->name, name, strlen(name) + 1);
  g->path_length = 0;
  g->events = UINT64_MAX;
  return files.is_read = find_mount(g, controller);
}

/* ---- what it says ---------------------------------------------------------------------------- */

static uint64_t read_machine(void) {
  uint64_t bytes = os_memory();
  atomic64_store_relaxed(&machine_bytes, bytes);
  return bytes;
}

typedef struct {
  uint64_t limit, room;
  size_t tightest; /* the length of the path of the group that has the least room */
} bounds_t;

/* 0: no parent can be seen from here. */
static size_t parent(const group_t *g, size_t length) {
  if (length <= g->mount_length) return 0;
  do length--; /* Bound: a path */
  while (length > g->mount_length && g->path[length] != '/');
  return length;
}

/* A limit above the machine's memory is none. */
static void read_level(bounds_t *f, size_t length, uint64_t most) {
  group_t *g = &files.memory;
  bool is_new = g->is_version_2;
  uint64_t limit = group_number(g, length, is_new ? "memory.max" : "memory.limit_in_bytes");
  uint64_t high = is_new ? group_number(g, length, "memory.high") : UINT64_MAX;
  if (high < limit) limit = high;
  if (limit >= most) return;
  uint64_t used = group_number(g, length, is_new ? "memory.current" : "memory.usage_in_bytes");
  if (used == UINT64_MAX) return;
  if (limit < f->limit) f->limit = limit;
  uint64_t room = limit > used ? limit - used : 0;
  if (room >= f->room) return;
  f->room = room;
  f->tightest = length;
}

/* Before memory is short, the kernel drops pages of files that were not used for long. */
static void add_idle_files(bounds_t *f) {
  enum { NEAR_PART = 4 };
  group_t *g = &files.memory;
  if (f->room > f->limit / NEAR_PART || read_in_group(g, f->tightest, "memory.stat") == 0) return;
  f->room += number_behind(g->is_version_2 ? "inactive_file " : "total_inactive_file ");
  if (f->room > f->limit) f->room = f->limit;
}

/* All tasks waited for memory in a tenth of the last ten seconds: "full avg10=12.34". */
static bool is_stalling(group_t *g, size_t length) {
  if (!g->is_version_2 || read_in_group(g, length, "memory.pressure") == 0) return false;
  const char *full = find_text(files.text, "full avg10=");
  return full != NULL && full[11] >= '1' && full[12] >= '0' && full[12] <= '9';
}

static bool is_short(const bounds_t *f) {
  group_t *g = &files.memory;
  uint64_t before = g->events, now = 0;
  if (!g->is_version_2) now = group_number(g, f->tightest, "memory.failcnt");
  else if (read_in_group(g, f->tightest, "memory.events") != 0)
    now = number_behind("high ") + number_behind("max ");
  g->events = now;
  return (now > before && now != UINT64_MAX) || is_stalling(g, f->tightest);
}

/* False: a handler forked this child in the middle of the look, and the child has looked itself. So
 * what was parsed since is not what was read. */
static bool is_mine(uint64_t me) { return atomic64_load_relaxed(&reader) == me; }

static container_state_t read_memory(uint64_t me) {
  bounds_t f = {.limit = UINT64_MAX, .room = UINT64_MAX};
  uint64_t whole = read_machine(), known = atomic64_load_relaxed(&container.limit);
  files.is_torn = files.is_read = false;
  size_t length = find_folder(&files.memory, "memory") ? files.memory.path_length : 0;
  for (int i = 0; i < LEVELS_MOST && length != 0; i++, length = parent(&files.memory, length))
    read_level(&f, length, whole != 0 ? whole : UINT64_MAX);
  /* A process that has used up its open files, or has changed its root, finds nothing any more.
   * Then the figures stay as they were, here and below. */
  if (!files.is_read && known != 0) return CONTAINER_LIMITED;
  bool is_limited = f.limit != UINT64_MAX;
  if (is_limited) add_idle_files(&f);
  bool is_wanting = is_limited && is_short(&f);
  if (files.is_torn || !is_mine(me)) return CONTAINER_TORN;
  if (is_limited) atomic32_store_relaxed(&container.is_short, is_wanting);
  atomic64_store_relaxed(&container.room, f.room);
  atomic64_store_relaxed(&container.limit, is_limited ? f.limit : 0);
  return is_limited ? CONTAINER_LIMITED : CONTAINER_NONE;
}

/* In processors, rounded up: "150000 100000" is two. UINT64_MAX: the group has none. */
static uint64_t read_quota(group_t *g, size_t length) {
  uint64_t quota = group_number(g, length, g->is_version_2 ? "cpu.max" : "cpu.cfs_quota_us");
  uint64_t period = 0;
  if (quota == UINT64_MAX) return quota;
  const char *at = files.text;
  if (g->is_version_2) at = strchr(at, ' ') == NULL ? "" : strchr(at, ' ') + 1;
  else read_in_group(g, length, "cpu.cfs_period_us");
  if (!parse_number(at, &period) || period == 0) return files.is_torn = true, UINT64_MAX;
  return quota / period + (quota % period != 0);
}

static void read_processors(uint64_t me) {
  group_t *g = &files.processors;
  uint64_t least = UINT64_MAX;
  files.is_read = false;
  size_t length = find_folder(g, "cpu") ? g->path_length : 0;
  for (int i = 0; i < LEVELS_MOST && length != 0; i++, length = parent(g, length)) {
    uint64_t count = read_quota(g, length);
    if (count < least) least = count;
  }
  if (!files.is_read || files.is_torn || !is_mine(me)) return;
  atomic32_store_relaxed(&container.processors, least > UINT32_MAX ? 0 : (uint32_t)least);
}

static void forget_groups(void) { files.memory.path_length = files.processors.path_length = 0; }

/* Returns the new `reader`; 0: another thread is reading. */
static uint64_t begin_look(uint32_t now) {
  uint64_t me = os_thread() << 1 | 1, who = atomic64_load_relaxed(&reader);
  bool is_here = who != 0 && (who ^ me) >> OS_THREAD_BITS / 2 >> 1 == 0; /* of this process */
  if (is_here && !os_thread_has_ended(who >> 1, me >> 1)) {
    if (os_ms_between(atomic32_load_relaxed(&reader_since), now) > SILENT_MS)
      atomic32_store_relaxed(&container.state, CONTAINER_SILENT);
    return 0;
  }
  if (!atomic64_cas_acquire(&reader, &who, me)) return 0; /* S-container */
  atomic32_store_relaxed(&reader_since, now);
  /* The remembered path may be half-written. */
  if (who != 0) forget_groups();
  return me;
}

cold void container_look(uint32_t now) {
  uint64_t me = begin_look(now);
  if (me == 0) return;
  container_state_t state = read_memory(me);
  read_processors(me);
  if (!is_mine(me)) return forget_groups();
  atomic32_store_relaxed(&container.state, files.is_torn ? CONTAINER_TORN : state);
  atomic64_store_release(&reader, 0); /* S-container */
}

uint64_t container_memory(void) {
  if (atomic32_load_relaxed(&container.state) == CONTAINER_UNREAD) container_look(os_now_ms());
  uint64_t limit = atomic64_load_relaxed(&container.limit);
  return limit != 0 ? limit : container_machine();
}

uint64_t container_machine(void) {
  uint64_t bytes = atomic64_load_relaxed(&machine_bytes);
  return bytes != 0 ? bytes : read_machine();
}
