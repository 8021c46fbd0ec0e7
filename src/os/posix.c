/* posix.c - what POSIX has alike everywhere: files, threads, clocks, environment        layer 1: os
 * Contract: os.h. Owns: the key of thread exit. Calls: of libc pthread (keys, threads),
 *          sigfillset, sigaction, clock_gettime, environ.
 * Threads: any; libc is called only where it neither locks nor allocates, except as os.h says. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#if !defined(_WIN32)
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bsd/call.h"
#include "linux/call.h"

#if defined(__APPLE__)
#include <crt_externs.h>
#define environ (*_NSGetEnviron())
#else
extern char **environ;
#endif

const char *os_environment(const char *name) {
  size_t length = strlen(name);
  if (os_is_raised() || environ == NULL) return NULL;
  for (char **e = environ; *e != NULL; e++) /* Bound: the environment */
    if (strncmp(*e, name, length) == 0 && (*e)[length] == '=') return *e + length + 1;
  return NULL;
}

/* The key plus one; 0: none yet. relaxed: there is nothing else to see. */
static atomic32_t thread_key;

void os_thread_set_leave(os_leave_t *leave) {
  pthread_key_t key;
  if (atomic32_load_relaxed(&thread_key) != 0) return;
  if (pthread_key_create(&key, leave) != 0) return;
  uint32_t none = 0; /* two threads may come first: the loser deletes its key */
  if (!atomic32_cas_relaxed(&thread_key, &none, key + 1)) pthread_key_delete(key);
}

#ifdef __GLIBC__ /* its pthread_atfork needs a start file that the library does not link */
typedef void at_fork_t(void);
extern int __register_atfork(at_fork_t *before, at_fork_t *parent, at_fork_t *child, void *object);
#pragma weak __register_atfork
#pragma weak pthread_atfork /* of another C library that the object is linked with */
extern hidden char __dso_handle __attribute__((weak)); /* 0 in the library, which stays loaded */
void os_on_fork(void (*child)(void)) {
  if (__register_atfork != NULL) __register_atfork(NULL, NULL, child, &__dso_handle);
  else if (pthread_atfork != NULL) pthread_atfork(NULL, NULL, child);
}
#else
void os_on_fork(void (*child)(void)) { pthread_atfork(NULL, NULL, child); }
#endif

bool os_thread_watch(void *heap) {
  call_note_thread();
  uint32_t key = atomic32_load_relaxed(&thread_key);
  return key != 0 && pthread_setspecific(key - 1, heap) == 0;
}

static void *thread_run(void *run) {
  ((void (*)(void))run)();
  return NULL;
}

bool os_thread_start(void (*run)(void)) {
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&thread, &attributes, thread_run, (void *)run) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return started;
}

bool os_on_signal(int number, void (*handler)(int number)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK}, before;
  if (sigaction(number, NULL, &before) != 0 || before.sa_handler != SIG_DFL) return false;
  return sigaction(number, &action, NULL) == 0;
}

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) return 0;
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
uint64_t os_now_ns(void) { return clock_ns(CALL_FINE); }
uint64_t os_spent_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
uint32_t os_now_ms(void) { return (uint32_t)(clock_ns(CALL_COARSE) / 1000000); }

/* ---- files ----------------------------------------------------------------------------------- */

int call_open(const char *path, int flags) {
  long file = OS_CALL(openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
  return file < 0 ? -1 : (int)file;
}
int os_open(const char *path) { return call_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY); }
int os_create(const char *path) {
  return call_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
}
int os_append(const char *path) {
  int file = call_open(path, O_WRONLY | O_APPEND | O_NONBLOCK);
  if (file >= 0) OS_CALL(fcntl, file, F_SETFL, O_APPEND);
  return file;
}

size_t os_read(int file, char *text, size_t size) {
  long got;
  do got = OS_CALL(read, file, text, size); /* Bound: signals that come meanwhile */
  while (got == -EINTR);
  return got > 0 ? (size_t)got : 0;
}
static bool may_write(int file, size_t length) {
  struct stat_of_kernel about;
  if (OS_CALL(fstat, file, &about) < 0 || !S_ISREG(about.st_mode)) return true;
  bool appends = (OS_CALL(fcntl, file, F_GETFL, 0) & O_APPEND) != 0;
  int64_t at = appends ? (int64_t)about.st_size : OS_CALL(lseek, file, 0, SEEK_CUR);
  return at < 0 || call_is_within_limit((uint64_t)at + length);
}
bool os_write(int file, const char *text, size_t length) {
  if (!may_write(file, length)) return false;
  while (length > 0) { /* Bound: the text's bytes, and signals that come meanwhile */
    long wrote = OS_CALL(write, file, text, length);
    if (wrote == -EINTR) continue;
    if (wrote <= 0) return false;
    text += wrote;
    length -= (size_t)wrote;
  }
  return true;
}
void os_close(int file) { OS_CALL(close, file); }

bool os_rename(const char *from, const char *to) {
  return OS_CALL(renameat2, AT_FDCWD, from, AT_FDCWD, to, 0) == 0;
}
void os_remove(const char *path) { OS_CALL(unlinkat, AT_FDCWD, path, 0); }
size_t os_read_link(const char *path, char *text, size_t size) {
  long got = OS_CALL(readlinkat, AT_FDCWD, path, text, size);
  return got > 0 ? (size_t)got : 0;
}
bool os_is_special(const char *path) {
  struct stat_of_kernel about;
  return OS_CALL(newfstatat, AT_FDCWD, path, &about, 0) == 0 && !S_ISREG(about.st_mode);
}
int os_duplicate(int file, int least) {
  long copy = OS_CALL(fcntl, file, F_DUPFD_CLOEXEC, least);
  return copy < 0 ? -1 : (int)copy;
}
uint64_t os_file_identity(int file) {
  struct stat_of_kernel about;
  if (OS_CALL(fstat, file, &about) < 0) return 0;
  return ((uint64_t)about.st_dev << 40 ^ (uint64_t)about.st_ino) | (uint64_t)1 << 63;
}
#endif
