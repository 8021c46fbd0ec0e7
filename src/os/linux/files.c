/* files.c - files of traces, and what is known of the process: Linux                    layer 1: os
 * Contract: os.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "../../base/fmt.h"
#include "call.h"

/* ---- files ----------------------------------------------------------------------------------- */

int os_open_shared(const char *path) {
  struct stat_of_kernel about;
  int file = call_open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return -1;
  if (OS_CALL(fstat, file, &about, 0, 0, 0, 0) == 0 && S_ISREG(about.st_mode)) return file;
  os_close(file);
  return -1;
}

/* The lock lasts as long as the file, or a copy of its number, is open. Does not wait. False:
 * another process has the lock, or has put another file under that name. Only the lock's owner
 * removes the file. */
static bool lock_file(int file, const char *path, bool may_fail) {
  struct flock_of_kernel all = {.l_type = F_WRLCK};
  struct stat_of_kernel about, named;
  long result = OS_CALL(fcntl, file, F_OFD_SETLK, &all, 0, 0, 0);
  if (result != 0 && (!may_fail || result == -EAGAIN || result == -EACCES)) return false;
  return OS_CALL(fstat, file, &about, 0, 0, 0, 0) == 0 &&
         OS_CALL(newfstatat, AT_FDCWD, path, &named, AT_SYMLINK_NOFOLLOW, 0, 0) == 0 &&
         about.st_dev == named.st_dev && about.st_ino == named.st_ino;
}

/* A mapped file must not be cut short, so an existing one is removed first. */
int os_create_shared(const char *path) {
  int before = os_open_shared(path);
  bool is_free = before < 0 || lock_file(before, path, false);
  if (before >= 0 && is_free) os_remove(path);
  if (before >= 0) os_close(before);
  if (!is_free) return -1;
  int file = call_open(path, O_RDWR | O_CREAT | O_EXCL);
  if (file < 0 || lock_file(file, path, true)) return file;
  os_close(file);
  return -1;
}

void *os_map_file(int file, uint64_t offset, size_t size) {
  long result;
  if (!call_is_within_limit(offset + size)) return NULL;
  do result = CALL_FALLOCATE(file, offset, size); /* Bound: signals that come meanwhile */
  while (result == -EINTR);
  if (result < 0) return NULL;
  long at = OS_CALL(mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, offset >> MMAP_SHIFT);
  return call_succeeded(&os_counts.maps, at) ? (void *)at : NULL;
}

void os_unmap_file(void *at, size_t size) {
  call_succeeded(&os_counts.unmaps, OS_CALL(munmap, at, size, 0, 0, 0, 0));
}

/* ---- what the system says of the process ----------------------------------------------------- */

/* A number of /proc's `stat`, so many words behind the name (which may be any text); 0: the system
 * does not say. */
static uint64_t stat_word(int file, unsigned behind_name) {
  char text[440];
  uint64_t number = 0;
  text[os_read_whole(file, text, sizeof text - 1)] = '\0';
  const char *at = strrchr(text, ')');
  for (unsigned i = 0; at != NULL && i < behind_name; i++) at = strchr(at + 1, ' ');
  for (; at != NULL && at[1] >= '0' && at[1] <= '9'; at++) /* Bound: the digits of a word */
    number = number * 10 + (uint64_t)(at[1] - '0');
  return number;
}

/* If the start of brk() is not known it counts as 0; the end alone has to do. An emulator may show
 * its own process, whose brk() is elsewhere. */
bool os_break_range(uintptr_t *from, uintptr_t *to) {
  enum { BREAK_FROM = 45 };
  *from = (uintptr_t)stat_word(os_open_either(OS_OF_PROCESS("stat")), BREAK_FROM);
  *to = (uintptr_t)OS_CALL(brk, 0, 0, 0, 0, 0, 0);
  if (*from > *to) *from = 0;
  return *from < *to;
}

/* Asks the system when needed. To read a clock at start would bring one more part of libc into the
 * memory of every small program. 0: the system does not say. */
static uint64_t elapsed_ms(void) {
  enum { STARTED_AT = 20 };
  uint64_t rate = getauxval(AT_CLKTCK),
           ticks = rate == 0 ? 0 : stat_word(os_open("/proc/self/stat"), STARTED_AT);
  struct timespec now;
  if (ticks == 0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
  return max_size(ms, ticks * 1000 / rate) - ticks * 1000 / rate;
}

static uint64_t ms_of(struct timeval t) { return (uint64_t)(t.tv_sec * 1000 + t.tv_usec / 1000); }

void os_usage(os_usage_t *usage) {
  struct rusage used;
  if (OS_CALL(getrusage, RUSAGE_SELF, &used, 0, 0, 0, 0) < 0) memset(&used, 0, sizeof used);
  usage->elapsed_ms = elapsed_ms();
  usage->user_ms = ms_of(used.ru_utime), usage->system_ms = ms_of(used.ru_stime);
  usage->minor_faults = (uint64_t)used.ru_minflt, usage->major_faults = (uint64_t)used.ru_majflt;
  usage->peak_resident = (uint64_t)used.ru_maxrss << 10;
}

/* The number of the file that the next function last opened, plus 1; 0: none. relaxed: os.h */
static atomic32_t look_file;

/* The thread's state follows its name, which is in brackets and may contain brackets itself. */
bool os_thread_is_asleep(uint32_t number) {
  char name[64], text[256];
  fmt_t path;
  fmt_start(&path, name, sizeof name, NULL, NULL);
  fmt_print(&path, "/proc/self/task/%u/stat", number);
  int file = os_open(fmt_end(&path));
  if (file < 0) return false;
  atomic32_store_relaxed(&look_file, (uint32_t)file + 1);
  size_t at = os_read_whole(file, text, sizeof text);
  while (at > 0 && text[at - 1] != ')') at--; /* Bound: `text` */
  return at != 0 && at + 1 < sizeof text && (text[at + 1] == 'S' || text[at + 1] == 'D');
}

/* The system copies the table of files some time before it copies memory. So the noted number may
 * be closed here already, or belong to another look or to the program. A file is closed only if it
 * has such a name and was opened the way `os_open` does it. */
void os_begin_in_child(bool is_watched) {
  static const char in_proc[] = "/proc/", in_task[] = "/task/", state[] = "/stat";
  int file = (int)atomic32_load_relaxed(&look_file) - 1;
  char name[64], target[64] = "";
  fmt_t path;
  atomic32_store_relaxed(&call_threads, is_watched);
  if (file < 0) return;
  atomic32_store_relaxed(&look_file, 0);
  fmt_start(&path, name, sizeof name, NULL, NULL);
  fmt_print(&path, "/proc/self/fd/%u", (unsigned)file);
  os_read_link(fmt_end(&path), target, sizeof target - sizeof in_task);
  if (memcmp(target, in_proc, sizeof in_proc - 1) != 0) return;
  const char *at = strchr(target + 1, '/'); /* behind the process's number: its task */
  at = at != NULL ? strchr(at + 1, '/') : NULL;
  bool is_looks = at != NULL && memcmp(at, in_task, sizeof in_task - 1) == 0 &&
                  memcmp(strrchr(at, '/'), state, sizeof state - 1) == 0 &&
                  (OS_CALL(fcntl, file, F_GETFL, 0, 0, 0, 0) & O_NONBLOCK) != 0;
  if (is_looks) os_close(file);
}
