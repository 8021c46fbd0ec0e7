/* threads.c - the names of the target's threads, by /proc/PID/task
 * Contract: threads.h. */
#include "threads.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"

static thread_t *list;
static size_t count, size;

static int by_number(const void *a, const void *b) {
  uint32_t first = ((const thread_t *)a)->number, second = ((const thread_t *)b)->number;
  return first < second ? -1 : first > second;
}

/* The last number behind NSpid is the one that the thread itself sees. */
static uint32_t last_number(const char *numbers) {
  uint32_t last = 0;
  for (char *end; *numbers != '\0'; numbers = end) {
    unsigned long n = strtoul(numbers, &end, 10);
    if (end == numbers) break;
    last = (uint32_t)n;
  }
  return last;
}

static void read_one(const char *task) {
  char path[320], line[256];
  thread_t thread = {.state = '?'};
  snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)target_pid(), task);
  FILE *file = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "Name:\t", 6) == 0) sscanf(line + 6, "%15[^\n]", thread.name);
    if (strncmp(line, "State:\t", 7) == 0) thread.state = line[7];
    if (strncmp(line, "NSpid:", 6) == 0) thread.number = last_number(line + 6);
  }
  if (file == NULL) return;
  fclose(file);
  target_make_printable(thread.name);
  if (thread.number == 0) thread.number = (uint32_t)atoi(task);
  if (count == size) list = realloc(list, (size = size * 2 + 64) * sizeof *list);
  if (list == NULL) abort();
  list[count++] = thread;
}

void threads_read(void) {
  char path[64];
  count = 0;
  if (!target_is_process()) return;
  snprintf(path, sizeof path, "/proc/%d/task", (int)target_pid());
  DIR *tasks = opendir(path);
  for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;)
    if (entry->d_name[0] != '.') read_one(entry->d_name);
  if (tasks != NULL) closedir(tasks);
  if (count != 0) qsort(list, count, sizeof *list, by_number);
}

uint32_t threads_main(void) {
  char number[16];
  snprintf(number, sizeof number, "%d", (int)target_pid());
  count = 0;
  read_one(number);
  return count != 0 ? list[0].number : (uint32_t)target_pid();
}

const thread_t *threads_find(uint32_t number) {
  thread_t key = {.number = number};
  if (count == 0 || number == 0) return NULL;
  return bsearch(&key, list, count, sizeof *list, by_number);
}
