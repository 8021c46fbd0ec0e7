/* posix.c - what POSIX has alike everywhere: environment, threads, signals              layer 1: os
 * Contract: os.h. Owns:    the key of thread exit.   Calls: of libc pthread (keys, threads),
 *          sigfillset, sigaction, environ.
 * Threads: any; libc is called only where it neither locks nor allocates, except as os.h says. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#if !defined(_WIN32)
#include <pthread.h>
#include <signal.h>

#include "os.h"

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

/* The key plus one; 0: none yet. relaxed: the key is all there is to see. */
static atomic32_t thread_key;

void os_thread_set_leave(os_leave_t *leave) {
  pthread_key_t key;
  if (atomic32_load_relaxed(&thread_key) != 0) return;
  if (pthread_key_create(&key, leave) != 0) return;
  uint32_t none = 0; /* two first threads at once: the second one's key goes back */
  if (!atomic32_cas_relaxed(&thread_key, &none, key + 1)) pthread_key_delete(key);
}

bool os_thread_watch(void *heap) {
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
#endif
