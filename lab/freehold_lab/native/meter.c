/* meter.c - runs one program and says what it cost: time, memory over time, page faults
 *
 *   meter REPORT PERIOD PROCESSORS GROUP [NAME=VALUE ...] -- PROGRAM [WORD ...]
 *
 * Writes one JSON object to the file REPORT and exits as the program did (128 + N after signal N).
 * PERIOD is in milliseconds; 0: one look, when the program ends, however soon that is, and what
 * /proc/PID/smaps says then in the file REPORT.smaps. The program may use the first PROCESSORS of
 * ours, 0: all. It joins the control group in the folder GROUP, unless that is empty. The variables
 * are set for it alone.
 *
 * Not a few lines in the Python that calls it, because the kernel counts the forking process's peak
 * as a floor of the child's. The interpreter is larger than most of what is measured.
 *
 * Resident memory is that of the program and all its descendants, from /proc/PID/statm.
 * smaps_rollup would share out what processes have in common, but it walks every page table under a
 * lock that the program itself needs. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FAILED = 125, FIRST_VARIABLE = 5, PROCESSES_MOST = 512, SAMPLES_MOST = 256 };

typedef struct sample {
  double at, bytes;
} sample_t;

/* What was seen so far; every `stride`-th sample is kept, and the stride doubles
 * when there is no room left. */
typedef struct watch {
  const char *library; /* what LD_PRELOAD names: seen in a process's memory map? */
  bool mapped;
  double start, last_at, last_bytes, peak, integral, last_private;
  long count, stride;
  int kept;
  sample_t samples[SAMPLES_MOST];
} watch_t;

static pid_t child;

/* Whoever ends us means the program. */
static void pass_on(int signal_number) {
  if (child > 0) kill(child, signal_number);
}

__attribute__((noreturn)) static void fail(const char *what) {
  fprintf(stderr, "meter: %s: %s\n", what, strerror(errno));
  exit(FAILED);
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

/* The text of a file of /proc; empty when the process is gone. */
static void read_proc(pid_t process, const char *file, char *text, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", process, file);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
  text[length > 0 ? length : 0] = '\0';
  if (fd >= 0) close(fd);
}

static double resident_of(pid_t process) {
  char text[128];
  long total, resident;
  read_proc(process, "statm", text, sizeof text);
  return sscanf(text, "%ld %ld", &total, &resident) == 2
           ? (double)resident * (double)sysconf(_SC_PAGESIZE)
           : 0;
}

/* Adds the children of `process` that its main thread started. */
static int add_children(pid_t process, pid_t *found, int count) {
  char file[32], text[4096];
  snprintf(file, sizeof file, "task/%d/children", process);
  read_proc(process, file, text, sizeof text);
  for (char *rest = text, *end; count < PROCESSES_MOST; rest = end) {
    long number = strtol(rest, &end, 10);
    if (end == rest) break;
    found[count++] = (pid_t)number;
  }
  return count;
}

static bool maps(pid_t process, const char *library) {
  char path[64], line[4096];
  snprintf(path, sizeof path, "/proc/%d/maps", process);
  FILE *in = fopen(path, "re");
  bool found = false;
  while (in != NULL && !found && fgets(line, sizeof line, in) != NULL)
    found = strstr(line, library) != NULL;
  if (in != NULL) fclose(in);
  return found;
}

/* The resident bytes of the child and all its descendants. */
static double look(watch_t *w) {
  pid_t found[PROCESSES_MOST] = {child};
  int count = 1;
  double bytes = 0;
  for (int i = 0; i < count; i++) {
    bytes += resident_of(found[i]);
    if (!w->mapped && w->library != NULL) w->mapped = maps(found[i], w->library);
    count = add_children(found[i], found, count);
  }
  return bytes;
}

static void watch_keep(watch_t *w, double at, double bytes) {
  if (w->count++ % w->stride != 0) return;
  if (w->kept == SAMPLES_MOST) {
    for (int i = 0; i < SAMPLES_MOST / 2; i++) w->samples[i] = w->samples[2 * i];
    w->kept = SAMPLES_MOST / 2;
    w->stride *= 2;
  }
  w->samples[w->kept++] = (sample_t){at, bytes};
}

static void watch_add(watch_t *w, double bytes) {
  double at = seconds_now() - w->start;
  w->integral += (at - w->last_at) * (bytes + w->last_bytes) / 2;
  if (bytes > w->peak) w->peak = bytes;
  w->last_at = at;
  w->last_bytes = bytes;
  watch_keep(w, at, bytes);
}

/* Until the program ends; what it held last is counted up to then. */
static void watch_until_end(watch_t *w, int period) {
  int end = (int)syscall(SYS_pidfd_open, child, 0);
  if (end < 0) fail("pidfd_open");
  struct pollfd ended = {.fd = end, .events = POLLIN};
  int ready;
  while ((ready = poll(&ended, 1, period)) <= 0) {
    if (ready < 0 && errno != EINTR) fail("poll");
    double bytes = ready == 0 ? look(w) : 0;
    if (bytes > 0) watch_add(w, bytes); /* 0: it has just ended */
  }
  w->integral += (seconds_now() - w->start - w->last_at) * w->last_bytes;
  close(end);
}

/* What the process has written to and shares with nobody and no file. */
static double private_of(pid_t process) {
  char text[4096];
  double bytes = 0;
  read_proc(process, "smaps_rollup", text, sizeof text);
  const char *line = strstr(text, "Anonymous:");
  return line != NULL && sscanf(line, "Anonymous: %lf kB", &bytes) == 1 ? bytes * 1024 : 0;
}

static void copy_smaps(pid_t process, const char *report) {
  char from[64], to[4096], line[4096];
  snprintf(from, sizeof from, "/proc/%d/smaps", process);
  snprintf(to, sizeof to, "%s.smaps", report);
  FILE *in = fopen(from, "re"), *out = fopen(to, "we");
  if (in == NULL || out == NULL) fail(to);
  while (fgets(line, sizeof line, in) != NULL) fputs(line, out);
  fclose(in);
  if (fclose(out) != 0) fail(to);
}

/* The one look at a program that is stopped where it ends. What it starts is not traced. */
static void look_at_end(watch_t *w, const char *report) {
  int status, given = 0;
  if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) fail("no stop at exec");
  if (ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL) != 0)
    fail("ptrace");
  for (;;) {
    ptrace(PTRACE_CONT, child, 0, given);
    if (waitpid(child, &status, __WALL) < 0) fail("waitpid");
    given = WSTOPSIG(status);
    if (given == SIGTRAP) given = 0;
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) break;
  }
  watch_add(w, look(w));
  w->last_private = private_of(child);
  copy_smaps(child, report);
  ptrace(PTRACE_DETACH, child, 0, 0);
}

