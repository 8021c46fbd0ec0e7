/* leak.c - a server of sixteen threads that forgets to free, for docs/insight.md
 *
 *   leak [REQUESTS]
 *
 * Each request allocates what it needs and frees it. One in a hundred is of a kind whose session
 * is remembered, and nobody forgets it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 16, SESSION_EACH = 100 };

typedef struct session {
  struct session *next;
  char user[200];
} session_t;

static session_t *sessions;
static pthread_mutex_t sessions_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void remember_session(unsigned user) {
  session_t *s = malloc(sizeof *s);
  if (s == NULL) abort();
  snprintf(s->user, sizeof s->user, "user %u", user);
  pthread_mutex_lock(&sessions_lock);
  s->next = sessions;
  sessions = s; /* and here it stays */
  pthread_mutex_unlock(&sessions_lock);
}

__attribute__((noinline)) static size_t answer(const char *request) {
  char *text = malloc(2000 + strlen(request) * 40);
  if (text == NULL) abort();
  int length = sprintf(text, "you said %s", request);
  free(text);
  return (size_t)length;
}

static void *serve(void *requests) {
  size_t sent = 0;
  for (unsigned i = 0; i < *(unsigned *)requests; i++) {
    char request[32];
    snprintf(request, sizeof request, "request %u", i);
    sent += answer(request);
    if (i % SESSION_EACH == 0) remember_session(i);
  }
  return (void *)sent;
}

int main(int argc, char **argv) {
  unsigned requests = argc > 1 ? (unsigned)atoi(argv[1]) : 200000;
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, serve, &requests) != 0) return 1;
  size_t sent = 0;
  for (int i = 0; i < THREADS; i++) {
    void *part;
    pthread_join(threads[i], &part);
    sent += (size_t)part;
  }
  printf("%zu bytes sent\n", sent);
  return 0;
}
