/* measure.c - runs one program and says what it cost
 *
 *   measure REPORT [NAME=VALUE ...] -- PROGRAM [ARGUMENT ...]
 *
 * Writes one line to the file REPORT: wall seconds, processor seconds, peak resident KiB of its
 * largest process, page faults, and exits as the program did (128 + N after signal N). The
 * variables are set for the program alone.
 *
 * Why it is not a few lines in the Python that calls it: the kernel counts the peak of the process
 * that forked as a floor of the child's, and a Python interpreter is larger than some of the
 * programs that are measured. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t child;

/* Whoever ends us means the program. */
static void pass_on(int signal_number) {
  if (child > 0) kill(child, signal_number);
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

static int usage(void) {
  fputs("usage: measure REPORT [NAME=VALUE ...] -- PROGRAM [ARGUMENT ...]\n", stderr);
  return 2;
}

int main(int count, char **words) {
  int dashes = 2;
  while (dashes < count && strcmp(words[dashes], "--") != 0) dashes++;
  if (dashes + 1 >= count) return usage();

  double start = seconds_now();
  child = fork();
  if (child == 0) {
    for (int i = 2; i < dashes; i++) {
      if (strchr(words[i], '=') == NULL) _exit(usage());
      putenv(words[i]);
    }
    execvp(words[dashes + 1], words + dashes + 1);
    fprintf(stderr, "measure: cannot run %s: %s\n", words[dashes + 1], strerror(errno));
    _exit(127);
  }
  if (child < 0) {
    perror("measure: fork");
    return 2;
  }
  signal(SIGTERM, pass_on);
  signal(SIGINT, pass_on);

  int status;
  struct rusage used;
  while (wait4(child, &status, 0, &used) < 0) {
    if (errno != EINTR) {
      perror("measure: wait4");
      return 2;
    }
  }
  double wall = seconds_now() - start;

  FILE *report = fopen(words[1], "w");
  if (report == NULL) {
    fprintf(stderr, "measure: cannot write %s: %s\n", words[1], strerror(errno));
    return 2;
  }
  fprintf(report, "%.6f %.6f %ld %ld\n", wall,
          seconds_of(used.ru_utime) + seconds_of(used.ru_stime), used.ru_maxrss,
          used.ru_minflt + used.ru_majflt);
  if (fclose(report) != 0) {
    fprintf(stderr, "measure: cannot write %s: %s\n", words[1], strerror(errno));
    return 2;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