/* Of a program that ended before the first look: as if it had grown evenly, as between two
 * looks. */
static double unseen_integral(double wall, double peak) { return wall * peak / 2; }

static void write_report(const char *path, const watch_t *w, double wall,
                         const struct rusage *used) {
  FILE *out = fopen(path, "we");
  if (out == NULL) fail(path);
  double peak = (double)used->ru_maxrss * 1024;
  double integral = w->count > 0 ? w->integral : unseen_integral(wall, peak);
  fprintf(out,
          "{\"wall\": %.6f, \"user\": %.6f, \"system\": %.6f, \"peak\": %.0f, \"integral\": %.0f, ",
          wall, seconds_of(used->ru_utime), seconds_of(used->ru_stime),
          peak > w->peak ? peak : w->peak, integral);
  fprintf(out, "\"minor\": %ld, \"major\": %ld, \"switched\": %ld, \"resident\": [",
          used->ru_minflt, used->ru_majflt, used->ru_nivcsw);
  for (int i = 0; i < w->kept; i++) {
    fprintf(out, "%s[%.4f, %.0f]", i == 0 ? "" : ", ", w->samples[i].at, w->samples[i].bytes);
  }
  fprintf(out, "], \"private\": %.0f, \"mapped\": %s}\n", w->last_private,
          w->library == NULL ? "null"
          : w->mapped        ? "true"
                             : "false");
  if (fclose(out) != 0) fail(path);
}

/* Nothing runs on when the one who wants to know is gone. */
static void end_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

static void join(const char *group) {
  char path[4096];
  snprintf(path, sizeof path, "%s/cgroup.procs", group);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, "0", 1) != 1) fail(path);
  close(file);
}

/* The child's side of the fork. */
__attribute__((noreturn)) static void become(char **words, int from, int dashes, int processors,
                                             bool is_traced) {
  end_with_parent();
  if (*words[from - 1] != '\0') join(words[from - 1]);
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (int cpu = 0, seen = 0; processors > 0 && cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &allowed) && seen++ >= processors) CPU_CLR(cpu, &allowed);
  }
  if (sched_setaffinity(0, sizeof allowed, &allowed) != 0) fail("sched_setaffinity");
  for (int i = from; i < dashes; i++) putenv(words[i]);
  if (is_traced && ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) fail("ptrace");
  execvp(words[dashes + 1], words + dashes + 1);
  fail(words[dashes + 1]);
}

int main(int count, char **words) {
  int dashes = FIRST_VARIABLE;
  while (dashes < count && strcmp(words[dashes], "--") != 0) dashes++;
  if (dashes + 1 >= count) {
    fputs("usage: meter REPORT PERIOD PROCESSORS GROUP [NAME=VALUE ...] -- PROGRAM [WORD ...]\n",
          stderr);
    return FAILED;
  }

  end_with_parent();
  static watch_t watch = {.stride = 1};
  static const char preload[] = "LD_PRELOAD=";
  for (int i = FIRST_VARIABLE; i < dashes; i++) {
    if (strncmp(words[i], preload, sizeof preload - 1) == 0)
      watch.library = words[i] + sizeof preload - 1;
  }
  watch.start = seconds_now();
  child = fork();
  if (child < 0) fail("fork");
  int period = atoi(words[2]);
  if (child == 0) become(words, FIRST_VARIABLE, dashes, atoi(words[3]), period == 0);
  signal(SIGTERM, pass_on);
  signal(SIGINT, pass_on);
  if (period == 0) look_at_end(&watch, words[1]);
  else watch_until_end(&watch, period);
  double wall = seconds_now() - watch.start;

  int status;
  struct rusage used;
  if (wait4(child, &status, 0, &used) < 0) fail("wait4");
  write_report(words[1], &watch, wall, &used);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
